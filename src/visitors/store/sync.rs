//! The types that threads share, from the standard library or from loom.
//!
//! Under `--cfg loom` they are the types of loom, which runs a test in every order of their operations, within a
//! bound. In all other builds this file adds nothing: [`AccessTracker`] is empty.

use std::sync::PoisonError;

#[cfg(loom)]
pub(super) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
loom::lazy_static! {
    static ref FENCES: AtomicU64 = AtomicU64::new(0);
}

/// Counts the fence and runs it. Loom switches threads only at accesses to an object that both threads use. The
/// counter is such an object, so loom runs the fences of two threads in both orders.
#[cfg(loom)]
pub(super) fn fence(ordering: Ordering) {
    FENCES.fetch_add(1, Ordering::Relaxed);
    loom::sync::atomic::fence(ordering);
}

/// Locks a list, also after a panic of another thread: every change of a list is complete.
pub(super) fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tracks that index words are freed.
#[cfg(loom)]
pub(super) fn track_free(words: &mut [AtomicU64]) {
    words.iter_mut().for_each(|word| word.with_mut(|_| ()));
}
#[cfg(not(loom))]
pub(super) fn track_free(_: &mut [AtomicU64]) {}

/// A tracker of accesses to memory that is not atomic. Loom reports a read and a write if neither happens before
/// the other.
#[derive(Debug)]
pub(super) struct AccessTracker(#[cfg(loom)] loom::cell::UnsafeCell<()>);

impl AccessTracker {
    /// Creates a tracker. Its creation counts as a write.
    pub(super) fn new() -> Self {
        Self(
            #[cfg(loom)]
            loom::cell::UnsafeCell::new(()),
        )
    }

    /// Tracks a read.
    pub(super) fn read(&self) {
        #[cfg(loom)]
        self.0.with(|_| ());
    }

    /// Tracks a write. Freeing memory is a write.
    pub(super) fn write(&self) {
        #[cfg(loom)]
        self.0.with_mut(|_| ());
    }
}
