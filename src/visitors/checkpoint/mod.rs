//! The table of visitors in files, so that a start need not fold the whole log.
//!
//! ```text
//! writer: Making::between --slices--> Scribe, on the checkpointer's thread --sorted runs--> <seq>.checkpoint
//! start:  restore --entries in order--> Table --records behind the seq--> as before
//! ```
//!
//! The format is [`mod@format`]'s module doc.
//!
//! What always holds: the table is `fold(checkpoint, records after it)`, exactly, evictions included; whatever the bytes of a file
//! are, nothing panics and nothing is allocated that a bound does not allow; nothing here holds the log up.
pub mod directory;
pub mod format;
pub mod reader;
pub mod restore;
pub mod scheduler;
pub mod writer;

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of checkpoints, for whoever shows it.
#[derive(Debug, Default)]
pub struct Figures {
    made: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    bytes: AtomicU64,
    seq: AtomicU64,
    covered: AtomicU64,
    /// The seq of the last erasure: what is older than it is to go.
    erased: AtomicU64,
}

impl Figures {
    /// Checkpoints that were made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Times that the disk failed them.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Copies that were given up, for the table changed faster.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Bytes of the last file that was made.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The seq of the newest.
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }

    /// Whether every kept checkpoint is of this seq or a later one, and there is one.
    pub fn are_behind(&self, seq: u64) -> bool {
        self.covered() >= seq
    }

    /// All kept checkpoints hold the records up to this seq: the log may let them go.
    pub fn covered(&self) -> u64 {
        self.covered.load(Ordering::Acquire)
    }
}
