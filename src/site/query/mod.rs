//! Content queries of a published site: parameter values, sort order, cursors, evaluation.

pub(crate) mod cursor;
pub(crate) mod order;
pub(crate) mod params;
pub(crate) mod run;
