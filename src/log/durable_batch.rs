//! The requests of a durable batch, which the consumer may hold before it acknowledges them.

use std::sync::Arc;

use super::queue::{Completion, CompletionQueue, QueuedRequest, WriteOutcome};

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
        let mut queues_to_wake: Vec<Arc<CompletionQueue>> = Vec::new();
        for QueuedRequest { request, completion_queue } in self.requests {
            let completion = Completion { outcome: self.outcome, visible: Some(is_visible), request };
            if completion_queue.push(completion, self.number) {
                queues_to_wake.push(completion_queue);
            }
        }
        queues_to_wake.iter().for_each(|completion_queue| completion_queue.wake());
    }
}
