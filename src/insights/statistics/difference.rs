//! The difference between two arms, with its interval and its p-value. The [`Method`] decides whether the two are valid
//! at one look at the result or at every look.
//!
//! The anytime-valid method is from Waudby-Smith et al., arXiv 2103.06476v7, equations 9, 155 and 161. The interval of
//! the relative change has each change that the test of the absolute difference does not reject (Fieller). If the
//! compared mean is small by chance, the delta method would give an interval that is too short.

use super::distributions::{t_quantile_upper, t_sf};
use super::moments::{MeanPair, Moments};

/// The planned number of visitors of two compared arms together. It applies if the experiment does not state a number.
/// The anytime-valid interval is tightest near this number, and valid at any number.
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

/// Decides whether intervals and p-values are valid at one look at the result or at every look.
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
    /// Returns the difference between the means.
    pub fn absolute(means: &MeanPair) -> Self {
        Self {
            estimate: means.means[1] - means.means[0],
            variance: means.independent_variances.iter().sum(),
            freedom: freedom(means),
            visitors: means.visitors.iter().sum(),
        }
    }

    /// Returns the difference divided by the absolute value of the baseline mean. The delta method gives the variance.
    /// The answers of the server use [`RelativeChange`] instead.
    pub fn relative(a: &Moments, b: &Moments) -> Self {
        let ratio = b.mean / a.mean;
        let variance = b.variance_of_mean() + a.variance_of_mean() * ratio * ratio;
        Self {
            estimate: (b.mean - a.mean) / a.mean.abs(),
            variance: variance / (a.mean * a.mean),
            ..Self::absolute(&MeanPair::of(a, b))
        }
    }

    /// Returns the absolute value of the difference, divided by its standard error. If the variance is 0, the result is
    /// infinite, or 0 for a difference of 0.
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

    /// Divides the half width of the interval by the standard error, and returns the square of the result.
    fn squared_width(&self, method: Method, alpha: f64) -> f64 {
        match method {
            Method::Fixed => t_quantile_upper(alpha / 2.0, self.freedom).powi(2),
            Method::Anytime { planned } => anytime_squared_width(self.visitors, alpha, planned),
        }
    }

    /// Returns the interval of the difference. The probability that it misses the true difference is `alpha` at one
    /// look, and at most `alpha` over all looks of the anytime-valid method.
    pub fn interval(&self, method: Method, alpha: f64) -> Option<Interval> {
        let half = (self.squared_width(method, alpha) * self.variance).sqrt();
        Interval::finite(self.estimate - half, self.estimate + half)
    }
}

/// Returns Welch's degrees of freedom of the absolute difference. Returns infinity if the difference has no variance.
fn freedom(means: &MeanPair) -> f64 {
    let total: f64 = means.independent_variances.iter().sum();
    let arms = means.independent_variances.iter().zip(means.visitors);
    let parts = arms.map(|(variance, visitors)| {
        let share = variance / total;
        if share > 0.0 { share * share / (visitors - 1.0).max(1.0) } else { 0.0 }
    });
    let sum: f64 = parts.sum();
    if sum > 0.0 { 1.0 / sum } else { f64::INFINITY }
}

/// Returns the variance of the normal mixture (rho squared). With this variance the interval is tightest near
/// `planned_count` visitors.
pub fn mixture_variance(alpha: f64, planned_count: u64) -> f64 {
    planned_size(alpha) / planned_count.max(1) as f64
}

/// Returns the product of the planned number of visitors and the variance of the mixture. This product depends only on
/// `alpha`.
fn planned_size(alpha: f64) -> f64 {
    let log = -2.0 * alpha.ln();
    log + log.ln_1p()
}

/// Divides the half width of the anytime-valid interval by the standard error, and returns the square of the result.
fn anytime_squared_width(visitor_count: f64, alpha: f64, planned_count: u64) -> f64 {
    squared_width_of_size(visitor_count * mixture_variance(alpha, planned_count), alpha)
}

fn squared_width_of_size(size: f64, alpha: f64) -> f64 {
    2.0 * (size + 1.0) / size * (size.ln_1p() / 2.0 - alpha.ln())
}

/// Returns the result of [`anytime_squared_width`] at the planned number of visitors.
pub(super) fn planned_squared_width(alpha: f64) -> f64 {
    squared_width_of_size(planned_size(alpha), alpha)
}

/// The relative change from the baseline to the compared arm. The change has the same sign as the difference, even if
/// the baseline is negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeChange {
    /// The change, divided by the absolute value of the baseline mean. `None` if this mean is 0.
    pub estimate: Option<f64>,
    /// The interval of the change (Fieller). `None` if the data do not exclude that the baseline mean is 0.
    pub interval: Option<Interval>,
}

impl RelativeChange {
    /// Returns the change from the baseline to the compared arm.
    pub fn of(means: &MeanPair, method: Method, alpha: f64) -> Self {
        let [a, b] = means.means;
        let ratio = b / a;
        let width = Difference::absolute(means).squared_width(method, alpha);
        // The variances of the means, relative to the square of the baseline. The square itself could overflow, so each
        // variance is divided twice.
        let relative = |variance: f64| variance / a / a;
        let [a_variance, b_variance] = means.variances.map(relative);
        let covariance = relative(means.covariance);
        let sign = a.signum();
        let estimate = Some(sign * (ratio - 1.0)).filter(|change| change.is_finite());
        let leading = 1.0 - width * a_variance;
        let interval = estimate.filter(|_| leading > 0.0).and_then(|estimate| {
            // The ends of the interval solve A x^2 - 2 B x + C = 0. This formula gives the discriminant B^2 - A C
            // without the square of the ratio, so that no digits are lost.
            let spread = b_variance * leading + a_variance * ratio * ratio - 2.0 * ratio * covariance
                + width * covariance * covariance;
            let root = (width * spread.max(0.0)).sqrt();
            let middle = ratio - width * covariance;
            let ends = [middle - root, middle + root].map(|end| sign * (end / leading - 1.0));
            let low = ends[0].min(ends[1]);
            let high = ends[0].max(ends[1]);
            // A rounding error must not exclude the estimate from a short interval.
            Interval::finite(low.min(estimate), high.max(estimate))
        });
        Self { estimate, interval }
    }
}
