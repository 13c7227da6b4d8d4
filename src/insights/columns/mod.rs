//! Column files: the facts of the records of a segment, column by column.
//!
//! ```text
//! records of a segment --build, packing--> bytes --installer--> column file --reader--> columns --store--> columns of a log
//! ```
//!
//! [`missing`] builds the files that sealed segments lack. [`unstored`] keeps columns in memory if the disk has no
//! room for them.

pub(crate) mod amounts;
pub(crate) mod build;
pub(crate) mod facts;
pub(crate) mod format;
pub(crate) mod installer;
pub(crate) mod key;
pub(crate) mod missing;
pub(crate) mod packing;
pub(crate) mod reader;
pub(crate) mod store;
pub(crate) mod unstored;
