//! The comparison of all arms of an experiment in one metric: summaries, "too early", changes and verdicts.

use super::difference::{Difference, Interval, Method, RelativeChange};
use super::distributions::t_quantile_upper;
use super::moments::Moments;
use super::rates::wilson;

/// An arm with fewer visitors is not compared: the sums of few visitors are far from normal.
pub const VISITORS_MIN: u64 = 100;
/// An arm with fewer converted visitors, or with fewer visitors that did not convert, is not compared.
pub const CONVERSIONS_MIN: u64 = 10;
/// An arm with fewer visitors with an amount is not compared in that amount. The intervals are those of normal sums, and
/// the sum of few skewed amounts is not normal. In `simulated.rs` (no difference, split of 90/10, daily looks) a bound of
/// 10 gives false alarms in up to 20 % of 4,000 experiments, and this one in at most 4 %.
pub const BUYERS_MIN: u64 = 100;
/// Highest share of doubtful visitors, in percent of the exposed ones: those that saw two arms, or an arm without a
/// weight. Above it the answer has an alarm, because such visitors could decide the result.
const DOUBTFUL_PERCENT_MAX: u64 = 1;
/// Fewer doubtful visitors raise no alarm, also if they are a large share. Anyone can send a few forged events, and an experiment
/// that is small enough for them to matter is too early anyway.
pub const DOUBTFUL_VISITORS_MIN: u64 = 10;

/// Sums over the visitors of one arm, for one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmSums {
    /// The visitors of the arm.
    pub visitors: u64,
    /// The visitors that reached the goal, or those whose value is not 0.
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
    /// The looks at which the result is valid.
    pub method: Method,
    /// Index of the baseline.
    pub baseline: usize,
}

/// The reason why an arm is not compared yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooEarly {
    /// It has too few visitors.
    Visitors,
    /// It has too few converted visitors.
    Conversions,
    /// Too few of its visitors have an amount.
    Buyers,
    /// Too few of its visitors did not convert.
    NonConversions,
    /// The mean of the baseline is not told apart from 0, so that there is no bounded relative change.
    Baseline,
}

/// The description of one arm, valid at one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmSummary {
    /// The mean of the metric. `None` without visitors.
    pub mean: Option<f64>,
    /// The interval of the mean. `None` if there are too few visitors for one.
    pub interval: Option<Interval>,
}

/// The comparison of an arm with the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Index of the compared arm.
    pub arm: usize,
    /// The relative change. `None` for a baseline of 0, and for an arm without visitors.
    pub estimate: Option<f64>,
    /// The interval of the change. `None` if it is too early.
    pub interval: Option<Interval>,
    /// The p-value of the absolute difference. `None` if it is too early.
    pub p: Option<f64>,
}

/// The verdict about a goal or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The arm is above the baseline.
    Better,
    /// The arm is below the baseline.
    Worse,
    /// The arms may be equal.
    NotToldApart,
    /// There are too few data.
    TooEarly,
}

/// The verdict about a guardrail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardrailVerdict {
    /// The arm is worse than the baseline, perhaps by more than the margin.
    Harmed,
    /// The arm may be worse by more than the margin.
    NotToldApart,
    /// The arm is not worse than the baseline by the margin.
    NoWorse,
    /// There are too few data.
    TooEarly,
}

/// The comparison of all arms in one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricResult {
    /// One summary for each arm.
    pub arms: Vec<ArmSummary>,
    /// The arms that are not compared, by index, with the reason.
    pub too_early: Vec<(usize, TooEarly)>,
    /// One comparison for each arm but the baseline.
    pub against: Vec<Comparison>,
}

/// Compares all arms with the baseline. Without a baseline among the arms there are no comparisons.
pub fn compare(kind: MetricKind, arms: &[ArmSums], settings: &Settings) -> MetricResult {
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
        let change = RelativeChange::of(baseline, compared, settings.method, settings.alpha);
        // The mean of no visitor is unknown, and not 100 % below the baseline.
        let estimate = change.estimate.filter(|_| arms[arm].visitors > 0);
        let mut comparison = Comparison { arm, estimate, interval: None, p: None };
        if early[arm].is_none() && early[settings.baseline].is_none() {
            comparison.interval = change.interval;
            comparison.p = change
                .interval
                .map(|_| Difference::absolute(baseline, compared).p_value(settings.method, settings.alpha));
            if change.interval.is_none() {
                result.too_early.push((arm, TooEarly::Baseline));
            }
        }
        result.against.push(comparison);
    }
    result
}

/// Returns the first reason why an arm is not compared yet.
fn too_early(kind: MetricKind, sums: &ArmSums) -> Option<TooEarly> {
    let few_converted = match kind {
        MetricKind::Proportion => (sums.converted < CONVERSIONS_MIN, TooEarly::Conversions),
        MetricKind::Mean => (sums.converted < BUYERS_MIN, TooEarly::Buyers),
    };
    [
        (sums.visitors < VISITORS_MIN, TooEarly::Visitors),
        few_converted,
        (sums.visitors.saturating_sub(sums.converted) < CONVERSIONS_MIN, TooEarly::NonConversions),
    ]
    .into_iter()
    .find_map(|(is_early, reason)| is_early.then_some(reason))
}

/// Describes one arm at one look: Wilson's interval for a proportion, Student's for a mean. The holdout gets the same
/// description and is never compared.
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
    /// Returns the verdict by the p-value. `p_adjusted` is that of a secondary metric, or `p` itself.
    pub fn verdict(&self, p_adjusted: Option<f64>, alpha: f64) -> Verdict {
        match (self.estimate, p_adjusted) {
            (None, _) | (_, None) => Verdict::TooEarly,
            (Some(estimate), Some(p)) if p < alpha && estimate > 0.0 => Verdict::Better,
            (Some(estimate), Some(p)) if p < alpha && estimate < 0.0 => Verdict::Worse,
            _ => Verdict::NotToldApart,
        }
    }

    /// Returns the verdict about a guardrail by the interval. `margin` is the largest tolerated loss, as a
    /// positive fraction of the baseline.
    pub fn guardrail_verdict(&self, margin: f64, lower_is_better: bool) -> GuardrailVerdict {
        let Some(interval) = self.interval else { return GuardrailVerdict::TooEarly };
        let (low, high) =
            if lower_is_better { (-interval.high, -interval.low) } else { (interval.low, interval.high) };
        if low > -margin {
            GuardrailVerdict::NoWorse
        } else if high < 0.0 {
            GuardrailVerdict::Harmed
        } else {
            GuardrailVerdict::NotToldApart
        }
    }
}

/// Returns whether so many visitors are doubtful that the result is. `exposed` counts all exposed visitors, the doubtful
/// ones included.
pub fn has_too_many_doubtful(doubtful: u64, exposed: u64) -> bool {
    doubtful >= DOUBTFUL_VISITORS_MIN
        && u128::from(doubtful) * 100 > u128::from(exposed) * u128::from(DOUBTFUL_PERCENT_MAX)
}
