//! Names, literals and paths as TypeScript text.

use crate::json;
use crate::site::compile::paths::{is_pattern, param_name};

/// Returns the name of a property, in quotes if it is no identifier.
pub(super) fn property_name(name: &str) -> String {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || b"_$".contains(&byte);
    let is_identifier = name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    if is_identifier { name.to_owned() } else { quoted(name) }
}

/// Returns a string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    json::write_string(&mut out, text);
    String::from_utf8(out).expect("a JSON string is UTF-8")
}

/// Returns the type of the URL paths that an authored path matches: a string literal, or a template literal
/// for a pattern.
pub(super) fn path_type(path: &str) -> String {
    if !is_pattern(path) {
        return quoted(path);
    }
    let part = |segment| param_name(segment).map_or_else(|| escaped(segment), |_| "${string}".to_owned());
    format!("`{}`", path.split('/').map(part).collect::<Vec<_>>().join("/"))
}

/// Returns the text as a part of a template literal.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '`' | '\\' | '$' => out.extend(['\\', character]),
            // A template literal reads a carriage return as a line feed.
            _ if character.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}
