//! Compares all arms of an experiment in one metric: summaries, reasons not to compare yet, changes and verdicts.

use super::difference::{Difference, Interval, Method, RelativeChange};
use super::distributions::t_quantile_upper;
use super::moments::Moments;
use super::rates::wilson;

/// An arm with fewer visitors is not compared, because the sums of few visitors are not normal.
pub const VISITORS_MIN: u64 = 100;
/// An arm is not compared if fewer of its visitors converted, or if fewer did not convert.
pub const CONVERSIONS_MIN: u64 = 10;
/// An arm is not compared in an amount if fewer of its visitors have an amount. The intervals assume normal sums, and
/// the sum of few skewed amounts is not normal. `simulated.rs` simulates 4,000 experiments without a difference, with
/// a split of 90/10 and daily looks. A bound of 10 gives false alarms in up to 20 % of them, and this bound in at most
/// 4 %.
pub const BUYERS_MIN: u64 = 100;
/// Highest share of doubtful visitors, in percent of the exposed visitors. A visitor is doubtful if it saw two arms,
/// or an arm without a weight. Above this share the answer has an alarm, because the doubtful visitors could decide
/// the result.
const DOUBTFUL_PERCENT_MAX: u64 = 1;
/// Fewer doubtful visitors raise no alarm, even if their share is high. Anyone can send a few forged events. If so few
/// events matter, the experiment is too early anyway.
pub const DOUBTFUL_VISITORS_MIN: u64 = 10;

/// The sums of one metric over the visitors of one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmSums {
    /// The visitors of the arm.
    pub visitors: u64,
    /// The visitors that reached the goal, or for [`MetricKind::Mean`] the visitors whose value is not 0.
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
    /// The index of the baseline.
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
    /// The mean of the baseline may be 0, so that the relative change has no bounds.
    Baseline,
}

/// The mean of one arm. The interval is valid at one look only.
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
    /// The index of each arm that is not compared, and the reason.
    pub too_early: Vec<(usize, TooEarly)>,
    /// The comparison of each arm except the baseline.
    pub against: Vec<Comparison>,
}

/// Compares all arms with the baseline. If no arm has the index of the baseline, there are no comparisons.
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
        // The mean of an arm without visitors is unknown. It is not 100 % below the baseline.
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

/// Summarizes one arm. A proportion has Wilson's interval, and a mean has Student's interval. The holdout is
/// summarized too, but never compared.
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

    /// Returns the verdict about a guardrail. `margin` is the largest loss that is tolerated, as a positive fraction
    /// of the baseline.
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

/// Returns whether there are too many doubtful visitors for a result. `exposed` is the number of all exposed visitors,
/// including the doubtful visitors.
pub fn has_too_many_doubtful(doubtful_visitors: u64, exposed_visitors: u64) -> bool {
    doubtful_visitors >= DOUBTFUL_VISITORS_MIN
        && u128::from(doubtful_visitors) * 100
            > u128::from(exposed_visitors) * u128::from(DOUBTFUL_PERCENT_MAX)
}
