//! Column files. A column file has the facts about the records of one segment, column by column.
//!
//! ```text
//! records of a segment --build, packing--> bytes --installer--> column file --reader--> columns --store--> columns of a log
//! ```
//!
//! [`missing`] builds the column files of sealed segments that have no valid column file. [`unstored`] keeps the
//! columns of a segment in memory if the disk has no room for the column file.

pub(crate) mod amounts;
pub(crate) mod build;
pub(crate) mod facts;
pub(crate) mod format;
pub(crate) mod goal_reader;
pub(crate) mod goals;
pub(crate) mod installer;
pub(crate) mod key;
pub(crate) mod missing;
pub(crate) mod packing;
mod properties;
pub(crate) mod reader;
pub(crate) mod store;
mod texts;
pub(crate) mod unstored;
