//! Parses one authored file as JSON and records the byte range of every value and member name.
//!
//! `serde_json` alone decides whether a text is valid JSON (RFC 8259, whole surrogate pairs, finite numbers,
//! bounded nesting). The tree of jsonc-parser adds the byte ranges. Parsing stops at the first error of a
//! file.

use std::borrow::Cow;
use std::ops::Range;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::error::Category;

use super::diagnostics::escape_invisible;
use crate::limits::SOURCE_NESTING_MAX;

/// An error of UTF-8 or JSON syntax, with its byte range in the file.
#[derive(Debug)]
pub(super) struct ParseError {
    pub span: Range<usize>,
    /// See [`Diagnostic::title`](super::diagnostics::Diagnostic::title).
    pub title: Option<String>,
    pub expected: String,
    pub actual: String,
}

/// Decodes a file as UTF-8.
///
/// # Errors
/// The first byte that is not UTF-8.
pub(super) fn decode_utf8(bytes: &[u8]) -> Result<&str, ParseError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        ParseError {
            span: at..at + 1,
            title: Some("invalid UTF-8".to_owned()),
            expected: "text in UTF-8".to_owned(),
            actual: format!("the byte 0x{:02x}", bytes[at]),
        }
    })
}

/// Parses a text into a tree. Spans are bytes of the text; the span of a string or a member name includes the
/// quotes.
///
/// # Errors
/// The first place that is not JSON, or that is nested deeper than `SOURCE_NESTING_MAX`.
pub(super) fn parse(text: &str) -> Result<Value<'_>, ParseError> {
    serde_json::from_str::<serde_json::Value>(text).map_err(|error| parse_error(text, &error))?;
    parse_tree(text)
}

/// Parses a text that `serde_json` has accepted, or returns the error of jsonc-parser.
pub(super) fn parse_tree(text: &str) -> Result<Value<'_>, ParseError> {
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let not_json = |span, actual: String| {
        let (title, expected, actual) = invalid_json(&actual);
        ParseError { span, title, expected, actual }
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &strict);
    let parsed = parsed.map_err(|error| {
        let range = error.range();
        not_json(range.start..range.end, error.kind().to_string())
    })?;
    parsed.value.ok_or_else(|| not_json(0..0, "an empty file".to_owned()))
}

/// Replaces a member of the root object, and the comma beside it, by spaces. All other bytes keep their
/// place.
pub(super) fn blank_member<'t>(text: &'t str, tree: &Value<'_>, name: &str) -> Cow<'t, str> {
    let members = tree.as_object().map_or(&[][..], |object| &object.properties);
    let Some(at) = members.iter().position(|member| member.name.as_str() == name) else {
        return text.into();
    };
    let own = &members[at];
    let (begin, end) = match at {
        0 => (own.start(), members.get(1).map_or(own.end(), Ranged::start)),
        _ => (members[at - 1].end(), own.end()),
    };
    format!("{}{}{}", &text[..begin], " ".repeat(end - begin), &text[end..]).into()
}

/// Converts an error of `serde_json`, with its place in the text.
pub(super) fn parse_error(text: &str, error: &serde_json::Error) -> ParseError {
    let at = match error.classify() {
        Category::Eof => text.len(),
        _ => byte_offset(text, error.line(), error.column()),
    };
    let next = text[at..].chars().next();
    if let Some(error) = find_look_alike(text, at, &error.to_string()) {
        return error;
    }
    let at = if next.is_some() { at } else { text.trim_end().len() };
    let (title, expected, actual) = describe_error(&error.to_string(), next);
    ParseError { span: at..at + next.map_or(0, char::len_utf8), title, expected, actual }
}

/// Returns the error of a character that looks like one of JSON. It is at `error_offset`, or it is a quotation mark that ends a
/// string before `error_offset` for the author only.
fn find_look_alike(text: &str, error_offset: usize, message: &str) -> Option<ParseError> {
    let messages = ["control character", "expected `:`", "expected `,`"];
    let line = text[..error_offset].trim_end_matches(['\n', '\r']).rfind('\n').map_or(0, |end| end + 1);
    let ends_string = |(at, quote): &(usize, char)| {
        let rest = text[at + quote.len_utf8()..].trim_start_matches([' ', '\t', '\r']);
        let ends = rest.is_empty() || rest.starts_with([':', ',', '}', ']', '\n']);
        ends && is_double_quote(*quote)
    };
    let mut before =
        text[line..error_offset].char_indices().map(|(offset, c)| (line + offset, c)).filter(ends_string);
    let next = text[error_offset..]
        .chars()
        .next()
        .map(|c| (error_offset, c))
        .filter(|(_, c)| look_alike(*c).is_some());
    let is_swallowed = messages.iter().any(|begin| message.starts_with(begin));
    let (at, c) = next.or_else(|| before.next_back().filter(|_| is_swallowed))?;
    let (name, expected) = look_alike(c)?;
    let code = format!("U+{:04X}", u32::from(c));
    let title = Some(format!("invalid JSON: {name} ({code})"));
    Some(ParseError { span: at..at + c.len_utf8(), title, expected: expected.to_owned(), actual: code })
}

/// Returns the name of a character that looks like one of JSON, and the expected character.
fn look_alike(c: char) -> Option<(&'static str, &'static str)> {
    let name = match c {
        '\u{feff}' => return Some(("a byte order mark", "UTF-8 without a byte order mark (BOM)")),
        _ if is_double_quote(c) => {
            return Some(("a typographic quotation mark", "the quotation mark `\"` (U+0022)"));
        }
        '\u{2018}'..='\u{201b}' => {
            return Some(("a typographic apostrophe", "the quotation mark `\"` (U+0022)"));
        }
        '\u{a0}' => "a no-break space",
        '\u{202f}' => "a narrow no-break space",
        '\u{2028}' => "a line separator",
        '\u{2029}' => "a paragraph separator",
        '\u{200b}'..='\u{200d}' | '\u{2060}' => "an invisible character",
        c if c.is_whitespace() && !c.is_ascii() => "a space that JSON does not know",
        _ => return None,
    };
    Some((name, "a space (U+0020) or a line break between the values of JSON"))
}

fn is_double_quote(c: char) -> bool {
    matches!(c, '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2033}')
}

/// Converts a position of `serde_json`: lines count from 1, columns in bytes up to and including the invalid
/// byte.
fn byte_offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    text.floor_char_boundary(start + column.saturating_sub(1))
}

/// Returns title, expected and actual.
fn describe_error(message: &str, actual_char: Option<char>) -> (Option<String>, String, String) {
    let message = message.split(" at line ").next().unwrap_or(message);
    let actual = actual_char.map(|c| format!("`{}`", escape_invisible(c.encode_utf8(&mut [0; 4]))));
    let actual = actual.unwrap_or_else(|| "the end of the file".to_owned());
    if message.starts_with("recursion limit") {
        let expected = format!("at most {SOURCE_NESTING_MAX} levels of arrays and objects");
        return (
            Some("arrays and objects are nested too deeply".to_owned()),
            expected,
            "one more".to_owned(),
        );
    }
    if let Some(unfinished) = message.strip_prefix("EOF while parsing ") {
        return (None, format!("the rest of {unfinished}"), actual);
    }
    match message.strip_prefix("expected ") {
        Some("value") => (None, "a JSON value".to_owned(), actual),
        Some(expected) => (None, expected.to_owned(), actual),
        None => invalid_json(message),
    }
}

fn invalid_json(message: &str) -> (Option<String>, String, String) {
    (Some(format!("invalid JSON: {message}")), "JSON (RFC 8259)".to_owned(), message.to_owned())
}
