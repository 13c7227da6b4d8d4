//! Metrics of the log: counters and gauges that other modules export.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::generation::ErasureGeneration;
use crate::metrics::readings;
#[cfg(feature = "server")]
use crate::storage::damage::KnownDamage;

/// The metrics of one log. Counters begin at the start of the process. Docs of gauges say *now*.
#[derive(Debug, Default)]
pub struct LogMetrics {
    pub(super) queued_requests: AtomicUsize,
    pub(super) queued_bytes: AtomicUsize,
    pub(super) available: AtomicBool,
    pub(super) recording: AtomicBool,
    pub(super) closed: AtomicBool,
    pub(super) erasing: AtomicBool,
    pub(super) batches: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) evicted_early: AtomicU64,
    pub(super) segments: AtomicU64,
    pub(super) segment_bytes: AtomicU64,
    pub(super) deleted_segments: AtomicU64,
    pub(super) write_errors: AtomicU64,
    pub(super) rejected_requests: AtomicU64,
    pub(super) last_seq: AtomicU64,
    pub(super) durable_seq: AtomicU64,
    #[cfg(feature = "server")]
    pub(super) damage: KnownDamage,
    pub(super) generation: ErasureGeneration,
}

impl LogMetrics {
    /// Returns the requests in the queue now.
    pub fn queued_requests(&self) -> usize {
        self.queued_requests.load(Ordering::Relaxed)
    }

    /// Returns the bytes in the queue now.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the disk accepts events now.
    pub fn is_available(&self) -> bool {
        self.available.load(Ordering::Relaxed)
    }

    /// Sets whether the disk accepts events. If not, the queue accepts no requests.
    pub fn set_available(&self, is_available: bool) {
        self.available.store(is_available, Ordering::Relaxed);
    }

    /// Returns whether events can be recorded now. After a failure it becomes true again when no disk operation
    /// has failed for a second.
    pub fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// Returns whether an erasure is in progress now.
    pub fn is_erasing(&self) -> bool {
        self.erasing.load(Ordering::Relaxed)
    }

    /// Returns the erasure generation.
    pub fn generation(&self) -> &ErasureGeneration {
        &self.generation
    }

    readings! {
        /// Returns the batches that were persisted.
        batches,
        /// Returns the records that were accepted.
        records,
        /// Returns the bytes of the persisted batches.
        bytes,
        /// Returns the records that were duplicates.
        duplicates,
        /// Returns the IDs that the dedup window evicted because it was full, before they were 24 hours old.
        evicted_early,
        /// Returns the segments in the directory now, including the active one.
        segments,
        /// Returns the bytes of these segments now.
        segment_bytes,
        /// Returns the segments that retention has deleted.
        deleted_segments,
        /// Returns the failed I/O operations of the writer: appends, syncs, seals, new segments, deletions,
        /// erasures.
        write_errors,
        /// Returns the requests that failed because of the disk.
        rejected_requests,
        /// Returns the last assigned seq, now.
        last_seq,
    }

    /// Returns the known damaged places of the data directory. All readers report theirs there.
    #[cfg(feature = "server")]
    pub fn damage(&self) -> &KnownDamage {
        &self.damage
    }

    /// Returns the last seq that survives a power cut, now.
    pub fn durable_seq(&self) -> u64 {
        self.durable_seq.load(Ordering::Acquire)
    }
}
