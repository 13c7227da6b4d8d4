//! The comparison of the arms of an experiment in each metric, for the answer.

use super::answer::sum_and_squares;
use super::count::{ArmCount, ExperimentCount, MetricSums};
use super::metrics::{Metric, Role};
use super::question::ExperimentQuestion;
use crate::insights::questions::scan::{Limits, ScanError};
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
            Self::Buyers => "buyers",
            Self::NonConversions => "non_conversions",
            Self::Baseline => "baseline",
        }
    }
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotToldApart => "not_told_apart",
            Self::TooEarly => "too_early",
        }
    }
}

impl GuardrailVerdict {
    pub(super) fn name(self) -> &'static str {
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
///
/// # Errors
/// The time is over.
pub(super) fn compare_arms(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    limits: &Limits<'_>,
) -> Result<Vec<ComparedMetric>, ScanError> {
    let baseline = baseline(question.baseline.as_deref(), &count.arms).unwrap_or(usize::MAX);
    let settings = Settings { alpha: question.alpha, method: question.method, baseline };
    let mut results = Vec::new();
    for (number, metric) in question.metrics.iter().enumerate() {
        if (limits.is_over)() {
            return Err(ScanError::TooExpensive);
        }
        let arms: Vec<ArmSums> = count.arms.iter().map(|arm| arm_sums(metric, &arm.sums[number])).collect();
        results.push(compare(kind(metric), &arms, &settings));
    }
    let is_secondary = |metric: &Metric| matches!(metric.role, Role::Value | Role::More);
    let secondary = question.metrics.iter().zip(&results).filter(|(metric, _)| is_secondary(metric));
    let p_values: Vec<_> = secondary.flat_map(|(_, result)| result.against.iter().map(|arm| arm.p)).collect();
    let mut adjusted = benjamini_hochberg(&p_values).into_iter();
    let compared = question.metrics.iter().zip(results).enumerate().map(|(number, (metric, result))| {
        let against = result.against.iter().map(|comparison| {
            let p_adjusted = if is_secondary(metric) { adjusted.next().flatten() } else { comparison.p };
            let verdict = verdict(metric, comparison, p_adjusted, question.alpha);
            ComparedArm { comparison: *comparison, p_adjusted, verdict }
        });
        let against = against.collect();
        let holdout = arm_sums(metric, &count.holdout.sums[number]);
        let holdout = summarize(kind(metric), &holdout, question.alpha);
        ComparedMetric { result, holdout, against }
    });
    Ok(compared.collect())
}

/// Returns the index of the baseline: the named arm, or by default the arm `default`, or the first one. An
/// arm that nobody can see has no index, and then nothing is compared.
pub(super) fn baseline(named: Option<&str>, arms: &[ArmCount]) -> Option<usize> {
    let find = |key: &str| arms.iter().position(|arm| arm.key == key);
    match named {
        Some(key) => find(key),
        None => find(BASELINE_DEFAULT).or(Some(0)),
    }
}

fn kind(metric: &Metric) -> MetricKind {
    if metric.column.is_some() { MetricKind::Mean } else { MetricKind::Proportion }
}

fn arm_sums(metric: &Metric, sums: &MetricSums) -> ArmSums {
    let (sum, sum_of_squares) = sum_and_squares(metric, sums);
    // A visitor with an order of 0 says as little about the spread of the amounts as one without an order.
    let converted = if metric.column.is_some() { sums.valued } else { sums.converted };
    ArmSums { visitors: sums.visitors, converted, sum, sum_of_squares }
}

fn verdict(metric: &Metric, comparison: &Comparison, p_adjusted: Option<f64>, alpha: f64) -> &'static str {
    match metric.margin {
        Some(margin) => comparison.guardrail_verdict(margin, metric.lower_is_better).name(),
        None => comparison.verdict(p_adjusted, alpha).name(),
    }
}
