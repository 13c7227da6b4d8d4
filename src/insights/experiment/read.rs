//! Reads the exposures and the goals of one part of the visitors.

use std::ops::Range;

use super::activity::Activity;
use super::arms::{ArmNumber, Arms, arm_in};
use super::metrics::{ERROR_BIT, Metric, ValueSource};
use super::question::ExperimentQuestion;
use crate::insights::columns::amounts::Amount;
use crate::insights::columns::format::{CODE_ABSENT, CODE_FIRST, CODE_OTHER, ColumnFileError, TextColumn};
use crate::insights::columns::reader::{AmountEntry, Columns, FilePart};
use crate::insights::questions::blocks::{Block, PartOfFile};
use crate::insights::questions::credits::{Credits, RowLocation};
use crate::insights::questions::goals::{ChosenGoal, Currencies, GoalColumns, MoneyAmount};
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::part::Part;
use crate::insights::questions::plan::Plan;
use crate::insights::questions::question::Filters;
use crate::insights::questions::row::Row;
use crate::insights::questions::row_reader::FileReader;
use crate::insights::questions::scan::VisitorRows;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::Values;
use crate::record::{ERROR_EVENT, RecordKind};
use crate::site::experiment_metrics::Goal;

/// The row is an exposure. The value of the row is the number of the arm.
pub(super) const EXPOSURE: u16 = 1 << 8;
/// The row reaches a goal. The value of the row is an index into [`PartReader::goals`].
pub(super) const GOAL: u16 = 1 << 9;
/// The row can be part of a visit. The flag is set only if a filter selects visits.
pub(super) const VISIT: u16 = 1 << 10;

/// The goals that one event reaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowGoal {
    /// For each metric, the bit is set if the event reaches the goal of the metric.
    pub metrics: u32,
    /// The amount of the event, if a metric adds up amounts.
    pub amount: Option<MoneyAmount>,
}

/// The visitor to whom the event of a row is credited, and the location of the row.
struct RowVisitor {
    owner: u64,
    location: RowLocation,
}

/// The reader of one part of the visitors.
pub(super) struct PartReader<'q> {
    question: &'q ExperimentQuestion,
    plan: Plan<'q>,
    part: Part,
    /// The time from which events before the first exposures count. `None` if no such event counts.
    before_from_ms: Option<i64>,
    /// True if the answer needs only rows that name an experiment, because the question has neither metrics nor
    /// filters.
    only_exposures: bool,
    pub arms: Arms,
    credits: Credits,
    /// The number of the file that is read now.
    file: u32,
    /// The number of rows in the files before it.
    rows_before: u64,
    values: Values,
    pub currencies: Currencies,
    pub rows: VisitorRows,
    pub goals: Vec<RowGoal>,
    /// For each text column that the question needs, the number of rows whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
    /// True if an event of the site names the experiment.
    pub has_key: bool,
    pub activity: Activity,
    /// The number of rows of the part, including rows that are not kept.
    row_count: u64,
    /// The number of rows in `rows`.
    kept_rows: u64,
    /// True if the part has exceeded its memory. Then the reader counts further rows, but does not keep them.
    is_full: bool,
}

impl<'q> PartReader<'q> {
    pub(super) fn new(
        question: &'q ExperimentQuestion,
        site: &'q SiteFacts,
        arms: Arms,
        credits: Credits,
        currencies: Currencies,
        part: Part,
    ) -> Self {
        let window = i64::MIN..question.range.end;
        let plan = Plan { window, ..Plan::new(site, &question.range, question.bots, &question.filters) };
        let only_exposures = question.metrics.is_empty() && question.filters == Filters::default();
        Self {
            question,
            plan,
            part,
            before_from_ms: question.before_from_ms(),
            only_exposures,
            arms,
            credits,
            file: 0,
            rows_before: 0,
            values: Values::default(),
            currencies,
            rows: VisitorRows::default(),
            goals: Vec::new(),
            other: [0; TextColumn::COUNT],
            has_key: false,
            activity: Activity::default(),
            row_count: 0,
            kept_rows: 0,
            is_full: false,
        }
    }

    /// Adds the rows of a file.
    ///
    /// # Errors
    /// The file is damaged, or the time is over.
    pub(super) fn add_file(&mut self, file: &Columns, limits: &Limits<'_>) -> Result<(), ScanError> {
        let needs_positions = self.before_from_ms.is_some() || !self.credits.are_empty();
        let mut columns = FileColumns::open(file, self, needs_positions)?;
        while columns.next_block()? {
            limits.check_time()?;
            for row in 0..columns.reader.len() {
                self.add_row(&mut columns, row);
            }
            self.is_full |= self.memory_bytes() > limits.memory_bytes;
        }
        self.file += 1;
        self.rows_before += file.rows() as u64;
        self.is_full |= self.memory_bytes() > limits.memory_bytes;
        Ok(())
    }

    fn add_row(&mut self, columns: &mut FileColumns, row: usize) {
        let is_site = columns.is_site(row);
        let time_ms = columns.reader.time_ms(row);
        if columns.reader.site(row) == i64::from(CODE_OTHER) {
            self.count_other(TextColumn::Site, self.question.range.contains(&time_ms));
        }
        self.add_page_time(columns, row, is_site, time_ms);
        let has_experiments = columns.arms.code(row) != CODE_ABSENT as usize;
        if self.only_exposures && !has_experiments && !columns.is_error(row) {
            return;
        }
        let Some(visitor) = columns.reader.visitor(row).filter(|_| is_site) else { return };
        let hash = columns.hashes[visitor];
        let has_arm = columns.has_arm(row, self.question.key());
        self.has_key |= has_arm;
        let Some(event) = columns.reader.read_row(row, &self.plan, &mut self.other) else { return };
        let location = RowLocation { file: self.file, position: columns.reader.position(row) };
        let visitor = RowVisitor { owner: self.credits.owner(hash, location), location };
        // The row of a goal is an event too.
        let is_activity = !self.add_goal(columns, row, &visitor) && self.is_activity(event);
        self.add_event(columns, row, &visitor, event, has_arm, is_activity);
    }

    /// Notes the time of a page view of the site.
    fn add_page_time(&mut self, columns: &FileColumns, row: usize, is_site: bool, time_ms: i64) {
        let is_later = self.question.range.contains(&time_ms) && Some(time_ms) > self.activity.last_page_ms;
        let is_page = is_site && is_later && columns.reader.is_kind(row, RecordKind::Page);
        if is_page && columns.reader.visitor(row).is_some() {
            // Crawlers have no row, unless the question counts them.
            let event = columns.reader.read_row(row, &self.plan, &mut [0; TextColumn::COUNT]);
            event.into_iter().for_each(|event| self.activity.add_page(event.time_ms()));
        }
    }

    /// Returns whether the event can be before a first exposure that counts.
    fn is_activity(&self, event: Row) -> bool {
        self.before_from_ms.is_some_and(|from_ms| event.time_ms() >= from_ms)
    }

    /// Adds the event if it is an exposure. Adds every event if a filter selects visits, or if `is_activity` is true.
    fn add_event(
        &mut self,
        columns: &mut FileColumns,
        row: usize,
        visitor: &RowVisitor,
        event: Row,
        has_arm: bool,
        is_activity: bool,
    ) {
        let is_kind =
            columns.reader.is_kind(row, RecordKind::Page) || columns.reader.is_kind(row, RecordKind::Track);
        self.count_other(TextColumn::Experiments, is_kind && columns.arms.code(row) == CODE_OTHER as usize);
        // The arm gets a number even if the visitor is in another part. So the arms have the same numbers in all parts.
        let arm = (has_arm && is_kind).then(|| columns.arm(row, self.question.key(), &mut self.arms));
        let in_visit = self.question.filters.select_visits();
        if arm.is_none() && !in_visit && !is_activity {
            return;
        }
        if arm.is_some() && self.question.range.contains(&event.time_ms()) {
            self.activity.add_exposure(event.time_ms());
        }
        let flags = event.flags() | if in_visit { VISIT } else { 0 } | arm.map_or(0, |_| EXPOSURE);
        self.push(visitor, arm.map_or(0, ArmNumber::to_bits), event.time_ms(), flags);
    }

    /// Adds a row if the event reaches a goal. Returns true if it does.
    fn add_goal(&mut self, columns: &mut FileColumns, row: usize, visitor: &RowVisitor) -> bool {
        let time_ms = columns.reader.time_ms(row);
        if time_ms < self.before_from_ms.unwrap_or(self.question.range.start) {
            return false;
        }
        let is_page = columns.reader.is_kind(row, RecordKind::Page);
        let is_action =
            columns.reader.is_kind(row, RecordKind::Track) || columns.reader.is_kind(row, RecordKind::Screen);
        let goals =
            if is_page { columns.pages.as_ref() } else { Some(&columns.events).filter(|_| is_action) };
        if !is_page && !is_action {
            return false;
        }
        let mut metrics = columns.metrics_of_site_goals(row);
        if let Some(goals) = goals {
            let column = if is_page { TextColumn::Path } else { TextColumn::Event };
            self.count_other(column, goals.code(row) == CODE_OTHER as usize);
            metrics |= goals.by_code[goals.code(row)];
        }
        if metrics == 0 {
            return false;
        }
        let goal = RowGoal { metrics, amount: columns.amount(row) };
        if self.push(visitor, self.goals.len() as u32, time_ms, GOAL) {
            self.goals.push(goal);
        }
        true
    }

    /// Adds a row if the visitor is in the part. Returns true if the row is kept.
    fn push(&mut self, visitor: &RowVisitor, value: u32, time_ms: i64, flags: u16) -> bool {
        if !self.part.has(visitor.owner) {
            return false;
        }
        self.row_count += 1;
        if self.is_full {
            return false;
        }
        self.kept_rows += 1;
        // Beyond this number of rows, no event counts as earlier than an exposure.
        let order =
            u32::try_from(self.rows_before + u64::from(visitor.location.position)).unwrap_or(u32::MAX);
        let row = Row::new(value, time_ms, flags).with_order(order);
        match self.credits.concern(visitor.owner) {
            true => self.rows.push_at(visitor.owner, visitor.location, row),
            false => self.rows.push(visitor.owner, row),
        }
        true
    }

    fn count_other(&mut self, column: TextColumn, is_other: bool) {
        self.other[column as usize] += u64::from(is_other);
    }

    fn memory_bytes(&self) -> u64 {
        let goals = self.goals.len() * size_of::<RowGoal>();
        self.rows.memory_bytes() + goals as u64
    }

    /// Returns the factor by which the number of parts must grow. The factor is at least 2. Returns `None` if the part
    /// fits in its memory.
    pub(super) fn missing_parts_factor(&self, limits: &Limits<'_>) -> Option<u64> {
        let needed_bytes =
            u128::from(self.memory_bytes()) * u128::from(self.row_count) / u128::from(self.kept_rows.max(1));
        let factor = needed_bytes.div_ceil(u128::from(limits.memory_bytes.max(1)));
        self.is_full.then(|| u64::try_from(factor).unwrap_or(u64::MAX).max(2))
    }

    /// Returns the arms and the currencies, so that the next part continues with the same numbers.
    pub(super) fn into_numbers(self) -> (Arms, Currencies) {
        (self.arms, self.currencies)
    }
}

/// A text column with a fact about each of its texts.
struct CodeColumn<T> {
    block: Block,
    by_code: Vec<T>,
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

    fn code(&self, row: usize) -> usize {
        self.block.numbers[row] as usize
    }
}

/// The arm that one text of the column `experiments` names for the experiment in question.
#[derive(Clone, Copy)]
enum ArmCode {
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
struct FileColumns {
    reader: FileReader,
    /// The code of the site. `None` if no row of the file has the site.
    site: Option<i64>,
    hashes: Vec<u64>,
    arms: CodeColumn<ArmCode>,
    experiments: Vec<String>,
    /// For each event name, the bits of the metrics whose goal is this event, and [`ERROR_BIT`].
    events: CodeColumn<u32>,
    /// For each path, the bits of the metrics whose goal is this page. `None` if no goal is a page.
    pages: Option<CodeColumn<u32>>,
    /// The amounts of the property that the question adds up, in the order of the rows. Each call of `amount` removes the
    /// amounts up to its row.
    amounts: std::iter::Peekable<std::vec::IntoIter<AmountEntry>>,
    /// The goals of the site. `None` if the question does not need them.
    goals: Option<SiteGoalColumns>,
    /// The numbers that the rows of the current block have in the file.
    block: Range<usize>,
}

impl FileColumns {
    fn open(
        file: &Columns,
        part: &mut PartReader<'_>,
        needs_positions: bool,
    ) -> Result<Self, ColumnFileError> {
        let file = &*file.opened()?;
        let PartReader { question, plan, values, currencies, .. } = part;
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
        let mut reader = FileReader::new(PartOfFile::whole(file), sites.len(), plan, values)?;
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
            block: 0..0,
        })
    }

    fn next_block(&mut self) -> Result<bool, ColumnFileError> {
        self.arms.block.next()?;
        for goals in [&mut self.events].into_iter().chain(&mut self.pages) {
            goals.block.next()?;
        }
        self.goals.iter_mut().try_for_each(|goals| goals.columns.next_block())?;
        let has_rows = self.reader.next_block()?;
        self.block = self.block.end..self.block.end + self.reader.len();
        Ok(has_rows)
    }

    /// Returns whether a row says that an arm failed.
    fn is_error(&self, row: usize) -> bool {
        self.events.by_code[self.events.code(row)] & ERROR_BIT != 0
    }

    fn is_site(&self, row: usize) -> bool {
        self.site == Some(self.reader.site(row))
    }

    /// Returns the amount of a row in the current block. The row must be later than the row of the last call.
    fn amount(&mut self, row: usize) -> Option<MoneyAmount> {
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
    fn metrics_of_site_goals(&self, row: usize) -> u32 {
        let Some(goals) = &self.goals else { return 0 };
        let set = goals.columns.set(row);
        goals.metrics.iter().map(|(goal, metric)| ((set >> goal & 1) as u32) << metric).sum()
    }

    /// Returns true if a row names the experiment.
    fn has_arm(&mut self, row: usize, experiment_key: &str) -> bool {
        let code = self.arms.code(row);
        let arm = &mut self.arms.by_code[code];
        if let ArmCode::Unread = arm {
            let has_arm = arm_in(&self.experiments[code], experiment_key).is_some();
            *arm = if has_arm { ArmCode::Unnumbered } else { ArmCode::Absent };
        }
        !matches!(arm, ArmCode::Absent)
    }

    /// Returns the arm of a row that names the experiment.
    fn arm(&mut self, row: usize, experiment_key: &str, arms: &mut Arms) -> ArmNumber {
        let code = self.arms.code(row);
        if let ArmCode::Number(number) = self.arms.by_code[code] {
            return number;
        }
        let number = arms.number(arm_in(&self.experiments[code], experiment_key).unwrap_or_default());
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
