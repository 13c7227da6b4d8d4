//! Recorded events: from the body of a request to the log, and from the log to the profile of each visitor.
//!
//! ```text
//! JSON --events--> record --log: append, sync--> segment files
//!                            `--apply--> profile: fold, merge --> store (the table of visitors) <--> checkpoint
//! ```
//!
//! [`apply`] decides which profile a record belongs to, [`live`] is the table as the log writer uses it, and [`lookup`] reads it
//! from the workers. [`verify`] compares two checkpoints.
//!
//! Invariants: the table is a function of the records in their order, of its hash key and of its memory limit. This module knows
//! no HTTP and no clock. Only [`log`] and [`checkpoint`] use files. Damaged bytes of a table cause no panic.

pub mod apply;
pub mod checkpoint;
pub mod events;
pub mod live;
pub mod log;
pub mod lookup;
pub mod profile;
pub mod store;
pub mod verify;
