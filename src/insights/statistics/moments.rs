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

/// The means of two compared arms, with their variances. The baseline has the index 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanPair {
    pub means: [f64; 2],
    /// The variance of each mean.
    pub variances: [f64; 2],
    /// The covariance of the two means. It is 0 without CUPED.
    pub covariance: f64,
    /// The variances of the parts of the two means that are independent. Their sum is the variance of the difference.
    pub independent_variances: [f64; 2],
    /// The visitors of each arm.
    pub visitors: [f64; 2],
}

impl MeanPair {
    /// Returns the means of two independent arms. `a` is the baseline.
    pub fn of(a: &Moments, b: &Moments) -> Self {
        let variances = [a.variance_of_mean(), b.variance_of_mean()];
        Self {
            means: [a.mean, b.mean],
            variances,
            covariance: 0.0,
            independent_variances: variances,
            visitors: [a.visitors, b.visitors],
        }
    }

    /// Returns the means if the arm with the index `borrower` takes this share of its variance from the other arm.
    ///
    /// The test of a ratio `r` of the means assumes that the values of the borrower are `r` times as large. So it multiplies
    /// the variance of the lender by the square of `r`, and the lent variance too. This is why the lent variance is added to
    /// the lender.
    pub(super) fn with_borrowed_variance(&self, borrower: usize, share: f64) -> Self {
        let mut pair = *self;
        let lender = 1 - borrower;
        let lent =
            self.independent_variances[lender] * share * (self.visitors[lender] / self.visitors[borrower]);
        let returned = self.independent_variances[borrower] * share;
        pair.variances[lender] += lent;
        pair.independent_variances[lender] += lent;
        pair.variances[borrower] -= returned;
        pair.independent_variances[borrower] -= returned;
        pair
    }
}

/// Returns the sample covariance of two amounts, from their sums and the sum of their products. Returns 0 for fewer
/// than two visitors.
pub(super) fn covariance(visitor_count: f64, a_sum: f64, b_sum: f64, sum_of_products: f64) -> f64 {
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
        Self { visitors: visitor_count, mean, variance }
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

    /// Returns the variance of the mean. Returns 0 if there are no visitors.
    pub(super) fn variance_of_mean(&self) -> f64 {
        mean(self.visitors, self.variance)
    }
}
