//! A log whose batches a stream determines. It has no clients, and it syncs after batches and not before an acknowledgement:
//! the stream gives unsynced batches again.
//!
//! The thread of another log writer drives it. So its steps never wait, except for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{LogConsumer, LogWriter, Records};

/// A log whose batches a stream determines.
pub struct StreamLog {
    writer: LogWriter,
}

/// The consumer of such a log: it says which records a restart needs.
pub struct NeededRecords(pub Arc<AtomicU64>);

impl LogConsumer for NeededRecords {
    fn consume(&mut self, _records: Records<'_>) {}

    fn checkpointed_seq(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl StreamLog {
    pub fn new(writer: LogWriter) -> Self {
        Self { writer }
    }

    /// Does all timed work that is due, and begins an erasure if one was requested.
    pub fn run_once(&mut self) {
        self.writer.receiver.adopt_thread();
        self.writer.run_once();
    }

    /// Returns the time of a monotonic clock at which the next timed work is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.writer.next_due()
    }

    /// Returns whether a batch can be appended.
    pub fn is_available(&self) -> bool {
        self.writer.segments.is_available()
    }

    /// Returns the first seq that retention has kept.
    pub fn first_seq(&self) -> u64 {
        let segments = &self.writer.segments;
        segments.closed().front().map_or(segments.first_open_seq(), |segment| segment.first_seq)
    }

    /// Returns the last seq. It may be less than the seq of the last batch only after a failure of the disk.
    pub fn last_seq(&self) -> u64 {
        self.writer.segments.next_seq() - 1
    }

    /// Appends encoded records as one batch. Returns whether the log has them. If not, the caller tries again.
    pub fn append(&mut self, encoded_records: &[u8], record_count: u32) -> bool {
        self.writer.append_batch(encoded_records, record_count)
    }

    /// Makes all records durable. Returns whether they are.
    pub fn sync(&mut self) -> bool {
        if !self.writer.segments.is_durable() {
            self.writer.sync();
        }
        self.is_available() && self.writer.segments.is_durable()
    }

    /// Removes the records after a seq: the stream has others in their place. Returns whether they are gone durably.
    pub fn cut_after(&mut self, seq: u64) -> bool {
        self.writer.cut_after(seq)
    }
}
