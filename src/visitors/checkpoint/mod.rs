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

pub mod directory;
pub mod format;
mod load;
pub mod reader;
pub mod restore;
pub mod scheduler;
pub(crate) mod sections;
pub mod writer;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::readings;

/// Metrics of checkpoints, shared between threads.
#[derive(Debug, Default)]
pub struct CheckpointMetrics {
    written: AtomicU64,
    failed: AtomicU64,
    aborted: AtomicU64,
    bytes: AtomicU64,
    seq: AtomicU64,
    checkpointed_seq: AtomicU64,
    /// The number of checkpoints that erasures have requested, of those that exist, and of the last request
    /// for a checkpoint that replaces all others.
    requested: AtomicU64,
    fulfilled: AtomicU64,
    replacing: AtomicU64,
}

/// A request for a checkpoint that begins after the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointRequest(u64);

impl CheckpointMetrics {
    readings! {
        /// Returns the number of checkpoints written.
        written,
        /// Returns the number of disk errors while writing or deleting checkpoints.
        failed,
        /// Returns the number of copies aborted because the table changed too fast.
        aborted,
        /// Returns the size of the last checkpoint written, in bytes.
        bytes,
        /// Returns the seq of the newest checkpoint, or 0.
        seq,
    }

    /// Requests a checkpoint. The log writer begins it in its next step.
    pub fn request(&self) -> CheckpointRequest {
        CheckpointRequest(self.requested.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Requests a checkpoint that replaces all others, because they contain an erased visitor.
    pub fn request_replacement(&self) -> CheckpointRequest {
        self.replacing.store(self.requested.load(Ordering::Acquire) + 1, Ordering::Release);
        self.request()
    }

    /// Returns whether the requested checkpoint is complete.
    pub fn is_fulfilled(&self, request: CheckpointRequest) -> bool {
        self.fulfilled.load(Ordering::Acquire) >= request.0
    }

    fn has_request(&self) -> bool {
        self.requested.load(Ordering::Acquire) > self.fulfilled.load(Ordering::Acquire)
    }

    fn must_replace_all(&self) -> bool {
        self.replacing.load(Ordering::Acquire) > self.fulfilled.load(Ordering::Acquire)
    }

    /// Returns the last seq whose records are in all checkpoints, or 0. The log may delete the records up
    /// to it.
    pub fn checkpointed_seq(&self) -> u64 {
        self.checkpointed_seq.load(Ordering::Acquire)
    }
}
