//! The interval of a share of visitors by the method of Wilson. The interval is valid for small shares too.

use super::difference::Interval;
use super::distributions::normal_quantile;

/// Returns Wilson's interval of a share of visitors. `None` if there are no visitors.
pub fn wilson(visitor_count: u64, converted_count: u64, alpha: f64) -> Option<Interval> {
    if visitor_count == 0 {
        return None;
    }
    let z = -normal_quantile(alpha / 2.0);
    let n = visitor_count as f64;
    let m = converted_count.min(visitor_count) as f64 / n;
    let scale = 1.0 + z * z / n;
    let center = (m + z * z / (2.0 * n)) / scale;
    let half = z / scale * (m * (1.0 - m) / n + z * z / (4.0 * n * n)).sqrt();
    // A rounding error must not exclude the share from the interval.
    Interval::finite((center - half).clamp(0.0, m), (center + half).clamp(m, 1.0))
}
