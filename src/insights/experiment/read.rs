//! Reads the exposures and the goals of one part of the visitors.

use super::activity::Activity;
use super::arms::{ArmNumber, Arms};
use super::file_columns::FileColumns;
use super::question::ExperimentQuestion;
use super::segment_reader::{PartSegments, SEGMENTED, plan_of_values};
use crate::insights::columns::format::{CODE_ABSENT, CODE_OTHER, TextColumn};
use crate::insights::columns::reader::Columns;
use crate::insights::questions::credits::{Credits, RowLocation};
use crate::insights::questions::goals::{Currencies, MoneyAmount};
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::part::Part;
use crate::insights::questions::plan::Plan;
use crate::insights::questions::question::Filters;
use crate::insights::questions::row::Row;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::visitor_rows::VisitorRows;
use crate::record::RecordKind;
use crate::site::experiment_metrics::Dimension;

/// The row is an exposure. The value of the row is the number of the arm.
pub(super) const EXPOSURE: u16 = 1 << 8;
/// The row reaches a goal. The value of the row is an index into [`PartReader::goals`].
pub(super) const GOAL: u16 = 1 << 9;
/// The row can be part of a visit. The flag is set only if the visits of the exposures matter.
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
    /// The plan that reads the values of dimensions.
    segment_plan: Plan<'q>,
    /// The time from which goals before the first exposures count. `None` if no such goal counts.
    before_from_ms: Option<i64>,
    /// The time from which other events before the first exposures count. `None` if no such event counts.
    activity_from_ms: Option<i64>,
    /// True if the answer needs only rows that name an experiment, because the question has neither metrics, nor filters,
    /// nor dimensions.
    only_exposures: bool,
    pub arms: Arms,
    credits: Credits,
    /// The number of the file that is read now.
    file: u32,
    /// The number of rows in the files before it.
    rows_before: u64,
    pub currencies: Currencies,
    pub rows: VisitorRows,
    pub goals: Vec<RowGoal>,
    pub segments: PartSegments,
    /// For each text column that the question needs, the number of rows whose text is `(other)`.
    other: [u64; TextColumn::COUNT],
    /// The same numbers, of the exposures and the columns of dimensions.
    segment_other: [u64; TextColumn::COUNT],
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
        segments: PartSegments,
        part: Part,
    ) -> Self {
        let window = i64::MIN..question.range.end;
        let plan = Plan { window, ..Plan::new(site, &question.range, question.bots, &question.filters) };
        let has_no_filters = question.filters == Filters::default();
        let only_exposures = question.metrics.is_empty() && has_no_filters && segments.is_empty();
        Self {
            question,
            plan,
            part,
            segment_plan: plan_of_values(site, &question.range, question.bots),
            before_from_ms: question.before_from_ms(),
            activity_from_ms: question.activity_from_ms(),
            only_exposures,
            arms,
            credits,
            file: 0,
            rows_before: 0,
            currencies,
            rows: VisitorRows::default(),
            goals: Vec::new(),
            segments,
            other: [0; TextColumn::COUNT],
            segment_other: [0; TextColumn::COUNT],
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
        let needs_positions =
            self.activity_from_ms.is_some() || !self.segments.is_empty() || !self.credits.are_empty();
        self.rows.begin_file();
        let mut columns =
            FileColumns::open(file, self.question, &self.plan, &mut self.currencies, needs_positions)?;
        columns.open_segments(file, &mut self.segments, &self.segment_plan)?;
        self.segments.check_memory(limits)?;
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
        self.activity_from_ms.is_some_and(|from_ms| event.time_ms() >= from_ms)
    }

    /// Adds the event if it is an exposure. Adds every event if visits matter, or if `is_activity` is true.
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
        let in_visit = self.question.needs_visits();
        if arm.is_none() && !in_visit && !is_activity {
            return;
        }
        if arm.is_some() && self.question.range.contains(&event.time_ms()) {
            self.activity.add_exposure(event.time_ms());
        }
        let flags = event.flags() | if in_visit { VISIT } else { 0 } | arm.map_or(0, |_| EXPOSURE);
        self.push(
            visitor,
            arm.map_or_else(|| self.source(columns, row), ArmNumber::to_bits),
            event.time_ms(),
            flags,
        );
        if let Some(segments) = columns.segments().filter(|_| arm.is_some()) {
            let values = segments.values(row, &self.segment_plan, &mut self.segment_other);
            if self.push(visitor, self.segments.next_index(), event.time_ms(), SEGMENTED) {
                self.segments.push(values);
            }
        }
    }

    /// Returns the number of the source of a row, or 0 if the result is not divided by sources.
    fn source(&self, columns: &FileColumns, row: usize) -> u32 {
        let index = self.segments.index_of(Dimension::Source);
        let source = index.zip(columns.segments());
        source.map_or(0, |(index, segments)| {
            segments.value(index, row, &self.segment_plan, &mut [0; TextColumn::COUNT])
        })
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
        let position = (!self.credits.are_empty()).then_some(visitor.location.position);
        self.rows.push(visitor.owner, row, position);
        true
    }

    fn count_other(&mut self, column: TextColumn, is_other: bool) {
        self.other[column.index()] += u64::from(is_other);
    }

    /// Returns, for each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub(super) fn other_row_counts(&self) -> [u64; TextColumn::COUNT] {
        // A filter counts the rows of a column of which a dimension counts the exposures.
        std::array::from_fn(|column| self.other[column].max(self.segment_other[column]))
    }

    fn memory_bytes(&self) -> u64 {
        let goals = self.goals.len() * size_of::<RowGoal>();
        self.rows.memory_bytes() + goals as u64 + self.segments.memory_bytes()
    }

    /// Returns the factor by which the number of parts must grow. The factor is at least 2. Returns `None` if the part
    /// fits in its memory.
    pub(super) fn missing_parts_factor(&self, limits: &Limits<'_>) -> Option<u64> {
        let needed_bytes =
            u128::from(self.memory_bytes()) * u128::from(self.row_count) / u128::from(self.kept_rows.max(1));
        let factor = needed_bytes.div_ceil(u128::from(limits.memory_bytes.max(1)));
        self.is_full.then(|| u64::try_from(factor).unwrap_or(u64::MAX).max(2))
    }

    /// Returns the arms, the currencies and the values of dimensions, so that the next part continues with the same numbers.
    pub(super) fn into_numbers(self) -> (Arms, Currencies, PartSegments) {
        (self.arms, self.currencies, self.segments.for_next_part())
    }
}
