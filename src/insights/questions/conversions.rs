//! Counts the conversions of goals, and credits each one to a visit.
//!
//! A conversion is an event that reaches a goal. It is credited to the visit of the event, if the source of this visit is not
//! `(direct)`. Otherwise it is credited to an earlier visit of the visitor with another source, within the window of the
//! attribution. If there is none, it stays with its own visit. All events are credited by this rule. So the visitors who
//! convert are a part of the credited visitors.

use std::ops::Range;

use super::count::bucket_of;
use super::goals::ConversionHit;
use super::money::Money;
use super::question::{Filters, Group, Question};
use super::row::{CAMPAIGN_HIT, DIRECT_SOURCE, GOAL_HIT, PAGE, REJECTED, Row, SOURCE_HIT};
use super::row_reader::DIRECT;
use super::site::Attribution;
use super::values::{ELSEWHERE, NO_VALUE};
use super::visit_scan::ScannedConversions;
use super::visits::{Selection, spans_of_visits};

/// The numbers of one goal.
#[derive(Debug, Default, Clone)]
pub(crate) struct GoalSums {
    /// The number of conversions.
    pub conversions: u64,
    /// The number of visitors with a conversion.
    pub converted: u64,
    /// The number of the visitor that was counted last.
    last_visitor: u64,
    /// The amounts of the conversions.
    pub money: Money,
}

impl GoalSums {
    fn add(&mut self, visitor_number: u64, hit: &ConversionHit<'_>, goal: usize) {
        self.conversions += 1;
        if self.last_visitor != visitor_number {
            self.converted += 1;
            self.last_visitor = visitor_number;
        }
        self.money.add(hit.amount_of(goal));
    }
}

/// The credited visitors, and the numbers of each goal of the question.
#[derive(Debug, Default, Clone)]
pub(crate) struct ConversionSums {
    /// The number of visitors with an event that is credited here. They are the visitors who could convert.
    pub credited: u64,
    /// The number of the visitor that was counted last.
    last_visitor: u64,
    pub goals: Vec<GoalSums>,
}

impl ConversionSums {
    fn of_goals(goal_count: usize) -> Self {
        Self { goals: vec![GoalSums::default(); goal_count], ..Self::default() }
    }

    /// Returns whether nobody is credited.
    pub(crate) fn is_empty(&self) -> bool {
        self.credited == 0
    }

    fn add(&mut self, visitor_number: u64, hit: Option<&ConversionHit<'_>>, goal_count: usize) {
        if self.last_visitor != visitor_number {
            self.credited += 1;
            self.last_visitor = visitor_number;
        }
        let Some(hit) = hit else { return };
        self.goals.resize_with(goal_count, GoalSums::default);
        for (goal, sums) in self.goals.iter_mut().enumerate().filter(|(goal, _)| hit.reaches(*goal)) {
            sums.add(visitor_number, hit, goal);
        }
    }
}

/// A visit of a visitor, or a group of events that belong to no visit.
pub(crate) struct VisitSpan {
    rows: Range<usize>,
    /// The time of the first event. `None` for a group that is no visit.
    began_ms: Option<i64>,
    pub first_page: Option<Row>,
    last_page: Option<Row>,
}

impl VisitSpan {
    fn of(rows: &[Row], span: Range<usize>, is_visit: bool) -> Self {
        let of_span = if is_visit { &rows[span.clone()] } else { &[] };
        Self {
            began_ms: of_span.first().map(|row| row.time_ms()),
            first_page: of_span.iter().find(|row| row.has(PAGE)).copied(),
            last_page: of_span.iter().rfind(|row| row.has(PAGE)).copied(),
            rows: span,
        }
    }

    /// Returns whether the visit has a source other than `(direct)`.
    fn has_source(&self) -> bool {
        self.first_page.is_some_and(|page| !page.has(DIRECT_SOURCE))
    }
}

/// The rule that credits the events of a range to visits, and the filters that select them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CreditRule<'q> {
    pub filters: &'q Filters,
    pub attribution: Attribution,
}

/// An event that the filters select, with its credit.
pub(crate) struct CreditedEvent<'v> {
    pub row: Row,
    /// The visit to which the event is credited.
    pub credited: &'v VisitSpan,
    /// The value of the event. If it has none, the latest value of a page event before it in its visit.
    pub own_value: u32,
}

impl CreditRule<'_> {
    /// Passes the events of a range to `take_event`. `rows` are the events of one visitor.
    pub(crate) fn each_event(
        &self,
        rows: &[Row],
        range: &Range<i64>,
        mut take_event: impl FnMut(CreditedEvent<'_>),
    ) {
        let rows = &rows[..rows.partition_point(|row| row.time_ms() < range.end)];
        let first = rows.partition_point(|row| row.time_ms() < range.start);
        if first == rows.len() || !Selection::new(self.filters).selects_visitor(&rows[first..]) {
            return;
        }
        let spans: Vec<VisitSpan> =
            spans_of_visits(rows).map(|(span, is_visit)| VisitSpan::of(rows, span, is_visit)).collect();
        let with_source: Vec<usize> = (0..spans.len()).filter(|index| spans[*index].has_source()).collect();
        for (index, span) in spans.iter().enumerate().filter(|(_, span)| span.rows.end > first) {
            // The latest value of a page event of the visit.
            let mut page_value = NO_VALUE;
            let earlier = &with_source[..with_source.partition_point(|other| *other < index)];
            for row_index in span.rows.clone() {
                let row = rows[row_index];
                if row.has(PAGE) && row.value != NO_VALUE && span.began_ms.is_some() {
                    page_value = row.value;
                }
                if row_index < first || row.has(REJECTED) {
                    continue;
                }
                let credited = self.credited_visit(&spans, earlier, row.time_ms()).unwrap_or(index);
                let credited = if self.stays(span) { span } else { &spans[credited] };
                if self.selects_credit(credited) {
                    let own_value = if row.value == NO_VALUE { page_value } else { row.value };
                    take_event(CreditedEvent { row, credited, own_value });
                }
            }
        }
    }

    /// Returns whether the events of a visit are credited to the visit itself, also if other visits are before it.
    fn stays(&self, span: &VisitSpan) -> bool {
        !self.attribution.is_first && span.has_source()
    }

    /// Returns the index of the visit within the window to which an event is credited. `earlier` are the indices of the visits with
    /// a source before the visit of the event.
    fn credited_visit(&self, spans: &[VisitSpan], earlier: &[usize], time_ms: i64) -> Option<usize> {
        let since_ms = time_ms.saturating_sub(self.attribution.window_ms);
        let began_ms = |index: usize| spans[index].began_ms.unwrap_or(i64::MIN);
        let in_window = &earlier[earlier.partition_point(|index| began_ms(*index) < since_ms)..];
        if self.attribution.is_first { in_window.first() } else { in_window.last() }.copied()
    }

    /// Returns whether the filters `source` and `campaign` accept a credited visit.
    fn selects_credit(&self, credited: &VisitSpan) -> bool {
        let Filters { source, campaign, .. } = self.filters;
        let has = |flag| credited.first_page.is_some_and(|page| page.has(flag));
        let is_direct = credited.first_page.is_none() && source.iter().any(|name| name == DIRECT);
        (source.is_empty() || is_direct || has(SOURCE_HIT)) && (campaign.is_empty() || has(CAMPAIGN_HIT))
    }
}

/// A count of the conversions in a range.
#[derive(Debug)]
pub(crate) struct ConversionCount<'q> {
    range: Range<i64>,
    rule: CreditRule<'q>,
    group: Option<Group>,
    goal_count: usize,
    /// The first instant of each bucket, in milliseconds.
    buckets: Vec<i64>,
    pub total: ConversionSums,
    /// The numbers of each bucket.
    pub series: Vec<ConversionSums>,
    /// The numbers of each value, by the index of the value in [`Values`](super::values::Values).
    pub groups: Vec<ConversionSums>,
    /// The numbers of all events that have no value.
    pub absent: ConversionSums,
    /// The number of the last visitor.
    visitor: u64,
}

impl<'q> ConversionCount<'q> {
    /// Creates the count of the goals of a question in a range. `group` is that of the list, if there is one.
    pub(crate) fn new(
        range: &Range<i64>,
        question: &'q Question,
        attribution: Attribution,
        group: Option<Group>,
        bucket_starts_ms: Vec<i64>,
    ) -> Self {
        let goal_count = question.goals.len();
        let sums = ConversionSums::of_goals(goal_count);
        Self {
            range: range.clone(),
            rule: CreditRule { filters: &question.filters, attribution },
            group,
            goal_count,
            series: vec![sums.clone(); bucket_starts_ms.len()],
            buckets: bucket_starts_ms,
            total: sums.clone(),
            groups: Vec::new(),
            absent: sums,
            visitor: 0,
        }
    }

    /// Counts the events of a visitor.
    pub(crate) fn add_visitor(&mut self, rows: &[Row], scanned: &ScannedConversions<'_>) {
        self.visitor += 1;
        let range = self.range.clone();
        let rule = self.rule;
        rule.each_event(rows, &range, |CreditedEvent { row, credited, own_value }| {
            let value = self.value_of(credited, own_value, scanned.direct_value);
            self.add_event(row, value, scanned);
        });
    }

    /// Returns the number of the value to which an event is credited, or [`NO_VALUE`]. `own_value` is that of the event itself.
    /// `None` if the question has no group.
    fn value_of(&self, credited: &VisitSpan, own_value: u32, direct_value: u32) -> Option<u32> {
        let of_page = |page: Option<Row>| page.map_or(NO_VALUE, |page| page.value);
        Some(match self.group? {
            // A visit without a page event is direct.
            Group::Source | Group::Channel => credited.first_page.map_or(direct_value, |page| page.value),
            Group::Exit => of_page(credited.last_page),
            group if group.is_of_visit() => of_page(credited.first_page),
            _ => own_value,
        })
    }

    fn add_event(&mut self, row: Row, value: Option<u32>, scanned: &ScannedConversions<'_>) {
        let hit = row.has(GOAL_HIT).then(|| scanned.hits.get(row.order));
        let visitor = self.visitor;
        let goals = self.goal_count;
        self.total.add(visitor, hit.as_ref(), goals);
        if let Some(bucket) = bucket_of(&self.buckets, row.time_ms()) {
            self.series[bucket].add(visitor, hit.as_ref(), goals);
        }
        let group = match value {
            None | Some(ELSEWHERE) => return,
            Some(NO_VALUE) => &mut self.absent,
            Some(number) => {
                let index = number as usize;
                self.groups.resize_with(self.groups.len().max(index + 1), ConversionSums::default);
                &mut self.groups[index]
            }
        };
        group.add(visitor, hit.as_ref(), goals);
    }
}
