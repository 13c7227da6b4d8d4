//! The question about the zones of a page. The answer has the shown variants of each zone, and the events after the
//! views of each variant.
//!
//! The answer does not compare the variants of a zone, because one visitor can see several variants.

mod answer;
mod count;
mod question;
mod sql;
mod texts;

pub(super) use answer::write_zones;
pub(super) use count::count_zones;
pub(crate) use question::ZONES_PARAM_NAMES;
pub use question::{ZONES_LIMIT_MAX, ZonesQuestion};
