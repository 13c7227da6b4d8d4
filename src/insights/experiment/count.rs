//! The visitors of the arms of an experiment, and the sums of each metric over them.
//!
//! A visitor is exposed at its first exposure in the range, and its goals count from then on. The visitors
//! are divided into as many parts as the memory demands, and each part is read and counted alone.

use super::arms::{ArmNumber, Arms};
use super::question::ExperimentQuestion;
use super::read::{EXPOSURE, GOAL, PartReader, RowGoal, VISIT};
use crate::insights::amounts::{Amount, UNITS_PER_ONE};
use crate::insights::columns::Columns;
use crate::insights::count::bucket_of;
use crate::insights::credits::Credits;
use crate::insights::format::TextColumn;
use crate::insights::question::QuestionError;
use crate::insights::rows::{REJECTED, Row};
use crate::insights::scan::{Limits, ScanError};
use crate::insights::site::SiteFacts;
use crate::insights::visits::{Selection, visit_around};

/// Most parts of the visitors. Each is a pass over the log, so more would take longer than any question may.
pub const PARTS_MAX: u64 = 1_024;

/// The sums of a metric over the visitors of an arm.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct MetricSums {
    pub visitors: u64,
    /// The visitors with at least one goal.
    pub converted: u64,
    /// The sum of the values in units of 10^-4.
    pub sum_units: i128,
    pub sum_of_squares: f64,
    /// The rounding error of `sum_of_squares`.
    compensation: f64,
    /// The visitors whose value the cap limits.
    pub capped: u64,
    /// Goals whose value is no amount.
    pub ignored_amounts: u64,
}

impl MetricSums {
    fn add(&mut self, goals: u64, units: i128, cap_units: Option<i64>) {
        let cap = cap_units.map_or(i128::MAX, i128::from);
        let limited = units.clamp(-cap, cap);
        self.visitors += 1;
        self.converted += u64::from(goals > 0);
        self.capped += u64::from(limited != units);
        self.sum_units += limited;
        // Neumaier's compensated summation.
        let square = (limited as f64 / UNITS_PER_ONE).powi(2);
        let sum = self.sum_of_squares + square;
        let (large, small) = if self.sum_of_squares >= square {
            (self.sum_of_squares, square)
        } else {
            (square, self.sum_of_squares)
        };
        self.compensation += (large - sum) + small;
        self.sum_of_squares = sum;
    }

    /// Returns the compensated sum of the squares.
    pub(crate) fn squares(&self) -> f64 {
        self.sum_of_squares + self.compensation
    }
}

/// The visitors of an arm.
#[derive(Debug, Default, Clone)]
pub(crate) struct ArmCount {
    pub key: String,
    pub exposed: u64,
    /// One for each metric.
    pub sums: Vec<MetricSums>,
    /// Exposed visitors by the bucket of their first exposure. Empty if nobody was exposed.
    pub series: Vec<u64>,
    /// The first exposure of the first visitor, in milliseconds.
    pub first_ms: Option<i64>,
}

/// The visitors of an experiment and their metrics.
#[derive(Debug, Default)]
pub(crate) struct ExperimentCount {
    /// The arms of the phases and of the published site in their order, then the other arms by key.
    pub arms: Vec<ArmCount>,
    pub holdout: ArmCount,
    /// Visitors of arms beyond the named ones.
    pub unnamed: u64,
    /// Visitors with more than one arm.
    pub both: u64,
    /// Visitors with an exposure before the range and one in it.
    pub earlier: u64,
    /// The first instants of the buckets of the series.
    pub buckets: Vec<i64>,
    /// Rows that were read.
    pub rows: u64,
    /// Rows by text columns whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the exposures and the metrics of an experiment.
///
/// # Errors
/// A file is damaged, the time is over, or the visitors do not fit the memory in any number of parts.
pub(crate) fn count_experiment(
    files: &[&Columns],
    question: &ExperimentQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<ExperimentCount, ScanError> {
    let mut parts = 1;
    while parts <= PARTS_MAX {
        match count_in_parts(files, question, site, limits, parts)? {
            Counted::All(count) => return Ok(*count),
            Counted::TooFewParts(surplus) => parts = parts.saturating_mul(surplus),
        }
    }
    Err(ScanError::TooLarge)
}

/// The result of a count.
enum Counted {
    All(Box<ExperimentCount>),
    /// A part took more than its memory. There must be this many times more of them.
    TooFewParts(u64),
}

fn count_in_parts(
    files: &[&Columns],
    question: &ExperimentQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
    parts: u64,
) -> Result<Counted, ScanError> {
    let mut arms = Arms::new(&question.known.arms_in(question.phases()));
    let mut counter = Counter::new(question, site);
    for part in 0..parts {
        let Some(credits) = Credits::read(files, 0, (part, parts), question.bots, limits)? else {
            return Ok(Counted::TooFewParts(2));
        };
        let mut reader = PartReader::new(question, site, (arms, credits), (part, parts));
        for file in files {
            reader.add_file(file, limits)?;
        }
        if let Some(surplus) = reader.surplus(limits) {
            return Ok(Counted::TooFewParts(surplus));
        }
        if part == 0 {
            counter.count.other = reader.other;
            check_key(question, reader.has_key)?;
        }
        counter.arms.resize_with(reader.arms.names().len(), ArmCount::default);
        reader.gathered.take_ordered();
        reader.gathered.each_visitor(limits, &mut |_, rows| counter.add_visitor(rows, &reader.goals))?;
        arms = reader.into_arms();
    }
    let mut count = counter.finish(&arms);
    count.rows = files.iter().map(|file| file.rows() as u64).sum();
    Ok(Counted::All(Box::new(count)))
}

/// Refuses a key that is in no snapshot, no phase and no kept event.
fn check_key(question: &ExperimentQuestion, has_event: bool) -> Result<(), ScanError> {
    let known = &question.known;
    if has_event || known.published.is_some() || !known.phases.is_empty() {
        return Ok(());
    }
    let expected = "the key of an experiment that is published, was served, or is in an event";
    Err(ScanError::Refused(QuestionError::invalid("key", expected, question.key())))
}

/// Adds up the visitors.
struct Counter<'q> {
    question: &'q ExperimentQuestion,
    selection: Selection,
    count: ExperimentCount,
    /// By the number of the arm.
    arms: Vec<ArmCount>,
}

impl<'q> Counter<'q> {
    fn new(question: &'q ExperimentQuestion, site: &SiteFacts) -> Self {
        let buckets = site.zone.buckets(&question.range, question.by).unwrap_or_default();
        let count = ExperimentCount { buckets, ..ExperimentCount::default() };
        Self { question, selection: Selection::new(&question.filters), count, arms: Vec::new() }
    }

    fn add_visitor(&mut self, rows: &[Row], goals: &[RowGoal]) {
        let Some(at) = rows.iter().position(|row| row.has(EXPOSURE)) else { return };
        let (first, since_ms) = (rows[at], self.question.range.start);
        if !self.passes(rows, at) {
            return;
        }
        let mut exposures = rows[at..].iter().filter(|row| row.has(EXPOSURE));
        if first.time_ms() < since_ms {
            self.count.earlier += u64::from(exposures.any(|row| row.time_ms() >= since_ms));
            return;
        }
        if exposures.any(|row| row.value != first.value) {
            self.count.both += 1;
            return;
        }
        match ArmNumber::from_bits(first.value).named() {
            Some(number) => self.add_exposed(number, first.time_ms(), rows, goals),
            None => self.count.unnamed += 1,
        }
    }

    /// Returns whether the first exposure passes the filters.
    fn passes(&self, rows: &[Row], at: usize) -> bool {
        if rows[at].has(REJECTED) {
            return false;
        }
        if !self.question.filters.select_visits() {
            return true;
        }
        let events: Vec<Row> = rows.iter().copied().filter(|row| row.has(VISIT)).collect();
        let first = events.iter().position(|row| row.has(EXPOSURE));
        first.is_some_and(|first| self.selection.selects_visit(visit_around(&events, first)))
    }

    /// Adds a visitor to an arm, with the goals since its first exposure.
    fn add_exposed(&mut self, number: usize, first_ms: i64, rows: &[Row], goals: &[RowGoal]) {
        let (question, buckets) = (self.question, &self.count.buckets);
        let arm = &mut self.arms[number];
        arm.exposed += 1;
        arm.first_ms = Some(arm.first_ms.map_or(first_ms, |earliest_ms| earliest_ms.min(first_ms)));
        arm.series.resize(buckets.len(), 0);
        arm.sums.resize(question.metrics.len(), MetricSums::default());
        if let Some(bucket) = bucket_of(buckets, first_ms) {
            arm.series[bucket] += 1;
        }
        let until_ms = question.window_ms.map_or(i64::MAX, |window_ms| first_ms.saturating_add(window_ms));
        let in_window =
            || rows.iter().filter(|row| row.has(GOAL) && (first_ms..until_ms).contains(&row.time_ms()));
        for (number, (metric, sums)) in question.metrics.iter().zip(&mut arm.sums).enumerate() {
            let (mut reached, mut units) = (0, 0_i128);
            for goal in in_window()
                .map(|row| goals[row.value as usize])
                .filter(|goal| goal.metrics >> number & 1 == 1)
            {
                reached += 1;
                match goal.amount.filter(|_| metric.column.is_some()) {
                    Some(Amount::Units(amount)) => units += i128::from(amount),
                    Some(Amount::Ignored) => sums.ignored_amounts += 1,
                    None => {}
                }
            }
            sums.add(reached, units, question.cap_units.filter(|_| metric.column.is_some()));
        }
    }

    /// Returns the count with the arms in their order.
    fn finish(self, arms: &Arms) -> ExperimentCount {
        let Self { question, mut count, arms: counts, .. } = self;
        let named = arms.names().iter().zip(counts).map(|(key, arm)| {
            let mut arm = ArmCount { key: key.clone(), ..arm };
            arm.series.resize(count.buckets.len(), 0);
            arm.sums.resize(question.metrics.len(), MetricSums::default());
            arm
        });
        let mut named: Vec<ArmCount> = named.collect();
        named[arms.known()..].sort_by(|a, b| a.key.cmp(&b.key));
        count.holdout = named.remove(0);
        count.arms = named;
        count
    }
}
