//! Where an answer ends: status and framing, read from the bytes as they come, without allocating where a head comes whole.
//!
//! It reads what the servers of the comparisons send: a status line, `Content-Length` or a status that has no body,
//! `Connection: close`. What else there is in a head is for the check of whole answers. An error is the end of the connection, as
//! nothing behind it can be read.

use memchr::memmem;

/// A head that is not whole after so many bytes is none: the largest there is in the comparisons is under a kilobyte.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const END: &[u8] = b"\r\n\r\n";

/// Reads the answers of a connection.
#[derive(Default)]
pub struct Reader {
    /// A head that is not whole.
    head: Vec<u8>,
    /// Of the answer whose head was read.
    now: Option<Answer>,
    body_left: usize,
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// Whether it is the last on its connection.
    pub closes: bool,
}

/// What became of some bytes.
#[derive(Debug, PartialEq)]
pub struct Read {
    /// Bytes in front that belong to the present answer.
    pub used: usize,
    /// It, where it ended with them.
    pub ended: Option<Answer>,
}

/// What a head comes to.
#[derive(Debug, PartialEq)]
struct Head {
    answer: Answer,
    body: usize,
}

impl Reader {
    /// Reads up to the end of the present answer, or all.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Read, String> {
        let (answer, head) = match self.now {
            Some(answer) => (answer, 0),
            None => match self.begin(bytes)? {
                Some((answer, head)) => (answer, head),
                None => return Ok(Read { used: bytes.len(), ended: None }),
            },
        };
        let body = self.body_left.min(bytes.len() - head);
        self.body_left -= body;
        self.now = Some(answer).filter(|_| self.body_left > 0);
        Ok(Read { used: head + body, ended: Some(answer).filter(|_| self.body_left == 0) })
    }

    /// Whether the next byte is the first of an answer.
    pub fn is_between(&self) -> bool {
        self.now.is_none() && self.head.is_empty()
    }

    /// Reads the head that ends in `bytes`, and says how many of them it takes; keeps them where it does not end.
    fn begin(&mut self, bytes: &[u8]) -> Result<Option<(Answer, usize)>, String> {
        let before = self.head.len();
        let head = if before == 0 {
            memmem::find(bytes, END).map(|at| (head(&bytes[..at]), at))
        } else {
            self.head.extend_from_slice(bytes);
            memmem::find(&self.head, END).map(|at| (head(&self.head[..at]), at))
        };
        let Some((head, at)) = head else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            let is_too_long = self.head.len() > HEAD_BYTES_MAX;
            return if is_too_long { Err("its head does not end".to_owned()) } else { Ok(None) };
        };
        self.head.clear();
        let Head { answer, body } = head?;
        self.body_left = body;
        Ok(Some((answer, at + END.len() - before)))
    }
}

/// Reads a head without its empty line.
fn head(bytes: &[u8]) -> Result<Head, String> {
    let status = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(number);
    let status = status.ok_or_else(|| format!("it begins with {}", begin(bytes)))?;
    let (mut length, mut closes, mut from) = (None, false, 0);
    while let Some(at) = memchr::memchr(b'\n', &bytes[from..]) {
        from += at + 1;
        let field = &bytes[from..];
        // Most fields are neither: their first letter says so.
        match field.first() {
            Some(b'c' | b'C') => {
                if let Some(value) = value(field, b"content-length:") {
                    length = Some(number(value).ok_or("its Content-Length is no number")?);
                } else if let Some(value) = value(field, b"connection:") {
                    closes |= value.eq_ignore_ascii_case(b"close");
                }
            }
            Some(b't' | b'T') if value(field, b"transfer-encoding:").is_some() => {
                return Err(
                    "it is chunked; the server must be set so that it sends Content-Length".to_owned()
                );
            }
            _ => {}
        }
    }
    let answer = Answer { status: status as u16, closes };
    match length {
        _ if matches!(status, 204 | 304) => Ok(Head { answer, body: 0 }),
        Some(body) => Ok(Head { answer, body }),
        None => Err(format!("status {status} came without Content-Length")),
    }
}

/// The value of the field that `bytes` begin with, if it has that name, given in lower case with its colon.
fn value<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (before, behind) = bytes.split_at_checked(name.len())?;
    let value = &behind[..memchr::memchr(b'\r', behind).unwrap_or(behind.len())];
    before.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The first bytes, to be shown.
pub fn begin(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes[..bytes.len().min(60)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All answers in `stream`, which comes in parts of `part` bytes, with the length of each.
    fn read(stream: &[u8], part: usize) -> Result<Vec<(Answer, usize)>, String> {
        let (mut reader, mut answers, mut length) = (Reader::default(), Vec::new(), 0);
        for mut bytes in stream.chunks(part) {
            while !bytes.is_empty() {
                let Read { used, ended } = reader.read(bytes)?;
                (bytes, length) = (&bytes[used..], length + used);
                if let Some(answer) = ended {
                    answers.push((answer, std::mem::take(&mut length)));
                }
            }
        }
        assert!(reader.is_between());
        Ok(answers)
    }

    #[test]
    fn answers_end_where_their_framing_says_however_the_bytes_come() {
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
            parts.map(|(text, status, closes)| (Answer { status, closes }, text.len())).to_vec();
        for part in 1..=stream.len() {
            assert_eq!(read(stream.as_bytes(), part).as_ref(), Ok(&expected), "in parts of {part}");
        }
    }

    #[test]
    fn what_cannot_be_framed_is_named() {
        for (stream, expected) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "chunked"),
            ("HTTP/1.1 200 OK\r\nServer: a\r\n\r\n", "without Content-Length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no number"),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1", "begins with"),
            ("\r\n\r\n", "begins with"),
        ] {
            let said = read(stream.as_bytes(), 7).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
        assert!(read(&endless, 1000).unwrap_err().contains("does not end"));
    }
}
