//! All facts of each row, for `parallax check` and tests.

use super::amounts::Amount;
use super::format::{CODE_ABSENT, ColumnFileError, TextColumn};
use super::packing::PackedColumn;
use super::reader::{Columns, FilePart, OUT_OF_RANGE};
use crate::site::experiment_metrics::VALUE_PROPERTIES;

/// All facts of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFacts {
    pub time_ms: i64,
    /// The hash of the visitor; `None` without an ID.
    pub visitor: Option<u64>,
    /// The kind with its flags.
    pub kind: i64,
    /// Device, operating system and browser.
    pub agent: i64,
    /// The texts of the columns, in their order.
    pub texts: [Option<String>; TextColumn::COUNT],
    /// The amounts in units of 10^-4, in the order of their names.
    pub amounts: [Option<Amount>; VALUE_PROPERTIES.len()],
    /// The hashes of the anonymous ID and of the user that an identify event or an alias names for a tie. Without a user the
    /// tie ends.
    pub tie: Option<(u64, Option<u64>)>,
}

impl Columns {
    /// Checks every section, without keeping its rows.
    ///
    /// # Errors
    /// The first check that fails.
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
        columns.into_iter().try_for_each(check_column)?;
        for column in TextColumn::ALL {
            let texts = self.texts(column)?.len();
            check_column(self.codes(column, texts, whole)?)?;
        }
        self.amounts()?;
        self.ties()?;
        self.users_alone()?;
        self.oldest_receipt_ms().map(drop)
    }

    /// Reads every section, and checks every number. The rows are in the order of their seqs.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn facts(&self) -> Result<Vec<RowFacts>, ColumnFileError> {
        let visitors = self.visitors()?;
        let hash = |number: i64| Some(visitors[usize::try_from(number).ok()?.checked_sub(1)?]);
        let whole = &FilePart::WHOLE;
        let row_visitors = read_column(self.row_visitors(whole)?)?;
        let [times, kinds, agents] =
            [self.times(whole)?, self.kinds(whole)?, self.agents(whole)?].map(read_column);
        let (times, kinds, agents) = (times?, kinds?, agents?);
        let mut rows: Vec<RowFacts> = (0..self.rows())
            .map(|row| RowFacts {
                time_ms: times[row],
                visitor: hash(row_visitors[row]),
                kind: kinds[row],
                agent: agents[row],
                texts: Default::default(),
                amounts: Default::default(),
                tie: None,
            })
            .collect();
        for column in TextColumn::ALL {
            let texts = self.texts(column)?;
            let codes = read_column(self.codes(column, texts.len(), whole)?)?;
            for (row, code) in rows.iter_mut().zip(codes) {
                let is_present = code != i64::from(CODE_ABSENT);
                row.texts[column as usize] = is_present.then(|| texts[code as usize].clone());
            }
        }
        for entry in self.amounts()? {
            let amount = entry.units.map_or(Amount::Ignored, Amount::Units);
            rows[entry.row as usize].amounts[usize::from(entry.column)] = Some(amount);
        }
        self.oldest_receipt_ms()?;
        let positions = read_column(self.positions(whole)?)?;
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

fn check_column(mut column: PackedColumn) -> Result<(), ColumnFileError> {
    let mut numbers = vec![0];
    while !numbers.is_empty() {
        column.next_block(&mut numbers).ok_or(OUT_OF_RANGE)?;
    }
    Ok(())
}

/// Reads a column of all rows.
pub(crate) fn read_column(mut column: PackedColumn) -> Result<Vec<i64>, ColumnFileError> {
    let (mut all, mut numbers) = (Vec::new(), Vec::new());
    loop {
        column.next_block(&mut numbers).ok_or(OUT_OF_RANGE)?;
        if numbers.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&numbers);
    }
}
