//! What was received on a connection and not yet answered: where each request ends.
//!
//! A pure function of the bytes, however they are split: a head is whole or not ([`super::request`]), its body is counted or
//! chunked ([`super::chunked`]) and decoded where it lies, and the next request begins behind it.

use super::chunked::{Chunked, Progress};
use super::request::{Body, Request};
use crate::limits::{
    BODY_BYTES_MAX, CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, READ_BUFFER_BYTES, TRAILER_BYTES_MAX,
};
use crate::problem::Problem;

/// Received bytes: `0 <= at <= buffer.len() <= buffer.capacity()`.
#[derive(Debug)]
pub struct Input {
    buffer: Vec<u8>,
    /// Where the next request begins.
    at: usize,
    /// The body of that request, where its head is known to be whole and to announce one.
    body: Option<Receiving>,
}

/// A body on its way.
#[derive(Debug)]
struct Receiving {
    head_bytes: usize,
    framing: Framing,
}

#[derive(Debug)]
enum Framing {
    /// So many bytes.
    Length(usize),
    /// As its chunks say.
    Chunked(Chunked),
    /// All of it is here, so many bytes.
    Whole(usize),
}

impl Input {
    /// Nothing was received.
    pub fn new() -> Self {
        Self { buffer: Vec::with_capacity(READ_BUFFER_BYTES), at: 0, body: None }
    }

    /// What is not answered yet.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Whether the body that is expected, if one is, is here.
    ///
    /// # Errors
    /// It is not framed, or too large; nothing behind it can be told.
    pub fn receive_body(&mut self) -> Result<bool, Problem<'static>> {
        let Some(Receiving { head_bytes, framing }) = &mut self.body else { return Ok(true) };
        let begin = self.at + *head_bytes;
        let whole = match framing {
            Framing::Whole(length) => Some(*length),
            Framing::Length(length) => Some(*length).filter(|length| self.buffer.len() - begin >= *length),
            Framing::Chunked(chunked) => match chunked.advance(&mut self.buffer, begin)? {
                Progress::Whole(length) => Some(length),
                Progress::Partial => None,
            },
        };
        if let Some(length) = whole {
            *framing = Framing::Whole(length);
        }
        Ok(whole.is_some())
    }

    /// Where the request of the head that stands first ends, if its body is here: its content stands behind the head.
    pub fn end(&self, request: &Request<'_>, head_bytes: usize) -> Option<usize> {
        match (&self.body, request.body) {
            (Some(Receiving { framing: Framing::Whole(length), .. }), _) => Some(head_bytes + length),
            (_, Body::Length(length)) => Some(head_bytes + length).filter(|end| *end <= self.unread().len()),
            _ => None,
        }
    }

    /// Begins to wait for a body.
    pub fn expect_body(&mut self, head_bytes: usize, body: Body) {
        let framing = match body {
            Body::Length(length) => Framing::Length(length),
            Body::Chunked => Framing::Chunked(Chunked::new()),
        };
        self.body = Some(Receiving { head_bytes, framing });
    }

    /// Whether the rest of a body has to come.
    pub fn expects_body(&self) -> bool {
        self.body.is_some()
    }

    /// Steps over a request that was answered.
    pub fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        self.body = None;
    }

    /// Throws away what was received.
    pub fn forget(&mut self) {
        self.buffer.clear();
        self.at = 0;
        self.body = None;
    }

    /// The buffer, with room behind what it holds, to receive into; to be given back.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.make_room();
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back.
    pub fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Bytes of the buffer that the next read needs.
    ///
    /// A head that does not fit the small buffer gets one that fits any; it is given back once it is answered. For a body
    /// the buffer doubles as it comes, so that who only announces one costs no more than who sends a head.
    pub fn bytes_wanted(&self) -> usize {
        let (held, capacity) = (self.unread().len(), self.buffer.capacity());
        match held {
            0 => READ_BUFFER_BYTES,
            _ if held < capacity => capacity,
            _ => (2 * held).min(self.bytes_max()).max(HEAD_BYTES_MAX),
        }
    }

    fn make_room(&mut self) {
        let wanted = self.bytes_wanted();
        self.buffer.drain(..self.at);
        self.at = 0;
        if wanted < self.buffer.capacity() {
            self.buffer.shrink_to(wanted);
        } else {
            self.buffer.reserve_exact(wanted - self.buffer.len());
        }
    }

    /// Bytes that are wanted at most, as far as is known.
    fn bytes_max(&self) -> usize {
        match &self.body {
            None => HEAD_BYTES_MAX,
            Some(Receiving { head_bytes, framing: Framing::Length(length) }) => head_bytes + length,
            // Beside its content a line or a trailer that is not whole.
            Some(Receiving { head_bytes, .. }) => {
                head_bytes + BODY_BYTES_MAX + CHUNK_LINE_BYTES_MAX.max(TRAILER_BYTES_MAX) + 2
            }
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::new()
    }
}
