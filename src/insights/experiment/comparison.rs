//! The comparison of the arms of an experiment in each metric, for the answer.

use super::answer::sum_and_squares;
use super::count::{ExperimentCount, HOLDOUT, MetricSums};
use super::question::{ExperimentQuestion, Metric, Role};
use crate::insights::statistics::many::benjamini_hochberg;
use crate::insights::statistics::metric::{
    ArmSummary, ArmSums, Comparison, GuardrailVerdict, MetricKind, MetricResult, Settings, TooEarly, Verdict,
    compare, summarize,
};

/// The arm that is the baseline unless the question names another one.
const BASELINE_DEFAULT: &str = "default";

/// The comparison of the arms in one metric.
pub(super) struct ComparedMetric {
    /// The arms without the holdout are in the order of the count.
    pub result: MetricResult,
    pub holdout: ArmSummary,
    /// One for each of `result.against`.
    pub against: Vec<ComparedArm>,
}

/// An arm beside the baseline.
pub(super) struct ComparedArm {
    pub comparison: Comparison,
    pub p_adjusted: Option<f64>,
    pub verdict: &'static str,
}

impl TooEarly {
    /// Returns the reason's name in an answer.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Visitors => "visitors",
            Self::Conversions => "conversions",
            Self::NonConversions => "non_conversions",
            Self::Baseline => "baseline",
        }
    }
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotToldApart => "not_told_apart",
            Self::TooEarly => "too_early",
        }
    }
}

impl GuardrailVerdict {
    fn name(self) -> &'static str {
        match self {
            Self::Harmed => "harmed",
            Self::NotToldApart => "not_told_apart",
            Self::NoWorse => "no_worse",
            Self::TooEarly => "too_early",
        }
    }
}

/// Compares the arms in each metric. The p-values of `value` and `more` are adjusted together, because each is another
/// chance of a false alarm.
pub(super) fn compare_arms(question: &ExperimentQuestion, count: &ExperimentCount) -> Vec<ComparedMetric> {
    let metrics = question.metrics();
    let settings =
        Settings { alpha: question.alpha, method: question.method, baseline: baseline(question, count) };
    let results: Vec<MetricResult> = metrics
        .iter()
        .enumerate()
        .map(|(number, metric)| {
            let arms: Vec<ArmSums> = arms(count).map(|(_, sums)| arm_sums(metric, &sums[number])).collect();
            compare(kind(metric), &arms, &settings)
        })
        .collect();
    let is_secondary = |metric: &Metric| matches!(metric.role, Role::Value | Role::More);
    let secondary = metrics.iter().zip(&results).filter(|(metric, _)| is_secondary(metric));
    let p_values: Vec<_> = secondary.flat_map(|(_, result)| result.against.iter().map(|arm| arm.p)).collect();
    let mut adjusted = benjamini_hochberg(&p_values).into_iter();
    let compared = metrics.iter().zip(results).enumerate().map(|(number, (metric, result))| {
        let against = result.against.iter().map(|comparison| {
            let p_adjusted = if is_secondary(metric) { adjusted.next().flatten() } else { comparison.p };
            let verdict = verdict(metric, comparison, p_adjusted, question.alpha);
            ComparedArm { comparison: *comparison, p_adjusted, verdict }
        });
        let against = against.collect();
        let holdout = count.arms.get(HOLDOUT).map_or_else(MetricSums::default, |(_, sums)| sums[number]);
        let holdout = summarize(kind(metric), &arm_sums(metric, &holdout), question.alpha);
        ComparedMetric { result, holdout, against }
    });
    compared.collect()
}

/// Returns the arms without the holdout.
pub(super) fn arms(count: &ExperimentCount) -> impl Iterator<Item = (&str, &[MetricSums])> {
    let arms = count.arms.iter().filter(|(arm, _)| *arm != HOLDOUT);
    arms.map(|(arm, (_, sums))| (arm.as_str(), sums.as_slice()))
}

/// Returns the index of the baseline. An arm that nobody saw has none, and then nothing is compared.
fn baseline(question: &ExperimentQuestion, count: &ExperimentCount) -> usize {
    let find = |key: &str| arms(count).position(|(arm, _)| arm == key);
    match &question.baseline {
        Some(key) => find(key).unwrap_or(usize::MAX),
        None => find(BASELINE_DEFAULT).unwrap_or(0),
    }
}

fn kind(metric: &Metric) -> MetricKind {
    if metric.column.is_some() { MetricKind::Mean } else { MetricKind::Proportion }
}

fn arm_sums(metric: &Metric, sums: &MetricSums) -> ArmSums {
    let (sum, sum_of_squares) = sum_and_squares(metric, sums);
    ArmSums { visitors: sums.visitors, converted: sums.converted, sum, sum_of_squares }
}

fn verdict(metric: &Metric, comparison: &Comparison, p_adjusted: Option<f64>, alpha: f64) -> &'static str {
    match metric.margin {
        Some(margin) => comparison.guardrail_verdict(margin, metric.lower_is_better).name(),
        None => comparison.verdict(p_adjusted, alpha).name(),
    }
}
