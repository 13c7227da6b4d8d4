//! What JSON allows and the parser does not take, put into a form that it takes, without moving a byte.
//!
//! Numbers beyond 64 bits or beyond any float become a zero and white space: nobody reads a number from the tape, its text
//! is in the source. Halves of surrogate pairs, which browsers send when they cut a text inside an emoji, become U+FFFD, in
//! the source too: no reader downstream could be given them.

/// Puts into `tame` what the parser is to read in place of `text`, and into `mended` what it stands for, both byte for byte at the
/// same place; halves of surrogate pairs are mended in both. How many they were.
///
/// `text` need not be JSON; what is not stays what is not.
pub(super) fn tame(text: &str, mended: &mut String, tame: &mut Vec<u8>) -> usize {
    let mut source = std::mem::take(mended).into_bytes();
    source.clear();
    source.extend_from_slice(text.as_bytes());
    let halves = tame_bytes(&mut source, tame);
    // What was mended is ASCII in the place of ASCII.
    *mended = String::from_utf8(source).unwrap_or_default();
    halves
}

fn tame_bytes(source: &mut [u8], tame: &mut Vec<u8>) -> usize {
    let mut halves = 0;
    let mut at = 0;
    let mut in_string = false;
    tame.clear();
    while let Some(&byte) = source.get(at) {
        let length = match byte {
            b'\\' if in_string => {
                halves += usize::from(mend_escape(&mut source[at..]));
                escape_length(&source[at..])
            }
            b'-' | b'0'..=b'9' if !in_string => number_run(&source[at..]),
            _ => 1,
        };
        in_string ^= byte == b'"';
        let token = &source[at..at + length];
        if !in_string && is_number(token) {
            tame.push(b'0');
            tame.resize(at + length, b' ');
        } else {
            tame.extend_from_slice(token);
        }
        at += length;
    }
    halves
}

/// Makes the escape that `text` begins with U+FFFD where it is half of a pair. Whether it was.
fn mend_escape(text: &mut [u8]) -> bool {
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

/// Bytes of the escape that `text` begins with; a pair of surrogates is one.
fn escape_length(text: &[u8]) -> usize {
    let length = match code_unit(text) {
        Some(0xD800..=0xDBFF) => 12,
        _ => 2,
    };
    length.min(text.len())
}

/// The UTF-16 code unit of `\uXXXX`.
fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

fn number_run(text: &[u8]) -> usize {
    let is_part = |b: &u8| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    text.iter().position(|b| !is_part(b)).unwrap_or(text.len())
}

/// Whether `text` is a number (RFC 8259 section 6).
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
