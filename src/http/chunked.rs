//! Chunked bodies, decoded in place (RFC 9112 section 7.1).
//!
//! The decoder takes bytes as they arrive, in pieces of any size. It moves the content to the front of the
//! body and removes the framing between the chunks. It ignores extensions and discards trailer fields. Both
//! have a limit. It rejects any deviation from the grammar: if the end of a body is in doubt, so is the start
//! of the next request.

use crate::limits::{BODY_BYTES_MAX, CHUNK_LINE_BYTES_MAX, HEADER_FIELDS_MAX, TRAILER_BYTES_MAX};
use crate::problem::{self, Problem};

/// A decoder for one chunked body.
#[derive(Debug)]
pub(crate) struct ChunkedDecoder {
    state: State,
    /// Bytes of content that are already in place.
    decoded_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A line with a chunk size is next.
    Size,
    /// This many bytes of a chunk are still to be received.
    Data(usize),
    /// The line end after a chunk is next.
    DataEnd,
    /// The trailer section with its empty line is next.
    Trailer,
}

/// The status of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeStatus {
    /// The body is incomplete.
    Partial,
    /// The body is complete and has this many bytes of content. The next request follows at once.
    Complete(usize),
}

impl ChunkedDecoder {
    /// Creates a decoder for a body of which nothing was received.
    pub(crate) fn new() -> Self {
        Self { state: State::Size, decoded_bytes: 0 }
    }

    /// Decodes newly received bytes. `bytes[content_start..]` holds the content decoded so far and the bytes received
    /// after it.
    ///
    /// # Errors
    /// `malformed_request`, `body_too_large`.
    pub(crate) fn decode(
        &mut self,
        bytes: &mut Vec<u8>,
        content_start: usize,
    ) -> Result<DecodeStatus, Problem<'static>> {
        let mut at = content_start + self.decoded_bytes;
        let progress = loop {
            let rest = &bytes[at..];
            match self.state {
                State::Size => {
                    let Some(line) = first_line(rest, CHUNK_LINE_BYTES_MAX)? else {
                        break DecodeStatus::Partial;
                    };
                    let size = parse_size(line)?;
                    if size > (BODY_BYTES_MAX - self.decoded_bytes) as u64 {
                        return Err(Problem::new(
                            problem::BODY_TOO_LARGE,
                            "The body is larger than 524288 bytes.",
                        ));
                    }
                    at += line.len() + 2;
                    self.state = if size == 0 { State::Trailer } else { State::Data(size as usize) };
                }
                State::Data(left) => {
                    let here = left.min(rest.len());
                    bytes.copy_within(at..at + here, content_start + self.decoded_bytes);
                    self.decoded_bytes += here;
                    at += here;
                    if here < left {
                        self.state = State::Data(left - here);
                        break DecodeStatus::Partial;
                    }
                    self.state = State::DataEnd;
                }
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => break DecodeStatus::Partial,
                    _ => return Err(malformed("A chunk is not followed by CR LF.")),
                },
                State::Trailer => match trailer_length(rest)? {
                    Some(length) => {
                        at += length;
                        break DecodeStatus::Complete(self.decoded_bytes);
                    }
                    None => break DecodeStatus::Partial,
                },
            }
        };
        bytes.drain(content_start + self.decoded_bytes..at);
        Ok(progress)
    }
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

const fn malformed(sentence: &'static str) -> Problem<'static> {
    Problem::new(problem::MALFORMED_REQUEST, sentence)
}

/// Returns the first line, without its CR LF. Returns `None` if its end was not received.
fn first_line(bytes: &[u8], line_bytes_max: usize) -> Result<Option<&[u8]>, Problem<'static>> {
    let looked_at = &bytes[..bytes.len().min(line_bytes_max + 2)];
    let Some(end) = memchr::memchr2(b'\r', b'\n', looked_at) else {
        return match looked_at.len() > line_bytes_max {
            true => Err(malformed("The line before a chunk is longer than 256 bytes.")),
            false => Ok(None),
        };
    };
    match looked_at[end..] {
        [b'\r', b'\n', ..] => Ok(Some(&bytes[..end])),
        [b'\r'] if looked_at.len() == bytes.len() => Ok(None),
        _ => Err(malformed("A line of the chunked body does not end with CR LF.")),
    }
}

/// Maximum number of hex digits of a chunk size: those of a u64. A longer size gets 400.
const SIZE_DIGITS_MAX: usize = 16;

/// Parses a chunk's line and returns its size.
fn parse_size(line: &[u8]) -> Result<u64, Problem<'static>> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    if !(1..=SIZE_DIGITS_MAX).contains(&digits) {
        return Err(malformed("A chunk size is not 1 to 16 hexadecimal digits."));
    }
    if !are_extensions_valid(&line[digits..]) {
        return Err(malformed("A chunk extension is not ';name' or ';name=value'."));
    }
    let digit = |b: &u8| char::from(*b).to_digit(16).unwrap_or_default();
    Ok(line[..digits].iter().fold(0, |size, b| size << 4 | u64::from(digit(b))))
}

/// Returns whether `extensions` matches `*( ";" token [ "=" ( token / quoted-string ) ] )`. The white space that
/// the grammar calls bad (BWS) is rejected.
fn are_extensions_valid(mut extensions: &[u8]) -> bool {
    while !extensions.is_empty() {
        let Some(behind) = extensions.strip_prefix(b";").and_then(skip_token) else { return false };
        extensions = behind;
        if let Some(value) = extensions.strip_prefix(b"=") {
            let behind = match value.strip_prefix(b"\"") {
                Some(quoted) => skip_quoted(quoted),
                None => skip_token(value),
            };
            let Some(behind) = behind else { return false };
            extensions = behind;
        }
    }
    true
}

/// Returns the bytes after a token (RFC 9110 section 5.6.2).
fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    let length = bytes.iter().take_while(|b| is_token(b)).count();
    (length > 0).then(|| &bytes[length..])
}

/// Returns the bytes after a quoted string whose opening quote was removed (RFC 9110 section 5.6.4).
fn skip_quoted(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        match bytes {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'\t' | b' '..=b'~' | 0x80.., behind @ ..] => bytes = behind,
            [b'\t' | b' '..=b'[' | b']'..=b'~' | 0x80.., behind @ ..] => bytes = behind,
            _ => return None,
        }
    }
}

/// Returns the length of the trailer section, with its empty line. Returns `None` if it is incomplete.
fn trailer_length(bytes: &[u8]) -> Result<Option<usize>, Problem<'static>> {
    let too_long =
        malformed("The trailer fields are longer than 4096 bytes, or a line does not end with CR LF.");
    let mut length = 0;
    loop {
        let room = TRAILER_BYTES_MAX - length;
        let Some(line) = first_line(&bytes[length..], room).map_err(|_| too_long)? else { return Ok(None) };
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
        Err(_) => Err(malformed("A trailer field is not 'name: value'.")),
    }
}
