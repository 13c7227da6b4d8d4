//! A connection: a loop that reads, parses, answers and writes until the client or the server closes it.
//!
//! All wire-level decisions of the server are made in this file. The requests of one read are answered in one
//! send, in order, unless the output reaches `FLUSH_BYTES` or a response is pending. An idle connection keeps
//! its read buffer. Output buffers belong to the worker.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Waker;

use monoio::buf::{IoBuf, IoBufMut, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use super::busy_poll::BusyPoller;
use super::memory::{MemoryBudget, Reservation};
use super::pending::PendingResponse;
use super::shutdown::Lifecycle;
use super::timeouts::{Phase, TimeoutGuard, TimeoutSweeper};
use super::{ENDPOINT_COUNTERS, Service, access_log};
use crate::api::{Outcome, Poll};
use crate::clock;
use crate::config::ConnectionLimits;
use crate::http::input::ReadBuffer;
use crate::http::request::{self, BufferedRequest, ParseOutcome, Request, RequestMeta};
use crate::limits::{
    BODY_BYTES_MAX, FLUSH_BYTES, LINGERING_REJECTIONS_MAX, OUTPUT_BUFFER_BYTES_MAX, OUTPUT_POOL_BYTES_MAX,
    READ_BUFFER_BYTES,
};
use crate::metrics::{ConnectionEvent, Counters, Totals, status_class};
use crate::problem::{self, Problem};

/// The state that all connections of a worker share.
pub(super) struct WorkerState<S> {
    pub(super) service: RefCell<S>,
    pub(super) connections: ConnectionLimits,
    pub(super) timeout_sweeper: Rc<TimeoutSweeper>,
    pub(super) memory: Rc<MemoryBudget>,
    pub(super) lifecycle: Lifecycle,
    pub(super) busy_poller: Rc<BusyPoller>,
    /// Wakers of the pending responses, by token.
    pub(super) wakers: RefCell<Vec<Option<Waker>>>,
    /// Waker of the task that flushes queued events to the log writer.
    pub(super) flush_waker: RefCell<Option<Waker>>,
    /// Number of rejected connections whose 503 is sent and that still linger.
    rejecting: Cell<usize>,
    counters: RefCell<Counters>,
    totals: Totals,
    output_pool: RefCell<OutputPool>,
}

/// A pool of output buffers.
#[derive(Default)]
struct OutputPool {
    buffers: Vec<Vec<u8>>,
    /// Total capacity of the pooled buffers.
    pooled_bytes: usize,
}

impl<S: Service> WorkerState<S> {
    pub(super) fn new(
        service: S,
        connections: ConnectionLimits,
        deadlines: TimeoutSweeper,
        totals: Totals,
        lifecycle: Lifecycle,
        spinning: BusyPoller,
    ) -> Self {
        Self {
            service: RefCell::new(service),
            connections,
            timeout_sweeper: Rc::new(deadlines),
            memory: MemoryBudget::new(connections.memory_bytes_max),
            lifecycle,
            busy_poller: Rc::new(spinning),
            wakers: RefCell::default(),
            flush_waker: RefCell::default(),
            rejecting: Cell::new(0),
            counters: RefCell::new(Counters::new(ENDPOINT_COUNTERS)),
            totals,
            output_pool: RefCell::default(),
        }
    }

    /// Runs the periodic work of the worker, once a second.
    pub(super) fn tick(&self) {
        self.service.borrow_mut().tick();
        self.totals.drain_from(&mut self.counters.borrow_mut());
    }

    pub(super) fn count_event(&self, event: ConnectionEvent) {
        self.counters.borrow_mut().record_connection_event(event);
    }

    /// Appends the problem of input that is not a valid request, or of a request that cannot be accepted.
    pub(super) fn reject(&self, problem: &Problem<'_>, meta: &RequestMeta, output: &mut Vec<u8>) {
        let begin = output.len();
        self.service.borrow_mut().reject(problem, output);
        self.record_response(
            Outcome { endpoint: None, problem: Some(problem.kind) },
            None,
            meta,
            &output[begin..],
        );
    }

    /// Handles a request. Returns the token if the response is pending.
    fn handle(&self, request: &Request<'_>, meta: &RequestMeta, output: &mut Vec<u8>) -> Option<usize> {
        let begin = output.len();
        let progress = self.service.borrow_mut().handle(request, meta, output);
        match progress {
            Poll::Ready(answered) => {
                self.record_response(answered, Some(request), meta, &output[begin..]);
                None
            }
            Poll::Pending(token) => Some(token),
        }
    }

    fn finish_pending(
        &self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        output: &mut Vec<u8>,
    ) {
        let begin = output.len();
        let answered = self.service.borrow_mut().finish(token, buffered, meta, output);
        let logged = self.connections.access_log.then(|| buffered.request()).flatten();
        self.record_response(answered, logged.as_ref(), meta, &output[begin..]);
    }

    fn record_response(
        &self,
        answered: Outcome,
        request: Option<&Request<'_>>,
        meta: &RequestMeta,
        answer: &[u8],
    ) {
        let took = clock::instant().duration_since(meta.received_at);
        let endpoint = answered.endpoint.map_or(ENDPOINT_COUNTERS - 1, |endpoint| endpoint.index());
        let mut counters = self.counters.borrow_mut();
        counters.record_response(endpoint, status_class(answer), took, answer.len());
        if let Some(kind) = answered.problem {
            counters.record_problem(kind);
        }
        if self.connections.access_log {
            access_log::log_response(request, answered.endpoint, answer, took);
        }
    }

    fn take_output(&self) -> Vec<u8> {
        let mut outputs = self.output_pool.borrow_mut();
        let output = outputs.buffers.pop().unwrap_or_default();
        outputs.pooled_bytes -= output.capacity();
        output
    }

    fn recycle_output(&self, mut output: Vec<u8>) {
        let (mut outputs, bytes) = (self.output_pool.borrow_mut(), output.capacity());
        // A buffer without capacity would count as 0 bytes, so the pool would have no bound.
        if bytes > 0
            && bytes <= OUTPUT_BUFFER_BYTES_MAX
            && outputs.pooled_bytes + bytes <= OUTPUT_POOL_BYTES_MAX
        {
            output.clear();
            outputs.pooled_bytes += bytes;
            outputs.buffers.push(output);
        }
    }
}

/// The next step of a connection, after the responses in the output are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    /// Read the rest of a request.
    Read,
    /// Handle the requests that remain in the read buffer. The output was full.
    Handle,
    /// Wait for the response to the next request.
    Wait(SubmittedRequest),
    /// Close. The client asked for it, or can get no other response. No received bytes are left.
    Close,
    /// Discard the remaining input, which is invalid or unwanted, and then close. Closing with unread bytes
    /// could destroy the response in transit (RFC 9112 section 9.6).
    Drain,
}

/// A request that was submitted to the service and whose response is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SubmittedRequest {
    /// The service's token for the request.
    token: usize,
    /// Length of the request in the read buffer.
    request_bytes: usize,
    /// Whether the connection closes after the response.
    close: bool,
}

pub(super) async fn serve<S: Service>(mut stream: TcpStream, from: RequestMeta, shared: Rc<WorkerState<S>>) {
    // Declared after the stream and therefore dropped first: the descriptor is still open then.
    let watched = shared.timeout_sweeper.watch(stream.as_raw_fd());
    let mut input = ReadBuffer::new();
    let mut holding = shared.memory.reserve(0);
    run(&mut stream, from, &mut input, &mut holding, &watched, &shared).await;
    // Only write timeouts are counted here. An idle timeout is a normal close, and timeouts that got a 408
    // are counted with it.
    if watched.expired_phase() == Some(Phase::Write) {
        shared.count_event(ConnectionEvent::TimedOut);
    }
}

async fn run<S: Service>(
    stream: &mut TcpStream,
    from: RequestMeta,
    input: &mut ReadBuffer,
    holding: &mut Reservation,
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    loop {
        watched.enter(read_phase(input));
        let room = input.capacity_wanted() - READ_BUFFER_BYTES;
        holding.resize(0);
        if room > 0 && !shared.memory.has_room(room) {
            return reject_for_memory(stream, from, input, watched, shared).await;
        }
        holding.resize(room);
        if !read(input, stream, watched).await {
            return reject_timed_out(stream, from, watched, shared).await;
        }
        shared.busy_poller.on_activity();
        let mut meta = RequestMeta { received_at: clock::instant(), ..from };
        let mut buffered = None;
        loop {
            let mut output = shared.take_output();
            let next = handle_buffered(input, buffered.take(), &meta, shared, &mut output);
            let waiting = if let NextStep::Wait(wait) = next {
                Some(PendingResponse::new(shared, wait.token))
            } else {
                None
            };
            if !output.is_empty() {
                watched.enter(Phase::Write);
                let _held = shared.memory.reserve(output.capacity());
                let Some(buffer) = write(stream, output, watched).await else { return };
                output = buffer;
            }
            shared.recycle_output(output);
            match next {
                // Restart the clock: the time that the client needed to read earlier responses is not our
                // latency.
                NextStep::Handle => meta.received_at = clock::instant(),
                NextStep::Wait(wait) => {
                    let Some(mut waiting) = waiting else { return };
                    watched.enter(Phase::Wait);
                    (&mut waiting).await;
                    buffered = Some((waiting, wait));
                }
                NextStep::Read => break,
                NextStep::Close => return,
                NextStep::Drain => return drain(stream, input, watched).await,
            }
        }
    }
}

/// Returns the phase of a connection that reads into this buffer.
fn read_phase(input: &ReadBuffer) -> Phase {
    match input.pending() {
        _ if input.is_reading_body() => Phase::Body,
        [] => Phase::Idle,
        _ => Phase::Head,
    }
}

/// Sends a 408 if the request took too long. Otherwise the client closed, or already has a response.
async fn reject_timed_out<S: Service>(
    stream: &mut TcpStream,
    from: RequestMeta,
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    let sentence = match watched.expired_phase() {
        Some(Phase::Head) => "The request head was not received within the time limit of --timeout-head-ms.",
        Some(Phase::Body) => "The body was received at less than 1024 bytes per second.",
        _ => return,
    };
    shared.count_event(ConnectionEvent::TimedOut);
    send_problem(stream, from, &Problem::new(problem::TIMEOUT, sentence), watched, shared).await;
}

/// Sends a 503 to a client whose request does not fit the memory budget.
async fn reject_for_memory<S: Service>(
    stream: &mut TcpStream,
    from: RequestMeta,
    input: &mut ReadBuffer,
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    input.clear();
    send_problem(stream, from, &MEMORY_LIMIT_REACHED, watched, shared).await;
    drain(stream, input, watched).await;
}

const MEMORY_LIMIT_REACHED: Problem<'_> =
    Problem::new(problem::OVERLOADED, "Connection memory limit reached; retry later.");

/// Sends a problem as the last response of a connection.
async fn send_problem<S: Service>(
    stream: &mut TcpStream,
    from: RequestMeta,
    problem: &Problem<'_>,
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    // The problem nearly always fits the socket's send buffer. It does not if the client left earlier
    // responses unread.
    watched.enter(Phase::Write);
    let mut output = shared.take_output();
    shared.reject(problem, &RequestMeta { received_at: clock::instant(), ..from }, &mut output);
    if let (Ok(_), output) = stream.write_all(output).await {
        shared.recycle_output(output);
    }
}

/// Sends a 503 on a connection over the limit, and waits until the client sends something or closes. Closing
/// with unread bytes could destroy the response in transit. At most `LINGERING_REJECTIONS_MAX` connections
/// wait at a time.
pub(super) async fn reject_connection<S: Service>(
    mut stream: TcpStream,
    from: RequestMeta,
    sentence: &'static str,
    shared: Rc<WorkerState<S>>,
) {
    let watched = shared.timeout_sweeper.watch(stream.as_raw_fd());
    send_problem(&mut stream, from, &Problem::new(problem::OVERLOADED, sentence), &watched, &shared).await;
    watched.enter(Phase::Drain);
    let others = shared.rejecting.replace(shared.rejecting.get() + 1);
    if others < LINGERING_REJECTIONS_MAX && stream.shutdown().await.is_ok() {
        read(&mut ReadBuffer::new(), &mut stream, &watched).await;
    }
    shared.rejecting.set(shared.rejecting.get() - 1);
}

/// Writes the whole output and returns the buffer. Returns `None` if the client is gone.
async fn write(stream: &mut TcpStream, output: Vec<u8>, watched: &TimeoutGuard) -> Option<Vec<u8>> {
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
        watched.reset();
    }
    Some(output)
}

/// Appends the responses to all complete requests. A panic closes this connection. The worker goes on, and
/// the responses before the panic are still sent.
fn handle_buffered<S: Service>(
    input: &mut ReadBuffer,
    buffered: Option<(PendingResponse<'_, S>, SubmittedRequest)>,
    meta: &RequestMeta,
    shared: &WorkerState<S>,
    output: &mut Vec<u8>,
) -> NextStep {
    let whole = Cell::new(0);
    let answering = AssertUnwindSafe(|| {
        match buffered.map(|waiting| finish_request(input, waiting, meta, shared, output)) {
            None | Some(NextStep::Handle) => handle_requests(input, meta, shared, output, &whole),
            Some(last) => last,
        }
    });
    catch_unwind(answering).unwrap_or_else(|_| {
        tracing::error!("request handler panicked; closing its connection");
        shared.count_event(ConnectionEvent::Panicked);
        output.truncate(whole.get());
        NextStep::Close
    })
}

/// Appends the response to the first request, which was pending.
fn finish_request<S: Service>(
    input: &mut ReadBuffer,
    (mut waiting, SubmittedRequest { token, request_bytes: end, close }): (
        PendingResponse<'_, S>,
        SubmittedRequest,
    ),
    meta: &RequestMeta,
    shared: &WorkerState<S>,
    output: &mut Vec<u8>,
) -> NextStep {
    let close = close || shared.lifecycle.is_draining();
    let buffered = BufferedRequest { bytes: &input.pending()[..end], close };
    shared.finish_pending(token, &buffered, meta, output);
    waiting.is_done = true;
    input.advance(end);
    match close {
        true if input.pending().is_empty() => NextStep::Close,
        true => NextStep::Drain,
        false => NextStep::Handle,
    }
}

fn handle_requests<S: Service>(
    input: &mut ReadBuffer,
    meta: &RequestMeta,
    shared: &WorkerState<S>,
    output: &mut Vec<u8>,
    whole: &Cell<usize>,
) -> NextStep {
    while output.len() < FLUSH_BYTES {
        whole.set(output.len());
        match input.decode_body() {
            Ok(true) => {}
            Ok(false) => return NextStep::Read,
            Err(problem) => {
                shared.reject(&problem, meta, output);
                return NextStep::Drain;
            }
        }
        let parsed = request::parse(input.pending(), shared.service.borrow().country_header());
        match parsed {
            ParseOutcome::Partial => return NextStep::Read,
            ParseOutcome::Rejected(problem) => {
                shared.reject(&problem, meta, output);
                return NextStep::Drain;
            }
            ParseOutcome::Complete(..) if !shared.memory.has_room(OUTPUT_BUFFER_BYTES_MAX) => {
                shared.reject(&MEMORY_LIMIT_REACHED, meta, output);
                return NextStep::Drain;
            }
            ParseOutcome::Complete(mut request, head_bytes) => {
                let Some(end) = input.request_end(&request, head_bytes) else {
                    // A client that already sent a part of the body is not waiting for 100 Continue.
                    if request.expects_continue() && input.pending().len() == head_bytes {
                        output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    let body = request.body_framing;
                    input.expect_body(head_bytes, body);
                    continue;
                };
                request.body = &input.pending()[head_bytes..end];
                request.close |= shared.lifecycle.is_draining();
                let close = request.close;
                if let Some(token) = shared.handle(&request, meta, output) {
                    return NextStep::Wait(SubmittedRequest { token, request_bytes: end, close });
                }
                input.advance(end);
                if close {
                    return if input.pending().is_empty() { NextStep::Close } else { NextStep::Drain };
                }
            }
        }
    }
    NextStep::Handle
}

async fn drain(stream: &mut TcpStream, input: &mut ReadBuffer, watched: &TimeoutGuard) {
    watched.enter(Phase::Drain);
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut drained = 0;
    while drained < BODY_BYTES_MAX && read(input, stream, watched).await {
        drained += input.pending().len();
        input.clear();
    }
}

/// Reads more bytes into the buffer. Returns false at the end of the stream or after an error.
async fn read(input: &mut ReadBuffer, stream: &mut TcpStream, watched: &TimeoutGuard) -> bool {
    let mut buffer = input.take();
    loop {
        let filled = buffer.len();
        let slice: SliceMut<Vec<u8>> = buffer.slice_mut(filled..);
        let (received, slice) = stream.read(slice).await;
        buffer = slice.into_inner();
        match received {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                input.put_back(buffer);
                received.as_ref().ok().inspect(|bytes| watched.add_received(**bytes));
                return received.is_ok_and(|bytes| bytes > 0);
            }
        }
    }
}
