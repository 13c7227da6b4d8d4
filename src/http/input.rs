//! The read buffer of a connection: received bytes that are not yet answered, and the end of each request in
//! them.
//!
//! A pure function of the bytes, however they are split into reads. A head is complete or partial
//! ([`super::request`]). A body has a length or is chunked ([`super::chunked`]) and is decoded in place. The
//! next request follows the body.

use super::chunked::{ChunkedDecoder, DecodeStatus};
use super::request::{BodyFraming, Request};
use crate::limits::{
    BODY_BUFFER_STEP_BYTES, BODY_BYTES_MAX, CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, READ_BUFFER_BYTES,
    TRAILER_BYTES_MAX,
};
use crate::problem::Problem;

/// A read buffer. Invariant: `0 <= start <= buffer.len() <= buffer.capacity()`.
#[derive(Debug)]
pub struct ReadBuffer {
    buffer: Vec<u8>,
    /// The offset of the next request.
    start: usize,
    /// Number of bodies so far that were not complete at first.
    bodies: u64,
    /// The body of that request, if its head is complete and the body was not complete at first.
    body: Option<BodyProgress>,
}

/// A body that is being received, or that was received in parts.
#[derive(Debug)]
struct BodyProgress {
    head_bytes: usize,
    state: BodyState,
}

#[derive(Debug)]
enum BodyState {
    /// The body has this many bytes. Not all of them are known to be received.
    Length(usize),
    /// The body is chunked and incomplete.
    Chunked(ChunkedDecoder),
    /// The body is complete and has this many bytes.
    Complete(usize),
}

impl ReadBuffer {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self { buffer: Vec::with_capacity(READ_BUFFER_BYTES), start: 0, bodies: 0, body: None }
    }

    /// Returns the bytes that are not yet answered.
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Decodes the received part of the expected body. Returns whether the body is complete, or true if none
    /// is expected.
    ///
    /// # Errors
    /// The body is malformed or too large. The bytes after it cannot be interpreted.
    pub fn decode_body(&mut self) -> Result<bool, Problem<'static>> {
        let Some(BodyProgress { head_bytes, state: framing }) = &mut self.body else { return Ok(true) };
        let begin = self.start + *head_bytes;
        let whole = match framing {
            BodyState::Complete(length) => Some(*length),
            BodyState::Length(length) => Some(*length).filter(|length| self.buffer.len() - begin >= *length),
            BodyState::Chunked(chunked) => match chunked.decode(&mut self.buffer, begin)? {
                DecodeStatus::Complete(length) => Some(length),
                DecodeStatus::Partial => None,
            },
        };
        if let Some(length) = whole {
            *framing = BodyState::Complete(length);
        }
        Ok(whole.is_some())
    }

    /// Returns the end of the first request, whose head was parsed, if its body is complete. The body follows
    /// the head.
    pub fn request_end(&self, request: &Request<'_>, head_bytes: usize) -> Option<usize> {
        match (&self.body, request.body_framing) {
            (Some(BodyProgress { state: BodyState::Complete(length), .. }), _) => Some(head_bytes + length),
            (_, BodyFraming::Length(length)) => {
                Some(head_bytes + length).filter(|end| *end <= self.pending().len())
            }
            _ => None,
        }
    }

    /// Starts to receive the body of the first request.
    pub fn expect_body(&mut self, head_bytes: usize, body_framing: BodyFraming) {
        let framing = match body_framing {
            BodyFraming::Length(length) => BodyState::Length(length),
            BodyFraming::Chunked => BodyState::Chunked(ChunkedDecoder::new()),
        };
        self.bodies += 1;
        self.body = Some(BodyProgress { head_bytes, state: framing });
    }

    /// Returns the number of the body that is being received, counted on this connection. Returns `None` if
    /// none is.
    pub fn body_number(&self) -> Option<u64> {
        self.body.as_ref().map(|_| self.bodies)
    }

    /// Advances past a request that was answered.
    pub fn advance(&mut self, request_bytes: usize) {
        self.start += request_bytes;
        self.body = None;
    }

    /// Discards all received bytes.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.start = 0;
        self.body = None;
    }

    /// Discards all received bytes and frees their memory. The next read allocates a small buffer.
    pub fn release(&mut self) {
        self.clear();
        self.buffer = Vec::new();
    }

    /// Takes the buffer out, with free space after its content, for a read. The caller puts it back after the
    /// read.
    pub fn take(&mut self) -> Vec<u8> {
        self.make_room();
        std::mem::take(&mut self.buffer)
    }

    /// Puts the buffer back.
    pub fn put_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Returns the buffer capacity that the next read needs, in bytes.
    ///
    /// A head that does not fit the small buffer gets one that fits any head, until it is answered. For a
    /// body the buffer grows in steps as bytes arrive, so a client that only announces a large body costs no
    /// more than one that sends a head.
    pub fn capacity_wanted(&self) -> usize {
        let held = self.pending().len();
        let capacity = self.buffer.capacity();
        match &self.body {
            None if held < READ_BUFFER_BYTES => READ_BUFFER_BYTES,
            None => HEAD_BYTES_MAX,
            Some(_) if held < capacity => capacity.max(READ_BUFFER_BYTES),
            Some(body) => (held + BODY_BUFFER_STEP_BYTES).min(body.capacity_max()).max(READ_BUFFER_BYTES),
        }
    }

    fn make_room(&mut self) {
        let wanted = self.capacity_wanted();
        self.buffer.drain(..self.start);
        self.start = 0;
        if wanted < self.buffer.capacity() {
            self.buffer.shrink_to(wanted);
        } else {
            self.buffer.reserve_exact(wanted - self.buffer.len());
        }
    }
}

impl BodyProgress {
    /// Returns the largest capacity that the request can need.
    fn capacity_max(&self) -> usize {
        match self.state {
            BodyState::Length(bytes) => self.head_bytes + bytes,
            // In addition to the content: one incomplete line or trailer section.
            _ => self.head_bytes + BODY_BYTES_MAX + CHUNK_LINE_BYTES_MAX.max(TRAILER_BYTES_MAX) + 2,
        }
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}
