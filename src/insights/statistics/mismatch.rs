//! Sample ratio mismatch: the visitors are not split among the arms as planned.
//!
//! The alarm is valid at every look (Lindon and Malek, arXiv 2011.03567). Arms without a weight are ignored.

use super::distributions::ln_gamma;

/// The concentration of the Dirichlet prior, whose mean is the planned shares. With a larger number, the test finds
/// small deviations sooner and large deviations later.
const CONCENTRATION: f64 = 100.0;
/// A mismatch is reported if the Bayes factor is above this number. Of the experiments without a mismatch, at most one
/// in a thousand is ever reported.
pub const BAYES_FACTOR_MAX: f64 = 1_000.0;

/// The result of the test that is valid at every look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mismatch {
    /// The natural logarithm of the Bayes factor for a mismatch.
    pub ln_bayes_factor: f64,
    /// The p-value.
    pub p: f64,
    /// True if the mismatch is reported.
    pub is_alarm: bool,
}

impl Mismatch {
    /// Returns the Bayes factor. If it is too large for an f64, returns the largest finite number.
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

/// Returns the arms with a weight above 0. The shares add up to 1. `None` for fewer than two arms.
fn planned_arms(visitors: &[u64], weights: &[f64]) -> Option<Vec<PlannedArm>> {
    let arms = visitors.iter().zip(weights).filter(|(_, weight)| **weight > 0.0 && weight.is_finite());
    let arms = arms.map(|(visitors, weight)| PlannedArm { visitors: *visitors as f64, share: *weight });
    let mut arms: Vec<PlannedArm> = arms.collect();
    let total: f64 = arms.iter().map(|arm| arm.share).sum();
    arms.iter_mut().for_each(|arm| arm.share /= total);
    let is_split = arms.len() > 1 && arms.iter().all(|arm| arm.share > 0.0);
    is_split.then_some(arms)
}

/// Tests the split. The result is valid at every look. `None` if fewer than two arms have a weight.
pub fn test_any_time(arm_visitors: &[u64], weights: &[f64]) -> Option<Mismatch> {
    let arms = planned_arms(arm_visitors, weights)?;
    let total: f64 = arms.iter().map(|arm| arm.visitors).sum();
    let prior = ln_gamma(CONCENTRATION) - ln_gamma(CONCENTRATION + total);
    let terms = arms.iter().map(|PlannedArm { visitors: arm_visitors, share }| {
        let concentration = CONCENTRATION * share;
        ln_gamma(concentration + arm_visitors) - ln_gamma(concentration) - arm_visitors * share.ln()
    });
    let ln_bayes_factor = prior + terms.sum::<f64>();
    Some(Mismatch {
        ln_bayes_factor,
        p: (-ln_bayes_factor).exp().min(1.0),
        is_alarm: ln_bayes_factor > BAYES_FACTOR_MAX.ln(),
    })
}
