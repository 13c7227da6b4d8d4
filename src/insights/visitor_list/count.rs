//! Finds the visitors of a page.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bounds::PageBounds;
use super::latest::{Activity, activity_of};
use super::question::VisitorsQuestion;
use super::ties::{VisitorTie, ties_of};
use super::values::{VisitorValues, values_of};
use crate::insights::columns::format::TextColumn;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::credits::{RowLocation, ScannedFiles};
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::plan::Plan;
use crate::insights::questions::row::Row;
use crate::insights::questions::scan::{ScanSummary, scan_with_summary};
use crate::insights::questions::sealed::{CountResult, CutVisitors, IsCut};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::NO_VALUE;
use crate::insights::questions::visit_scan::count_since_visit_starts;

/// A visitor of a page.
#[derive(Debug, Clone)]
pub(super) struct ListedVisitor {
    pub activity: Activity,
    /// The location of the event by which the visitor is sorted.
    pub location: RowLocation,
    /// The number of this event in the log.
    pub row_number: u64,
    pub values: VisitorValues,
    pub tie: VisitorTie,
}

/// The visitors of a page, and the numbers of all pages.
#[derive(Debug)]
pub(super) struct PageCounts {
    pub visitors: Vec<ListedVisitor>,
    /// The number of visitors on all pages.
    pub total: u64,
    pub has_next: bool,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column of a filter, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// A visitor that can be on the page. The order is that of the list.
#[derive(Debug)]
pub(super) struct Candidate {
    pub time_ms: i64,
    pub row_number: u64,
    pub hash: u64,
    pub location: RowLocation,
    pub activity: Activity,
}

impl Candidate {
    pub(super) fn new(
        files: &[&Columns],
        visitor_hash: u64,
        location: RowLocation,
        activity: Activity,
    ) -> Self {
        let row_number = files[location.file as usize].row_number(location.position);
        let time_ms = activity.latest.row.time_ms();
        Self { time_ms, row_number, hash: visitor_hash, location, activity }
    }

    pub(super) fn rank(&self) -> (i64, u64) {
        (self.time_ms, self.row_number)
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The first visitors after a cursor.
struct FirstVisitors<'q> {
    question: &'q VisitorsQuestion,
    site: &'q SiteFacts,
    files: &'q [&'q Columns],
    bounds: PageBounds,
    /// The visitors of the page and the first one of the next page. The last one of them is on top.
    first: BinaryHeap<Reverse<Candidate>>,
    total: u64,
}

impl FirstVisitors<'_> {
    fn add_visitor(&mut self, hash: u64, rows: &[Row]) {
        let rule = self.question.credit_rule(self.site);
        let Some(activity) = activity_of(rows, self.question, rule, NO_VALUE) else { return };
        self.total += 1;
        let row = activity.latest.row;
        let location = RowLocation { file: row.value, position: row.order };
        let candidate = Candidate::new(self.files, hash, location, activity);
        if self.bounds.after.is_some_and(|after| candidate.rank() >= after) {
            return;
        }
        if self.first.len() <= self.question.limit {
            self.first.push(Reverse(candidate));
        } else if let Some(mut last) = self.first.peek_mut()
            && last.0 < candidate
        {
            *last = Reverse(candidate);
        }
    }
}

/// Finds the visitors of a page.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn count(
    files: &[&Columns],
    question: &VisitorsQuestion,
    site: &SiteFacts,
    bounds: PageBounds,
    limits: &Limits<'_>,
) -> Result<PageCounts, ScanError> {
    let plan = Plan { locates: true, ..question.plan(site, bounds.end_row) };
    let needs_start = question.goal_number().is_some() || plan.filters.select_visits();
    let scan = |plan: &Plan<'_>, is_cut: IsCut<'_>| {
        let first = BinaryHeap::with_capacity(question.limit + 1);
        let mut counts = FirstVisitors { question, site, files, bounds, first, total: 0 };
        let mut cut = CutVisitors::default();
        let mut summary = ScanSummary::default();
        scan_with_summary(ScannedFiles::all(files), plan, limits, &mut summary, &mut |hash, rows, _| {
            match is_cut(rows) {
                true => cut.add(hash),
                false => counts.add_visitor(hash, rows),
            }
        })?;
        Ok(CountResult { summary, counts, cut })
    };
    let mut add = |counts: &mut FirstVisitors<'_>, hash, rows: &[Row], _: &ScanSummary| {
        counts.add_visitor(hash, rows);
    };
    let (summary, counts) = count_since_visit_starts(files, plan, needs_start, limits, scan, &mut add)?;
    let ScanSummary { rows, other, .. } = summary;
    let FirstVisitors { first, total, .. } = counts;
    let mut first: Vec<Candidate> = first.into_iter().map(|Reverse(candidate)| candidate).collect();
    first.sort_unstable_by(|a, b| b.cmp(a));
    let has_next = first.len() > question.limit;
    first.truncate(question.limit);
    let visitors = listed(files, question, site, bounds.end_row, limits, first)?;
    Ok(PageCounts { visitors, total, has_next, rows, other })
}

/// Reads the values and the ties of the visitors of a page.
///
/// # Errors
/// Returns the same errors as [`count`].
pub(super) fn listed(
    files: &[&Columns],
    question: &VisitorsQuestion,
    site: &SiteFacts,
    end_row: Option<u64>,
    limits: &Limits<'_>,
    candidates: Vec<Candidate>,
) -> Result<Vec<ListedVisitor>, ScanError> {
    let mut hashes: Vec<u64> = candidates.iter().map(|candidate| candidate.hash).collect();
    hashes.sort_unstable();
    let mut values = values_of(files, question, site, end_row, limits, &hashes)?;
    let ties = ties_of(files, &hashes, end_row, limits)?;
    let listed = |candidate: Candidate| {
        let Candidate { row_number, hash, location, activity, .. } = candidate;
        let values = values.remove(&hash).unwrap_or_default();
        let tie = ties.get(&hash).copied().unwrap_or_default();
        ListedVisitor { activity, location, row_number, values, tie }
    };
    Ok(candidates.into_iter().map(listed).collect())
}
