//! A chunked body, decoded where it lies (RFC 9112 section 7.1).
//!
//! Bytes go in as they come, in pieces of any size; the content is moved together at the front, and what stands between its
//! chunks is gone. Extensions are read over, trailer fields are dropped; both have a bound. Whatever is not exactly the
//! grammar is refused: a body whose end is in doubt hides the next request.

use crate::limits::{BODY_BYTES_MAX, CHUNK_LINE_BYTES_MAX, HEADER_FIELDS_MAX, TRAILER_BYTES_MAX};
use crate::problem::{self, Problem};

/// How far a body has come.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    /// Bytes of content that are at their place.
    decoded: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A line with a chunk's size comes next.
    Size,
    /// So many bytes of a chunk are still to come.
    Data(usize),
    /// The line's end behind a chunk comes next.
    DataEnd,
    /// The trailer section and its empty line come next.
    Trailer,
}

/// What is known of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More has to come.
    Partial,
    /// All of it is here: so many bytes of content; the next request follows at once.
    Whole(usize),
}

impl Chunked {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self { state: State::Size, decoded: 0 }
    }

    /// Decodes what has come: `bytes` from `begin` on holds the content so far and what was received behind it.
    ///
    /// # Errors
    /// `malformed_request`, `body_too_large`.
    pub fn advance(&mut self, bytes: &mut Vec<u8>, begin: usize) -> Result<Progress, Problem<'static>> {
        let mut at = begin + self.decoded;
        let progress = loop {
            let rest = &bytes[at..];
            match self.state {
                State::Size => {
                    let Some(line) = line(rest, CHUNK_LINE_BYTES_MAX)? else { break Progress::Partial };
                    let size = size(line)?;
                    if size > (BODY_BYTES_MAX - self.decoded) as u64 {
                        return Err(Problem::missing(
                            problem::BODY_TOO_LARGE,
                            "a body of at most 524288 bytes",
                        ));
                    }
                    at += line.len() + 2;
                    self.state = if size == 0 { State::Trailer } else { State::Data(size as usize) };
                }
                State::Data(left) => {
                    let here = left.min(rest.len());
                    bytes.copy_within(at..at + here, begin + self.decoded);
                    self.decoded += here;
                    at += here;
                    if here < left {
                        self.state = State::Data(left - here);
                        break Progress::Partial;
                    }
                    self.state = State::DataEnd;
                }
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => break Progress::Partial,
                    _ => return Err(malformed("CR LF behind a chunk")),
                },
                State::Trailer => match trailer(rest)? {
                    Some(length) => {
                        at += length;
                        break Progress::Whole(self.decoded);
                    }
                    None => break Progress::Partial,
                },
            }
        };
        bytes.drain(begin + self.decoded..at);
        Ok(progress)
    }
}

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

const fn malformed(expected: &'static str) -> Problem<'static> {
    Problem::missing(problem::MALFORMED_REQUEST, expected)
}

/// The line at the front, without its CR LF; None where its end has not come.
fn line(bytes: &[u8], bytes_max: usize) -> Result<Option<&[u8]>, Problem<'static>> {
    let looked_at = &bytes[..bytes.len().min(bytes_max + 2)];
    let Some(end) = memchr::memchr2(b'\r', b'\n', looked_at) else {
        return match looked_at.len() > bytes_max {
            true => Err(malformed("a chunk's line of at most 256 bytes")),
            false => Ok(None),
        };
    };
    match looked_at[end..] {
        [b'\r', b'\n', ..] => Ok(Some(&bytes[..end])),
        [b'\r'] if looked_at.len() == bytes.len() => Ok(None),
        _ => Err(malformed("lines that end with CR LF")),
    }
}

/// Hex digits of a size: a u64 holds no more.
const SIZE_DIGITS_MAX: usize = 16;

/// The size in a chunk's line.
fn size(line: &[u8]) -> Result<u64, Problem<'static>> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if !(1..=SIZE_DIGITS_MAX).contains(&digits) {
        return Err(malformed("a chunk size of 1 to 16 hex digits"));
    }
    if !is_extensions(&line[digits..]) {
        return Err(malformed("chunk extensions ';name' or ';name=value', or none"));
    }
    let digit = |b: &u8| char::from(*b).to_digit(16).unwrap_or_default();
    Ok(line[..digits].iter().fold(0, |size, b| size << 4 | u64::from(digit(b))))
}

/// `*( ";" token [ "=" ( token / quoted-string ) ] )`; the white space that the grammar calls bad is refused.
fn is_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(behind) = rest.strip_prefix(b";").and_then(token) else { return false };
        rest = behind;
        if let Some(value) = rest.strip_prefix(b"=") {
            let behind = match value.strip_prefix(b"\"") {
                Some(quoted) => behind_quoted(quoted),
                None => token(value),
            };
            let Some(behind) = behind else { return false };
            rest = behind;
        }
    }
    true
}

/// What stands behind a token (RFC 9110 section 5.6.2).
fn token(bytes: &[u8]) -> Option<&[u8]> {
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    let length = bytes.iter().take_while(|b| is_token(b)).count();
    (length > 0).then(|| &bytes[length..])
}

/// What stands behind the rest of a quoted string (RFC 9110 section 5.6.4).
fn behind_quoted(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'\t' | b' '..=b'~' | 0x80.., behind @ ..] => rest = behind,
            [b'\t' | b' '..=b'[' | b']'..=b'~' | 0x80.., behind @ ..] => rest = behind,
            _ => return None,
        }
    }
}

/// Bytes of the trailer section with its empty line; None where it is not whole.
fn trailer(bytes: &[u8]) -> Result<Option<usize>, Problem<'static>> {
    let too_long = malformed("trailer fields of at most 4096 bytes, in lines that end with CR LF");
    let mut length = 0;
    loop {
        let room = TRAILER_BYTES_MAX - length;
        let Some(line) = line(&bytes[length..], room).map_err(|_| too_long)? else { return Ok(None) };
        length += line.len() + 2;
        if length > TRAILER_BYTES_MAX {
            return Err(too_long);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; HEADER_FIELDS_MAX];
    match httparse::parse_headers(&bytes[..length], &mut fields) {
        Ok(_) => Ok(Some(length)),
        Err(_) => Err(malformed("trailer fields 'name: value'")),
    }
}
