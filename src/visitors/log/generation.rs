//! The erasure generation: it tells whether records may have been erased since a moment.
//!
//! The generation is odd while an erasure is in progress. A file that is derived from segments gets its name under
//! the lock, and only if the generation is even and has not changed since its segment was read.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The erasure generation of a log.
#[derive(Debug, Default)]
pub struct ErasureGeneration(Mutex<u64>);

impl ErasureGeneration {
    /// Returns the generation now.
    pub fn now(&self) -> u64 {
        *self.lock()
    }

    /// Begins the next generation.
    pub(super) fn advance(&self) {
        *self.lock() += 1;
    }

    /// Runs `install` if the generation still is `generation` and no erasure is in progress. An erasure waits
    /// meanwhile. Returns `None` otherwise.
    pub fn if_unchanged<T>(&self, generation: u64, install: impl FnOnce() -> T) -> Option<T> {
        let now = self.lock();
        (*now == generation && generation.is_multiple_of(2)).then(install)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
