//! Converts outcomes to the figures of a report.

use hdrhistogram::Histogram;

use super::{Latency, Side, Window};
use crate::outcome::Outcome;

/// Tail shares of the latency curve within one decade. The steps are small enough for a smooth curve.
const TAILS: [f64; 9] = [1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15];
/// Decades of the curve: up to 99.99 %.
const DECADES: i32 = 4;
const NS_PER_US: f64 = 1_000.0;

impl Side {
    /// Creates a side from a server's windows, in order of time.
    pub fn new(server: &str, version: &str, outcomes: &[Outcome]) -> Self {
        let mut latencies = outcomes.iter().map(|outcome| &outcome.latency_ns);
        let all = latencies.next().cloned().map(|first| {
            latencies.fold(first, |mut all, latency| {
                all.add(latency).expect("all have the same bounds");
                all
            })
        });
        Self {
            server: server.to_owned(),
            version: version.to_owned(),
            windows: outcomes.iter().map(Window::new).collect(),
            latency_us: all.as_ref().map_or_else(Latency::default, Latency::new),
        }
    }

    /// Returns the number of void windows, in which the latencies measure the generator.
    pub fn void_windows(&self) -> usize {
        self.windows.iter().filter(|window| window.is_void).count()
    }
}

impl Window {
    fn new(outcome: &Outcome) -> Self {
        Self {
            seconds: outcome.seconds,
            completed: outcome.completed,
            checked: outcome.checked,
            failed: outcome.failed,
            failure: outcome.failure.clone(),
            per_second: outcome.per_second(),
            received_bytes: outcome.received_bytes,
            server_us_per_request: outcome.server_us_per_request(),
            generator_us_per_request: outcome.generator_us_per_request(),
            due: outcome.due,
            late: outcome.late,
            is_void: outcome.is_void(),
            p50_us: quantile(&outcome.latency_ns, 0.5),
            p99_us: quantile(&outcome.latency_ns, 0.99),
            p999_us: quantile(&outcome.latency_ns, 0.999),
        }
    }
}

impl Latency {
    fn new(latency: &Histogram<u64>) -> Self {
        let of = |at: f64| (at, quantile(latency, at));
        let decades = (0..DECADES).map(|decade| 0.1_f64.powi(decade));
        let tails = decades.flat_map(|decade| TAILS.map(|tail| tail * decade)).chain([0.1_f64.powi(DECADES)]);
        Self {
            mean: latency.mean() / NS_PER_US,
            max: latency.max() as f64 / NS_PER_US,
            quantiles: tails.map(|tail| of(1.0 - tail)).chain([of(1.0)]).collect(),
        }
    }
}

fn quantile(latency: &Histogram<u64>, at: f64) -> f64 {
    latency.value_at_quantile(at) as f64 / NS_PER_US
}

/// The median, minimum and maximum of a figure over windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Computes the spread. An even count has the mean of the middle two as median. No values give zeros.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Self { median: 0.0, min: 0.0, max: 0.0 };
        };
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Self { median: f64::midpoint(low, high), min, max }
    }

    /// Divides a figure of one side by that of another, window by window. Adjacent windows see the machine in
    /// the same state.
    pub fn ratio(first: &Side, other: &Side, figure: fn(&Window) -> f64) -> Self {
        let pairs = first.windows.iter().zip(&other.windows);
        Self::of(pairs.map(|(first, other)| figure(first) / figure(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::sample;

    #[test]
    fn a_side_has_its_windows_and_the_latencies_of_all_of_them() {
        let mut slow = sample(100, 4.0);
        slow.latency_ns.record_n(5_000_000, 100).expect("within the bounds");
        let side = Side::new("parallax", "0.1.0", &[sample(100, 2.0), slow]);
        let costs = Spread::of(side.windows.iter().map(|window| window.server_us_per_request));
        assert_eq!(costs, Spread { median: 3.0, min: 2.0, max: 4.0 });
        let near = |at: f64, us: f64| {
            let found = side.latency_us.quantiles.iter().find(|(quantile, _)| (quantile - at).abs() < 1e-9);
            assert!((found.expect("it is among them").1 / us - 1.0).abs() < 1e-3, "{at}: {found:?}");
        };
        near(0.5, 1_000.0);
        [0.7, 0.99, 0.9999, 1.0].into_iter().for_each(|at| near(at, 5_000.0));
        assert!(side.latency_us.quantiles.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_ratio_is_taken_window_by_window() {
        let side = |costs: [f64; 3]| Side::new("", "", &costs.map(|us| sample(1_000, us)));
        let (first, other) = (side([2.0, 4.0, 8.0]), side([1.0, 2.0, 2.0]));
        let ratio = Spread::ratio(&first, &other, |window| window.server_us_per_request);
        assert_eq!(ratio, Spread { median: 2.0, min: 2.0, max: 4.0 });
    }

    #[test]
    fn the_spread_of_no_values_is_zero() {
        assert_eq!(Spread::of(std::iter::empty()).median, 0.0);
        assert_eq!(Spread::of([1.0, 2.0].into_iter()).median, 1.5);
    }
}
