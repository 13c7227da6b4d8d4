//! The question about the zones of a page: the variants that they showed, and the events that followed.
//!
//! The answer does not compare the variants of a zone, because a visitor may have seen several of them.

mod answer;
mod count;
mod question;
mod sql;
mod texts;

pub(super) use answer::write_zones;
pub(super) use count::count_zones;
pub(crate) use question::ZONES_PARAM_NAMES;
pub use question::{ZONES_LIMIT_MAX, ZonesQuestion};
