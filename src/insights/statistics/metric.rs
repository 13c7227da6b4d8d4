//! Compares all arms of an experiment in one metric. The result has a summary of each arm, the changes from the
//! baseline, and the arms that are not compared yet. [`Comparison`] gives verdicts.

use super::cuped::{Adjustment, CupedSums};
use super::difference::{Difference, Interval, Method, RelativeChange};
use super::distributions::t_quantile_upper;
use super::moments::{MeanPair, Moments};
use super::rates::wilson;

/// Minimum number of visitors of a compared arm. An arm with fewer visitors is not compared, because a sum over few
/// visitors has no normal distribution.
pub const VISITORS_MIN: u64 = 100;
/// Minimum number of converted visitors, and of visitors that did not convert, in a compared arm. If one of the two
/// numbers is lower, the arm is not compared.
pub const CONVERSIONS_MIN: u64 = 10;
/// Minimum number of visitors with an amount in a compared arm, if the metric is a mean. The intervals assume that sums
/// have a normal distribution. The sum of few skewed amounts has no normal distribution. `simulated.rs` simulates 4,000
/// experiments without a difference. Their split is 90/10, and their results are read every day. A minimum of 10 gives
/// false alarms in up to 20 % of these experiments. This minimum gives false alarms in at most 4 %.
pub const BUYERS_MIN: u64 = 100;
/// Maximum share of doubtful visitors, in percent of all exposed visitors. A visitor is doubtful if it saw two arms, or
/// an arm without a weight. If the share is higher, the answer has an alarm, because the doubtful visitors can change
/// the result.
const DOUBTFUL_PERCENT_MAX: u64 = 1;
/// Minimum number of doubtful visitors for an alarm. Fewer doubtful visitors raise no alarm, even if their share is
/// high, because anyone can send a few forged events. If so few visitors can change the result, it is too early for a
/// comparison anyway.
pub const DOUBTFUL_VISITORS_MIN: u64 = 10;

/// The sums of one metric over the visitors of one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmSums {
    /// The visitors of the arm.
    pub visitors: u64,
    /// The visitors that reached the goal. For [`MetricKind::Mean`], the visitors whose value is not 0.
    pub converted: u64,
    /// The sum of the values.
    pub sum: f64,
    /// The sum of the squares of the values.
    pub sum_of_squares: f64,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// The share of visitors that converted.
    Proportion,
    /// The value per visitor. A visitor without a value has the value 0.
    Mean,
}

impl MetricKind {
    fn moments(self, sums: &ArmSums) -> Moments {
        match self {
            Self::Proportion => Moments::of_proportion(sums.visitors, sums.converted),
            Self::Mean => Moments::of_mean(sums.visitors, sums.sum, sums.sum_of_squares),
        }
    }
}

/// The settings of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The error rate, above 0 and below 1.
    pub alpha: f64,
    /// The method of the intervals and p-values.
    pub method: Method,
    /// The index of the baseline among the arms.
    pub baseline: usize,
}

/// The reason why an arm is not compared yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooEarly {
    /// The arm has too few visitors.
    Visitors,
    /// Too few visitors of the arm converted.
    Conversions,
    /// Too few visitors of the arm have an amount.
    Buyers,
    /// Almost all visitors of the arm converted.
    NonConversions,
    /// The mean of the baseline does not differ enough from 0. So the relative change has no finite interval.
    Baseline,
}

/// The mean of one arm, with its interval. The interval is valid only if the result is read once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmSummary {
    /// The mean of the metric. `None` if there are no visitors.
    pub mean: Option<f64>,
    /// The interval of the mean. `None` if there are too few visitors for an interval.
    pub interval: Option<Interval>,
}

/// The comparison of an arm with the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The index of the compared arm.
    pub arm: usize,
    /// The relative change. `None` if the baseline is 0, or if the arm has no visitors.
    pub estimate: Option<f64>,
    /// The interval of the relative change. `None` if it is too early for a comparison.
    pub interval: Option<Interval>,
    /// The p-value of the absolute difference. `None` if it is too early for a comparison.
    pub p: Option<f64>,
    /// The effect of CUPED. `None` if the comparison is without CUPED.
    pub cuped: Option<CupedEffect>,
}

/// The effect of CUPED on a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CupedEffect {
    /// The factors of the two covariates: the metric before the first exposure, and the activity before it.
    pub factors: [f64; 2],
    /// The variance of the difference, divided by the variance without CUPED. `None` if the variance without CUPED is 0.
    pub variance_ratio: Option<f64>,
    /// The relative change without CUPED.
    pub unadjusted: RelativeChange,
}

/// The verdict about a goal or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The mean of the arm is significantly above the mean of the baseline.
    Better,
    /// The mean of the arm is significantly below the mean of the baseline.
    Worse,
    /// There is no significant difference.
    NotToldApart,
    /// It is too early for a comparison.
    TooEarly,
}

/// The verdict about a guardrail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardrailVerdict {
    /// The arm is significantly worse than the baseline. The loss can be larger than the margin.
    Harmed,
    /// The arm is not significantly worse than the baseline, but a loss larger than the margin is possible.
    NotToldApart,
    /// A loss larger than the margin is excluded.
    NoWorse,
    /// It is too early for a comparison.
    TooEarly,
}

/// The comparison of all arms in one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricResult {
    /// One summary for each arm.
    pub arms: Vec<ArmSummary>,
    /// The index of each arm that is not compared yet, with the reason.
    pub too_early: Vec<(usize, TooEarly)>,
    /// The comparison of each arm with the baseline. There is no entry for the baseline.
    pub against: Vec<Comparison>,
}

/// Compares all arms with the baseline. If no arm has the index of the baseline, the result has no comparisons. `cuped` has
/// the sums of each arm for CUPED. Without them, or if a covariate does not vary, the comparison is without CUPED.
pub fn compare(
    kind: MetricKind,
    arms: &[ArmSums],
    cuped: Option<&[CupedSums]>,
    settings: &Settings,
) -> MetricResult {
    let moments: Vec<Moments> = arms.iter().map(|sums| kind.moments(sums)).collect();
    let mut result = MetricResult {
        arms: arms.iter().map(|sums| summarize(kind, sums, settings.alpha)).collect(),
        too_early: Vec::new(),
        against: Vec::new(),
    };
    let early: Vec<Option<TooEarly>> = arms.iter().map(|sums| too_early(kind, sums)).collect();
    result.too_early.extend(early.iter().enumerate().filter_map(|(arm, reason)| Some((arm, (*reason)?))));
    let Some(baseline) = moments.get(settings.baseline) else { return result };
    for (arm, compared) in moments.iter().enumerate().filter(|(arm, _)| *arm != settings.baseline) {
        let unadjusted = MeanPair::of(baseline, compared);
        let adjustment = cuped.and_then(|sums| Adjustment::of(&sums[settings.baseline], &sums[arm]));
        let means = adjustment.map_or(unadjusted, |adjustment| adjustment.means);
        let change = RelativeChange::of(&means, settings.method, settings.alpha);
        let is_early = early[arm].is_some() || early[settings.baseline].is_some();
        // The moments of an arm without visitors have the mean 0. This must not give a change of -100 %.
        let estimate = change.estimate.filter(|_| arms[arm].visitors > 0);
        let interval = change.interval.filter(|_| !is_early);
        let p = interval.map(|_| Difference::absolute(&means).p_value(settings.method, settings.alpha));
        if !is_early && interval.is_none() {
            result.too_early.push((arm, TooEarly::Baseline));
        }
        let cuped = adjustment.map(|adjustment| effect(&adjustment, &unadjusted, is_early, settings));
        result.against.push(Comparison { arm, estimate, interval, p, cuped });
    }
    result
}

/// Returns the effect of CUPED on a comparison. If it is too early for a comparison, the change has no interval.
fn effect(
    adjustment: &Adjustment,
    unadjusted: &MeanPair,
    is_early: bool,
    settings: &Settings,
) -> CupedEffect {
    let [adjusted, before] =
        [&adjustment.means, unadjusted].map(|means| Difference::absolute(means).variance);
    let change = RelativeChange::of(unadjusted, settings.method, settings.alpha);
    CupedEffect {
        factors: adjustment.factors,
        variance_ratio: Some(adjusted / before).filter(|ratio| ratio.is_finite()),
        unadjusted: RelativeChange { interval: change.interval.filter(|_| !is_early), ..change },
    }
}

/// Returns the first reason why an arm is not compared yet. Returns `None` if the arm can be compared.
fn too_early(kind: MetricKind, sums: &ArmSums) -> Option<TooEarly> {
    if sums.visitors < VISITORS_MIN {
        return Some(TooEarly::Visitors);
    }
    match kind {
        MetricKind::Proportion if sums.converted < CONVERSIONS_MIN => return Some(TooEarly::Conversions),
        MetricKind::Mean if sums.converted < BUYERS_MIN => return Some(TooEarly::Buyers),
        MetricKind::Proportion | MetricKind::Mean => {}
    }
    let not_converted = sums.visitors.saturating_sub(sums.converted);
    (not_converted < CONVERSIONS_MIN).then_some(TooEarly::NonConversions)
}

/// Summarizes one arm. A proportion gets Wilson's interval, and a mean gets Student's interval. The caller also
/// summarizes the holdout, but never compares it.
pub fn summarize(kind: MetricKind, sums: &ArmSums, alpha: f64) -> ArmSummary {
    let moments = kind.moments(sums);
    let interval = match kind {
        MetricKind::Proportion => wilson(sums.visitors, sums.converted, alpha),
        MetricKind::Mean if sums.visitors < 2 => None,
        MetricKind::Mean => {
            let width = t_quantile_upper(alpha / 2.0, moments.visitors - 1.0);
            let half = width * moments.variance_of_mean().sqrt();
            Interval::finite(moments.mean - half, moments.mean + half)
        }
    };
    let mean = (sums.visitors > 0).then_some(moments.mean).filter(|mean| mean.is_finite());
    ArmSummary { mean, interval }
}

impl Comparison {
    /// Returns the verdict about a goal or a value. `adjusted_p_value` is the adjusted p-value of a secondary metric, or
    /// else `p`.
    pub fn verdict(&self, adjusted_p_value: Option<f64>, alpha: f64) -> Verdict {
        let Some(estimate) = self.estimate else { return Verdict::TooEarly };
        match adjusted_p_value {
            None => Verdict::TooEarly,
            Some(p) if p < alpha && estimate > 0.0 => Verdict::Better,
            Some(p) if p < alpha && estimate < 0.0 => Verdict::Worse,
            Some(_) => Verdict::NotToldApart,
        }
    }

    /// Returns the verdict about a guardrail. `margin` is the largest tolerated loss. It is a positive fraction of the
    /// baseline.
    pub fn guardrail_verdict(&self, margin: f64, lower_is_better: bool) -> GuardrailVerdict {
        let Some(interval) = self.interval else { return GuardrailVerdict::TooEarly };
        let Interval { low, high } = match lower_is_better {
            true => Interval { low: -interval.high, high: -interval.low },
            false => interval,
        };
        if low > -margin {
            GuardrailVerdict::NoWorse
        } else if high < 0.0 {
            GuardrailVerdict::Harmed
        } else {
            GuardrailVerdict::NotToldApart
        }
    }
}

/// Returns true if there are too many doubtful visitors. `exposed_count` is the number of all exposed visitors,
/// including the doubtful visitors.
pub fn has_too_many_doubtful(doubtful_count: u64, exposed_count: u64) -> bool {
    doubtful_count >= DOUBTFUL_VISITORS_MIN
        && u128::from(doubtful_count) * 100 > u128::from(exposed_count) * u128::from(DOUBTFUL_PERCENT_MAX)
}
