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
    /// Writes the status line, and the fields that every response has.
    pub(crate) fn begin(out: &'o mut Vec<u8>, status: u16, date: &DateLine) -> Self {
        out.extend_from_slice(first_lines(status));
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
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Returns the output buffer, to write a value in place.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Finishes the head of a response with a body of `body_bytes` bytes, and returns the buffer for the body.
    /// For HEAD the body is not written.
    pub(crate) fn finish(mut self, body_bytes: usize, must_close: bool) -> &'o mut Vec<u8> {
        self.raw(b"Content-Length: ");
        crate::json::write_number(self.out, body_bytes);
        self.raw(b"\r\n");
        self.end(must_close)
    }

    /// Ends the head and returns the buffer for the body. The fields must contain the length, unless the
    /// response never has a body (204, 304).
    pub(crate) fn end(mut self, must_close: bool) -> &'o mut Vec<u8> {
        self.raw(if must_close { b"Connection: close\r\n\r\n" } else { b"\r\n" });
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

/// The status line and a field for every response: a browser must not take a body for a script or a page of another
/// type than the server says (Fetch standard, section 3.6). A constant, so that both cost one copy.
macro_rules! first_lines {
    ($status:literal) => {
        concat!("HTTP/1.1 ", $status, "\r\nX-Content-Type-Options: nosniff\r\n").as_bytes()
    };
}

/// Returns the status line and the field that every response has.
fn first_lines(status: u16) -> &'static [u8] {
    match status {
        100 => first_lines!("100 Continue"),
        200 => first_lines!("200 OK"),
        204 => first_lines!("204 No Content"),
        304 => first_lines!("304 Not Modified"),
        400 => first_lines!("400 Bad Request"),
        401 => first_lines!("401 Unauthorized"),
        403 => first_lines!("403 Forbidden"),
        404 => first_lines!("404 Not Found"),
        405 => first_lines!("405 Method Not Allowed"),
        408 => first_lines!("408 Request Timeout"),
        413 => first_lines!("413 Content Too Large"),
        414 => first_lines!("414 URI Too Long"),
        415 => first_lines!("415 Unsupported Media Type"),
        412 => first_lines!("412 Precondition Failed"),
        417 => first_lines!("417 Expectation Failed"),
        422 => first_lines!("422 Unprocessable Content"),
        429 => first_lines!("429 Too Many Requests"),
        431 => first_lines!("431 Request Header Fields Too Large"),
        501 => first_lines!("501 Not Implemented"),
        503 => first_lines!("503 Service Unavailable"),
        505 => first_lines!("505 HTTP Version Not Supported"),
        _ => first_lines!("500 Internal Server Error"),
    }
}
