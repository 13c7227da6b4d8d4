//! The table of visitors on the only thread, in place of the one that other threads read.

#[path = "../visitors/store/entry.rs"]
mod entry;
#[path = "../visitors/store/eviction.rs"]
mod eviction;
#[path = "../visitors/store/key.rs"]
pub(crate) mod key;
pub mod table;
