//! The times of an experiment: its begin, its end, its winner, and the steps of its coverage.

use super::operands::{parse_time_ms, time_text};
use crate::clock;
use crate::limits::RAMP_STEPS_MAX;
use crate::site::snapshot::format::CoverageStep;
use crate::site::source::types::{self, AuthoredCoverage, Experiment};

const _: () = assert!(RAMP_STEPS_MAX == 32, "the schema of `coverage` has the same number");

const TIME: &str = "a time with a UTC offset, such as \"2026-01-05T10:00:00Z\" (RFC 3339)";

/// A sink for errors. It takes a member, a title, the expected text and the actual one.
pub(super) type Report<'r> = &'r mut dyn FnMut(&str, &str, String, String);

/// Checks the times of an experiment.
pub(super) fn check(experiment: &Experiment, report: Report<'_>) {
    let from_ms = check_time("from", experiment.from.as_deref(), report);
    let to_ms = check_time("to", experiment.to.as_deref(), report);
    if let Some(to) = &experiment.to
        && from_ms.zip(to_ms).is_some_and(|(from_ms, to_ms)| from_ms >= to_ms)
    {
        report("to", "the experiment ends before it begins", "a time after `from`".to_owned(), to.clone());
    }
    check_winner(experiment, report);
    if let AuthoredCoverage::Ramp(steps) = &experiment.coverage {
        check_ramp(steps, report);
    }
}

/// Parses the time of a member. Reports an invalid one.
fn check_time(member: &str, text: Option<&str>, report: Report<'_>) -> Option<i64> {
    let text = text?;
    let time_ms = parse_time_ms(text);
    if time_ms.is_none() {
        report(member, "invalid time", TIME.to_owned(), format!("{text:?}"));
    }
    time_ms
}

fn check_winner(experiment: &Experiment, report: Report<'_>) {
    let Some(winner) = &experiment.winner else { return };
    if !experiment.variants.contains(winner) {
        let arms: Vec<&str> = experiment.variants.iter().map(|arm| &**arm).collect();
        let expected = format!("one of `variants`: {}", arms.join(", "));
        report("winner", "unknown arm", expected, winner.to_string());
    } else if experiment.to.is_none() {
        let now = time_text(clock::now_s() as i64 * 1_000);
        let expected = format!("the time from which it is shown, such as \"to\": \"{now}\"");
        report("winner", "a winner without `to`", expected, "no `to`".to_owned());
    }
}

fn check_ramp(steps: &[types::CoverageStep], report: Report<'_>) {
    let mut before_ms = i64::MIN;
    for (index, step) in steps.iter().enumerate() {
        let member = format!("coverage/{index}/from");
        let Some(from_ms) = check_time(&member, Some(&step.from), report) else { continue };
        if from_ms <= before_ms {
            let expected = "a time after that of the step before".to_owned();
            report(&member, "steps that are not in the order of time", expected, step.from.clone());
        }
        before_ms = from_ms;
    }
}

/// Returns the steps of a coverage. Their times are checked.
pub(super) fn coverages(coverage: &AuthoredCoverage) -> Vec<CoverageStep> {
    // An authored -0 becomes 0, so that equal coverages have equal bytes.
    match coverage {
        AuthoredCoverage::Share(share) => vec![CoverageStep { from_ms: i64::MIN, share: share.0 + 0.0 }],
        AuthoredCoverage::Ramp(steps) => {
            let step = |step: &types::CoverageStep| CoverageStep {
                from_ms: parse_time_ms(&step.from).unwrap_or_default(),
                share: step.share.0 + 0.0,
            };
            steps.iter().map(step).collect()
        }
    }
}

/// Returns the index of the winner.
pub(super) fn winner(experiment: &Experiment) -> Option<u8> {
    let winner = experiment.winner.as_ref()?;
    experiment.variants.iter().position(|arm| arm == winner).and_then(|index| u8::try_from(index).ok())
}
