//! The index of a shard: a hash table with open addressing. Each word contains an address and a tag, which is
//! a part of the key.
//!
//! The home slot of a word depends only on its tag, and home slots are ordered by tag. So a shard is copied
//! to a larger one from front to back, without reading any record. One thread writes. A concurrent search
//! finds every entry that exists from the beginning to the end of the search: an entry stays in its slot
//! until the shard is copied, and a removed entry leaves a word that is not empty, so that no search ends too
//! early. A search reads each word at most once.

use super::key::Key;
use super::slab::SLOT_ALIGN_BYTES;
use super::sync::{AtomicU64, Ordering};

/// Number of shards. At 160 million entries the index of a shard, which is copied at once, has 16,000
/// words. The models have two shards, because loom and Miri take time for each.
pub(super) const SHARD_COUNT: usize = if cfg!(any(loom, miri)) { 2 } else { 1 << 14 };
/// Bits of the tag. The other 44 bits of a word are the address without its last 4 bits, which are 0:
/// addresses fit in 48 bits.
const TAG_BITS: u32 = 20;
/// A word that never had an entry. A search ends here.
pub(super) const EMPTY: u64 = 0;
/// A word whose entry was removed. A search continues after it.
pub(super) const DELETED: u64 = 1;
/// Maximum fraction of words that are not empty: 3 of 4. A higher load makes searches long. At the
/// limit the shard is resized.
const LOAD_MAX: (usize, usize) = (3, 4);

/// Returns the shard of a key.
pub(super) fn shard_of(Key([shard, _]): Key) -> usize {
    (shard >> (64 - SHARD_COUNT.trailing_zeros())) as usize
}

/// Returns the word of an entry.
pub(super) fn word(key: Key, address: usize) -> u64 {
    assert!(address < 1 << 48 && address.is_multiple_of(SLOT_ALIGN_BYTES), "user space ends at 48 bits");
    tag_of(key) << (64 - TAG_BITS) | (address / SLOT_ALIGN_BYTES) as u64
}

/// Returns the address in the word of an entry.
pub(super) fn address(word: u64) -> usize {
    (word << TAG_BITS >> TAG_BITS) as usize * SLOT_ALIGN_BYTES
}

fn tag_of(Key([_, tag]): Key) -> u64 {
    tag >> (64 - TAG_BITS)
}

/// Returns the number of words for a shard that has `entry_count` entries and is about to get one more.
pub(super) fn len_for(entry_count: usize) -> usize {
    (entry_count * 5 / 3).max(8)
}

/// Returns whether one more word may be used.
pub(super) fn has_room(words: &[AtomicU64], words_used: usize) -> bool {
    (words_used + 1) * LOAD_MAX.1 <= words.len() * LOAD_MAX.0
}

/// Finds an entry. Calls `is_match` with the address of each entry that has the tag of `key`. Returns the
/// slot and the word for which it returns true.
pub(super) fn search(
    words: &[AtomicU64],
    key: Key,
    is_match: impl Fn(usize) -> bool,
) -> Option<(usize, u64)> {
    let tag = tag_of(key);
    for slot in probe_sequence(words, tag) {
        let word = words[slot].load(Ordering::Acquire);
        if word == EMPTY {
            return None;
        }
        if word >> (64 - TAG_BITS) == tag && word != DELETED && is_match(address(word)) {
            return Some((slot, word));
        }
    }
    None
}

/// Stores a word in the first slot without an entry. Returns whether that slot was empty.
pub(super) fn insert(words: &[AtomicU64], word: u64) -> bool {
    let value = |slot: &usize| words[*slot].load(Ordering::Relaxed);
    let free = probe_sequence(words, word >> (64 - TAG_BITS)).find(|slot| value(slot) <= DELETED);
    let slot = free.expect("an index is never full");
    let was_empty = value(&slot) == EMPTY;
    words[slot].store(word, Ordering::Release);
    was_empty
}

/// Iterates over the words of all entries.
pub(super) fn entries(words: &[AtomicU64]) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Ordering::Relaxed)).filter(|word| *word > DELETED)
}

/// Iterates over the words of the entries that a concurrent reader finds.
pub(super) fn found(words: &[AtomicU64]) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Ordering::Acquire)).filter(|word| *word > DELETED)
}

/// Iterates over the slots in the order in which a tag is searched.
fn probe_sequence(words: &[AtomicU64], tag: u64) -> impl Iterator<Item = usize> + use<> {
    let home = home_of(words, tag);
    (home..words.len()).chain(0..home)
}

fn home_of(words: &[AtomicU64], tag: u64) -> usize {
    (tag as usize * words.len()) >> TAG_BITS
}

/// Returns the word at which a search begins.
pub(super) fn home_word(words: &[AtomicU64], key: Key) -> &AtomicU64 {
    &words[home_of(words, tag_of(key))]
}
