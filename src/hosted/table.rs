//! The table of visitors: a hash map, with the eviction lists of the server. So it evicts the same visitors in the same order.

use std::collections::HashMap;

use super::entry::cost;
pub use super::entry::{ENTRY_COST, TABLE_ENTRY_BYTES_MAX};
use super::eviction::EvictionLists;
pub use super::key::{EvictionClass, Key};

/// The table. It has one owner, which writes and reads.
#[derive(Debug)]
pub struct Table {
    entries: HashMap<Key, Entry>,
    eviction: EvictionLists<Key>,
    cost: u64,
}

/// The value of an entry, and the number of its node in the eviction lists.
#[derive(Debug)]
struct Entry {
    value: Vec<u8>,
    node: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self { entries: HashMap::new(), eviction: EvictionLists::new(), cost: 0 }
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        self.entries.get(&key).map(|entry| entry.value.as_slice())
    }

    /// Inserts or replaces an entry, and moves it to the newest end of its eviction class.
    pub fn put(&mut self, key: Key, value: &[u8], class: EvictionClass) {
        let Self { entries, eviction, cost: total } = self;
        *total += cost(value.len());
        let entry = entries
            .entry(key)
            .and_modify(|entry| *total -= cost(entry.value.len()))
            .or_insert_with(|| Entry { value: Vec::new(), node: eviction.allocate() });
        entry.value.clear();
        entry.value.extend_from_slice(value);
        eviction.put(entry.node, key, class);
    }

    /// Removes the entry of `key`.
    pub fn remove(&mut self, key: Key) {
        if let Some(Entry { value, node }) = self.entries.remove(&key) {
            self.eviction.remove(node);
            self.cost -= cost(value.len());
        }
    }

    /// Returns the entry to evict next: the oldest single-visit visitor, or else the oldest returning visitor.
    pub fn next_victim(&self) -> Option<(Key, &[u8])> {
        let of_class = |class| self.eviction.oldest(class);
        let oldest = of_class(EvictionClass::SingleVisit).or_else(|| of_class(EvictionClass::Returning))?;
        Some((oldest.item, self.get(oldest.item)?))
    }

    /// Returns the cost of all entries, as in the server.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
