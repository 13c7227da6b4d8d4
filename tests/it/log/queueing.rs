//! The queue accepts a request completely or rejects it immediately, and every accepted request completes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use parallax::testing::clock::SystemClock;
use parallax::testing::limits::OUTSTANDING_REQUESTS_MAX;
use parallax::testing::log::{
    self, Options, RecordResult, Records, Request, SendError, WriteOutcome, WriterThread,
};
use parallax::testing::storage::disk::RealDisk;

use super::simulated::SimulatedDisk;
use super::{Log, START_MS, TestClock, options, request};
use crate::harness::temporary_directory;

fn open(options: Options) -> Log {
    let clock = Arc::<TestClock>::default();
    Log::open(Arc::new(SimulatedDisk::new(1)), &clock, options).expect("the disk works")
}

fn send_error(sent: Result<(), (Request, SendError)>) -> Option<SendError> {
    sent.err().map(|(_, error)| error)
}

#[test]
fn the_queue_has_a_limit_on_requests() {
    let mut log = open(Options { queue_requests_max: 3, ..options() });
    for (key, expected) in [(1, None), (2, None), (3, None), (4, Some(SendError::QueueFull))] {
        assert_eq!(send_error(log.client.send(request(0, &[key], START_MS))), expected, "request {key}");
    }
    assert_eq!(log.queue.metrics().queued_requests(), 3);
    log.writer.run_once();
    assert_eq!(log.queue.metrics().queued_requests(), 0);
    assert_eq!(send_error(log.client.send(request(0, &[4], START_MS))), None);
}

#[test]
fn the_queue_has_a_limit_on_bytes_and_returns_the_rejected_request() {
    let bytes = request(0, &[1], START_MS).byte_len();
    for (queue_bytes_max, fits) in [(2 * bytes - 1, false), (2 * bytes, true), (2 * bytes + 1, true)] {
        let log = open(Options { queue_bytes_max, ..options() });
        assert_eq!(send_error(log.client.send(request(1, &[1], START_MS))), None);
        match log.client.send(request(2, &[2], START_MS)) {
            Ok(()) => assert!(fits),
            Err((request, error)) => {
                assert!(!fits);
                assert_eq!((request.token, request.byte_len(), error), (2, bytes, SendError::QueueFull));
                assert_eq!(log.queue.metrics().queued_bytes(), bytes);
            }
        }
    }
}

#[test]
fn a_client_that_takes_no_completions_is_stopped_at_a_limit() {
    let mut log = open(Options { queue_requests_max: OUTSTANDING_REQUESTS_MAX + 10, ..options() });
    for sent in 0..OUTSTANDING_REQUESTS_MAX {
        assert_eq!(send_error(log.client.send(request(0, &[0], START_MS))), None, "after {sent}");
        if sent % 1000 == 0 {
            log.writer.run_once();
        }
    }
    assert_eq!(send_error(log.client.send(request(0, &[0], START_MS))), Some(SendError::QueueFull));
    log.writer.run_once();
    assert!(log.client.next_completion().is_some());
    assert_eq!(send_error(log.client.send(request(0, &[0], START_MS))), None);
}

#[test]
fn queued_requests_share_a_batch_that_wakes_each_worker_once() {
    let mut log = open(options());
    let wakes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&wakes);
    let other = log.queue.client(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    log.client.send(request(10, &[1, 2], START_MS)).expect("the queue accepts it");
    other.send(request(20, &[3, 1], START_MS)).expect("the queue accepts it");
    log.client.send(request(11, &[2, 4], START_MS)).expect("the queue accepts it");
    log.writer.run_once();
    assert_eq!((log.wakes.load(Ordering::Relaxed), wakes.load(Ordering::Relaxed)), (1, 1));
    let metrics = log.queue.metrics();
    assert_eq!((metrics.batches(), metrics.records(), metrics.duplicates()), (1, 4, 2));
    let results = |completion: log::Completion| {
        assert_eq!(completion.outcome, WriteOutcome::Durable);
        (completion.request.token, completion.request.results().to_vec())
    };
    use RecordResult::{Accepted, Duplicate};
    assert_eq!(log.client.next_completion().map(results), Some((10, vec![Accepted(1), Accepted(2)])));
    assert_eq!(log.client.next_completion().map(results), Some((11, vec![Duplicate, Accepted(4)])));
    assert_eq!(other.next_completion().map(results), Some((20, vec![Accepted(3), Duplicate])));
    assert!(log.client.next_completion().is_none() && other.next_completion().is_none());
}

#[test]
fn a_stop_completes_queued_requests_and_rejects_new_ones() {
    let log = open(options());
    log.client.send(request(1, &[1], START_MS)).expect("the queue accepts it");
    log.queue.stop();
    assert_eq!(send_error(log.client.send(request(2, &[2], START_MS))), Some(SendError::Stopped));
    let stopped = log.writer.close();
    assert_eq!((stopped.last_seq, stopped.durable_seq), (1, 1));
    assert_eq!(
        log.client.next_completion().map(|completion| completion.outcome),
        Some(WriteOutcome::Durable)
    );
    assert_eq!(send_error(log.client.send(request(2, &[2], START_MS))), Some(SendError::Stopped));
}

#[test]
fn a_writer_thread_serves_several_workers_and_stops() {
    let directory = temporary_directory();
    let clock = Arc::new(SystemClock::new());
    let consumer = Box::new(|_: Records<'_>| ());
    let (queue, writer, _) =
        log::open(&directory.path().join("data"), options(), Arc::new(RealDisk), clock, consumer)
            .expect("the log opens");
    let thread = WriterThread::spawn(queue.clone(), writer).expect("the thread starts");
    std::thread::scope(|scope| {
        for worker in 0..3_u128 {
            let queue = queue.clone();
            scope.spawn(move || send_and_wait(&queue, worker));
        }
    });
    assert!(!thread.has_ended());
    let stopped = thread.stop().expect("the thread does not panic");
    assert_eq!((stopped.last_seq, stopped.durable_seq), (300, 300));
    let checked = log::check_directory(Arc::new(RealDisk), &directory.path().join("data"), 0)
        .expect("reading succeeds");
    assert_eq!((checked.records, checked.damage), (300, vec![]));
}

/// Sends a hundred records one after the other, and waits for the answer to each.
fn send_and_wait(queue: &log::Queue, worker: u128) {
    let (wake, woken) = mpsc::channel();
    let client = queue.client(Arc::new(move || wake.send(()).expect("the worker is running")));
    for key in 1..=100 {
        client.send(request(key as u64, &[worker << 64 | key], START_MS)).expect("the queue accepts it");
        client.notify_writer();
        woken.recv().expect("the writer is running");
        let completion = client.next_completion().expect("a wakeup brings a completion");
        assert_eq!((completion.request.token, completion.outcome), (key as u64, WriteOutcome::Durable));
    }
}
