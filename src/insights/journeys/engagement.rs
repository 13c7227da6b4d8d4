//! The question about the length of visits: bounces, durations and pages.
//!
//! Only events that begin or extend a visit count here. So an exposure and an order that a server sends do not end a bounce.

use super::selection::EventSelection;
use crate::insights::columns::format::TextColumn;
use crate::insights::questions::calendar::{Unit, Zone};
use crate::insights::questions::count::bucket_of;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::question::{QuestionError, check_series, parse_unit, single_value};
use crate::insights::questions::row::{ACTION, OF_VISIT, PAGE, Row};
use crate::insights::questions::sealed::Count;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::visit_scan::{Source, scan_visits};
use crate::insights::questions::visits::{Selection, Visit, each_visit};

/// All parameters of the question except `site`.
pub(super) const PARAM_NAMES: [&str; 12] = [
    "by", "from", "to", "bots", "page", "source", "campaign", "country", "device", "language", "event",
    "variant",
];

/// A question about the length of visits.
#[derive(Debug, Clone, PartialEq)]
pub struct EngagementQuestion {
    pub selection: EventSelection,
    pub by: Unit,
}

impl EngagementQuestion {
    /// Parses the parameters. Ignores unknown parameters. No value is empty.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse(pairs: &[(&str, &str)], zone: &Zone, now_ms: i64) -> Result<Self, QuestionError> {
        let by = single_value(pairs, "by")?.map_or(Ok(Unit::Day), parse_unit)?;
        let selection = EventSelection::parse(pairs, true, zone, now_ms)?;
        check_series(&selection.range, by, zone)?;
        Ok(Self { selection, by })
    }

    /// Returns the first instants of the buckets, in milliseconds.
    pub fn buckets(&self, zone: &Zone) -> Vec<i64> {
        zone.buckets(&self.selection.range, self.by).unwrap_or_default()
    }
}

/// The sums over visits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct VisitSums {
    pub visits: u64,
    /// The number of visits with one page and no other event.
    pub bounces: u64,
    pub views: u64,
    /// The times from the first to the last event of each visit, in milliseconds.
    pub duration_ms: u64,
}

impl VisitSums {
    fn of(visit: &Visit<'_>) -> Self {
        let mut rows = visit.rows().iter().filter(|row| row.has(OF_VISIT));
        let views = rows.clone().filter(|row| row.has(PAGE)).count() as u64;
        let actions = rows.clone().filter(|row| row.has(ACTION)).count();
        let first_ms = visit.rows()[0].time_ms();
        let last_ms = rows.next_back().map_or(first_ms, |last| last.time_ms());
        Self {
            visits: 1,
            bounces: u64::from(views == 1 && actions == 0),
            views,
            duration_ms: (last_ms - first_ms) as u64,
        }
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        let Self { visits, bounces, views, duration_ms } = self;
        *visits = operation(*visits, other.visits);
        *bounces = operation(*bounces, other.bounces);
        *views = operation(*views, other.views);
        *duration_ms = operation(*duration_ms, other.duration_ms);
    }
}

/// The numbers of a question about the length of visits.
#[derive(Debug)]
pub(super) struct EngagementCounts {
    pub totals: VisitSums,
    /// The sums of each bucket.
    pub series: Vec<VisitSums>,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the visits that began in the range.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn count(
    question: &EngagementQuestion,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
) -> Result<EngagementCounts, ScanError> {
    let buckets = question.buckets(&site.zone);
    let make = || VisitCount {
        selection: question.selection.clone(),
        totals: VisitSums::default(),
        series: vec![VisitSums::default(); buckets.len()],
        buckets: buckets.clone(),
    };
    let key = format!("{question:?} {site:?}");
    let (summary, count) = scan_visits(source, &key, question.selection.plan(site), limits, &make)?;
    let VisitCount { totals, series, .. } = count;
    Ok(EngagementCounts { totals, series, rows: summary.rows, other: summary.other })
}

/// The visits that began in the range.
struct VisitCount {
    selection: EventSelection,
    /// The first instants of the buckets, in milliseconds.
    buckets: Vec<i64>,
    totals: VisitSums,
    series: Vec<VisitSums>,
}

impl Count for VisitCount {
    fn add_visitor(&mut self, rows: &[Row]) {
        let Self { selection, buckets, totals, series } = self;
        each_visit(rows, &selection.range, Selection::new(&selection.filters), &mut |visit| {
            let Some(began_ms) = visit.began_in_range_ms() else { return };
            let sums = VisitSums::of(visit);
            totals.combine(&sums, u64::wrapping_add);
            if let Some(bucket) = bucket_of(buckets, began_ms) {
                series[bucket].combine(&sums, u64::wrapping_add);
            }
        });
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        self.totals.combine(&other.totals, operation);
        self.series.iter_mut().zip(&other.series).for_each(|(sums, other)| sums.combine(other, operation));
    }

    fn bytes(&self) -> u64 {
        (size_of_val(&*self.series) + size_of_val(&*self.buckets)) as u64
    }
}
