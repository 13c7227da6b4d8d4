//! Sample ratio mismatch: visitors that are not split among the arms as planned.
//!
//! The alarm is valid at every look (Lindon and Malek, arXiv 2011.03567). The chi-square test is valid at one
//! look only. Arms without a planned share take no part.

use super::distributions::{chi_square_sf, ln_gamma};

/// The weight of the planned shares against the observed visitors (the concentration of the Dirichlet prior). The
/// test finds small deviations sooner with a larger number, and large ones later.
const CONCENTRATION: f64 = 100.0;
/// The Bayes factor above which a mismatch is reported. In an experiment without a mismatch, at most one in a thousand
/// ever exceeds it.
pub const BAYES_FACTOR_MAX: f64 = 1_000.0;

/// The result of the test that is valid at every look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mismatch {
    /// The natural logarithm of the Bayes factor for a mismatch.
    pub ln_bayes_factor: f64,
    /// The p-value.
    pub p: f64,
    /// True if the split differs from the planned one.
    pub is_alarm: bool,
}

impl Mismatch {
    /// Returns the Bayes factor. A factor beyond the range of an f64 is the largest finite number.
    pub fn bayes_factor(&self) -> f64 {
        self.ln_bayes_factor.exp().min(f64::MAX)
    }
}

/// An arm of positive weight: its visitors, and its share of all of them.
type Expected = (f64, f64);

/// Returns the arms of positive weight, if there are two or more. The shares add up to 1.
fn expected(observed: &[u64], weights: &[f64]) -> Option<Vec<Expected>> {
    let arms = observed.iter().zip(weights).filter(|(_, weight)| **weight > 0.0 && weight.is_finite());
    let mut arms: Vec<Expected> = arms.map(|(visitors, weight)| (*visitors as f64, *weight)).collect();
    let total: f64 = arms.iter().map(|(_, weight)| weight).sum();
    arms.iter_mut().for_each(|(_, weight)| *weight /= total);
    let is_split = arms.len() > 1 && arms.iter().all(|(_, share)| *share > 0.0);
    is_split.then_some(arms)
}

/// Tests the split at any look. `None` if fewer than two arms have a weight.
pub fn test_any_time(observed: &[u64], weights: &[f64]) -> Option<Mismatch> {
    let arms = expected(observed, weights)?;
    let all: f64 = arms.iter().map(|(visitors, _)| visitors).sum();
    let prior = ln_gamma(CONCENTRATION) - ln_gamma(CONCENTRATION + all);
    let terms = arms.iter().map(|(visitors, share)| {
        let concentration = CONCENTRATION * share;
        ln_gamma(concentration + visitors) - ln_gamma(concentration) - visitors * share.ln()
    });
    let ln_bayes_factor = prior + terms.sum::<f64>();
    Some(Mismatch {
        ln_bayes_factor,
        p: (-ln_bayes_factor).exp().min(1.0),
        is_alarm: ln_bayes_factor > BAYES_FACTOR_MAX.ln(),
    })
}

/// The chi-square test of a split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChiSquare {
    /// The sum of the squared deviations, each divided by the expected number.
    pub statistic: f64,
    /// The number of arms of positive weight, minus 1.
    pub freedom: f64,
    /// The p-value.
    pub p: f64,
}

/// Tests the split at one look (Fabijan et al. 2019). `None` if fewer than two arms have a weight.
pub fn test_once(observed: &[u64], weights: &[f64]) -> Option<ChiSquare> {
    let arms = expected(observed, weights)?;
    let all: f64 = arms.iter().map(|(visitors, _)| visitors).sum();
    let deviation = |(visitors, share): &Expected| {
        let expected = share * all;
        if expected > 0.0 { (visitors - expected).powi(2) / expected } else { 0.0 }
    };
    let statistic = arms.iter().map(deviation).sum();
    let freedom = arms.len() as f64 - 1.0;
    Some(ChiSquare { statistic, freedom, p: chi_square_sf(statistic, freedom) })
}
