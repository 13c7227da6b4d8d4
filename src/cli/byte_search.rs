//! Where a text stands in a stream of bytes: as it is, or however JSON may have escaped it.
//!
//! JSON lets each character be written as it is, as `\u` and four digits of either case (two of them where it is past U+FFFF),
//! and some by a short escape; what was sent is kept as it was sent. All of these are found, mixed as may be. Nothing else is
//! taken apart: a text that was percent-encoded is not found.

use std::io::{self, Read};

use memchr::memchr2;

use crate::limits::READ_BYTES;

/// The longest escape of a byte of text: `\u0041`.
const ESCAPED_BYTES_MAX: usize = 6;

/// A text to look for.
#[derive(Debug)]
pub struct Needle<'a> {
    text: &'a str,
}

impl<'a> Needle<'a> {
    /// `None` for the empty text, which stands everywhere.
    pub fn new(text: &'a str) -> Option<Self> {
        (!text.is_empty()).then_some(Self { text })
    }

    /// Reads `source` to its end, and tells at what offset each occurrence begins, in order, none inside another. Says how
    /// many bytes there were. Holds 256 KiB and some times the text.
    ///
    /// # Errors
    /// What `source` says.
    pub fn find_all(&self, source: &mut impl Read, found: &mut dyn FnMut(u64)) -> io::Result<u64> {
        // What begins before the last so many bytes is whole.
        let longest = self.text.len() * ESCAPED_BYTES_MAX;
        let mut window = Vec::with_capacity(READ_BYTES + longest);
        let (mut window_at, mut from) = (0, 0);
        loop {
            let read = source.by_ref().take(READ_BYTES as u64).read_to_end(&mut window)?;
            let until = if read == 0 { window.len() } else { window.len().saturating_sub(longest) };
            while let Some((at, length)) = self.find(&window, from, until) {
                found(window_at + at as u64);
                from = at + length;
            }
            if read == 0 {
                return Ok(window_at + window.len() as u64);
            }
            let done = until.max(from);
            window.drain(..done);
            window_at += done as u64;
            from = 0;
        }
    }

    /// The first occurrence that begins in `from..until`, and its length.
    fn find(&self, bytes: &[u8], mut from: usize, until: usize) -> Option<(usize, usize)> {
        let first = self.text.as_bytes()[0];
        while from < until {
            let at = from + memchr2(first, b'\\', &bytes[from..until])?;
            if let Some(length) = self.length_at(&bytes[at..]) {
                return Some((at, length));
            }
            from = at + 1;
        }
        None
    }

    /// The length of the occurrence that `bytes` begin with.
    fn length_at(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.starts_with(self.text.as_bytes()) {
            return Some(self.text.len());
        }
        let mut length = 0;
        for c in self.text.chars() {
            let rest = &bytes[length..];
            length += plain(rest, c).or_else(|| escaped(rest, c))?;
        }
        Some(length)
    }
}

/// The length of `c` where a JSON string has it as it is.
fn plain(bytes: &[u8], c: char) -> Option<usize> {
    let mut buffer = [0; 4];
    let text = c.encode_utf8(&mut buffer).as_bytes();
    (!matches!(c, '\\' | '"' | ..='\u{1f}') && bytes.starts_with(text)).then_some(text.len())
}

/// The length of the escape that `bytes` begin with, if it is one of `c`.
fn escaped(bytes: &[u8], c: char) -> Option<usize> {
    if let Some(unit) = unit(bytes) {
        if u32::from(unit) == u32::from(c) {
            return Some(6);
        }
        let pair = [unit, self::unit(&bytes[6..])?];
        return (char::decode_utf16(pair).next() == Some(Ok(c)) && c.len_utf16() == 2).then_some(12);
    }
    let short = match *bytes {
        [b'\\', short, ..] => short,
        _ => return None,
    };
    let means = match short {
        b'"' | b'\\' | b'/' => char::from(short),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    };
    (means == c).then_some(2)
}

/// The UTF-16 unit of the `\u` that `bytes` begin with.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let digit = |unit: u32, byte: &u8| Some(unit * 16 + char::from(*byte).to_digit(16)?);
    digits.iter().try_fold(0, digit).map(|unit| unit as u16)
}
