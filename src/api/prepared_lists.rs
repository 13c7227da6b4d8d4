//! Lists of routes that are written and compressed once for each version of a site. All workers share them.
//!
//! After a publication all clients of a site request the same few lists, and for a large site each takes milliseconds. A
//! request that finds its list takes no lock. A list that a client can choose freely, with a prefix or a limit, is not kept.
//! It would displace the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::limits::memory_sum::PREPARED_LISTS_BYTES_MAX;

/// Bytes that a list counts at least, so that lists without changes have a limit too: 8,192 of them.
pub const LIST_BYTES_MIN: usize = 4 * 1024;

/// The body of a response of `/v1/routes`.
#[derive(Debug)]
pub struct PreparedList {
    pub text: Box<[u8]>,
    /// The text in gzip coding. Empty if the text is too small for it.
    pub gzip: Box<[u8]>,
    /// The key of the list that begins after this one.
    pub next_key: Option<u128>,
}

impl PreparedList {
    fn charged_bytes(&self) -> usize {
        (self.text.len() + self.gzip.len()).max(LIST_BYTES_MIN)
    }
}

/// The prepared lists of all sites, up to a number of bytes. Beyond it the list that was not used for longest is dropped,
/// such as one of an old version.
#[derive(Debug)]
pub struct PreparedLists {
    bytes_max: usize,
    entries: ArcSwap<Entries>,
    /// Taken to add a list.
    adding: Mutex<()>,
    /// The number of uses of all lists. It is the time of the last one.
    uses: AtomicU64,
}

#[derive(Debug, Default, Clone)]
struct Entries {
    by_key: HashMap<u128, Arc<Entry>>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    list: Arc<PreparedList>,
    used_at: AtomicU64,
}

impl PreparedLists {
    /// Creates an empty set of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, entries: ArcSwap::default(), adding: Mutex::default(), uses: AtomicU64::new(0) }
    }

    /// Returns the list with this key.
    pub fn get(&self, key: u128) -> Option<Arc<PreparedList>> {
        let entries = self.entries.load();
        let entry = entries.by_key.get(&key)?;
        entry.used_at.store(self.next_use(), Ordering::Relaxed);
        Some(Arc::clone(&entry.list))
    }

    /// Returns whether a prepared list ends where the list with this key begins.
    pub fn continues(&self, key: u128) -> bool {
        self.entries.load().by_key.values().any(|entry| entry.list.next_key == Some(key))
    }

    /// Returns the bytes of all lists. A small list counts [`LIST_BYTES_MIN`].
    pub fn used_bytes(&self) -> usize {
        self.entries.load().bytes
    }

    /// Adds a list, and drops others until all fit.
    pub fn insert(&self, key: u128, list: Arc<PreparedList>) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = Entries::clone(&self.entries.load());
        entries.bytes += list.charged_bytes();
        let entry = Arc::new(Entry { list, used_at: AtomicU64::new(self.next_use()) });
        let replaced = entries.by_key.insert(key, entry);
        entries.bytes -= replaced.map_or(0, |entry| entry.list.charged_bytes());
        while entries.bytes > self.bytes_max {
            entries.drop_oldest();
        }
        self.entries.store(Arc::new(entries));
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Default for PreparedLists {
    fn default() -> Self {
        Self::new(PREPARED_LISTS_BYTES_MAX)
    }
}

impl Entries {
    fn drop_oldest(&mut self) {
        let used_at = |entry: &Entry| entry.used_at.load(Ordering::Relaxed);
        let oldest = self.by_key.iter().min_by_key(|(_, entry)| used_at(entry)).map(|(key, _)| *key);
        let dropped = oldest.and_then(|key| self.by_key.remove(&key));
        self.bytes -= dropped.map_or(self.bytes, |entry| entry.list.charged_bytes());
    }
}
