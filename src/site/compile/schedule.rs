//! The times of an experiment: its begin, its end, its winner, and the steps of its coverage.

use super::operands::{parse_time_ms, time_text};
use crate::clock;
use crate::limits::RAMP_STEPS_MAX;
use crate::site::snapshot::format::CoverageStep;
use crate::site::source::types::{self, AuthoredCoverage, Experiment};

const _: () = assert!(RAMP_STEPS_MAX == 32, "the schema of `coverage` has the same number");

const TIME: &str = "a time with a UTC offset, such as \"2026-01-05T10:00:00Z\" (RFC 3339)";

/// Checks the times of an experiment. `report` takes a member, a title, the expected text and the actual one.
pub(super) fn check(experiment: &Experiment, report: &mut dyn FnMut(&str, String, String, String)) {
    let mut parse = |member: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        let time_ms = parse_time_ms(text);
        if time_ms.is_none() {
            report(member, format!("invalid `{member}`"), TIME.to_owned(), format!("{text:?}"));
        }
        time_ms
    };
    let from_ms = parse("from", &experiment.from);
    let to_ms = parse("to", &experiment.to);
    if from_ms.zip(to_ms).is_some_and(|(from_ms, to_ms)| from_ms >= to_ms) {
        let to = experiment.to.clone().unwrap_or_default();
        report("to", "the experiment ends before it begins".to_owned(), "a time after `from`".to_owned(), to);
    }
    if let Some(winner) = &experiment.winner {
        if !experiment.variants.contains(winner) {
            let arms: Vec<&str> = experiment.variants.iter().map(|arm| &**arm).collect();
            let expected = format!("one of `variants`: {}", arms.join(", "));
            report("winner", "unknown arm".to_owned(), expected, winner.to_string());
        } else if experiment.to.is_none() {
            let expected = format!(
                "the time from which it is shown, such as \"to\": \"{}\"",
                time_text(clock::now_ms())
            );
            report("winner", "a winner without `to`".to_owned(), expected, "no `to`".to_owned());
        }
    }
    if let AuthoredCoverage::Ramp(steps) = &experiment.coverage {
        let mut before = i64::MIN;
        for (index, step) in steps.iter().enumerate() {
            let member = format!("coverage/{index}/from");
            match parse_time_ms(&step.from) {
                None => report(
                    &member,
                    "invalid time of a step".to_owned(),
                    TIME.to_owned(),
                    format!("{:?}", step.from),
                ),
                Some(from_ms) if from_ms <= before => {
                    let expected = "a time after that of the step before".to_owned();
                    report(
                        &member,
                        "steps that are not in the order of time".to_owned(),
                        expected,
                        step.from.clone(),
                    );
                }
                Some(from_ms) => before = from_ms,
            }
        }
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
