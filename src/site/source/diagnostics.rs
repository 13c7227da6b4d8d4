//! Diagnostics for authors of a site: collection over all files, location in the source, and rendering.
//!
//! The checks add diagnostics that name a place by file and JSON pointer. [`Diagnostics::report`] sorts them
//! by file, line and column and adds the source line of each. To find the pointers of one file costs one
//! parse of that file. The report parses only files whose diagnostics it shows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use serde_json::{Value as Json, json};

use super::files::Files;
use super::syntax;
use crate::nearest::nearest;

/// Number of diagnostics that one report shows. Nobody fixes more in one sitting, and a file of the wrong
/// kind can cause a million.
pub const DIAGNOSTICS_SHOWN_MAX: usize = 100;
/// Length of the source line that a diagnostic shows, in characters, so that a report on a file without line
/// breaks stays readable.
pub const EXCERPT_CHARS_MAX: usize = 120;

/// An error or a warning for the author. `expected` and `actual` are phrases without a full stop: "an
/// object", "the number 3".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The path relative to the site directory, with `/`.
    pub file: String,
    /// A JSON pointer (RFC 6901); empty for the whole file.
    pub pointer: String,
    pub target: Target,
    /// The headline. `None` renders as `expected ..., found ...`.
    pub title: Option<String>,
    pub expected: String,
    pub actual: String,
    /// The most similar valid name.
    pub nearest: Option<String>,
    /// Steps that remove the fault, a line each.
    pub help: &'static [&'static str],
}

/// The part of the source that the carets underline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The name of the member at the pointer.
    Key,
    Value,
    /// This byte range of the file. Used if the check already knows the bytes, or if no pointer leads there
    /// (invalid JSON, a duplicate member).
    Span(Range<usize>),
}

impl Diagnostic {
    /// Creates a diagnostic for the value at `pointer`.
    pub fn at_value(
        file: &str,
        pointer: impl Into<String>,
        expected: impl Into<String>,
        actual: impl ToString,
    ) -> Diagnostic {
        Diagnostic {
            file: file.to_owned(),
            pointer: pointer.into(),
            target: Target::Value,
            title: None,
            expected: expected.into(),
            actual: actual.to_string(),
            nearest: None,
            help: &[],
        }
    }

    /// Creates a diagnostic for the name of the member at `pointer`.
    pub fn at_key(
        file: &str,
        pointer: impl Into<String>,
        expected: impl Into<String>,
        actual: impl ToString,
    ) -> Diagnostic {
        Diagnostic { target: Target::Key, ..Diagnostic::at_value(file, pointer, expected, actual) }
    }

    pub fn with_nearest(self, suggestion: Option<String>) -> Diagnostic {
        Diagnostic { nearest: suggestion, ..self }
    }

    pub fn with_title(self, title: impl Into<String>) -> Diagnostic {
        Diagnostic { title: Some(title.into()), ..self }
    }

    fn headline(&self) -> String {
        let found = || format!("expected {}, found {}", self.expected, self.actual);
        replace_control_chars(&self.title.clone().unwrap_or_else(found))
    }

    /// Returns the headline and the note, without a place.
    pub(crate) fn summary(&self) -> String {
        self.headline() + &self.note().map(|note| format!(": {note}")).unwrap_or_default()
    }

    /// Returns the note below a title. It repeats the actual value only if the title does not contain it.
    fn note(&self) -> Option<String> {
        let title = self.title.as_ref()?;
        let found =
            if title.contains(&self.actual) { String::new() } else { format!(", found {}", self.actual) };
        Some(replace_control_chars(&format!("expected {}{found}", self.expected)))
    }
}

/// The diagnostics found so far.
#[derive(Debug, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    pub fn add(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Adds a diagnostic with a title for the value at `pointer`.
    pub fn add_titled(
        &mut self,
        file: &str,
        pointer: impl Into<String>,
        title: impl Into<String>,
        expected: impl Into<String>,
        actual: impl ToString,
    ) {
        self.add(Diagnostic::at_value(file, pointer, expected, actual).with_title(title));
    }

    /// Adds a diagnostic for an unknown name at `pointer`, with the most similar of the known names. `kind` says which
    /// kind of thing has the name.
    pub(crate) fn add_unknown<'n>(
        &mut self,
        file: &str,
        pointer: impl Into<String>,
        kind: &str,
        name: &str,
        expected: impl Into<String>,
        known_names: impl IntoIterator<Item = &'n str>,
    ) {
        let diagnostic = Diagnostic::at_value(file, pointer, expected, format!("{name:?}"));
        let diagnostic = diagnostic.with_title(format!("unknown {kind} {name:?}"));
        self.add(diagnostic.with_nearest(nearest(name, known_names)));
    }

    /// Adds the diagnostics of another part, after those found so far.
    pub(crate) fn append(&mut self, mut other: Diagnostics) {
        self.0.append(&mut other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<Diagnostic> {
        self.0
    }

    pub(crate) fn first(&self) -> Option<&Diagnostic> {
        self.0.first()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Locates the first `DIAGNOSTICS_SHOWN_MAX` diagnostics by file, line and column. `files` are the
    /// checked files.
    pub fn report(&self, files: &Files) -> Report {
        let mut sorted: Vec<&Diagnostic> = self.0.iter().collect();
        sorted.sort_by_key(|diagnostic| &diagnostic.file);
        let mut located = Vec::new();
        for group in sorted.chunk_by(|a, b| a.file == b.file) {
            let room = DIAGNOSTICS_SHOWN_MAX - located.len();
            if room == 0 {
                break;
            }
            located.extend(locate_first(group, files.bytes(&group[0].file), room));
        }
        Report { hidden_count: self.len() - located.len(), diagnostics: located, severity: Severity::Error }
    }
}

impl From<Vec<Diagnostic>> for Diagnostics {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Self(diagnostics)
    }
}

/// Located diagnostics for the author. `Display` renders them for a terminal; programs read the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Sorted by file, line and column; at most `DIAGNOSTICS_SHOWN_MAX`.
    pub diagnostics: Vec<LocatedDiagnostic>,
    /// The number of diagnostics above that limit.
    pub hidden_count: usize,
    severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

impl Report {
    /// Renders the diagnostics as warnings, which do not stop a compilation.
    pub fn as_warnings(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }
}

/// A diagnostic with its line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedDiagnostic {
    pub diagnostic: Diagnostic,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The source line; `None` if the file is missing, unreadable or empty.
    pub excerpt: Option<Excerpt>,
}

impl LocatedDiagnostic {
    /// Returns the diagnostic as an object. Its texts are those for a terminal.
    pub(crate) fn to_json(&self) -> Json {
        let Self { diagnostic, line, column, .. } = self;
        let nearest = diagnostic.nearest.as_deref().map(did_you_mean);
        let steps = diagnostic.help.iter().map(|step| (*step).to_owned());
        json!({
            "file": diagnostic.file, "line": line, "column": column, "pointer": diagnostic.pointer,
            "title": diagnostic.headline(), "expected": replace_control_chars(&diagnostic.expected),
            "found": replace_control_chars(&diagnostic.actual), "help": nearest.into_iter().chain(steps).collect::<Vec<_>>(),
        })
    }
}

/// Returns the sentence that names the most similar valid name.
fn did_you_mean(name: &str) -> String {
    format!("did you mean `{}`?", replace_control_chars(name))
}

/// The visible part of a source line, without control characters. The middle part gets the carets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    pub before: String,
    pub highlight: String,
    pub after: String,
}

impl std::error::Error for Report {}

/// Renders the diagnostics in the format of rustc, with a summary in the last line.
impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = self.severity.name();
        for placed in &self.diagnostics {
            writeln!(out, "{severity}: {placed}")?;
        }
        let count = self.diagnostics.len() + self.hidden_count;
        let plural = if count == 1 { "" } else { "s" };
        let not_shown = if self.hidden_count == 0 {
            String::new()
        } else {
            format!(" ({} not shown)", self.hidden_count)
        };
        let counts = format!("{count} {severity}{plural}{not_shown}");
        match self.severity {
            Severity::Error => write!(out, "error: compilation failed with {counts}"),
            Severity::Warning => write!(out, "warning: {counts} emitted"),
        }
    }
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Replaces control characters, so that the contents and names of files cannot send escape sequences to the
/// terminal.
impl fmt::Display for LocatedDiagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { diagnostic, line, column, .. } = self;
        let gutter = line.to_string().len();
        let pointer =
            if diagnostic.pointer.is_empty() { String::new() } else { format!(" at {}", diagnostic.pointer) };
        writeln!(out, "{}", diagnostic.headline())?;
        let place = replace_control_chars(&format!("{}:{line}:{column}{pointer}", diagnostic.file));
        writeln!(out, "{:gutter$}--> {place}", "")?;
        let note = diagnostic.note().map(|note| format!("note: {note}"));
        let help = diagnostic.nearest.as_deref().map(|name| format!("help: {}", did_you_mean(name)));
        let steps = diagnostic.help.iter().map(|step| format!("help: {step}"));
        let remarks: Vec<String> = note.into_iter().chain(help).chain(steps).collect();
        if let Some(excerpt) = &self.excerpt {
            let indent = excerpt.before.chars().count();
            let carets = "^".repeat(excerpt.highlight.chars().count().max(1));
            writeln!(out, "{:gutter$} |", "")?;
            writeln!(out, "{line} | {excerpt}")?;
            writeln!(out, "{:gutter$} | {:indent$}{carets}", "", "")?;
            if !remarks.is_empty() {
                writeln!(out, "{:gutter$} |", "")?;
            }
        }
        remarks.iter().try_for_each(|remark| writeln!(out, "{:gutter$} = {remark}", ""))
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}{}", self.before, self.highlight, self.after)
    }
}

/// Locates the first `diagnostics_max` diagnostics of one file, by position.
fn locate_first(
    diagnostics: &[&Diagnostic],
    bytes: Option<&[u8]>,
    diagnostics_max: usize,
) -> Vec<LocatedDiagnostic> {
    let bytes = bytes.unwrap_or_default();
    let spans = find_spans(diagnostics, bytes);
    let mut ordered: Vec<_> = diagnostics.iter().zip(spans).collect();
    ordered.sort_by_key(|(_, span)| span.start);
    ordered.truncate(diagnostics_max);
    ordered.into_iter().map(|(diagnostic, span)| locate(diagnostic, bytes, span)).collect()
}

/// Returns the line of each pointer in a file, counted from 1. A pointer that leads nowhere is in line 1.
pub(crate) fn find_lines(bytes: &[u8], pointers: &[String]) -> Vec<usize> {
    let diagnostics = pointers.iter().map(|pointer| Diagnostic::at_value("", pointer, "", ""));
    let diagnostics: Vec<Diagnostic> = diagnostics.collect();
    let spans = find_spans(&diagnostics.iter().collect::<Vec<_>>(), bytes);
    let newlines: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    spans.iter().map(|span| 1 + newlines.partition_point(|at| *at < span.start)).collect()
}

/// Returns the byte range of each diagnostic, or the start of the file if its pointer leads nowhere.
fn find_spans(diagnostics: &[&Diagnostic], bytes: &[u8]) -> Vec<Range<usize>> {
    let by_pointer = diagnostics.iter().filter(|diagnostic| !matches!(diagnostic.target, Target::Span(_)));
    let pointers: HashSet<&str> = by_pointer.map(|diagnostic| diagnostic.pointer.as_str()).collect();
    let mut spans = HashMap::new();
    if !pointers.is_empty()
        && let Ok(tree) = syntax::decode_utf8(bytes).and_then(syntax::parse_tree)
    {
        collect_spans(&tree, None, &mut String::new(), &pointers, &mut spans);
    }
    let span = |diagnostic: &&Diagnostic| match (&diagnostic.target, spans.get(diagnostic.pointer.as_str())) {
        (Target::Span(span), _) => span.clone(),
        (Target::Key, Some((Some(key), _))) => key.clone(),
        (_, Some((_, value))) => value.clone(),
        (_, None) => 0..0,
    };
    diagnostics.iter().map(span).collect()
}

/// The spans of the member name and of the value at each pointer. Elements and the root have no name.
type SpansByPointer<'a> = HashMap<&'a str, (Option<Range<usize>>, Range<usize>)>;

fn collect_spans<'a>(
    value: &Value<'_>,
    key_span: Option<Range<usize>>,
    pointer: &mut String,
    pointers: &HashSet<&'a str>,
    spans: &mut SpansByPointer<'a>,
) {
    if let Some(requested) = pointers.get(pointer.as_str()) {
        spans.insert(requested, (key_span, span_of(value)));
    }
    let length = pointer.len();
    match value {
        Value::Object(object) => {
            for member in &object.properties {
                push_token(pointer, member.name.as_str());
                collect_spans(&member.value, Some(span_of(&member.name)), pointer, pointers, spans);
                pointer.truncate(length);
            }
        }
        Value::Array(array) => {
            for (index, element) in array.elements.iter().enumerate() {
                push_token(pointer, &index.to_string());
                collect_spans(element, None, pointer, pointers, spans);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Returns the byte range of a node.
pub(super) fn span_of(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

fn locate(diagnostic: &Diagnostic, bytes: &[u8], span: Range<usize>) -> LocatedDiagnostic {
    let newline = |&byte: &u8| byte == b'\n';
    let start = bytes[..span.start].iter().rposition(newline).map_or(0, |at| at + 1);
    let length = bytes[span.start..].iter().position(newline);
    let end = length.map_or(bytes.len(), |length| span.start + length);
    let highlight_end = span.end.clamp(span.start, end);
    let parts = [start..span.start, span.start..highlight_end, highlight_end..end];
    let [before, highlight, after] = parts.map(|part| String::from_utf8_lossy(&bytes[part]));
    LocatedDiagnostic {
        diagnostic: diagnostic.clone(),
        line: 1 + bytes[..start].iter().filter(|byte| newline(byte)).count(),
        column: 1 + before.chars().count(),
        excerpt: (!bytes.is_empty()).then(|| make_excerpt(&before, &highlight, &after)),
    }
}

/// Cuts a line to `EXCERPT_CHARS_MAX` characters: at most a third before the highlight, and half for the
/// highlight.
fn make_excerpt(text_before: &str, highlight: &str, text_after: &str) -> Excerpt {
    let skip = text_before.chars().count().saturating_sub(EXCERPT_CHARS_MAX / 3);
    let before = match skip {
        0 => text_before.to_owned(),
        _ => format!("…{}", text_before.chars().skip(skip + 1).collect::<String>()),
    };
    let highlight = truncate(highlight, EXCERPT_CHARS_MAX / 2);
    let room = EXCERPT_CHARS_MAX - before.chars().count() - highlight.chars().count();
    let after = truncate(text_after.trim_end(), room);
    let [before, highlight, after] = [before, highlight, after].map(|part| replace_control_chars(&part));
    Excerpt { before, highlight, after }
}

/// Replaces control characters, and those that reorder the text after them (Unicode Standard Annex 9).
fn replace_control_chars(text: &str) -> String {
    let reorders = |c| matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let visible = |c: char| if c.is_control() || reorders(c) { ' ' } else { c };
    text.chars().map(visible).collect()
}

/// Cuts the text to `chars_max` characters. If it was longer, the last character is an ellipsis.
pub(crate) fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Escapes characters that are not visible.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => escaped.push(c),
            c => escaped.extend(c.escape_debug()),
        }
    }
    escaped
}

/// Returns a JSON pointer with a member name or an element index appended.
pub(crate) fn join_token(pointer: &str, token: &str) -> String {
    let mut pointer = pointer.to_owned();
    push_token(&mut pointer, token);
    pointer
}

/// Appends a member name or an element index to a JSON pointer.
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
