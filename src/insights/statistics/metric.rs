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
/// Minimum number of visitors with an amount in a compared arm, and minimum of [`ArmSums::effective_buyers`], if the
/// metric is a mean. If one of the two numbers is lower, the arm is not compared. The intervals assume that sums have a
/// normal distribution. The sum of few skewed amounts has no normal distribution. With this many effective buyers, an
/// arm takes 71 % of its variance from the other arm (`borrowed_share`). `simulated.rs` simulates experiments without
/// a difference, and reads their results on each of 30 days. This minimum gives at most 2.5 % false alarms on each side.
/// With a minimum of 40, the first interval can need more than 150 buyers at a lognormal spread of 1.
pub const BUYERS_MIN: u64 = 30;
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

impl ArmSums {
    /// Returns the number of equal amounts whose sum has the same relative variance (the effective sample size of Kish).
    /// It is the number of visitors with an amount if all amounts are equal. It is smaller if the amounts differ.
    /// Returns 0 if there is no amount, or if the number cannot be computed.
    pub fn effective_buyers(&self) -> f64 {
        // The square of the sum could overflow.
        let number = self.sum * (self.sum / self.sum_of_squares);
        if number.is_finite() { number } else { 0.0 }
    }
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
    /// The amounts of the arm differ too much for their number.
    Spread,
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

impl ArmSummary {
    /// The summary of an arm without visitors.
    pub(crate) const NONE: Self = Self { mean: None, interval: None };
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
    let mut result = MetricResult {
        arms: arms.iter().map(|sums| summarize(kind, sums, settings.alpha)).collect(),
        too_early: Vec::new(),
        against: Vec::new(),
    };
    let early = arms.iter().map(|sums| too_early(kind, sums)).enumerate();
    result.too_early.extend(early.filter_map(|(arm, reason)| Some((arm, reason?))));
    let Some(baseline) = arms.get(settings.baseline) else { return result };
    for (arm, compared) in arms.iter().enumerate().filter(|(arm, _)| *arm != settings.baseline) {
        let adjustment = cuped.and_then(|sums| Adjustment::of(&sums[settings.baseline], &sums[arm]));
        let unadjusted = compare_two(kind, baseline, compared, None, settings);
        let pair = match &adjustment {
            Some(adjustment) => compare_two(kind, baseline, compared, Some(&adjustment.means), settings),
            None => unadjusted,
        };
        if pair.reason == Some(TooEarly::Baseline) {
            result.too_early.push((arm, TooEarly::Baseline));
        }
        // The moments of an arm without visitors have the mean 0. This must not give a change of -100 %.
        let estimate = pair.change.estimate.filter(|_| compared.visitors > 0);
        let cuped = adjustment.map(|adjustment| CupedEffect {
            factors: adjustment.factors,
            variance_ratio: Some(pair.variance / unadjusted.variance).filter(|ratio| ratio.is_finite()),
            unadjusted: unadjusted.change,
        });
        result.against.push(Comparison { arm, estimate, interval: pair.change.interval, p: pair.p, cuped });
    }
    result
}

/// The comparison of two arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairResult {
    /// The relative change. It has no interval if it is too early for a comparison.
    pub change: RelativeChange,
    /// The p-value of the absolute difference. `None` if it is too early for a comparison.
    pub p: Option<f64>,
    /// The variance of the absolute difference.
    pub variance: f64,
    /// The reason if it is too early for a comparison.
    pub reason: Option<TooEarly>,
}

/// Compares two arms. `adjusted` has their adjusted means, if the comparison is with CUPED.
///
/// A mean has two intervals, see `borrow_both_ways`. The result is the shortest interval that contains both, and the
/// larger p-value.
pub fn compare_two(
    kind: MetricKind,
    baseline: &ArmSums,
    compared: &ArmSums,
    adjusted: Option<&MeanPair>,
    settings: &Settings,
) -> PairResult {
    let unadjusted = || MeanPair::of(&kind.moments(baseline), &kind.moments(compared));
    let means = adjusted.copied().unwrap_or_else(unadjusted);
    let change = RelativeChange::of(&means, settings.method, settings.alpha);
    let variance = Difference::absolute(&means).variance;
    let early = |reason| {
        let change = RelativeChange { interval: None, ..change };
        PairResult { change, p: None, variance, reason: Some(reason) }
    };
    if let Some(reason) = too_early(kind, baseline).or_else(|| too_early(kind, compared)) {
        return early(reason);
    }
    let pairs = match kind {
        MetricKind::Proportion => [means, means],
        MetricKind::Mean => borrow_both_ways(&means, [baseline, compared].map(borrowed_share)),
    };
    let intervals =
        pairs.each_ref().map(|means| RelativeChange::of(means, settings.method, settings.alpha).interval);
    let [Some(first), Some(second)] = intervals else { return early(TooEarly::Baseline) };
    let interval = Interval { low: first.low.min(second.low), high: first.high.max(second.high) };
    let p_values =
        pairs.each_ref().map(|means| Difference::absolute(means).p_value(settings.method, settings.alpha));
    let change = RelativeChange { interval: Some(interval), ..change };
    PairResult { change, p: Some(p_values[0].max(p_values[1])), variance, reason: None }
}

/// Returns the means twice. In the first pair, the compared arm takes a share of its variance from the baseline. In the
/// second pair, the baseline takes a share of its variance from the compared arm. `shares` has the share of each arm.
///
/// If a small arm by chance has no large amount, its mean is low, and its variance is low too. With this variance alone,
/// the arm would be called worse too often. For each ratio of the means, one of the two pairs has at least the variance
/// without the exchange. So an interval that contains the intervals of both pairs is at least as wide.
fn borrow_both_ways(means: &MeanPair, shares: [f64; 2]) -> [MeanPair; 2] {
    [means.with_borrowed_variance(1, shares[1]), means.with_borrowed_variance(0, shares[0])]
}

/// Returns the share of its variance that an arm takes from the other arm. The skewness of a mean falls with the square
/// root of the number of amounts, and so does this share. So it has no effect on many amounts.
fn borrowed_share(sums: &ArmSums) -> f64 {
    let minimum = BUYERS_MIN as f64;
    (minimum / (minimum + sums.effective_buyers())).sqrt()
}

/// Returns the first reason why an arm is not compared yet. Returns `None` if the arm can be compared.
fn too_early(kind: MetricKind, sums: &ArmSums) -> Option<TooEarly> {
    if sums.visitors < VISITORS_MIN {
        return Some(TooEarly::Visitors);
    }
    match kind {
        MetricKind::Proportion if sums.converted < CONVERSIONS_MIN => return Some(TooEarly::Conversions),
        MetricKind::Mean if sums.converted < BUYERS_MIN => return Some(TooEarly::Buyers),
        MetricKind::Mean if sums.effective_buyers() < BUYERS_MIN as f64 => return Some(TooEarly::Spread),
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
