//! Loading of many entries into an empty table, by several threads.
//!
//! [`BulkLoader::put`] writes the record and the eviction node of an entry as `Table::put` does, in the same
//! order. It does not search for the key, and it does not store the word in the index yet. The words of up to
//! `PENDING_ENTRIES_MAX` entries are stored together: each thread takes every shard in a range of its own.
//!
//! Proof that the threads need no lock:
//!
//! * The loader owns the table. So nobody else writes, and no record is freed before the loader ends.
//! * Each shard is in the range of one thread. Only this thread replaces its index, changes its words and counts its
//!   usage. A reader of the table sees each word after its record, as with `Table::put`.
//! * All records are written before the threads start, and no thread changes one.
//! * Replaced indices are retired after the threads have ended, by the thread of the loader.

use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::entry::cost;
use super::index::{self, SHARD_COUNT, shard_of};
use super::key::{EvictionClass, Key};
use super::table::{Resized, Shared, Table};
use crate::parallel;

/// Entries whose words are stored together. More would take more memory during the load, 28 bytes for each entry.
/// Fewer would make the threads wait for each other more often.
const PENDING_ENTRIES_MAX: usize = 1 << 19;
/// Threads that store words. One thread groups the words first, so many threads would gain little.
const THREADS_MAX: usize = 8;

/// A loader of a new table.
pub struct BulkLoader {
    table: Table,
    /// Key and word of each entry whose word is not stored yet.
    pending: Vec<(Key, u64)>,
    has_duplicate: bool,
}

/// Two entries have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateKey;

impl BulkLoader {
    /// Creates a loader of about `entries_expected` entries.
    pub fn new(entries_expected: usize) -> Self {
        let mut table = Table::new();
        let each = entries_expected / SHARD_COUNT;
        // One shard in six has more entries than the mean and a standard deviation. These are resized later.
        // `resize` reserves 5/3 words for each entry. 4/3 are enough here, at the highest load of 3/4. The
        // factor 4/5 corrects this.
        let more = (each + each.isqrt()) * 4 / 5;
        if more > 0 {
            for shard in 0..SHARD_COUNT {
                let resized = table.shared.resize(shard, &mut table.shard_usage[shard], more);
                table.count_resize(resized);
            }
        }
        Self { table, pending: Vec::new(), has_duplicate: false }
    }

    /// Adds an entry at the newest end of its eviction class.
    pub fn put(&mut self, key: Key, value: &[u8], class: EvictionClass) {
        let node = self.table.eviction.allocate();
        let record = self.table.write_record(key, node, value);
        self.table.eviction.put(node, record, class);
        self.table.cost += cost(value.len());
        self.table.entries += 1;
        self.pending.push((key, index::word(key, record.address())));
        if self.pending.len() == PENDING_ENTRIES_MAX {
            self.store_words();
        }
    }

    /// Returns the loaded table.
    ///
    /// # Errors
    /// Two entries have the same key.
    pub fn finish(mut self) -> Result<Table, DuplicateKey> {
        self.store_words();
        if self.has_duplicate { Err(DuplicateKey) } else { Ok(self.table) }
    }

    /// Stores the words of the pending entries.
    fn store_words(&mut self) {
        let grouped = GroupedWords::new(&self.pending);
        let ranges = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        let range_shards = SHARD_COUNT.div_ceil(ranges);
        let Table { shared, shard_usage, .. } = &mut self.table;
        let shared = &**shared;
        let grouped = &grouped;
        let ranges: Vec<_> = shard_usage.chunks_mut(range_shards).enumerate().map(Mutex::new).collect();
        let store = |(): &mut (), range: &Mutex<(usize, &mut [[u32; 2]])>| {
            let (range, usage) = &mut *range.lock().unwrap_or_else(PoisonError::into_inner);
            grouped.store(shared, *range * range_shards, usage)
        };
        let stored = parallel::map(&ranges, || (), store, &|_, _| {});
        for Stored { resized, has_duplicate } in stored {
            resized.into_iter().for_each(|resized| self.table.count_resize(resized));
            self.has_duplicate |= has_duplicate;
        }
        self.pending.clear();
    }
}

/// The result of one thread.
#[derive(Default)]
struct Stored {
    resized: Vec<Resized>,
    has_duplicate: bool,
}

/// Keys and words, grouped by shard.
struct GroupedWords<'w> {
    words: &'w [(Key, u64)],
    /// The positions in `words`, sorted by shard.
    positions: Vec<u32>,
    /// The end of each shard in `positions`.
    ends: Vec<u32>,
}

impl<'w> GroupedWords<'w> {
    /// Groups by counting: one pass counts the words of each shard, a second one places them.
    fn new(words: &'w [(Key, u64)]) -> Self {
        let mut ends = vec![0; SHARD_COUNT + 1];
        words.iter().for_each(|(key, _)| ends[shard_of(*key) + 1] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // Until its words are placed, `ends` has the begin of each shard.
        let mut positions = vec![0; words.len()];
        for (position, (key, _)) in words.iter().enumerate() {
            let next = &mut ends[shard_of(*key)];
            positions[*next as usize] = position as u32;
            *next += 1;
        }
        Self { words, positions, ends }
    }

    fn of_shard(&self, shard_index: usize) -> impl Iterator<Item = (Key, u64)> {
        let begin = shard_index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range: Range<usize> = begin as usize..self.ends[shard_index] as usize;
        self.positions[range].iter().map(|position| self.words[*position as usize])
    }

    /// Stores the words of the shards from `first_shard_index` on. `usages` has the usage of each of these shards.
    fn store(&self, shared: &Shared, first_shard_index: usize, usages: &mut [[u32; 2]]) -> Stored {
        let mut stored = Stored::default();
        for (shard, usage) in (first_shard_index..).zip(usages) {
            for (key, word) in self.of_shard(shard) {
                match shared.find(key) {
                    Some(_) => stored.has_duplicate = true,
                    None => stored.resized.extend(shared.insert(shard, usage, word)),
                }
            }
        }
        stored
    }
}
