//! Epoch-based reclamation (after Fraser 2004): frees memory once no reader can access it. Readers take no
//! lock and do not loop.
//!
//! Only the writer advances the epoch, a counter. A reader announces the current epoch when it begins to
//! read, in a cache line of its own, and 0 when it ends. The writer stamps each item that it unlinks with the
//! current epoch and keeps it. The item can be freed once the epoch has advanced and no reader announces an
//! epoch as small as the stamp, because no reader that found the item is still reading.
//!
//! Invariants: a reader that announces `c` sees everything that the writer did before it advanced the epoch
//! to `c`. A reader whose announcement the writer's scan missed sees everything that the writer did before
//! that scan. For this, the reader has a sequentially consistent fence between announcing and reading, and
//! the writer has one between unlinking and scanning.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// Bytes that the table of visitors replaces between two checks of its readers. A check frees the bytes that
/// no reader can see. A check takes a microsecond, freeing this much a tenth of a millisecond. At most twice
/// this much waits to be freed, plus the bytes that are replaced while one request is answered.
/// In the models a check follows every change.
pub const RETIRED_BYTES: usize = if cfg!(any(loom, miri)) { 0 } else { 256 << 10 };

/// The epoch that a reader announced when it began to read, or 0 if it is not reading. Takes two
/// cache lines, because the CPU fetches them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct AnnouncedEpoch(AtomicU64);

/// The current epoch and all readers.
#[derive(Debug)]
pub(super) struct EpochRegistry {
    current: AtomicU64,
    readers: Mutex<Vec<Arc<AnnouncedEpoch>>>,
}

impl Default for EpochRegistry {
    fn default() -> Self {
        Self { current: AtomicU64::new(1), readers: Mutex::default() }
    }
}

impl EpochRegistry {
    /// Advances the epoch to `epoch`. Returns the smallest announced epoch, or `u64::MAX` if no reader is
    /// reading.
    fn advance(&self, epoch: u64) -> u64 {
        self.current.store(epoch, Ordering::Release);
        fence(Ordering::SeqCst);
        let announced = |reader: &Arc<AnnouncedEpoch>| reader.0.load(Ordering::Acquire);
        self.lock().iter().map(announced).filter(|&count| count != 0).min().unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<AnnouncedEpoch>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered reader. Dropping it removes the registration.
#[derive(Debug)]
pub(super) struct EpochReader {
    epochs: Arc<EpochRegistry>,
    announced: Arc<AnnouncedEpoch>,
}

impl EpochReader {
    /// Registers a reader.
    pub(super) fn new(registry: &Arc<EpochRegistry>) -> Self {
        let announced = Arc::<AnnouncedEpoch>::default();
        registry.lock().push(announced.clone());
        Self { epochs: registry.clone(), announced }
    }

    /// Pins the current epoch. Nothing that the reader finds is freed until the guard is dropped.
    pub(super) fn pin(&mut self) -> EpochGuard<'_> {
        self.announced.0.store(self.epochs.current.load(Ordering::Acquire), Ordering::Release);
        fence(Ordering::SeqCst);
        EpochGuard(&self.announced)
    }
}

impl Drop for EpochReader {
    fn drop(&mut self) {
        self.epochs.lock().retain(|other| !Arc::ptr_eq(other, &self.announced));
    }
}

/// A guard of a reader that is reading.
#[derive(Debug)]
pub(super) struct EpochGuard<'r>(&'r AnnouncedEpoch);

impl Drop for EpochGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

/// A queue of items that are unlinked but not freed yet, oldest first.
#[derive(Debug)]
pub(super) struct RetiredList<T> {
    epoch: u64,
    items: VecDeque<(u64, usize, T)>,
    /// Bytes of all items in the queue.
    bytes: usize,
    /// Bytes added since the last scan of the readers.
    fresh_bytes: usize,
}

impl<T> RetiredList<T> {
    /// Creates an empty queue.
    pub(super) fn new() -> Self {
        Self { epoch: 1, items: VecDeque::new(), bytes: 0, fresh_bytes: 0 }
    }

    /// Adds an item that the writer has just unlinked.
    pub(super) fn push(&mut self, item: T, bytes: usize) {
        self.items.push_back((self.epoch, bytes, item));
        self.bytes += bytes;
        self.fresh_bytes += bytes;
    }

    /// Returns the bytes of all items in the queue.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes added since the last [`RetiredList::reclaim`].
    pub(super) fn fresh_bytes(&self) -> usize {
        self.fresh_bytes
    }

    /// Advances the epoch, scans the readers, and passes every item that no reader can access to `free`.
    pub(super) fn reclaim(&mut self, registry: &EpochRegistry, mut free: impl FnMut(T)) {
        self.epoch += 1;
        let oldest = registry.advance(self.epoch);
        let count = self.items.partition_point(|(stamp, ..)| *stamp < oldest);
        for (_, bytes, item) in self.items.drain(..count) {
            self.bytes -= bytes;
            free(item);
        }
        self.fresh_bytes = 0;
    }

    /// Returns all items, including those that readers may still access.
    pub(super) fn into_items(self) -> impl Iterator<Item = T> {
        self.items.into_iter().map(|(.., item)| item)
    }
}
