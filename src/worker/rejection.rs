//! Last responses: a problem for a request that cannot be received, and the end of its connection.

use std::os::fd::AsRawFd;
use std::rc::Rc;

use monoio::io::{AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use super::connection::{InputMemory, read};
use super::output_pool::Output;
use super::state::WorkerState;
use super::timeouts::{Phase, TimeoutGuard};
use crate::api::Service;
use crate::clock;
use crate::http::input::ReadBuffer;
use crate::http::request::RequestMeta;
use crate::limits::{DISCARDED_BYTES_MAX, LINGERING_REJECTIONS_MAX};
use crate::metrics::ConnectionEvent;
use crate::problem::{self, Actual, Problem};

/// The problem of a request whose response does not fit the memory budget.
pub(super) const MEMORY_LIMIT_REACHED: Problem<'_> =
    Problem::new(problem::OVERLOADED, "Connection memory limit reached; retry later.");

/// Ends a connection from which no more bytes can be read. It sends a 408 if the request took too long.
/// Otherwise the client closed, or already has a response.
pub(super) async fn end_unread<S: Service>(
    stream: &mut TcpStream,
    connection_meta: &RequestMeta,
    input: &mut ReadBuffer,
    memory: &mut InputMemory,
    timeout_guard: &TimeoutGuard,
    worker: &WorkerState<S>,
) {
    let problem = match timeout_guard.expired_phase() {
        Some(Phase::Head) => Some(head_timed_out(worker)),
        _ => memory.body_problem(),
    };
    if let Some(problem) = problem {
        reject_input(stream, connection_meta, input, memory, &problem, timeout_guard, worker).await;
    }
}

fn head_timed_out<S: Service>(worker: &WorkerState<S>) -> Problem<'static> {
    let sentence = "The request head did not arrive within {} ms.";
    let limit_ms = worker.connections.timeouts.head.as_millis() as usize;
    Problem { actual: Actual::Count(limit_ms), ..Problem::new(problem::TIMEOUT, sentence) }
}

/// Sends a problem in place of the response to the request that is being received, and closes. The memory of
/// the input is freed before the client reads anything.
pub(super) async fn reject_input<S: Service>(
    stream: &mut TcpStream,
    connection_meta: &RequestMeta,
    input: &mut ReadBuffer,
    memory: &mut InputMemory,
    problem: &Problem<'_>,
    timeout_guard: &TimeoutGuard,
    worker: &WorkerState<S>,
) {
    if problem.kind == problem::TIMEOUT {
        worker.count_event(ConnectionEvent::TimedOut);
    }
    let mut output = worker.take_output();
    let meta = RequestMeta { received_at: clock::instant(), ..*connection_meta };
    worker.reject(problem, input.pending(), &meta, &mut output);
    input.release();
    memory.release();
    // Boxed, so that the future of an idle connection reserves no space for these.
    Box::pin(send_last(stream, output, timeout_guard, worker)).await;
    Box::pin(drain(stream, input, timeout_guard)).await;
}

/// Sends the last response of a connection.
async fn send_last<S: Service>(
    stream: &mut TcpStream,
    output: Output,
    timeout_guard: &TimeoutGuard,
    worker: &WorkerState<S>,
) {
    // The response nearly always fits the socket's send buffer. It does not if the client left earlier
    // responses unread.
    timeout_guard.enter(Phase::Write);
    if let (Ok(_), bytes) = stream.write_all(output.bytes).await {
        worker.recycle_output(Output { bytes, ..output });
    }
}

/// Sends a 503 on a connection over the limit, and waits until the client closes. Closing with unread bytes
/// could destroy the response in transit. At most `LINGERING_REJECTIONS_MAX` connections wait at a time. The
/// server reads their requests, so that pages of other origins can read the response.
pub(super) async fn reject_connection<S: Service>(
    mut stream: TcpStream,
    connection_meta: RequestMeta,
    sentence: &'static str,
    worker: Rc<WorkerState<S>>,
) {
    let timeout_guard = worker.timeout_sweeper.watch(stream.as_raw_fd());
    let others = worker.rejecting.replace(worker.rejecting.get() + 1);
    let lingers = others < LINGERING_REJECTIONS_MAX;
    let mut input = ReadBuffer::new();
    if lingers {
        timeout_guard.enter(Phase::Head);
        read(&mut input, &mut stream).await;
    }
    let mut output = worker.take_output();
    let meta = RequestMeta { received_at: clock::instant(), ..connection_meta };
    let problem = Problem::new(problem::OVERLOADED, sentence);
    worker.reject(&problem, input.pending(), &meta, &mut output);
    send_last(&mut stream, output, &timeout_guard, &worker).await;
    timeout_guard.enter(Phase::Drain);
    if lingers && stream.shutdown().await.is_ok() {
        input.clear();
        read(&mut input, &mut stream).await;
    }
    worker.rejecting.set(worker.rejecting.get() - 1);
}

/// Discards the remaining input until the client closes. Closing with unread bytes could destroy the last
/// response in transit.
pub(super) async fn drain(stream: &mut TcpStream, input: &mut ReadBuffer, timeout_guard: &TimeoutGuard) {
    timeout_guard.enter(Phase::Drain);
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut discarded = 0;
    while discarded < DISCARDED_BYTES_MAX && read(input, stream).await {
        discarded += input.pending().len();
        input.clear();
    }
}
