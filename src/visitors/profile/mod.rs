//! The profile of one visitor: its encoding, and what an event or a merge changes in it.
//!
//! [`mod@profile`] describes the encoding. [`fold`] applies one event, [`merge`] joins two profiles of the same visitor, and
//! [`builder`] holds a profile while it changes.

pub mod builder;
pub(crate) mod event;
pub mod fold;
pub mod history;
pub mod merge;
pub mod profile;
mod sessions;
pub mod touch;
mod traits;
mod varint;

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
