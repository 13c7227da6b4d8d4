//! Where profiles stand: bytes by key, with the order in which they may go.
//!
//! What holds: each key stands once; what it costs follows from its contents only, never from an allocator; of two entries of a
//! rank the one that was put longer ago goes first.

use std::collections::{BTreeMap, HashMap};

/// What an entry costs beside its value.
pub const ENTRY_COST: u64 = 96;

/// Whose entry it is: 128 bits of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub [u64; 2]);

/// What goes first where there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Never by itself.
    Alias,
    /// Before all others.
    Once,
    /// After those.
    Known,
}

#[derive(Debug)]
struct Entry {
    value: Vec<u8>,
    rank: Rank,
    order: u64,
}

/// The visitors' table.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashMap<Key, Entry>,
    order: BTreeMap<(Rank, u64), Key>,
    puts: u64,
    cost: u64,
}

impl Table {
    /// What stands there.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        self.entries.get(&key).map(|entry| &*entry.value)
    }

    /// Puts it there, at the newest end of its rank.
    pub fn put(&mut self, key: Key, value: &[u8], rank: Rank) {
        self.remove(key);
        self.puts += 1;
        self.cost += cost(value);
        self.order.insert((rank, self.puts), key);
        self.entries.insert(key, Entry { value: value.to_owned(), rank, order: self.puts });
    }

    /// Takes it away.
    pub fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.cost -= cost(&entry.value);
            self.order.remove(&(entry.rank, entry.order));
        }
    }

    /// The oldest of `Once`, else the oldest of `Known`.
    pub fn first_to_go(&self) -> Option<(Key, &[u8])> {
        let (_, key) = self.order.range((Rank::Once, 0)..).next()?;
        Some((*key, self.get(*key)?))
    }

    /// What all entries cost.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

fn cost(value: &[u8]) -> u64 {
    ENTRY_COST + value.len() as u64
}
