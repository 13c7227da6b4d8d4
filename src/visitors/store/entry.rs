//! What an entry of the table is called by, when it goes, and what it costs.

use super::slab::SLOTS_BYTES_FREE;
use crate::limits::{COPY_HELD_BYTES_MAX, RETIRED_BYTES};

/// What an entry takes beside its value, in bytes: its head 24, its node in the order 24, its share of an index that is between 60
/// and 75 % full 14, and of what its slot is larger than itself, of slots that are free, and of blocks that are not full, the rest.
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

/// The cost of an entry, from its contents only.
pub fn cost(value_bytes: usize) -> u64 {
    ENTRY_COST + value_bytes as u64
}

/// The most that a table holds whose entries cost so much at the most, copy and all. Visitors of a few hundred bytes stay under their
/// cost; values of many KiB may take a sixth more: a slot is a 32nd too large, a block's rest a 15th, and a 16th of slots is free.
pub const fn memory_bytes_max(cost_max: u64) -> u64 {
    // What is retired is twice its bound, and what one request's time adds.
    cost_max + cost_max / 6 + (SLOTS_BYTES_FREE + COPY_HELD_BYTES_MAX + 8 * RETIRED_BYTES) as u64
}
