//! A connection: read, parse, answer, write, until either side has enough. Every `if` about the
//! wire stands here.
//!
//! All requests that came in one read are answered in one send, in their order. A waiting
//! connection keeps its read buffer; output buffers belong to the worker.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use monoio::buf::{IoBuf, IoBufMut, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use super::Service;
use super::deadlines::{Deadlines, Phase, Watched};
use super::stopping::Stopping;
use crate::http::input::Input;
use crate::http::request::{self, Parsed};
use crate::limits::{BODY_BYTES_MAX, FLUSH_BYTES, POOLED_BUFFER_BYTES_MAX, POOLED_BUFFERS_MAX};
use crate::problem::{self, Problem};

/// What the connections of a worker share.
pub(super) struct Shared<S> {
    pub(super) service: RefCell<S>,
    pub(super) deadlines: Rc<Deadlines>,
    pub(super) stopping: Stopping,
    outputs: RefCell<Vec<Vec<u8>>>,
}

impl<S: Service> Shared<S> {
    pub(super) fn new(service: S, deadlines: Deadlines, stopping: Stopping) -> Self {
        let outputs = RefCell::new(Vec::with_capacity(POOLED_BUFFERS_MAX));
        Self { service: RefCell::new(service), deadlines: Rc::new(deadlines), stopping, outputs }
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
    let _open = shared.stopping.opened();
    // Declared behind the stream, so dropped before it.
    let watched = shared.deadlines.watch(stream.as_raw_fd());
    let mut input = Input::new();
    loop {
        watched.at(phase(&input));
        if !read(&mut input, &mut stream, &watched).await {
            return refuse_expired(stream, &watched, &shared).await;
        }
        loop {
            let mut output = shared.take_output();
            let next = answer(&mut input, peer, &shared, &mut output);
            if !output.is_empty() {
                watched.at(Phase::Write);
                let Some(buffer) = write(&mut stream, output, &watched).await else { return };
                output = buffer;
            }
            shared.give_output(output);
            match next {
                Next::Answer => {}
                Next::Read => break,
                Next::Close => return,
                Next::Drain => return drain(stream, input, &watched).await,
            }
        }
    }
}

/// What a connection waits for whose input holds this.
fn phase(input: &Input) -> Phase {
    match input.unread() {
        _ if input.expects_body() => Phase::Body,
        [] => Phase::Idle,
        _ => Phase::Head,
    }
}

/// Tells a client whose request took too long; others are gone, or were told.
async fn refuse_expired<S: Service>(mut stream: TcpStream, watched: &Watched, shared: &Shared<S>) {
    let expected = match watched.expired() {
        Some(Phase::Head) => "a whole head in the time that --timeout-head-ms gives it",
        Some(Phase::Body) => "a body of at least 1024 bytes a second",
        _ => return,
    };
    let mut output = shared.take_output();
    shared.service.borrow_mut().refuse(&Problem::missing(problem::TIMEOUT, expected), &mut output);
    // The sweep looks no more at a connection that is over, and a few hundred bytes always fit the socket's buffer.
    if let (Ok(_), output) = stream.write_all(output).await {
        shared.give_output(output);
    }
}

/// Sends all of it; None where the client is gone.
async fn write(stream: &mut TcpStream, output: Vec<u8>, watched: &Watched) -> Option<Vec<u8>> {
    let (mut sent, mut output) = (0, output);
    while sent < output.len() {
        let (written, slice) = stream.write(output.slice(sent..)).await;
        output = slice.into_inner();
        match written {
            Ok(0) => return None,
            Ok(bytes) => sent += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        watched.again();
    }
    Some(output)
}

/// Appends the answers to all requests that are whole. A panic costs this connection, not the worker.
fn answer<S: Service>(input: &mut Input, peer: SocketAddr, shared: &Shared<S>, output: &mut Vec<u8>) -> Next {
    let answering = AssertUnwindSafe(|| {
        let last = shared.stopping.has_begun();
        answer_all(input, peer, &mut *shared.service.borrow_mut(), last, output)
    });
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
    last: bool,
    output: &mut Vec<u8>,
) -> Next {
    while output.len() < FLUSH_BYTES {
        match input.receive_body() {
            Ok(true) => {}
            Ok(false) => return Next::Read,
            Err(problem) => {
                service.refuse(&problem, output);
                return Next::Drain;
            }
        }
        match request::parse(input.unread(), service.country_header()) {
            Parsed::Partial => return Next::Read,
            Parsed::Refused(problem) => {
                service.refuse(&problem, output);
                return Next::Drain;
            }
            Parsed::Whole(mut request, head_bytes) => {
                let Some(end) = input.end(&request, head_bytes) else {
                    // Who sent some of it already does not wait.
                    if request.waits_to_continue() && input.unread().len() == head_bytes {
                        output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    let body = request.body;
                    input.expect_body(head_bytes, body);
                    continue;
                };
                request.content = &input.unread()[head_bytes..end];
                request.close |= last;
                let close = request.close;
                service.answer(&request, peer, output);
                input.consume(end);
                if close {
                    return if input.unread().is_empty() { Next::Close } else { Next::Drain };
                }
            }
        }
    }
    Next::Answer
}

async fn drain(mut stream: TcpStream, mut input: Input, watched: &Watched) {
    watched.at(Phase::Drain);
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut drained = 0;
    while drained < BODY_BYTES_MAX && read(&mut input, &mut stream, watched).await {
        drained += input.unread().len();
        input.forget();
    }
}

/// Receives more; false where nothing more comes.
async fn read(input: &mut Input, stream: &mut TcpStream, watched: &Watched) -> bool {
    let mut buffer = input.take_buffer();
    loop {
        let filled = buffer.len();
        let slice: SliceMut<Vec<u8>> = buffer.slice_mut(filled..);
        let (received, slice) = stream.read(slice).await;
        buffer = slice.into_inner();
        match received {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                input.give_buffer(buffer);
                received.as_ref().ok().inspect(|bytes| watched.received(**bytes));
                return received.is_ok_and(|bytes| bytes > 0);
            }
        }
    }
}
