//! Intervals of one share of visitors and of the difference of two small ones.

use super::difference::Interval;
use super::distributions::{normal_quantile, normal_sf};

/// Returns Wilson's interval of a share of visitors. `None` without visitors.
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
    // Rounding must not move an end beyond the share itself.
    Interval::finite((center - half).clamp(0.0, m), (center + half).clamp(m, 1.0))
}

/// The visitors of an arm, and the converted ones among them.
type Rate = (u64, u64);

/// Returns Newcombe's interval (1998) of the difference of two shares. `None` without visitors in both arms.
pub fn newcombe(a: Rate, b: Rate, alpha: f64) -> Option<Interval> {
    let (of_a, of_b) = (wilson(a.0, a.1, alpha)?, wilson(b.0, b.1, alpha)?);
    let [mean_a, mean_b] =
        [a, b].map(|(visitors, converted)| converted.min(visitors) as f64 / visitors as f64);
    let difference = mean_b - mean_a;
    let low = difference - (mean_b - of_b.low).hypot(of_a.high - mean_a);
    let high = difference + (of_b.high - mean_b).hypot(mean_a - of_a.low);
    Interval::finite(low, high)
}

/// The test of two shares with one pooled variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledTest {
    /// The difference in standard errors.
    pub z: f64,
    /// The two-sided p-value.
    pub p: f64,
}

/// Tests whether two shares are equal. `None` if the pooled share has no variance.
pub fn test_pooled(a: Rate, b: Rate) -> Option<PooledTest> {
    let [n_a, n_b, x_a, x_b] = [a.0, b.0, a.1.min(a.0), b.1.min(b.0)].map(|count| count as f64);
    let share = (x_a + x_b) / (n_a + n_b);
    let z = (x_b / n_b - x_a / n_a) / (share * (1.0 - share) * (1.0 / n_a + 1.0 / n_b)).sqrt();
    z.is_finite().then(|| PooledTest { z, p: 2.0 * normal_sf(z.abs()) })
}
