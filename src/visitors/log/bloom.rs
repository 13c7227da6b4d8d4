//! Whether a segment may hold anything of a visitor: a Bloom filter over hashes of (site, id).
//!
//! Two numbers of 32 bits come from an id's hash h: a = low half, b = high half with its lowest bit
//! set. Its bits are a + i * b, i from 0 to 5, modulo 2^32, each masked to the filter's size. So a
//! filter of half the size is the two halves put upon each other, and one that was filled at full
//! size is folded at the end to what its content needs. Bit n is bit n % 8 of byte n / 8.

use super::record;
use crate::checksum::table;
use crate::limits::FILTER_BITS;

const PROBES: u32 = 6;
/// The smallest filter.
const WORDS_MIN: usize = 1;

/// A filter that is being filled.
#[derive(Debug)]
pub struct Filter {
    words: Vec<u64>,
    scratch: Vec<u8>,
}

/// Whose id it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// An anonymous one.
    Anon,
    /// A user's.
    User,
}

impl Filter {
    /// Without a visitor.
    pub fn new() -> Self {
        Self { words: vec![0; FILTER_BITS / 64], scratch: Vec::new() }
    }

    /// Takes in the ids of an encoded record.
    pub fn add(&mut self, record: &[u8]) {
        let [site, anon_id, user_id] = record::ids(record);
        let site = site.unwrap_or_default();
        for (whose, id) in [(Whose::Anon, anon_id), (Whose::User, user_id)] {
            if let Some(id) = id {
                let hash = hash(site, whose, id, &mut self.scratch);
                let size = self.words.len() * 64;
                probes(hash, size).for_each(|bit| self.words[bit / 64] |= 1 << (bit % 64));
            }
        }
    }

    /// The bytes, folded as long as at most half of the bits are set: one in 64 strangers passes.
    pub fn into_bytes(mut self) -> Vec<u8> {
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

impl Default for Filter {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a segment with this filter may hold a record of the visitor. Never a wrong no.
pub fn may_contain(filter: &[u8], site: &str, whose: Whose, id: &str) -> bool {
    let hash = hash(site.as_bytes(), whose, id.as_bytes(), &mut Vec::new());
    probes(hash, filter.len() * 8).all(|bit| filter[bit / 8] & (1 << (bit % 8)) != 0)
}

fn hash(site: &[u8], whose: Whose, id: &[u8], scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    parts(site, whose, id).iter().for_each(|part| scratch.extend_from_slice(part));
    table(scratch)
}

/// What stands for an id in a hash, end to end: a byte that no UTF-8 has keeps a site and an id from reading like others.
pub fn parts<'a>(site: &'a [u8], whose: Whose, id: &'a [u8]) -> [&'a [u8]; 3] {
    let mark: &[u8] = match whose {
        Whose::Anon => b"\xFFa",
        Whose::User => b"\xFFu",
    };
    [site, mark, id]
}

fn probes(hash: u64, size: usize) -> impl Iterator<Item = usize> {
    let (start, stride) = (hash as u32, (hash >> 32) as u32 | 1);
    (0..PROBES).map(move |i| start.wrapping_add(i.wrapping_mul(stride)) as usize & (size - 1))
}
