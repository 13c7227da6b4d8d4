//! The table of visitors: one writer, wait-free readers, eviction in the order of the log.
//!
//! [`table`] is the public type. Only it and `memory` have `unsafe`. `bulk` loads a checkpoint. `index` finds
//! records by key, `slab` allocates them, `epoch` frees them when no reader can see them, and `eviction`
//! keeps the order in which visitors are evicted. `digest` compares the tables of several nodes. `sync` has
//! the atomic types.
//!
//! `tests/models/` compiles this directory by itself and runs it under loom and Miri. So no file here may use
//! another module of the crate.
//!
//! # Comparison with an existing map
//!
//! Figures of `cargo bench --bench table`, with 250 bytes per visitor, on two cores with other load. papaya
//! 0.2.5 holds boxed slices and has no eviction order. Our figures include the eviction order. Resident
//! memory is in bytes per entry, times are in nanoseconds. Times in brackets are with the other side (reader
//! or writer) working at the same time:
//!
//! | visitors   |            | resident | insert | replace       | look, found | look, not found |
//! |------------|------------|----------|--------|---------------|-------------|-----------------|
//! | 1 million  | this table | 327      | 484    | 619 (688)     | 148 (195)   | 118             |
//! |            | papaya     | 342      | 704    | 893 (1450)    | 224 (589)   | 43              |
//! | 10 million | this table | 328      | 1013   | 1141 (1464)   | 307 (504)   | 351             |
//! |            | papaya     | 350      | 1538   | 1506 (2253)   | 502 (1018)  | 155             |
//!
//! papaya is faster for keys that do not exist, because of its metadata bytes, but a request of an unknown
//! visitor has less other work. papaya is worse otherwise: a lookup follows one more pointer, a guard may
//! free memory on a reader's thread, and a rehash holds two whole tables at once. With the global allocator
//! in place of `slab`, an entry took 345 bytes, and the table took 7 % more than its cost after sizes had
//! changed. The longest put of 3 million took 0.4 ms of CPU time.

pub mod bulk;
pub(crate) mod digest;
mod entry;
mod epoch;
mod eviction;
mod index;
pub(crate) mod key;
mod memory;
mod memory_limit;
mod slab;
mod snapshot_copy;
mod sync;
pub mod table;
