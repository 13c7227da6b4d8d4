//! Regular expressions: one state per byte of the text, nothing allocated, nothing shared that
//! changes.
//!
//! In come the sources that conditions name by index, out goes whether a text holds a match. Every
//! expression becomes a table that all workers read at once. One whose table would be large, which
//! takes a counted repetition after something vague (`a.{20}b`), is refused.
//!
//! The syntax is that of the `regex` crate, without look-around and backreferences; `\d \w \b` mean
//! ASCII, as in JavaScript.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Input, util::syntax};

use crate::limits::{PATTERN_BYTES_MAX, PATTERN_DFA_BYTES_MAX, PATTERN_NFA_BYTES_MAX, PATTERNS_MAX};

/// The regular expressions of one site.
#[derive(Debug)]
pub struct Patterns(Vec<Table>);

type Table = dense::DFA<Vec<u32>>;

/// Why a text is no regular expression of ours.
#[derive(Debug, thiserror::Error)]
pub enum PatternFault {
    #[error("{0}")]
    Syntax(String),
    #[error("{bytes} bytes are too long, the limit is {PATTERN_BYTES_MAX}")]
    Long { bytes: usize },
    #[error("it takes too much memory")]
    Large,
}

/// Why the regular expressions of a site cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternsFault {
    #[error("regular expression {index}: {fault}")]
    Pattern { index: usize, fault: PatternFault },
    #[error("{count} regular expressions are too many, the limit is {PATTERNS_MAX}")]
    Many { count: usize },
}

impl Patterns {
    /// Builds the table that [`super::Condition::compile`] filled, each expression in some
    /// milliseconds.
    pub fn new(sources: &[impl AsRef<str>]) -> Result<Self, PatternsFault> {
        if sources.len() > PATTERNS_MAX {
            return Err(PatternsFault::Many { count: sources.len() });
        }
        let build = |(index, source): (usize, &_)| {
            let source: &str = AsRef::as_ref(source);
            build(source).map_err(|fault| PatternsFault::Pattern { index, fault })
        };
        sources.iter().enumerate().map(build).collect::<Result<_, _>>().map(Patterns)
    }

    /// Whether the text holds a match of the expression; where there is no such expression, not.
    pub fn is_match(&self, index: usize, text: &str) -> bool {
        let input = Input::new(text).earliest(true);
        let found = self.0.get(index).map(|table| table.try_search_fwd(&input));
        matches!(found, Some(Ok(Some(_))))
    }

    /// What the expressions hold, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.iter().map(Table::memory_usage).sum()
    }
}

/// The source to be given to [`Patterns::new`] for an expression as an author wrote it.
pub(super) fn source(written: &str, caseless: bool) -> Result<String, PatternFault> {
    if written.len() > PATTERN_BYTES_MAX {
        return Err(PatternFault::Long { bytes: written.len() });
    }
    let mut source = String::from(if caseless { "(?i)" } else { "" });
    push_as_ascii(written, &mut source);
    build(&source)?;
    Ok(source)
}

/// Writes `\d \D \w \W \b \B` as what they mean in ASCII. All of Unicode's letters would make tables
/// a hundred times as large, and its boundaries of words fit in no table. Classes may stand in
/// classes, so those are one text in `[]` and outside; a boundary in `[]` stays, and is refused.
fn push_as_ascii(written: &str, source: &mut String) {
    let mut classes = 0_usize;
    let mut chars = written.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\\' {
            let escaped = chars.next();
            // What follows `\b` in braces makes it another boundary.
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
                // A bracket that closes nothing stands for itself.
                source.extend(chars.next_if_eq(&']'));
            }
            ']' => classes = classes.saturating_sub(1),
            _ => {}
        }
    }
}

fn build(source: &str) -> Result<Table, PatternFault> {
    let parsed = syntax::parse(source).map_err(|error| syntax_fault(&error.to_string()))?;
    let nfa = NFA::compiler()
        .configure(
            thompson::Config::new()
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(PATTERN_NFA_BYTES_MAX)),
        )
        .build_from_hir(&parsed)
        .map_err(|_| PatternFault::Large)?;
    dense::Builder::new().configure(config()).build_from_nfa(&nfa).map_err(|error| table_fault(&error))
}

fn config() -> dense::Config {
    dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(PATTERN_DFA_BYTES_MAX))
        .determinize_size_limit(Some(PATTERN_DFA_BYTES_MAX))
}

/// The parser draws the place in several lines and states the reason in the last.
fn syntax_fault(drawn: &str) -> PatternFault {
    let reason = drawn.lines().next_back().unwrap_or_default();
    PatternFault::Syntax(reason.trim_start_matches("error: ").to_owned())
}

fn table_fault(error: &dense::BuildError) -> PatternFault {
    if error.is_size_limit_exceeded() { PatternFault::Large } else { PatternFault::Syntax(error.to_string()) }
}
