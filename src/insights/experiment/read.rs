//! The reader of the exposures and goals of one part of the visitors, and its memory.

use super::arms::{ArmNumber, Arms, arm_in};
use super::metrics::Metric;
use super::question::ExperimentQuestion;
use crate::insights::columns::amounts::Amount;
use crate::insights::columns::format::{CODE_ABSENT, CODE_FIRST, CODE_OTHER, ColumnFileError, TextColumn};
use crate::insights::columns::reader::{AmountEntry, Columns, FilePart};
use crate::insights::questions::credits::{Credits, Place};
use crate::insights::questions::question::Filters;
use crate::insights::questions::rows::{Block, FileReader, Plan, Row, RowValue};
use crate::insights::questions::scan::{Gathered, Limits, ScanError, part_of};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::Values;
use crate::site::experiment_metrics::Goal;
use crate::visitors::log::RecordKind;

/// An exposure. The value of its row is the arm.
pub(super) const EXPOSURE: u16 = 1 << 8;
/// A goal. The value of its row is an index into the goals of the part.
pub(super) const GOAL: u16 = 1 << 9;
/// An event of a visit. It is read if a filter selects visits.
pub(super) const VISIT: u16 = 1 << 10;

/// The goals that an event reaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowGoal {
    /// A bit for each metric.
    pub metrics: u32,
    /// The amount of the metric that adds amounts up.
    pub amount: Option<Amount>,
}

/// The visitor to whom the event of a row is credited, and the place of the row.
struct RowVisitor {
    owner: u64,
    place: Place,
}

/// The reader of one part of the visitors.
pub(super) struct PartReader<'q> {
    question: &'q ExperimentQuestion,
    plan: Plan<'q>,
    /// The part, and the number of parts.
    part: (u64, u64),
    /// True if the answer needs no rows beside those with experiments: there are no metrics and no filters.
    only_exposures: bool,
    pub arms: Arms,
    credits: Credits,
    /// The number of the present file.
    file: u32,
    values: Values,
    pub gathered: Gathered,
    pub goals: Vec<RowGoal>,
    /// Rows by columns whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
    /// True if an event of the site names the experiment.
    pub has_key: bool,
    /// Rows that the part has, and those that are kept.
    pushed: (u64, u64),
    /// True once the part takes more than its memory. Then rows are counted and not kept.
    is_full: bool,
}

impl<'q> PartReader<'q> {
    pub(super) fn new(
        question: &'q ExperimentQuestion,
        site: &'q SiteFacts,
        (arms, credits): (Arms, Credits),
        part: (u64, u64),
    ) -> Self {
        let plan = Plan {
            site,
            window: i64::MIN..question.range.end,
            range: question.range.clone(),
            bots: question.bots,
            filters: &question.filters,
            value: RowValue::Nothing,
            value_part: (0, 1),
            needs_variants: false,
        };
        let only_exposures = question.metrics.is_empty() && question.filters == Filters::default();
        Self {
            question,
            plan,
            part,
            only_exposures,
            arms,
            credits,
            file: 0,
            values: Values::default(),
            gathered: Gathered::default(),
            goals: Vec::new(),
            other: [0; TextColumn::COUNT],
            has_key: false,
            pushed: (0, 0),
            is_full: false,
        }
    }

    /// Adds the rows of a file.
    ///
    /// # Errors
    /// The file is damaged, or the time is over.
    pub(super) fn add_file(&mut self, file: &Columns, limits: &Limits<'_>) -> Result<(), ScanError> {
        let mut columns =
            FileColumns::open(file, self.question, &self.plan, &mut self.values, !self.credits.are_empty())?;
        while columns.next_block()? {
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            for row in 0..columns.reader.len() {
                self.add_row(&mut columns, row);
            }
            self.is_full |= self.memory_bytes() > limits.memory_bytes;
        }
        self.file += 1;
        self.is_full |= self.memory_bytes() > limits.memory_bytes;
        Ok(())
    }

    fn add_row(&mut self, columns: &mut FileColumns, row: usize) {
        let (is_site, time_ms) = (columns.is_site(row), columns.reader.time_ms(row));
        if columns.reader.site(row) == i64::from(CODE_OTHER) {
            self.count_other(TextColumn::Site, self.question.range.contains(&time_ms));
        }
        if self.only_exposures && columns.arms.code(row) == CODE_ABSENT as usize {
            return;
        }
        let Some(visitor) = columns.reader.visitor(row).filter(|_| is_site) else { return };
        let hash = columns.hashes[visitor];
        let has_arm = columns.has_arm(row, self.question.key());
        self.has_key |= has_arm;
        let Some(event) = columns.reader.read_row(row, &self.plan, &mut self.other) else { return };
        let place = Place { file: self.file, position: columns.reader.position(row) };
        let visitor = RowVisitor { owner: self.credits.owner(hash, place), place };
        self.add_event(columns, row, (&visitor, event), has_arm);
        self.add_goal(columns, row, &visitor);
    }

    /// Adds an exposure, or another event if a filter selects visits.
    fn add_event(
        &mut self,
        columns: &mut FileColumns,
        row: usize,
        (visitor, event): (&RowVisitor, Row),
        has_arm: bool,
    ) {
        let is_kind =
            columns.reader.is_kind(row, RecordKind::Page) || columns.reader.is_kind(row, RecordKind::Track);
        self.count_other(TextColumn::Experiments, is_kind && columns.arms.code(row) == CODE_OTHER as usize);
        // Arms are numbered in the first part, before the parts differ.
        let arm = (has_arm && is_kind).then(|| columns.arm(row, self.question.key(), &mut self.arms));
        let in_visit = self.question.filters.select_visits();
        if arm.is_none() && !in_visit {
            return;
        }
        let flags = event.flags() | if in_visit { VISIT } else { 0 } | arm.map_or(0, |_| EXPOSURE);
        self.push(visitor, arm.map_or(0, ArmNumber::to_bits), event.time_ms(), flags);
    }

    fn add_goal(&mut self, columns: &mut FileColumns, row: usize, visitor: &RowVisitor) {
        let time_ms = columns.reader.time_ms(row);
        if time_ms < self.question.range.start {
            return;
        }
        let is_page = columns.reader.is_kind(row, RecordKind::Page);
        let is_action =
            columns.reader.is_kind(row, RecordKind::Track) || columns.reader.is_kind(row, RecordKind::Screen);
        let (column, reached) = match () {
            () if is_page => (TextColumn::Path, &columns.pages),
            () if is_action => (TextColumn::Event, &columns.events),
            () => return,
        };
        let Some(reached) = reached else { return };
        self.count_other(column, reached.code(row) == CODE_OTHER as usize);
        let metrics = reached.by_code[reached.code(row)];
        if metrics == 0 {
            return;
        }
        let goal = RowGoal { metrics, amount: columns.amount(row) };
        if self.push(visitor, self.goals.len() as u32, time_ms, GOAL) {
            self.goals.push(goal);
        }
    }

    /// Adds a row of a visitor of the part. Returns whether it is kept.
    fn push(&mut self, visitor: &RowVisitor, value: u32, time_ms: i64, flags: u16) -> bool {
        if part_of(visitor.owner, self.part.1) != self.part.0 {
            return false;
        }
        self.pushed.0 += 1;
        if self.is_full {
            return false;
        }
        self.pushed.1 += 1;
        let row = Row::new(value, time_ms, flags);
        match self.credits.concern(visitor.owner) {
            true => self.gathered.push_at(visitor.owner, visitor.place, row),
            false => self.gathered.push(visitor.owner, row),
        }
        true
    }

    fn count_other(&mut self, column: TextColumn, is_other: bool) {
        self.other[column as usize] += u64::from(is_other);
    }

    fn memory_bytes(&self) -> u64 {
        let goals = self.goals.len() * size_of::<RowGoal>();
        self.gathered.memory_bytes() + goals as u64
    }

    /// Returns how many times more parts there must be, at least 2. `None` if the part fits its memory.
    pub(super) fn surplus(&self, limits: &Limits<'_>) -> Option<u64> {
        let (rows, kept_rows) = self.pushed;
        let needed = u128::from(self.memory_bytes()) * u128::from(rows) / u128::from(kept_rows.max(1));
        let surplus = needed.div_ceil(u128::from(limits.memory_bytes.max(1)));
        self.is_full.then(|| u64::try_from(surplus).unwrap_or(u64::MAX).max(2))
    }

    /// Takes the arms, for the next part.
    pub(super) fn into_arms(self) -> Arms {
        self.arms
    }
}

/// A text column with a fact about each of its texts.
struct CodeColumn<T> {
    block: Block,
    by_code: Vec<T>,
}

impl<T> CodeColumn<T> {
    fn open(
        file: &Columns,
        column: TextColumn,
        fact: impl Fn(&str) -> T,
        absent: T,
    ) -> Result<(Self, Vec<String>), ColumnFileError>
    where
        T: Clone,
    {
        let texts = file.texts(column)?;
        let mut by_code = vec![absent; texts.len()];
        for (fact_of_code, text) in by_code.iter_mut().zip(&texts).skip(CODE_FIRST as usize) {
            *fact_of_code = fact(text);
        }
        let block = Block::new(file.codes(column, texts.len(), &FilePart::WHOLE)?);
        Ok((Self { block, by_code }, texts))
    }

    fn code(&self, row: usize) -> usize {
        self.block.numbers[row] as usize
    }
}

/// The arm in a text of `experiments`.
#[derive(Clone, Copy)]
enum ArmCode {
    Unread,
    Absent,
    /// The text has an arm, which no counted event has shown yet.
    Unnumbered,
    Number(ArmNumber),
}

/// The columns of a file that the question needs.
struct FileColumns {
    reader: FileReader,
    /// The code of the site.
    site: Option<i64>,
    hashes: Vec<u64>,
    arms: CodeColumn<ArmCode>,
    experiments: Vec<String>,
    /// The metrics whose goal an event name, or a path, is. `None` without such a metric.
    events: Option<CodeColumn<u32>>,
    pages: Option<CodeColumn<u32>>,
    /// Amounts of one column. Those of earlier rows are passed.
    amounts: std::iter::Peekable<std::vec::IntoIter<AmountEntry>>,
    /// The row of the file with which the present block begins, and the one after the block.
    rows: (usize, usize),
}

impl FileColumns {
    fn open(
        file: &Columns,
        question: &ExperimentQuestion,
        plan: &Plan<'_>,
        values: &mut Values,
        needs_positions: bool,
    ) -> Result<Self, ColumnFileError> {
        let file = &*file.opened()?;
        let (arms, experiments) =
            CodeColumn::open(file, TextColumn::Experiments, |_| ArmCode::Unread, ArmCode::Absent)?;
        let metrics = &question.metrics;
        let has_event = metrics.iter().any(|metric| matches!(metric.goal, Goal::Event(_)));
        let has_page = metrics.iter().any(|metric| matches!(metric.goal, Goal::Page(_)));
        let goals = |column, accepts: fn(&Goal<String>, &str) -> bool| {
            let reached = |text: &str| goals_of(metrics, |goal| accepts(goal, text));
            CodeColumn::open(file, column, reached, 0).map(|(column, _)| column)
        };
        let is_event = |goal: &Goal<String>, text: &str| matches!(goal, Goal::Event(name) if name == text);
        let is_page = |goal: &Goal<String>, text: &str| matches!(goal, Goal::Page(path) if path == text);
        let value = metrics.iter().find_map(|metric| metric.column);
        let mut amounts = if value.is_some() { file.amounts()? } else { Vec::new() };
        amounts.retain(|entry| Some(entry.column) == value);
        amounts.sort_unstable_by_key(|entry| entry.row);
        let (sites, hashes) = (file.texts(TextColumn::Site)?, file.visitors()?);
        let mut reader = FileReader::new((file, &FilePart::WHOLE), sites.len(), plan, values)?;
        if needs_positions {
            reader.open_positions((file, &FilePart::WHOLE))?;
        }
        Ok(Self {
            reader,
            site: code_in(&sites, &plan.site.site),
            hashes,
            arms,
            experiments,
            events: has_event.then(|| goals(TextColumn::Event, is_event)).transpose()?,
            pages: has_page.then(|| goals(TextColumn::Path, is_page)).transpose()?,
            amounts: amounts.into_iter().peekable(),
            rows: (0, 0),
        })
    }

    fn next_block(&mut self) -> Result<bool, ColumnFileError> {
        self.arms.block.next()?;
        for goals in [&mut self.events, &mut self.pages].into_iter().flatten() {
            goals.block.next()?;
        }
        let has_rows = self.reader.next_block()?;
        self.rows = (self.rows.1, self.rows.1 + self.reader.len());
        Ok(has_rows)
    }

    fn is_site(&self, row: usize) -> bool {
        self.site == Some(self.reader.site(row))
    }

    /// Returns the amount of a row.
    fn amount(&mut self, row: usize) -> Option<Amount> {
        let row = self.rows.0 + row;
        while self.amounts.next_if(|entry| (entry.row as usize) < row).is_some() {}
        let entry = self.amounts.next_if(|entry| entry.row as usize == row)?;
        Some(entry.units.map_or(Amount::Ignored, Amount::Units))
    }

    /// Returns whether a row names the experiment.
    fn has_arm(&mut self, row: usize, key: &str) -> bool {
        let code = self.arms.code(row);
        let arm = &mut self.arms.by_code[code];
        if let ArmCode::Unread = arm {
            let has_arm = arm_in(&self.experiments[code], key).is_some();
            *arm = if has_arm { ArmCode::Unnumbered } else { ArmCode::Absent };
        }
        !matches!(arm, ArmCode::Absent)
    }

    /// Returns the arm of a row that names the experiment.
    fn arm(&mut self, row: usize, key: &str, arms: &mut Arms) -> ArmNumber {
        let code = self.arms.code(row);
        if let ArmCode::Number(number) = self.arms.by_code[code] {
            return number;
        }
        let number = arms.number(arm_in(&self.experiments[code], key).unwrap_or_default());
        self.arms.by_code[code] = ArmCode::Number(number);
        number
    }
}

/// Returns the code of a text in a column with these texts.
pub(super) fn code_in(texts: &[String], text: &str) -> Option<i64> {
    let mut known = texts.iter().zip(0..).skip(CODE_FIRST as usize);
    known.find(|(other, _)| *other == text).map(|(_, code)| code)
}

/// Returns a bit for each metric whose goal is accepted.
fn goals_of(metrics: &[Metric], accepts: impl Fn(&Goal<String>) -> bool) -> u32 {
    let bit = |(at, metric): (usize, &Metric)| u32::from(accepts(&metric.goal)) << at;
    metrics.iter().enumerate().map(bit).sum()
}
