//! Computes the mean and the variance of a metric in one arm. The inputs are sums over the visitors of the arm.

/// The mean and the variance of a metric in one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The visitors of the arm.
    pub visitors: f64,
    /// The mean of the metric per visitor.
    pub mean: f64,
    /// The variance of the metric per visitor.
    pub variance: f64,
    /// The divisor of a relative change. With CUPED, it is the mean before the adjustment. Otherwise it is `mean`.
    pub level: f64,
}

/// The sums over the visitors of an arm for a ratio of two amounts. An example of a ratio is the revenue per page view.
#[derive(Debug, Clone, Copy)]
pub struct RatioSums {
    /// The visitors of the arm.
    pub visitors: u64,
    /// The sum of the numerators.
    pub numerator: f64,
    /// The sum of the squares of the numerators.
    pub numerator_squares: f64,
    /// The sum of the denominators.
    pub denominator: f64,
    /// The sum of the squares of the denominators.
    pub denominator_squares: f64,
    /// The sum of the products of the numerator and the denominator of each visitor.
    pub products: f64,
}

/// The sums over the visitors of an arm for a metric after the first exposure, and for the same metric before the first
/// exposure.
#[derive(Debug, Clone, Copy)]
pub struct CupedSums {
    /// The visitors of the arm.
    pub visitors: u64,
    /// The sum of the metric after the exposure.
    pub after: f64,
    /// The sum of the squares of the metric after the exposure.
    pub after_squares: f64,
    /// The sum of the metric before the exposure.
    pub before: f64,
    /// The sum of the squares of the metric before the exposure.
    pub before_squares: f64,
    /// The sum of the products of the metric before and the metric after the exposure of each visitor.
    pub products: f64,
}

/// Returns the sample covariance of two amounts, from their sums and the sum of their products. Returns 0 for fewer
/// than two visitors.
fn covariance(visitor_count: f64, a_sum: f64, b_sum: f64, sum_of_products: f64) -> f64 {
    if visitor_count < 2.0 {
        return 0.0;
    }
    (sum_of_products - a_sum * (b_sum / visitor_count)) / (visitor_count - 1.0)
}

/// Returns the sample variance. If rounding makes it negative, returns 0.
fn variance(visitor_count: f64, sum: f64, sum_of_squares: f64) -> f64 {
    covariance(visitor_count, sum, sum, sum_of_squares).max(0.0)
}

/// Returns the mean. Returns 0 if there are no visitors.
fn mean(visitor_count: f64, sum: f64) -> f64 {
    if visitor_count == 0.0 { 0.0 } else { sum / visitor_count }
}

impl Moments {
    fn new(visitor_count: f64, mean: f64, variance: f64) -> Self {
        Self { visitors: visitor_count, mean, variance, level: mean }
    }

    /// Returns the moments of a share of visitors. If `converted_count` is larger than `visitor_count`, all visitors count as
    /// converted.
    pub fn of_proportion(visitor_count: u64, converted_count: u64) -> Self {
        let mean = mean(visitor_count as f64, converted_count.min(visitor_count) as f64);
        Self::new(visitor_count as f64, mean, mean * (1.0 - mean))
    }

    /// Returns the moments of an amount per visitor.
    pub fn of_mean(visitor_count: u64, sum: f64, sum_of_squares: f64) -> Self {
        let visitor_count = visitor_count as f64;
        Self::new(visitor_count, mean(visitor_count, sum), variance(visitor_count, sum, sum_of_squares))
    }

    /// Returns the moments of a ratio by the delta method (Deng, Knoblich, Lu 2018).
    pub fn of_ratio(sums: &RatioSums) -> Self {
        let visitors = sums.visitors as f64;
        let numerator_mean = mean(visitors, sums.numerator);
        let denominator_mean = mean(visitors, sums.denominator);
        let ratio = numerator_mean / denominator_mean;
        let numerator_variance = variance(visitors, sums.numerator, sums.numerator_squares);
        let denominator_variance = variance(visitors, sums.denominator, sums.denominator_squares);
        let covariance = covariance(visitors, sums.numerator, sums.denominator, sums.products);
        let variance = (numerator_variance - 2.0 * ratio * covariance + ratio * ratio * denominator_variance)
            / (denominator_mean * denominator_mean);
        Self::new(visitors, ratio, variance.max(0.0))
    }

    /// Returns the moments of two arms. Adjusts the metric of each arm by the same metric before the exposure (CUPED,
    /// Deng et al. 2013). Computes the factor of the adjustment from the sums over both arms.
    pub fn of_cuped(a: &CupedSums, b: &CupedSums) -> (Self, Self) {
        let visitors = a.visitors as f64 + b.visitors as f64;
        let before = a.before + b.before;
        let common = covariance(visitors, a.after + b.after, before, a.products + b.products);
        let spread = variance(visitors, before, a.before_squares + b.before_squares);
        let factor = if spread > 0.0 { common / spread } else { 0.0 };
        (Self::adjusted(a, factor), Self::adjusted(b, factor))
    }

    fn adjusted(sums: &CupedSums, factor: f64) -> Self {
        let visitors = sums.visitors as f64;
        let level = mean(visitors, sums.after);
        let after = variance(visitors, sums.after, sums.after_squares);
        let before = variance(visitors, sums.before, sums.before_squares);
        let common = covariance(visitors, sums.after, sums.before, sums.products);
        let variance = (after + factor * factor * before - 2.0 * factor * common).max(0.0);
        Self { visitors, mean: level - factor * mean(visitors, sums.before), variance, level }
    }

    /// Returns the variance of the mean. Returns 0 if there are no visitors.
    pub(super) fn variance_of_mean(&self) -> f64 {
        mean(self.visitors, self.variance)
    }
}
