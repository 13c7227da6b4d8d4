//! Visits of one visitor, and the events of them that a question counts.
//!
//! Only some events begin or extend a visit. Each other one is in the visit of the last such event before it, if that was
//! at most [`VISIT_REACH_MS`] before. Otherwise it is in no visit.

use std::ops::Range;

use super::question::Filters;
use super::rows::{ACTION, CAMPAIGN_HIT, EVENT_HIT, OF_VISIT, PAGE, REJECTED, Row, SOURCE_HIT, VARIANT_HIT};
use super::values::NO_VALUE;
use crate::limits::{VISIT_REACH_MS, VISIT_TIMEOUT_MS};

/// The filters that select visitors and visits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    has_event: bool,
    has_variant: bool,
    has_source: bool,
    has_campaign: bool,
}

impl Selection {
    pub(crate) fn new(filters: &Filters) -> Self {
        Self {
            has_event: !filters.event.is_empty(),
            has_variant: !filters.variant.is_empty(),
            has_source: !filters.source.is_empty(),
            has_campaign: !filters.campaign.is_empty(),
        }
    }

    fn selects_visitor(self, in_range: &[Row]) -> bool {
        (!self.has_event || in_range.iter().any(|row| row.has(ACTION | EVENT_HIT)))
            && (!self.has_variant || in_range.iter().any(|row| row.has(PAGE | VARIANT_HIT)))
    }

    /// Returns whether the filters of visits select these events of a visit.
    pub(crate) fn selects_visit(self, visit: &[Row]) -> bool {
        if !self.has_source && !self.has_campaign {
            return true;
        }
        let first_page = visit.iter().find(|row| row.has(PAGE)).filter(|_| is_visit(visit));
        first_page.is_some_and(|page| {
            (!self.has_source || page.has(SOURCE_HIT)) && (!self.has_campaign || page.has(CAMPAIGN_HIT))
        })
    }
}

/// A visit that a question counts, or events without a visit.
pub(crate) struct Visit<'r> {
    /// All events of the visit before the end of the range.
    rows: &'r [Row],
    /// The events since the begin of the range.
    in_range: &'r [Row],
}

impl<'r> Visit<'r> {
    /// Returns when the visit began, if that is in the range.
    pub(crate) fn began_in_range_ms(&self) -> Option<i64> {
        (is_visit(self.rows) && self.rows.len() == self.in_range.len()).then(|| self.rows[0].time_ms())
    }

    /// Iterates over the events that the filters select. There is at least one.
    pub(crate) fn events(&self) -> impl Iterator<Item = Row> + use<'r> {
        self.in_range.iter().copied().filter(|row| !row.has(REJECTED))
    }

    /// Returns the value of the first page event.
    pub(crate) fn first_page_value(&self) -> u32 {
        self.pages().next().map_or(NO_VALUE, |page| page.value)
    }

    /// Returns the value of the last page event.
    pub(crate) fn last_page_value(&self) -> u32 {
        self.pages().next_back().map_or(NO_VALUE, |page| page.value)
    }

    /// Iterates over the page events of a visit.
    fn pages(&self) -> impl DoubleEndedIterator<Item = &Row> {
        let rows = if is_visit(self.rows) { self.rows } else { &[] };
        rows.iter().filter(|row| row.has(PAGE))
    }
}

/// Passes each visit of a visitor that the selection counts to `count`, and the events between visits as groups of their
/// own. `rows` are the events of the visitor.
pub(crate) fn each_visit(
    rows: &[Row],
    range: &Range<i64>,
    selection: Selection,
    count: &mut dyn FnMut(&Visit<'_>),
) {
    let rows = &rows[..rows.partition_point(|row| row.time_ms() < range.end)];
    let begin = rows.partition_point(|row| row.time_ms() < range.start);
    if begin == rows.len() || !selection.selects_visitor(&rows[begin..]) {
        return;
    }
    let mut start = visit_start(rows, begin);
    while start < rows.len() {
        let end = visit_end(rows, start);
        let visit = Visit { rows: &rows[start..end], in_range: &rows[start.max(begin)..end] };
        if selection.selects_visit(visit.rows) && visit.events().next().is_some() {
            count(&visit);
        }
        start = end;
    }
}

/// Returns the events of the visit that has the event at `at`. Without a visit, these are the events around it without
/// one.
pub(crate) fn visit_around(rows: &[Row], at: usize) -> &[Row] {
    let start = visit_start(rows, at);
    &rows[start..visit_end(rows, start)]
}

/// Returns whether events are a visit. A visit begins with an event of it.
fn is_visit(rows: &[Row]) -> bool {
    rows.first().is_some_and(|first| first.has(OF_VISIT))
}

/// Returns the start of the visit that has the event at `at`, or of the events without a visit around it.
fn visit_start(rows: &[Row], at: usize) -> usize {
    let of_visit = |rows: &[Row]| rows.iter().rposition(|row| row.has(OF_VISIT));
    let Some(mut start) = of_visit(&rows[..=at]) else { return 0 };
    let reach_end_ms = rows[start].time_ms() + VISIT_REACH_MS;
    if rows[at].time_ms() > reach_end_ms {
        return start + rows[start..at].partition_point(|row| row.time_ms() <= reach_end_ms);
    }
    while let Some(before) = of_visit(&rows[..start])
        && rows[start].time_ms() - rows[before].time_ms() <= VISIT_TIMEOUT_MS
    {
        start = before;
    }
    start
}

fn visit_end(rows: &[Row], start: usize) -> usize {
    let mut last_ms = rows[start].has(OF_VISIT).then(|| rows[start].time_ms());
    for (at, row) in rows.iter().enumerate().skip(start + 1) {
        let gap_ms = last_ms.map(|last_ms| row.time_ms() - last_ms);
        let is_over = match row.has(OF_VISIT) {
            true => gap_ms.is_none_or(|gap_ms| gap_ms > VISIT_TIMEOUT_MS),
            false => gap_ms.is_some_and(|gap_ms| gap_ms > VISIT_REACH_MS),
        };
        if is_over {
            return at;
        }
        if row.has(OF_VISIT) {
            last_ms = Some(row.time_ms());
        }
    }
    rows.len()
}

/// Returns whether a visit that meets the range may have begun before the first event that was read. `window_ms` is
/// the begin of the times that were read.
pub(crate) fn may_begin_earlier(rows: &[Row], range: &Range<i64>, window_ms: i64) -> bool {
    let begin = rows.partition_point(|row| row.time_ms() < range.start);
    let meets = rows.get(begin).is_some_and(|row| row.time_ms() < range.end);
    let start = if meets { visit_start(rows, begin) } else { return false };
    match rows[start].has(OF_VISIT) {
        true => rows[start].time_ms() - window_ms < VISIT_TIMEOUT_MS,
        // After a visit that was read, the events without a visit do not begin at the first row.
        false => start == 0 && rows[begin].time_ms() - window_ms <= VISIT_REACH_MS,
    }
}
