//! Goals of questions: the events that reach them, their amounts, and the currencies of the amounts.

use super::row_reader::Block;
use crate::insights::columns::amounts::Amount;
use crate::insights::columns::format::ColumnFileError;
use crate::insights::columns::goal_reader::GoalAmountEntry;
use crate::insights::columns::reader::{Columns, FilePart};
use crate::site::experiment_metrics::Goal;
use crate::site::goals::SiteGoals;

/// The number of different currencies that an answer tells apart. A site has a few. Further ones count as one currency.
const CURRENCIES_MAX: usize = 64;
/// The name of all currencies beyond [`CURRENCIES_MAX`].
const OTHER_CURRENCIES: &str = "(other)";

/// The goal that a question names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChosenGoal {
    /// The number of a goal of the site.
    OfSite(usize),
    /// An event or a page.
    Target(Goal<String>),
}

impl ChosenGoal {
    /// Parses the key of a goal of the site, the name of an event, or `page:` and a path. A key has precedence over an event with
    /// the same name. `None` if the text is none of them.
    pub(crate) fn parse(text: &str, goals: &SiteGoals) -> Option<Self> {
        match goals.by_key(text) {
            Some((number, _)) => Some(Self::OfSite(number)),
            None => Goal::parse(text).map(|goal| Self::Target(goal.to_owned())),
        }
    }

    /// Returns the number of the goal of the site.
    pub(crate) fn site_number(&self) -> Option<usize> {
        match self {
            Self::OfSite(number) => Some(*number),
            Self::Target(_) => None,
        }
    }
}

/// The currencies of amounts, by their numbers. An amount without a currency has the number 0.
#[derive(Debug, Clone)]
pub(crate) struct Currencies(Vec<String>);

impl Default for Currencies {
    fn default() -> Self {
        Self(vec![String::new()])
    }
}

impl Currencies {
    /// Returns the number of a currency. A new one gets the next number.
    fn number(&mut self, currency: &str) -> u16 {
        let number = self.0.iter().position(|other| other == currency).unwrap_or_else(|| {
            let is_full = self.0.len() >= CURRENCIES_MAX;
            self.0.push(if is_full { OTHER_CURRENCIES } else { currency }.to_owned());
            self.0.len() - 1
        });
        number.min(CURRENCIES_MAX) as u16
    }

    /// Returns the name of a currency. `None` if the amounts with this number have no currency.
    pub(crate) fn name(&self, number: usize) -> Option<&str> {
        self.0.get(number).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// The amount of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MoneyAmount {
    pub amount: Amount,
    /// The number of the currency in [`Currencies`].
    pub currency: u16,
}

/// The goals of the rows of a file. Only rows of the site of a question have its goals.
pub(crate) struct GoalColumns {
    codes: Block,
    sets: Vec<u128>,
    amounts: Vec<GoalAmountEntry>,
    /// The index of the first amount that is not before the current row.
    next_amount: usize,
    /// The number of each currency code.
    currencies: Vec<u16>,
}

impl GoalColumns {
    /// Opens the goals of a part of a file.
    pub(crate) fn open(
        file: &Columns,
        part: &FilePart,
        currencies: &mut Currencies,
    ) -> Result<Self, ColumnFileError> {
        let sets = file.goal_sets()?;
        let codes = Block::new(file.goal_codes(sets.len(), part)?);
        let numbers = file.currencies()?.iter().map(|currency| currencies.number(currency)).collect();
        Ok(Self { codes, sets, amounts: file.goal_amounts()?, next_amount: 0, currencies: numbers })
    }

    /// Reads the next block.
    pub(crate) fn next_block(&mut self) -> Result<(), ColumnFileError> {
        self.codes.next()
    }

    /// Returns the set of goals of a row of the current block, one bit for each goal.
    pub(crate) fn set(&self, row: usize) -> u128 {
        self.sets[self.codes.numbers[row] as usize]
    }

    /// Returns the amount of a goal in a row of the file. The row must not be before that of the last call.
    pub(crate) fn amount(&mut self, file_row: usize, goal_number: usize) -> Option<MoneyAmount> {
        let is_before = |entry: &GoalAmountEntry| (entry.row as usize) < file_row;
        while self.amounts.get(self.next_amount).is_some_and(is_before) {
            self.next_amount += 1;
        }
        let of_row =
            self.amounts[self.next_amount..].iter().take_while(|entry| entry.row as usize == file_row);
        let entry = of_row.into_iter().find(|entry| usize::from(entry.goal) == goal_number)?;
        let amount = entry.units.map_or(Amount::Ignored, Amount::Units);
        Some(MoneyAmount { amount, currency: self.currencies[entry.currency as usize] })
    }
}
