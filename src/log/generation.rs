//! The erasure generation: it tells whether records may have been erased since a moment.
//!
//! The generation is odd while an erasure is in progress. A file that is derived from segments gets its name under
//! the lock, and only if the generation is even and has not changed since its segment was read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The erasure generation of a log.
#[derive(Debug, Default)]
pub struct ErasureGeneration {
    now: AtomicU64,
    /// Held while the generation changes, and while a file gets its name.
    lock: Mutex<()>,
}

impl ErasureGeneration {
    /// Returns the generation now. It never waits for a file that gets its name.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Begins the next generation.
    pub(super) fn advance(&self) {
        let _lock = self.lock();
        self.now.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs `install` if the generation still is `generation` and no erasure is in progress. An erasure waits
    /// meanwhile. Returns `None` otherwise.
    pub fn if_unchanged<T>(&self, generation: u64, install: impl FnOnce() -> T) -> Option<T> {
        let _lock = self.lock();
        (self.now() == generation && generation.is_multiple_of(2)).then(install)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
