//! The profile of one visitor: its encoding, and the changes that an event or a merge makes to it.
//!
//! [`mod@profile`] describes the encoding. [`fold`] applies one event, [`merge`] joins two profiles of the
//! same visitor, and
//! [`builder`] holds a profile while it changes.

pub mod builder;
pub mod enrolments;
pub(crate) mod event;
pub(crate) mod fold;
mod histories;
pub mod history;
pub(crate) mod last_context;
pub(crate) mod merge;
pub mod profile;
pub mod projection;
mod sessions;
pub mod touch;
mod traits;

use crate::varint;

/// Counters of the values and visitors that limits removed or left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoldCounts {
    /// Trait writes ignored because the value or the name is too large, or a number does not fit a float.
    pub traits_too_large: u64,
    /// Operations ignored because the trait has a value of another type.
    pub type_mismatches: u64,
    /// Visitors evicted because of the table's memory limit.
    pub visitors_evicted: u64,
}
