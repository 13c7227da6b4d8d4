//! CUPED: adjusts a metric by the behaviour of the visitors before their first exposure (Deng et al. 2013). The
//! behaviour before the exposure cannot depend on the arm. So the part of the metric that it explains is noise.
//!
//! There are two covariates: the same metric before the exposure, and whether the visitor was active then. Their factors
//! are the least squares of both arms, computed within the arms. The adjusted mean of an arm is `mean(z) + factors *
//! mean(x)`, where `z` is the metric minus the factors times the covariates `x`, and `mean(x)` is over both arms.
//!
//! The means of the two arms share `mean(x)`, so they have a covariance.

use super::moments::{MeanPair, covariance};

/// Minimum of the determinant of the covariances of the two covariates, relative to the product of their variances.
/// Below this number, both covariates have the same information, and their factors would consist of rounding errors.
const DETERMINANT_MIN: f64 = 1e-9;

/// Maximum of a sum that is a rounding error, relative to its numbers.
const RESIDUE_MAX: f64 = 1e-12;

/// The sums over the visitors of an arm for a metric after the first exposure, and for the covariates.
///
/// A visitor whose metric before the exposure is not 0 is active. So the sum of the products of the two covariates is
/// `before`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CupedSums {
    /// The visitors of the arm.
    pub visitors: f64,
    /// The sum of the metric after the exposure.
    pub after: f64,
    /// The sum of the squares of the metric after the exposure.
    pub after_squares: f64,
    /// The sum of the metric before the exposure.
    pub before: f64,
    /// The sum of the squares of the metric before the exposure.
    pub before_squares: f64,
    /// The number of visitors that were active before the exposure.
    pub active: f64,
    /// The sum of the products of the metric after and before the exposure.
    pub products: f64,
    /// The sum of the metric after the exposure over the active visitors.
    pub after_of_active: f64,
}

/// Two numbers, one for each covariate.
type Pair = [f64; 2];

/// The sample variances and covariances of an arm.
struct Spread {
    /// The variance of the metric.
    after: f64,
    /// The covariance of the metric with each covariate.
    with_covariates: Pair,
    /// The covariances of the covariates.
    covariates: [Pair; 2],
}

/// The adjusted means of two arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adjustment {
    /// The factors of the two covariates.
    pub factors: [f64; 2],
    pub means: MeanPair,
}

impl CupedSums {
    fn means_of_covariates(&self) -> Pair {
        [self.before / self.visitors, self.active / self.visitors]
    }

    fn spread(&self) -> Spread {
        let n = self.visitors;
        let active = covariance(n, self.active, self.active, self.active);
        let both = covariance(n, self.before, self.active, self.before);
        let before = covariance(n, self.before, self.before, self.before_squares);
        Spread {
            after: covariance(n, self.after, self.after, self.after_squares),
            with_covariates: [
                covariance(n, self.after, self.before, self.products),
                covariance(n, self.after, self.active, self.after_of_active),
            ],
            covariates: [[before, both], [both, active]],
        }
    }
}

impl Spread {
    /// Returns the variance of the adjusted metric, and its covariance with the sum of the weighted covariates.
    fn adjusted(&self, factors: Pair) -> (f64, f64) {
        let weighted = quadratic(&self.covariates, factors);
        let explained = dot(factors, self.with_covariates);
        ((self.after - 2.0 * explained + weighted).max(0.0), explained - weighted)
    }
}

/// Returns the average of two arms, weighted with their degrees of freedom.
fn pooled(a: &Spread, b: &Spread, weights: Pair) -> Spread {
    let [a_weight, b_weight] = weights.map(|weight| weight / (weights[0] + weights[1]));
    let pair = |a: Pair, b: Pair| [0, 1].map(|at| a[at] * a_weight + b[at] * b_weight);
    Spread {
        after: a.after * a_weight + b.after * b_weight,
        with_covariates: pair(a.with_covariates, b.with_covariates),
        covariates: [0, 1].map(|at| pair(a.covariates[at], b.covariates[at])),
    }
}

/// Returns the factors by least squares. `None` if a covariate does not vary, or if both have the same information.
fn least_squares(spread: &Spread) -> Option<Pair> {
    let [[before, both], [_, active]] = spread.covariates;
    let [with_before, with_active] = spread.with_covariates;
    let determinant = before * active - both * both;
    let can_divide = before > 0.0 && active > 0.0 && determinant > DETERMINANT_MIN * before * active;
    let factors = [active * with_before - both * with_active, before * with_active - both * with_before];
    can_divide
        .then_some(factors.map(|factor| factor / determinant))
        .filter(|factors| factors.iter().all(|factor| factor.is_finite()))
}

impl Adjustment {
    /// Adjusts the means of two arms. `a` is the baseline. `None` if an arm has fewer than two visitors, if a covariate
    /// does not vary, or if both covariates have the same information.
    pub fn of(a: &CupedSums, b: &CupedSums) -> Option<Self> {
        if a.visitors < 2.0 || b.visitors < 2.0 {
            return None;
        }
        let visitors = a.visitors + b.visitors;
        let spreads = [a, b].map(CupedSums::spread);
        let all = pooled(&spreads[0], &spreads[1], [a.visitors - 1.0, b.visitors - 1.0]);
        let factors = least_squares(&all)?;
        let common_mean = [(a.before + b.before) / visitors, (a.active + b.active) / visitors];
        let of_common_mean = quadratic(&all.covariates, factors) / visitors;
        let mean = |arm: &CupedSums| {
            let own = arm.means_of_covariates();
            let [before, active] = [0, 1].map(|at| factors[at] * (common_mean[at] - own[at]));
            sum_without_residue([arm.after / arm.visitors, before, active])
        };
        let [(a_adjusted, a_common), (b_adjusted, b_common)] = spreads.map(|spread| spread.adjusted(factors));
        let parts = [a_adjusted / a.visitors, b_adjusted / b.visitors];
        let means = MeanPair {
            means: [mean(a), mean(b)],
            variances: [
                parts[0] + 2.0 * a_common / visitors + of_common_mean,
                parts[1] + 2.0 * b_common / visitors + of_common_mean,
            ],
            covariance: (a_common + b_common) / visitors + of_common_mean,
            independent_variances: parts,
            visitors: [a.visitors, b.visitors],
        };
        Some(Self { factors, means })
    }
}

/// Returns the sum of the numbers. If they cancel each other except for a rounding error, returns 0. A change relative to a
/// rounding error would be a huge number without a meaning.
fn sum_without_residue(numbers: [f64; 3]) -> f64 {
    let sum: f64 = numbers.iter().sum();
    let size: f64 = numbers.iter().map(|number| number.abs()).sum();
    if sum.abs() <= RESIDUE_MAX * size { 0.0 } else { sum }
}

fn dot(a: Pair, b: Pair) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

/// Returns the variance of the sum of two variables that are multiplied with these factors.
fn quadratic(covariances: &[Pair; 2], factors: Pair) -> f64 {
    dot(factors, covariances.map(|row| dot(row, factors)))
}
