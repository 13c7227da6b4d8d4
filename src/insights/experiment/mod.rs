//! Experiments: the question about one, the visitors of its arms, and the comparison of the arms.

mod answer;
mod comparison;
mod count;
mod question;
mod sql;

pub(super) use answer::write_experiment;
pub(super) use count::count_experiment;
pub(crate) use question::EXPERIMENT_PARAM_NAMES;
pub use question::{ExperimentQuestion, METRICS_MAX};
