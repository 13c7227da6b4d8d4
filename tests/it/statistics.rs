//! The statistics of experiments: reference cases, properties over any sums, verdicts, and simulated experiments.

mod cases;
mod cuped;
mod metrics;
mod properties;
mod ramped;
mod segments;
mod simulated;

use parallax::testing::insights::statistics::difference::{Method, PLANNED_DEFAULT};
use parallax::testing::insights::statistics::metric::{ArmSums, Settings};

/// The default settings of an answer: valid at every look, the first arm as the baseline.
const SETTINGS: Settings =
    Settings { alpha: 0.05, method: Method::Anytime { planned: PLANNED_DEFAULT }, baseline: 0 };

/// Returns the sums of a proportion.
fn rate(visitors: u64, converted: u64) -> ArmSums {
    ArmSums { visitors, converted, sum: 0.0, sum_of_squares: 0.0 }
}
