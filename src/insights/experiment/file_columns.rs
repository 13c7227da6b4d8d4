//! The columns of a file that a question about an experiment needs.

use std::ops::Range;

use super::arms::{ArmNumber, Arms};
use super::metrics::{ERROR_BIT, Metric, ValueSource};
use super::question::ExperimentQuestion;
use super::segment_reader::{FileSegments, PartSegments};
use crate::insights::columns::amounts::Amount;
use crate::insights::columns::format::{CODE_FIRST, ColumnFileError, TextColumn};
use crate::insights::columns::reader::{AmountEntry, Columns, FilePart};
use crate::insights::questions::blocks::{Block, PartOfFile};
use crate::insights::questions::goals::{ChosenGoal, Currencies, GoalColumns, MoneyAmount};
use crate::insights::questions::pairs::value_in;
use crate::insights::questions::plan::Plan;
use crate::insights::questions::row_reader::FileReader;
use crate::insights::questions::values::Values;
use crate::record::ERROR_EVENT;
use crate::site::experiment_metrics::Goal;

/// A text column with a fact about each of its texts.
pub(super) struct CodeColumn<T> {
    block: Block,
    pub by_code: Vec<T>,
}

impl<T> CodeColumn<T> {
    fn open(
        columns: &Columns,
        column: TextColumn,
        fact_of: impl Fn(&str) -> T,
        absent_fact: T,
    ) -> Result<(Self, Vec<String>), ColumnFileError>
    where
        T: Clone,
    {
        let texts = columns.texts(column)?;
        let mut by_code = vec![absent_fact; texts.len()];
        for (fact_of_code, text) in by_code.iter_mut().zip(&texts).skip(CODE_FIRST as usize) {
            *fact_of_code = fact_of(text);
        }
        let block = Block::new(columns.codes(column, texts.len(), &FilePart::WHOLE)?);
        Ok((Self { block, by_code }, texts))
    }

    pub(super) fn code(&self, row: usize) -> usize {
        self.block.numbers[row] as usize
    }
}

/// The arm that one text of the column `experiments` names for the experiment in question.
#[derive(Clone, Copy)]
pub(super) enum ArmCode {
    Unread,
    Absent,
    /// The text has an arm of the experiment. The arm gets a number at the first exposure with this text.
    Unnumbered,
    Number(ArmNumber),
}

/// The goals of the site in the rows of a file.
struct SiteGoalColumns {
    columns: GoalColumns,
    /// The number of each goal, and the number of its metric.
    metrics: Vec<(usize, usize)>,
    /// The number of the goal whose amounts count.
    value: Option<usize>,
}

impl SiteGoalColumns {
    /// Opens the goals. `None` if the question does not need them.
    fn open(
        file: &Columns,
        question: &ExperimentQuestion,
        currencies: &mut Currencies,
    ) -> Result<Option<Self>, ColumnFileError> {
        if !question.needs_goals() {
            return Ok(None);
        }
        let columns = GoalColumns::open(file, &FilePart::WHOLE, currencies)?;
        let metrics = question.metrics.iter().enumerate();
        let metrics = metrics.filter_map(|(number, metric)| Some((metric.goal.site_number()?, number)));
        let value = question.metrics.iter().find_map(|metric| match metric.value.as_ref()?.source {
            ValueSource::Goal(goal) => Some(goal),
            ValueSource::Property(_) => None,
        });
        Ok(Some(Self { columns, metrics: metrics.collect(), value }))
    }
}

/// The columns of a file that the question needs.
pub(super) struct FileColumns {
    pub reader: FileReader,
    /// The code of the site. `None` if no row of the file has the site.
    site: Option<i64>,
    pub hashes: Vec<u64>,
    pub arms: CodeColumn<ArmCode>,
    experiments: Vec<String>,
    /// For each event name, the bits of the metrics whose goal is this event, and [`ERROR_BIT`].
    pub events: CodeColumn<u32>,
    /// For each path, the bits of the metrics whose goal is this page. `None` if no goal is a page.
    pub pages: Option<CodeColumn<u32>>,
    /// The amounts of the property that the question adds up, in the order of the rows. Each call of `amount` removes the
    /// amounts up to its row.
    amounts: std::iter::Peekable<std::vec::IntoIter<AmountEntry>>,
    /// The goals of the site. `None` if the question does not need them.
    goals: Option<SiteGoalColumns>,
    /// The columns of the dimensions by which the result is divided. `None` if there is no such dimension.
    segments: Option<FileSegments>,
    /// The numbers that the rows of the current block have in the file.
    block: Range<usize>,
}

impl FileColumns {
    pub(super) fn open(
        file: &Columns,
        question: &ExperimentQuestion,
        plan: &Plan<'_>,
        currencies: &mut Currencies,
        needs_positions: bool,
    ) -> Result<Self, ColumnFileError> {
        let file = &*file.opened()?;
        let (arms, experiments) =
            CodeColumn::open(file, TextColumn::Experiments, |_| ArmCode::Unread, ArmCode::Absent)?;
        let metrics = &question.metrics;
        let has_page = metrics.iter().any(|metric| matches!(metric.goal, ChosenGoal::Target(Goal::Page(_))));
        let goals = |column| {
            let error_bit = |text: &str| match column {
                TextColumn::Event if text == ERROR_EVENT => ERROR_BIT,
                _ => 0,
            };
            let reached = |text: &str| metrics_with_text(metrics, column, text) | error_bit(text);
            CodeColumn::open(file, column, reached, 0).map(|(column, _)| column)
        };
        let value = metrics.iter().find_map(|metric| metric.value.as_ref()).map(|value| value.source);
        let mut amounts =
            if matches!(value, Some(ValueSource::Property(_))) { file.amounts()? } else { Vec::new() };
        amounts.retain(|entry| value == Some(ValueSource::Property(entry.column)));
        amounts.sort_unstable_by_key(|entry| entry.row);
        let sites = file.texts(TextColumn::Site)?;
        let hashes = file.visitors()?;
        let mut reader = FileReader::new(PartOfFile::whole(file), sites.len(), plan, &mut Values::default())?;
        if needs_positions {
            reader.open_positions(PartOfFile::whole(file))?;
        }
        Ok(Self {
            reader,
            site: code_in(&sites, &plan.site.site),
            hashes,
            arms,
            experiments,
            events: goals(TextColumn::Event)?,
            pages: has_page.then(|| goals(TextColumn::Path)).transpose()?,
            amounts: amounts.into_iter().peekable(),
            goals: SiteGoalColumns::open(file, question, currencies)?,
            segments: None,
            block: 0..0,
        })
    }

    /// Opens the columns of the dimensions. The caller must call this before it reads the first block.
    pub(super) fn open_segments(
        &mut self,
        file: &Columns,
        segments: &mut PartSegments,
        plan: &Plan<'_>,
    ) -> Result<(), ColumnFileError> {
        if !segments.is_empty() {
            self.segments = Some(FileSegments::open(&*file.opened()?, segments, plan)?);
        }
        Ok(())
    }

    /// Returns the columns of the dimensions. `None` if there is no dimension.
    pub(super) fn segments(&self) -> Option<&FileSegments> {
        self.segments.as_ref()
    }

    pub(super) fn next_block(&mut self) -> Result<bool, ColumnFileError> {
        self.arms.block.next()?;
        for goals in [&mut self.events].into_iter().chain(&mut self.pages) {
            goals.block.next()?;
        }
        self.goals.iter_mut().try_for_each(|goals| goals.columns.next_block())?;
        self.segments.iter_mut().try_for_each(FileSegments::next_block)?;
        let has_rows = self.reader.next_block()?;
        self.block = self.block.end..self.block.end + self.reader.len();
        Ok(has_rows)
    }

    /// Returns whether a row says that an arm failed.
    pub(super) fn is_error(&self, row: usize) -> bool {
        self.events.by_code[self.events.code(row)] & ERROR_BIT != 0
    }

    pub(super) fn is_site(&self, row: usize) -> bool {
        self.site == Some(self.reader.site(row))
    }

    /// Returns the amount of a row in the current block. The row must be later than the row of the last call.
    pub(super) fn amount(&mut self, row: usize) -> Option<MoneyAmount> {
        if let Some(SiteGoalColumns { columns, value: Some(goal), .. }) = &mut self.goals {
            return columns.amount(row, *goal);
        }
        let row = self.block.start + row;
        while self.amounts.next_if(|entry| (entry.row as usize) < row).is_some() {}
        let entry = self.amounts.next_if(|entry| entry.row as usize == row)?;
        let amount = entry.units.map_or(Amount::Ignored, Amount::Units);
        Some(MoneyAmount { amount, currency: 0 })
    }

    /// Returns the bits of the metrics whose goal is a goal of the site that a row reaches.
    pub(super) fn metrics_of_site_goals(&self, row: usize) -> u32 {
        let Some(goals) = &self.goals else { return 0 };
        let set = goals.columns.set(row);
        goals.metrics.iter().map(|(goal, metric)| ((set >> goal & 1) as u32) << metric).sum()
    }

    /// Returns true if a row names the experiment.
    pub(super) fn has_arm(&mut self, row: usize, experiment_key: &str) -> bool {
        let code = self.arms.code(row);
        let arm = &mut self.arms.by_code[code];
        if let ArmCode::Unread = arm {
            let has_arm = value_in(&self.experiments[code], experiment_key).is_some();
            *arm = if has_arm { ArmCode::Unnumbered } else { ArmCode::Absent };
        }
        !matches!(arm, ArmCode::Absent)
    }

    /// Returns the arm of a row that names the experiment.
    pub(super) fn arm(&mut self, row: usize, experiment_key: &str, arms: &mut Arms) -> ArmNumber {
        let code = self.arms.code(row);
        if let ArmCode::Number(number) = self.arms.by_code[code] {
            return number;
        }
        let number = arms.number(value_in(&self.experiments[code], experiment_key).unwrap_or_default());
        self.arms.by_code[code] = ArmCode::Number(number);
        number
    }
}

/// Returns the code of a text. `texts` are the texts of the column.
pub(super) fn code_in(texts: &[String], text: &str) -> Option<i64> {
    let mut coded = texts.iter().zip(0..).skip(CODE_FIRST as usize);
    coded.find(|(other, _)| *other == text).map(|(_, code)| code)
}

/// Returns the bits of the metrics whose goal is reached by an event with this text in this column.
fn metrics_with_text(metrics: &[Metric], column: TextColumn, text: &str) -> u32 {
    let bit = |(number, metric): (usize, &Metric)| u32::from(metric.goal.has_text(column, text)) << number;
    metrics.iter().enumerate().map(bit).sum()
}
