//! The grammar of JSON scalars (RFC 8259 sections 6 and 7): numbers of any size, and the escapes of strings.

use memchr::memchr;

/// The reason why a text cannot be read as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonError {
    /// It is not JSON, or has too many levels.
    Malformed,
    /// A string has half of a surrogate pair without the other half.
    LoneSurrogate,
}

/// Removes the white space of JSON from the end of a text.
pub(super) fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t' | b'\n' | b'\r'] = text {
        text = rest;
    }
    text
}

/// Returns whether `text` is a JSON number (RFC 8259 section 6).
pub(super) fn is_number(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let whole_is_right = whole == b"0" || whole.first().is_some_and(|digit| *digit != b'0');
    let rest = match rest.strip_prefix(b".").map(split_digits) {
        Some((b"", _)) => return false,
        Some((_, after)) => after,
        None => rest,
    };
    let exponent_is_right = match rest {
        [] => true,
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => {
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    whole_is_right && exponent_is_right
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len()))
}

/// Appends the unescaped text of a string to `out` if it has an escape. Returns whether it has one.
///
/// # Errors
/// An escape is invalid, or is a lone surrogate.
pub(super) fn unescape(text: &str, out: &mut String) -> Result<bool, JsonError> {
    let Some(mut at) = memchr(b'\\', text.as_bytes()) else { return Ok(false) };
    let mut rest = text;
    loop {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let (character, length) = read_escape(escape.as_bytes())?;
        out.push(character);
        rest = escape.get(length..).ok_or(JsonError::Malformed)?;
        match memchr(b'\\', rest.as_bytes()) {
            Some(next) => at = next,
            None => break,
        }
    }
    out.push_str(rest);
    Ok(true)
}

/// Reads the escape at the start of `text`. Returns its character and its length in bytes.
fn read_escape(text: &[u8]) -> Result<(char, usize), JsonError> {
    let character = match text.get(1) {
        Some(b'u') => return read_unicode_escape(text),
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        _ => return Err(JsonError::Malformed),
    };
    Ok((character, 2))
}

/// Reads `\uXXXX`, or two of them that are a surrogate pair.
fn read_unicode_escape(text: &[u8]) -> Result<(char, usize), JsonError> {
    let unit = code_unit(text).ok_or(JsonError::Malformed)?;
    let pair = match unit {
        0xD800..=0xDBFF => text.get(6..).and_then(code_unit).filter(|low| matches!(low, 0xDC00..=0xDFFF)),
        _ => None,
    };
    let (code, length) = match pair {
        Some(low) => (0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00), 12),
        None => (unit, 6),
    };
    char::from_u32(code).map(|character| (character, length)).ok_or(JsonError::LoneSurrogate)
}

/// Parses the UTF-16 code unit of `\uXXXX`.
pub(super) fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}
