//! Numbers and texts of a profile's encoding: as short as they can be, read in place.
//!
//! A number is a varint: seven bits a byte, the lowest first, the top bit set where another byte follows. A difference that may be
//! negative is zigzag. Malformed bytes give `None`, never a panic.

/// Takes things off the front of a buffer; `None` where it does not hold them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Most are below 128, and one byte.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.0 {
            [byte @ ..0x80, rest @ ..] => {
                self.0 = rest;
                Some(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
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

    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// As many bytes as the number before them says.
    pub(super) fn sized(&mut self) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.number()?).ok()?;
        self.take(bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok()
    }

    /// What [`section`] wrote.
    pub(super) fn section(&mut self) -> Option<&'a [u8]> {
        let length = self.take(SECTION_LENGTH_BYTES)?;
        self.take(usize::from(u16::from_le_bytes([length[0], length[1]])))
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

const SECTION_LENGTH_BYTES: usize = 2;

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, zigzag(number));
}

pub(super) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends what `write` appends, behind its length in two bytes. One that is longer than they can say is longer than a profile may
/// be, and is written anew once it is shorter.
pub(super) fn put_section(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; SECTION_LENGTH_BYTES]);
    write(out);
    let length = u16::try_from(out.len() - at - SECTION_LENGTH_BYTES).unwrap_or(u16::MAX);
    out[at..at + SECTION_LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Bytes of a number.
pub(super) fn number_len(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

pub(super) fn signed_len(number: i64) -> usize {
    number_len(zigzag(number))
}

/// Bytes of `length` bytes behind their length.
pub(super) fn sized_len(length: usize) -> usize {
    number_len(length as u64) + length
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> (i64::BITS - 1)) as u64
}
