//! Varints and byte strings of profiles and fold inputs, decoded in place.
//!
//! A number is a varint: seven bits per byte, the lowest first, with the top bit set if another byte follows.
//! A difference that may be negative is zigzag-encoded. Malformed bytes decode to `None` and never cause a
//! panic.

/// A decoder that takes values from the front of a buffer. Its methods return `None` if the buffer is
/// too short or malformed.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Reads a varint of at most 10 bytes. Most are below 128 and take one byte.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        match self.0 {
            [byte @ ..0x80, rest @ ..] => {
                self.0 = rest;
                Some(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    // Not inlined, so that the code of `number` stays small in its callers.
    #[inline(never)]
    fn long_number(&mut self) -> Option<u64> {
        if let [low, high @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Some(u64::from(*low & 0x7F) | u64::from(*high) << 7);
        }
        let Some((number, bytes)) = self.0.first_chunk().and_then(|chunk| number_in(*chunk)) else {
            return self.long_number_bytewise();
        };
        self.0 = &self.0[bytes..];
        Some(number)
    }

    /// Reads a varint near the end of the buffer, or one of more than 8 bytes.
    #[cold]
    fn long_number_bytewise(&mut self) -> Option<u64> {
        let mut number = 0;
        let mut shift = 0;
        while shift < u64::BITS {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a length and that many bytes.
    pub(crate) fn sized(&mut self) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.number()?).ok()?;
        self.take(bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok()
    }

    /// Reads a section as written by [`put_section`].
    pub(crate) fn section(&mut self) -> Option<&'a [u8]> {
        let length = self.take(SECTION_LENGTH_BYTES)?;
        self.take(usize::from(u16::from_le_bytes([length[0], length[1]])))
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Returns the varint at the start of `chunk` and its length in bytes. Returns `None` if it does not end in the chunk.
/// Instead of a loop, three steps join neighboring groups of bits: 7 to 14, 14 to 28, 28 to 56.
#[inline]
fn number_in(chunk: [u8; 8]) -> Option<(u64, usize)> {
    const TOP_BITS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(chunk);
    // The top bit of each byte that ends a varint.
    let ends = !word & TOP_BITS;
    if ends == 0 {
        return None;
    }
    // The mask keeps the bits up to the lowest bit of `ends`. They are the bytes of the first varint.
    let groups = word & (ends ^ (ends - 1)) & !TOP_BITS;
    let pairs = groups & 0x007F_007F_007F_007F | (groups & 0x7F00_7F00_7F00_7F00) >> 1;
    let fours = pairs & 0x0000_3FFF_0000_3FFF | (pairs & 0x3FFF_0000_3FFF_0000) >> 2;
    let number = fours & 0x0FFF_FFFF | (fours & 0x0FFF_FFFF_0000_0000) >> 4;
    Some((number, ends.trailing_zeros() as usize / 8 + 1))
}

const SECTION_LENGTH_BYTES: usize = 2;

/// Appends a number as a varint.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, zigzag(number));
}

pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length of two bytes, then the bytes that `write` appends. If they are too long for that
/// length, the whole profile is above its limit, and the caller encodes it again after removing
/// parts.
pub(crate) fn put_section(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; SECTION_LENGTH_BYTES]);
    write(out);
    let length = u16::try_from(out.len() - at - SECTION_LENGTH_BYTES).unwrap_or(u16::MAX);
    out[at..at + SECTION_LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Returns the encoded length of a number.
pub(crate) fn number_len(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

pub(crate) fn signed_len(number: i64) -> usize {
    number_len(zigzag(number))
}

/// Returns the encoded length of `length` bytes with their length prefix.
pub(crate) fn sized_len(length: usize) -> usize {
    number_len(length as u64) + length
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> (i64::BITS - 1)) as u64
}
