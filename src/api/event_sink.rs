//! The connection of one thread to the log: its buffers, and its pending requests.

use super::receipt::OwnedResponseParams;
use crate::events::decode::EventValidator;
use crate::events::document::JsonParser;
use crate::events::receipt::{DropReason, EventResults};
use crate::log::{self, Completion, LogClient, SendError};
use crate::metrics::EventCounters;

/// Pooled buffers, in requests: as many as connections that usually wait for one sync. Further buffers are freed.
const POOLED_REQUESTS_MAX: usize = 1_024;
/// Size in bytes above which a buffer is freed and not pooled. Only a batch needs more.
const POOLED_REQUEST_BYTES_MAX: usize = 4 * 1024;

/// The connection of one thread to the log: its buffers, and its pending requests.
pub struct EventSink {
    pub(super) log: LogClient,
    pub(super) parser: JsonParser,
    pub(super) validator: EventValidator,
    /// The tracking ID and the site ID of the body.
    pub(super) site_names: [String; 2],
    /// The pending requests by token.
    pending: Vec<Option<PendingRequest>>,
    free_tokens: Vec<usize>,
    pub(super) pool: Vec<PooledBuffers>,
    pub(super) counters: EventCounters,
}

/// The buffers of a request.
#[derive(Default)]
pub(super) struct PooledBuffers {
    pub(super) records: log::Request,
    pub(super) results: EventResults,
}

/// A request whose records are queued or being written.
pub(super) struct PendingRequest {
    pub(super) results: EventResults,
    pub(super) params: OwnedResponseParams,
    /// The memory of the request, its records included.
    memory_bytes: usize,
    pub(super) completion: Option<Completion>,
    /// True if its connection is closed.
    is_canceled: bool,
}

impl EventSink {
    /// Creates a sink that records through `log` and counts dropped and rejected events in `counters`.
    pub fn new(log: LogClient, counters: EventCounters) -> Self {
        Self {
            log,
            parser: JsonParser::default(),
            validator: EventValidator::default(),
            site_names: Default::default(),
            pending: Vec::new(),
            free_tokens: Vec::new(),
            pool: Vec::new(),
            counters,
        }
    }

    /// Wakes the log writer for the requests that were queued since the last call.
    pub fn flush(&self) {
        self.log.notify_writer();
    }

    /// Takes the next completion, and returns the token of its request.
    pub fn take_completion(&mut self) -> Option<usize> {
        let completion = self.log.next_completion()?;
        let token = completion.request.token as usize;
        let pending = self.pending.get_mut(token)?.as_mut()?;
        if pending.is_canceled {
            let results = self.release(token).map(|pending| pending.results);
            self.recycle(completion.request, results.unwrap_or_default());
        } else {
            pending.completion = Some(completion);
        }
        Some(token)
    }

    /// Returns whether the completion of a request was taken.
    pub fn is_complete(&self, token: usize) -> bool {
        let pending = self.pending.get(token).and_then(Option::as_ref);
        pending.is_some_and(|pending| pending.completion.is_some())
    }

    /// Returns the approximate memory of a pending request, in bytes.
    pub fn pending_bytes(&self, token: usize) -> usize {
        self.pending.get(token).and_then(Option::as_ref).map_or(0, |pending| pending.memory_bytes)
    }

    /// Cancels the response of a request, because its connection is closed. Its records are still written.
    pub fn cancel(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token).and_then(Option::as_mut) else { return };
        pending.is_canceled = true;
        if pending.completion.is_some() {
            self.release(token);
        }
    }

    pub(super) fn release(&mut self, token: usize) -> Option<PendingRequest> {
        self.free_tokens.push(token);
        self.pending[token].take()
    }

    /// Returns buffers to the pool.
    pub(super) fn recycle(&mut self, mut log_request: log::Request, results: EventResults) {
        let bytes = log_request.capacity() + results.memory_bytes();
        if self.pool.len() < POOLED_REQUESTS_MAX && bytes <= POOLED_REQUEST_BYTES_MAX {
            log_request.clear();
            self.pool.push(PooledBuffers { records: log_request, results });
        }
    }

    pub(super) fn count(&self, results: &EventResults) {
        let reasons = [DropReason::Preview, DropReason::NoConsent, DropReason::Bot];
        for (index, reason) in reasons.into_iter().enumerate() {
            match results.dropped_count(reason) {
                0 => {}
                dropped => self.counters.record_dropped(index, dropped),
            }
        }
        if results.ignored_count() > 0 {
            self.counters.record_ignored_values(results.ignored_count());
        }
        results.refusals().for_each(|refusal| self.counters.record_rejected(refusal.kind));
    }

    /// Queues the records of a request, and returns its token.
    pub(super) fn send(
        &mut self,
        mut log_request: log::Request,
        results: EventResults,
        params: OwnedResponseParams,
    ) -> Result<usize, SendError> {
        let token = self.free_tokens.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        log_request.token = token as u64;
        let memory_bytes = log_request.capacity() + results.memory_bytes() + params.memory_bytes();
        let pending = PendingRequest { results, params, memory_bytes, completion: None, is_canceled: false };
        self.pending[token] = Some(pending);
        self.log.send(log_request).map(|()| token).map_err(|(log_request, error)| {
            let results = self.release(token).map(|pending| pending.results);
            self.recycle(log_request, results.unwrap_or_default());
            error
        })
    }
}
