//! Replacement of lone surrogates. Browsers send them when they cut a text inside an emoji. They become U+FFFD, because
//! no downstream reader could decode them. Every byte offset stays the same.

use super::scalars::code_unit;

/// Writes `text` with each lone surrogate replaced into `sanitized`. Returns their number.
///
/// `text` need not be JSON. Invalid JSON stays invalid.
pub(super) fn replace_lone_surrogates(text: &str, sanitized: &mut String) -> usize {
    let mut source = std::mem::take(sanitized).into_bytes();
    source.clear();
    source.extend_from_slice(text.as_bytes());
    let mut replaced = 0;
    let mut at = 0;
    let mut in_string = false;
    while let Some(&byte) = source.get(at) {
        at += match byte {
            b'\\' if in_string => {
                replaced += usize::from(replace_lone_surrogate(&mut source[at..]));
                escape_length(&source[at..])
            }
            _ => 1,
        };
        in_string ^= byte == b'"';
    }
    // Replacements put ASCII in the place of ASCII, so the text is still UTF-8.
    *sanitized = String::from_utf8(source).unwrap_or_default();
    replaced
}

/// Replaces the escape at the start of `text` with U+FFFD if it is a lone surrogate. Returns whether it was.
fn replace_lone_surrogate(text: &mut [u8]) -> bool {
    let is_half = match code_unit(text) {
        Some(0xD800..=0xDBFF) => !matches!(text.get(6..).and_then(code_unit), Some(0xDC00..=0xDFFF)),
        Some(0xDC00..=0xDFFF) => true,
        _ => false,
    };
    if is_half {
        text[2..6].copy_from_slice(b"fffd");
    }
    is_half
}

/// Returns the length in bytes of the escape at the start of `text`. A surrogate pair counts as one escape.
fn escape_length(text: &[u8]) -> usize {
    match code_unit(text) {
        Some(0xD800..=0xDBFF) => 12,
        _ => 2,
    }
}
