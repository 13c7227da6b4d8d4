//! The difference between two arms, with its interval and its p-value. The method decides when the interval and the
//! p-value are valid. With [`Method::Fixed`], they are valid if the result is read once. With [`Method::Anytime`], they
//! are valid even if the result is read several times during the experiment.
//!
//! The anytime-valid method is from Waudby-Smith et al., arXiv 2103.06476v7, equations 9, 155 and 161. The interval of
//! the relative change is an inversion of the test of the absolute difference (Fieller). The interval of the delta
//! method is too short if the mean of the compared arm is small by chance.

use super::distributions::{t_quantile_upper, t_sf};
use super::moments::Moments;

/// The default of the planned number of visitors of two compared arms together. The anytime-valid interval is valid at
/// every number of visitors. The planned number decides at which number of visitors the interval is as short as
/// possible.
pub const PLANNED_DEFAULT: u64 = 5_000;

/// An interval of numbers. The interval includes both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Returns the interval. Returns `None` if an end is not finite, or if `low` is above `high`.
    pub(super) fn finite(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low <= high).then_some(Self { low, high })
    }
}

/// The method of intervals and p-values. The method decides if the result can be read only once, or several times
/// during the experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// The result is read once, at the planned end of the experiment (Welch).
    Fixed,
    /// The result can be read several times during the experiment. `planned` is the planned number of visitors of both
    /// arms together.
    Anytime { planned: u64 },
}

/// The difference between two arms. It is the mean of the compared arm minus the mean of the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The difference.
    pub estimate: f64,
    /// The variance of the difference.
    pub variance: f64,
    /// The degrees of freedom of the variance (Welch).
    pub freedom: f64,
    /// The number of visitors of both arms together.
    pub visitors: f64,
}

impl Difference {
    /// Returns the difference between the means. `a` is the baseline, and `b` is the compared arm.
    pub fn absolute(a: &Moments, b: &Moments) -> Self {
        Self {
            estimate: b.mean - a.mean,
            variance: a.variance_of_mean() + b.variance_of_mean(),
            freedom: freedom(a, b),
            visitors: a.visitors + b.visitors,
        }
    }

    /// Returns the difference, divided by the absolute value of the baseline. The variance is computed by the delta
    /// method. The answers of Insights use [`RelativeChange`] instead.
    pub fn relative(a: &Moments, b: &Moments) -> Self {
        let ratio = b.level / a.level;
        let variance = b.variance_of_mean() + a.variance_of_mean() * ratio * ratio;
        Self {
            estimate: (b.mean - a.mean) / a.level.abs(),
            variance: variance / (a.level * a.level),
            ..Self::absolute(a, b)
        }
    }

    /// Returns the absolute value of the difference, in standard errors. A difference of 0 gives 0. Any other
    /// difference without a variance gives infinity.
    fn standard_errors(&self) -> f64 {
        if self.estimate == 0.0 { 0.0 } else { self.estimate.abs() / self.variance.sqrt() }
    }

    /// Returns the two-sided p-value for the hypothesis that the difference is 0.
    pub fn p_value(&self, method: Method, alpha: f64) -> f64 {
        match method {
            Method::Fixed => 2.0 * t_sf(self.standard_errors(), self.freedom),
            Method::Anytime { planned } => {
                let size = self.visitors * mixture_variance(alpha, planned);
                let evidence = self.standard_errors().powi(2) * size / (2.0 * (size + 1.0));
                (size.ln_1p() / 2.0 - evidence).exp().min(1.0)
            }
        }
    }

    /// Returns the square of the half width of the interval. The unit of the half width is one standard error.
    fn squared_width(&self, method: Method, alpha: f64) -> f64 {
        match method {
            Method::Fixed => t_quantile_upper(alpha / 2.0, self.freedom).powi(2),
            Method::Anytime { planned } => anytime_squared_width(self.visitors, alpha, planned),
        }
    }

    /// Returns the interval of the difference. The probability that the interval does not include the true difference
    /// is about `alpha` or less. Returns `None` if the interval is not finite.
    pub fn interval(&self, method: Method, alpha: f64) -> Option<Interval> {
        let half = (self.squared_width(method, alpha) * self.variance).sqrt();
        Interval::finite(self.estimate - half, self.estimate + half)
    }
}

/// Returns Welch's degrees of freedom of the absolute difference. Returns infinity if the difference has no variance.
fn freedom(a: &Moments, b: &Moments) -> f64 {
    let total = a.variance_of_mean() + b.variance_of_mean();
    let part = |arm: &Moments| {
        let share = arm.variance_of_mean() / total;
        if share > 0.0 { share * share / (arm.visitors - 1.0).max(1.0) } else { 0.0 }
    };
    let sum = part(a) + part(b);
    if sum > 0.0 { 1.0 / sum } else { f64::INFINITY }
}

/// Returns the variance of the normal mixture, which the paper calls rho squared. This variance gives nearly the
/// shortest interval at `planned_visitors` visitors.
pub fn mixture_variance(alpha: f64, planned_visitors: u64) -> f64 {
    planned_size(alpha) / planned_visitors.max(1) as f64
}

/// Returns the product of the planned number of visitors and the variance of the mixture. This product depends only on
/// `alpha`.
fn planned_size(alpha: f64) -> f64 {
    let log = -2.0 * alpha.ln();
    log + log.ln_1p()
}

/// Returns the square of the half width of the anytime-valid interval. The unit of the half width is one standard
/// error.
fn anytime_squared_width(visitors: f64, alpha: f64, planned_visitors: u64) -> f64 {
    squared_width_of_size(visitors * mixture_variance(alpha, planned_visitors), alpha)
}

fn squared_width_of_size(size: f64, alpha: f64) -> f64 {
    2.0 * (size + 1.0) / size * (size.ln_1p() / 2.0 - alpha.ln())
}

/// Returns the square of the half width of the anytime-valid interval at the planned number of visitors. The unit of
/// the half width is one standard error.
pub(super) fn planned_squared_width(alpha: f64) -> f64 {
    squared_width_of_size(planned_size(alpha), alpha)
}

/// The relative change from the baseline to the compared arm. The change has the same sign as the difference, even if
/// the baseline is negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeChange {
    /// The difference, divided by the absolute value of the baseline. `None` if the baseline is 0.
    pub estimate: Option<f64>,
    /// The interval of the change (Fieller). `None` if the baseline does not differ enough from 0.
    pub interval: Option<Interval>,
}

impl RelativeChange {
    /// Returns the change from arm `a` to arm `b`. `a` is the baseline.
    pub fn of(a: &Moments, b: &Moments, method: Method, alpha: f64) -> Self {
        let ratio = b.mean / a.mean;
        let width = Difference::absolute(a, b).squared_width(method, alpha);
        // The variances of the means, divided by the square of the mean of the baseline. The code divides twice,
        // because the square can overflow.
        let a_variance = a.variance_of_mean() / a.mean / a.mean;
        let b_variance = b.variance_of_mean() / a.mean / a.mean;
        let sign = a.mean.signum();
        let estimate = Some(sign * (ratio - 1.0)).filter(|change| change.is_finite());
        let leading = 1.0 - width * a_variance;
        let interval = estimate.filter(|_| leading > 0.0).and_then(|estimate| {
            // The discriminant B^2 - A C equals q (v_b A + v_a m_b^2). This form has no subtraction.
            let root = (width * (b_variance * leading + a_variance * ratio * ratio)).sqrt();
            let ends = [ratio - root, ratio + root].map(|end| sign * (end / leading - 1.0));
            let low = ends[0].min(ends[1]);
            let high = ends[0].max(ends[1]);
            // A rounding error must not exclude the estimate from a short interval.
            Interval::finite(low.min(estimate), high.max(estimate))
        });
        Self { estimate, interval }
    }
}
