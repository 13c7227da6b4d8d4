//! A digest of all entries, kept up to date with each change: the sum of their hashes, modulo 2^128. It does
//! not depend on the order of the entries, and covers key, value and eviction class.

use super::key::{EvictionClass, Key};
use super::table::Table;

/// A function that hashes an entry. It is a parameter, because no file here uses another module of the crate.
pub(crate) type EntryHash = fn(Key, &[u8], EvictionClass) -> u128;

/// The digest of the present entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableDigest {
    hash: EntryHash,
    sum: u128,
}

impl TableDigest {
    pub(super) fn add(&mut self, key: Key, value: &[u8], class: EvictionClass) {
        self.sum = self.sum.wrapping_add((self.hash)(key, value, class));
    }

    pub(super) fn remove(&mut self, key: Key, value: &[u8], class: EvictionClass) {
        self.sum = self.sum.wrapping_sub((self.hash)(key, value, class));
    }
}

impl Table {
    /// Keeps a digest from now on. Hashes all present entries once.
    pub fn keep_digest(&mut self, hash: EntryHash) {
        let mut digest = TableDigest { hash, sum: 0 };
        self.visit(&mut |key, value, class, _| digest.add(key, value, class));
        self.digest = Some(digest);
    }

    /// Returns the digest of all entries, or 0 if none is kept.
    pub fn digest(&self) -> u128 {
        self.digest.map_or(0, |digest| digest.sum)
    }
}
