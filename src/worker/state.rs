//! The state that all connections of a worker share: the service, the memory budgets, and the counters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use super::bodies::IncomingBodies;
use super::busy_poll::BusyPoller;
use super::memory::MemoryBudget;
use super::output_pool::OutputPool;
use super::shutdown::Lifecycle;
use super::timeouts::TimeoutSweeper;
use super::{ENDPOINT_COUNTERS, Service, access_log};
use crate::api::{Outcome, Poll};
use crate::clock;
use crate::config::ConnectionLimits;
use crate::http::head_parser::HeadParser;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Request, RequestMeta};
use crate::metrics::{ConnectionEvent, Counters, Totals, status_class};
use crate::problem::Problem;

/// The state that all connections of a worker share.
pub(super) struct WorkerState<S> {
    pub(super) service: RefCell<S>,
    pub(super) heads: RefCell<HeadParser>,
    pub(super) connections: ConnectionLimits,
    pub(super) timeout_sweeper: Rc<TimeoutSweeper>,
    /// The budget of responses that are not sent yet, of events that wait for the log, and of large heads.
    pub(super) memory: Rc<MemoryBudget>,
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
        Self {
            heads: RefCell::new(HeadParser::new(service.country_header())),
            service: RefCell::new(service),
            connections,
            timeout_sweeper: Rc::new(deadlines),
            memory: MemoryBudget::new(connections.memory_bytes_max),
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
        output: &mut Vec<u8>,
    ) {
        let begin = output.len();
        let head = RefusedHead::read(received);
        self.service.borrow_mut().reject(problem, &head, meta, output);
        let outcome = Outcome { endpoint: None, problem: Some(problem.kind) };
        self.record_response(outcome, None, head.path, meta, &output[begin..]);
    }

    /// Handles a request. Returns the token if the response is pending.
    pub(super) fn handle(
        &self,
        request: &Request<'_>,
        meta: &RequestMeta,
        output: &mut Vec<u8>,
    ) -> Option<usize> {
        let begin = output.len();
        let progress = self.service.borrow_mut().handle(request, meta, output);
        match progress {
            Poll::Ready(answered) => {
                self.record_response(answered, Some(request), "", meta, &output[begin..]);
                None
            }
            Poll::Pending(token) => Some(token),
        }
    }

    pub(super) fn finish_pending(
        &self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        output: &mut Vec<u8>,
    ) {
        let begin = output.len();
        let answered = self.service.borrow_mut().finish(token, buffered, meta, output);
        let logged = self.connections.access_log.then(|| buffered.request()).flatten();
        self.record_response(answered, logged.as_ref(), "", meta, &output[begin..]);
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

    pub(super) fn take_output(&self) -> Vec<u8> {
        self.output_pool.borrow_mut().take()
    }

    pub(super) fn recycle_output(&self, output: Vec<u8>) {
        self.output_pool.borrow_mut().recycle(output);
    }
}
