//! Finds the parameters of the functions in a source file.

use super::text::{is_word, line, words};

/// A parameter of a function. `self` is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Param<'c> {
    /// The line, from 1, of the function.
    pub(super) line: usize,
    pub(super) function: &'c str,
    /// A name, without `mut`, or a pattern.
    pub(super) pattern: &'c str,
    /// Its type, without references.
    pub(super) kind: &'c str,
}

/// Returns the parameters of all functions in the code.
pub(super) fn params(code: &str) -> Vec<Param<'_>> {
    let mut params = Vec::new();
    for at in words(code, "fn") {
        // A type such as `fn(&str)` has no name.
        let Some(signature) = code[at + "fn".len()..].strip_prefix(' ') else { continue };
        let function = &signature[..signature.find(|c| !is_word(c)).unwrap_or(signature.len())];
        let after = &signature[function.len()..];
        let after = if after.starts_with('<') { &after[closing(after) + 1..] } else { after };
        if !after.starts_with('(') {
            continue;
        }
        for param in split(&after[1..closing(after)], ',') {
            let Some((pattern, kind)) = split_once_outside(param, ':') else { continue };
            let pattern = without_attributes(pattern);
            let pattern = pattern.strip_prefix("mut ").unwrap_or(pattern);
            params.push(Param { line: line(code, at), function, pattern, kind: without_references(kind) });
        }
    }
    params
}

fn without_attributes(pattern: &str) -> &str {
    let mut rest = pattern.trim();
    while let Some(attribute) = rest.strip_prefix('#') {
        rest = attribute[closing(attribute) + 1..].trim_start();
    }
    rest
}

/// Returns a type without its references and their lifetimes.
fn without_references(kind: &str) -> &str {
    let mut rest = kind.trim();
    while let Some(inner) = rest.strip_prefix('&') {
        let inner = inner.trim_start();
        let inner =
            if inner.starts_with('\'') { inner.split_once(' ').map_or("", |parts| parts.1) } else { inner };
        rest = inner.strip_prefix("mut ").unwrap_or(inner).trim_start();
    }
    rest
}

/// Calls `visit` with each offset, its character and the number of open brackets there, until it returns `true`. A
/// bracket itself is outside of its pair. `<` and `>` are brackets if no space makes them operators.
fn scan(text: &str, mut visit: impl FnMut(usize, char, usize) -> bool) -> Option<usize> {
    let mut open = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            ')' | ']' | '}' => {
                open.truncate(open.iter().rposition(|bracket| *bracket != '<').unwrap_or(0));
            }
            '>' if before != '-' && open.last() == Some(&'<') => {
                open.pop();
            }
            _ => {}
        }
        if visit(at, c, open.len()) {
            return Some(at);
        }
        let is_angle = c == '<' && !text[at + 1..].starts_with([' ', '=', '<']);
        if matches!(c, '(' | '[' | '{') || is_angle {
            open.push(c);
        }
        before = c;
    }
    None
}

/// Returns the offset of the bracket that closes the one at the beginning of `text`.
pub(super) fn closing(text: &str) -> usize {
    let closes = |at, c, depth| at > 0 && depth == 0 && matches!(c, ')' | ']' | '}' | '>');
    scan(text, closes).unwrap_or(text.len() - 1)
}

/// Splits `text` at the separators outside of brackets, and drops empty parts.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut ends = Vec::new();
    scan(text, |at, c, depth| {
        if c == separator && depth == 0 {
            ends.push(at);
        }
        false
    });
    let starts = [0].into_iter().chain(ends.iter().map(|end| end + separator.len_utf8()));
    let parts =
        starts.zip(ends.iter().copied().chain([text.len()])).map(|(start, end)| text[start..end].trim());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Splits `text` at the first single separator outside of brackets.
pub(super) fn split_once_outside(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut before = ' ';
    let at = scan(text, |at, c, depth| {
        let is_double = before == separator || text[at + c.len_utf8()..].starts_with(separator);
        before = c;
        c == separator && depth == 0 && !is_double
    })?;
    Some((&text[..at], &text[at + separator.len_utf8()..]))
}

#[test]
fn parameters_have_patterns_and_types() {
    let code = "fn a<'b, F: Fn(u8) -> (u8, u8)>(&self, mut b: &'b mut Vec<(u8, c::D)>, (e, f): (u8, u8),) -> G {}\n\
                fn c() { d(e: 1) }\ntype H = fn(i: u8);\nfn j(#[k] [l, m]: &mut [u8; 2], n: fn(o: u8) -> u8);";
    let found: Vec<String> = params(code)
        .iter()
        .map(|param| format!("{} {} {}: {}", param.line, param.function, param.pattern, param.kind))
        .collect();
    assert_eq!(
        found,
        ["1 a b: Vec<(u8, c::D)>", "1 a (e, f): (u8, u8)", "4 j [l, m]: [u8; 2]", "4 j n: fn(o: u8) -> u8"]
    );
}
