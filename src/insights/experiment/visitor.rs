//! One exposed visitor: its goals since its first exposure, and its behaviour before it.

use super::metrics::{ERROR_BIT, Metric};
use super::question::{BEFORE_MS, ExperimentQuestion};
use super::read::{GOAL, RowGoal};
use crate::insights::columns::amounts::{Amount, UNITS_PER_ONE};
use crate::insights::questions::goals::{Currencies, MoneyAmount};
use crate::insights::questions::row::Row;

/// The value of a visitor in a metric.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VisitorValue {
    /// The value since the first exposure, in units of 10^-4.
    pub units: i128,
    /// The value before the first exposure.
    pub before_units: i128,
    /// True if the visitor was active before its first exposure.
    pub was_active: bool,
}

impl VisitorValue {
    /// Returns the value with its amounts limited.
    pub(super) fn limited(self, cap_units: Option<u128>) -> Self {
        let cap = cap_units.and_then(|cap| i128::try_from(cap).ok()).unwrap_or(i128::MAX);
        let [units, before_units] = [self.units, self.before_units].map(|units| units.clamp(-cap, cap));
        Self { units, before_units, ..self }
    }
}

/// The goals of a visitor in a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Goals {
    pub count: u64,
    /// The value in units of 10^-4. If the metric adds up no amounts, it is 1 if there is a goal.
    units: i128,
    /// The number of goals whose property is no amount.
    pub ignored_amounts: u64,
}

/// A visitor with an exposure.
pub(super) struct ExposedVisitor<'r> {
    /// The rows of the visitor, by time.
    rows: &'r [Row],
    goals: &'r [RowGoal],
    first: Row,
    /// The end of the time in which goals count.
    until_ms: i64,
    /// The begin of the time before the first exposure.
    before_from_ms: i64,
    currencies: &'r Currencies,
    /// The currency whose amounts count. `None` if all count.
    currency: Option<&'r str>,
}

impl<'r> ExposedVisitor<'r> {
    /// `first` is the first exposure of the visitor.
    pub(super) fn new(
        rows: &'r [Row],
        first: Row,
        goals: &'r [RowGoal],
        question: &'r ExperimentQuestion,
        currencies: &'r Currencies,
    ) -> Self {
        let first_ms = first.time_ms();
        let before_ms = if question.cuped { BEFORE_MS } else { 0 };
        let window_ms = question.window_ms.unwrap_or(i64::MAX);
        Self {
            rows,
            goals,
            first,
            until_ms: first_ms.saturating_add(window_ms),
            before_from_ms: first_ms.saturating_sub(before_ms),
            currencies,
            currency: question.currency.as_deref(),
        }
    }

    /// Returns the value in the metric with this index, and the goals since the first exposure.
    pub(super) fn value(&self, index: usize, metric: &Metric) -> (VisitorValue, Goals) {
        let since = self.goals(index, metric, |row| self.is_since(row));
        let before = self.goals(index, metric, |row| self.is_before(row));
        let was_active = self.rows.iter().any(|row| self.is_before(row));
        (VisitorValue { units: since.units, before_units: before.units, was_active }, since)
    }

    /// Passes each amount of a metric since the first exposure.
    pub(super) fn each_amount(&self, index: usize, take_amount: &mut dyn FnMut(MoneyAmount)) {
        let rows = self.rows.iter().filter(|row| row.has(GOAL) && self.is_since(row));
        let goals = rows.map(|row| &self.goals[row.value as usize]);
        let amounts = goals.filter(|goal| goal.metrics >> index & 1 == 1).filter_map(|goal| goal.amount);
        amounts.filter(|amount| self.counts(amount.currency)).for_each(take_amount);
    }

    /// Returns whether the amounts of a currency count.
    fn counts(&self, currency_number: u16) -> bool {
        self.currency.is_none_or(|name| self.currencies.name(usize::from(currency_number)) == Some(name))
    }

    fn is_since(&self, row: &Row) -> bool {
        (self.first.time_ms()..self.until_ms).contains(&row.time_ms())
    }

    /// Returns whether an arm failed since the first exposure.
    pub(super) fn has_error(&self) -> bool {
        let since = self.rows.iter().filter(|row| row.has(GOAL) && row.time_ms() >= self.first.time_ms());
        since.into_iter().any(|row| self.goals[row.value as usize].metrics & ERROR_BIT != 0)
    }

    /// Returns whether a row counts as before the first exposure, by its time and in the order of the log. Rows that arrive after
    /// the exposure do not count, because they can depend on the arm.
    fn is_before(&self, row: &Row) -> bool {
        (self.before_from_ms..self.first.time_ms()).contains(&row.time_ms()) && row.order < self.first.order
    }

    fn goals(&self, index: usize, metric: &Metric, is_counted: impl Fn(&Row) -> bool) -> Goals {
        let mut goals = Goals::default();
        let rows = self.rows.iter().filter(|row| row.has(GOAL) && is_counted(row));
        for goal in rows.map(|row| self.goals[row.value as usize]) {
            if goal.metrics >> index & 1 == 0 {
                continue;
            }
            goals.count += 1;
            let amount = goal.amount.filter(|amount| metric.is_amount() && self.counts(amount.currency));
            match amount.map(|amount| amount.amount) {
                Some(Amount::Units(units)) => goals.units += i128::from(units),
                Some(Amount::Ignored) => goals.ignored_amounts += 1,
                None => {}
            }
        }
        if !metric.is_amount() && goals.count > 0 {
            goals.units = UNITS_PER_ONE as i128;
        }
        goals
    }
}
