//! A place to go on at, as text: a check and the place, in hex.
//!
//! The check binds the place to what was listed, so that a cursor that is altered, or another list's, is told. It does not
//! withstand forgery, nor need to: whoever makes one up goes on at another place of a public list.

use crate::checksum;
use crate::ids;

const CHECK_DIGITS: usize = 16;

/// The check of a place: over everything that the list depends on, and the place.
pub fn check<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u64 {
    // Each part's hash goes into the next one's, so that no two lists of parts run together.
    parts.into_iter().fold(0, |check, part| {
        checksum::table(part).rotate_left(17) ^ check.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

/// Appends a cursor.
pub fn write(check: u64, place: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&ids::hex(check));
    for byte in place {
        out.extend_from_slice(&ids::hex(u64::from(*byte))[14..]);
    }
}

/// Reads a cursor: its check; its place, of at most `place_bytes_max`, goes to `place`, which is cleared. `None` for any
/// other text, upper-case digits included: a cursor has one form.
pub fn read(text: &str, place_bytes_max: usize, place: &mut Vec<u8>) -> Option<u64> {
    place.clear();
    let (check, rest) = text.as_bytes().split_at_checked(CHECK_DIGITS)?;
    if rest.len() % 2 != 0 || rest.len() / 2 > place_bytes_max {
        return None;
    }
    for pair in rest.chunks(2) {
        place.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    check.iter().try_fold(0, |check, byte| Some(check << 4 | u64::from(digit(*byte)?)))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
