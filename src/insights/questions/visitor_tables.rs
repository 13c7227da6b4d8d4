//! Sets and tables of visitors. A visitor is a hash already, so these tables do not hash it again.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A hasher for keys that are hashes already. The hashes of visitors have a secret key, so nobody can construct collisions. The
/// visitors of a part have the same upper bits, and a table compares the upper bits first. So the hasher swaps the upper and
/// the lower half.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A set of visitors.
pub(super) type Visitors = HashSet<u64, BuildHasherDefault<IdentityHasher>>;
/// A table with an entry for each of some visitors.
pub(super) type VisitorTable<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;
