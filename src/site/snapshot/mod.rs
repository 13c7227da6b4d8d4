//! Snapshot files: the format, and how a file becomes verified, immutable, mapped memory.

pub mod format;
pub mod hash_index;
pub mod open;
mod verify;
