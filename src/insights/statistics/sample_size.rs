//! Computes the number of visitors that an experiment needs, and the number of days until the experiment has these
//! visitors.

use super::difference::{Method, planned_squared_width};
use super::distributions::normal_quantile;

/// The smallest change that an experiment must find, and the error rates.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The share of converted visitors in the baseline.
    pub rate: f64,
    /// The smallest relative change of `rate` that the experiment must find.
    pub lift: f64,
    /// The probability of a false alarm.
    pub alpha: f64,
    /// The probability to find a change of `lift`.
    pub power: f64,
}

/// Returns the number of visitors that each arm needs. Both rates, before and after the change, must be above 0 and at
/// most 1. Returns `None` if a rate is out of this range, if the rates are equal, or if the number cannot be computed.
pub fn visitors_per_arm(target: &Target, method: Method) -> Option<u64> {
    let p1 = target.rate;
    let p2 = p1 * (1.0 + target.lift);
    let is_rate = |p: f64| p > 0.0 && p <= 1.0;
    if !is_rate(p1) || !is_rate(p2) || p1 == p2 {
        return None;
    }
    let z = -normal_quantile(target.alpha / 2.0);
    let sum = z + normal_quantile(target.power);
    let variances = p1 * (1.0 - p1) + p2 * (1.0 - p2);
    let factor = match method {
        Method::Fixed => 1.0,
        // An interval that is valid when the result is read several times is wider.
        Method::Anytime { .. } => planned_squared_width(target.alpha) / (z * z),
    };
    let visitors = (sum * sum * variances / (p2 - p1).powi(2) * factor).ceil();
    // A conversion from a float saturates.
    (visitors.is_finite() && sum > 0.0).then_some(visitors as u64)
}

/// Returns the number of days until the smallest arm has enough visitors, rounded up. `None` if it gets no new
/// visitors.
pub fn days_left(needed_arm_size: u64, smallest_arm_size: u64, new_visitors_per_day: f64) -> Option<u64> {
    let missing = needed_arm_size.saturating_sub(smallest_arm_size);
    if missing == 0 {
        return Some(0);
    }
    (new_visitors_per_day > 0.0).then(|| (missing as f64 / new_visitors_per_day).ceil() as u64)
}
