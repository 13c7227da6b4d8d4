//! What the log counts about itself. Plain counters, read by whoever shows them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// One log's figures. Since the start, unless it says *now*.
#[derive(Debug, Default)]
pub struct Figures {
    pub(super) queued_requests: AtomicUsize,
    pub(super) queued_bytes: AtomicUsize,
    pub(super) available: AtomicBool,
    pub(super) closed: AtomicBool,
    pub(super) erasing: AtomicBool,
    pub(super) batches: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) evicted_early: AtomicU64,
    pub(super) segments: AtomicU64,
    pub(super) write_failures: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) last_seq: AtomicU64,
    pub(super) durable_seq: AtomicU64,
    pub(super) damaged: AtomicU64,
}

impl Figures {
    /// Requests in the queue now.
    pub fn queued_requests(&self) -> usize {
        self.queued_requests.load(Ordering::Relaxed)
    }

    /// Bytes in the queue now.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Whether the disk takes events now.
    pub fn is_available(&self) -> bool {
        self.available.load(Ordering::Relaxed)
    }

    /// Whether a visitor is being erased now.
    pub fn is_erasing(&self) -> bool {
        self.erasing.load(Ordering::Relaxed)
    }

    /// Batches that were kept.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Records that were accepted.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Bytes of batches that were kept.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Places of the log that were found damaged when it was opened.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Records that were duplicates.
    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::Relaxed)
    }

    /// Ids that the bound, not their age, made count as never seen.
    pub fn evicted_early(&self) -> u64 {
        self.evicted_early.load(Ordering::Relaxed)
    }

    /// Segments in the folder now, the active one included.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Appends, syncs and beginnings of segments that failed.
    pub fn write_failures(&self) -> u64 {
        self.write_failures.load(Ordering::Relaxed)
    }

    /// Requests that failed because of the disk.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The last seq given, now.
    pub fn last_seq(&self) -> u64 {
        self.last_seq.load(Ordering::Relaxed)
    }

    /// The last seq that survives a power cut, now.
    pub fn durable_seq(&self) -> u64 {
        self.durable_seq.load(Ordering::Acquire)
    }
}
