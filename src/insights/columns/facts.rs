//! Reads all facts of each row, which only tests do. Checks whole column files.

use super::amounts::Amount;
use super::format::{CODE_ABSENT, ColumnFileError, TextColumn};
use super::packing::PackedColumn;
use super::reader::{Columns, FilePart};
use crate::site::experiment_metrics::VALUE_PROPERTIES;

/// All facts of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFacts {
    pub time_ms: i64,
    /// The hash of the visitor. `None` if the record has no ID.
    pub visitor: Option<u64>,
    /// The kind of the record, and its flags.
    pub kind: i64,
    /// The agent number: device, operating system and browser.
    pub agent: i64,
    /// The text in each text column, in the order of `TextColumn::all`.
    pub texts: [Option<String>; TextColumn::COUNT],
    /// The amounts, in the order of [`VALUE_PROPERTIES`].
    pub amounts: [Option<Amount>; VALUE_PROPERTIES.len()],
    /// The set of goals that the record reaches, one bit for each goal of its site.
    pub goals: u128,
    /// The amounts of goals: the number of the goal, the amount and the currency.
    pub goal_amounts: Vec<(u8, Amount, String)>,
    /// The two hashes of a tie that the record names: of the anonymous ID and of the user. If the user is `None`, the
    /// record ends the tie of the anonymous ID.
    pub tie: Option<(u64, Option<u64>)>,
}

impl Columns {
    /// Checks every section. Holds no rows in memory.
    ///
    /// # Errors
    /// The error of the first check that fails.
    pub(crate) fn check(&self) -> Result<(), ColumnFileError> {
        self.visitors()?;
        let whole = &FilePart::WHOLE;
        let columns = [
            self.times(whole)?,
            self.row_visitors(whole)?,
            self.kinds(whole)?,
            self.agents(whole)?,
            self.positions(whole)?,
        ];
        columns.into_iter().try_for_each(PackedColumn::check)?;
        for column in TextColumn::all() {
            let texts = self.texts(column)?.len();
            self.codes(column, texts, whole)?.check()?;
        }
        self.goal_ids()?;
        self.goal_codes(self.goal_sets()?.len(), whole)?.check()?;
        self.goal_amounts()?;
        self.amounts()?;
        self.ties()?;
        self.users_alone()?;
        self.oldest_receipt_ms().map(drop)
    }

    /// Reads the facts of all rows. The rows are in the order of their seqs.
    ///
    /// # Errors
    /// The error of the first check that fails.
    pub fn facts(&self) -> Result<Vec<RowFacts>, ColumnFileError> {
        let visitors = self.visitors()?;
        let hash = |number: i64| Some(visitors[usize::try_from(number).ok()?.checked_sub(1)?]);
        let whole = &FilePart::WHOLE;
        let row_visitors = self.row_visitors(whole)?.into_numbers()?;
        let times = self.times(whole)?.into_numbers()?;
        let kinds = self.kinds(whole)?.into_numbers()?;
        let agents = self.agents(whole)?.into_numbers()?;
        let mut rows: Vec<RowFacts> = (0..self.rows())
            .map(|row| RowFacts {
                time_ms: times[row],
                visitor: hash(row_visitors[row]),
                kind: kinds[row],
                agent: agents[row],
                texts: Default::default(),
                amounts: Default::default(),
                goals: 0,
                goal_amounts: Vec::new(),
                tie: None,
            })
            .collect();
        for column in TextColumn::all() {
            let texts = self.texts(column)?;
            let codes = self.codes(column, texts.len(), whole)?.into_numbers()?;
            for (row, code) in rows.iter_mut().zip(codes) {
                let is_present = code != i64::from(CODE_ABSENT);
                row.texts[column.index()] = is_present.then(|| texts[code as usize].clone());
            }
        }
        for entry in self.amounts()? {
            let amount = entry.units.map_or(Amount::Ignored, Amount::Units);
            rows[entry.row as usize].amounts[usize::from(entry.column)] = Some(amount);
        }
        let sets = self.goal_sets()?;
        let codes = self.goal_codes(sets.len(), whole)?.into_numbers()?;
        for (row, code) in rows.iter_mut().zip(codes) {
            row.goals = sets[code as usize];
        }
        let currencies = self.currencies()?;
        for entry in self.goal_amounts()? {
            let amount = entry.units.map_or(Amount::Ignored, Amount::Units);
            let currency = currencies[entry.currency as usize].clone();
            rows[entry.row as usize].goal_amounts.push((entry.goal, amount, currency));
        }
        self.oldest_receipt_ms()?;
        let positions = self.positions(whole)?.into_numbers()?;
        let mut in_order: Vec<(i64, RowFacts)> = positions.into_iter().zip(rows).collect();
        in_order.sort_by_key(|(position, _)| *position);
        let mut rows: Vec<RowFacts> = in_order.into_iter().map(|(_, row)| row).collect();
        for tie in self.ties()? {
            let hash = |visitor: u32| visitors[visitor as usize];
            rows[tie.position as usize].tie = Some((hash(tie.anonymous), tie.user.map(hash)));
        }
        Ok(rows)
    }
}
