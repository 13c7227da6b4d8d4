//! The table of visitors: bytes by key, one writer, readers that wait for nobody.
//!
//! What comes in are keys, values and ranks from the one thread that folds; what goes out are values, to that thread and to readers
//! that are pinned. An entry is a record (`slots`), a word of its shard's `index`, and a node of the `order` of eviction. It always
//! holds that a record's key and value are not written to as long as somebody can find it: a put writes another record and swaps
//! the word, and what was replaced is freed when no reader can have found it (`epochs`). So a reader sees a value whole, takes no
//! lock, allocates and frees nothing, and looks at each word of a shard once at the most. Nothing is ever copied at once that grows
//! with the table: shards grow by themselves, and each put moves at most [`MOVES`] records.
//!
//! `unsafe` stands here in what turns addresses into records, indices and regions, and back.
//!
//! # Why not a map that is there
//!
//! `cargo bench --bench table`, 250 bytes a visitor, two cores that others used too; papaya 0.2.5 holds boxed slices and has no
//! order of eviction, which here is part of every figure. Resident bytes an entry; nanoseconds, in brackets while the other side
//! works too:
//!
//! | visitors   |            | resident | insert | replace       | look, found | look, not found |
//! |------------|------------|----------|--------|---------------|-------------|-----------------|
//! | 1 million  | this table | 327      | 484    | 619 (688)     | 148 (195)   | 118             |
//! |            | papaya     | 342      | 704    | 893 (1450)    | 224 (589)   | 43              |
//! | 10 million | this table | 328      | 1013   | 1141 (1464)   | 307 (504)   | 351             |
//! |            | papaya     | 350      | 1538   | 1506 (2253)   | 502 (1018)  | 155             |
//!
//! papaya misses faster, by its bytes of metadata, and a visitor who is not there is answered from less. It loses the rest: a look
//! goes through one pointer more, a guard may free on a reader's thread, and a rehash holds two tables of the whole at once.
//! The allocator in the place of `slots` took 345 bytes, and 7 % more than the cost after sizes had changed.
//! The longest put of 3 million took 0.4 ms of CPU time.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::cost;
pub use super::entry::{ENTRY_COST, Key, Rank, Taker, memory_bytes_max};
use super::epoch::{Epochs, Pin, Place, Retired};
use super::eviction::{Order, Placed};
use super::index::{self, EMPTY, GONE};
use super::slab::{REGION_BYTES, STEP, Slots};
use crate::limits::{RECORD_BYTES_MAX, RETIRED_BYTES};
use crate::visitors::store::snapshot_copy::Copying;

/// The writer's half.
pub struct Table {
    shared: Arc<Shared>,
    /// Of each shard: words that are not empty, and those of them that are entries.
    used: Vec<[u32; 2]>,
    index_bytes: usize,
    slots: Slots,
    pub(super) order: Order<Record>,
    retired: Retired<Garbage>,
    pub(super) copying: Option<Copying<Record>>,
    pub(super) copy_failed: bool,
    pub(super) cost: u64,
    entries: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// Without an entry.
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| AtomicPtr::new(null_mut())).collect();
        Self {
            shared: Arc::new(Shared {
                shards,
                epochs: Arc::default(),
                regions: Mutex::default(),
                left: Mutex::default(),
            }),
            used: vec![[0; 2]; SHARDS],
            index_bytes: 0,
            slots: Slots::new(),
            order: Order::new(),
            retired: Retired::new(),
            copying: None,
            copy_failed: false,
            cost: 0,
            entries: 0,
        }
    }

    /// Where readers are had.
    pub fn readers(&self) -> Readers {
        Readers(self.shared.clone())
    }

    /// The value of `key`.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        // SAFETY: records are freed by the writer, which is borrowed as long as the value is.
        self.shared.find(key).map(|record| unsafe { record.value() })
    }

    /// Inserts or replaces, and moves the entry to the newest end of `rank`.
    pub fn put(&mut self, key: Key, value: &[u8], rank: Rank) {
        let old = self.shared.find(key);
        // SAFETY: it is in the table, where records are live.
        let node = old.map_or_else(|| self.order.take(), |old| unsafe { old.head() }.node());
        let record = self.write(key, node, value);
        let replaced = self.order.get(node);
        self.order.put(node, record, rank);
        self.cost += cost(value.len());
        match replaced {
            Some(replaced) => {
                self.shared.swap(key, replaced.thing, index::word(key, record.address()));
                self.drop_placed(node, replaced);
            }
            None => {
                self.insert(key, record);
                self.entries += 1;
            }
        }
        self.tidy();
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: Key) {
        let Some(record) = self.shared.find(key) else { return };
        // SAFETY: it is in the table, where records are live.
        let node = unsafe { record.head() }.node();
        let Some(placed) = self.order.get(node) else { return };
        self.order.remove(node);
        self.shared.swap(key, record, GONE);
        self.shrink(shard_of(key));
        self.entries -= 1;
        self.drop_placed(node, placed);
        self.tidy();
    }

    /// Who is evicted next: the oldest of those that came once, else the oldest of those that are known.
    pub fn first_to_go(&self) -> Option<(Key, &[u8])> {
        let oldest = self.order.first(Rank::Once).or_else(|| self.order.first(Rank::Known))?;
        Some(self.parts(&oldest))
    }

    /// What the entries cost, [`ENTRY_COST`] and their values: from contents only.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes that are out of the table and not freed yet.
    pub fn retired_bytes(&self) -> usize {
        self.retired.bytes()
    }

    /// Bytes that the table holds in all, for whatever.
    pub fn memory_bytes(&self) -> usize {
        self.slots.bytes() + self.order.bytes() + self.index_bytes + SHARDS * size_of::<[u64; 2]>()
    }

    /// What a record holds that the order or a copy has.
    pub(super) fn parts(&self, placed: &Placed<Record>) -> (Key, &[u8]) {
        // SAFETY: it has not been retired: what is about to be is in nobody's hands but the writer's, which is borrowed.
        unsafe { (placed.thing.head().key, placed.thing.value()) }
    }

    pub(super) fn retire(&mut self, record: Record) {
        // SAFETY: it is retired here, and has not been before.
        let bytes = unsafe { record.head() }.value_bytes as usize + size_of::<Head>();
        self.retired.push(Garbage::Record(record), bytes);
    }

    /// After a change: frees what nobody can be looking at, once so much has come since that readers are worth a look, and moves
    /// some of what stands in blocks that are nearly empty.
    pub(super) fn tidy(&mut self) {
        if self.retired.fresh_bytes() > RETIRED_BYTES {
            self.retired.reclaim(&self.shared.epochs, |garbage| match garbage {
                Garbage::Record(record) => self.slots.give_back(record.address()),
                Garbage::Words(words) => drop(words),
            });
        }
        // A copy goes through nodes by their numbers, and what it holds would keep blocks from becoming empty.
        if self.copying.is_some() {
            return;
        }
        for (record, node) in (0..RENUMBERED).filter_map(|_| self.order.pack()) {
            // SAFETY: what the order holds is in the table, where records are live.
            unsafe { record.head() }.node.store(node, Ordering::Relaxed);
        }
        for _ in 0..MOVES {
            let Some(address) = self.slots.next_to_move() else { return };
            self.relocate(Record::at(address));
        }
    }

    /// Moves a record into another slot, unless it is out of the table.
    fn relocate(&mut self, record: Record) {
        // SAFETY: a slot that is taken has a record in it, which is not freed before it is given back.
        let (head, value) = unsafe { (record.head(), record.value()) };
        let node = head.node();
        if self.order.get(node).is_some_and(|placed| placed.thing == record) {
            let moved = self.write(head.key, node, value);
            self.order.replace(node, moved);
            self.shared.swap(head.key, record, index::word(head.key, moved.address()));
            self.retire(record);
        }
    }

    /// A record in a slot of its own.
    fn write(&mut self, key: Key, node: u32, value: &[u8]) -> Record {
        let bytes = size_of::<Head>() + value.len();
        assert!(bytes <= RECORD_BYTES_MAX, "a profile and its ids are smaller");
        let address = self.slots.take(bytes).unwrap_or_else(|| {
            let region = Region::new();
            self.slots.add_region(region.0.as_ptr().expose_provenance());
            locked(&self.shared.regions).push(region);
            self.slots.take(bytes).expect("a region has blocks")
        });
        let record = Record::at(address);
        // SAFETY: the slot is in a live region, aligned, of so many bytes at least, and until now nobody's: who found what stood
        // there before is not looking any more.
        unsafe {
            record.0.write(Head { key, node: AtomicU32::new(node), value_bytes: value.len() as u32 });
            record.0.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        record
    }

    /// Puts the word of a key that is not in the table into its shard, which grows by itself where it is full.
    fn insert(&mut self, key: Key, record: Record) {
        let shard = shard_of(key);
        let used = self.used[shard][0] as usize;
        if !self.shared.words(shard).is_some_and(|words| index::has_room(words, used)) {
            self.resize(shard);
        }
        let words = self.shared.words(shard).expect("a shard has words once it has a size");
        let [used, live] = &mut self.used[shard];
        *used += u32::from(index::add(words, index::word(key, record.address())));
        *live += 1;
    }

    /// An entry of a shard has gone: its index becomes smaller where it is more than twice what it would be now.
    fn shrink(&mut self, shard: usize) {
        let live = &mut self.used[shard][1];
        *live -= 1;
        let len_now = index::len_for(*live as usize);
        if self.shared.words(shard).is_some_and(|words| words.len() > 2 * len_now) {
            self.resize(shard);
        }
    }

    /// Gives a shard the index that its entries need.
    fn resize(&mut self, shard: usize) {
        let [used, live] = &mut self.used[shard];
        let (old, bytes) = self.shared.resize(shard, *live as usize);
        *used = *live;
        self.index_bytes += bytes;
        if let Some((old, bytes)) = old {
            self.index_bytes -= bytes;
            self.retired.push(Garbage::Words(old), bytes);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let retired = std::mem::replace(&mut self.retired, Retired::new());
        locked(&self.shared.left).extend(retired.into_all());
    }
}

/// Where workers get their half.
#[derive(Clone)]
pub struct Readers(Arc<Shared>);

impl Readers {
    /// One for each thread that reads.
    pub fn reader(&self) -> Reader {
        Reader { place: Place::new(&self.0.epochs), shared: self.0.clone() }
    }
}

/// A thread's half.
pub struct Reader {
    shared: Arc<Shared>,
    place: Place,
}

impl Reader {
    /// What is found from here on stays as it was found until the answer is dropped: hold it for one request only, since nothing
    /// that the writer replaces meanwhile can be freed.
    pub fn pin(&mut self) -> Pinned<'_> {
        Pinned { _pin: self.place.pin(), shared: &self.shared }
    }
}

/// A reader that looks.
pub struct Pinned<'r> {
    shared: &'r Shared,
    _pin: Pin<'r>,
}

impl Pinned<'_> {
    /// The value of `key`.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        // SAFETY: what a pinned reader finds is not freed before it unpins, which takes the value's borrow to end.
        self.shared.find(key).map(|record| unsafe { record.value() })
    }
}

/// Shards: at 160 million entries the largest index that is copied at once has 16,000 words.
const SHARDS: usize = 1 << 14;
/// Records that one put or remove may move, some 0.3 us each: a sparse block has one free slot in 17 at the least, so that this
/// frees as much as one put can.
const MOVES: usize = 16;
/// Nodes that one put or remove may give a smaller number: one step more than one removal makes necessary.
const RENUMBERED: usize = 2;

fn shard_of(Key([shard, _]): Key) -> usize {
    (shard >> (64 - SHARDS.trailing_zeros())) as usize
}

/// What both halves look at.
struct Shared {
    /// Each null, or the first of its [`Words`].
    shards: Box<[AtomicPtr<AtomicU64>]>,
    epochs: Arc<Epochs>,
    /// Where records are.
    regions: Mutex<Vec<Region>>,
    /// What a writer that has gone left to be freed.
    left: Mutex<Vec<Garbage>>,
}

fn locked<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn words(&self, shard: usize) -> Option<&[AtomicU64]> {
        let first = NonNull::new(self.shards[shard].load(Ordering::Acquire))?;
        // SAFETY: words that are in their place are live, and those that were replaced are not freed before the caller, who is the
        // writer or pinned, has let go of them.
        Some(unsafe { Words::all(first) })
    }

    /// The record of `key`. The caller is the writer, or pinned.
    fn find(&self, key: Key) -> Option<Record> {
        // SAFETY: a record is whole before its word is stored, and not freed while somebody looks who can have found it.
        let is_it = |address| unsafe { Record::at(address).head() }.key == key;
        let (_, word) = index::search(self.words(shard_of(key))?, key, is_it)?;
        Some(Record::at(index::address(word)))
    }

    /// Replaces the word of `old`, which has `key`.
    fn swap(&self, key: Key, old: Record, word: u64) {
        let words = self.words(shard_of(key)).unwrap_or_default();
        if let Some((slot, _)) = index::search(words, key, |address| address == old.address()) {
            words[slot].store(word, Ordering::Release);
        }
    }

    /// Gives a shard words for `live` entries and some more, and hands out those that it had; each with their bytes.
    fn resize(&self, shard: usize, live: usize) -> (Option<(Words, usize)>, usize) {
        let new = Words::made(index::len_for(live));
        // SAFETY: nobody else knows them.
        let words = unsafe { Words::all(new) };
        let old = self.words(shard);
        for word in old.into_iter().flat_map(index::entries) {
            index::add(words, word);
        }
        let old_bytes = old.map_or(0, size_of_val);
        let old = NonNull::new(self.shards[shard].swap(new.as_ptr(), Ordering::AcqRel));
        (old.map(|first| (Words(first), old_bytes)), size_of_val(words))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let firsts = self.shards.iter_mut().filter_map(|first| NonNull::new(*first.get_mut()));
        firsts.for_each(|first| drop(Words(first)));
    }
}

/// What is freed when nobody looks any more.
enum Garbage {
    Record(Record),
    Words(Words),
}

/// The first word of a shard's index that nobody looks at any more: it tells how many follow.
struct Words(NonNull<AtomicU64>);

// SAFETY: it is memory of the global allocator with atomic words in it.
unsafe impl Send for Words {}

impl Words {
    fn made(len: usize) -> NonNull<AtomicU64> {
        let words: Box<[AtomicU64]> = (0..=len).map(|_| AtomicU64::new(EMPTY)).collect();
        words[0].store(len as u64, Ordering::Relaxed);
        NonNull::from(Box::leak(words)).cast()
    }

    // SAFETY: the caller's part is that `first` came from `made` and is not dropped before 'w ends.
    unsafe fn all<'w>(first: NonNull<AtomicU64>) -> &'w [AtomicU64] {
        // SAFETY: as above; so many words follow the first one.
        unsafe {
            NonNull::slice_from_raw_parts(first.add(1), first.as_ref().load(Ordering::Relaxed) as usize)
                .as_ref()
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was leaked by `made` with so many words, and whoever drops it is the last who knows of it.
        unsafe {
            let len = 1 + self.0.as_ref().load(Ordering::Relaxed) as usize;
            drop(Box::from_raw(NonNull::slice_from_raw_parts(self.0, len).as_ptr()));
        }
    }
}

/// Memory for records.
struct Region(NonNull<u8>);

// SAFETY: it is memory of the global allocator.
unsafe impl Send for Region {}

impl Region {
    fn layout() -> Layout {
        Layout::from_size_align(REGION_BYTES, STEP).expect("two powers of two")
    }

    fn new() -> Self {
        // SAFETY: the layout is not empty.
        let region = NonNull::new(unsafe { alloc(Self::layout()) });
        Self(region.unwrap_or_else(|| handle_alloc_error(Self::layout())))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was allocated so, and dropped where both halves are gone.
        unsafe { dealloc(self.0.as_ptr(), Self::layout()) };
    }
}

/// A head, and behind it the value. Key and value are not written to as long as somebody can find them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Record(NonNull<Head>);

// SAFETY: it is an address; what is done with it says why it may be.
unsafe impl Send for Record {}

#[derive(Debug)]
struct Head {
    key: Key,
    /// Of the order: the writer's alone.
    node: AtomicU32,
    value_bytes: u32,
}

impl Head {
    fn node(&self) -> u32 {
        self.node.load(Ordering::Relaxed)
    }
}

impl Record {
    fn at(address: usize) -> Self {
        Self(NonNull::new(with_exposed_provenance_mut(address)).expect("a slot has an address"))
    }

    fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    // SAFETY: the caller's part is that the slot is not given back before 'r ends.
    unsafe fn head<'r>(self) -> &'r Head {
        // SAFETY: as above; it was written before anybody could find it.
        unsafe { self.0.as_ref() }
    }

    // SAFETY: the caller's part is as with `head`.
    unsafe fn value<'r>(self) -> &'r [u8] {
        // SAFETY: as above; the value stands behind the head, so many bytes.
        unsafe {
            NonNull::slice_from_raw_parts(self.0.add(1).cast(), self.head().value_bytes as usize).as_ref()
        }
    }
}
