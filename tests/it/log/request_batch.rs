//! The requests of a batch, without a file and without a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parallax::testing::log::queue::{QueueReceiver, channel};
use parallax::testing::log::{DedupWindow, LogClient, LogMetrics, RecordResult, RequestBatch, WriteOutcome};

use super::{START_MS, request};

/// A batch with the queue that feeds it.
struct Requests {
    client: LogClient,
    receiver: QueueReceiver,
    batch: RequestBatch,
    wakes: Arc<AtomicU64>,
}

impl Requests {
    fn new() -> Self {
        let metrics = Arc::new(LogMetrics::default());
        metrics.set_available(true);
        let (queue, receiver) = channel(10, 100_000, Arc::clone(&metrics));
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&wakes);
        let client = queue.client(Arc::new(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        }));
        Self { client, receiver, batch: RequestBatch::new(DedupWindow::new(100, 0), metrics), wakes }
    }

    /// Sends a request with these keys, and drains the queue. Returns the number of accepted records.
    fn take(&mut self, keys: &[u128], first_seq: u64) -> u32 {
        self.client.send(request(0, keys, START_MS)).expect("the queue accepts it");
        assert!(self.batch.drain(&mut self.receiver));
        self.batch.assign_seqs(&mut Vec::new(), first_seq, START_MS)
    }

    /// Completes the batch and returns the results of its next request.
    fn complete(&mut self, outcome: WriteOutcome) -> Vec<RecordResult> {
        self.batch.complete(outcome);
        self.client.next_completion().expect("it is complete").request.results().to_vec()
    }
}

#[test]
fn a_key_is_accepted_once_and_accepted_records_have_consecutive_seqs() {
    use RecordResult::{Accepted, Duplicate};
    let mut requests = Requests::new();
    assert_eq!(requests.take(&[7, 7, 8], 5), 2);
    assert_eq!(requests.complete(WriteOutcome::Durable), [Accepted(5), Duplicate, Accepted(6)]);
    assert_eq!(requests.take(&[8, 9], 7), 1);
    assert_eq!(requests.complete(WriteOutcome::Durable), [Duplicate, Accepted(7)]);
}

#[test]
fn a_retry_of_a_batch_that_was_not_persisted_is_no_duplicate() {
    let mut requests = Requests::new();
    assert_eq!(requests.take(&[7], 1), 1);
    requests.complete(WriteOutcome::DiskUnavailable);
    assert_eq!(requests.take(&[7], 1), 1);
    assert_eq!(requests.complete(WriteOutcome::Durable), [RecordResult::Accepted(1)]);
}

#[test]
fn a_batch_wakes_a_worker_once_for_all_of_its_requests() {
    let mut requests = Requests::new();
    requests.client.send(request(1, &[1], START_MS)).expect("the queue accepts it");
    assert_eq!(requests.take(&[2, 3], 1), 3);
    requests.complete(WriteOutcome::Written);
    assert!(requests.client.next_completion().is_some(), "the second request");
    assert_eq!(requests.wakes.load(Ordering::Relaxed), 1);
    assert!(!requests.batch.drain(&mut requests.receiver), "nothing is left");
}
