//! Checks whether the visitors are split among the arms as the weights of the phase say, and raises alarms: if they are
//! not, and if other nodes of a cluster have visitors and goals that the count lacks.

use super::activity::Activity;
use super::count::ExperimentCount;
use super::question::ExperimentQuestion;
use crate::condition::{self, without_residue};
use crate::insights::statistics::metric::has_too_many_doubtful;
use crate::insights::statistics::mismatch::{Mismatch, test_any_time, test_errors};
use crate::site::catalog::phases::{Coverage, Phase};

/// The result of the test of the split, and the alarms.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// The planned share of each arm. `None` if no phase has begun at the start of the range.
    pub weights: Option<Vec<f64>>,
    /// The test of the split. `None` if the split was not tested. Then `reason` has the cause.
    pub mismatch: Option<Mismatch>,
    /// The reason if the split was not tested.
    pub reason: Option<&'static str>,
    pub alarms: Vec<&'static str>,
}

/// The numbers of visitors that the test and the alarms need.
pub(super) struct Visitors<'c> {
    /// The key of each arm, and its numbers of exposed visitors, by the coverage at the first exposure.
    pub arms: Vec<(&'c str, &'c [u64])>,
    /// The number of visitors of arms that are not compared.
    pub others: u64,
    /// The number of visitors with more than one arm.
    pub both: u64,
    /// The number of visitors of the holdout.
    pub held_out: u64,
    /// The number of visitors of each arm with an error event. Empty if they are not counted.
    pub errors: Vec<u64>,
    pub activity: Activity,
    /// True if the published experiment runs and is open for new visitors.
    pub is_open: bool,
    /// True if the amounts have more than one currency.
    pub has_mixed_currencies: bool,
}

impl Visitors<'_> {
    /// Returns the number of exposed visitors of all compared arms.
    pub(super) fn exposed(&self) -> u64 {
        self.arms.iter().flat_map(|(_, exposed)| exposed.iter()).sum()
    }

    /// Returns whether the visitors with an error event are split in another way than all exposed visitors.
    fn fail_unevenly(&self) -> bool {
        let exposed = self.arms.iter().map(|(_, exposed)| exposed.iter().sum());
        let exposed: Vec<u64> = exposed.collect();
        test_errors(&self.errors, &exposed).is_some_and(|mismatch| mismatch.is_alarm)
    }
}

impl Split {
    /// Compares the split in the range of a question with the weights of the phase.
    pub(super) fn of(question: &ExperimentQuestion, count: &ExperimentCount, now_ms: i64) -> Self {
        let visitors = Visitors {
            arms: count.arms.iter().map(|arm| (arm.key.as_str(), arm.exposed_at.as_slice())).collect(),
            others: count.other_exposed(),
            both: count.both,
            held_out: count.holdout.exposed,
            errors: count.arms.iter().map(|arm| arm.errors).collect(),
            activity: count.activity,
            is_open: question.known.is_open(now_ms),
            has_mixed_currencies: count.money.is_mixed(),
        };
        Self::between(&visitors, question.phases(), question.range.start)
    }

    /// Tests the split in a range. `phases` are the phases that overlap the range. `start_ms` is the start of the
    /// range.
    pub(super) fn between(visitors: &Visitors<'_>, phases: &[Phase], start_ms: i64) -> Self {
        let first = phases.first().filter(|phase| phase.from_ms() <= start_ms);
        let weights = first.map(|phase| weights_of(phase, visitors));
        // If the range starts before the first phase, the start of the first phase is no change of the weights.
        let is_changed = phases.len() > 1;
        let exposed_in_arms = visitors.exposed();
        let is_tested = !is_changed && exposed_in_arms > 0;
        let mismatch =
            first.filter(|_| is_tested).and_then(|phase| test_any_time(&periods_of(phase, visitors)));
        let reason = match weights {
            None => Some("weights_unknown"),
            Some(_) if is_changed => Some("phase_changed"),
            Some(_) if exposed_in_arms == 0 => Some("no_visitors"),
            Some(_) => mismatch.is_none().then_some("one_arm"),
        };
        let exposed = exposed_in_arms + visitors.others + visitors.held_out + visitors.both;
        let unplanned = visitors.others + unplanned_in_arms(visitors, phases);
        let alarms = [
            ("srm", mismatch.is_some_and(|mismatch| mismatch.is_alarm)),
            ("both_arms", has_too_many_doubtful(visitors.both, exposed)),
            ("zero_weight", weights.is_some() && has_too_many_doubtful(unplanned, exposed)),
            ("phase_changed", is_changed),
            ("arm_error", visitors.fail_unevenly()),
            ("enrolment_stalled", visitors.is_open && visitors.activity.has_stalled(exposed)),
            ("mixed_currencies", visitors.has_mixed_currencies),
        ];
        let alarms = alarms.into_iter().filter(|(_, is_raised)| *is_raised).map(|(name, _)| name).collect();
        Self { weights, mismatch, reason, alarms }
    }
}

/// Returns for each coverage of the phase the numbers of visitors of the arms, and the shares that are due to the arms.
fn periods_of(phase: &Phase, visitors: &Visitors<'_>) -> Vec<(Vec<u64>, Vec<f64>)> {
    let period = |(index, coverage): (usize, &Coverage)| {
        let weights = phase.arms.iter().map(|arm| arm.weight);
        let shares = condition::bucket_shares(condition::ranges_of_weights(weights, coverage.share));
        let observed = visitors.arms.iter().map(|(_, exposed)| exposed.get(index).copied().unwrap_or(0));
        (observed.collect(), shares_of(phase, &shares, visitors))
    };
    phase.coverages.iter().enumerate().map(period).collect()
}

/// Returns the weight of each arm. If the phase does not have the arm, the weight is 0.
fn weights_of(phase: &Phase, visitors: &Visitors<'_>) -> Vec<f64> {
    let weights: Vec<f64> = phase.arms.iter().map(|arm| arm.weight).collect();
    shares_of(phase, &weights, visitors)
}

/// Returns the share of each compared arm. `shares` are those of the arms of the phase, which may have the same key.
fn shares_of(phase: &Phase, shares: &[f64], visitors: &Visitors<'_>) -> Vec<f64> {
    let share_of = |key: &str| {
        let arms = phase.arms.iter().zip(shares).filter(|(arm, _)| arm.key == key);
        without_residue(arms.map(|(_, share)| share).sum())
    };
    visitors.arms.iter().map(|(arm, _)| share_of(arm)).collect()
}

/// Returns the number of visitors of unplanned arms: compared arms that no phase shows to visitors.
fn unplanned_in_arms(visitors: &Visitors<'_>, phases: &[Phase]) -> u64 {
    let is_shown = |key: &str| {
        let is_open = |phase: &&Phase| phase.coverages.iter().any(|coverage| coverage.share > 0.0);
        let mut arms = phases.iter().filter(is_open).flat_map(|phase| &phase.arms);
        arms.any(|shown| shown.key == key && shown.weight > 0.0)
    };
    visitors.arms.iter().filter(|(arm, _)| !is_shown(arm)).flat_map(|(_, exposed)| exposed.iter()).sum()
}
