//! Rewriting of valid JSON that simd-json rejects. Every byte offset stays the same.
//!
//! simd-json rejects integers beyond 64 bits and floats out of range. The parser's copy therefore has `0` and
//! white space in place of every number. Nobody reads a number from the tape, since its text is in the
//! source.
//!
//! Browsers send lone surrogates when they cut a text inside an emoji. They become U+FFFD in the source too,
//! because no downstream reader could decode them.

/// Replaces lone surrogates in `text` and writes two copies of the result: one as it is, into the string, and
/// one with every number zeroed for the parser, into the byte buffer. Byte offsets in both equal those in
/// `text`. Returns the number of lone surrogates.
///
/// `text` need not be JSON. Invalid JSON stays invalid.
pub(super) fn sanitize(text: &str, sanitized: &mut String, sanitized_input: &mut Vec<u8>) -> usize {
    let mut source = std::mem::take(sanitized).into_bytes();
    source.clear();
    source.extend_from_slice(text.as_bytes());
    let halves = sanitize_bytes(&mut source, sanitized_input);
    // Replacements put ASCII in the place of ASCII, so the text is still UTF-8.
    *sanitized = String::from_utf8(source).unwrap_or_default();
    halves
}

fn sanitize_bytes(source: &mut [u8], sanitized_input: &mut Vec<u8>) -> usize {
    let mut halves = 0;
    let mut at = 0;
    let mut in_string = false;
    sanitized_input.clear();
    while let Some(&byte) = source.get(at) {
        let length = match byte {
            b'\\' if in_string => {
                halves += usize::from(replace_lone_surrogate(&mut source[at..]));
                escape_length(&source[at..])
            }
            b'-' | b'0'..=b'9' if !in_string => number_run(&source[at..]),
            _ => 1,
        };
        in_string ^= byte == b'"';
        let token = &source[at..at + length];
        if !in_string && is_number(token) {
            sanitized_input.push(b'0');
            sanitized_input.resize(at + length, b' ');
        } else {
            sanitized_input.extend_from_slice(token);
        }
        at += length;
    }
    halves
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
    let length = match code_unit(text) {
        Some(0xD800..=0xDBFF) => 12,
        _ => 2,
    };
    length.min(text.len())
}

/// Parses the UTF-16 code unit of `\uXXXX`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

fn number_run(text: &[u8]) -> usize {
    let is_part = |b: &u8| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    text.iter().position(|b| !is_part(b)).unwrap_or(text.len())
}

/// Returns whether `text` is a JSON number (RFC 8259 section 6).
fn is_number(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let whole_is_right = whole == b"0" || whole.first().is_some_and(|digit| *digit != b'0');
    let rest = match rest.strip_prefix(b".").map(split_digits) {
        Some((b"", _)) => return false,
        Some((_, behind)) => behind,
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
