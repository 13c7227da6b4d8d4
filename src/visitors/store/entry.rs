//! An entry of the table: its size and its cost.

use super::key::{EvictionClass, Key};

/// Size of an entry in the table of visitors, its header included. A profile has 16 KiB, plus its IDs. A
/// larger entry is a bug in the fold.
pub const TABLE_ENTRY_BYTES_MAX: usize = 32 * 1024;

/// Memory cost of an entry in addition to its value, in bytes. It is the sum of the record header
/// (24), the eviction node (24), the share of an index that is between 60 and 75 % full (14), and an
/// allowance (50) for the rounding of slot sizes, free slots and blocks that are not full.
pub const ENTRY_COST: u64 = 112;

/// A callback for each entry of a copy: its key, value and eviction class, and its put order, a
/// number that grows with each put.
pub(crate) type EntryVisitor<'t> = dyn FnMut(Key, &[u8], EvictionClass, u64) + 't;

/// Returns the cost of an entry. It depends only on the length of the value.
pub(super) fn cost(value_bytes: usize) -> u64 {
    ENTRY_COST + value_bytes as u64
}
