//! A log in memory, for `parallax test` and for hosts without files: passes the records of each request to the consumer and keeps none.
//!
//! The queue, the dedup window and the completions are those of the log writer. There is no thread and no file: the caller
//! runs [`MemoryLog::run_once`] after each request.

use std::sync::Arc;

use super::dedup::DedupWindow;
use super::metrics::LogMetrics;
use super::queue::{self, Queue, QueueReceiver, WriteOutcome};
use super::records::Records;
use super::request_batch::RequestBatch;
use crate::limits::QUEUE_BYTES_MAX;

/// Requests that the queue holds. The caller sends one at a time.
const REQUESTS_MAX: usize = 1;

/// A function that is called with the records of each batch, on the thread of the caller.
type RecordConsumer = Box<dyn FnMut(Records<'_>)>;

/// The writer of a log in memory.
pub(crate) struct MemoryLog {
    receiver: QueueReceiver,
    batch: RequestBatch,
    consumer: RecordConsumer,
    next_seq: u64,
    records: Vec<u8>,
}

impl MemoryLog {
    /// Creates an empty log, and the queue to it. Its dedup window holds `dedup_ids_max` IDs.
    pub(crate) fn new(dedup_ids_max: usize, consumer: RecordConsumer) -> (Queue, Self) {
        let metrics = Arc::<LogMetrics>::default();
        metrics.set_available(true);
        let (queue, receiver) = queue::channel(REQUESTS_MAX, QUEUE_BYTES_MAX, Arc::clone(&metrics));
        let batch = RequestBatch::new(DedupWindow::new(dedup_ids_max, 0), metrics);
        (queue, Self { receiver, batch, consumer, next_seq: 1, records: Vec::new() })
    }

    /// Passes the records of the queued requests to the consumer, and completes the requests. `now_ms` is the time of the
    /// dedup window.
    pub(crate) fn run_once(&mut self, now_ms: i64) {
        let Self { receiver, batch, consumer, next_seq, records } = self;
        while batch.drain(receiver) {
            records.clear();
            let count = batch.assign_seqs(records, *next_seq, now_ms);
            consumer(Records::new(*next_seq, count, records));
            *next_seq += u64::from(count);
            batch.complete(WriteOutcome::Durable);
        }
    }
}
