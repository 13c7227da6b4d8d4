//! A plain HTTP client for requests outside the measurement: one request, one complete response.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Header fields that are parsed. A response with more is an error.
const FIELDS_MAX: usize = 64;
/// Bytes of a response that an error message shows.
const SHOWN_BYTES_MAX: usize = 300;
/// Longest wait for the next byte. A server that is silent for longer has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A client with one kept-alive connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    /// Received bytes of an incomplete response.
    received: Vec<u8>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    pub bytes: Vec<u8>,
    pub status: u16,
    /// Names and values in their order.
    pub fields: Vec<(String, String)>,
    head_bytes: usize,
}

impl Response {
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }

    /// Returns the value of a header field. The case of the name does not matter.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the response if its status is 200, else an error with its first bytes.
    pub fn require_ok(self) -> io::Result<Self> {
        match self.status {
            200 => Ok(self),
            _ => {
                let excerpt = &self.bytes[..self.bytes.len().min(SHOWN_BYTES_MAX)];
                Err(io::Error::other(format!("the response is no 200: {}", excerpt.escape_ascii())))
            }
        }
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Closes the connection with a reset, so that its port does not stay in TIME_WAIT for a minute.
    pub fn reset(self) {
        // On failure the connection is closed in the normal way.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Sends a request and waits for its response.
    pub fn ask(&mut self, request: &[u8]) -> io::Result<Response> {
        self.stream.write_all(request)?;
        loop {
            if let Some(response) = take_response(&mut self.received)? {
                return Ok(response);
            }
            let mut part = [0; 16 * 1024];
            match self.stream.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&part[..count]),
            }
        }
    }
}

/// Sends a request on a new connection and returns the response.
pub fn ask(address: SocketAddr, request: &[u8]) -> io::Result<Response> {
    Client::new(address)?.ask(request)
}

/// Removes the first response from `received`. Returns `None` if it is incomplete.
pub fn take_response(received: &mut Vec<u8>) -> io::Result<Option<Response>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = head.parse(received).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let fields = head.headers.iter().map(|field| (field.name.to_owned(), text(field.value))).collect();
    let mut response =
        Response { bytes: Vec::new(), status: head.code.unwrap_or_default(), fields, head_bytes };
    let length = response.field("content-length").and_then(|value| value.parse::<usize>().ok());
    let length = length.ok_or_else(|| io::Error::other("the response has no Content-Length"))?;
    if received.len() < head_bytes + length {
        return Ok(None);
    }
    let rest = received.split_off(head_bytes + length);
    response.bytes = std::mem::replace(received, rest);
    Ok(Some(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_complete_response_is_removed() {
        let both = b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 404 Gone\r\n";
        for cut in 0..47 {
            assert!(take_response(&mut both[..cut].to_vec()).expect("no mistake").is_none(), "{cut}");
        }
        let mut received = both.to_vec();
        let response = take_response(&mut received).expect("no mistake").expect("it is whole");
        assert_eq!((response.status, response.body(), response.field("a")), (200, &b"abc"[..], Some("b")));
        assert_eq!(received, b"HTTP/1.1 404 Gone\r\n");
        assert!(response.require_ok().is_ok());
    }

    #[test]
    fn a_response_without_content_length_is_an_error() {
        assert!(take_response(&mut b"HTTP/1.1 200 OK\r\n\r\n".to_vec()).is_err());
    }
}
