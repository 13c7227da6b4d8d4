//! Content queries of a published site: parameter values, sort order, cursors, evaluation.

pub mod cursor;
pub mod order;
pub(crate) mod params;
pub(crate) mod run;
