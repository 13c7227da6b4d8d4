//! Content queries of a published site: parameter values, sort order, cursors, evaluation.

pub mod cursor;
pub mod order;
pub mod params;
pub mod run;
