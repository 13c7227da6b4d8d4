//! When something that readers may still look at can be freed (epoch-based reclamation, after Fraser 2004), without a lock or a
//! loop on the readers' side.
//!
//! A count is raised by the writer alone. A reader announces, in a cache line of its own, what the count was when it began to look,
//! and 0 when it has ended. What the writer has taken out of reach is stamped with the count and kept; when the count has been
//! raised since, and no reader announces a count as small as the stamp, nobody can have found it who is still looking.
//!
//! It always holds that a reader which announces `c` sees everything that the writer did before it raised the count to `c`, and
//! that a reader whose announcement the writer's look missed sees everything that the writer did before that look: between
//! announcing and reading, and between unlinking and looking, each side has a sequentially consistent fence.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a reader announces: the count when it began to look, 0 where it does not. Two cache lines: they are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Announced(AtomicU64);

/// The count, and who looks.
#[derive(Debug)]
pub struct Epochs {
    now: AtomicU64,
    readers: Mutex<Vec<Arc<Announced>>>,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { now: AtomicU64::new(1), readers: Mutex::default() }
    }
}

impl Epochs {
    /// Raises the count to `now` and tells the smallest one that is announced; the largest number where nobody looks.
    fn raise(&self, now: u64) -> u64 {
        self.now.store(now, Ordering::Release);
        fence(Ordering::SeqCst);
        let announced = |reader: &Arc<Announced>| reader.0.load(Ordering::Acquire);
        self.lock().iter().map(announced).filter(|&count| count != 0).min().unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Announced>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one reader announces; given up when it goes.
#[derive(Debug)]
pub struct Place {
    epochs: Arc<Epochs>,
    announced: Arc<Announced>,
}

impl Place {
    /// One more.
    pub fn new(epochs: &Arc<Epochs>) -> Self {
        let announced = Arc::<Announced>::default();
        epochs.lock().push(announced.clone());
        Self { epochs: epochs.clone(), announced }
    }

    /// What the reader finds from here on stays until the pin is dropped.
    pub fn pin(&mut self) -> Pin<'_> {
        self.announced.0.store(self.epochs.now.load(Ordering::Acquire), Ordering::Release);
        fence(Ordering::SeqCst);
        Pin(&self.announced)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.epochs.lock().retain(|other| !Arc::ptr_eq(other, &self.announced));
    }
}

/// A reader that looks.
#[derive(Debug)]
pub struct Pin<'r>(&'r Announced);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

/// What is out of reach and not freed yet, oldest first.
#[derive(Debug)]
pub struct Retired<T> {
    now: u64,
    waiting: VecDeque<(u64, usize, T)>,
    /// Bytes of what waits.
    bytes: usize,
    /// Bytes that came since readers were last looked at.
    fresh_bytes: usize,
}

impl<T> Retired<T> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { now: 1, waiting: VecDeque::new(), bytes: 0, fresh_bytes: 0 }
    }

    /// Takes what the writer has just put out of reach.
    pub fn push(&mut self, thing: T, bytes: usize) {
        self.waiting.push_back((self.now, bytes, thing));
        self.bytes += bytes;
        self.fresh_bytes += bytes;
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that came since the last [`Retired::reclaim`].
    pub fn fresh_bytes(&self) -> usize {
        self.fresh_bytes
    }

    /// Hands out what nobody can be looking at any more.
    pub fn reclaim(&mut self, epochs: &Epochs, mut free: impl FnMut(T)) {
        self.now += 1;
        let oldest = epochs.raise(self.now);
        let count = self.waiting.partition_point(|(stamp, ..)| *stamp < oldest);
        for (_, bytes, thing) in self.waiting.drain(..count) {
            self.bytes -= bytes;
            free(thing);
        }
        self.fresh_bytes = 0;
    }

    /// Everything, whoever looks.
    pub fn into_all(self) -> impl Iterator<Item = T> {
        self.waiting.into_iter().map(|(.., thing)| thing)
    }
}
