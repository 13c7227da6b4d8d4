//! The amounts of a value by currency. Amounts of different currencies are never added up.

use serde_json::{Value as Json, json};

use crate::insights::columns::amounts::UNITS_PER_ONE;
use crate::insights::questions::goals::Currencies;

/// The sum of the amounts of one currency.
#[derive(Debug, Default, Clone, PartialEq)]
struct CurrencySum {
    /// The name of the currency. `None` for amounts without a currency.
    name: Option<String>,
    /// The number of amounts.
    amounts: u64,
    units: i128,
}

/// The sums of the amounts of each currency, over the compared visitors since their first exposures.
#[derive(Debug, Default, Clone)]
pub(crate) struct CurrencySums(Vec<CurrencySum>);

impl CurrencySums {
    /// Adds an amount. `currency_number` is a number of [`Currencies`].
    pub(super) fn add(&mut self, currency_number: u16, units: i64) {
        let index = usize::from(currency_number);
        self.0.resize(self.0.len().max(index + 1), CurrencySum::default());
        self.0[index].amounts += 1;
        self.0[index].units += i128::from(units);
    }

    /// Sets the names of the currencies, and leaves out currencies without an amount.
    pub(super) fn set_names(&mut self, currencies: &Currencies) {
        for (number, sum) in self.0.iter_mut().enumerate() {
            sum.name = currencies.name(number).map(str::to_owned);
        }
        self.0.retain(|sum| sum.amounts > 0);
        self.0.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Returns whether the amounts have more than one currency. Amounts without a currency count as one.
    pub(super) fn are_mixed(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the names of the currencies as a list.
    pub(super) fn names(&self) -> String {
        let names = self.0.iter().map(|sum| sum.name.as_deref().unwrap_or("no currency"));
        names.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn to_json(&self) -> Json {
        let sum = |sum: &CurrencySum| json!({ "currency": sum.name, "amounts": sum.amounts, "sum": sum.units as f64 / UNITS_PER_ONE });
        self.0.iter().map(sum).collect()
    }
}
