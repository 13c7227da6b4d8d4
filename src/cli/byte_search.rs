//! Search for a text in a stream of bytes, in its plain form and in every form that JSON allows.
//!
//! JSON allows each character as it is, as `\u` with four digits of either case (two of these for a character
//! past U+FFFF), and some characters as a short escape. The log keeps payloads in the form in which clients
//! sent them. The search finds every form and every mix of forms. It decodes nothing else: a
//! percent-encoded text is not found.
//!
//! The log also keeps texts in fold inputs, which have a zero byte at each multiple of 8 in the file. The
//! search finds a text there, too.

use std::io::{self, Read};

use memchr::memchr2;

use crate::limits::READ_CHUNK_BYTES;

/// The longest escape of one byte of text, in bytes: `\u0041`.
const ESCAPED_BYTES_MAX: usize = 6;

/// Bytes of a word of a fold input. The first one is 0.
const FOLD_WORD_BYTES: u64 = 8;

/// A text to search for.
#[derive(Debug)]
pub struct Needle<'a> {
    text: &'a str,
}

impl<'a> Needle<'a> {
    /// Creates a needle; `None` for the empty text, which would match everywhere.
    pub fn new(text: &'a str) -> Option<Self> {
        (!text.is_empty()).then_some(Self { text })
    }

    /// Reads `source` to its end and calls `visit` with the offset of each occurrence, in order, without
    /// overlaps. Returns the number of bytes read. Holds 256 KiB and a few times the length of the text.
    ///
    /// # Errors
    /// Returns the error of `source`.
    pub fn find_all(&self, source: &mut impl Read, visit: &mut dyn FnMut(u64)) -> io::Result<u64> {
        // An occurrence that begins before the last `longest` bytes of the window is complete in it.
        let longest = self.text.len() * ESCAPED_BYTES_MAX;
        let mut window = Vec::with_capacity(READ_CHUNK_BYTES + longest);
        let mut window_at = 0;
        let mut from = 0;
        loop {
            let read = source.by_ref().take(READ_CHUNK_BYTES as u64).read_to_end(&mut window)?;
            let until = if read == 0 { window.len() } else { window.len().saturating_sub(longest) };
            while let Some((at, length)) = self.find(&window, window_at, from, until) {
                visit(window_at + at as u64);
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

    /// Returns offset and length of the first occurrence that begins in `start..end`. `bytes` are at
    /// `offset` in the file.
    fn find(&self, bytes: &[u8], offset: u64, mut start: usize, end: usize) -> Option<(usize, usize)> {
        let first = self.text.as_bytes()[0];
        while start < end {
            let at = start + memchr2(first, b'\\', &bytes[start..end])?;
            let file_offset = offset + at as u64;
            let length = self.match_length(&bytes[at..]);
            if let Some(length) = length.or_else(|| self.packed_length(&bytes[at..], file_offset)) {
                return Some((at, length));
            }
            start = at + 1;
        }
        None
    }

    /// Returns the length of the occurrence in a fold input at the start of `bytes`, which are at `offset` in
    /// the file.
    fn packed_length(&self, bytes: &[u8], offset: u64) -> Option<usize> {
        let mut length = 0;
        for wanted in self.text.as_bytes() {
            let is_start_of_word = (offset + length as u64).is_multiple_of(FOLD_WORD_BYTES);
            length += usize::from(is_start_of_word && bytes.get(length) == Some(&0));
            if bytes.get(length) != Some(wanted) {
                return None;
            }
            length += 1;
        }
        Some(length)
    }

    /// Returns the length of the occurrence at the start of `bytes`.
    fn match_length(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.starts_with(self.text.as_bytes()) {
            return Some(self.text.len());
        }
        let mut length = 0;
        for c in self.text.chars() {
            let rest = &bytes[length..];
            length += literal_length(rest, c).or_else(|| escape_length(rest, c))?;
        }
        Some(length)
    }
}

/// Returns the length of `c` at the start of `bytes`, if a JSON string may contain it unescaped.
fn literal_length(bytes: &[u8], c: char) -> Option<usize> {
    let mut buffer = [0; 4];
    let text = c.encode_utf8(&mut buffer).as_bytes();
    (!matches!(c, '\\' | '"' | ..='\u{1f}') && bytes.starts_with(text)).then_some(text.len())
}

/// Returns the length of the escape at the start of `bytes`, if it is an escape of `c`.
fn escape_length(bytes: &[u8], c: char) -> Option<usize> {
    if let Some(unit) = utf16_unit(bytes) {
        if u32::from(unit) == u32::from(c) {
            return Some(6);
        }
        let pair = [unit, self::utf16_unit(&bytes[6..])?];
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

/// Returns the UTF-16 code unit of the `\u` escape at the start of `bytes`.
fn utf16_unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let digit = |unit: u32, byte: &u8| Some(unit * 16 + char::from(*byte).to_digit(16)?);
    digits.iter().try_fold(0, digit).map(|unit| unit as u16)
}
