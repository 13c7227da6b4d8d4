//! The batch part of the log writer: the requests of one batch, the dedup window, and their completions.
//!
//! # Invariants
//!
//! * Each request that is drained is completed, or passed on to be completed, before the next ones are drained.
//! * The keys of a batch that is not persisted leave the dedup window when its requests are completed, so that a retry
//!   is no duplicate.
//! * Each batch wakes a worker once, however many of its requests the batch has.
//!
//! This part knows no file and no clock.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::dedup::DedupWindow;
use super::durable_batch::DurableBatch;
use super::metrics::LogMetrics;
use super::queue::{Completion, CompletionQueue, QueueReceiver, QueuedRequest, WriteOutcome};
use crate::acknowledgement::RecordResult;
use crate::limits::BATCH_BYTES_TARGET;
use crate::record::key_and_time;

/// The requests that the writer persists and completes together.
pub struct RequestBatch {
    metrics: Arc<LogMetrics>,
    pub(super) dedup: DedupWindow,
    requests: Vec<QueuedRequest>,
    /// The completion queues to wake after the batch.
    queues_to_wake: Vec<Arc<CompletionQueue>>,
    number: u64,
}

impl RequestBatch {
    /// Creates an empty batch.
    pub fn new(dedup: DedupWindow, metrics: Arc<LogMetrics>) -> Self {
        Self { metrics, dedup, requests: Vec::new(), queues_to_wake: Vec::new(), number: 0 }
    }

    /// Drains the queue, up to the size of a batch. Returns whether there is a request.
    pub fn drain(&mut self, receiver: &mut QueueReceiver) -> bool {
        let mut bytes = 0;
        while bytes < BATCH_BYTES_TARGET {
            let Some(queued) = receiver.take() else { break };
            bytes += queued.request.byte_len();
            self.requests.push(queued);
        }
        !self.requests.is_empty()
    }

    /// Decides the result of each record. Appends the accepted records to `out`, gives them seqs from `first_seq`
    /// on, and returns their number. `log_ms` is the log clock.
    pub fn assign_seqs(&mut self, out: &mut Vec<u8>, first_seq: u64, log_ms: i64) -> u32 {
        let Self { requests, dedup, metrics, .. } = self;
        let encoded = requests.iter().flat_map(|queued| queued.request.iter_encoded());
        dedup.prefetch(encoded.map(|record| key_and_time(record).0));
        let mut next_seq = first_seq;
        for queued in requests {
            queued.request.set_results(|record| {
                let (key, _) = key_and_time(record);
                if dedup.check_and_insert(key, log_ms) {
                    metrics.duplicates.fetch_add(1, Ordering::Relaxed);
                    return RecordResult::Duplicate;
                }
                out.extend_from_slice(record);
                next_seq += 1;
                RecordResult::Accepted(next_seq - 1)
            });
        }
        (next_seq - first_seq) as u32
    }

    /// Completes the requests, and wakes each worker that sent one of them.
    pub fn complete(&mut self, outcome: WriteOutcome) {
        self.number += 1;
        if outcome == WriteOutcome::DiskUnavailable {
            self.dedup.rollback();
            self.metrics.rejected_requests.fetch_add(self.requests.len() as u64, Ordering::Relaxed);
        } else {
            self.dedup.commit();
        }
        for QueuedRequest { request, completion_queue } in self.requests.drain(..) {
            if completion_queue.push(Completion { outcome, visible: None, request }, self.number) {
                self.queues_to_wake.push(completion_queue);
            }
        }
        self.queues_to_wake.drain(..).for_each(|completion_queue| completion_queue.wake());
    }

    /// Takes the requests, so that the consumer completes them. `last_seq` is the last seq of the log.
    pub(super) fn take_durable(&mut self, outcome: WriteOutcome, last_seq: u64) -> DurableBatch {
        self.number += 1;
        self.dedup.commit();
        DurableBatch { requests: mem::take(&mut self.requests), outcome, last_seq, number: self.number }
    }

    /// Publishes the state of the dedup window in the metrics.
    pub(super) fn publish_metrics(&self) {
        self.metrics.evicted_early.store(self.dedup.evicted_early(), Ordering::Relaxed);
    }
}
