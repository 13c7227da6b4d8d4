//! The selected events of one visitor.

use super::question::VisitorsQuestion;
use crate::insights::questions::conversions::{CreditRule, CreditedEvent};
use crate::insights::questions::row::{ACTION, GOAL_HIT, PAGE, REJECTED, Row};
use crate::insights::questions::values::NO_VALUE;
use crate::insights::questions::visits::{Selection, each_visit};

/// The selected events of a visitor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub first_ms: i64,
    pub last_ms: i64,
    pub views: u64,
    pub events: u64,
    /// The number of events that reach the goal. 0 without a goal.
    pub conversions: u64,
    /// The event by which the visitor is sorted.
    pub latest: Latest,
}

/// The event by which a visitor is sorted: the last one, or the last one that reaches the goal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latest {
    pub row: Row,
    /// The value of the visit of the event. With a goal, it is the visit to which the event is credited.
    pub visit_value: u32,
    /// The value of the event. If it has none, the latest value of a page event before it in its visit.
    pub own_value: u32,
}

/// A sum over the events of a visitor in the order of their times.
#[derive(Default)]
struct Sums {
    first_ms: Option<i64>,
    last_ms: i64,
    views: u64,
    events: u64,
    conversions: u64,
    latest: Option<Latest>,
}

impl Sums {
    fn add(&mut self, event: Latest, has_goal: bool) {
        let row = event.row;
        self.first_ms.get_or_insert(row.time_ms());
        self.last_ms = row.time_ms();
        self.views += u64::from(row.has(PAGE));
        self.events += u64::from(row.has(ACTION));
        self.conversions += u64::from(row.has(GOAL_HIT));
        if !has_goal || row.has(GOAL_HIT) {
            self.latest = Some(event);
        }
    }

    fn finish(self) -> Option<Activity> {
        let Self { first_ms, last_ms, views, events, conversions, latest } = self;
        Some(Activity { first_ms: first_ms?, last_ms, views, events, conversions, latest: latest? })
    }
}

/// Returns the selected events of a visitor. `None` if the list has no such visitor. `rows` are the events of the visitor.
/// `direct_value` is the value of a visit without a page event, to which a conversion is credited.
pub(super) fn activity_of(
    rows: &[Row],
    question: &VisitorsQuestion,
    rule: Option<CreditRule<'_>>,
    direct_value: u32,
) -> Option<Activity> {
    let mut sums = Sums::default();
    let range = &question.selection.range;
    if let Some(rule) = rule {
        rule.each_event(rows, range, |CreditedEvent { row, credited, own_value }| {
            let visit_value = credited.first_page.map_or(direct_value, |page| page.value);
            sums.add(Latest { row, visit_value, own_value }, true);
        });
        return sums.finish();
    }
    each_visit(rows, range, Selection::new(&question.selection.filters), &mut |visit| {
        let visit_value = visit.first_page_value();
        let before_range = visit.rows().len() - visit.rows_in_range().len();
        let mut page_value = NO_VALUE;
        for (index, row) in visit.rows().iter().copied().enumerate() {
            if row.has(PAGE) && row.value != NO_VALUE && visit.is_visit() {
                page_value = row.value;
            }
            if index >= before_range && !row.has(REJECTED) {
                let own_value = if row.value == NO_VALUE { page_value } else { row.value };
                sums.add(Latest { row, visit_value, own_value }, false);
            }
        }
    });
    sums.finish()
}
