//! The table of visitors: a map from keys to byte strings, with one writer and wait-free readers.
//!
//! The folding thread writes keys, values and eviction classes. It reads values, and so do pinned readers in
//! other threads. An entry consists of a record (`slab`), a word in the index of its shard (`index`), and a
//! node in the eviction lists (`eviction`).
//!
//! Invariant: the key and the value of a record do not change while a reader can find it. A put writes a new
//! record and swaps the word. The old record is freed when no reader can have found it (`epoch`). So a reader
//! sees a whole value, takes no lock, allocates and frees nothing, and reads each word of a shard at most
//! once.
//!
//! No single operation copies an amount of data that grows with the table: each shard grows by itself, and
//! each put moves at most `RECORDS_MOVED_MAX` records.
//!
//! In `store/`, only this file and `memory` have `unsafe`: here, where addresses are turned into records and
//! indices and back.

use std::ptr::{NonNull, with_exposed_provenance_mut};

use super::digest::TableDigest;
use super::entry::cost;
pub use super::entry::{ENTRY_COST, TABLE_ENTRY_BYTES_MAX};
pub use super::epoch::RETIRED_BYTES;
use super::epoch::{EpochGuard, EpochReader, EpochRegistry, RetiredList};
use super::eviction::{EvictionEntry, EvictionLists, NODES_RENUMBERED_MAX};
use super::index::{self, DELETED, SHARD_COUNT, shard_of};
pub use super::key::{EvictionClass, Key};
use super::memory::{IndexTable, IndexWords, Region, prefetch};
pub use super::memory_limit::memory_bytes_max;
use super::slab::{RECORDS_MOVED_MAX, SlabAllocator};
pub use super::snapshot_copy::COPY_PRESERVED_BYTES_MAX;
use super::snapshot_copy::SnapshotCopy;
use super::sync::{AccessTracker, Arc, AtomicU32, AtomicU64, Mutex, Ordering, lock};

/// The table, with write access.
pub struct Table {
    pub(super) shared: Arc<Shared>,
    /// For each shard: the number of words that are not empty, and of words that are entries.
    pub(super) shard_usage: Vec<[u32; 2]>,
    index_bytes: usize,
    slab: SlabAllocator,
    pub(super) eviction: EvictionLists<RecordPtr>,
    retired: RetiredList<Garbage>,
    pub(super) copy: Option<SnapshotCopy<RecordPtr>>,
    pub(super) copy_aborted: bool,
    pub(super) cost: u64,
    pub(super) entries: usize,
    /// `None` unless several nodes compare their tables.
    pub(super) digest: Option<TableDigest>,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// Creates an empty table.
    pub fn new() -> Self {
        let shards = (0..SHARD_COUNT).map(|_| AtomicU64::new(0)).collect();
        Self {
            shared: Arc::new(Shared {
                shards,
                epochs: Arc::default(),
                regions: Mutex::default(),
                leftover: Mutex::default(),
            }),
            shard_usage: vec![[0; 2]; SHARD_COUNT],
            index_bytes: 0,
            slab: SlabAllocator::new(),
            eviction: EvictionLists::new(),
            retired: RetiredList::new(),
            copy: None,
            copy_aborted: false,
            cost: 0,
            entries: 0,
            digest: None,
        }
    }

    /// Returns a factory of readers.
    pub fn readers(&self) -> TableReaders {
        TableReaders(self.shared.clone())
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        // SAFETY: only the writer frees records, and it is borrowed as long as the value is.
        self.shared.find(key).map(|record| unsafe { record.value() })
    }

    /// Inserts or replaces an entry, and moves it to the newest end of its eviction class.
    pub fn put(&mut self, key: Key, value: &[u8], class: EvictionClass) {
        let old = self.shared.find(key);
        // SAFETY: the record is in the table, where records are live.
        let node = old.map_or_else(|| self.eviction.allocate(), |old| unsafe { old.header() }.node());
        let record = self.write_record(key, node, value);
        let replaced = self.eviction.get(node);
        self.eviction.put(node, record, class);
        self.cost += cost(value.len());
        if let Some(digest) = &mut self.digest {
            digest.add(key, value, class);
        }
        match replaced {
            Some(replaced) => {
                self.shared.replace_word(key, replaced.item, index::word(key, record.address()));
                self.release(node, replaced);
            }
            None => {
                self.insert(key, record);
                self.entries += 1;
            }
        }
        self.maintain();
    }

    /// Removes the entry of `key`.
    pub fn remove(&mut self, key: Key) {
        let Some(record) = self.shared.find(key) else { return };
        // SAFETY: the record is in the table, where records are live.
        let node = unsafe { record.header() }.node();
        let Some(placed) = self.eviction.get(node) else { return };
        self.eviction.remove(node);
        self.shared.replace_word(key, record, DELETED);
        self.shrink(shard_of(key));
        self.entries -= 1;
        self.release(node, placed);
        self.maintain();
    }

    /// Returns the entry to evict next: the oldest single-visit visitor, or else the oldest returning
    /// visitor.
    pub fn next_victim(&self) -> Option<(Key, &[u8])> {
        let oldest = self
            .eviction
            .oldest(EvictionClass::SingleVisit)
            .or_else(|| self.eviction.oldest(EvictionClass::Returning))?;
        Some(self.key_and_value(&oldest))
    }

    /// Returns the cost of all entries: [`ENTRY_COST`] for each, and the bytes of the values. It depends
    /// only on the contents.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns whether the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the bytes that were removed from the table but not freed yet.
    pub fn retired_bytes(&self) -> usize {
        self.retired.bytes()
    }

    /// Returns the total memory of the table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slab.bytes() + self.eviction.bytes() + self.index_bytes + SHARD_COUNT * size_of::<[u64; 2]>()
    }

    /// Returns the key and the value of a record in the eviction lists or in a copy.
    pub(super) fn key_and_value(&self, entry: &EvictionEntry<RecordPtr>) -> (Key, &[u8]) {
        // SAFETY: the record has not been retired. Only the writer can retire it, and the writer is borrowed.
        unsafe { (entry.item.header().key, entry.item.value()) }
    }

    pub(super) fn retire(&mut self, record: RecordPtr) {
        // SAFETY: the record is retired here, and not before.
        let bytes = unsafe { record.header() }.value_bytes as usize + size_of::<RecordHeader>();
        self.retired.push(Garbage::Record(record), bytes);
    }

    /// Runs maintenance after a change. Frees memory that no reader can access, once enough was retired
    /// for a scan of the readers. Moves some records out of blocks that are nearly empty.
    pub(super) fn maintain(&mut self) {
        if self.retired.fresh_bytes() > RETIRED_BYTES {
            self.retired.reclaim(&self.shared.epochs, |garbage| match garbage {
                Garbage::Record(record) => {
                    // SAFETY: the slot is freed after this line, and not before.
                    unsafe { record.header() }.accesses.write();
                    self.slab.free(record.address());
                }
                Garbage::IndexTable(words) => drop(words),
            });
        }
        // A copy visits nodes by number, so nodes must not move. Its saved records would keep blocks from
        // becoming empty.
        if self.copy.is_some() {
            return;
        }
        for (record, node) in (0..NODES_RENUMBERED_MAX).filter_map(|_| self.eviction.compact_step()) {
            // SAFETY: records in the eviction lists are in the table, where records are live.
            unsafe { record.header() }.node.store(node, Ordering::Relaxed);
        }
        for _ in 0..RECORDS_MOVED_MAX {
            let Some(address) = self.slab.next_to_move() else { return };
            self.relocate(RecordPtr::at(address));
        }
    }

    /// Moves a record to another slot, unless it was removed from the table.
    fn relocate(&mut self, record: RecordPtr) {
        // SAFETY: a slot in use contains a record, which stays live until the slot is freed.
        let (head, value) = unsafe { (record.header(), record.value()) };
        let node = head.node();
        if self.eviction.get(node).is_some_and(|placed| placed.item == record) {
            let moved = self.write_record(head.key, node, value);
            self.eviction.replace(node, moved);
            self.shared.replace_word(head.key, record, index::word(head.key, moved.address()));
            self.retire(record);
        }
    }

    /// Writes a record into a new slot.
    pub(super) fn write_record(&mut self, key: Key, node_index: u32, value: &[u8]) -> RecordPtr {
        let bytes = size_of::<RecordHeader>() + value.len();
        assert!(bytes <= TABLE_ENTRY_BYTES_MAX, "a profile with its IDs fits the limit");
        let address = self.slab.allocate(bytes).unwrap_or_else(|| {
            let region = Region::new();
            self.slab.add_region(region.address());
            lock(&self.shared.regions).push(region);
            self.slab.allocate(bytes).expect("a region has blocks")
        });
        let record = RecordPtr::at(address);
        // SAFETY: the slot is in a live region, aligned, and has at least `bytes` bytes. Nobody else uses it:
        // all readers that found its previous record have ended.
        unsafe {
            record.0.write(RecordHeader {
                key,
                node: AtomicU32::new(node_index),
                value_bytes: value.len() as u32,
                accesses: AccessTracker::new(),
            });
            record.0.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        record
    }

    /// Adds the word of a new key to its shard.
    fn insert(&mut self, key: Key, record: RecordPtr) {
        let shard = shard_of(key);
        let word = index::word(key, record.address());
        if let Some(resized) = self.shared.insert(shard, &mut self.shard_usage[shard], word) {
            self.count_resize(resized);
        }
    }

    /// Counts the removal of an entry from a shard. Resizes the index if it has more than twice the words
    /// that it needs.
    fn shrink(&mut self, shard_index: usize) {
        let live = &mut self.shard_usage[shard_index][1];
        *live -= 1;
        let len_now = index::len_for(*live as usize);
        if self.shared.words(shard_index).is_some_and(|words| words.len() > 2 * len_now) {
            self.resize(shard_index);
        }
    }

    /// Replaces the index of a shard by one of the size that its entries need.
    fn resize(&mut self, shard_index: usize) {
        let resized = self.shared.resize(shard_index, &mut self.shard_usage[shard_index], 0);
        self.count_resize(resized);
    }

    /// Counts the bytes of a new index, and retires the one that it replaces.
    pub(super) fn count_resize(&mut self, resized: Resized) {
        self.index_bytes += resized.bytes;
        if let Some((old, bytes)) = resized.old {
            self.index_bytes -= bytes;
            self.retired.push(Garbage::IndexTable(old), bytes);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let retired = std::mem::replace(&mut self.retired, RetiredList::new());
        lock(&self.shared.leftover).extend(retired.into_items());
    }
}

/// A factory of table readers.
#[derive(Clone)]
pub struct TableReaders(Arc<Shared>);

impl TableReaders {
    /// Creates a reader for one thread.
    pub fn reader(&self) -> TableReader {
        TableReader { epoch: EpochReader::new(&self.0.epochs), shared: self.0.clone() }
    }
}

/// A reader of the table, for one thread.
pub struct TableReader {
    shared: Arc<Shared>,
    epoch: EpochReader,
}

impl TableReader {
    /// Pins the table for reading. Values found through the returned reader stay valid and unchanged
    /// until it is dropped. Hold it for one request only: nothing that the writer replaces meanwhile can
    /// be freed.
    pub fn pin(&mut self) -> PinnedReader<'_> {
        PinnedReader { _pin: self.epoch.pin(), shared: &self.shared }
    }
}

/// Lines of a record that are loaded ahead: 256 bytes. A visitor of `compare decided` takes about 270 bytes,
/// its part of the index included.
const RECORD_LINES: usize = 4;

/// A reader that is pinned.
pub struct PinnedReader<'r> {
    shared: &'r Shared,
    _pin: EpochGuard<'r>,
}

impl PinnedReader<'_> {
    /// Returns the value of `key`.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        // SAFETY: a record that a pinned reader finds is not freed before the reader unpins. The borrow of
        // the value keeps it pinned.
        self.shared.find(key).map(|record| unsafe { record.value() })
    }

    /// Starts to load the first index word of a key into the cache. A lookup needs it first.
    pub fn prefetch_word(&self, key: Key) {
        if let Some(words) = self.shared.words(shard_of(key)) {
            prefetch(std::ptr::from_ref(index::home_word(words, key)).addr(), 1);
        }
    }

    /// Starts to load the first lines of the record of a key into the cache.
    pub fn prefetch_record(&self, key: Key) {
        let words = self.shared.words(shard_of(key)).unwrap_or_default();
        // A record of another key with the same tag does no harm.
        if let Some((_, word)) = index::search(words, key, |_| true) {
            prefetch(index::address(word), RECORD_LINES);
        }
    }

    /// Iterates over the values of a shard. An entry that changes meanwhile may be left out. `None` after the last one.
    pub fn values(&self, shard_index: usize) -> Option<impl Iterator<Item = &[u8]>> {
        let words =
            (shard_index < SHARD_COUNT).then(|| self.shared.words(shard_index).unwrap_or_default())?;
        // SAFETY: as in `get`: the words are loaded while the reader is pinned.
        Some(index::found(words).map(|word| unsafe { RecordPtr::at(index::address(word)).value() }))
    }
}

/// The part of the table that the writer and the readers share.
pub(super) struct Shared {
    /// The index of each shard, as [`IndexWords::to_bits`] returns it. 0 is none.
    shards: Box<[AtomicU64]>,
    epochs: Arc<EpochRegistry>,
    /// The memory that contains all records.
    regions: Mutex<Vec<Region>>,
    /// Retired memory of a writer that was dropped. It is freed together with the last reader.
    leftover: Mutex<Vec<Garbage>>,
}

impl Shared {
    fn words(&self, shard_index: usize) -> Option<&[AtomicU64]> {
        let words = IndexWords::from_bits(self.shards[shard_index].load(Ordering::Acquire))?;
        // SAFETY: the present words of a shard are live. Replaced words are not freed before the caller, the
        // writer or a pinned reader, stops using them.
        Some(unsafe { words.get() })
    }

    /// Finds the record of `key`. The caller must be the writer or pinned.
    pub(super) fn find(&self, key: Key) -> Option<RecordPtr> {
        // SAFETY: a record is complete before its word is stored, and is not freed while a reader that can
        // have found it is reading.
        let is_it = |address| unsafe { RecordPtr::at(address).header() }.key == key;
        let (_, word) = index::search(self.words(shard_of(key))?, key, is_it)?;
        Some(RecordPtr::at(index::address(word)))
    }

    /// Replaces the word of the record `old_record`, which has the key `key`.
    fn replace_word(&self, key: Key, old_record: RecordPtr, word: u64) {
        let words = self.words(shard_of(key)).unwrap_or_default();
        if let Some((slot, _)) = index::search(words, key, |address| address == old_record.address()) {
            words[slot].store(word, Ordering::Release);
        }
    }

    /// Adds the word of a new key to its shard. Resizes the shard if it is full. The caller must be the only writer of
    /// the shard. `usage` has its words that are not empty, and its entries.
    pub(super) fn insert(&self, shard_index: usize, usage: &mut [u32; 2], word: u64) -> Option<Resized> {
        let has_room = |words: &[AtomicU64]| index::has_room(words, usage[0] as usize);
        let is_full = !self.words(shard_index).is_some_and(has_room);
        let resized = is_full.then(|| self.resize(shard_index, usage, 0));
        let words = self.words(shard_index).expect("a shard has words once it has a size");
        let [used, live] = usage;
        *used += u32::from(index::insert(words, word));
        *live += 1;
        resized
    }

    /// Allocates words for the entries of a shard and `extra_entry_count`, and copies the entries. The caller must be the only
    /// writer of the shard.
    pub(super) fn resize(
        &self,
        shard_index: usize,
        usage: &mut [u32; 2],
        extra_entry_count: usize,
    ) -> Resized {
        let [used, live] = usage;
        let new = IndexWords::allocate(index::len_for(*live as usize + extra_entry_count));
        // SAFETY: the words are new, so no other thread has them.
        let words = unsafe { new.get() };
        let old = self.words(shard_index);
        for word in old.into_iter().flat_map(index::entries) {
            index::insert(words, word);
        }
        *used = *live;
        let old_bytes = old.map_or(0, size_of_val);
        let old = IndexWords::from_bits(self.shards[shard_index].swap(new.to_bits(), Ordering::AcqRel));
        Resized { old: old.map(|words| (IndexTable(words), old_bytes)), bytes: size_of_val(words) }
    }
}

/// A new index of a shard: its bytes, and the index that it replaces, with its bytes.
pub(super) struct Resized {
    old: Option<(IndexTable, usize)>,
    bytes: usize,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let words = self.shards.iter().filter_map(|bits| IndexWords::from_bits(bits.load(Ordering::Relaxed)));
        words.for_each(|words| drop(IndexTable(words)));
    }
}

/// Retired memory, freed when no reader can access it.
enum Garbage {
    Record(RecordPtr),
    IndexTable(IndexTable),
}

/// A pointer to a record: a header, and the value after it. Key and value do not change while a
/// reader can find the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RecordPtr(NonNull<RecordHeader>);

// SAFETY: it is an address. Each use of it states why it may be dereferenced.
unsafe impl Send for RecordPtr {}

#[derive(Debug)]
struct RecordHeader {
    key: Key,
    /// Number of the node in the eviction lists. Only the writer uses it.
    node: AtomicU32,
    value_bytes: u32,
    accesses: AccessTracker,
}

impl RecordHeader {
    fn node(&self) -> u32 {
        self.node.load(Ordering::Relaxed)
    }
}

impl RecordPtr {
    fn at(address: usize) -> Self {
        Self(NonNull::new(with_exposed_provenance_mut(address)).expect("a slot has an address"))
    }

    pub(super) fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    // SAFETY: the caller guarantees that the slot is not freed before 'r ends.
    unsafe fn header<'r>(self) -> &'r RecordHeader {
        // SAFETY: as above. The header was written before any reader could find it.
        let header = unsafe { self.0.as_ref() };
        header.accesses.read();
        header
    }

    // SAFETY: the caller guarantees the same as for `header`.
    unsafe fn value<'r>(self) -> &'r [u8] {
        // SAFETY: as above. The value follows the header and has this many bytes.
        unsafe {
            NonNull::slice_from_raw_parts(self.0.add(1).cast(), self.header().value_bytes as usize).as_ref()
        }
    }
}
