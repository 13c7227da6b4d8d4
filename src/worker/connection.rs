//! A connection: read, parse, answer, write, until either side has enough. Every `if` about the
//! wire stands here.
//!
//! All requests that came in one read are answered in one send, in their order. A waiting
//! connection keeps its read buffer; output buffers belong to the worker.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Waker;

use monoio::buf::{IoBuf, IoBufMut, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use super::busy_poll::Spinning;
use super::memory::{Held, Holding};
use super::pending::Waiting;
use super::shutdown::Stopping;
use super::timeouts::{Deadlines, Phase, Watched};
use super::{ENDPOINTS_COUNTED, Service, access_log};
use crate::api::{Answered, Progress};
use crate::clock;
use crate::config::Connections;
use crate::http::input::Input;
use crate::http::request::{self, Arrival, Parsed, Request, Waited};
use crate::limits::{
    ANSWERS_BYTES_MAX, BODY_BYTES_MAX, FLUSH_BYTES, POOLED_BYTES_MAX, READ_BUFFER_BYTES,
    REFUSED_WAITED_FOR_MAX,
};
use crate::metrics::{Counters, Happening, Totals};
use crate::problem::{self, Problem};

/// What the connections of a worker share.
pub(super) struct Shared<S> {
    pub(super) service: RefCell<S>,
    pub(super) connections: Connections,
    pub(super) deadlines: Rc<Deadlines>,
    pub(super) held: Rc<Held>,
    pub(super) stopping: Stopping,
    pub(super) spinning: Rc<Spinning>,
    /// Of requests that wait, by token.
    pub(super) wakers: RefCell<Vec<Option<Waker>>>,
    /// Of the task that hands them over.
    pub(super) hander: RefCell<Option<Waker>>,
    /// Connections that are told that they are too many.
    refusing: Cell<usize>,
    counters: RefCell<Counters>,
    totals: Totals,
    outputs: RefCell<Outputs>,
}

/// Buffers for answers.
#[derive(Default)]
struct Outputs {
    buffers: Vec<Vec<u8>>,
    /// What they can hold together.
    bytes: usize,
}

impl<S: Service> Shared<S> {
    pub(super) fn new(
        service: S,
        connections: Connections,
        deadlines: Deadlines,
        totals: Totals,
        stopping: Stopping,
        spinning: Spinning,
    ) -> Self {
        Self {
            service: RefCell::new(service),
            connections,
            deadlines: Rc::new(deadlines),
            held: Held::new(connections.held_bytes_max),
            stopping,
            spinning: Rc::new(spinning),
            wakers: RefCell::default(),
            hander: RefCell::default(),
            refusing: Cell::new(0),
            counters: RefCell::new(Counters::new(ENDPOINTS_COUNTED)),
            totals,
            outputs: RefCell::default(),
        }
    }

    /// Once a second.
    pub(super) fn tick(&self) {
        self.service.borrow_mut().tick();
        self.totals.take(&mut self.counters.borrow_mut());
    }

    pub(super) fn happened(&self, happening: Happening) {
        self.counters.borrow_mut().happened(happening);
    }

    /// Appends the refusal of what is not a request, or not one that can be answered.
    pub(super) fn refuse(&self, problem: &Problem<'_>, arrival: &Arrival, output: &mut Vec<u8>) {
        let begin = output.len();
        self.service.borrow_mut().refuse(problem, output);
        self.count(Answered { endpoint: None, refused: Some(problem.kind) }, None, arrival, &output[begin..]);
    }

    /// Answers a request; the token of one that waits.
    fn answer(&self, request: &Request<'_>, arrival: &Arrival, output: &mut Vec<u8>) -> Option<usize> {
        let begin = output.len();
        let progress = self.service.borrow_mut().answer(request, arrival, output);
        match progress {
            Progress::Answered(answered) => {
                self.count(answered, Some(request), arrival, &output[begin..]);
                None
            }
            Progress::Waits(token) => Some(token),
        }
    }

    fn finish(&self, token: usize, waited: &Waited<'_>, arrival: &Arrival, output: &mut Vec<u8>) {
        let begin = output.len();
        let answered = self.service.borrow_mut().finish(token, waited, arrival, output);
        let logged = self.connections.log.then(|| waited.request()).flatten();
        self.count(answered, logged.as_ref(), arrival, &output[begin..]);
    }

    fn count(&self, answered: Answered, request: Option<&Request<'_>>, arrival: &Arrival, answer: &[u8]) {
        let took = clock::instant().duration_since(arrival.at);
        let endpoint = answered.endpoint.map_or(ENDPOINTS_COUNTED - 1, |endpoint| endpoint as usize);
        let mut counters = self.counters.borrow_mut();
        counters.answered(endpoint, class(answer), took, answer.len());
        if let Some(kind) = answered.refused {
            counters.refused(kind);
        }
        if self.connections.log {
            access_log::log(request, answered.endpoint, answer, took);
        }
    }

    fn take_output(&self) -> Vec<u8> {
        let mut outputs = self.outputs.borrow_mut();
        let output = outputs.buffers.pop().unwrap_or_default();
        outputs.bytes -= output.capacity();
        output
    }

    fn give_output(&self, mut output: Vec<u8>) {
        let (mut outputs, bytes) = (self.outputs.borrow_mut(), output.capacity());
        // One without a byte would count nothing and so have no bound.
        if bytes > 0 && bytes <= ANSWERS_BYTES_MAX && outputs.bytes + bytes <= POOLED_BYTES_MAX {
            output.clear();
            outputs.bytes += bytes;
            outputs.buffers.push(output);
        }
    }
}

/// The class of an answer's status, 0 to 4: its first digit stands behind "HTTP/1.1 ".
fn class(answer: &[u8]) -> usize {
    answer.get(9).map_or(4, |digit| usize::from(digit.saturating_sub(b'1')).min(4))
}

/// What comes after the answers that are in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The rest of a request has to come.
    Read,
    /// More requests are here, but the output is full.
    Answer,
    /// The next request's answer waits.
    Wait(Wait),
    /// The client asked for it, or will get no other answer: nothing unread is left.
    Close,
    /// What follows is not understood, or not wanted: it is thrown away before closing, since
    /// closing over unread bytes could destroy the answer on its way (RFC 9112 section 9.6).
    Drain,
}

/// A request whose answer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    /// Of the service.
    token: usize,
    /// Bytes of the request.
    end: usize,
    /// The connection ends behind its answer.
    close: bool,
}

pub(super) async fn serve<S: Service>(mut stream: TcpStream, from: Arrival, shared: Rc<Shared<S>>) {
    // Declared behind the stream, so dropped before it.
    let watched = shared.deadlines.watch(stream.as_raw_fd());
    let mut input = Input::new();
    let mut holding = shared.held.hold(0);
    converse(&mut stream, from, &mut input, &mut holding, &watched, &shared).await;
    // Who is idle for long, or was told already, ends as is usual.
    if watched.expired() == Some(Phase::Write) {
        shared.happened(Happening::TimedOut);
    }
}

async fn converse<S: Service>(
    stream: &mut TcpStream,
    from: Arrival,
    input: &mut Input,
    holding: &mut Holding,
    watched: &Watched,
    shared: &Shared<S>,
) {
    loop {
        watched.at(phase(input));
        let room = input.bytes_wanted() - READ_BUFFER_BYTES;
        holding.set(0);
        if room > 0 && !shared.held.has_room(room) {
            return refuse_more(stream, from, input, watched, shared).await;
        }
        holding.set(room);
        if !read(input, stream, watched).await {
            return refuse_expired(stream, from, watched, shared).await;
        }
        shared.spinning.came();
        let mut arrival = Arrival { at: clock::instant(), ..from };
        let mut waited = None;
        loop {
            let mut output = shared.take_output();
            let next = answer(input, waited.take(), &arrival, shared, &mut output);
            let waiting =
                if let Next::Wait(wait) = next { Some(Waiting::new(shared, wait.token)) } else { None };
            if !output.is_empty() {
                watched.at(Phase::Write);
                let _held = shared.held.hold(output.capacity());
                let Some(buffer) = write(stream, output, watched).await else { return };
                output = buffer;
            }
            shared.give_output(output);
            match next {
                // What the client took for taking the answers so far is no time of ours.
                Next::Answer => arrival.at = clock::instant(),
                Next::Wait(wait) => {
                    let Some(mut waiting) = waiting else { return };
                    watched.at(Phase::Wait);
                    (&mut waiting).await;
                    waited = Some((waiting, wait));
                }
                Next::Read => break,
                Next::Close => return,
                Next::Drain => return drain(stream, input, watched).await,
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
async fn refuse_expired<S: Service>(
    stream: &mut TcpStream,
    from: Arrival,
    watched: &Watched,
    shared: &Shared<S>,
) {
    let expected = match watched.expired() {
        Some(Phase::Head) => "a whole head in the time that --timeout-head-ms gives it",
        Some(Phase::Body) => "a body of at least 1024 bytes a second",
        _ => return,
    };
    shared.happened(Happening::TimedOut);
    tell(stream, from, &Problem::missing(problem::TIMEOUT, expected), watched, shared).await;
}

/// Tells a client whose body there is no room for.
async fn refuse_more<S: Service>(
    stream: &mut TcpStream,
    from: Arrival,
    input: &mut Input,
    watched: &Watched,
    shared: &Shared<S>,
) {
    input.forget();
    tell(stream, from, &NO_ROOM, watched, shared).await;
    drain(stream, input, watched).await;
}

const NO_ROOM: Problem<'_> =
    Problem::missing(problem::OVERLOADED, "another try in a moment: the memory for connections is taken");

/// Sends a refusal, the last word of a connection.
async fn tell<S: Service>(
    stream: &mut TcpStream,
    from: Arrival,
    problem: &Problem<'_>,
    watched: &Watched,
    shared: &Shared<S>,
) {
    // Nearly always it fits the socket's buffer; but answers that nobody takes may stand there.
    watched.at(Phase::Write);
    let mut output = shared.take_output();
    shared.refuse(problem, &Arrival { at: clock::instant(), ..from }, &mut output);
    if let (Ok(_), output) = stream.write_all(output).await {
        shared.give_output(output);
    }
}

/// Tells a client that it is one too many, and waits until it says something or goes: closing over what it has sent could
/// destroy the answer on its way. Only a few are waited for at a time.
pub(super) async fn refuse<S: Service>(
    mut stream: TcpStream,
    from: Arrival,
    expected: &'static str,
    shared: Rc<Shared<S>>,
) {
    let watched = shared.deadlines.watch(stream.as_raw_fd());
    tell(&mut stream, from, &Problem::missing(problem::OVERLOADED, expected), &watched, &shared).await;
    watched.at(Phase::Drain);
    let others = shared.refusing.replace(shared.refusing.get() + 1);
    if others < REFUSED_WAITED_FOR_MAX && stream.shutdown().await.is_ok() {
        read(&mut Input::new(), &mut stream, &watched).await;
    }
    shared.refusing.set(shared.refusing.get() - 1);
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

/// Appends the answers to all requests that are whole. A panic costs this connection, not the worker, nor the answers before.
fn answer<S: Service>(
    input: &mut Input,
    waited: Option<(Waiting<'_, S>, Wait)>,
    arrival: &Arrival,
    shared: &Shared<S>,
    output: &mut Vec<u8>,
) -> Next {
    let whole = Cell::new(0);
    let answering =
        AssertUnwindSafe(|| match waited.map(|waiting| finish(input, waiting, arrival, shared, output)) {
            None | Some(Next::Answer) => answer_all(input, arrival, shared, output, &whole),
            Some(last) => last,
        });
    catch_unwind(answering).unwrap_or_else(|_| {
        tracing::error!("a panic while answering: its connection is closed");
        shared.happened(Happening::Panicked);
        output.truncate(whole.get());
        Next::Close
    })
}

/// Answers the first request, which waited.
fn finish<S: Service>(
    input: &mut Input,
    (mut waiting, Wait { token, end, close }): (Waiting<'_, S>, Wait),
    arrival: &Arrival,
    shared: &Shared<S>,
    output: &mut Vec<u8>,
) -> Next {
    let close = close || shared.stopping.has_begun();
    let waited = Waited { bytes: &input.unread()[..end], close };
    shared.finish(token, &waited, arrival, output);
    waiting.is_done = true;
    input.consume(end);
    match close {
        true if input.unread().is_empty() => Next::Close,
        true => Next::Drain,
        false => Next::Answer,
    }
}

fn answer_all<S: Service>(
    input: &mut Input,
    arrival: &Arrival,
    shared: &Shared<S>,
    output: &mut Vec<u8>,
    whole: &Cell<usize>,
) -> Next {
    while output.len() < FLUSH_BYTES {
        whole.set(output.len());
        match input.receive_body() {
            Ok(true) => {}
            Ok(false) => return Next::Read,
            Err(problem) => {
                shared.refuse(&problem, arrival, output);
                return Next::Drain;
            }
        }
        let parsed = request::parse(input.unread(), shared.service.borrow().country_header());
        match parsed {
            Parsed::Partial => return Next::Read,
            Parsed::Refused(problem) => {
                shared.refuse(&problem, arrival, output);
                return Next::Drain;
            }
            Parsed::Whole(..) if !shared.held.has_room(ANSWERS_BYTES_MAX) => {
                shared.refuse(&NO_ROOM, arrival, output);
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
                request.close |= shared.stopping.has_begun();
                let close = request.close;
                if let Some(token) = shared.answer(&request, arrival, output) {
                    return Next::Wait(Wait { token, end, close });
                }
                input.consume(end);
                if close {
                    return if input.unread().is_empty() { Next::Close } else { Next::Drain };
                }
            }
        }
    }
    Next::Answer
}

async fn drain(stream: &mut TcpStream, input: &mut Input, watched: &Watched) {
    watched.at(Phase::Drain);
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut drained = 0;
    while drained < BODY_BYTES_MAX && read(input, stream, watched).await {
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
