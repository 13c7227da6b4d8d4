//! Which ids count as seen: those of the last 24 hours, at most so many.
//!
//! A ring holds key and time of each accepted record, oldest first, times too; a table of open addressing finds
//! a key's place in it. Both are reserved at once, and the kernel lends their pages as they are first
//! touched: 24 bytes of ring an id, and 4 bytes for each slot of the table, of which at most three in four
//! are taken. The ring goes round all of its pages in time. Nothing is ever copied to grow, so no
//! insertion takes longer than the others.
//!
//! Time is the newest received time that was ever seen, and an id is as old as that was when it came: where
//! the clock ran ahead and was put right, ids count for longer than 24 hours, never for less. A restart, which sees
//! the same records, comes to the same window. What a batch inserts counts only once it is committed.

use std::collections::VecDeque;
use std::hint::black_box;

use crate::limits::{BATCH_RECORDS_MAX, DUPLICATE_WINDOW_MS};

/// The window.
#[derive(Debug)]
pub struct Duplicates {
    ring: VecDeque<Entry>,
    /// The number of the ring's first entry; entries are numbered as they come.
    first: u64,
    /// Entry numbers as [`code`] has them, 0 for none. A power of two.
    table: Vec<u32>,
    /// What is in the ring but not committed.
    pending: usize,
    ids_max: usize,
    seed: u64,
    now_ms: i64,
    evicted_early: u64,
}

/// A key in two halves, for a u128 would be padded to 32 bytes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: [u64; 2],
    /// The newest time when it came.
    seen_ms: i64,
}

impl Duplicates {
    /// Without an id; at most `ids_max` once committed, at least 1. A secret `seed` keeps who chooses ids from
    /// choosing slots.
    pub fn new(ids_max: usize, seed: u64) -> Self {
        let entries = ids_max.max(1) + BATCH_RECORDS_MAX;
        let slots = (entries / 3 * 4 + 4).next_power_of_two();
        Self {
            ring: VecDeque::with_capacity(entries),
            first: 0,
            table: vec![0; slots],
            pending: 0,
            ids_max: ids_max.max(1),
            seed,
            now_ms: i64::MIN,
            evicted_early: 0,
        }
    }

    /// Whether `key` counts as seen. If not, it does from now on, unless it is taken back. Key 0 never does.
    pub fn seen(&mut self, key: u128, received_ms: i64) -> bool {
        self.now_ms = self.now_ms.max(received_ms);
        if key == 0 {
            return false;
        }
        if self.pending == BATCH_RECORDS_MAX {
            self.commit();
        }
        let key = halves(key);
        let slot = self.slot_of(key);
        if self.table[slot] != 0 && self.is_live(&self.entry(self.table[slot])) {
            return true;
        }
        self.table[slot] = code(self.first + self.ring.len() as u64);
        self.ring.push_back(Entry { key, seen_ms: self.now_ms });
        self.pending += 1;
        false
    }

    /// Has the slots of keys that are asked about next read into the cache, all at a time: each is somewhere else in memory, and
    /// is waited for longer, alone, than a record takes otherwise.
    pub fn bring_near(&self, keys: impl Iterator<Item = u128>) {
        black_box(keys.fold(0, |slots, key| slots ^ self.table[self.home(halves(key))]));
    }

    /// What was inserted since the last commit stays; what is too old or too much goes.
    pub fn commit(&mut self) {
        self.pending = 0;
        while let Some(&entry) = self.ring.front() {
            let is_live = self.is_live(&entry);
            if is_live && self.ring.len() <= self.ids_max {
                break;
            }
            self.evicted_early += u64::from(is_live);
            self.forget(entry, self.first);
            self.ring.pop_front();
            self.first += 1;
        }
    }

    /// What was inserted since the last commit was never seen.
    pub fn take_back(&mut self) {
        for _ in 0..std::mem::take(&mut self.pending) {
            if let Some(&entry) = self.ring.back() {
                self.forget(entry, self.first + self.ring.len() as u64 - 1);
                self.ring.pop_back();
            }
        }
    }

    /// How many ids went because of the bound while they were younger than 24 hours.
    pub fn evicted_early(&self) -> u64 {
        self.evicted_early
    }

    fn is_live(&self, entry: &Entry) -> bool {
        entry.seen_ms.saturating_add(DUPLICATE_WINDOW_MS) > self.now_ms
    }

    fn entry(&self, code: u32) -> Entry {
        let place = (u64::from(code) - 1 + CODES - self.first % CODES) % CODES;
        self.ring[place as usize]
    }

    /// The slot that holds `key`, or the free one where it belongs.
    fn slot_of(&self, key: [u64; 2]) -> usize {
        let mut slot = self.home(key);
        while self.table[slot] != 0 && self.entry(self.table[slot]).key != key {
            slot = (slot + 1) & (self.table.len() - 1);
        }
        slot
    }

    fn home(&self, [low, high]: [u64; 2]) -> usize {
        // A product of two secret-dependent factors, its halves folded.
        let product = u128::from(low ^ self.seed) * u128::from(high ^ self.seed.rotate_left(32) | 1);
        (product as u64 ^ (product >> 64) as u64) as usize & (self.table.len() - 1)
    }

    /// Takes `entry`, which has this number, out of the table, unless its key has come anew since.
    fn forget(&mut self, entry: Entry, number: u64) {
        let mut hole = self.slot_of(entry.key);
        if self.table[hole] != code(number) {
            return;
        }
        // What was pushed on over the hole moves back, so that no search ends too early.
        let mask = self.table.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            if self.table[slot] == 0 {
                break;
            }
            let home = self.home(self.entry(self.table[slot]).key);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.table[hole] = self.table[slot];
                hole = slot;
            }
        }
        self.table[hole] = 0;
    }
}

fn halves(key: u128) -> [u64; 2] {
    [key as u64, (key >> 64) as u64]
}

/// Entry numbers fit four bytes by going round; no ring holds as many.
const CODES: u64 = u32::MAX as u64;

fn code(number: u64) -> u32 {
    (number % CODES) as u32 + 1
}
