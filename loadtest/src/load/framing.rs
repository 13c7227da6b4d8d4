//! Response framing: finds the end of each response in the received bytes. It does not allocate if a head
//! arrives at once.
//!
//! It understands the responses of the compared servers: a status line, `Content-Length` or a status without
//! a body, and `Connection: close`. The check of complete responses reads the rest of the head. After an
//! error the connection cannot be used any more, because the end of the response is unknown.

use memchr::memmem;

/// Longest head, in bytes. Longer is an error. Heads in the comparisons are under a kilobyte.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const END: &[u8] = b"\r\n\r\n";

/// A reader of the responses of one connection.
#[derive(Default)]
pub struct ResponseReader {
    /// Received bytes of an incomplete head.
    head: Vec<u8>,
    /// Head of the current response, if it is complete and the body is not.
    current: Option<ResponseHead>,
    body_left: usize,
}

/// The parts of a response head that the generator needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseHead {
    pub status: u16,
    /// True if this is the last response of its connection.
    pub closes: bool,
}

/// The result of reading some bytes.
#[derive(Debug, PartialEq)]
pub struct ReadStep {
    /// Bytes that belong to the current response.
    pub used: usize,
    /// The response, if it ends with these bytes.
    pub completed: Option<ResponseHead>,
}

/// A parsed head with the length of its body.
#[derive(Debug, PartialEq)]
struct ParsedHead {
    response: ResponseHead,
    body: usize,
}

impl ResponseReader {
    /// Reads up to the end of the current response, or all bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Result<ReadStep, String> {
        let (response, head) = match self.current {
            Some(response) => (response, 0),
            None => match self.read_head(bytes)? {
                Some((response, head)) => (response, head),
                None => return Ok(ReadStep { used: bytes.len(), completed: None }),
            },
        };
        let body = self.body_left.min(bytes.len() - head);
        self.body_left -= body;
        self.current = Some(response).filter(|_| self.body_left > 0);
        Ok(ReadStep { used: head + body, completed: Some(response).filter(|_| self.body_left == 0) })
    }

    /// Returns whether the next byte is the first of a response.
    pub fn is_between(&self) -> bool {
        self.current.is_none() && self.head.is_empty()
    }

    /// Reads a head up to its end in `bytes` and returns the number of bytes it takes from them. Keeps an
    /// incomplete head.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, String> {
        let before = self.head.len();
        let head = if before == 0 {
            memmem::find(bytes, END).map(|at| (parse_head(&bytes[..at]), at))
        } else {
            self.head.extend_from_slice(bytes);
            memmem::find(&self.head, END).map(|at| (parse_head(&self.head[..at]), at))
        };
        let Some((head, at)) = head else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            let is_too_long = self.head.len() > HEAD_BYTES_MAX;
            return if is_too_long { Err("the head does not end".to_owned()) } else { Ok(None) };
        };
        self.head.clear();
        let ParsedHead { response, body } = head?;
        self.body_left = body;
        Ok(Some((response, at + END.len() - before)))
    }
}

/// Parses a head without its empty line.
fn parse_head(bytes: &[u8]) -> Result<ParsedHead, String> {
    let status = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(number);
    let status = status.ok_or_else(|| {
        format!("no HTTP/1.1 status line; the response begins with {}", quoted_start(bytes))
    })?;
    let (mut length, mut closes, mut from) = (None, false, 0);
    while let Some(at) = memchr::memchr(b'\n', &bytes[from..]) {
        from += at + 1;
        let field = &bytes[from..];
        // The first letter excludes most fields quickly.
        match field.first() {
            Some(b'c' | b'C') => {
                if let Some(value) = field_value(field, b"content-length:") {
                    length = Some(number(value).ok_or("Content-Length is no number")?);
                } else if let Some(value) = field_value(field, b"connection:") {
                    closes |= value.eq_ignore_ascii_case(b"close");
                }
            }
            Some(b't' | b'T') if field_value(field, b"transfer-encoding:").is_some() => {
                return Err("the response is chunked; configure the server to send Content-Length".to_owned());
            }
            _ => {}
        }
    }
    let response = ResponseHead { status: status as u16, closes };
    match length {
        _ if matches!(status, 204 | 304) => Ok(ParsedHead { response, body: 0 }),
        Some(body) => Ok(ParsedHead { response, body }),
        None => Err(format!("status {status} without Content-Length")),
    }
}

/// Returns the value of the field at the start of `bytes` if it has this name, given in lower case with its
/// colon.
fn field_value<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (before, after) = bytes.split_at_checked(name.len())?;
    let value = &after[..memchr::memchr(b'\r', after).unwrap_or(after.len())];
    before.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the first bytes, escaped and quoted, for an error message.
pub fn quoted_start(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes[..bytes.len().min(60)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all responses of `stream`, in parts of `part` bytes. Returns each with its length.
    fn read(stream: &[u8], part: usize) -> Result<Vec<(ResponseHead, usize)>, String> {
        let (mut reader, mut responses, mut length) = (ResponseReader::default(), Vec::new(), 0);
        for mut bytes in stream.chunks(part) {
            while !bytes.is_empty() {
                let ReadStep { used, completed: ended } = reader.read(bytes)?;
                (bytes, length) = (&bytes[used..], length + used);
                if let Some(response) = ended {
                    responses.push((response, std::mem::take(&mut length)));
                }
            }
        }
        assert!(reader.is_between());
        Ok(responses)
    }

    #[test]
    fn responses_end_by_their_framing_however_the_bytes_arrive() {
        let parts: [(&str, u16, bool); 6] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: a\r\n\r\n12345", 200, false),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304, false),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, false),
            ("HTTP/1.1 200 OK\r\ncontent-length:0\r\nConnection: keep-alive\r\n\r\n", 200, false),
            ("HTTP/1.1 404 Not Found\r\nX: c\r\nCONTENT-LENGTH:  4 \r\n\r\n\r\n\r\n", 404, false),
            ("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\n1", 200, true),
        ];
        let stream: String = parts.iter().map(|(text, ..)| *text).collect();
        let expected: Vec<_> =
            parts.map(|(text, status, closes)| (ResponseHead { status, closes }, text.len())).to_vec();
        for part in 1..=stream.len() {
            assert_eq!(read(stream.as_bytes(), part).as_ref(), Ok(&expected), "in parts of {part}");
        }
    }

    #[test]
    fn unsupported_framing_is_an_error() {
        for (stream, expected) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "chunked"),
            ("HTTP/1.1 200 OK\r\nServer: a\r\n\r\n", "without Content-Length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no number"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1", "begins with"),
            ("\r\n\r\n", "begins with"),
        ] {
            let error = read(stream.as_bytes(), 7).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        assert!(read(&endless, 1000).unwrap_err().contains("does not end"));
    }
}
