//! The Bayesian comparison of two arms with a normal prior on the change.

use super::difference::{Difference, Interval};
use super::distributions::{normal_density, normal_quantile, normal_sf};

/// A normal prior on the change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// The expected change.
    pub mean: f64,
    /// Its variance.
    pub variance: f64,
}

/// The distribution of the change after the data are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Posterior {
    /// The expected change.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Posterior {
    /// Returns the distribution of a change. Without a prior every change was equally likely before.
    pub fn of(change: &Difference, prior: Option<Prior>) -> Self {
        let of_data = 1.0 / change.variance;
        let (prior_mean, of_prior) = prior.map_or((0.0, 0.0), |prior| (prior.mean, 1.0 / prior.variance));
        let precision = of_data + of_prior;
        let mean = (change.estimate * of_data + prior_mean * of_prior) / precision;
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

/// Returns the expected positive part of a normal variable with this mean and the standard deviation 1.
fn expected_gain(mean: f64) -> f64 {
    (normal_density(mean) + mean * normal_sf(-mean)).max(0.0)
}
