//! Counts the visitors of each arm of an experiment, and adds up each metric over the visitors of the arm.
//!
//! A visitor counts only if its first exposure is in the range. Goals that a visitor reached before the first exposure
//! are not counted. The visitors are divided into parts. A smaller memory limit gives more parts. Each part is read and
//! counted separately.

use super::activity::Activity;
use super::arm_count::{ArmCount, named_arms};
use super::arms::{ArmNumber, Arms, HOLDOUT_NUMBER};
use super::cap::CapSearch;
use super::metrics::Metric;
use super::question::ExperimentQuestion;
use super::read::{EXPOSURE, PartReader, RowGoal, VISIT};
use super::segment_reader::PartSegments;
use super::segments::{DimensionCount, ValueCounts, values_of_visitor};
use super::sums::MetricSums;
use super::visitor::ExposedVisitor;
use crate::insights::columns::format::TextColumn;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::count::bucket_of;
use crate::insights::questions::credits::{Credits, VisitorSet};
use crate::insights::questions::goals::Currencies;
use crate::insights::questions::limits::{CREDITS_BYTES_MIN, Limits, ScanError};
use crate::insights::questions::money::Money;
use crate::insights::questions::part::{PARTS_MAX, Part};
use crate::insights::questions::question::QuestionError;
use crate::insights::questions::row::{REJECTED, Row};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::visits::{Selection, visit_around};

/// The visitors of an experiment, and the sums of each metric.
#[derive(Debug, Default)]
pub(crate) struct ExperimentCount {
    /// The compared arms: the arms of the phases, or the arms of the published site if there is no phase. If neither
    /// exists, the arms that events name, in the order of their keys.
    pub arms: Vec<ArmCount>,
    pub holdout: ArmCount,
    /// Each other arm that an event names, with the number of its visitors. The arms are in the order of their keys.
    /// They are not compared, because the experiment does not have them.
    pub other_arms: Vec<(String, u64)>,
    /// The number of visitors of arms beyond [`UNKNOWN_ARMS_MAX`](super::arms::UNKNOWN_ARMS_MAX).
    pub unnamed: u64,
    /// The amounts of the values, by currency.
    pub money: Money,
    pub currencies: Currencies,
    /// The limit of the values in units of 10^-4.
    pub cap_units: Option<u128>,
    /// The number of visitors with more than one arm.
    pub both: u64,
    /// The number of visitors that have an exposure before the range and an exposure in the range.
    pub earlier: u64,
    /// The first instant of each bucket of the series, in milliseconds.
    pub buckets: Vec<i64>,
    pub activity: Activity,
    /// The segments of each dimension of the question.
    pub dimensions: Vec<DimensionCount>,
    /// The number of rows in all files.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

impl ExperimentCount {
    /// Returns the number of visitors of arms that are not compared.
    pub(crate) fn other_exposed(&self) -> u64 {
        self.unnamed + self.other_arms.iter().map(|(_, exposed)| exposed).sum::<u64>()
    }
}

/// Counts the exposures and the metrics of an experiment.
///
/// # Errors
/// Returns an error if a file is damaged, if the time is over, or if the visitors do not fit in the memory even in
/// [`PARTS_MAX`] parts.
pub(crate) fn count_experiment(
    columns: &[&Columns],
    question: &ExperimentQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<ExperimentCount, ScanError> {
    let search = CapSearch::new(question.cap);
    let mut count = count_once(columns, question, site, limits, search, &[])?;
    if !count.dimensions.is_empty() {
        let search = CapSearch::Known(count.cap_units);
        let second = count_once(columns, question, site, limits, search, &count.dimensions)?;
        count.dimensions = second.dimensions;
    }
    Ok(count)
}

/// Counts all parts, at first few and then more. The segments have the values in
/// `listed_dimensions`. If it is empty, the count chooses the values.
fn count_once(
    columns: &[&Columns],
    question: &ExperimentQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
    mut search: CapSearch,
    listed_dimensions: &[DimensionCount],
) -> Result<ExperimentCount, ScanError> {
    let mut part_count = 1;
    while part_count <= PARTS_MAX {
        search.clear();
        let counter = Counter::new(question, site, &mut search, listed_dimensions);
        match count_in_parts(columns, question, site, limits, part_count, counter)? {
            CountOutcome::Complete(count) => return Ok(*count),
            CountOutcome::TooFewParts { factor } => part_count = part_count.saturating_mul(factor),
            CountOutcome::WithoutCap(next) => search = next,
        }
    }
    Err(ScanError::TooLarge)
}

/// The result of a count.
enum CountOutcome {
    Complete(Box<ExperimentCount>),
    /// A part has exceeded its memory. The next count multiplies the number of parts by `factor`.
    TooFewParts {
        factor: u64,
    },
    /// The limit of the values is still unknown. The next count uses this search.
    WithoutCap(CapSearch),
}

fn count_in_parts(
    columns: &[&Columns],
    question: &ExperimentQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
    part_count: u64,
    mut counter: Counter<'_>,
) -> Result<CountOutcome, ScanError> {
    let mut arms = Arms::new(&question.known.arms_in(question.phases()), question.held_out_arm());
    let mut currencies = Currencies::default();
    let mut segments = PartSegments::new(&question.dimensions);
    for part in Part::all(part_count) {
        let memory_bytes = limits.memory_bytes.max(CREDITS_BYTES_MIN);
        let credits_limits = Limits { memory_bytes, is_over: limits.is_over };
        let visitors = VisitorSet::Part(part);
        let Some(credits) = Credits::read(columns, columns, visitors, &credits_limits)? else {
            return Ok(CountOutcome::TooFewParts { factor: 2 });
        };
        let mut reader = PartReader::new(question, site, arms, credits, currencies, segments, part);
        for file in columns {
            reader.add_file(file, limits)?;
        }
        if let Some(factor) = reader.missing_parts_factor(limits) {
            return Ok(CountOutcome::TooFewParts { factor });
        }
        if part.is_first() {
            counter.count.other = reader.other_row_counts();
            counter.count.activity = reader.activity;
            check_key(question, &site.site, reader.has_key)?;
        }
        counter.arms.resize_with(reader.arms.names().len(), ArmCount::default);
        counter.compared = reader.arms.compared();
        counter.currencies = reader.currencies.clone();
        let mut result = Ok(());
        reader.rows.each_visitor(limits, &mut |_, rows| {
            if result.is_ok() {
                let part = PartFacts { goals: &reader.goals, segments: &reader.segments };
                result = counter.add_visitor(rows, part, limits);
            }
        })?;
        result?;
        (arms, currencies, segments) = reader.into_numbers();
    }
    match counter.search.finish() {
        Err(next) => Ok(CountOutcome::WithoutCap(next)),
        Ok(cap_units) => {
            let mut count = counter.finish(&arms, &segments, cap_units);
            count.rows = columns.iter().map(|file| file.rows() as u64).sum();
            Ok(CountOutcome::Complete(Box::new(count)))
        }
    }
}

/// Returns an error if the experiment, or the holdout of the site, is neither published, nor in a phase, nor in an event of the log.
fn check_key(question: &ExperimentQuestion, site_id: &str, has_event: bool) -> Result<(), ScanError> {
    let known = &question.known;
    if has_event || known.is_known() {
        return Ok(());
    }
    if question.is_of_site_holdout() {
        let expected = "a site with a 'holdout' in site.json";
        return Err(ScanError::Refused(QuestionError::invalid("site", expected, site_id)));
    }
    let expected = "the key of an experiment that is published, was served, or is in an event";
    Err(ScanError::Refused(QuestionError::invalid("key", expected, question.key())))
}

/// The goals and the exposures of a part. Its rows have their indices.
#[derive(Clone, Copy)]
struct PartFacts<'r> {
    goals: &'r [RowGoal],
    segments: &'r PartSegments,
}

/// A counter of the visitors of all parts.
struct Counter<'q> {
    question: &'q ExperimentQuestion,
    selection: Selection,
    count: ExperimentCount,
    /// The counts of each arm, by the number of the arm.
    arms: Vec<ArmCount>,
    /// Each arm with a lower number than this is a compared arm or the holdout.
    compared: usize,
    currencies: Currencies,
    search: &'q mut CapSearch,
    /// The visitors of each value, if the values of the segments are not chosen yet.
    values: ValueCounts,
}

impl<'q> Counter<'q> {
    fn new(
        question: &'q ExperimentQuestion,
        site: &SiteFacts,
        search: &'q mut CapSearch,
        listed_dimensions: &[DimensionCount],
    ) -> Self {
        let buckets = site.zone.buckets(&question.range, question.by).unwrap_or_default();
        let dimensions = listed_dimensions.to_vec();
        let count = ExperimentCount { buckets, dimensions, ..ExperimentCount::default() };
        let values = ValueCounts::new(question.dimensions.len());
        let selection = Selection::new(&question.filters);
        let compared = HOLDOUT_NUMBER + 1;
        let currencies = Currencies::default();
        Self { question, selection, count, arms: Vec::new(), compared, currencies, search, values }
    }

    /// Adds one visitor. `rows` are the rows of this visitor.
    ///
    /// # Errors
    /// Returns an error if the values take too much memory.
    fn add_visitor(
        &mut self,
        rows: &[Row],
        part: PartFacts<'_>,
        limits: &Limits<'_>,
    ) -> Result<(), ScanError> {
        let Some(index) = rows.iter().position(|row| row.has(EXPOSURE)) else { return Ok(()) };
        if !self.passes(rows, index) {
            return Ok(());
        }
        let first = rows[index];
        let since_ms = self.question.range.start;
        let mut exposures = rows[index..].iter().filter(|row| row.has(EXPOSURE));
        if first.time_ms() < since_ms {
            self.count.earlier += u64::from(exposures.any(|row| row.time_ms() >= since_ms));
            return Ok(());
        }
        if exposures.any(|row| row.value != first.value) {
            self.count.both += 1;
            return Ok(());
        }
        match ArmNumber::from_bits(first.value).named() {
            Some(number) if number < self.compared => {
                return self.add_exposed(number, first, rows, part, limits);
            }
            Some(number) => self.arms[number].exposed += 1,
            None => self.count.unnamed += 1,
        }
        Ok(())
    }

    /// Returns true if the first exposure passes the filters. `index` is the index of the first exposure in `rows`.
    fn passes(&self, rows: &[Row], index: usize) -> bool {
        if rows[index].has(REJECTED) {
            return false;
        }
        if !self.question.filters.select_visits() {
            return true;
        }
        let events: Vec<Row> = rows.iter().copied().filter(|row| row.has(VISIT)).collect();
        let first = events.iter().position(|row| row.has(EXPOSURE));
        first.is_some_and(|first| self.selection.selects_visit(visit_around(&events, first)))
    }

    /// Adds a visitor to an arm. Adds the goals that the visitor has reached since its first exposure.
    fn add_exposed(
        &mut self,
        arm_number: usize,
        first: Row,
        rows: &[Row],
        part: PartFacts<'_>,
        limits: &Limits<'_>,
    ) -> Result<(), ScanError> {
        let question = self.question;
        let values = if arm_number == HOLDOUT_NUMBER {
            Vec::new()
        } else {
            values_of_visitor(&question.dimensions, rows, first, part.segments)
        };
        self.values.add(&values);
        let first_ms = first.time_ms();
        let buckets = &self.count.buckets;
        let arm = &mut self.arms[arm_number];
        arm.exposed += 1;
        let coverage = question.phases().first().map_or(0, |phase| phase.coverage_at(first_ms));
        arm.exposed_at.resize(arm.exposed_at.len().max(coverage + 1), 0);
        arm.exposed_at[coverage] += 1;
        arm.first_ms = Some(arm.first_ms.map_or(first_ms, |earliest_ms| earliest_ms.min(first_ms)));
        arm.series.resize(buckets.len(), 0);
        arm.sums.resize(question.metrics.len(), MetricSums::default());
        if let Some(bucket) = bucket_of(buckets, first_ms) {
            arm.series[bucket] += 1;
        }
        let mut segment_arms = Vec::new();
        for (index, (dimension, value)) in self.count.dimensions.iter_mut().zip(&values).enumerate() {
            let text = part.segments.text(index, *value);
            let arm = dimension.arm_mut(text.as_deref(), arm_number, question.metrics.len());
            arm.exposed += 1;
            segment_arms.push(arm);
        }
        let visitor = ExposedVisitor::new(rows, first, part.goals, question, &self.currencies);
        arm.errors += u64::from(visitor.has_error());
        for (index, metric) in question.metrics.iter().enumerate() {
            let (value, goals) = visitor.value(index, metric);
            if metric.is_amount() {
                visitor.each_amount(index, &mut |amount| self.count.money.add(Some(amount)));
                self.search.add(arm_number, value, limits)?;
            }
            // The cap of amounts can still be unknown.
            let cap_units = match self.search {
                _ if !metric.is_amount() => Some(None),
                CapSearch::Known(cap_units) => Some(*cap_units),
                _ => None,
            };
            for arm in segment_arms.iter_mut().map(|arm| &mut **arm).chain([&mut *arm]) {
                let sums = &mut arm.sums[index];
                sums.add(goals.count, value);
                sums.ignored_amounts += goals.ignored_amounts;
                if let Some(cap_units) = cap_units {
                    sums.add_limited(value, cap_units);
                }
            }
        }
        Ok(())
    }

    /// Returns the count, with the arms in their final order.
    fn finish(mut self, arms: &Arms, segments: &PartSegments, cap_units: Option<u128>) -> ExperimentCount {
        if let Some(value) = self.question.metrics.iter().position(Metric::is_amount) {
            self.search.each_value(|arm, kept| self.arms[arm].sums[value].add_limited(kept, cap_units));
        }
        let Self { question, mut count, arms: counts, currencies, values, .. } = self;
        count.currencies = currencies;
        let mut named = named_arms(arms, counts, question.metrics.len());
        named.iter_mut().for_each(|arm| arm.series.resize(count.buckets.len(), 0));
        for segment in count.dimensions.iter_mut().flat_map(|dimension| &mut dimension.segments) {
            let counts = std::mem::take(&mut segment.arms);
            segment.arms = named_arms(arms, counts, question.metrics.len());
            segment.arms.truncate(arms.compared());
            segment.arms.remove(HOLDOUT_NUMBER);
        }
        if count.dimensions.is_empty() {
            count.dimensions = values.listed(&question.dimensions, segments);
        }
        let others = named.split_off(arms.compared()).into_iter();
        count.other_arms =
            others.map(|arm| (arm.key, arm.exposed)).filter(|(_, exposed)| *exposed > 0).collect();
        count.holdout = named.remove(HOLDOUT_NUMBER);
        count.arms = named;
        count.cap_units = cap_units;
        count
    }
}
