//! The dedup window: the message IDs of the last 24 hours, up to a maximum number.
//!
//! A ring holds the key and the time of each accepted record, oldest first. A hash table with open addressing
//! finds a key's entry in the ring. Both are allocated at once, and the kernel provides their pages when they
//! are first touched: 24 bytes of ring per ID, and 4 bytes for each slot of the table, of which at most three
//! in four are used. Over time the ring touches all of its pages. Nothing is ever copied to grow, so no
//! insertion takes longer than the others.
//!
//! The window counts the age of an ID by the log clock, which no jump of the wall clock moves far. A restart
//! reads the keys from the log, and keeps each at least as long as the window did before. The insertions of a
//! batch can be rolled back until they are committed.

use std::collections::VecDeque;
use std::hint::black_box;

use crate::limits::{BATCH_RECORDS_MAX, DEDUP_WINDOW_MS};

/// The set of recent dedup keys.
#[derive(Debug)]
pub struct DedupWindow {
    ring: VecDeque<Entry>,
    /// The number of the ring's first entry. Entries are numbered in the order of insertion.
    first_number: u64,
    /// Entry numbers as [`entry_code`] encodes them. 0 is a free slot. The length is a power of two.
    table: Vec<u32>,
    /// Entries at the end of the ring that are not committed.
    pending: usize,
    capacity: usize,
    seed: u64,
    now_ms: i64,
    evicted_early: u64,
}

/// An entry of the ring. The key is stored as two halves, because a u128 would pad the entry to 32 bytes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: [u64; 2],
    /// The value of the window's clock at the insertion.
    seen_ms: i64,
}

impl DedupWindow {
    /// Creates an empty window for `ids_max` committed IDs, at least 1. A secret `seed` prevents clients from
    /// choosing IDs that collide in the table.
    pub fn new(ids_max: usize, seed: u64) -> Self {
        let (entries, slots) = Self::sizes(ids_max);
        Self {
            ring: VecDeque::with_capacity(entries),
            first_number: 0,
            table: vec![0; slots],
            pending: 0,
            capacity: ids_max.max(1),
            seed,
            now_ms: i64::MIN,
            evicted_early: 0,
        }
    }

    /// Returns the memory of a window for `ids_max` IDs, in bytes.
    pub fn memory_bytes(ids_max: usize) -> u64 {
        let (entries, slots) = Self::sizes(ids_max);
        (entries * size_of::<Entry>() + slots * size_of::<u32>()) as u64
    }

    /// Returns the number of entries in the ring, and of slots in the table.
    fn sizes(ids_max: usize) -> (usize, usize) {
        let entries = ids_max.max(1) + BATCH_RECORDS_MAX;
        (entries, (entries / 3 * 4 + 4).next_power_of_two())
    }

    /// Returns whether `key` is in the window at `now_ms` of the log clock. If not, inserts it;
    /// [`rollback`](Self::rollback) removes it again. Key 0 is never in the window.
    pub fn check_and_insert(&mut self, key: u128, now_ms: i64) -> bool {
        self.now_ms = self.now_ms.max(now_ms);
        if key == 0 {
            return false;
        }
        if self.pending == BATCH_RECORDS_MAX {
            self.commit();
        }
        let key = halves(key);
        let slot = self.find_slot(key);
        if self.table[slot] != 0 && self.is_live(&self.entry(self.table[slot])) {
            return true;
        }
        self.table[slot] = entry_code(self.first_number + self.ring.len() as u64);
        self.ring.push_back(Entry { key, seen_ms: self.now_ms });
        self.pending += 1;
        false
    }

    /// Loads the table slots of the next keys into the CPU cache, all in parallel. Each slot is a separate
    /// cache miss. Waiting for a single miss takes longer than the rest of the work for a record.
    pub fn prefetch(&self, keys: impl Iterator<Item = u128>) {
        black_box(keys.fold(0, |slots, key| slots ^ self.table[self.home_slot(halves(key))]));
    }

    /// Commits the insertions since the last commit, and evicts entries that are too old or exceed the
    /// capacity.
    pub fn commit(&mut self) {
        self.pending = 0;
        while let Some(&entry) = self.ring.front() {
            let is_live = self.is_live(&entry);
            if is_live && self.ring.len() <= self.capacity {
                break;
            }
            self.evicted_early += u64::from(is_live);
            self.remove_from_table(entry, self.first_number);
            self.ring.pop_front();
            self.first_number += 1;
        }
    }

    /// Removes the insertions since the last commit.
    pub fn rollback(&mut self) {
        for _ in 0..std::mem::take(&mut self.pending) {
            if let Some(&entry) = self.ring.back() {
                self.remove_from_table(entry, self.first_number + self.ring.len() as u64 - 1);
                self.ring.pop_back();
            }
        }
    }

    /// Iterates over the keys and the times at which the window saw them, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (u128, i64)> {
        self.ring
            .iter()
            .map(|entry| (u128::from(entry.key[1]) << 64 | u128::from(entry.key[0]), entry.seen_ms))
    }

    /// Returns the number of IDs that were evicted because of the capacity before they were 24 hours old.
    pub fn evicted_early(&self) -> u64 {
        self.evicted_early
    }

    /// Returns the time up to which no key is in the window any more, in milliseconds of the log clock.
    pub(super) fn live_after_ms(&self) -> i64 {
        self.now_ms.saturating_sub(DEDUP_WINDOW_MS)
    }

    fn is_live(&self, entry: &Entry) -> bool {
        entry.seen_ms.saturating_add(DEDUP_WINDOW_MS) > self.now_ms
    }

    fn entry(&self, entry_code: u32) -> Entry {
        let index = (u64::from(entry_code) - 1 + CODES - self.first_number % CODES) % CODES;
        self.ring[index as usize]
    }

    /// Returns the slot of `key`, or the free slot where it belongs.
    fn find_slot(&self, key: [u64; 2]) -> usize {
        let mut slot = self.home_slot(key);
        while self.table[slot] != 0 && self.entry(self.table[slot]).key != key {
            slot = (slot + 1) & (self.table.len() - 1);
        }
        slot
    }

    fn home_slot(&self, [low, high]: [u64; 2]) -> usize {
        // Multiply two factors that depend on the secret seed, then fold the halves of the product.
        let product = u128::from(low ^ self.seed) * u128::from(high ^ self.seed.rotate_left(32) | 1);
        (product as u64 ^ (product >> 64) as u64) as usize & (self.table.len() - 1)
    }

    /// Removes `entry` number `entry_number` from the table, unless its key was inserted again later.
    fn remove_from_table(&mut self, entry: Entry, entry_number: u64) {
        let mut hole = self.find_slot(entry.key);
        if self.table[hole] != entry_code(entry_number) {
            return;
        }
        // Move back entries that collisions pushed past the hole, so that no search ends too early.
        let mask = self.table.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            if self.table[slot] == 0 {
                break;
            }
            let home = self.home_slot(self.entry(self.table[slot]).key);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.table[hole] = self.table[slot];
                hole = slot;
            }
        }
        self.table[hole] = 0;
    }
}

/// The log clock at the beginning and at the end of a segment, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentTimes {
    pub(super) created_ms: i64,
    pub(super) closed_ms: i64,
}

/// Returns the log clock at which the dedup window saw a record, or a later time. The newest received time so
/// far is the best value that the log has. A wrong wall clock may have written it, so it is limited to the
/// times of the segment. A key that stays too long does no harm.
pub(super) fn seen_time(newest_ms: &mut i64, received_ms: i64, times: SegmentTimes) -> i64 {
    *newest_ms = received_ms.max(*newest_ms);
    (*newest_ms).max(times.created_ms).min(times.closed_ms)
}

fn halves(key: u128) -> [u64; 2] {
    [key as u64, (key >> 64) as u64]
}

/// The number of distinct entry codes. Entry numbers wrap around at it to fit four bytes. No ring holds as
/// many entries.
const CODES: u64 = u32::MAX as u64;

fn entry_code(entry_number: u64) -> u32 {
    (entry_number % CODES) as u32 + 1
}
