//! Visits of one visitor, and the events of them that a question counts.

use std::ops::Range;

use super::question::Filters;
use super::rows::{ACTION, CAMPAIGN_HIT, EVENT_HIT, PAGE, REJECTED, Row, SOURCE_HIT, VARIANT_HIT};
use super::values::NO_VALUE;
use crate::limits::VISIT_TIMEOUT_MS;

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
        let first_page = visit.iter().find(|row| row.has(PAGE));
        first_page.is_some_and(|page| {
            (!self.has_source || page.has(SOURCE_HIT)) && (!self.has_campaign || page.has(CAMPAIGN_HIT))
        })
    }
}

/// A visit that a question counts.
pub(crate) struct Visit<'r> {
    /// All events of the visit before the end of the range.
    rows: &'r [Row],
    /// The events since the begin of the range.
    in_range: &'r [Row],
}

impl<'r> Visit<'r> {
    /// Returns when the visit began, if that is in the range.
    pub(crate) fn began_in_range_ms(&self) -> Option<i64> {
        (self.rows.len() == self.in_range.len()).then(|| self.rows[0].time_ms())
    }

    /// Iterates over the events that the filters select. There is at least one.
    pub(crate) fn events(&self) -> impl Iterator<Item = Row> + use<'r> {
        self.in_range.iter().copied().filter(|row| !row.has(REJECTED))
    }

    /// Returns the value of the first page event.
    pub(crate) fn first_page_value(&self) -> u32 {
        self.rows.iter().find(|row| row.has(PAGE)).map_or(NO_VALUE, |page| page.value)
    }

    /// Returns the value of the last page event.
    pub(crate) fn last_page_value(&self) -> u32 {
        self.rows.iter().rfind(|row| row.has(PAGE)).map_or(NO_VALUE, |page| page.value)
    }
}

/// Passes each visit of a visitor that the selection counts to `count`. `rows` are the events of the visitor.
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

/// Returns the events of the visit that has the event at `at`.
pub(crate) fn visit_around(rows: &[Row], at: usize) -> &[Row] {
    &rows[visit_start(rows, at)..visit_end(rows, at)]
}

/// Returns the start of the visit that has the event at `at`.
fn visit_start(rows: &[Row], at: usize) -> usize {
    (1..=at).rev().find(|at| begins_visit(rows, *at)).unwrap_or(0)
}

fn visit_end(rows: &[Row], start: usize) -> usize {
    (start + 1..rows.len()).find(|at| begins_visit(rows, *at)).unwrap_or(rows.len())
}

fn begins_visit(rows: &[Row], at: usize) -> bool {
    rows[at].time_ms() - rows[at - 1].time_ms() > VISIT_TIMEOUT_MS
}

/// Returns whether a visit that meets the range may have begun before the first event that was read. `window_ms` is
/// the begin of the times that were read.
pub(crate) fn may_begin_earlier(rows: &[Row], range: &Range<i64>, window_ms: i64) -> bool {
    let begin = rows.partition_point(|row| row.time_ms() < range.start);
    let meets = rows.get(begin).is_some_and(|row| row.time_ms() < range.end);
    let start = if meets { visit_start(rows, begin) } else { return false };
    rows[start].time_ms() - window_ms < VISIT_TIMEOUT_MS
}
