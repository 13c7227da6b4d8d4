//! The statistics of experiments: pure functions over sums.
//!
//! The input is a few sums per arm: visitors, values, squares of values. The caller chooses visitors, metrics
//! and phases. Every function accepts every input: a result that would not be finite is absent.
//!
//! [`metric::compare`] is the entry point. It summarizes each arm, decides where a comparison is too early,
//! and gives the relative change of each arm against the baseline. Its interval is valid at every look by
//! default, so that daily looks raise no additional false alarms.

pub(crate) mod bayesian;
pub(crate) mod difference;
pub(crate) mod distributions;
pub(crate) mod many;
pub(crate) mod metric;
pub(crate) mod mismatch;
pub(crate) mod moments;
pub(crate) mod msprt;
pub(crate) mod rates;
pub(crate) mod sample_size;
