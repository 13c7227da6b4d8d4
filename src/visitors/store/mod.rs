//! The table of visitors: one writer, wait-free readers, eviction in the order of the log.
//!
//! [`table`] is the public type and the only file with `unsafe`. `index` finds records by key, `slab` allocates them, `epoch` frees
//! them when no reader can see them, and `eviction` keeps the order in which visitors are evicted.

mod entry;
mod epoch;
mod eviction;
mod index;
mod slab;
mod snapshot_copy;
pub mod table;
