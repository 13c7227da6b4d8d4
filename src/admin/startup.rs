//! A start as the operator sees it: how far snapshots, visitors and log have been read, told by the thread that reads; and what is
//! handed over when all is read. Until then this address says how far it is and answers nothing that needs the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use serde_json::{Value as Json, json};

use super::metrics::Read;
use super::visitors::Visitors;
use crate::api::Desk;

/// How far reading has come; shared.
#[derive(Debug, Clone, Default)]
pub struct Reading(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_scanned: AtomicBool,
    /// Entries of the checkpoint.
    entries: Far,
    /// Seqs of the log.
    seqs: Far,
}

/// So many, of how many.
#[derive(Debug, Default)]
struct Far([AtomicU64; 2]);

impl Far {
    fn tell(&self, done: u64, of: u64) {
        self.0[0].store(done, Ordering::Relaxed);
        self.0[1].store(of, Ordering::Relaxed);
    }

    fn told(&self) -> Json {
        let [done, of] = [0, 1].map(|at| self.0[at].load(Ordering::Relaxed));
        json!({ "done": done, "of": of })
    }
}

impl Reading {
    /// The snapshots have been looked at.
    pub fn scanned(&self) {
        self.0.is_scanned.store(true, Ordering::Relaxed);
    }

    /// So many entries of the checkpoint were read, of how many.
    pub fn visitors(&self, done: u64, of: u64) {
        self.0.entries.tell(done, of);
    }

    /// The log was read up to this seq; `of` is its last.
    pub fn log(&self, seq: u64, of: u64) {
        self.0.seqs.tell(seq, of);
    }

    pub(super) fn is_scanned(&self) -> bool {
        self.0.is_scanned.load(Ordering::Relaxed)
    }

    pub(super) fn told(&self) -> Json {
        json!({ "visitors": self.0.entries.told(), "log": self.0.seqs.told() })
    }
}

/// What there is once all is read.
pub struct Parts {
    /// Made on the thread that uses them.
    pub make: Box<dyn FnOnce() -> (Desk, Visitors) + Send>,
    /// More to tell in `/metrics`.
    pub read: Read,
}

/// What a start has come to so far.
pub struct Starting {
    /// How far it is.
    pub reading: Reading,
    /// The parts come here, once.
    pub parts: Receiver<Parts>,
}
