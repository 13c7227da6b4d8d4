//! The mixture sequential probability ratio test (Johari et al., arXiv 1512.04922).

use super::difference::{Difference, Interval};

/// Returns the likelihood ratio of the mixture against a difference of 0.
pub fn likelihood_ratio(difference: &Difference, mixture_variance: f64) -> f64 {
    let Difference { estimate, variance, .. } = *difference;
    let sum = variance + mixture_variance;
    (variance / sum).sqrt() * (mixture_variance * estimate * estimate / (2.0 * variance * sum)).exp()
}

/// Returns the p-value. It is valid at every look.
pub fn p_value(difference: &Difference, mixture_variance: f64) -> f64 {
    (1.0 / likelihood_ratio(difference, mixture_variance)).min(1.0)
}

/// Returns the interval of the difference. It is valid at every look. `None` if no finite interval exists.
pub fn interval(difference: &Difference, mixture_variance: f64, alpha: f64) -> Option<Interval> {
    let v = difference.variance;
    let sum = v + mixture_variance;
    let half = (v * sum / mixture_variance * ((sum / v).ln() - 2.0 * alpha.ln())).sqrt();
    Interval::finite(difference.estimate - half, difference.estimate + half)
}
