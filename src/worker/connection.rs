//! A connection: read, parse, answer, write, until either side has enough. Every `if` about the
//! wire stands here.
//!
//! All requests that came in one read are answered in one send, in their order. A waiting
//! connection keeps its read buffer; output buffers belong to the worker.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use monoio::buf::{IoBufMut, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use super::Service;
use crate::http::request::{self, Body, Method, Parsed};
use crate::limits::{
    BODY_BYTES_MAX, FLUSH_BYTES, HEAD_BYTES_MAX, POOLED_BUFFER_BYTES_MAX, POOLED_BUFFERS_MAX,
    READ_BUFFER_BYTES,
};
use crate::problem::{self, Problem};

/// What the connections of a worker share.
pub(super) struct Shared<S> {
    pub(super) service: RefCell<S>,
    outputs: RefCell<Vec<Vec<u8>>>,
}

impl<S: Service> Shared<S> {
    pub(super) fn new(service: S) -> Self {
        let outputs = RefCell::new(Vec::with_capacity(POOLED_BUFFERS_MAX));
        Self { service: RefCell::new(service), outputs }
    }

    fn take_output(&self) -> Vec<u8> {
        self.outputs.borrow_mut().pop().unwrap_or_default()
    }

    fn give_output(&self, mut output: Vec<u8>) {
        let mut outputs = self.outputs.borrow_mut();
        if outputs.len() < POOLED_BUFFERS_MAX && output.capacity() <= POOLED_BUFFER_BYTES_MAX {
            output.clear();
            outputs.push(output);
        }
    }
}

/// What comes after the answers that are in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The rest of a request has to come.
    Read,
    /// More requests are here, but the output is full.
    Answer,
    /// The client asked for it, or will get no other answer: nothing unread is left.
    Close,
    /// What follows is not understood, or not wanted: it is thrown away before closing, since
    /// closing over unread bytes could destroy the answer on its way (RFC 9112 section 9.6).
    Drain,
}

pub(super) async fn serve<S: Service>(mut stream: TcpStream, peer: SocketAddr, shared: Rc<Shared<S>>) {
    let mut input = Input::new();
    loop {
        if !input.read(&mut stream).await {
            return;
        }
        loop {
            let mut output = shared.take_output();
            let next = answer(&mut input, peer, &shared, &mut output);
            if !output.is_empty() {
                let (written, buffer) = stream.write_all(output).await;
                output = buffer;
                if written.is_err() {
                    return;
                }
            }
            shared.give_output(output);
            match next {
                Next::Answer => {}
                Next::Read => break,
                Next::Close => return,
                Next::Drain => return drain(stream, input).await,
            }
        }
    }
}

/// Appends the answers to all requests that are whole. A panic costs this connection, not the worker.
fn answer<S: Service>(input: &mut Input, peer: SocketAddr, shared: &Shared<S>, output: &mut Vec<u8>) -> Next {
    let answering = AssertUnwindSafe(|| answer_all(input, peer, &mut *shared.service.borrow_mut(), output));
    catch_unwind(answering).unwrap_or_else(|_| {
        tracing::error!("a panic while answering: its connection is closed");
        output.clear();
        Next::Close
    })
}

fn answer_all<S: Service>(
    input: &mut Input,
    peer: SocketAddr,
    service: &mut S,
    output: &mut Vec<u8>,
) -> Next {
    while output.len() < FLUSH_BYTES {
        if !input.skip_body() || input.unread().len() < input.wanted {
            return Next::Read;
        }
        match request::parse(input.unread(), service.country_header()) {
            Parsed::Partial => return Next::Read,
            Parsed::Refused(problem) => {
                service.refuse(&problem, output);
                return Next::Drain;
            }
            Parsed::Whole(mut request, head_bytes) => {
                let waited_for = request.method == Method::Post;
                let length = match request.body {
                    Body::Chunked if waited_for => {
                        let expected = "a body with a Content-Length";
                        let problem = Problem::new(problem::UNKNOWN_TRANSFER_CODING, expected, "chunked");
                        service.refuse(&problem, output);
                        return Next::Drain;
                    }
                    Body::Chunked => 0,
                    Body::Length(length) => length,
                };
                if waited_for {
                    let whole = head_bytes + length;
                    match input.unread().get(head_bytes..whole) {
                        Some(content) => request.content = content,
                        None => {
                            // Asked once: `wanted` keeps us from coming here again before the body is whole.
                            if request.waits_to_continue() {
                                output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                            }
                            input.wanted = whole;
                            return Next::Read;
                        }
                    }
                }
                let unwanted = !waited_for && (request.body == Body::Chunked || request.waits_to_continue());
                request.close |= unwanted;
                service.answer(&request, peer, output);
                let close = request.close;
                if unwanted {
                    return Next::Drain;
                }
                input.consume(head_bytes, length);
                if close {
                    return if input.is_read_out() { Next::Close } else { Next::Drain };
                }
            }
        }
    }
    Next::Answer
}

async fn drain(mut stream: TcpStream, mut input: Input) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut drained = 0;
    while drained < BODY_BYTES_MAX && input.read(&mut stream).await {
        drained += input.unread().len();
        input.forget();
    }
}

/// What was received and not yet answered: `0 <= at <= buffer.len() <= buffer.capacity()`.
struct Input {
    buffer: Vec<u8>,
    /// Where the next request begins.
    at: usize,
    /// Bytes of a body that nobody wants and that have not come yet.
    body_rest: usize,
    /// Bytes of the next request, as far as its head tells: before they are here there is nothing to do.
    wanted: usize,
}

impl Input {
    fn new() -> Self {
        Self { buffer: Vec::with_capacity(READ_BUFFER_BYTES), at: 0, body_rest: 0, wanted: 0 }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    fn is_read_out(&self) -> bool {
        self.unread().is_empty() && self.body_rest == 0
    }

    fn forget(&mut self) {
        self.buffer.clear();
        self.at = 0;
    }

    fn consume(&mut self, head_bytes: usize, body_bytes: usize) {
        self.at += head_bytes;
        self.body_rest = body_bytes;
        self.wanted = 0;
    }

    /// Steps over what has come of an unwanted body; whether that was all of it.
    fn skip_body(&mut self) -> bool {
        let here = self.body_rest.min(self.unread().len());
        self.at += here;
        self.body_rest -= here;
        self.body_rest == 0
    }

    /// Receives more; false where nothing more comes.
    async fn read(&mut self, stream: &mut TcpStream) -> bool {
        self.make_room();
        loop {
            let filled = self.buffer.len();
            let slice: SliceMut<Vec<u8>> = std::mem::take(&mut self.buffer).slice_mut(filled..);
            let (received, slice) = stream.read(slice).await;
            self.buffer = slice.into_inner();
            match received {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return received.is_ok_and(|bytes| bytes > 0),
            }
        }
    }

    /// A head that does not fit the small buffer gets one that fits any; it is given back once it is answered. For a body
    /// the buffer doubles as it comes, so that who only announces one costs no more than who sends a head.
    fn make_room(&mut self) {
        self.buffer.drain(..self.at);
        self.at = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > READ_BUFFER_BYTES {
            self.buffer.shrink_to(READ_BUFFER_BYTES);
        } else if self.buffer.len() == self.buffer.capacity() {
            let room = (2 * self.buffer.len()).min(self.wanted).max(HEAD_BYTES_MAX);
            self.buffer.reserve_exact(room.saturating_sub(self.buffer.len()));
        }
    }
}
