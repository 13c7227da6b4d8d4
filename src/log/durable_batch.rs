//! The requests of a durable batch, which the consumer may hold before it acknowledges them.

use std::sync::Arc;

use super::queue::{Completion, CompletionQueue, QueuedRequest, WriteOutcome};
use crate::acknowledgement::RecordResult;

/// The requests of a durable batch that are not acknowledged yet. See [`super::LogConsumer::hold`].
pub struct DurableBatch {
    pub(super) requests: Vec<QueuedRequest>,
    pub(super) outcome: WriteOutcome,
    /// The last seq that must be in the profiles so that the next resolve sees all events of the batch. It also covers
    /// earlier events, of which the batch may have duplicates.
    #[cfg_attr(
        not(feature = "cluster"),
        expect(dead_code, reason = "only a node of a cluster waits for it")
    )]
    pub(crate) last_seq: u64,
    /// The number of the batch, for [`CompletionQueue::push`].
    pub(super) number: u64,
}

impl DurableBatch {
    /// Acknowledges the requests. `is_visible` says whether the profiles have all records up to the last seq.
    pub(crate) fn complete(self, is_visible: bool) {
        self.complete_with(is_visible, |result| result);
    }

    /// Acknowledges the requests, whose events the next resolve sees. `log_seq_of` returns the seq of an own record in the log of
    /// the cluster. A record without one has no effect, because another node has recorded it.
    #[cfg(feature = "cluster")]
    pub(crate) fn complete_visible(self, log_seq_of: impl Fn(u64) -> Option<u64>) {
        self.complete_with(true, |result| match result {
            RecordResult::Accepted(seq) => {
                log_seq_of(seq).map_or(RecordResult::Duplicate, RecordResult::Accepted)
            }
            RecordResult::Duplicate => RecordResult::Duplicate,
        });
    }

    fn complete_with(self, is_visible: bool, change: impl Fn(RecordResult) -> RecordResult) {
        let mut queues_to_wake: Vec<Arc<CompletionQueue>> = Vec::new();
        for QueuedRequest { mut request, completion_queue } in self.requests {
            request.change_results(&change);
            let completion = Completion { outcome: self.outcome, visible: Some(is_visible), request };
            if completion_queue.push(completion, self.number) {
                queues_to_wake.push(completion_queue);
            }
        }
        queues_to_wake.iter().for_each(|completion_queue| completion_queue.wake());
    }
}
