//! What the log says of each visitor: records in, profiles out.
//!
//! ```text
//! record --Applier: whose is it?--> Draft: fold, merge, bound --> bytes in the Table --> Profile, read where it lies
//! ```
//!
//! [`profile`] is the encoding's description, [`identity`] says who is who, [`fold`] what an event changes and where the order of
//! arrival matters, [`merge`] what becomes of two profiles that are one visitor's.
//!
//! What always holds: the table is a function of the records in their order, of its secret and of its bound; no HTTP, no clock, and
//! files in [`checkpoint`] only; whatever the bytes of a table are, nothing panics.

mod bytes;
pub mod checkpoint;
pub mod draft;
mod entry;
mod epochs;
mod event;
pub mod fold;
pub mod history;
pub mod identity;
mod index;
pub mod live;
pub mod lookup;
pub mod merge;
mod order;
pub mod profile;
mod slots;
pub mod table;
pub mod touch;
mod traits;
mod visits;

/// What was left out of profiles, for the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Values, or names, of traits that are too large, or hold a number that no float is.
    pub traits_too_large: u64,
    /// Operations on a value of another type.
    pub operations_of_another_type: u64,
    /// Visitors that went for the bound of the table.
    pub visitors_evicted: u64,
}
