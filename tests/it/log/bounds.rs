//! Each limit of the log: one below, at and above it.

use std::sync::Arc;

use parallax::testing::limits::{
    BATCH_BYTES_TARGET, PAYLOAD_BYTES_MAX, REQUEST_BYTES_MAX, SEGMENT_RECORDS_MAX, TEXT_BYTES_MAX,
    UNSYNCED_BYTES_MAX,
};
use parallax::testing::log::format::{BATCH_HEADER_BYTES, HEADER_BYTES};
use parallax::testing::log::{Ack, Options, Request};
use parallax::testing::record::{RECORD_BYTES_MIN, Record, RecordError};

use super::simulated::SimulatedDisk;
use super::{Log, START_MS, TestClock, options, record, request};

fn open(options: Options) -> Log {
    let clock = Arc::<TestClock>::default();
    Log::open(Arc::new(SimulatedDisk::new(1)), &clock, options).expect("the disk works")
}

/// Returns a request whose records have `bytes` bytes, a multiple of 8.
fn request_of_bytes(bytes: usize) -> Request {
    let texts = ["acme", "m", "visitor", "Viewed", "/x"].concat().len();
    let mut request = Request::new(0);
    while request.byte_len() < bytes {
        let left = bytes - request.byte_len();
        let length = if left > PAYLOAD_BYTES_MAX { left.min(PAYLOAD_BYTES_MAX) / 2 / 8 * 8 } else { left };
        let payload = "x".repeat(length - RECORD_BYTES_MIN - texts);
        request.push(&record(0, START_MS, &payload)).expect("the record is within all limits");
    }
    assert_eq!(request.byte_len(), bytes);
    request
}

#[test]
fn texts_payloads_and_requests_have_size_limits() {
    let mut out = Vec::new();
    for (more, fits) in [(-1, true), (0, true), (1, false)] {
        let text = "x".repeat(TEXT_BYTES_MAX.saturating_add_signed(more));
        let with_text = Record { path: Some(&text), ..record(1, START_MS, "{}") };
        assert_eq!(with_text.encode(&mut out).is_ok(), fits);
        let payload = "x".repeat(PAYLOAD_BYTES_MAX.saturating_add_signed(more));
        assert_eq!(record(1, START_MS, &payload).encode(&mut out).is_ok(), fits);
    }
    let mut one = Vec::new();
    record(1, START_MS, "").encode(&mut one).expect("the record is within all limits");
    for (more, fits) in [(-8, true), (0, true), (8, false)] {
        let mut request = Request::new(0);
        for _ in 0..8 {
            let payload = "x".repeat(PAYLOAD_BYTES_MAX);
            request.push(&record(1, START_MS, &payload)).expect("eight records fit");
        }
        let room = REQUEST_BYTES_MAX - request.byte_len() - 2 * one.len();
        let (left, right) =
            ("x".repeat(room / 2 / 8 * 8), "x".repeat((room - room / 2 / 8 * 8).saturating_add_signed(more)));
        request.push(&record(1, START_MS, &left)).expect("the record fits");
        let before = request.byte_len();
        let pushed = request.push(&record(1, START_MS, &right));
        assert_eq!(pushed.is_ok(), fits, "{more}: {pushed:?}");
        if !fits {
            assert!(matches!(pushed, Err(RecordError::RequestTooLong(_))));
            assert_eq!(request.byte_len(), before, "the request is unchanged");
        }
    }
}

#[test]
fn a_batch_is_full_at_its_byte_target() {
    for (bytes, batches) in [(BATCH_BYTES_TARGET - 8, 1), (BATCH_BYTES_TARGET, 2)] {
        let mut log = open(options());
        log.client.send(request_of_bytes(bytes)).expect("the queue accepts it");
        log.client.send(request(0, &[1], START_MS)).expect("the queue accepts it");
        log.writer.run_once();
        log.writer.run_once();
        assert_eq!(log.queue.metrics().batches(), batches, "{bytes} bytes in the first request");
        assert!(log.client.next_completion().is_some() && log.client.next_completion().is_some());
    }
}

#[test]
fn a_segment_is_sealed_at_its_size() {
    let bytes = request(0, &[1], START_MS).byte_len() + HEADER_BYTES + BATCH_HEADER_BYTES;
    for (segment_bytes, segments) in [(bytes - 1, 2), (bytes, 2), (bytes + 1, 1)] {
        let mut log = open(Options { segment_bytes: segment_bytes as u64, ..options() });
        log.record(&[1], START_MS);
        assert_eq!(log.queue.metrics().segments(), segments, "{segment_bytes} bytes");
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
        assert_eq!(log.queue.metrics().segments(), segments, "{records} records");
        assert_eq!(log.stop().durable_seq, records);
    }
}

#[test]
fn unsynced_bytes_have_a_limit() {
    let batch = UNSYNCED_BYTES_MAX / 4 - BATCH_HEADER_BYTES;
    for (bytes, durable) in [(batch - 8, false), (batch, true)] {
        let mut log = open(Options { ack: Ack::Written, ..options() });
        for bytes in [batch, bytes] {
            log.client.send(request_of_bytes(bytes)).expect("the queue accepts it");
            log.writer.run_once();
        }
        let metrics = log.queue.metrics();
        assert_eq!(metrics.durable_seq() == metrics.last_seq(), durable, "{bytes} bytes");
    }
}
