//! The state that all connections of a worker share: the service, the memory budgets, and the counters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use super::bodies::IncomingBodies;
use super::busy_poll::BusyPoller;
use super::memory::MemoryBudget;
use super::output_pool::{Output, OutputPool};
use super::shutdown::Lifecycle;
use super::timeouts::TimeoutSweeper;
use super::unsent::{UnsentBytes, UnsentResponses};
use super::{ENDPOINT_COUNTERS, access_log};
use crate::api::{Endpoint, Outcome, Poll, Service};
use crate::clock;
use crate::config::ConnectionLimits;
use crate::http::head_parser::HeadParser;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Method, Request, RequestMeta};
use crate::limits::{OUTPUT_BUFFER_BYTES_MAX, SMALL_RESPONSE_BYTES_MAX};
use crate::metrics::{ConnectionEvent, Counters, Totals, status_class};
use crate::problem::Problem;

/// The progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handled {
    /// The response is in the output.
    Ready,
    /// The response is pending, with this token.
    Pending(usize),
    /// The memory budget has no room for the response.
    Refused,
}

/// The state that all connections of a worker share.
pub(super) struct WorkerState<S> {
    pub(super) service: RefCell<S>,
    pub(super) heads: RefCell<HeadParser>,
    pub(super) connections: ConnectionLimits,
    pub(super) timeout_sweeper: Rc<TimeoutSweeper>,
    /// The budget of responses that are not sent yet, of events that wait for the log, and of large heads.
    pub(super) memory: Rc<MemoryBudget>,
    /// The responses that clients have not read, in that budget.
    pub(super) unsent: UnsentResponses,
    /// The bodies that are being received, with a budget of their own.
    pub(super) bodies: Rc<IncomingBodies>,
    pub(super) lifecycle: Lifecycle,
    pub(super) busy_poller: Rc<BusyPoller>,
    /// Wakers of the pending responses, by token.
    pub(super) wakers: RefCell<Vec<Option<Waker>>>,
    /// Waker of the task that flushes queued events to the log writer.
    pub(super) flush_waker: RefCell<Option<Waker>>,
    /// Number of rejected connections whose 503 is sent and that still linger.
    pub(super) rejecting: Cell<usize>,
    counters: RefCell<Counters>,
    totals: Totals,
    output_pool: RefCell<OutputPool>,
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
        let memory = MemoryBudget::new(connections.memory_bytes_max);
        Self {
            heads: RefCell::new(HeadParser::new(service.country_header())),
            service: RefCell::new(service),
            connections,
            timeout_sweeper: Rc::new(deadlines),
            unsent: UnsentResponses::new(Rc::clone(&memory)),
            memory,
            bodies: IncomingBodies::new(connections.body_memory_bytes_max, connections.timeouts.body),
            lifecycle,
            busy_poller: Rc::new(spinning),
            wakers: RefCell::default(),
            flush_waker: RefCell::default(),
            rejecting: Cell::new(0),
            counters: RefCell::new(Counters::new(ENDPOINT_COUNTERS)),
            totals,
            output_pool: RefCell::new(OutputPool::new(connections.output_pool_bytes_max)),
        }
    }

    /// Runs the periodic work of the worker, once a second.
    pub(super) fn tick(&self) {
        self.service.borrow_mut().tick();
        self.totals.drain_from(&mut self.counters.borrow_mut());
        self.output_pool.borrow_mut().free_unused();
    }

    pub(super) fn count_event(&self, event: ConnectionEvent) {
        self.counters.borrow_mut().record_connection_event(event);
    }

    /// Appends the problem of input that is not a valid request, or of a request that cannot be accepted.
    /// `received` begins with the head of the request, as far as it was received.
    pub(super) fn reject(
        &self,
        problem: &Problem<'_>,
        received: &[u8],
        meta: &RequestMeta,
        output: &mut Output,
    ) {
        let begin = output.bytes.len();
        let head = RefusedHead::read(received);
        self.service.borrow_mut().reject_unparsed(problem, &head, meta, &mut output.bytes);
        let outcome = Outcome { endpoint: None, problem: Some(problem.kind) };
        self.record_response(outcome, None, head.path, meta, &output.bytes[begin..]);
    }

    /// Handles a request.
    pub(super) fn handle(&self, request: &Request<'_>, meta: &RequestMeta, output: &mut Output) -> Handled {
        let begin = output.bytes.len();
        let progress = self.service.borrow_mut().handle(request, meta, &mut output.bytes);
        match progress {
            Poll::Ready(answered) => {
                self.take_shared_parts(output);
                let changes_nothing =
                    request.method == Method::Get || answered.endpoint == Some(Endpoint::Query);
                if changes_nothing && !self.admits_response(output, begin) {
                    output.truncate(begin);
                    return Handled::Refused;
                }
                self.record_response(answered, Some(request), "", meta, &output.bytes[begin..]);
                Handled::Ready
            }
            Poll::Pending(token) => Handled::Pending(token),
        }
    }

    /// Moves the shared parts of new responses to their output.
    pub(super) fn take_shared_parts(&self, output: &mut Output) {
        self.service.borrow_mut().take_shared_parts(&mut output.shared);
    }

    /// Returns whether the memory budget has room for a request with this method. If not, cuts off slow clients. The records of
    /// an event take as much as a large response, and the response to a GET is checked when its size is known.
    pub(super) fn admits_request(&self, method: Method) -> bool {
        let bytes = if method == Method::Post { OUTPUT_BUFFER_BYTES_MAX } else { SMALL_RESPONSE_BYTES_MAX };
        self.memory.has_room(bytes) || self.make_room(|memory| memory.has_room(bytes))
    }

    /// Returns whether the memory budget has room for the response that begins at `begin`. If not, cuts off slow clients.
    fn admits_response(&self, output: &Output, begin: usize) -> bool {
        let bytes = output.bytes.len() - begin;
        if bytes <= SMALL_RESPONSE_BYTES_MAX {
            return true;
        }
        let own_bytes = bytes - output.shared.bytes_from(begin);
        own_bytes <= SMALL_RESPONSE_BYTES_MAX || self.make_room(|memory| memory.has_room_for_large(own_bytes))
    }

    fn make_room(&self, has_room: impl Fn(&MemoryBudget) -> bool) -> bool {
        self.unsent.make_room(has_room, || self.count_event(ConnectionEvent::TimedOut))
    }

    pub(super) fn finish_pending(
        &self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        output: &mut Output,
    ) {
        let begin = output.bytes.len();
        let answered = self.service.borrow_mut().finish(token, buffered, meta, &mut output.bytes);
        self.take_shared_parts(output);
        let logged = self.connections.access_log.then(|| buffered.request()).flatten();
        self.record_response(answered, logged.as_ref(), "", meta, &output.bytes[begin..]);
    }

    fn record_response(
        &self,
        answered: Outcome,
        request: Option<&Request<'_>>,
        refused_path: &str,
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
            access_log::log_response(request, refused_path, answered.endpoint, answer, took);
        }
    }

    /// Returns whether the rest of a response needs a snapshot that is not served any more.
    pub(super) fn needs_replaced_snapshot(&self, unsent: &UnsentBytes) -> bool {
        let mut service = self.service.borrow_mut();
        unsent.shared().any(|bytes| service.is_of_replaced_snapshot(bytes))
    }

    pub(super) fn take_output(&self) -> Output {
        self.output_pool.borrow_mut().take()
    }

    pub(super) fn recycle_output(&self, output: Output) {
        self.output_pool.borrow_mut().recycle(output);
    }
}
