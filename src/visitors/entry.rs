//! What an entry of the table is called by, when it goes, and what it costs.

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
