//! The end of serving, as all threads see it: whether it has begun, and how many connections are open still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shared by the threads of a server.
#[derive(Debug, Clone, Default)]
pub struct Stopping(Arc<State>);

#[derive(Debug, Default)]
struct State {
    begun: AtomicBool,
    open: AtomicUsize,
}

impl Stopping {
    /// From now on every answer is its connection's last, and connections without a request are closed.
    pub fn begin(&self) {
        self.0.begun.store(true, Ordering::Relaxed);
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// Connections that are open, those of the operator's address not counted.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Counts a connection for as long as what comes back is held.
    pub(super) fn opened(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }
}

/// A connection that is open.
pub(super) struct Open(Stopping);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
