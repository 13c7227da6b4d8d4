//! Response heads (RFC 9112 section 4), written directly into the output buffer of the connection.
//!
//! The length of the body is known before the head is written, so nothing is patched or moved later.

use super::date::DateLine;

/// A response head that is being written. Finish it: a dropped head leaves half a response in the buffer.
#[derive(Debug)]
pub(crate) struct ResponseHead<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> ResponseHead<'o> {
    /// Writes the status line and the date.
    pub(crate) fn begin(out: &'o mut Vec<u8>, status: u16, date: &DateLine) -> Self {
        out.extend_from_slice(status_line(status));
        out.extend_from_slice(date.as_bytes());
        Self { out }
    }

    /// Writes one field. `name` ends in ": ". The value must not contain CR or LF: it comes from a validated
    /// request or from us.
    #[inline]
    pub(crate) fn field(&mut self, name: &'static str, value: &[u8]) {
        write_field(self.out, name, value);
    }

    /// Writes complete lines, or a part of one, as they are.
    #[inline]
    pub(crate) fn raw(&mut self, lines: &[u8]) {
        self.out.extend_from_slice(lines);
    }

    /// Returns the output buffer, to write a value in place.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Finishes the head of a response with a body of `length` bytes, and returns the buffer for the body.
    /// For HEAD the body is not written.
    pub(crate) fn finish(mut self, length: usize, close: bool) -> &'o mut Vec<u8> {
        self.raw(b"Content-Length: ");
        crate::json::write_number(self.out, length);
        self.raw(b"\r\n");
        self.end(close)
    }

    /// Ends the head and returns the buffer for the body. The fields must contain the length, unless the
    /// response never has a body (204, 304).
    pub(crate) fn end(mut self, close: bool) -> &'o mut Vec<u8> {
        self.raw(if close { b"Connection: close\r\n\r\n" } else { b"\r\n" });
        self.out
    }
}

/// Appends one field, as [`ResponseHead::field`] does.
#[inline]
pub(crate) fn write_field(out: &mut Vec<u8>, name: &'static str, value: &[u8]) {
    debug_assert!(name.ends_with(": "));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn status_line(status: u16) -> &'static [u8] {
    match status {
        100 => b"HTTP/1.1 100 Continue\r\n",
        200 => b"HTTP/1.1 200 OK\r\n",
        204 => b"HTTP/1.1 204 No Content\r\n",
        304 => b"HTTP/1.1 304 Not Modified\r\n",
        400 => b"HTTP/1.1 400 Bad Request\r\n",
        401 => b"HTTP/1.1 401 Unauthorized\r\n",
        403 => b"HTTP/1.1 403 Forbidden\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
        408 => b"HTTP/1.1 408 Request Timeout\r\n",
        413 => b"HTTP/1.1 413 Content Too Large\r\n",
        414 => b"HTTP/1.1 414 URI Too Long\r\n",
        415 => b"HTTP/1.1 415 Unsupported Media Type\r\n",
        412 => b"HTTP/1.1 412 Precondition Failed\r\n",
        417 => b"HTTP/1.1 417 Expectation Failed\r\n",
        422 => b"HTTP/1.1 422 Unprocessable Content\r\n",
        429 => b"HTTP/1.1 429 Too Many Requests\r\n",
        431 => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        501 => b"HTTP/1.1 501 Not Implemented\r\n",
        503 => b"HTTP/1.1 503 Service Unavailable\r\n",
        505 => b"HTTP/1.1 505 HTTP Version Not Supported\r\n",
        _ => b"HTTP/1.1 500 Internal Server Error\r\n",
    }
}
