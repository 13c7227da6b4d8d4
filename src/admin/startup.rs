//! Startup as the admin address sees it: the progress of reading snapshots, checkpoint and log, and the parts
//! that arrive when all is read. Until then the admin address reports the progress and refuses the endpoints
//! that need those parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use serde_json::{Value as Json, json};

use super::DataHandlers;
use super::metrics::ServerMetrics;
use crate::api::Handler;

/// The progress of startup. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartupProgress(Arc<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    is_scanned: AtomicBool,
    /// Entries of the checkpoint.
    entries: ProgressCounter,
    /// Seqs of the log.
    seqs: ProgressCounter,
}

/// A progress counter: done and total.
#[derive(Debug, Default)]
struct ProgressCounter([AtomicU64; 2]);

impl ProgressCounter {
    fn set(&self, done_count: u64, total_count: u64) {
        self.0[0].store(done_count, Ordering::Relaxed);
        self.0[1].store(total_count, Ordering::Relaxed);
    }

    fn to_json(&self) -> Json {
        let [done, total] = [0, 1].map(|index| self.0[index].load(Ordering::Relaxed));
        json!({ "done": done, "of": total })
    }
}

impl StartupProgress {
    /// Records that the snapshots are scanned.
    pub(crate) fn set_scanned(&self) {
        self.0.is_scanned.store(true, Ordering::Relaxed);
    }

    /// Records that `done_count` of `entry_count` entries of the checkpoint are read.
    pub(crate) fn set_visitors(&self, done_count: u64, entry_count: u64) {
        self.0.entries.set(done_count, entry_count);
    }

    /// Records that the log is read up to `seq`. Its last seq is `last_seq`.
    pub(crate) fn set_log(&self, seq: u64, last_seq: u64) {
        self.0.seqs.set(seq, last_seq);
    }

    pub(super) fn is_scanned(&self) -> bool {
        self.0.is_scanned.load(Ordering::Relaxed)
    }

    pub(super) fn to_json(&self) -> Json {
        json!({ "visitors": self.0.entries.to_json(), "log": self.0.seqs.to_json() })
    }
}

/// The parts of the admin service that exist only after snapshots and log are read.
pub(crate) struct DeferredParts {
    /// Creates the handlers, on the thread that uses them.
    pub make: Box<dyn FnOnce() -> (Handler, DataHandlers) + Send>,
    /// More sources for `/metrics`.
    pub metrics: ServerMetrics,
}

/// The state of the admin service during startup.
pub(crate) struct Startup {
    /// The progress that `/readyz` reports.
    pub progress: StartupProgress,
    /// Receives the remaining parts, once.
    pub parts: Receiver<DeferredParts>,
}
