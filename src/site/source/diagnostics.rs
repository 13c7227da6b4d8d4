//! Mistakes of an author: collected over all files, placed, and told all at once.
//!
//! In come mistakes that name a place by file and JSON pointer, from whoever finds them; out goes a report sorted by file,
//! line and column, with the source line of each. What always holds: finding the place of a pointer costs one pass over its
//! file, and only for files that the report shows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::files::Files;
use super::syntax;
use crate::limits::{EXCERPT_CHARS_MAX, MISTAKES_SHOWN_MAX};

/// One mistake. `expected` and `came` are phrases without a full stop: "an object", "the number 3".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Relative to the site's folder, with `/`.
    pub file: String,
    /// RFC 6901; empty for the whole file.
    pub pointer: String,
    pub at: At,
    pub expected: String,
    pub came: String,
    /// The nearest name that would have been right.
    pub nearest: Option<String>,
}

/// What of the pointer's target is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The name of the member.
    Key,
    Value,
    /// These bytes of the file: where the finder stood on them, or where no pointer leads (a broken text, a doubled member).
    Span(Range<usize>),
}

impl Mistake {
    /// What a value says is wrong.
    pub fn of_value(
        file: &str,
        pointer: impl Into<String>,
        expected: impl Into<String>,
        came: impl Into<String>,
    ) -> Mistake {
        let (pointer, expected, came) = (pointer.into(), expected.into(), came.into());
        Mistake { file: file.to_owned(), pointer, at: At::Value, expected, came, nearest: None }
    }

    /// A member's name is wrong.
    pub fn of_key(
        file: &str,
        pointer: impl Into<String>,
        expected: impl Into<String>,
        came: impl Into<String>,
    ) -> Mistake {
        Mistake { at: At::Key, ..Mistake::of_value(file, pointer, expected, came) }
    }

    pub fn with_nearest(self, nearest: Option<String>) -> Mistake {
        Mistake { nearest, ..self }
    }
}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    pub fn add(&mut self, mistake: Mistake) {
        self.0.push(mistake);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Places the first `MISTAKES_SHOWN_MAX` mistakes by file, line and column. `files` are those that the mistakes are about.
    pub fn report(&self, files: &Files) -> Report {
        let mut sorted: Vec<&Mistake> = self.0.iter().collect();
        sorted.sort_by_key(|mistake| &mistake.file);
        let mut shown = Vec::new();
        for group in sorted.chunk_by(|a, b| a.file == b.file) {
            let room = MISTAKES_SHOWN_MAX - shown.len();
            if room == 0 {
                break;
            }
            shown.extend(place(group, files.bytes(&group[0].file), room));
        }
        Report { more: self.len() - shown.len(), shown, what: "mistake" }
    }
}

/// What the author is told: `Display` is the text for a terminal, the fields are for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Sorted by file, line and column; at most `MISTAKES_SHOWN_MAX`.
    pub shown: Vec<Placed>,
    /// How many mistakes are not shown.
    pub more: usize,
    what: &'static str,
}

impl Report {
    /// The report of what does not stop a compile.
    pub fn of_warnings(self) -> Self {
        Self { what: "warning", ..self }
    }
}

/// A mistake with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub mistake: Mistake,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// None where there is no such file, or nothing of it was read.
    pub excerpt: Option<Excerpt>,
}

/// What of a source line is shown, without control characters: the middle is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    pub before: String,
    pub fault: String,
    pub after: String,
}

impl std::error::Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for placed in &self.shown {
            writeln!(out, "{placed}")?;
        }
        let what = self.what;
        match self.shown.len() + self.more {
            1 => write!(out, "1 {what}"),
            all if self.more == 0 => write!(out, "{all} {what}s"),
            all => write!(out, "{all} {what}s, {} more than are shown", self.more),
        }
    }
}

/// Whatever a file or its name holds, no control character of it reaches the terminal.
impl fmt::Display for Placed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mistake, line, column) = (&self.mistake, self.line, self.column);
        let gutter = line.to_string().len();
        let at = format!("{}:{line}:{column}  {}", mistake.file, mistake.pointer);
        writeln!(out, "{}", printable(at.trim_end()))?;
        if let Some(excerpt) = &self.excerpt {
            let indent = excerpt.before.chars().count();
            let carets = "^".repeat(excerpt.fault.chars().count().max(1));
            writeln!(out, " {line} | {excerpt}")?;
            writeln!(out, " {:gutter$} | {:indent$}{carets}", "", "")?;
        }
        let (expected, came) = (printable(&mistake.expected), printable(&mistake.came));
        writeln!(out, " {:gutter$} = expected {expected}", "")?;
        writeln!(out, " {:gutter$} = came     {came}", "")?;
        match &mistake.nearest {
            Some(name) => writeln!(out, " {:gutter$} = nearest  `{}`", "", printable(name)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}{}", self.before, self.fault, self.after)
    }
}

/// The first `room` mistakes of one file by place.
fn place(mistakes: &[&Mistake], bytes: Option<&[u8]>, room: usize) -> Vec<Placed> {
    let bytes = bytes.unwrap_or_default();
    let spans = spans(mistakes, bytes);
    let mut ordered: Vec<_> = mistakes.iter().zip(spans).collect();
    ordered.sort_by_key(|(_, span)| span.start);
    ordered.truncate(room);
    ordered.into_iter().map(|(mistake, span)| placed(mistake, bytes, span)).collect()
}

/// The bytes of each mistake; the file's beginning where a pointer leads nowhere.
fn spans(mistakes: &[&Mistake], bytes: &[u8]) -> Vec<Range<usize>> {
    let wanted = mistakes.iter().filter(|mistake| !matches!(mistake.at, At::Span(_)));
    let wanted: HashSet<&str> = wanted.map(|mistake| mistake.pointer.as_str()).collect();
    let mut found = HashMap::new();
    if !wanted.is_empty()
        && let Ok(tree) = syntax::text(bytes).and_then(syntax::tree)
    {
        find(&tree, None, &mut String::new(), &wanted, &mut found);
    }
    let span = |mistake: &&Mistake| match (&mistake.at, found.get(mistake.pointer.as_str())) {
        (At::Span(span), _) => span.clone(),
        (At::Key, Some((Some(key), _))) => key.clone(),
        (_, Some((_, value))) => value.clone(),
        (_, None) => 0..0,
    };
    mistakes.iter().map(span).collect()
}

/// The spans of a pointer's member name (an element and the root have none) and value.
type Found<'a> = HashMap<&'a str, (Option<Range<usize>>, Range<usize>)>;

fn find<'a>(
    value: &Value<'_>,
    key: Option<Range<usize>>,
    pointer: &mut String,
    wanted: &HashSet<&'a str>,
    found: &mut Found<'a>,
) {
    if let Some(wanted) = wanted.get(pointer.as_str()) {
        found.insert(wanted, (key, span_of(value)));
    }
    let length = pointer.len();
    match value {
        Value::Object(object) => {
            for member in &object.properties {
                push_token(pointer, member.name.as_str());
                find(&member.value, Some(span_of(&member.name)), pointer, wanted, found);
                pointer.truncate(length);
            }
        }
        Value::Array(array) => {
            for (index, element) in array.elements.iter().enumerate() {
                push_token(pointer, &index.to_string());
                find(element, None, pointer, wanted, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// The bytes of a tree's node.
pub(super) fn span_of(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

fn placed(mistake: &Mistake, bytes: &[u8], span: Range<usize>) -> Placed {
    let newline = |&byte: &u8| byte == b'\n';
    let start = bytes[..span.start].iter().rposition(newline).map_or(0, |at| at + 1);
    let length = bytes[span.start..].iter().position(newline);
    let end = length.map_or(bytes.len(), |length| span.start + length);
    let fault_end = span.end.clamp(span.start, end);
    let parts = [start..span.start, span.start..fault_end, fault_end..end];
    let [before, fault, after] = parts.map(|part| String::from_utf8_lossy(&bytes[part]));
    Placed {
        mistake: mistake.clone(),
        line: 1 + bytes[..start].iter().filter(|byte| newline(byte)).count(),
        column: 1 + before.chars().count(),
        excerpt: (!bytes.is_empty()).then(|| excerpt(&before, &fault, &after)),
    }
}

/// Cuts a line to `EXCERPT_CHARS_MAX` characters: a third at most before the fault, half for the fault itself.
fn excerpt(before: &str, fault: &str, after: &str) -> Excerpt {
    let skip = before.chars().count().saturating_sub(EXCERPT_CHARS_MAX / 3);
    let before = match skip {
        0 => before.to_owned(),
        _ => format!("…{}", before.chars().skip(skip + 1).collect::<String>()),
    };
    let fault = cut(fault, EXCERPT_CHARS_MAX / 2);
    let room = EXCERPT_CHARS_MAX - before.chars().count() - fault.chars().count();
    let after = cut(after.trim_end(), room);
    let [before, fault, after] = [before, fault, after].map(|part| printable(&part));
    Excerpt { before, fault, after }
}

fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// The text in at most `chars` characters; an ellipsis is the last where some were left out.
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The text with letters that cannot be seen written as escapes.
pub fn visible(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// Puts a member's name or an element's index at the end of a JSON pointer.
pub fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    if !token.contains(['~', '/']) {
        return pointer.push_str(token);
    }
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}
