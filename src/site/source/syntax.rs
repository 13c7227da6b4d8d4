//! One authored text as JSON whose every value and member name knows its bytes.
//!
//! In come a file's bytes; out comes the tree, or the one fault that ends reading this file. What is JSON is decided by
//! `serde_json` alone (RFC 8259, whole strings, finite numbers, bounded nesting); the tree adds the places.

use std::ops::Range;

use jsonc_parser::ast::Value;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::error::Category;

use super::diagnostics::visible;
use crate::limits::FILE_NESTING_MAX;

/// Where a text stops being JSON, in bytes of the file, and why.
#[derive(Debug)]
pub struct Break {
    pub span: Range<usize>,
    pub expected: String,
    pub came: String,
}

/// The text of a file.
///
/// # Errors
/// The first byte that is not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, Break> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Break {
            span: at..at + 1,
            expected: "text in UTF-8".to_owned(),
            came: format!("the byte 0x{:02x}", bytes[at]),
        }
    })
}

/// The tree of a text. Spans are bytes of the text; a string's and a member name's span includes its quotes.
///
/// # Errors
/// The first place that is not JSON, or is nested deeper than `FILE_NESTING_MAX`.
pub fn parse(text: &str) -> Result<Value<'_>, Break> {
    serde_json::from_str::<serde_json::Value>(text).map_err(|error| refused(text, &error))?;
    tree(text)
}

/// The tree of a text that `serde_json` has accepted, or what jsonc-parser has against it.
pub fn tree(text: &str) -> Result<Value<'_>, Break> {
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
    let not_json = |span, came| Break { span, expected: "JSON".to_owned(), came };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &strict);
    let parsed = parsed.map_err(|error| {
        let range = error.range();
        not_json(range.start..range.end, error.kind().to_string())
    })?;
    parsed.value.ok_or_else(|| not_json(0..0, "an empty file".to_owned()))
}

/// `serde_json`'s refusal of a text, with its place.
pub fn refused(text: &str, error: &serde_json::Error) -> Break {
    let at = match error.classify() {
        Category::Eof => text.len(),
        _ => byte_of(text, error.line(), error.column()),
    };
    let next = text[at..].chars().next();
    let at = if next.is_some() { at } else { text.trim_end().len() };
    let (expected, came) = in_our_words(&error.to_string(), next);
    Break { span: at..at + next.map_or(0, char::len_utf8), expected, came }
}

/// `serde_json` counts lines from 1 and columns in bytes, up to and including the offending one.
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    text.floor_char_boundary(start + column.saturating_sub(1))
}

fn in_our_words(message: &str, next: Option<char>) -> (String, String) {
    let message = message.split(" at line ").next().unwrap_or(message);
    let came = next.map(|next| format!("`{}`", visible(next.encode_utf8(&mut [0; 4]))));
    let came = came.unwrap_or_else(|| "the end of the file".to_owned());
    if message.starts_with("recursion limit") {
        let expected = format!("at most {FILE_NESTING_MAX} levels of arrays and objects");
        return (expected, "one more".to_owned());
    }
    if let Some(unfinished) = message.strip_prefix("EOF while parsing ") {
        return (format!("the rest of {unfinished}"), came);
    }
    match message.strip_prefix("expected ") {
        Some("value") => ("a JSON value".to_owned(), came),
        Some(expected) => (expected.to_owned(), came),
        None => ("JSON".to_owned(), message.to_owned()),
    }
}
