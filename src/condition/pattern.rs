//! Regular expressions as tables (dense DFAs).
//!
//! Conditions name the expressions by index. A search takes one state transition per byte, allocates nothing
//! and changes nothing, so all workers share the tables. An expression whose table would be too large is an
//! error. The usual cause is a counted repetition of a wide class, as in `a.{20}b`.
//!
//! A snapshot has the tables as bytes, so that only a compilation builds them. Opening checks them: a search in a checked table
//! ends and reads nothing outside of it.
//!
//! The syntax is that of the `regex` crate, without look-around and backreferences. `\d \w \b` match ASCII
//! only, as in JavaScript.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::{Input, util::syntax};

use crate::limits::{
    PATTERN_BYTES_MAX, PATTERN_DFA_BYTES_MAX, PATTERN_NFA_BUILD_BYTES_MAX, PATTERN_NFA_STATES_MAX,
    PATTERN_SETS_BYTES_MAX, PATTERNS_MAX,
};

/// The format of the bytes of a table, by the number that `regex-automata` writes into them.
pub const TABLE_FORMAT: u32 = 2;
/// Alignment of a table in memory, in bytes: its numbers have 32 bits.
const TABLE_ALIGNMENT: usize = 4;
/// Bytes of a table in addition to those in memory: the header, and the lengths of the parts.
const TABLE_EXTRA_BYTES_MAX: usize = 4 << 10;

/// The compiled regular expressions of one site.
#[derive(Debug)]
pub struct Patterns(Vec<Dfa>);

type Dfa = dense::DFA<Vec<u32>>;

/// The error for a text that is not a valid regular expression.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("{0}")]
    Syntax(String),
    #[error("it has {bytes} bytes, the limit is {PATTERN_BYTES_MAX}")]
    TooLong { bytes: usize },
    #[error("its automaton is too large; use smaller repetition counts")]
    TooLarge,
}

/// The error for a table of regular expressions that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternsError {
    #[error("regular expression {index}: {fault}")]
    Pattern { index: usize, fault: PatternError },
    #[error("the site has {count} regular expressions, the limit is {PATTERNS_MAX}")]
    TooMany { count: usize },
}

impl Patterns {
    /// Builds the expressions that [`super::Condition::compile`] collected. Each takes some milliseconds.
    pub fn new(sources: &[impl AsRef<str>]) -> Result<Self, PatternsError> {
        if sources.len() > PATTERNS_MAX {
            return Err(PatternsError::TooMany { count: sources.len() });
        }
        let build = |(index, source): (usize, &_)| {
            let source: &str = AsRef::as_ref(source);
            build_dfa(source).map_err(|fault| PatternsError::Pattern { index, fault })
        };
        sources.iter().enumerate().map(build).collect::<Result<_, _>>().map(Patterns)
    }

    /// Reads tables that [`Self::tables`] returned. They have the format [`TABLE_FORMAT`].
    ///
    /// # Errors
    /// The tables are damaged, or too many or too large.
    pub fn read<'t>(tables: impl ExactSizeIterator<Item = &'t [u8]>) -> Result<Self, &'static str> {
        if tables.len() > PATTERNS_MAX {
            return Err("there are too many regular expressions");
        }
        tables.map(read_table).collect::<Result<_, _>>().map(Patterns)
    }

    /// Returns the tables as bytes, which are the same on all machines.
    pub fn tables(&self) -> Vec<Vec<u8>> {
        let table = |dfa: &Dfa| {
            let (bytes, padding) = dfa.to_bytes_little_endian();
            bytes[padding..].to_vec()
        };
        self.0.iter().map(table).collect()
    }

    /// Returns whether the text contains a match of the expression. Returns false if the index is unknown.
    pub fn is_match(&self, index: usize, text: &str) -> bool {
        let input = Input::new(text).earliest(true);
        let found = self.0.get(index).map(|table| table.try_search_fwd(&input));
        matches!(found, Some(Ok(Some(_))))
    }

    /// Returns the memory use of the expressions, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.iter().map(Dfa::memory_usage).sum()
    }
}

/// Checks an author's expression and returns the source for [`Patterns::new`].
pub(super) fn prepare_source(expression: &str, is_caseless: bool) -> Result<String, PatternError> {
    if expression.len() > PATTERN_BYTES_MAX {
        return Err(PatternError::TooLong { bytes: expression.len() });
    }
    let mut source = String::from(if is_caseless { "(?i)" } else { "" });
    push_ascii_classes(expression, &mut source);
    build_dfa(&source)?;
    Ok(source)
}

/// Appends the expression with `\d \D \w \W \b \B` replaced by their ASCII meaning.
///
/// The classes of Unicode would make the tables a hundred times as large, and a dense DFA does not support
/// Unicode word boundaries. Classes can be nested, so the replacements for classes are valid both inside and
/// outside of `[]`. A boundary inside `[]` is not replaced, so the parser rejects it.
fn push_ascii_classes(expression: &str, source: &mut String) {
    let mut classes = 0_usize;
    let mut chars = expression.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\\' {
            let escaped = chars.next();
            // A brace after `\b` makes it another boundary, such as `\b{start}`.
            let is_boundary = classes == 0 && chars.peek() != Some(&'{');
            match escaped {
                Some('d') => source.push_str("[0-9]"),
                Some('D') => source.push_str("[^0-9]"),
                Some('w') => source.push_str("[0-9A-Za-z_]"),
                Some('W') => source.push_str("[^0-9A-Za-z_]"),
                Some('b') if is_boundary => source.push_str(r"(?-u:\b)"),
                Some('B') if is_boundary => source.push_str(r"(?-u:\B)"),
                _ => source.extend([char].into_iter().chain(escaped)),
            }
            continue;
        }
        source.push(char);
        match char {
            '[' => {
                classes += 1;
                source.extend(chars.next_if_eq(&'^'));
                // A `]` directly after the opening bracket is a literal.
                source.extend(chars.next_if_eq(&']'));
            }
            ']' => classes = classes.saturating_sub(1),
            _ => {}
        }
    }
}

fn build_dfa(source: &str) -> Result<Dfa, PatternError> {
    let parsed = syntax::parse(source).map_err(|error| syntax_error(&error.to_string()))?;
    let nfa = NFA::compiler()
        .configure(
            thompson::Config::new()
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(PATTERN_NFA_BUILD_BYTES_MAX)),
        )
        .build_from_hir(&parsed)
        .map_err(|_| PatternError::TooLarge)?;
    if nfa.states().iter().map(size).sum::<usize>() > PATTERN_NFA_STATES_MAX {
        return Err(PatternError::TooLarge);
    }
    dense::Builder::new().configure(dfa_config()).build_from_nfa(&nfa).map_err(|error| dfa_error(&error))
}

/// Returns the size of a state with its transitions.
fn size(state: &State) -> usize {
    1 + match state {
        State::Sparse(transitions) => transitions.transitions.len(),
        State::Dense(transitions) => transitions.transitions.len(),
        State::Union { alternates } => alternates.len(),
        _ => 0,
    }
}

/// Checks and copies a table.
fn read_table(bytes: &[u8]) -> Result<Dfa, &'static str> {
    if bytes.len() > PATTERN_DFA_BYTES_MAX + TABLE_EXTRA_BYTES_MAX {
        return Err("the table of a regular expression is too large");
    }
    let mut buffer = vec![0; bytes.len() + TABLE_ALIGNMENT];
    let from = buffer.as_ptr().align_offset(TABLE_ALIGNMENT);
    let aligned = &mut buffer[from..][..bytes.len()];
    aligned.copy_from_slice(bytes);
    match dense::DFA::from_bytes(aligned) {
        Ok((table, length)) if length == bytes.len() => Ok(table.to_owned()),
        _ => Err("the table of a regular expression is damaged"),
    }
}

fn dfa_config() -> dense::Config {
    dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(PATTERN_DFA_BYTES_MAX))
        .determinize_size_limit(Some(PATTERN_SETS_BYTES_MAX))
}

/// Extracts the reason. The parser's message shows the position in several lines and has the reason in the
/// last one.
fn syntax_error(message: &str) -> PatternError {
    let reason = message.lines().next_back().unwrap_or_default();
    PatternError::Syntax(reason.trim_start_matches("error: ").to_owned())
}

fn dfa_error(error: &dense::BuildError) -> PatternError {
    if error.is_size_limit_exceeded() {
        PatternError::TooLarge
    } else {
        PatternError::Syntax(error.to_string())
    }
}
