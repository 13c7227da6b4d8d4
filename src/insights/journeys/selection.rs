//! The parameters that all questions about journeys have: the range and the filters.

use std::fmt::Write;
use std::ops::Range;

use crate::insights::questions::calendar::Zone;
use crate::insights::questions::goal_sql::chosen_condition;
use crate::insights::questions::plan::Plan;
use crate::insights::questions::question::{Filters, NamedValue, Question, QuestionError, Subject};
use crate::insights::questions::row::{REJECTED, Row};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::{
    VISIT_SOURCE, add_referrers, add_visits, begin_events, event_conditions, instant, visitor_conditions,
};
use crate::insights::questions::steps::Step;
use crate::insights::questions::unknown::filter_values;
use crate::insights::questions::visits::{Selection, Visit};
use crate::limits::VISIT_TIMEOUT_MS;

/// The names of the parameters, except `page`.
const PARAM_NAMES: [&str; 10] =
    ["from", "to", "bots", "source", "campaign", "country", "device", "language", "event", "variant"];

/// The events that a question about journeys counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSelection {
    /// The range in milliseconds. The end is exclusive.
    pub range: Range<i64>,
    /// True if the records of crawlers are included.
    pub bots: bool,
    pub filters: Filters,
}

impl EventSelection {
    /// Parses the range and the filters. `page` is a filter only if `has_page_filter` is true.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub(super) fn parse(
        pairs: &[(&str, &str)],
        has_page_filter: bool,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let is_shared = |name: &str| PARAM_NAMES.contains(&name) || has_page_filter && name == "page";
        // The question `top` for pages has the same parameters. So its parser checks these parameters.
        let shared = pairs.iter().copied().filter(|(name, _)| is_shared(name)).chain([("of", "page")]);
        let Question { range, bots, filters, .. } = Question::parse(Subject::Top, shared, zone, now_ms)?;
        Ok(Self { range, bots, filters })
    }

    /// Returns the plan that reads the events of the range, with the beginnings of the visits of the last half hour before it.
    pub(super) fn plan<'q>(&'q self, site: &'q SiteFacts) -> Plan<'q> {
        let window = self.range.start - VISIT_TIMEOUT_MS..self.range.end;
        Plan { window, ..Plan::new(site, &self.range, self.bots, &self.filters) }
    }

    /// Returns whether the filters select a journey by this event and its visit.
    pub(super) fn selects(&self, event: Row, visit: &Visit<'_>) -> bool {
        !event.has(REJECTED) && Selection::new(&self.filters).selects_visit(visit.rows())
    }

    /// Returns the indices of the events in the range. Returns `None` if there are none, or if the filters do not select the
    /// visitor. `rows` are the events of one visitor.
    pub(super) fn rows_in_range(&self, rows: &[Row]) -> Option<Range<usize>> {
        let first = rows.partition_point(|row| row.time_ms() < self.range.start);
        let end = rows.partition_point(|row| row.time_ms() < self.range.end);
        let is_counted = first < end && Selection::new(&self.filters).selects_visitor(&rows[first..end]);
        is_counted.then_some(first..end)
    }

    pub(super) fn named_values(&self) -> Vec<NamedValue<'_>> {
        filter_values(&self.filters)
    }

    /// Returns the first tables of a query. The table `journeys` has the events before the end of the range, with the number and
    /// the source of their visits. Its column `passes` is true if the filters select a journey by the event. Its column `in_range`
    /// is true for the events of the range.
    pub(super) fn begin_sql(&self, site: &SiteFacts) -> String {
        let mut sql = begin_events(&site.site, self.bots);
        add_referrers(&mut sql, site);
        add_visits(&mut sql, "range", self.range.end);
        let mut conditions = event_conditions(&self.filters, VISIT_SOURCE);
        conditions.extend(visitor_conditions(&self.filters, &self.range));
        let passes = if conditions.is_empty() { "true".to_owned() } else { conditions.join("\n    and ") };
        let _ = write!(
            sql,
            ",
journeys as (
  select n.*, v.began, v.visit_source, v.visit_campaign, n.ts >= {} as in_range, coalesce({passes}, false) as passes
  from numbered_range n join visits_range v using (visitor, visit))",
            instant(self.range.start)
        );
        sql
    }
}

/// Returns the condition that a step accepts an event.
pub(super) fn step_condition(step: &Step, site: &SiteFacts) -> String {
    chosen_condition(&step.goal, site, "")
}
