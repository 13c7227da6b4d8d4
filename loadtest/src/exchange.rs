//! One request and its whole answer, outside of any measurement: what a server is asked before a load is put on it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Fields of a head that are read.
const FIELDS_MAX: usize = 64;
/// Bytes of an answer that an error shows.
const SHOWN_MAX: usize = 300;
/// A server that takes longer to send a byte has gone wrong.
const SILENT_MAX: Duration = Duration::from_secs(30);

/// A connection that stays open.
#[derive(Debug)]
pub struct Exchange {
    stream: TcpStream,
    /// Of an answer that is not whole.
    received: Vec<u8>,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub status: u16,
    /// Names and values in their order.
    pub fields: Vec<(String, String)>,
    head_bytes: usize,
}

impl Answer {
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }

    /// The value of a field, by its name in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// As it is, if it is a 200.
    pub fn good(self) -> io::Result<Self> {
        match self.status {
            200 => Ok(self),
            _ => {
                let shown = &self.bytes[..self.bytes.len().min(SHOWN_MAX)];
                Err(io::Error::other(format!("answered {}", shown.escape_ascii())))
            }
        }
    }
}

impl Exchange {
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENT_MAX))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Closes it at once, without the minute that its port would else be kept.
    pub fn reset(self) {
        // Where it fails it is closed in the usual way.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.write_all(request)?;
        loop {
            if let Some(answer) = whole(&mut self.received)? {
                return Ok(answer);
            }
            let mut part = [0; 16 * 1024];
            match self.stream.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&part[..count]),
            }
        }
    }
}

/// The answer to a request on a connection of its own.
pub fn ask(address: SocketAddr, request: &[u8]) -> io::Result<Answer> {
    Exchange::new(address)?.ask(request)
}

/// Takes the answer that `received` begins with; None where it is not all there.
pub fn whole(received: &mut Vec<u8>) -> io::Result<Option<Answer>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = head.parse(received).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let fields = head.headers.iter().map(|field| (field.name.to_owned(), text(field.value))).collect();
    let mut answer = Answer { bytes: Vec::new(), status: head.code.unwrap_or_default(), fields, head_bytes };
    let length = answer.field("content-length").and_then(|value| value.parse::<usize>().ok());
    let length = length.ok_or_else(|| io::Error::other("an answer without Content-Length"))?;
    if received.len() < head_bytes + length {
        return Ok(None);
    }
    let rest = received.split_off(head_bytes + length);
    answer.bytes = std::mem::replace(received, rest);
    Ok(Some(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_once_it_is_whole_and_the_next_is_left() {
        let both = b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 404 Gone\r\n";
        for cut in 0..47 {
            assert!(whole(&mut both[..cut].to_vec()).expect("no mistake").is_none(), "{cut}");
        }
        let mut received = both.to_vec();
        let answer = whole(&mut received).expect("no mistake").expect("it is whole");
        assert_eq!((answer.status, answer.body(), answer.field("a")), (200, &b"abc"[..], Some("b")));
        assert_eq!(received, b"HTTP/1.1 404 Gone\r\n");
        assert!(answer.good().is_ok());
    }

    #[test]
    fn an_answer_without_a_length_is_refused() {
        assert!(whole(&mut b"HTTP/1.1 200 OK\r\n\r\n".to_vec()).is_err());
    }
}
