//! Percent-encoding (RFC 3986 section 2.1), one byte or one text at a time, without allocating.

use memchr::{memchr, memchr2};

/// Decodes the first byte of `text` and returns it with the remaining bytes. An invalid escape is literal.
fn decode_first_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            Some((hex_value(*high) << 4 | hex_value(*low), rest))
        }
        [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

/// Like `decode_first_byte`, for form-urlencoded text, where a plus is a space (WHATWG URL section 5.1).
pub(crate) fn decode_first_form_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'+', rest @ ..] => Some((b' ', rest)),
        _ => decode_first_byte(text),
    }
}

/// Appends the decoded `text`. An invalid escape stays as it is.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) {
    decode_with(text, |rest| memchr(b'%', rest), decode_first_byte, out);
}

/// Appends the decoded form-urlencoded `text`.
pub(crate) fn decode_form(text: &[u8], out: &mut Vec<u8>) {
    decode_with(text, |rest| memchr2(b'%', b'+', rest), decode_first_form_byte, out);
}

/// Decodes `text` with `decode_first` at the places that `find_escape` finds, and copies the bytes between them.
fn decode_with(
    text: &[u8],
    find_escape: impl Fn(&[u8]) -> Option<usize>,
    decode_first: impl Fn(&[u8]) -> Option<(u8, &[u8])>,
    out: &mut Vec<u8>,
) {
    let mut rest = text;
    while let Some(at) = find_escape(rest) {
        out.extend_from_slice(&rest[..at]);
        let Some((byte, behind)) = decode_first(&rest[at..]) else { return };
        out.push(byte);
        rest = behind;
    }
    out.extend_from_slice(rest);
}

/// Appends `text` with every byte escaped that is not unreserved (RFC 3986 section 2.3).
#[inline]
pub(crate) fn encode(out: &mut Vec<u8>, text: &str) {
    let is_unreserved = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|b| !is_unreserved(b)) {
        let digit = |d: u8| b"0123456789ABCDEF"[usize::from(d)];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'%', digit(rest[at] >> 4), digit(rest[at] & 15)]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
