//! The key of an entry, and its eviction class.

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
