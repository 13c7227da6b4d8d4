//! The table of visitors: bytes by key, one writer, readers that wait for nobody.
//!
//! What comes in are keys, values and ranks from the one thread that folds; what goes out are values, to that thread and to readers
//! that are pinned. The index is in shards that grow by themselves, so that no put takes long; a value is never written to again, so
//! that a reader sees it whole, and is freed when no reader can have found it (see `epochs`).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::copying::{Copying, Step};
use super::epochs::{Announced, Epochs, Retired};
use super::order::{Order, Placed};
use crate::limits::{COPY_HELD_BYTES_MAX, RETIRED_BYTES};

/// What an entry takes beside its value, in bytes.
pub const ENTRY_COST: u64 = 112;

/// What an entry is found by: a hash with a secret seed, so that nobody chooses where entries meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub [u64; 2]);

/// When an entry goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank {
    /// Never by itself.
    Alias,
    /// First, in the order of their last put.
    Once,
    /// Then, in the same order.
    Known,
}

/// Takes an entry of a copy: its key, its value, its rank, and its place in the order, which grows with each put.
pub type Taker<'t> = dyn FnMut(Key, &[u8], Rank, u64) + 't;

/// The writer's half.
pub struct Table {
    shared: Arc<Shared>,
    /// Of each shard: words that are not empty, and those of them that hold a record.
    used: Vec<[u32; 2]>,
    order: Order<Record>,
    retired: Retired<Garbage>,
    copying: Option<Copying<Record>>,
    copy_failed: bool,
    cost: u64,
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
            shared: Arc::new(Shared { shards, epochs: Epochs::new(), left: Mutex::default() }),
            used: vec![[0; 2]; SHARDS],
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
        let node = old.map_or_else(|| self.order.take(), |old| unsafe { old.head() }.node);
        let record = Record::new(key, node, value);
        let replaced = self.order.get(node);
        self.order.put(node, record, rank);
        self.cost += cost(value.len());
        match replaced {
            Some(replaced) => {
                self.shared.swap(key, replaced.thing, record.word(key));
                self.drop_placed(node, replaced);
            }
            None => {
                self.insert(key, record);
                self.entries += 1;
            }
        }
        self.reclaim();
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: Key) {
        let Some(record) = self.shared.find(key) else { return };
        // SAFETY: it is in the table, where records are live.
        let node = unsafe { record.head() }.node;
        let Some(placed) = self.order.get(node) else { return };
        self.order.remove(node);
        self.shared.swap(key, record, GONE);
        self.used[shard_of(key)][1] -= 1;
        self.entries -= 1;
        self.drop_placed(node, placed);
        self.reclaim();
    }

    /// Who is evicted next: the oldest of those that came once, else the oldest of those that are known.
    pub fn first_to_go(&self) -> Option<(Key, &[u8])> {
        let record = self.order.first(Rank::Once).or_else(|| self.order.first(Rank::Known))?;
        // SAFETY: what the order holds is in the table and live; it is freed by the writer, which is borrowed.
        Some(unsafe { (record.head().key, record.value()) })
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

    /// Begins a copy of the table as it is now; one that was under way ends.
    pub fn begin_copy(&mut self) {
        self.end_copy();
        self.copy_failed = false;
        self.copying = Some(Copying::new(&self.order));
    }

    /// Hands out more of the copy, in no order, after looking at this many entries. True says that this was the last of it.
    /// Without a copy under way nothing is handed out.
    pub fn copy_some(&mut self, entries: usize, out: &mut Taker<'_>) -> bool {
        let Some(mut copying) = self.copying.take() else { return false };
        for _ in 0..entries {
            let step = copying.step(&self.order);
            match step {
                Step::Held(placed) | Step::There(placed) => {
                    // SAFETY: what the order holds is live, and so is what was held back: it is retired below.
                    let (key, value) = unsafe { (placed.thing.head().key, placed.thing.value()) };
                    out(key, value, placed.rank, placed.place);
                }
                Step::Passed => {}
                Step::Done => return true,
            }
            if let Step::Held(placed) = step {
                self.retire(placed.thing);
            }
        }
        self.copying = Some(copying);
        false
    }

    /// Whether the copy that was begun last was given up at its bound.
    pub fn copy_failed(&self) -> bool {
        self.copy_failed
    }

    /// What a node held is out of the table.
    fn drop_placed(&mut self, node: u32, placed: Placed<Record>) {
        // SAFETY: it has not been retired yet.
        let value_bytes = unsafe { placed.thing.head() }.value_bytes as usize;
        self.cost -= cost(value_bytes);
        match &mut self.copying {
            Some(copying) if copying.misses(node, placed.place) => {
                let held = copying.hold(placed, cost(value_bytes) as usize);
                if held > COPY_HELD_BYTES_MAX {
                    self.end_copy();
                    self.copy_failed = true;
                }
            }
            _ => self.retire(placed.thing),
        }
    }

    fn end_copy(&mut self) {
        let held = self.copying.take().into_iter().flat_map(Copying::into_held);
        held.for_each(|record| self.retire(record));
    }

    fn retire(&mut self, record: Record) {
        // SAFETY: it is retired here, and has not been before.
        let bytes = unsafe { record.head() }.layout().size();
        self.retired.push(Garbage::Record(record), bytes);
    }

    /// Frees what nobody can be looking at, once so much has come since that readers are worth a look.
    fn reclaim(&mut self) {
        if self.retired.fresh_bytes() > RETIRED_BYTES {
            // SAFETY: it is out of reach, and nobody who found it before is looking any more.
            self.retired.reclaim(&self.shared.epochs, |garbage| unsafe { garbage.free() });
        }
    }

    /// Puts the word of a key that is not in the table into its shard, which grows by itself where it is full.
    fn insert(&mut self, key: Key, record: Record) {
        let shard = shard_of(key);
        let [used, live] = &mut self.used[shard];
        let words = self.shared.words(shard);
        let full = words.is_none_or(|words| (*used as usize + 1) * LOAD.1 > words.len() * LOAD.0);
        let words = match words {
            Some(words) if !full => words,
            _ => {
                let old = self.shared.grow(shard, *live as usize);
                *used = *live;
                if let Some(old) = old {
                    self.retired.push(Garbage::Words(old), old.layout().size());
                }
                self.shared.words(shard).expect("a shard that has grown has words")
            }
        };
        *used += u32::from(words.add(record.word(key)));
        *live += 1;
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.end_copy();
        let retired = std::mem::replace(&mut self.retired, Retired::new());
        let mut left = self.shared.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(retired.into_all());
    }
}

/// Where workers get their half.
#[derive(Clone)]
pub struct Readers(Arc<Shared>);

impl Readers {
    /// One for each thread that reads.
    pub fn reader(&self) -> Reader {
        Reader { announced: self.0.epochs.join(), shared: self.0.clone() }
    }
}

/// A thread's half.
pub struct Reader {
    shared: Arc<Shared>,
    announced: Arc<Announced>,
}

impl Reader {
    /// What is found from here on stays as it was found until the answer is dropped: hold it for one request only, since nothing
    /// that the writer replaces meanwhile can be freed.
    pub fn pin(&mut self) -> Pinned<'_> {
        self.shared.epochs.pin(&self.announced);
        Pinned(self)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.epochs.leave(&self.announced);
    }
}

/// A reader that looks.
pub struct Pinned<'r>(&'r Reader);

impl Pinned<'_> {
    /// The value of `key`.
    pub fn get(&self, key: Key) -> Option<&[u8]> {
        // SAFETY: what a pinned reader finds is not freed before it unpins, which takes the value's borrow to end.
        self.0.shared.find(key).map(|record| unsafe { record.value() })
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.announced.unpin();
    }
}

/// Shards: at 160 million entries the largest table to be copied at once has 13,000 words.
const SHARDS: usize = 1 << 14;
/// The most words of a table that may be in use: more makes searches long.
const LOAD: (usize, usize) = (3, 4);
/// A word where no entry was yet: a search ends here.
const EMPTY: u64 = 0;
/// A word whose entry was taken out: a search goes on.
const GONE: u64 = 1;
/// A word holds an address, which fits 48 bits and whose last 4 are 0, and 20 bits of the key.
const TAG_BITS: u32 = 20;
const ALIGN: usize = 16;

fn shard_of(Key([shard, _]): Key) -> usize {
    (shard >> (64 - SHARDS.trailing_zeros())) as usize
}

fn tag_of(Key([_, tag]): Key) -> u64 {
    tag >> (64 - TAG_BITS)
}

fn cost(value_bytes: usize) -> u64 {
    ENTRY_COST + value_bytes as u64
}

/// What both halves look at.
struct Shared {
    shards: Box<[AtomicPtr<AtomicU64>]>,
    epochs: Epochs,
    /// What the writer left behind when it went.
    left: Mutex<Vec<Garbage>>,
}

impl Shared {
    fn words(&self, shard: usize) -> Option<Words> {
        NonNull::new(self.shards[shard].load(Ordering::Acquire)).map(Words)
    }

    /// The record of `key`. The caller is the writer, or pinned.
    fn find(&self, key: Key) -> Option<Record> {
        let words = self.words(shard_of(key))?;
        // SAFETY: a record in a word is whole before the word is stored, and freed when nobody looks who can have found it.
        words.search(key, |record| unsafe { record.head() }.key == key).map(|(_, record)| record)
    }

    /// Replaces the word of `old`, which has `key`.
    fn swap(&self, key: Key, old: Record, word: u64) {
        let words = self.words(shard_of(key));
        if let Some((slot, _)) = words.and_then(|words| words.search(key, |record| record == old)) {
            words.into_iter().for_each(|words| words.slot(slot).store(word, Ordering::Release));
        }
    }

    /// Gives a shard a table with room for more than `live` entries, and hands out the one that it had.
    fn grow(&self, shard: usize, live: usize) -> Option<Words> {
        let new = Words::new((live * 5 / 3).max(8));
        let old = self.words(shard);
        for word in old.into_iter().flat_map(Words::records) {
            new.add(word);
        }
        self.shards[shard].store(new.0.as_ptr(), Ordering::Release);
        old
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for words in (0..self.shards.len()).filter_map(|shard| self.words(shard)) {
            for word in words.records() {
                // SAFETY: both halves are gone.
                unsafe { Record::of(word).free() };
            }
            // SAFETY: as above.
            unsafe { Garbage::Words(words).free() };
        }
        let left = self.left.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above.
        left.drain(..).for_each(|garbage| unsafe { garbage.free() });
    }
}

/// What is freed when nobody looks any more.
enum Garbage {
    Record(Record),
    Words(Words),
}

impl Garbage {
    // SAFETY: the caller's part is that nobody looks at it any more, now or later.
    unsafe fn free(self) {
        match self {
            // SAFETY: as above.
            Self::Record(record) => unsafe { record.free() },
            // SAFETY: it was allocated with this layout, and is out of reach.
            Self::Words(words) => unsafe { dealloc(words.0.as_ptr().cast(), words.layout()) },
        }
    }
}

/// A shard's table, of open addressing: how many words, and the words.
#[derive(Clone, Copy)]
struct Words(NonNull<AtomicU64>);

// SAFETY: it is memory of the global allocator, shared by atomic words only.
unsafe impl Send for Words {}

impl Words {
    fn new(len: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..=len).map(|_| AtomicU64::new(EMPTY)).collect();
        words[0].store(len as u64, Ordering::Relaxed);
        let first = Box::into_raw(words).cast();
        // A box is not null.
        Self(NonNull::new(first).expect("a box has an address"))
    }

    fn layout(self) -> Layout {
        Layout::array::<AtomicU64>(self.len() + 1).expect("it was allocated so")
    }

    fn len(self) -> usize {
        // SAFETY: the first word is there as long as the table is.
        unsafe { self.0.as_ref() }.load(Ordering::Relaxed) as usize
    }

    fn slot<'w>(self, slot: usize) -> &'w AtomicU64 {
        debug_assert!(slot < self.len());
        // SAFETY: slots are below the length, and the caller looks at the table only while it is live.
        unsafe { self.0.add(1 + slot).as_ref() }
    }

    /// The slots of a tag, beginning at its home; in the order of tags, so that a table is copied front to back.
    fn slots(self, tag: u64) -> impl Iterator<Item = usize> {
        let len = self.len();
        let home = (tag as usize * len) >> TAG_BITS;
        (home..len).chain(0..home)
    }

    /// The slot and the record of `key`, of those with its tag the one that it `is`.
    fn search(self, key: Key, is: impl Fn(Record) -> bool) -> Option<(usize, Record)> {
        let tag = tag_of(key);
        for slot in self.slots(tag) {
            let word = self.slot(slot).load(Ordering::Acquire);
            if word == EMPTY {
                return None;
            }
            if word >> (64 - TAG_BITS) == tag && word != GONE && is(Record::of(word)) {
                return Some((slot, Record::of(word)));
            }
        }
        None
    }

    /// Puts a word into the first free slot; whether that was empty.
    fn add(self, word: u64) -> bool {
        let value = |slot: &usize| self.slot(*slot).load(Ordering::Relaxed);
        let mut slots = self.slots(word >> (64 - TAG_BITS));
        let slot = slots.find(|slot| value(slot) <= GONE).expect("a table is never full");
        let was_empty = value(&slot) == EMPTY;
        self.slot(slot).store(word, Ordering::Release);
        was_empty
    }

    /// The words that hold a record.
    fn records(self) -> impl Iterator<Item = u64> {
        let words = (0..self.len()).map(move |slot| self.slot(slot).load(Ordering::Relaxed));
        words.filter(|word| *word > GONE)
    }
}

/// A head, and behind it the value. It is never written to again.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Record(NonNull<Head>);

// SAFETY: it is memory of the global allocator that nobody writes to.
unsafe impl Send for Record {}

#[derive(Debug)]
struct Head {
    key: Key,
    /// Of the order.
    node: u32,
    value_bytes: u32,
}

impl Record {
    fn new(key: Key, node: u32, value: &[u8]) -> Self {
        let head = Head { key, node, value_bytes: u32::try_from(value.len()).expect("a profile is small") };
        let layout = head.layout();
        // SAFETY: the layout is not empty.
        let pointer: *mut Head = unsafe { alloc(layout) }.cast();
        let Some(record) = NonNull::new(pointer) else { handle_alloc_error(layout) };
        // SAFETY: the allocation has room for the head and then the value, and nobody else knows it.
        unsafe {
            record.write(head);
            record.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        Self(record)
    }

    /// As a word of the index.
    fn word(self, key: Key) -> u64 {
        let address = self.0.as_ptr().expose_provenance() as u64;
        assert!(address < 1 << 48 && address.is_multiple_of(ALIGN as u64), "user space ends at 48 bits");
        tag_of(key) << (64 - TAG_BITS) | address >> ALIGN.trailing_zeros()
    }

    /// The record of a word that holds one.
    fn of(word: u64) -> Self {
        let address = (word << TAG_BITS >> TAG_BITS) << ALIGN.trailing_zeros();
        Self(NonNull::new(with_exposed_provenance_mut(address as usize)).expect("a word that holds a record"))
    }

    // SAFETY: the caller's part is that the record is not freed before 'r ends.
    unsafe fn head<'r>(self) -> &'r Head {
        // SAFETY: as above; nobody writes to it.
        unsafe { self.0.as_ref() }
    }

    // SAFETY: the caller's part is as with `head`.
    unsafe fn value<'r>(self) -> &'r [u8] {
        // SAFETY: as above; the value stands behind the head, so many bytes.
        unsafe {
            NonNull::slice_from_raw_parts(self.0.add(1).cast(), self.head().value_bytes as usize).as_ref()
        }
    }

    // SAFETY: the caller's part is that nobody looks at it any more, now or later.
    unsafe fn free(self) {
        // SAFETY: as above; it was allocated with the layout that its head tells.
        unsafe { dealloc(self.0.as_ptr().cast(), self.head().layout()) };
    }
}

impl Head {
    fn layout(&self) -> Layout {
        let bytes = size_of::<Self>() + self.value_bytes as usize;
        Layout::from_size_align(bytes, ALIGN).expect("a profile is small")
    }
}
