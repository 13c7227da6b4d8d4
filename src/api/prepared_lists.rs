//! Lists of routes that are written and compressed once for each version of a site. All workers share them.
//!
//! After a publication all clients of a site ask for the same few lists, and for a large site each takes milliseconds.
//! A list that a client can choose freely, with a prefix or a limit, is not kept. It would displace the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<u128, Entry>,
    bytes: usize,
    /// The number of uses of all lists. It is the time of the last one.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    list: Arc<PreparedList>,
    used_at: u64,
}

impl PreparedLists {
    /// Creates an empty set of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    /// Returns the list with this key.
    pub fn get(&self, key: u128) -> Option<Arc<PreparedList>> {
        let mut state = self.lock();
        state.uses += 1;
        let uses = state.uses;
        let entry = state.entries.get_mut(&key)?;
        entry.used_at = uses;
        Some(Arc::clone(&entry.list))
    }

    /// Returns whether a prepared list ends where the list with this key begins.
    pub fn continues(&self, key: u128) -> bool {
        self.lock().entries.values().any(|entry| entry.list.next_key == Some(key))
    }

    /// Returns the bytes of all lists. A small list counts [`LIST_BYTES_MIN`].
    pub fn used_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Adds a list, and drops others until all fit.
    pub fn insert(&self, key: u128, list: Arc<PreparedList>) {
        let mut state = self.lock();
        state.uses += 1;
        state.bytes += list.charged_bytes();
        let entry = Entry { list, used_at: state.uses };
        let replaced = state.entries.insert(key, entry);
        state.bytes -= replaced.map_or(0, |entry| entry.list.charged_bytes());
        while state.bytes > self.bytes_max {
            state.drop_oldest();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for PreparedLists {
    fn default() -> Self {
        Self::new(PREPARED_LISTS_BYTES_MAX)
    }
}

impl State {
    fn drop_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| *key);
        let dropped = oldest.and_then(|key| self.entries.remove(&key));
        self.bytes -= dropped.map_or(self.bytes, |entry| entry.list.charged_bytes());
    }
}
