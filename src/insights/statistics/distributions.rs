//! Quantiles of the normal distribution, tails and quantiles of Student's t distribution, and the logarithm of the gamma
//! function.
//!
//! The functions compute upper tails directly. The complement of a distribution function would be 0 for an upper tail
//! below 1e-16.

use std::f64::consts::SQRT_2;

use statrs::function::{beta, erf, gamma};

/// Maximum number of degrees of freedom. A higher number is replaced with this number, because the incomplete beta
/// function of the library is not exact for higher numbers. At this number, Student's t distribution differs from the
/// normal distribution by less than 2.5e-7.
const FREEDOM_MAX: f64 = 1e7;

/// Maximum number of steps in the search for a quantile. Each step halves the range of the search. So after this number
/// of steps the result has all digits of an f64.
const QUANTILE_STEPS_MAX: usize = 200;

/// Returns the lower quantile: a standard normal variable is below it with this probability.
pub fn normal_quantile(probability: f64) -> f64 {
    -SQRT_2 * erf::erfc_inv(2.0 * probability)
}

/// Returns the probability that a variable with Student's t distribution is above `t`. `freedom` is positive.
pub fn t_sf(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.min(FREEDOM_MAX);
    // If the square of `t` overflows, the quotient is 0, which is correct.
    let x = freedom / (freedom + t * t);
    let tail = beta::checked_beta_reg(freedom / 2.0, 0.5, x).map_or(f64::NAN, |tails| tails / 2.0);
    if t < 0.0 { 1.0 - tail } else { tail }
}

/// Returns the upper quantile of Student's t distribution. A variable with this distribution exceeds the quantile with
/// the probability `probability`. `probability` is above 0 and at most 0.5. `freedom` is positive.
pub fn t_quantile_upper(probability: f64, freedom: f64) -> f64 {
    // The tails of the t distribution are heavier than the tails of the normal distribution. So the quantile of the
    // normal distribution is at most the result.
    let mut low = -normal_quantile(probability);
    let mut high = low + 1.0;
    while t_sf(high, freedom) > probability && high.is_finite() {
        low = high;
        high *= 2.0;
    }
    for _ in 0..QUANTILE_STEPS_MAX {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if t_sf(middle, freedom) > probability { low = middle } else { high = middle }
    }
    high
}

/// Returns the natural logarithm of the gamma function of a positive number.
pub fn ln_gamma(x: f64) -> f64 {
    gamma::ln_gamma(x)
}
