//! Checkpoints: the table of visitors in files, so that a start does not have to fold the whole log.
//!
//! ```text
//! running: CheckpointScheduler::on_idle --chunks--> CheckpointWriter --sorted runs--> <seq>.checkpoint
//! start:   restore --entries in order--> Table --records after the seq--> the table as before
//! ```
//!
//! The module doc of [`mod@format`] describes the file format.
//!
//! Invariants: the table is exactly `fold(checkpoint, records after it)`, evictions included. No content of
//! a file causes a panic, or an allocation above its limit. Checkpoints never delay the log.

pub(crate) mod directory;
pub(crate) mod format;
pub(crate) mod reader;
pub(crate) mod restore;
pub(crate) mod scheduler;
pub(crate) mod writer;

use std::sync::atomic::{AtomicU64, Ordering};

/// Metrics of checkpoints, shared between threads.
#[derive(Debug, Default)]
pub struct CheckpointMetrics {
    written: AtomicU64,
    failed: AtomicU64,
    aborted: AtomicU64,
    bytes: AtomicU64,
    seq: AtomicU64,
    checkpointed_seq: AtomicU64,
    /// The seq of the last erasure. Older checkpoints must be deleted.
    erased_seq: AtomicU64,
}

impl CheckpointMetrics {
    /// Returns the number of checkpoints written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the number of disk errors while writing or deleting checkpoints.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the number of copies aborted because the table changed too fast.
    pub fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Returns the size of the last checkpoint written, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the seq of the newest checkpoint, or 0.
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }

    /// Returns whether there is a checkpoint, and all of them contain the records up to `seq`.
    pub fn covers(&self, seq: u64) -> bool {
        self.checkpointed_seq() >= seq
    }

    /// Returns the last seq whose records are in all checkpoints, or 0. The log may delete the records up
    /// to it.
    pub fn checkpointed_seq(&self) -> u64 {
        self.checkpointed_seq.load(Ordering::Acquire)
    }
}
