//! A connection: a loop that reads, parses, answers and writes until the client or the server closes it.
//!
//! All wire-level decisions of the server are made in this file. The requests of one read are answered in one
//! send, in order, unless the output reaches `FLUSH_BYTES` or a response is pending. An idle connection keeps
//! its read buffer. Output buffers belong to the worker.

use std::cell::Cell;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use monoio::buf::{IoBufMut, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent};
use monoio::net::TcpStream;

use super::bodies::BodyGuard;
use super::memory::Reservation;
use super::output_pool::Output;
use super::pending::PendingResponse;
use super::rejection::{MEMORY_LIMIT_REACHED, drain, end_unread, reject_input};
use super::shutdown::OpenConnection;
use super::state::{Handled, WorkerState};
use super::timeouts::{Phase, TimeoutGuard};
use super::unsent::{UnsentBytes, send_now};
use crate::api::Service;
use crate::clock;
use crate::http::input::ReadBuffer;
use crate::http::request::{BufferedRequest, ParseOutcome, RequestMeta};
use crate::limits::{FLUSH_BYTES, READ_BUFFER_BYTES, SMALL_RESPONSE_BYTES_MAX};
use crate::metrics::ConnectionEvent;
use crate::problem::Problem;

/// Pause after a connection could take no bytes although it said so. The kernel has no memory for them then.
const KERNEL_MEMORY_PAUSE: Duration = Duration::from_millis(50);

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
    /// True if the connection closes after the response.
    close: bool,
}

/// Serves a connection until it is closed. `open_connection` counts it until then.
///
/// The future is the largest part of an idle connection after its read buffer. An `async fn` would contain its
/// arguments twice.
#[expect(clippy::manual_async_fn, reason = "the future is smaller")]
pub(super) fn serve<S: Service>(
    mut stream: TcpStream,
    connection_meta: RequestMeta,
    open_connection: OpenConnection,
    worker: Rc<WorkerState<S>>,
) -> impl Future<Output = ()> {
    async move {
        let timeout_guard = worker.timeout_sweeper.watch(stream.as_raw_fd());
        let mut input = ReadBuffer::new();
        let mut memory = InputMemory::new(worker.memory.reserve(0));
        run(&mut stream, &connection_meta, &mut input, &mut memory, &timeout_guard, &worker).await;
        // Only write timeouts are counted here. An idle timeout is a normal close, and timeouts that got a 408
        // are counted with it.
        if timeout_guard.expired_phase() == Some(Phase::Write) {
            worker.count_event(ConnectionEvent::TimedOut);
        }
        // The guards first, because they use the descriptor. The count last.
        drop((memory, timeout_guard, stream, open_connection));
    }
}

async fn run<S: Service>(
    stream: &mut TcpStream,
    connection_meta: &RequestMeta,
    input: &mut ReadBuffer,
    memory: &mut InputMemory,
    timeout_guard: &TimeoutGuard,
    worker: &WorkerState<S>,
) {
    loop {
        timeout_guard.enter(read_phase(input));
        if let Err(problem) = memory.reserve(input, stream.as_raw_fd(), worker) {
            return reject_input(stream, connection_meta, input, memory, &problem, timeout_guard, worker)
                .await;
        }
        memory.start_read();
        let buffered_bytes = input.pending().len();
        let is_open = read(input, stream).await;
        memory.finish_read(input.pending().len() - buffered_bytes);
        if !is_open && timeout_guard.has_late_request() {
            continue;
        }
        if !is_open {
            return end_unread(stream, connection_meta, input, memory, timeout_guard, worker).await;
        }
        worker.busy_poller.on_activity();
        let mut meta = RequestMeta { received_at: clock::instant(), ..*connection_meta };
        let mut buffered = None;
        loop {
            let mut output = worker.take_output();
            let next = handle_buffered(input, buffered.take(), &meta, worker, &mut output);
            let waiting = if let NextStep::Wait(wait) = next {
                Some(PendingResponse::new(worker, timeout_guard, wait.token))
            } else {
                None
            };
            // A disk write is not the only reason to wait: the client may leave the responses before it unread.
            let pending_bytes = waiting.as_ref().map_or(0, PendingResponse::memory_bytes);
            let Some(_reservation) = write(stream, output, pending_bytes, timeout_guard, worker).await else {
                return;
            };
            match next {
                // Restart the clock: the time that the client needed to read earlier responses is not our
                // latency.
                NextStep::Handle => meta.received_at = clock::instant(),
                NextStep::Wait(wait) => {
                    let Some(mut waiting) = waiting else { return };
                    timeout_guard.enter(Phase::Wait);
                    (&mut waiting).await;
                    if timeout_guard.has_hung_up() {
                        return;
                    }
                    if waiting.is_timed() {
                        // Restart the clock: the time that the client asked the server to wait is not our latency.
                        meta.received_at = clock::instant();
                    }
                    buffered = Some((waiting, wait));
                }
                NextStep::Read => break,
                NextStep::Close => return,
                NextStep::Drain => return drain(stream, input, timeout_guard).await,
            }
        }
    }
}

/// The memory of a connection's read buffer beyond its first `READ_BUFFER_BYTES`.
pub(super) struct InputMemory {
    head: Reservation,
    /// The body that is being received, with its number on the connection.
    body: Option<(BodyGuard, u64)>,
}

impl InputMemory {
    fn new(head_memory: Reservation) -> Self {
        Self { head: head_memory, body: None }
    }

    /// Reserves the memory that the next read needs.
    ///
    /// # Errors
    /// `overloaded`, or `timeout` for a body that was cut off.
    fn reserve<S: Service>(
        &mut self,
        input: &ReadBuffer,
        descriptor: RawFd,
        worker: &WorkerState<S>,
    ) -> Result<(), Problem<'static>> {
        let bytes = input.capacity_wanted() - READ_BUFFER_BYTES;
        let Some(number) = input.body_number() else {
            self.body = None;
            return self.head.try_resize(bytes).then_some(()).ok_or(MEMORY_LIMIT_REACHED);
        };
        self.head.resize(0);
        self.body = self.body.take().filter(|(_, known)| *known == number);
        let (body, _) = self.body.get_or_insert_with(|| (worker.bodies.track(descriptor), number));
        body.reserve(bytes)
    }

    /// Frees the reserved memory. The caller has freed the buffer.
    pub(super) fn release(&mut self) {
        self.head.resize(0);
        self.body = None;
    }

    fn start_read(&self) {
        if let Some((body, _)) = &self.body {
            body.start_read();
        }
    }

    fn finish_read(&self, bytes: usize) {
        if let Some((body, _)) = &self.body {
            body.finish_read(bytes);
        }
    }

    /// Returns the problem of a body that was cut off.
    pub(super) fn body_problem(&self) -> Option<Problem<'static>> {
        self.body.as_ref()?.0.problem()
    }
}

/// Returns the phase of a connection that reads into this buffer.
fn read_phase(input: &ReadBuffer) -> Phase {
    if input.body_number().is_some() {
        Phase::Body
    } else if input.pending().is_empty() {
        Phase::Idle
    } else {
        Phase::Head
    }
}

/// Writes the whole output, and recycles it. Returns the memory of the pending request after it, of `pending_bytes`. Returns
/// `None` if the client is gone.
async fn write<S: Service>(
    stream: &mut TcpStream,
    mut output: Output,
    pending_bytes: usize,
    timeout_guard: &TimeoutGuard,
    worker: &WorkerState<S>,
) -> Option<Reservation> {
    let mut memory = worker.memory.reserve(pending_bytes + output.bytes.capacity());
    if !output.bytes.is_empty() {
        timeout_guard.enter(Phase::Write);
        let written = if output.bytes.len() > SMALL_RESPONSE_BYTES_MAX {
            send_now(stream.as_raw_fd(), &output.bytes)
        } else {
            let (written, bytes) = stream.write(output.bytes).await;
            output.bytes = bytes;
            written
        };
        let sent_bytes = count_sent(written)?;
        if sent_bytes < output.bytes.len() {
            timeout_guard.reset();
            // Boxed, so that the future of an idle connection reserves no space for it.
            return Box::pin(write_rest(
                stream,
                output,
                sent_bytes,
                memory,
                pending_bytes,
                timeout_guard,
                worker,
            ))
            .await;
        }
    }
    memory.resize(pending_bytes);
    worker.recycle_output(output);
    Some(memory)
}

/// Writes the rest of an output, of which `sent_bytes` are sent, as fast as the client reads it. Returns the memory of the
/// pending request. Returns `None` if the client is gone or is cut off.
async fn write_rest<S: Service>(
    stream: &mut TcpStream,
    mut output: Output,
    sent_bytes: usize,
    mut memory: Reservation,
    pending_bytes: usize,
    timeout_guard: &TimeoutGuard,
    worker: &WorkerState<S>,
) -> Option<Reservation> {
    let mut unsent = UnsentBytes::of(&mut output, sent_bytes);
    worker.recycle_output(output);
    memory.resize(pending_bytes + unsent.own_bytes());
    let unsent_guard = worker.unsent.track(stream.as_raw_fd(), memory, sent_bytes);
    while !unsent.is_empty() {
        stream.writable(false).await.ok()?;
        // No buffer exists while this waits.
        let mut output = worker.take_output();
        unsent.copy_next(FLUSH_BYTES, &mut output.bytes);
        let written = send_now(stream.as_raw_fd(), &output.bytes);
        worker.recycle_output(output);
        let sent_bytes = count_sent(written)?;
        if sent_bytes == 0 {
            monoio::time::sleep(KERNEL_MEMORY_PAUSE).await;
            continue;
        }
        unsent.advance(sent_bytes);
        unsent_guard.record(sent_bytes);
        timeout_guard.reset();
        // However fast the client is, it keeps no replaced snapshot in memory for longer than a stalled one.
        if unsent_guard.age() >= worker.connections.timeouts.write && worker.needs_replaced_snapshot(&unsent)
        {
            worker.count_event(ConnectionEvent::TimedOut);
            return None;
        }
    }
    let mut memory = unsent_guard.finish()?;
    memory.resize(pending_bytes);
    Some(memory)
}

/// Returns the bytes that a write has sent, 0 if it has to be repeated. `None` if the client is gone.
fn count_sent(result: io::Result<usize>) -> Option<usize> {
    match result {
        Ok(0) => None,
        Ok(bytes) => Some(bytes),
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Some(0),
        Err(_) => None,
    }
}

/// Appends the responses to all complete requests. A panic closes this connection. The worker goes on, and
/// the responses before the panic are still sent.
fn handle_buffered<S: Service>(
    input: &mut ReadBuffer,
    pending_request: Option<(PendingResponse<'_, S>, SubmittedRequest)>,
    meta: &RequestMeta,
    worker: &WorkerState<S>,
    output: &mut Output,
) -> NextStep {
    let complete_bytes = Cell::new(0);
    let answering = AssertUnwindSafe(|| {
        let finish = |(pending, request)| finish_request(input, pending, request, meta, worker, output);
        match pending_request.map(finish) {
            None | Some(NextStep::Handle) => handle_requests(input, meta, worker, output, &complete_bytes),
            Some(last) => last,
        }
    });
    catch_unwind(answering).unwrap_or_else(|_| {
        tracing::error!("request handler panicked; closing its connection");
        worker.count_event(ConnectionEvent::Panicked);
        worker.take_shared_parts(output);
        output.truncate(complete_bytes.get());
        NextStep::Close
    })
}

/// Appends the response to the first request, which was pending.
fn finish_request<S: Service>(
    input: &mut ReadBuffer,
    mut pending_response: PendingResponse<'_, S>,
    request: SubmittedRequest,
    meta: &RequestMeta,
    worker: &WorkerState<S>,
    output: &mut Output,
) -> NextStep {
    let close = request.close || worker.lifecycle.is_draining();
    let buffered = BufferedRequest { bytes: &input.pending()[..request.request_bytes], close };
    worker.finish_pending(request.token, &buffered, meta, output);
    pending_response.is_done = true;
    input.advance(request.request_bytes);
    match close {
        true if input.pending().is_empty() => NextStep::Close,
        true => NextStep::Drain,
        false => NextStep::Handle,
    }
}

fn handle_requests<S: Service>(
    input: &mut ReadBuffer,
    meta: &RequestMeta,
    worker: &WorkerState<S>,
    output: &mut Output,
    complete_bytes: &Cell<usize>,
) -> NextStep {
    while output.bytes.len() < FLUSH_BYTES {
        complete_bytes.set(output.bytes.len());
        match input.decode_body() {
            Ok(true) => {}
            Ok(false) => return NextStep::Read,
            Err(problem) => {
                worker.reject(&problem, input.pending(), meta, output);
                return NextStep::Drain;
            }
        }
        let parsed = worker.heads.borrow_mut().parse(meta.connection, input.pending());
        match parsed {
            ParseOutcome::Partial => return NextStep::Read,
            ParseOutcome::Rejected(problem) => {
                worker.reject(&problem, input.pending(), meta, output);
                return NextStep::Drain;
            }
            ParseOutcome::Complete(request, _) if !worker.admits_request(request.method) => {
                worker.reject(&MEMORY_LIMIT_REACHED, input.pending(), meta, output);
                return NextStep::Drain;
            }
            ParseOutcome::Complete(mut request, head_bytes) => {
                let Some(end) = input.request_end(&request, head_bytes) else {
                    // A client that already sent a part of the body is not waiting for 100 Continue.
                    if request.expects_continue && input.pending().len() == head_bytes {
                        output.bytes.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    let body = request.body_framing;
                    input.expect_body(head_bytes, body);
                    continue;
                };
                request.body = &input.pending()[head_bytes..end];
                request.close |= worker.lifecycle.is_draining();
                let close = request.close;
                match worker.handle(&request, meta, output) {
                    Handled::Ready => {}
                    Handled::Pending(token) => {
                        return NextStep::Wait(SubmittedRequest { token, request_bytes: end, close });
                    }
                    Handled::Refused => {
                        worker.reject(&MEMORY_LIMIT_REACHED, input.pending(), meta, output);
                        return NextStep::Drain;
                    }
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

/// Reads more bytes into the buffer. Returns false at the end of the stream or after an error.
pub(super) async fn read(input: &mut ReadBuffer, stream: &mut TcpStream) -> bool {
    let mut buffer = input.take();
    loop {
        let buffered_bytes = buffer.len();
        let slice: SliceMut<Vec<u8>> = buffer.slice_mut(buffered_bytes..);
        let (received, slice) = stream.read(slice).await;
        buffer = slice.into_inner();
        match received {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                input.put_back(buffer);
                return received.is_ok_and(|bytes| bytes > 0);
            }
        }
    }
}
