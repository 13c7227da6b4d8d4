//! Experiments. Answers the question about one experiment, and the question for the list of all experiments.
//!
//! ```text
//! snapshot, phases --known--> definitions --question, metrics--> question
//! column files --read--> exposures and goals --count--> sums of each arm --split, comparison, decision--> answer, sql
//! ```

mod activity;
mod answer;
mod arm_count;
mod arms;
mod cap;
mod comparison;
mod count;
mod decision;
mod file_columns;
mod known;
mod list;
mod list_answer;
mod metric_answer;
mod metrics;
mod question;
mod read;
mod remaining;
mod segment_answer;
mod segment_reader;
mod segments;
mod split;
mod sql;
mod sums;
mod visitor;

pub(crate) use answer::answer_experiment;
pub use arms::UNKNOWN_ARMS_MAX;
pub(crate) use known::KnownSite;
pub use known::{KnownExperiment, Places, PublishedExperiment};
pub(crate) use list::EXPERIMENTS_PARAM_NAMES;
pub use list::ExperimentsQuestion;
pub(crate) use list_answer::answer_experiments;
pub use metrics::METRICS_MAX;
pub(crate) use question::EXPERIMENT_PARAM_NAMES;
pub use question::ExperimentQuestion;
