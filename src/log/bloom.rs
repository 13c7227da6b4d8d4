//! The Bloom filter of a segment: says whether the segment may hold a record of an ID.
//!
//! The filter contains hashes of (site, ID). A 64-bit hash gives two 32-bit numbers: a is the low half, and b
//! is the high half with its lowest bit set. The bits of an ID are a + i * b modulo 2^32, for i from 0 to 5,
//! each masked to the filter's size. So the OR of the two halves of a filter is a filter of half the size. A
//! filter is filled at full size and folded at the end to the size that its content needs. Bit n is bit n % 8
//! of byte n / 8.

use crate::record::{IdHasher, IdKind, id_hash};

/// Bits of a segment's Bloom filter while the segment is being filled: 8 for each of two IDs per record.
/// Sealing folds it to the size that is needed.
const BLOOM_BITS_MAX: usize = 1 << 22;

const PROBES: u32 = 6;
/// Length of the smallest filter, in words of 64 bits.
const WORDS_MIN: usize = 1;

/// A filter that is being filled.
#[derive(Debug)]
pub(crate) struct BloomFilter {
    words: Vec<u64>,
    hasher: IdHasher,
}

impl BloomFilter {
    /// Adds the IDs of an encoded record.
    pub(crate) fn add(&mut self, encoded_record: &[u8]) {
        let words = &mut self.words;
        let size = words.len() * 64;
        let add = |hash| probes(hash, size).for_each(|bit| words[bit / 64] |= 1 << (bit % 64));
        self.hasher.each(encoded_record, add);
    }

    /// Returns the filter's bytes, folded as long as at most half of the bits are set. If half of them are
    /// set, the false positive rate is one in 64.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        while self.words.len() > WORDS_MIN {
            let (low, high) = self.words.split_at(self.words.len() / 2);
            let folded: Vec<u64> = low.iter().zip(high).map(|(low, high)| low | high).collect();
            let set: usize = folded.iter().map(|word| word.count_ones() as usize).sum();
            if set > folded.len() * 32 {
                break;
            }
            self.words = folded;
        }
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Default for BloomFilter {
    fn default() -> Self {
        Self { words: vec![0; BLOOM_BITS_MAX / 64], hasher: IdHasher::default() }
    }
}

/// Returns whether a segment with this filter may hold a record of the ID. There are no false negatives.
pub fn may_contain(filter: &[u8], site: &str, id_kind: IdKind, id: &str) -> bool {
    may_contain_hash(filter, id_hash(site, id_kind, id))
}

/// Returns whether a segment with this filter may hold a record of the ID with this hash.
pub(crate) fn may_contain_hash(filter: &[u8], hash: u64) -> bool {
    probes(hash, filter.len() * 8).all(|bit| filter[bit / 8] & (1 << (bit % 8)) != 0)
}

fn probes(hash: u64, filter_bits: usize) -> impl Iterator<Item = usize> {
    let start = hash as u32;
    let stride = (hash >> 32) as u32 | 1;
    (0..PROBES).map(move |i| start.wrapping_add(i.wrapping_mul(stride)) as usize & (filter_bits - 1))
}
