//! The question about visitors that return in the days or weeks after their first event.

use super::params::parse_step;
use super::selection::EventSelection;
use crate::insights::columns::format::TextColumn;
use crate::insights::questions::calendar::{Unit, Zone};
use crate::insights::questions::count::bucket_of;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::plan::Plan;
use crate::insights::questions::question::{QuestionError, single_value};
use crate::insights::questions::row::Row;
use crate::insights::questions::sealed::Count;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::steps::Step;
use crate::insights::questions::visit_scan::{Source, oldest_ms, scan_visits};
use crate::insights::questions::visits::visit_of;
use crate::limits::VISIT_TIMEOUT_MS;
use crate::site::goals::SiteGoals;

/// All parameters of the question except `site`.
pub(super) const PARAM_NAMES: [&str; 14] = [
    "begin", "return", "by", "from", "to", "bots", "page", "source", "campaign", "country", "device",
    "language", "event", "variant",
];
/// Maximum number of days or weeks in the range. A longer range gets 400. A year of days has at most this many. The answer has
/// a number for each pair of them, so this maximum gives at most 67,161 numbers.
pub const RETENTION_BUCKETS_MAX: usize = 366;

/// A question about visitors that return.
#[derive(Debug, Clone, PartialEq)]
pub struct RetentionQuestion {
    pub selection: EventSelection,
    /// The given steps: the one of `begin`, and then the one of `return`.
    pub steps: Vec<Step>,
    /// The mask of the step whose first event begins the time of a visitor. 0 accepts each event.
    begin_mask: u32,
    /// The mask of the step whose events are returns. 0 accepts each event.
    return_mask: u32,
    /// [`Unit::Day`] or [`Unit::Week`].
    pub by: Unit,
    /// The first instants of the days or weeks, in milliseconds.
    pub buckets: Vec<i64>,
    /// The number of buckets that are over, and in the range as a whole except for the first one.
    pub complete: usize,
}

impl RetentionQuestion {
    /// Parses the parameters. Ignores unknown parameters. No value is empty.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse(
        pairs: &[(&str, &str)],
        zone: &Zone,
        now_ms: i64,
        goals: &SiteGoals,
    ) -> Result<Self, QuestionError> {
        let mut steps = Vec::new();
        let mut mask = |name| {
            let step = single_value(pairs, name)?.map(|text| parse_step(name, text, goals)).transpose()?;
            let mask = step.as_ref().map_or(0, |_| 1 << steps.len());
            steps.extend(step);
            Ok::<u32, QuestionError>(mask)
        };
        let begin_mask = mask("begin")?;
        let return_mask = mask("return")?;
        let by = single_value(pairs, "by")?.map_or(Ok(Unit::Week), parse_by)?;
        let selection = EventSelection::parse(pairs, true, zone, now_ms)?;
        let buckets = zone.buckets(&selection.range, by).unwrap_or_default();
        if !(1..=RETENTION_BUCKETS_MAX).contains(&buckets.len()) {
            let expected = format!(
                "'week' or a shorter range, since an answer has at most {RETENTION_BUCKETS_MAX} days or weeks"
            );
            let actual = if by == Unit::Day { "day" } else { "week" };
            return Err(QuestionError::invalid("by", &expected, actual));
        }
        let complete_ms = zone.comparison(&selection.range, now_ms).range.end;
        let next = zone.buckets(&(selection.range.start..selection.range.end + 1), by).unwrap_or_default();
        let complete = next.iter().skip(1).filter(|end_ms| **end_ms <= complete_ms).count();
        Ok(Self { selection, steps, begin_mask, return_mask, by, buckets, complete })
    }

    /// Returns the step of `begin`. `None` if each event begins.
    pub(super) fn begin(&self) -> Option<&Step> {
        self.steps.first().filter(|_| self.begin_mask != 0)
    }

    /// Returns the step of `return`. `None` if each event is a return.
    pub(super) fn returning(&self) -> Option<&Step> {
        self.steps.last().filter(|_| self.return_mask != 0)
    }
}

fn parse_by(text: &str) -> Result<Unit, QuestionError> {
    match text {
        "day" => Ok(Unit::Day),
        "week" => Ok(Unit::Week),
        _ => Err(QuestionError::invalid("by", "'day' or 'week'", text)),
    }
}

/// The numbers of a period after the first events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurvePoint {
    /// The number of visitors for whom this period is over.
    pub visitors: u64,
    /// The number of these visitors that returned in the period.
    pub returned: u64,
}

/// The numbers of all cohorts.
#[derive(Debug)]
pub(super) struct RetentionCounts {
    /// For each bucket, the number of visitors whose first event is in it.
    pub visitors: Vec<u64>,
    /// For each cohort, the number of its visitors that returned in each bucket since its own.
    pub returned: Vec<Vec<u64>>,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

impl RetentionCounts {
    /// Returns the curve of all cohorts together: a point for each number of buckets after the first events.
    pub(super) fn curve(&self, question: &RetentionQuestion) -> Vec<CurvePoint> {
        let point = |period: usize| {
            let cohorts = ..question.complete - period;
            let returned = self.returned[cohorts].iter().map(|returned| returned[period]);
            CurvePoint { visitors: self.visitors[cohorts].iter().sum(), returned: returned.sum() }
        };
        (0..question.complete).map(point).collect()
    }
}

/// Counts the visitors of each cohort.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn count(
    question: &RetentionQuestion,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
) -> Result<RetentionCounts, ScanError> {
    let mut plan = Plan { steps: &question.steps, ..question.selection.plan(site) };
    // A visitor is new only if no event before the range begins its time. So the scan reads all events.
    let oldest_ms = oldest_ms(&source.files.all()).unwrap_or(plan.window.start);
    plan.window.start = plan.window.start.min(oldest_ms.saturating_sub(VISIT_TIMEOUT_MS));
    let bucket_count = question.buckets.len();
    let make = || CohortCount {
        question: question.clone(),
        visitors: vec![0; bucket_count],
        returned: vec![0; bucket_count * bucket_count],
    };
    let key = format!("{question:?} {site:?}");
    let (summary, count) = scan_visits(source, &key, plan, limits, &make)?;
    let returned = count.returned.chunks(bucket_count).enumerate();
    let returned = returned.map(|(cohort, returned)| returned[cohort..].to_vec()).collect();
    Ok(RetentionCounts { visitors: count.visitors, returned, rows: summary.rows, other: summary.other })
}

/// The visitors of each cohort, and those that returned.
struct CohortCount {
    question: RetentionQuestion,
    visitors: Vec<u64>,
    /// For each cohort and each bucket, the number of visitors that returned.
    returned: Vec<u64>,
}

impl Count for CohortCount {
    fn add_visitor(&mut self, rows: &[Row]) {
        let question = &self.question;
        let accepts = |row: &Row, mask: u32| mask == 0 || row.order & mask != 0;
        let Some(range) = question.selection.rows_in_range(rows) else { return };
        let rows = &rows[..range.end];
        let Some(first) = rows.iter().position(|row| accepts(row, question.begin_mask)) else { return };
        if first < range.start || !question.selection.selects(rows[first], &visit_of(rows, first)) {
            return;
        }
        let Some(cohort) = bucket_of(&question.buckets, rows[first].time_ms()) else { return };
        self.visitors[cohort] += 1;
        let mut last_bucket = None;
        for row in rows[first + 1..].iter().filter(|row| accepts(row, question.return_mask)) {
            let bucket = bucket_of(&question.buckets, row.time_ms());
            // Rows are in the order of their times. So a visitor is counted once in each bucket.
            if let Some(bucket) = bucket.filter(|_| bucket != last_bucket) {
                self.returned[cohort * question.buckets.len() + bucket] += 1;
            }
            last_bucket = bucket;
        }
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        let numbers = self.visitors.iter_mut().chain(&mut self.returned);
        for (number, other) in numbers.zip(other.visitors.iter().chain(&other.returned)) {
            *number = operation(*number, *other);
        }
    }

    fn bytes(&self) -> u64 {
        (size_of_val(&*self.visitors) + size_of_val(&*self.returned)) as u64
    }
}
