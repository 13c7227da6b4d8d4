//! Reads the goals of the rows of a column file.

use super::format::{
    CURRENCIES, ColumnFileError, GOAL_AMOUNT_BYTES, GOAL_AMOUNTS, GOAL_CODES, GOAL_ID_BYTES, GOAL_IDS,
    GOAL_SET_BYTES, GOAL_SETS, TextColumn,
};
use super::packing::PackedColumn;
use super::reader::{Columns, FilePart, parse_entries};
use crate::little_endian::{u32_at, u64_at};
use crate::site::goals::SiteGoals;

/// The amount of a goal in a column file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoalAmountEntry {
    pub row: u32,
    /// The number of the goal among the goals of the site of the row.
    pub goal: u8,
    /// The code of the currency.
    pub currency: u32,
    /// The amount in units of 10^-4. `None` if the value of the property is no amount.
    pub units: Option<i64>,
}

impl Columns {
    /// Returns whether the file can have rows of the site, and was not built with these goals of the site.
    pub(crate) fn lacks_goals(&self, site: &str, goals: &SiteGoals) -> Result<bool, ColumnFileError> {
        let lacks = goals.id() != 0 && !self.goal_ids()?.contains(&goals.id());
        Ok(lacks && self.may_have(TextColumn::Site, site)?)
    }

    /// Returns the IDs of the goals of sites with which the file was built.
    pub(crate) fn goal_ids(&self) -> Result<Vec<u128>, ColumnFileError> {
        parse_entries(&self.section(GOAL_IDS)?, GOAL_ID_BYTES, |bytes| Some(u128_at(bytes)))
    }

    /// Returns the set of goals of each code, one bit for each goal. The code 0 has no goal.
    pub(crate) fn goal_sets(&self) -> Result<Vec<u128>, ColumnFileError> {
        let sets = parse_entries(&self.section(GOAL_SETS)?, GOAL_SET_BYTES, |bytes| Some(u128_at(bytes)))?;
        Ok([0].into_iter().chain(sets).collect())
    }

    /// Returns the code of the set of goals of each row. `code_count` is the number of codes.
    pub(crate) fn goal_codes(
        &self,
        code_count: usize,
        part: &FilePart,
    ) -> Result<PackedColumn, ColumnFileError> {
        self.numbers(GOAL_CODES, code_count, part)
    }

    /// Returns the amounts of goals, in the order of their rows.
    pub(crate) fn goal_amounts(&self) -> Result<Vec<GoalAmountEntry>, ColumnFileError> {
        let currencies = self.currencies()?.len();
        let entry = |bytes: &[u8]| {
            let units = u64_at(bytes, 9) as i64;
            let units = (units != i64::MIN).then_some(units);
            let currency = u32_at(bytes, 5);
            let entry = GoalAmountEntry { row: u32_at(bytes, 0), goal: bytes[4], currency, units };
            let is_valid = (entry.row as usize) < self.rows()
                && u32::from(entry.goal) < u128::BITS
                && (currency as usize) < currencies;
            is_valid.then_some(entry)
        };
        let amounts = parse_entries(&self.section(GOAL_AMOUNTS)?, GOAL_AMOUNT_BYTES, entry)?;
        let are_sorted = amounts.is_sorted_by_key(|amount: &GoalAmountEntry| amount.row);
        are_sorted.then_some(amounts).ok_or(ColumnFileError::OUT_OF_RANGE)
    }

    /// Returns the text of each code of a currency.
    pub(crate) fn currencies(&self) -> Result<Vec<String>, ColumnFileError> {
        self.texts_in(CURRENCIES)
    }
}

fn u128_at(bytes: &[u8]) -> u128 {
    u128::from(u64_at(bytes, 8)) << 64 | u128::from(u64_at(bytes, 0))
}
