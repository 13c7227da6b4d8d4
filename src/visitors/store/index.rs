//! A shard's index: words of open addressing, each an address and a piece of the key.
//!
//! A word's home follows from the piece of the key that stands in it, and homes are in the order of pieces, so that a shard is copied
//! into a larger one front to back, without a look at a record. One thread writes. A reader that searches meanwhile finds every entry
//! that is there from its beginning to its end: an entry stays in its slot until the shard is copied, and what was taken out
//! leaves a word behind that is not empty, so that no search ends too early. A search looks at each word once at the most.

use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Key;
use super::slab::STEP;

/// What is stored for an entry: an address, which fits 48 bits and whose last 4 are 0, and 20 bits of the key.
const TAG_BITS: u32 = 20;
/// A word where no entry was yet: a search ends here.
pub const EMPTY: u64 = 0;
/// A word whose entry was taken out: a search goes on.
pub const GONE: u64 = 1;
/// The most words that may not be empty, of so many: more makes searches long.
const LOAD: (usize, usize) = (3, 4);

/// The word of an entry.
pub fn word(key: Key, address: usize) -> u64 {
    assert!(address < 1 << 48 && address.is_multiple_of(STEP), "user space ends at 48 bits");
    tag_of(key) << (64 - TAG_BITS) | (address / STEP) as u64
}

/// The address in the word of an entry.
pub fn address(word: u64) -> usize {
    (word << TAG_BITS >> TAG_BITS) as usize * STEP
}

fn tag_of(Key([_, tag]): Key) -> u64 {
    tag >> (64 - TAG_BITS)
}

/// How many words a shard gets that is to take one entry more than these.
pub fn len_for(entries: usize) -> usize {
    (entries * 5 / 3).max(8)
}

/// Whether one word more may be used.
pub fn has_room(words: &[AtomicU64], used: usize) -> bool {
    (used + 1) * LOAD.1 <= words.len() * LOAD.0
}

/// The slot and the word whose address `is` the one of `key`, of those that have its piece.
pub fn search(words: &[AtomicU64], key: Key, is: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
    let tag = tag_of(key);
    for slot in slots(words, tag) {
        let word = words[slot].load(Ordering::Acquire);
        if word == EMPTY {
            return None;
        }
        if word >> (64 - TAG_BITS) == tag && word != GONE && is(address(word)) {
            return Some((slot, word));
        }
    }
    None
}

/// Puts a word into the first slot that holds none; whether that was empty.
pub fn add(words: &[AtomicU64], word: u64) -> bool {
    let value = |slot: &usize| words[*slot].load(Ordering::Relaxed);
    let free = slots(words, word >> (64 - TAG_BITS)).find(|slot| value(slot) <= GONE);
    let slot = free.expect("an index is never full");
    let was_empty = value(&slot) == EMPTY;
    words[slot].store(word, Ordering::Release);
    was_empty
}

/// The words of entries.
pub fn entries(words: &[AtomicU64]) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Ordering::Relaxed)).filter(|word| *word > GONE)
}

/// The slots in the order in which a piece of a key is looked for.
fn slots(words: &[AtomicU64], tag: u64) -> impl Iterator<Item = usize> + use<> {
    let home = (tag as usize * words.len()) >> TAG_BITS;
    (home..words.len()).chain(0..home)
}
