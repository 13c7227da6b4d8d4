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
use crate::limits::{BODY_BYTES_MAX, LINGERING_REJECTIONS_MAX};
use crate::metrics::ConnectionEvent;
use crate::problem::{self, Actual, Problem};

/// The problem of a request whose response does not fit the memory budget.
pub(super) const MEMORY_LIMIT_REACHED: Problem<'_> =
    Problem::new(problem::OVERLOADED, "Connection memory limit reached; retry later.");

/// Ends a connection from which no more bytes can be read. It sends a 408 if the request took too long.
/// Otherwise the client closed, or already has a response.
pub(super) async fn end_unread<S: Service>(
    stream: &mut TcpStream,
    from: &RequestMeta,
    input: (&mut ReadBuffer, &mut InputMemory),
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    let problem = match watched.expired_phase() {
        Some(Phase::Head) => Some(head_timed_out(shared)),
        _ => input.1.body_problem(),
    };
    if let Some(problem) = problem {
        reject_input(stream, from, input, &problem, watched, shared).await;
    }
}

fn head_timed_out<S: Service>(shared: &WorkerState<S>) -> Problem<'static> {
    let sentence = "The request head did not arrive within {} ms.";
    let limit_ms = shared.connections.timeouts.head.as_millis() as usize;
    Problem { actual: Actual::Count(limit_ms), ..Problem::new(problem::TIMEOUT, sentence) }
}

/// Sends a problem in place of the response to the request that is being received, and closes. The memory of
/// the input is freed before the client reads anything.
pub(super) async fn reject_input<S: Service>(
    stream: &mut TcpStream,
    from: &RequestMeta,
    (input, memory): (&mut ReadBuffer, &mut InputMemory),
    problem: &Problem<'_>,
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    if problem.kind == problem::TIMEOUT {
        shared.count_event(ConnectionEvent::TimedOut);
    }
    let mut output = shared.take_output();
    let meta = RequestMeta { received_at: clock::instant(), ..*from };
    shared.reject(problem, input.pending(), &meta, &mut output);
    input.release();
    memory.release();
    // Boxed, so that the future of an idle connection reserves no space for these.
    Box::pin(send_last(stream, output, watched, shared)).await;
    Box::pin(drain(stream, input, watched)).await;
}

/// Sends the last response of a connection.
async fn send_last<S: Service>(
    stream: &mut TcpStream,
    output: Output,
    watched: &TimeoutGuard,
    shared: &WorkerState<S>,
) {
    // The response nearly always fits the socket's send buffer. It does not if the client left earlier
    // responses unread.
    watched.enter(Phase::Write);
    if let (Ok(_), bytes) = stream.write_all(output.bytes).await {
        shared.recycle_output(Output { bytes, ..output });
    }
}

/// Sends a 503 on a connection over the limit, and waits until the client closes. Closing with unread bytes
/// could destroy the response in transit. At most `LINGERING_REJECTIONS_MAX` connections wait at a time. The
/// server reads their requests, so that pages of other origins can read the response.
pub(super) async fn reject_connection<S: Service>(
    mut stream: TcpStream,
    from: RequestMeta,
    sentence: &'static str,
    shared: Rc<WorkerState<S>>,
) {
    let watched = shared.timeout_sweeper.watch(stream.as_raw_fd());
    let others = shared.rejecting.replace(shared.rejecting.get() + 1);
    let (lingers, mut input) = (others < LINGERING_REJECTIONS_MAX, ReadBuffer::new());
    if lingers {
        watched.enter(Phase::Head);
        read(&mut input, &mut stream).await;
    }
    let mut output = shared.take_output();
    let meta = RequestMeta { received_at: clock::instant(), ..from };
    let problem = Problem::new(problem::OVERLOADED, sentence);
    shared.reject(&problem, input.pending(), &meta, &mut output);
    send_last(&mut stream, output, &watched, &shared).await;
    watched.enter(Phase::Drain);
    if lingers && stream.shutdown().await.is_ok() {
        input.clear();
        read(&mut input, &mut stream).await;
    }
    shared.rejecting.set(shared.rejecting.get() - 1);
}

/// Discards the remaining input until the client closes. Closing with unread bytes could destroy the last
/// response in transit.
pub(super) async fn drain(stream: &mut TcpStream, input: &mut ReadBuffer, watched: &TimeoutGuard) {
    watched.enter(Phase::Drain);
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut drained = 0;
    while drained < BODY_BYTES_MAX && read(input, stream).await {
        drained += input.pending().len();
        input.clear();
    }
}
