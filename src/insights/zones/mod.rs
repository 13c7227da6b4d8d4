//! The variants that the zones of a page showed, and the events that followed.
//!
//! The variants of a zone are not compared here: each visitor may have seen several of them.

mod answer;
mod count;
mod published;
mod question;
mod sql;

pub(super) use answer::write_zones;
pub(super) use count::count_zones;
pub use published::PublishedZone;
pub(crate) use published::published_zones;
pub(crate) use question::ZONES_PARAM_NAMES;
pub use question::{ZONES_LIMIT_MAX, ZonesQuestion};
