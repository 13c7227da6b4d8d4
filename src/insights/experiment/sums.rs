//! The sums of a metric over the visitors of an arm.

use super::visitor::VisitorValue;
use crate::insights::columns::amounts::UNITS_PER_ONE;

/// The sums of a metric over the visitors of an arm. If the metric adds up no amounts, the value of a visitor is 1 if it
/// converted, and else 0.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct MetricSums {
    pub visitors: u64,
    /// The number of visitors that have reached the goal at least once.
    pub converted: u64,
    /// The number of visitors whose value is not 0.
    pub valued: u64,
    /// The sums of the values, before the values are limited.
    pub uncapped: ValueSums,
    /// The sums of the limited values. The comparison uses these sums.
    pub values: ValueSums,
    /// The number of visitors whose value exceeds the limit.
    pub capped: u64,
    /// The number of goal events whose property is no amount.
    pub ignored_amounts: u64,
    /// The number of visitors that were active before their first exposure.
    pub active: u64,
    /// The sums of the limited values before the first exposures.
    pub before: ValueSums,
    /// The sum of the products of the two limited values of a visitor: since its first exposure and before it.
    pub products: Compensated,
    /// The sum of the limited values of the active visitors, in units of 10^-4.
    of_active_units: i128,
}

impl MetricSums {
    /// Adds a visitor with its number of goals.
    pub(super) fn add(&mut self, goal_count: u64, value: VisitorValue) {
        self.visitors += 1;
        self.converted += u64::from(goal_count > 0);
        self.valued += u64::from(value.units != 0);
        self.uncapped.add(value.units);
        self.active += u64::from(value.was_active);
    }

    /// Adds the limited value of a visitor. The caller can leave out a visitor without a value.
    pub(super) fn add_limited(&mut self, value: VisitorValue, cap_units: Option<u128>) {
        let limited = value.limited(cap_units);
        self.capped += u64::from(limited.units != value.units);
        self.values.add(limited.units);
        self.before.add(limited.before_units);
        self.products.add(amount(limited.units) * amount(limited.before_units));
        if limited.was_active {
            self.of_active_units += limited.units;
        }
    }

    /// Returns the sum of the limited values of the active visitors.
    pub(super) fn of_active(&self) -> f64 {
        amount(self.of_active_units)
    }
}

/// The sum of values and the sum of their squares.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct ValueSums {
    /// The sum in units of 10^-4.
    units: i128,
    squares: Compensated,
}

impl ValueSums {
    fn add(&mut self, value_units: i128) {
        self.units += value_units;
        self.squares.add(amount(value_units).powi(2));
    }

    /// Returns the sum.
    pub(crate) fn sum(&self) -> f64 {
        amount(self.units)
    }

    /// Returns the sum of the squares.
    pub(crate) fn squares(&self) -> f64 {
        self.squares.sum()
    }
}

/// A sum with the rounding errors of its additions (Neumaier's compensated summation).
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Compensated {
    sum: f64,
    errors: f64,
}

impl Compensated {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) = match self.sum.abs() >= value.abs() {
            true => (self.sum, value),
            false => (value, self.sum),
        };
        self.errors += (large - sum) + small;
        self.sum = sum;
    }

    /// Returns the sum.
    pub(crate) fn sum(&self) -> f64 {
        self.sum + self.errors
    }
}

fn amount(units: i128) -> f64 {
    units as f64 / UNITS_PER_ONE
}
