//! The test for a sample ratio mismatch. A mismatch means that the visitors are not split among the arms as planned.
//!
//! The test is from Lindon and Malek, arXiv 2011.03567. It is valid even if the result is read several times during the
//! experiment. The test ignores arms without a weight.

use super::distributions::ln_gamma;

/// The concentration of the Dirichlet prior. The mean of the prior is the planned shares. A larger concentration finds
/// small deviations sooner, and large deviations later.
const CONCENTRATION: f64 = 100.0;
/// The concentration for visitors with an error. An arm that fails has many times the errors of the others, so a small number of
/// them must be enough.
const ERROR_CONCENTRATION: f64 = 10.0;
/// Maximum Bayes factor without an alarm. If the Bayes factor is higher, there is an alarm. If an experiment has no
/// mismatch, the probability that it ever has an alarm is at most 1/1,000.
pub const BAYES_FACTOR_MAX: f64 = 1_000.0;

/// The result of the test for a mismatch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mismatch {
    /// The natural logarithm of the Bayes factor for a mismatch.
    pub ln_bayes_factor: f64,
    /// The p-value. It is valid even if the result is read several times during the experiment.
    pub p: f64,
    /// True if there is an alarm.
    pub is_alarm: bool,
}

impl Mismatch {
    /// Returns the Bayes factor. If the Bayes factor is too large for an f64, returns the largest finite f64.
    pub fn bayes_factor(&self) -> f64 {
        self.ln_bayes_factor.exp().min(f64::MAX)
    }
}

/// An arm with a weight.
struct PlannedArm {
    visitors: f64,
    /// The planned share of all visitors.
    share: f64,
}

/// Returns each arm with a weight above 0. The shares of these arms add up to 1. Returns `None` if there are fewer than
/// two such arms.
fn planned_arms(visitor_counts: &[u64], weights: &[f64]) -> Option<Vec<PlannedArm>> {
    let arms = visitor_counts.iter().zip(weights).filter(|(_, weight)| **weight > 0.0 && weight.is_finite());
    let arms = arms.map(|(count, weight)| PlannedArm { visitors: *count as f64, share: *weight });
    let mut arms: Vec<PlannedArm> = arms.collect();
    let total: f64 = arms.iter().map(|arm| arm.share).sum();
    arms.iter_mut().for_each(|arm| arm.share /= total);
    let is_split = arms.len() > 1 && arms.iter().all(|arm| arm.share > 0.0);
    is_split.then_some(arms)
}

/// Tests the split in periods with different weights. Each period has the number of visitors of each arm, and the weight of
/// each arm. The result is valid at every look: the Bayes factor is the product of those of the periods, and each of them is at
/// most 1 on average without a mismatch. `None` if no period has two arms with a weight.
pub fn test_any_time(periods: &[(Vec<u64>, Vec<f64>)]) -> Option<Mismatch> {
    let factors = periods
        .iter()
        .filter_map(|(visitor_counts, weights)| ln_bayes_factor(visitor_counts, weights, CONCENTRATION));
    factors.reduce(|sum, factor| sum + factor).map(mismatch)
}

/// Tests whether the visitors with an error are split among the arms like all visitors. `None` if fewer than two arms have
/// visitors.
pub fn test_errors(error_counts: &[u64], visitor_counts: &[u64]) -> Option<Mismatch> {
    let weights: Vec<f64> = visitor_counts.iter().map(|count| *count as f64).collect();
    ln_bayes_factor(error_counts, &weights, ERROR_CONCENTRATION).map(mismatch)
}

fn mismatch(ln_bayes_factor: f64) -> Mismatch {
    Mismatch {
        ln_bayes_factor,
        p: (-ln_bayes_factor).exp().min(1.0),
        is_alarm: ln_bayes_factor > BAYES_FACTOR_MAX.ln(),
    }
}

/// Returns the logarithm of the Bayes factor. `None` if fewer than two arms have a weight.
fn ln_bayes_factor(visitor_counts: &[u64], weights: &[f64], concentration: f64) -> Option<f64> {
    let arms = planned_arms(visitor_counts, weights)?;
    let total: f64 = arms.iter().map(|arm| arm.visitors).sum();
    let prior = ln_gamma(concentration) - ln_gamma(concentration + total);
    let terms = arms.iter().map(|PlannedArm { visitors, share }| {
        let own = concentration * share;
        ln_gamma(own + visitors) - ln_gamma(own) - visitors * share.ln()
    });
    Some(prior + terms.sum::<f64>())
}
