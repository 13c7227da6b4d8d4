//! Sums of amounts. Amounts of different currencies are never added up.

use serde_json::{Value as Json, json};

use super::goals::{Currencies, MoneyAmount};
use crate::insights::columns::amounts::{Amount, UNITS_PER_ONE};

/// The sum of the amounts of one currency.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct CurrencySum {
    /// The number of the currency in [`Currencies`].
    currency: u16,
    /// The number of amounts.
    amounts: u64,
    /// The sum in units of 10^-4.
    units: i128,
}

/// The sums of amounts, by currency.
#[derive(Debug, Default, Clone)]
pub(crate) struct Money {
    sums: Vec<CurrencySum>,
    /// The number of values that are no amounts.
    pub ignored: u64,
}

impl Money {
    pub(crate) fn add(&mut self, amount: Option<MoneyAmount>) {
        let Some(MoneyAmount { amount, currency }) = amount else { return };
        let Amount::Units(units) = amount else {
            self.ignored += 1;
            return;
        };
        let index = self.sums.iter().position(|sum| sum.currency == currency).unwrap_or_else(|| {
            self.sums.push(CurrencySum { currency, ..CurrencySum::default() });
            self.sums.len() - 1
        });
        self.sums[index].amounts += 1;
        self.sums[index].units += i128::from(units);
    }

    /// Returns whether the amounts have more than one currency. Amounts without a currency count as one.
    pub(crate) fn is_mixed(&self) -> bool {
        self.sums.len() > 1
    }

    /// Returns the sum. `None` if the amounts have several currencies.
    pub(crate) fn sum(&self) -> Option<f64> {
        let units = self.sums.first().map_or(0, |sum| sum.units);
        (!self.is_mixed()).then(|| units as f64 / UNITS_PER_ONE)
    }

    /// Returns the names of the currencies as a list.
    pub(crate) fn names(&self, currencies: &Currencies) -> String {
        let names =
            self.sums.iter().map(|sum| currencies.name(usize::from(sum.currency)).unwrap_or("no currency"));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.join(", ")
    }

    /// Returns the sums of all currencies, by their names.
    pub(crate) fn by_currency(&self, currencies: &Currencies) -> Json {
        let mut sums: Vec<_> =
            self.sums.iter().map(|sum| (currencies.name(usize::from(sum.currency)), sum)).collect();
        sums.sort_by_key(|(name, _)| *name);
        let json = |(name, sum): (Option<&str>, &CurrencySum)| json!({ "currency": name, "amounts": sum.amounts, "sum": sum.units as f64 / UNITS_PER_ONE });
        sums.into_iter().map(json).collect()
    }
}
