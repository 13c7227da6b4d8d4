//! The state that all connections of a worker share: the service, the memory budgets, and the counters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use super::bodies::IncomingBodies;
use super::busy_poll::BusyPoller;
use super::draining::Draining;
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
    pub(super) draining: Draining,
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
        connection_limits: ConnectionLimits,
        timeout_sweeper: TimeoutSweeper,
        totals: Totals,
        lifecycle: Lifecycle,
        busy_poller: BusyPoller,
    ) -> Self {
        let memory = MemoryBudget::new(connection_limits.memory_bytes_max);
        Self {
            heads: RefCell::new(HeadParser::new(service.country_header())),
            service: RefCell::new(service),
            connections: connection_limits,
            timeout_sweeper: Rc::new(timeout_sweeper),
            unsent: UnsentResponses::new(Rc::clone(&memory)),
            memory,
            bodies: IncomingBodies::new(
                connection_limits.body_memory_bytes_max,
                connection_limits.timeouts.body,
            ),
            lifecycle,
            draining: Draining::default(),
            busy_poller: Rc::new(busy_poller),
            wakers: RefCell::default(),
            flush_waker: RefCell::default(),
            rejecting: Cell::new(0),
            counters: RefCell::new(Counters::new(ENDPOINT_COUNTERS)),
            totals,
            output_pool: RefCell::new(OutputPool::new(connection_limits.output_pool_bytes_max)),
        }
    }

    /// Runs the periodic work of the worker, once a second.
    pub(super) fn tick(&self) {
        self.service.borrow_mut().tick();
        self.totals.drain_from(&mut self.counters.borrow_mut());
        self.output_pool.borrow_mut().free_unused();
    }

    /// Ends the connections that exceed a time limit.
    pub(super) fn sweep_timeouts(&self) {
        self.timeout_sweeper.sweep(self.lifecycle.is_draining(), self.memory.is_under_pressure());
    }

    pub(super) fn count_event(&self, event: ConnectionEvent) {
        self.counters.borrow_mut().record_connection_event(event);
    }

    /// Appends the problem of input that is not a valid request, or of a request that cannot be accepted.
    /// `input` begins with the head of the request, as far as it was received.
    pub(super) fn reject(
        &self,
        problem: &Problem<'_>,
        input: &[u8],
        meta: &RequestMeta,
        output: &mut Output,
    ) {
        let offset = output.bytes.len();
        let head = RefusedHead::read(input);
        self.service.borrow_mut().reject_unparsed(problem, &head, meta, &mut output.bytes);
        let outcome = Outcome { endpoint: None, problem: Some(problem.kind) };
        self.record_response(outcome, None, head.path, meta, &output.bytes[offset..]);
    }

    /// Handles a request.
    pub(super) fn handle(&self, request: &Request<'_>, meta: &RequestMeta, output: &mut Output) -> Handled {
        let offset = output.bytes.len();
        let progress = self.service.borrow_mut().handle(request, meta, &mut output.bytes);
        match progress {
            Poll::Ready(outcome) => {
                self.take_shared_parts(output);
                let changes_nothing =
                    request.method == Method::Get || outcome.endpoint == Some(Endpoint::Query);
                if changes_nothing && !self.admits_response(output, offset) {
                    output.truncate(offset);
                    return Handled::Refused;
                }
                self.record_response(outcome, Some(request), "", meta, &output.bytes[offset..]);
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

    /// Returns whether the memory budget has room for the response that begins at `offset`. If not, cuts off slow clients.
    fn admits_response(&self, output: &Output, offset: usize) -> bool {
        let bytes = output.bytes.len() - offset;
        if bytes <= SMALL_RESPONSE_BYTES_MAX {
            return true;
        }
        let own_bytes = bytes - output.shared.bytes_from(offset);
        own_bytes <= SMALL_RESPONSE_BYTES_MAX || self.make_room(|memory| memory.has_room_for_large(own_bytes))
    }

    fn make_room(&self, has_room: impl Fn(&MemoryBudget) -> bool) -> bool {
        self.unsent.make_room(has_room, || self.count_event(ConnectionEvent::TimedOut))
    }

    pub(super) fn finish_pending(
        &self,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        output: &mut Output,
    ) {
        let offset = output.bytes.len();
        let outcome = self.service.borrow_mut().finish(token, buffered_request, meta, &mut output.bytes);
        self.take_shared_parts(output);
        let request = self.connections.access_log.then(|| buffered_request.request()).flatten();
        self.record_response(outcome, request.as_ref(), "", meta, &output.bytes[offset..]);
    }

    fn record_response(
        &self,
        outcome: Outcome,
        request: Option<&Request<'_>>,
        refused_path: &str,
        meta: &RequestMeta,
        response: &[u8],
    ) {
        let duration = clock::instant().duration_since(meta.received_at);
        let endpoint = outcome.endpoint.map_or(ENDPOINT_COUNTERS - 1, |endpoint| endpoint.index());
        let mut counters = self.counters.borrow_mut();
        counters.record_response(endpoint, status_class(response), duration, response.len());
        if let Some(kind) = outcome.problem {
            counters.record_problem(kind);
        }
        if self.connections.access_log && outcome.endpoint != Some(Endpoint::Health) {
            access_log::log_response(request, refused_path, outcome.endpoint, response, duration);
        }
    }

    /// Returns whether the rest of a response needs a snapshot that is not served any more.
    pub(super) fn needs_replaced_snapshot(&self, unsent_bytes: &UnsentBytes) -> bool {
        let mut service = self.service.borrow_mut();
        unsent_bytes.shared().any(|bytes| service.is_of_replaced_snapshot(bytes))
    }

    pub(super) fn take_output(&self) -> Output {
        self.output_pool.borrow_mut().take()
    }

    pub(super) fn recycle_output(&self, output: Output) {
        self.output_pool.borrow_mut().recycle(output);
    }
}
