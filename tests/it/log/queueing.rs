//! The queue takes a request whole or refuses it at once, and what it took comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use parallax::clock::SystemClock;
use parallax::limits::OUTSTANDING_MAX;
use parallax::storage::disk::RealDisk;
use parallax::visitors::log::{self, Options, Outcome, Records, Refusal, Request, Verdict, WriterThread};

use super::simulated::SimulatedDisk;
use super::{Log, START_MS, TestClock, options, request};
use crate::harness::temporary_folder;

fn open(options: Options) -> Log {
    let clock = Arc::<TestClock>::default();
    Log::open(Arc::new(SimulatedDisk::new(1)), &clock, options).expect("the disk is well")
}

fn refusal(sent: Result<(), (Request, Refusal)>) -> Option<Refusal> {
    sent.err().map(|(_, refusal)| refusal)
}

#[test]
fn the_queue_is_full_at_its_bound_of_requests() {
    let mut log = open(Options { queue_requests_max: 3, ..options() });
    for (key, expected) in [(1, None), (2, None), (3, None), (4, Some(Refusal::QueueFull))] {
        assert_eq!(refusal(log.port.send(request(0, &[key], START_MS))), expected, "request {key}");
    }
    assert_eq!(log.queue.figures().queued_requests(), 3);
    log.writer.step();
    assert_eq!(log.queue.figures().queued_requests(), 0);
    assert_eq!(refusal(log.port.send(request(0, &[4], START_MS))), None);
}

#[test]
fn the_queue_is_full_at_its_bound_of_bytes_and_gives_the_request_back() {
    let bytes = request(0, &[1], START_MS).bytes();
    for (queue_bytes_max, fits) in [(2 * bytes - 1, false), (2 * bytes, true), (2 * bytes + 1, true)] {
        let log = open(Options { queue_bytes_max, ..options() });
        assert_eq!(refusal(log.port.send(request(1, &[1], START_MS))), None);
        match log.port.send(request(2, &[2], START_MS)) {
            Ok(()) => assert!(fits),
            Err((request, refusal)) => {
                assert!(!fits);
                assert_eq!((request.token, request.bytes(), refusal), (2, bytes, Refusal::QueueFull));
                assert_eq!(log.queue.figures().queued_bytes(), bytes);
            }
        }
    }
}

#[test]
fn a_port_that_takes_nothing_back_may_not_send_for_ever() {
    let mut log = open(Options { queue_requests_max: OUTSTANDING_MAX + 10, ..options() });
    for sent in 0..OUTSTANDING_MAX {
        assert_eq!(refusal(log.port.send(request(0, &[0], START_MS))), None, "after {sent}");
        if sent % 1000 == 0 {
            log.writer.step();
        }
    }
    assert_eq!(refusal(log.port.send(request(0, &[0], START_MS))), Some(Refusal::QueueFull));
    log.writer.step();
    assert!(log.port.take().is_some());
    assert_eq!(refusal(log.port.send(request(0, &[0], START_MS))), None);
}

#[test]
fn what_waits_shares_a_batch_and_each_worker_is_woken_once_for_it() {
    let mut log = open(options());
    let wakes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&wakes);
    let other = log.queue.port(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    log.port.send(request(10, &[1, 2], START_MS)).expect("the queue takes it");
    other.send(request(20, &[3, 1], START_MS)).expect("the queue takes it");
    log.port.send(request(11, &[2, 4], START_MS)).expect("the queue takes it");
    log.writer.step();
    assert_eq!((log.wakes.load(Ordering::Relaxed), wakes.load(Ordering::Relaxed)), (1, 1));
    let figures = log.queue.figures();
    assert_eq!((figures.batches(), figures.records(), figures.duplicates()), (1, 4, 2));
    let verdicts = |completion: log::Completion| {
        assert_eq!(completion.outcome, Outcome::Durable);
        (completion.request.token, completion.request.verdicts().to_vec())
    };
    use Verdict::{Accepted, Duplicate};
    assert_eq!(log.port.take().map(verdicts), Some((10, vec![Accepted(1), Accepted(2)])));
    assert_eq!(log.port.take().map(verdicts), Some((11, vec![Duplicate, Accepted(4)])));
    assert_eq!(other.take().map(verdicts), Some((20, vec![Accepted(3), Duplicate])));
    assert!(log.port.take().is_none() && other.take().is_none());
}

#[test]
fn a_stop_answers_what_was_taken_and_refuses_the_rest() {
    let log = open(options());
    log.port.send(request(1, &[1], START_MS)).expect("the queue takes it");
    log.queue.stop();
    assert_eq!(refusal(log.port.send(request(2, &[2], START_MS))), Some(Refusal::Stopped));
    let stopped = log.writer.close();
    assert_eq!((stopped.last_seq, stopped.durable_seq), (1, 1));
    assert_eq!(log.port.take().map(|completion| completion.outcome), Some(Outcome::Durable));
    assert_eq!(refusal(log.port.send(request(2, &[2], START_MS))), Some(Refusal::Stopped));
}

#[test]
fn a_writer_on_its_thread_answers_many_workers_and_stops() {
    let folder = temporary_folder();
    let clock = Arc::new(SystemClock::new());
    let follower = Box::new(|_: Records<'_>| ());
    let (queue, writer, _) =
        log::open(&folder.path().join("data"), options(), Arc::new(RealDisk), clock, follower)
            .expect("it opens");
    let thread = WriterThread::spawn(queue.clone(), writer).expect("there is a thread");
    std::thread::scope(|scope| {
        for worker in 0..3_u128 {
            let queue = queue.clone();
            scope.spawn(move || work(&queue, worker));
        }
    });
    assert!(!thread.has_ended());
    let stopped = thread.stop().expect("it does not panic");
    assert_eq!((stopped.last_seq, stopped.durable_seq), (300, 300));
    let checked = log::check_folder(Arc::new(RealDisk), &folder.path().join("data")).expect("it reads");
    assert_eq!((checked.records, checked.findings), (300, vec![]));
}

/// Sends a hundred records, one after the other, and waits for each.
fn work(queue: &log::Queue, worker: u128) {
    let (wake, woken) = mpsc::channel();
    let port = queue.port(Arc::new(move || wake.send(()).expect("the worker listens")));
    for key in 1..=100 {
        port.send(request(key as u64, &[worker << 64 | key], START_MS)).expect("the queue takes it");
        port.call_writer();
        woken.recv().expect("the writer lives");
        let completion = port.take().expect("a wake brings something");
        assert_eq!((completion.request.token, completion.outcome), (key as u64, Outcome::Durable));
    }
}
