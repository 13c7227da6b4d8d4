//! Snapshot files: the format, and how a file becomes verified, immutable, mapped memory.

mod experiment_format;
pub(crate) mod format;
pub(crate) mod hash_index;
pub(crate) mod open;
pub(crate) mod pieces;
mod verify;
mod zone_format;
