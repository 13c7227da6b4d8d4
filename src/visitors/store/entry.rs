//! An entry of the table: its key, its eviction class and its cost.

use super::epoch::RETIRED_BYTES;
use super::slab::{FREE_SLOTS_BYTES_MAX, HUGE_PAGE_BYTES};
use super::snapshot_copy::COPY_PRESERVED_BYTES_MAX;

/// Size of an entry in the table of visitors, its header included. A profile has 16 KiB, plus its IDs. A
/// larger entry is a bug in the fold.
pub const TABLE_ENTRY_BYTES_MAX: usize = 32 * 1024;

/// Memory cost of an entry in addition to its value, in bytes. It is the sum of the record header
/// (24), the eviction node (24), the share of an index that is between 60 and 75 % full (14), and an
/// allowance (50) for the rounding of slot sizes, free slots and blocks that are not full.
pub const ENTRY_COST: u64 = 112;

/// The key of an entry: a hash with a secret seed, so that clients cannot construct collisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub [u64; 2]);

/// The eviction class of an entry: the group in which it waits for eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictionClass {
    /// An alias. It is never evicted by itself, only together with its profile.
    Pinned,
    /// A visitor with at most one visit. Evicted first, in the order of the last put.
    SingleVisit,
    /// A visitor with more visits. Evicted after all single-visit visitors, in the order of the last put.
    Returning,
}

/// A callback for each entry of a copy: its key, value and eviction class, and its put order, a
/// number that grows with each put.
pub(crate) type EntryVisitor<'t> = dyn FnMut(Key, &[u8], EvictionClass, u64) + 't;

/// Returns the cost of an entry. It depends only on the length of the value.
pub(super) fn cost(value_bytes: usize) -> u64 {
    ENTRY_COST + value_bytes as u64
}

/// Returns the maximum memory, in bytes, of a table whose entries cost at most `cost_max`, a running
/// copy included. With values of a few hundred bytes the memory stays below the cost. With values of
/// many KiB it may be a sixth above: a slot is up to a 32nd larger than its record, the unused end of
/// a block is up to a 15th, and a 16th of the slots is free.
pub const fn memory_bytes_max(cost_max: u64) -> u64 {
    // Retired memory is up to twice RETIRED_BYTES, plus the records that are replaced while one request
    // is handled. The last huge page in use may be almost empty.
    let fixed = FREE_SLOTS_BYTES_MAX + HUGE_PAGE_BYTES + COPY_PRESERVED_BYTES_MAX + 8 * RETIRED_BYTES;
    cost_max + cost_max / 6 + fixed as u64
}
