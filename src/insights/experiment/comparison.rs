//! Compares the arms of an experiment in each metric.

use super::arm_count::ArmCount;
use super::count::ExperimentCount;
use super::metrics::{Metric, Role};
use super::question::ExperimentQuestion;
use super::segments::DimensionCount;
use super::sums::MetricSums;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::statistics::cuped::CupedSums;
use crate::insights::statistics::difference::Method;
use crate::insights::statistics::many::{benjamini_hochberg, e_benjamini_hochberg};
use crate::insights::statistics::metric::{
    ArmSummary, ArmSums, Comparison, GuardrailVerdict, MetricKind, MetricResult, Settings, TooEarly, Verdict,
    compare, summarize,
};

/// The key of the default baseline.
const BASELINE_DEFAULT: &str = "default";

/// The comparison of the arms in one metric.
pub(super) struct ComparedMetric {
    /// The result. It has the arms in the order of [`ExperimentCount::arms`], without the holdout.
    pub result: MetricResult,
    /// The holdout. A segment has none.
    pub holdout: ArmSummary,
    /// One entry for each entry of `result.against`.
    pub against: Vec<ComparedArm>,
}

/// The comparison of the arms in one segment: one entry for each metric.
pub(super) type ComparedSegment = Vec<ComparedMetric>;

/// An arm that is compared with the baseline.
pub(super) struct ComparedArm {
    pub comparison: Comparison,
    pub p_adjusted: Option<f64>,
    /// `None` if the verdict is withheld.
    pub verdict: Option<&'static str>,
}

impl TooEarly {
    /// Returns the name of the reason in an answer.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Visitors => "visitors",
            Self::Conversions => "conversions",
            Self::Buyers => "buyers",
            Self::Spread => "spread",
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

/// Compares the arms in each metric. Adjusts the p-values of the metrics `value` and `more` together, because each
/// additional metric increases the probability of a false alarm.
///
/// # Errors
/// Returns an error if the time is over.
pub(super) fn compare_arms(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    limits: &Limits<'_>,
) -> Result<Vec<ComparedMetric>, ScanError> {
    let results = compare_metrics(question, count, &count.arms, limits)?;
    let is_secondary = |metric: &Metric| matches!(metric.role, Role::Value | Role::More);
    let secondary = question.metrics.iter().zip(&results).filter(|(metric, _)| is_secondary(metric));
    let p_values: Vec<_> = secondary.flat_map(|(_, result)| result.against.iter().map(|arm| arm.p)).collect();
    let mut adjusted = benjamini_hochberg(&p_values).into_iter();
    let compared = question.metrics.iter().zip(results).enumerate().map(|(number, (metric, result))| {
        let against = result.against.iter().map(|comparison| {
            let p_adjusted = if is_secondary(metric) { adjusted.next().flatten() } else { comparison.p };
            let verdict = Some(verdict(metric, comparison, p_adjusted, question.alpha));
            ComparedArm { comparison: *comparison, p_adjusted, verdict }
        });
        let against = against.collect();
        let holdout = arm_sums(&count.holdout.sums[number]);
        let holdout = summarize(kind(metric), &holdout, question.alpha);
        ComparedMetric { result, holdout, against }
    });
    Ok(compared.collect())
}

/// Compares the arms of a segment, or of all visitors, in each metric.
fn compare_metrics(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    arms: &[ArmCount],
    limits: &Limits<'_>,
) -> Result<Vec<MetricResult>, ScanError> {
    let baseline = baseline(question.baseline.as_deref(), &count.arms).unwrap_or(usize::MAX);
    let settings = Settings { alpha: question.alpha, method: question.method, baseline };
    let compare_metric = |(number, metric): (usize, &Metric)| {
        limits.check_time()?;
        let sums = || arms.iter().map(|arm| &arm.sums[number]);
        let arms: Vec<ArmSums> = sums().map(arm_sums).collect();
        let cuped: Option<Vec<CupedSums>> = question.cuped.then(|| sums().map(cuped_sums).collect());
        Ok(compare(kind(metric), &arms, cuped.as_deref(), &settings))
    };
    question.metrics.iter().enumerate().map(compare_metric).collect()
}

/// Compares the arms in each segment of a dimension. The results are in the order of the dimensions and of their segments.
///
/// The p-values of goals and values in all segments are adjusted together. With the anytime-valid method, each p-value is 1
/// divided by an e-value of the present look. So at most `alpha` of the verdicts are expected to be false at any look. With the
/// fixed method there is no such bound, so there is no verdict. A guardrail has none either, because its margin has no p-value.
///
/// # Errors
/// Returns an error if the time is over.
pub(super) fn compare_segments(
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    limits: &Limits<'_>,
) -> Result<Vec<Vec<ComparedSegment>>, ScanError> {
    let compare = |dimension: &DimensionCount| {
        let segments = dimension.segments.iter();
        segments.map(|segment| compare_metrics(question, count, &segment.arms, limits)).collect()
    };
    let results: Vec<Vec<Vec<MetricResult>>> =
        count.dimensions.iter().map(compare).collect::<Result<_, _>>()?;
    let is_judged = |metric: &Metric| {
        let is_added_up = !(metric.is_amount() && count.money.is_mixed());
        matches!(question.method, Method::Anytime { .. }) && metric.role != Role::Guardrail && is_added_up
    };
    let judged = results.iter().flatten().flat_map(|results| question.metrics.iter().zip(results));
    let judged = judged.filter(|(metric, _)| is_judged(metric)).flat_map(|(_, result)| &result.against);
    let p_values: Vec<_> = judged.map(|comparison| comparison.p).collect();
    let mut adjusted = e_benjamini_hochberg(&p_values).into_iter();
    let mut judge = |(metric, result): (&Metric, MetricResult)| {
        let against = result.against.iter().map(|comparison| {
            let p_adjusted = if is_judged(metric) { adjusted.next().flatten() } else { None };
            let verdict = is_judged(metric).then(|| verdict(metric, comparison, p_adjusted, question.alpha));
            ComparedArm { comparison: *comparison, p_adjusted, verdict }
        });
        let against = against.collect();
        ComparedMetric { result, holdout: ArmSummary::NONE, against }
    };
    let mut judge_segment = |results: Vec<MetricResult>| -> ComparedSegment {
        question.metrics.iter().zip(results).map(&mut judge).collect()
    };
    Ok(results.into_iter().map(|segments| segments.into_iter().map(&mut judge_segment).collect()).collect())
}

/// Returns the index of the baseline. `key` is the key of the baseline in the question. If it is given, the baseline is
/// the arm with this key. If no arm has this key, returns `None`, and then no arm is compared. If `key` is `None`, the
/// baseline is the arm `default`, or the first arm if there is no arm `default`.
pub(super) fn baseline(key: Option<&str>, arms: &[ArmCount]) -> Option<usize> {
    let find = |key: &str| arms.iter().position(|arm| arm.key == key);
    match key {
        Some(key) => find(key),
        None => find(BASELINE_DEFAULT).or(Some(0)),
    }
}

fn kind(metric: &Metric) -> MetricKind {
    if metric.is_amount() { MetricKind::Mean } else { MetricKind::Proportion }
}

fn arm_sums(sums: &MetricSums) -> ArmSums {
    // For a metric of amounts, only a visitor with an amount other than 0 counts as converted. `BUYERS_MIN` is the
    // minimum number of such visitors.
    ArmSums {
        visitors: sums.visitors,
        converted: sums.valued,
        sum: sums.values.sum(),
        sum_of_squares: sums.values.squares(),
    }
}

fn cuped_sums(sums: &MetricSums) -> CupedSums {
    CupedSums {
        visitors: sums.visitors as f64,
        after: sums.values.sum(),
        after_squares: sums.values.squares(),
        before: sums.before.sum(),
        before_squares: sums.before.squares(),
        active: sums.active as f64,
        products: sums.products.sum(),
        after_of_active: sums.of_active(),
    }
}

fn verdict(
    metric: &Metric,
    comparison: &Comparison,
    adjusted_p_value: Option<f64>,
    alpha: f64,
) -> &'static str {
    match metric.margin {
        Some(margin) => comparison.guardrail_verdict(margin, metric.lower_is_better).name(),
        None => comparison.verdict(adjusted_p_value, alpha).name(),
    }
}
