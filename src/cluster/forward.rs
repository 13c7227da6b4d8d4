//! The forwarder: chooses the records of the own log to send.
//!
//! It sends durable records in seq order, a few messages at a time. The engine may lose, delay or reorder
//! them. The filter then skips everything after the gap, and the forwarder goes back to the first record that
//! has not returned. Records that arrive twice have no effect, so going back is safe at any time.

use super::follow::{OwnLog, OwnRecord};
use super::message::{RUN_BYTES_MAX, push_record};
use crate::record::{Record, RecordKind};

/// Messages whose publication the engine has not acknowledged. With 16 the stream carries 20 to 29 MB/s; 8
/// leave half of it to the other nodes. At the limit the forwarder waits.
pub const IN_FLIGHT_MAX: usize = 8;
/// Time without a returned record after which the forwarder goes back, in ms. A message returns within 28 ms (p99). A
/// change of the stream's leader takes 4 to 9 s, and resending meanwhile does no harm.
pub const RETURN_TIMEOUT_MS: i64 = 2_000;

/// The progress of the forwarder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarder {
    /// The last seq that was sent, or an earlier one after going back.
    sent: u64,
    in_flight: usize,
    /// When a record returned, or the first record was sent while none was under way, in ms of a monotonic clock.
    progress_ms: i64,
}

impl Forwarder {
    /// Starts after the last own seq that has returned.
    pub fn new(returned_seq: u64) -> Self {
        Self { sent: returned_seq, in_flight: 0, progress_ms: 0 }
    }

    /// Notes that own records have returned.
    pub fn on_returned(&mut self, returned_seq: u64, now_ms: i64) {
        self.sent = self.sent.max(returned_seq);
        self.progress_ms = now_ms;
    }

    /// Notes that the engine has acknowledged a message. This does not mean that its records have returned:
    /// the filter skips a message after a gap.
    pub fn on_acknowledged(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Notes that a publication failed or timed out.
    pub fn on_failed(&mut self, returned_seq: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.sent = returned_seq;
    }

    /// Notes a message with the records up to `last_seq`.
    pub fn on_sent(&mut self, last_seq: u64, returned_seq: u64, now_ms: i64) {
        if self.sent <= returned_seq {
            self.progress_ms = now_ms;
        }
        self.sent = last_seq;
        self.in_flight += 1;
    }

    /// Returns the first seq of the next message. `None` if nothing is to be sent now. `durable_seq` is the last
    /// durable seq.
    pub fn next(&mut self, durable_seq: u64, returned_seq: u64, now_ms: i64) -> Option<u64> {
        let is_overdue = self.sent > returned_seq && now_ms - self.progress_ms >= RETURN_TIMEOUT_MS;
        if self.sent < returned_seq || is_overdue {
            self.sent = returned_seq;
        }
        (self.in_flight < IN_FLIGHT_MAX && self.sent < durable_seq).then_some(self.sent + 1)
    }
}

/// Replaces `payload` by the records from `first_seq` on, up to `last_seq`, to the size of a run, or to a record that
/// is not loaded. Returns their number. It is 0 only if `first_seq` is not loaded. A damaged record is sent as a
/// void one, so that it does not stop the log.
pub fn fill_run(log: &impl OwnLog, first_seq: u64, last_seq: u64, payload: &mut Vec<u8>) -> u32 {
    payload.clear();
    let mut count = 0;
    for seq in first_seq..=last_seq {
        let before = payload.len();
        let is_written = match log.record(seq) {
            OwnRecord::Encoded(record) => push_record(payload, record),
            OwnRecord::Absent => false,
            OwnRecord::NotLoaded => break,
        };
        if !is_written {
            // A void record without a text is never too long.
            let _ = Record::new(RecordKind::Void).encode(payload);
        }
        if payload.len() > RUN_BYTES_MAX && count > 0 {
            payload.truncate(before);
            break;
        }
        count += 1;
    }
    count
}
