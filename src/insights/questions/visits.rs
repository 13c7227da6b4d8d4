//! Divides the events of a visitor into visits. Selects the visits and events that a question counts.
//!
//! Only events with the flag [`OF_VISIT`] begin or extend a visit. An event without this flag belongs to the visit of
//! the last event with this flag before it, if at most [`VISIT_REACH_MS`] have passed between the two events. Otherwise
//! the event belongs to no visit.

use std::ops::Range;

use super::question::Filters;
use super::row::{ACTION, CAMPAIGN_HIT, EVENT_HIT, OF_VISIT, PAGE, REJECTED, Row, SOURCE_HIT, VARIANT_HIT};
use super::values::NO_VALUE;
use crate::limits::{VISIT_REACH_MS, VISIT_TIMEOUT_MS};

/// The filters that select visitors or visits. A field is true if the question has the filter.
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

    /// Returns whether the filters select the visitor that has these events in the range.
    pub(crate) fn selects_visitor(self, rows: &[Row]) -> bool {
        (!self.has_event || rows.iter().any(|row| row.has(ACTION | EVENT_HIT)))
            && (!self.has_variant || rows.iter().any(|row| row.has(PAGE | VARIANT_HIT)))
    }

    /// Returns whether the filters select the visit that has these events.
    pub(crate) fn selects_visit(self, rows: &[Row]) -> bool {
        if !self.has_source && !self.has_campaign {
            return true;
        }
        let first_page = rows.iter().find(|row| row.has(PAGE)).filter(|_| is_visit(rows));
        first_page.is_some_and(|page| {
            (!self.has_source || page.has(SOURCE_HIT)) && (!self.has_campaign || page.has(CAMPAIGN_HIT))
        })
    }
}

/// A visit, or a group of consecutive events that belong to no visit.
pub(crate) struct Visit<'r> {
    /// The events before the end of the range.
    rows: &'r [Row],
    /// The events in the range.
    in_range: &'r [Row],
}

impl<'r> Visit<'r> {
    /// Returns the time of the first event of the visit, if this time is in the range.
    pub(crate) fn began_in_range_ms(&self) -> Option<i64> {
        (is_visit(self.rows) && self.rows.len() == self.in_range.len()).then(|| self.rows[0].time_ms())
    }

    /// Returns whether the events are a visit. Otherwise they belong to no visit.
    pub(crate) fn is_visit(&self) -> bool {
        is_visit(self.rows)
    }

    /// Returns the events before the end of the range.
    pub(crate) fn rows(&self) -> &'r [Row] {
        self.rows
    }

    /// Returns the events in the range.
    pub(crate) fn rows_in_range(&self) -> &'r [Row] {
        self.in_range
    }

    /// Iterates over the events that are in the range and that the filters select.
    pub(crate) fn events(&self) -> impl Iterator<Item = Row> + use<'r> {
        self.in_range.iter().copied().filter(|row| !row.has(REJECTED))
    }

    /// Returns the value of the first page event of the visit.
    pub(crate) fn first_page_value(&self) -> u32 {
        self.pages().next().map_or(NO_VALUE, |page| page.value)
    }

    /// Returns the value of the last page event of the visit.
    pub(crate) fn last_page_value(&self) -> u32 {
        self.pages().next_back().map_or(NO_VALUE, |page| page.value)
    }

    /// Iterates over the page events of the visit. A group of events that belong to no visit has no page events here.
    fn pages(&self) -> impl DoubleEndedIterator<Item = &Row> {
        let rows = if is_visit(self.rows) { self.rows } else { &[] };
        rows.iter().filter(|row| row.has(PAGE))
    }
}

/// Passes each visit that the selection counts to `take_visit`. Passes events that belong to no visit as groups. `rows` are
/// the events of one visitor. Each visit or group has at least one event that the filters select.
pub(crate) fn each_visit(
    rows: &[Row],
    range: &Range<i64>,
    selection: Selection,
    take_visit: &mut dyn FnMut(&Visit<'_>),
) {
    let rows = &rows[..rows.partition_point(|row| row.time_ms() < range.end)];
    let first = rows.partition_point(|row| row.time_ms() < range.start);
    if first == rows.len() || !selection.selects_visitor(&rows[first..]) {
        return;
    }
    let mut start = visit_start(rows, first);
    while start < rows.len() {
        let end = visit_end(rows, start);
        let visit = Visit { rows: &rows[start..end], in_range: &rows[start.max(first)..end] };
        if selection.selects_visit(visit.rows) && visit.events().next().is_some() {
            take_visit(&visit);
        }
        start = end;
    }
}

/// Iterates over the visits of a visitor, and over the groups of events that belong to no visit. Returns the indices of the events,
/// and whether they are a visit.
pub(crate) fn spans_of_visits(rows: &[Row]) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = (start < rows.len()).then(|| visit_end(rows, start))?;
        let span = start..end;
        start = end;
        Some((span.clone(), is_visit(&rows[span])))
    })
}

/// Returns the events of the visit of the event at `index`. If this event belongs to no visit, returns the group of
/// events around this event that belong to no visit.
pub(crate) fn visit_around(rows: &[Row], index: usize) -> &[Row] {
    let start = visit_start(rows, index);
    &rows[start..visit_end(rows, start)]
}

/// Returns the visit of the event at `index`, or the group of events around it that belong to no visit. All its events count as
/// events in the range.
pub(crate) fn visit_of(rows: &[Row], index: usize) -> Visit<'_> {
    let rows = visit_around(rows, index);
    Visit { rows, in_range: rows }
}

/// Returns true if these events are a visit. The first event of a visit has the flag [`OF_VISIT`].
fn is_visit(rows: &[Row]) -> bool {
    rows.first().is_some_and(|first| first.has(OF_VISIT))
}

/// Returns the index of the first event of the visit of the event at `index`. If this event belongs to no visit,
/// returns the index of the first event of its group.
fn visit_start(rows: &[Row], index: usize) -> usize {
    let last_of_visit = |rows: &[Row]| rows.iter().rposition(|row| row.has(OF_VISIT));
    let Some(mut start) = last_of_visit(&rows[..=index]) else { return 0 };
    let reach_end_ms = rows[start].time_ms() + VISIT_REACH_MS;
    if rows[index].time_ms() > reach_end_ms {
        return start + rows[start..index].partition_point(|row| row.time_ms() <= reach_end_ms);
    }
    while let Some(previous) = last_of_visit(&rows[..start])
        && rows[start].time_ms() - rows[previous].time_ms() <= VISIT_TIMEOUT_MS
    {
        start = previous;
    }
    start
}

fn visit_end(rows: &[Row], start_index: usize) -> usize {
    let mut last_ms = rows[start_index].has(OF_VISIT).then(|| rows[start_index].time_ms());
    for (index, row) in rows.iter().enumerate().skip(start_index + 1) {
        let gap_ms = last_ms.map(|last_ms| row.time_ms() - last_ms);
        let is_over = match row.has(OF_VISIT) {
            true => gap_ms.is_none_or(|gap_ms| gap_ms > VISIT_TIMEOUT_MS),
            false => gap_ms.is_some_and(|gap_ms| gap_ms > VISIT_REACH_MS),
        };
        if is_over {
            return index;
        }
        if row.has(OF_VISIT) {
            last_ms = Some(row.time_ms());
        }
    }
    rows.len()
}

/// Returns true if the first visit with an event in the range may have begun before the window. `rows` has the events
/// of one visitor since the start of the window.
pub(crate) fn may_begin_earlier(rows: &[Row], range: &Range<i64>, window_start_ms: i64) -> bool {
    let first = rows.partition_point(|row| row.time_ms() < range.start);
    if rows.get(first).is_none_or(|row| row.time_ms() >= range.end) {
        return false;
    }
    let start = visit_start(rows, first);
    match rows[start].has(OF_VISIT) {
        true => rows[start].time_ms() - window_start_ms < VISIT_TIMEOUT_MS,
        // If `start` is not 0, the visit before this group is in `rows`, and the group is too late for this visit.
        false => start == 0 && rows[first].time_ms() - window_start_ms <= VISIT_REACH_MS,
    }
}
