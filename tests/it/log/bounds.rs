//! Each bound of the log, one below, at and above.

use std::sync::Arc;

use parallax::limits::{
    BATCH_BYTES_FULL, PAYLOAD_BYTES_MAX, REQUEST_BYTES_MAX, SEGMENT_RECORDS_MAX, TEXT_BYTES_MAX,
    UNSYNCED_BYTES_MAX,
};
use parallax::visitors::log::format::{BATCH_HEADER_BYTES, HEADER_BYTES};
use parallax::visitors::log::{Ack, Options, Record, RecordFault, Request};

use super::simulated::SimulatedDisk;
use super::{Log, START_MS, TestClock, options, record, request};

fn open(options: Options) -> Log {
    let clock = Arc::<TestClock>::default();
    Log::open(Arc::new(SimulatedDisk::new(1)), &clock, options).expect("the disk is well")
}

/// A request whose records take so many bytes, a multiple of 8.
fn sized(bytes: usize) -> Request {
    let texts = ["acme", "m", "visitor", "Viewed", "/x"].concat().len();
    let mut request = Request::new(0);
    while request.bytes() < bytes {
        let left = bytes - request.bytes();
        let length = if left > PAYLOAD_BYTES_MAX { left.min(PAYLOAD_BYTES_MAX) / 2 / 8 * 8 } else { left };
        let payload = "x".repeat(length - 72 - texts);
        request.push(&record(0, START_MS, &payload)).expect("it is within all bounds");
    }
    assert_eq!(request.bytes(), bytes);
    request
}

#[test]
fn a_text_a_payload_and_a_request_end_at_their_bounds() {
    let mut out = Vec::new();
    for (more, fits) in [(-1, true), (0, true), (1, false)] {
        let text = "x".repeat(TEXT_BYTES_MAX.saturating_add_signed(more));
        let with_text = Record { path: Some(&text), ..record(1, START_MS, "{}") };
        assert_eq!(with_text.encode(&mut out).is_ok(), fits);
        let payload = "x".repeat(PAYLOAD_BYTES_MAX.saturating_add_signed(more));
        assert_eq!(record(1, START_MS, &payload).encode(&mut out).is_ok(), fits);
    }
    let mut one = Vec::new();
    record(1, START_MS, "").encode(&mut one).expect("it is within all bounds");
    for (more, fits) in [(-8, true), (0, true), (8, false)] {
        let mut request = Request::new(0);
        for _ in 0..3 {
            let payload = "x".repeat(PAYLOAD_BYTES_MAX);
            request.push(&record(1, START_MS, &payload)).expect("three fit");
        }
        let room = REQUEST_BYTES_MAX - request.bytes() - 2 * one.len();
        let (left, right) =
            ("x".repeat(room / 2 / 8 * 8), "x".repeat((room - room / 2 / 8 * 8).saturating_add_signed(more)));
        request.push(&record(1, START_MS, &left)).expect("it fits");
        let before = request.bytes();
        let pushed = request.push(&record(1, START_MS, &right));
        assert_eq!(pushed.is_ok(), fits, "{more}: {pushed:?}");
        if !fits {
            assert!(matches!(pushed, Err(RecordFault::RequestTooLong(_))));
            assert_eq!(request.bytes(), before, "as before");
        }
    }
}

#[test]
fn a_batch_is_full_at_its_bound() {
    for (bytes, batches) in [(BATCH_BYTES_FULL - 8, 1), (BATCH_BYTES_FULL, 2)] {
        let mut log = open(options());
        log.port.send(sized(bytes)).expect("the queue takes it");
        log.port.send(request(0, &[1], START_MS)).expect("the queue takes it");
        log.writer.step();
        log.writer.step();
        assert_eq!(log.queue.figures().batches(), batches, "{bytes} bytes come first");
        assert!(log.port.take().is_some() && log.port.take().is_some());
    }
}

#[test]
fn a_segment_is_sealed_at_its_size() {
    let bytes = request(0, &[1], START_MS).bytes() + HEADER_BYTES + BATCH_HEADER_BYTES;
    for (segment_bytes, segments) in [(bytes - 1, 2), (bytes, 2), (bytes + 1, 1)] {
        let mut log = open(Options { segment_bytes: segment_bytes as u64, ..options() });
        log.record(&[1], START_MS);
        assert_eq!(log.queue.figures().segments(), segments, "{segment_bytes} bytes");
    }
}

#[test]
fn a_segment_is_sealed_at_its_number_of_records() {
    for (records, segments) in
        [(SEGMENT_RECORDS_MAX - 1, 1), (SEGMENT_RECORDS_MAX, 2), (SEGMENT_RECORDS_MAX + 1, 2)]
    {
        let mut log = open(options());
        let mut left = records as usize;
        while left > 0 {
            let keys = vec![0; left.min(8192)];
            left -= keys.len();
            log.record(&keys, START_MS);
        }
        assert_eq!(log.queue.figures().segments(), segments, "{records} records");
        assert_eq!(log.stop().durable_seq, records);
    }
}

#[test]
fn what_is_written_and_not_synced_has_a_bound() {
    let batch = UNSYNCED_BYTES_MAX / 4 - BATCH_HEADER_BYTES;
    for (bytes, durable) in [(batch - 8, false), (batch, true)] {
        let mut log = open(Options { ack: Ack::Written, ..options() });
        for bytes in [batch, bytes] {
            log.port.send(sized(bytes)).expect("the queue takes it");
            log.writer.step();
        }
        let figures = log.queue.figures();
        assert_eq!(figures.durable_seq() == figures.last_seq(), durable, "{bytes} bytes");
    }
}
