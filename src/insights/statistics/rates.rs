//! Intervals and tests of shares of visitors, which hold for small shares too.

use super::difference::Interval;
use super::distributions::{normal_quantile, normal_sf};

/// Returns Wilson's interval of a share of visitors. `None` if there are no visitors.
pub fn wilson(visitors: u64, converted: u64, alpha: f64) -> Option<Interval> {
    if visitors == 0 {
        return None;
    }
    let z = -normal_quantile(alpha / 2.0);
    let n = visitors as f64;
    let m = converted.min(visitors) as f64 / n;
    let scale = 1.0 + z * z / n;
    let center = (m + z * z / (2.0 * n)) / scale;
    let half = z / scale * (m * (1.0 - m) / n + z * z / (4.0 * n * n)).sqrt();
    // Rounding must not move an end of the interval past the share.
    Interval::finite((center - half).clamp(0.0, m), (center + half).clamp(m, 1.0))
}

/// The visitors of an arm.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub visitors: u64,
    pub converted: u64,
}

impl Rate {
    /// Returns the share of converted visitors.
    fn share(self) -> f64 {
        self.converted.min(self.visitors) as f64 / self.visitors as f64
    }
}

/// Returns Newcombe's interval (1998) of the difference between the shares of two arms. `None` if an arm has no
/// visitors.
pub fn newcombe(a: Rate, b: Rate, alpha: f64) -> Option<Interval> {
    let a_interval = wilson(a.visitors, a.converted, alpha)?;
    let b_interval = wilson(b.visitors, b.converted, alpha)?;
    let difference = b.share() - a.share();
    let low = difference - (b.share() - b_interval.low).hypot(a_interval.high - a.share());
    let high = difference + (b_interval.high - b.share()).hypot(a.share() - a_interval.low);
    Interval::finite(low, high)
}

/// The result of a test of two shares with one pooled variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledTest {
    /// The difference, in standard errors.
    pub z: f64,
    /// The two-sided p-value.
    pub p: f64,
}

/// Tests whether two shares are equal. `None` if the pooled share has no variance.
pub fn test_pooled(a: Rate, b: Rate) -> Option<PooledTest> {
    let counts = [a.visitors, b.visitors, a.converted.min(a.visitors), b.converted.min(b.visitors)];
    let [n_a, n_b, x_a, x_b] = counts.map(|count| count as f64);
    let share = (x_a + x_b) / (n_a + n_b);
    let z = (x_b / n_b - x_a / n_a) / (share * (1.0 - share) * (1.0 / n_a + 1.0 / n_b)).sqrt();
    z.is_finite().then(|| PooledTest { z, p: 2.0 * normal_sf(z.abs()) })
}
