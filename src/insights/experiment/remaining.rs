//! Estimates the number of days until an experiment has enough visitors. There are enough visitors if the experiment
//! can find the smallest interesting change of its goal.

use super::arm_count::ArmCount;
use super::comparison::baseline;
use super::count::ExperimentCount;
use super::metrics::Role;
use super::question::ExperimentQuestion;
use crate::insights::statistics::sample_size::{Target, days_left, visitors_per_arm};

const DAY_MS: f64 = 86_400_000.0;
/// Minimum elapsed time from which the new visitors per day are computed, in milliseconds. A shorter time counts as this
/// time, because the first minutes give no good estimate.
const ELAPSED_MS_MIN: i64 = 3_600_000;

/// Returns the number of days until each arm with a weight above 0 has enough visitors. Returns `None` if the number
/// cannot be computed. For example, the question names no goal or no change to find, or the smallest arm gets no new
/// visitors. If `weights` is `None`, all arms count.
pub(super) fn remaining_days(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    weights: Option<&[f64]>,
    now_ms: i64,
) -> Option<u64> {
    let lift = question.lift?;
    let goal = question.metrics.iter().position(|metric| metric.role == Role::Goal)?;
    let sums = count.arms.get(baseline(question.baseline.as_deref(), &count.arms)?)?.sums[goal];
    let rate = sums.converted as f64 / sums.visitors as f64;
    let target = Target { rate, lift, alpha: question.alpha, power: question.power };
    let needed = visitors_per_arm(&target, question.method)?;
    let is_compared = |number: usize| weights.is_none_or(|weights| weights[number] > 0.0);
    let arms = count.arms.iter().enumerate().filter(|(number, _)| is_compared(*number));
    let smallest = arms.map(|(_, arm)| arm).min_by_key(|arm| arm.exposed)?;
    let until_ms = now_ms.min(question.range.end);
    days_left(needed, smallest.exposed, new_per_day(smallest, until_ms))
}

/// Returns the average number of new visitors of an arm per day since the first visitor of the arm.
fn new_per_day(arm: &ArmCount, until_ms: i64) -> f64 {
    let Some(first_ms) = arm.first_ms else { return 0.0 };
    let elapsed_ms = until_ms.saturating_sub(first_ms).max(ELAPSED_MS_MIN);
    arm.exposed as f64 * DAY_MS / elapsed_ms as f64
}
