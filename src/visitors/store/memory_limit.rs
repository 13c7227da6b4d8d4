//! The memory of a table, from the cost of its entries.

use super::epoch::RETIRED_BYTES;
use super::slab::{FREE_SLOTS_BYTES_MAX, HUGE_PAGE_BYTES};
use super::snapshot_copy::COPY_PRESERVED_BYTES_MAX;

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
