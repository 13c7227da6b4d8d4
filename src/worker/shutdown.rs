//! Whether the server serves, as all threads see it: from when on, until when, and how many connections are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shared by the threads of a server.
#[derive(Debug, Clone, Default)]
pub struct Stopping(Arc<State>);

#[derive(Debug, Default)]
struct State {
    serves: AtomicBool,
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

    /// From now on the public addresses listen.
    pub fn serve(&self) {
        self.0.serves.store(true, Ordering::Relaxed);
    }

    /// Whether the public addresses listen and go on listening.
    pub fn serves(&self) -> bool {
        self.0.serves.load(Ordering::Relaxed) && !self.has_begun()
    }

    /// Counts a connection for as long as what comes back is held; None where `max` are open.
    pub(super) fn opened(&self, max: usize) -> Option<Open> {
        let others = self.0.open.fetch_add(1, Ordering::Relaxed);
        let open = Open(self.clone());
        (others < max).then_some(open)
    }
}

/// A connection that is open.
pub(super) struct Open(Stopping);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
