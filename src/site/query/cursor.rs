//! Cursors: the position of a page in a list, as text. A cursor is a checksum and the position, in hex.
//!
//! The checksum binds the position to the list, so that an altered cursor and a cursor of another list are
//! detected. It does not prevent forgery, and it need not: a forged cursor only continues at another position
//! of a public list.

use crate::checksum;
use crate::ids;

const CHECKSUM_DIGITS: usize = 16;

/// Returns the checksum over everything that the list depends on and the position.
pub fn checksum_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u64 {
    // Each part is hashed into the result of the parts before it, so that two lists of parts that are split
    // differently get different checksums.
    parts.into_iter().fold(0, |check, part| {
        checksum::hash64(part).rotate_left(17) ^ check.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

/// Appends a cursor to `out`.
pub fn encode(checksum: u64, position: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&ids::hex_u64(checksum));
    for byte in position {
        out.extend_from_slice(&ids::hex_u64(u64::from(*byte))[14..]);
    }
}

/// Parses a cursor. Returns its checksum and replaces `position` with its position, of at most `position_bytes_max`
/// bytes. Returns `None` for any other text. Upper-case digits are an error too: each cursor has one
/// spelling.
pub fn decode(text: &str, position_bytes_max: usize, position: &mut Vec<u8>) -> Option<u64> {
    position.clear();
    let (check, rest) = text.as_bytes().split_at_checked(CHECKSUM_DIGITS)?;
    if rest.len() % 2 != 0 || rest.len() / 2 > position_bytes_max {
        return None;
    }
    for pair in rest.chunks(2) {
        position.push(digit(pair[0])? << 4 | digit(pair[1])?);
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
