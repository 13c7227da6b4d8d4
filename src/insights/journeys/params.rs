//! Parameters and numbers that several questions about journeys have.

use crate::insights::questions::question::QuestionError;
use crate::insights::questions::steps::Step;
use crate::site::goals::SiteGoals;

/// Parses a step of a question.
///
/// # Errors
/// Returns an error if the text is no step.
pub(super) fn parse_step(param_name: &str, text: &str, goals: &SiteGoals) -> Result<Step, QuestionError> {
    let expected = "the key of a goal in site.json, an event name, or 'page:' and a path";
    Step::parse(text, goals).ok_or_else(|| QuestionError::invalid(param_name, expected, text))
}

/// Returns the share of a part in the whole. `None` if the whole is 0.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
