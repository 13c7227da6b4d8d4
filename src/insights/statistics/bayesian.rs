//! The Bayesian comparison of two arms with a normal prior on the change.

use super::difference::{Difference, Interval};
use super::distributions::{normal_density, normal_quantile, normal_sf};

/// A normal prior on the change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// The expected change.
    pub mean: f64,
    /// The variance of the change.
    pub variance: f64,
}

/// The distribution of the change, given the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Posterior {
    /// The expected change.
    pub mean: f64,
    /// The standard deviation of the change.
    pub deviation: f64,
}

impl Posterior {
    /// Returns the distribution of a change. Without a prior, all changes are equally likely before the data.
    pub fn of(change: &Difference, prior: Option<Prior>) -> Self {
        let prior = prior.unwrap_or(Prior { mean: 0.0, variance: f64::INFINITY });
        let prior_precision = 1.0 / prior.variance;
        let data_precision = 1.0 / change.variance;
        let precision = data_precision + prior_precision;
        let mean = (change.estimate * data_precision + prior.mean * prior_precision) / precision;
        Self { mean, deviation: (1.0 / precision).sqrt() }
    }

    /// Returns the interval that contains the change with the probability `1 - alpha`.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        let half = -normal_quantile(alpha / 2.0) * self.deviation;
        Interval::finite(self.mean - half, self.mean + half)
    }

    /// Returns the probability that the compared arm is better.
    pub fn chance_to_win(&self) -> f64 {
        normal_sf(-self.mean / self.deviation)
    }

    /// Returns the expected loss if the baseline is kept.
    pub fn risk_of_baseline(&self) -> f64 {
        expected_gain(self.mean / self.deviation) * self.deviation
    }

    /// Returns the expected loss if the compared arm is chosen.
    pub fn risk_of_compared(&self) -> f64 {
        expected_gain(-self.mean / self.deviation) * self.deviation
    }
}

/// Returns the expected value of `max(x, 0)`, where `x` is a normal variable with this mean and the standard deviation
/// 1.
fn expected_gain(mean: f64) -> f64 {
    (normal_density(mean) + mean * normal_sf(-mean)).max(0.0)
}
