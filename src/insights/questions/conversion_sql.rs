//! Writes the SQL that counts conversions.

use std::fmt::Write;
use std::ops::Range;

use super::channels::channel_sql;
use super::goal_sql::{amount, breakdown, currency, exists, goal_condition};
use super::question::{Group, Question};
use super::site::SiteFacts;
use super::sql_parts::{event_conditions, instant, visitor_conditions};
use crate::site::goals::SiteGoal;

/// The source of a credited visit. A visit without a page event is direct.
pub(crate) const CREDITED_SOURCE: &str = "coalesce(v.visit_source, '(direct)')";

/// A table of credited events.
#[derive(Clone, Copy)]
pub(crate) struct CreditedTable<'t> {
    /// The end of the names of the tables `numbered_NAME` and `visits_NAME`.
    pub name: &'t str,
    pub range: &'t Range<i64>,
}

/// Adds the table `credited_NAME`: each event of a range, with the visit to which it is credited, and the `value` of this visit or of
/// the event.
pub(crate) fn add_credited(
    sql: &mut String,
    table: CreditedTable<'_>,
    question: &Question,
    site: &SiteFacts,
) {
    let CreditedTable { name, range } = table;
    let seconds = site.attribution.window_ms / 1_000;
    let from = instant(range.start);
    let own = "own.visit_source is not null and own.visit_source <> '(direct)'";
    let credit = match site.attribution.is_first {
        true => "coalesce(min(c.visit), any_value(t.visit))".to_owned(),
        false => {
            format!("if(any_value({own}), any_value(t.visit), coalesce(max(c.visit), any_value(t.visit)))")
        }
    };
    let own_value = own_value(question.of, site, "");
    let _ = write!(
        sql,
        ",
touches_{name} as (
  select *, max(visit) over (partition by visitor order by ts, seq rows between unbounded preceding and current row) as begun,
    last_value(if(type = 'page' and visit > 0, {own_value}, null) ignore nulls)
      over (partition by visitor, visit order by ts, seq rows between unbounded preceding and current row) as page_value
  from numbered_{name} where visitor is not null),
credits_{name} as (
  select t.seq, {credit} as credit
  from touches_{name} t left join visits_{name} own on own.visitor = t.visitor and own.visit = t.visit
    left join visits_{name} c on c.visitor = t.visitor and c.visit <= t.begun and c.visit <> t.visit and c.visit > 0
      and c.visit_source is not null and c.visit_source <> '(direct)' and c.began >= t.ts - interval {seconds} second
  where t.ts >= {from} group by t.seq),
credited_{name} as (
  select n.*, {} as value
  from touches_{name} n join credits_{name} using (seq) left join visits_{name} v on v.visitor = n.visitor and v.visit = credit
  where n.ts >= {from}",
        credited_value(question.of, site),
    );
    let of_event = event_conditions(&question.filters, CREDITED_SOURCE);
    for condition in of_event.into_iter().chain(visitor_conditions(&question.filters, range)) {
        let _ = write!(sql, "\n    and {condition}");
    }
    sql.push(')');
}

/// Returns the own value of an event. `prefix` is before each column. For a group of visits it is not used.
fn own_value(group: Group, site: &SiteFacts, prefix: &str) -> String {
    match group {
        group if group.is_of_visit() => "null".to_owned(),
        group => event_value(group, site, prefix),
    }
}

/// Returns the value to which an event is credited.
fn credited_value(group: Group, site: &SiteFacts) -> String {
    match group {
        Group::Source => CREDITED_SOURCE.to_owned(),
        Group::Channel => {
            channel_sql(CREDITED_SOURCE, "v.visit_medium", "coalesce(v.visit_is_tagged, false)")
        }
        Group::Entry | Group::Exit => format!("v.{}", group.name()),
        group if group.is_of_visit() => format!("v.visit_{}", group.name()),
        group => format!("coalesce({}, n.page_value)", event_value(group, site, "n.")),
    }
}

/// Returns the value of an event in a list whose values belong to events. `prefix` is before each column.
pub(crate) fn event_value(group: Group, site: &SiteFacts, prefix: &str) -> String {
    match group {
        Group::Page => format!("{prefix}path"),
        Group::Property(number) => breakdown(&site.goals.properties()[usize::from(number)], prefix),
        group => format!("{prefix}{}", group.name()),
    }
}

/// Returns the queries that count the credited visitors and the conversions of each goal. `key` is the column by which they group. The
/// columns after `part` and the key are: conversions, values that are no amounts, visitors with a conversion, credited visitors. The
/// queries of amounts have there: the number of amounts, nothing, the sum in units of 10^-4, nothing. Their part has the currency.
pub(crate) fn conversion_queries(
    table: &str,
    part: &str,
    key: Option<&str>,
    goals: &[&SiteGoal],
) -> Vec<String> {
    let group = key.map_or_else(String::new, |key| format!(" group by {key}"));
    let and_key = key.map_or_else(String::new, |key| format!(", {key}"));
    let key = key.unwrap_or("null");
    // An overview has one column more than a list.
    let last = if key == "value" || part == "total" { "" } else { ", null" };
    let mut queries = vec![format!(
        "select '{part} credited', {key}, null, null, null, count(distinct c.visitor){last} from {table} c{group}"
    )];
    for (number, goal) in goals.iter().enumerate() {
        let condition = goal_condition(goal, "c.");
        let Some(path) = &goal.value else {
            queries.push(format!(
                "select '{part} goal {number}', {key}, count(*), 0, count(distinct c.visitor), null{last} from {table} c where {condition}{group}"
            ));
            continue;
        };
        let amount = amount(path, "c.");
        let is_ignored = format!("{} and {amount} is null", exists(path, "c."));
        let currency = goal.currency.as_ref().map_or_else(|| "''".to_owned(), |path| currency(path, "c."));
        queries.push(format!(
            "select '{part} goal {number}', {key}, count(*), count(*) filter (where {is_ignored}), count(distinct c.visitor), null{last}
  from {table} c where {condition}{group}"
        ));
        queries.push(format!(
            "select '{part} amounts {number} ' || coalesce({currency}, ''), {key}, count(*), null, cast(sum({amount}) * 10000 as bigint), null{last}
  from {table} c where {condition} and {amount} is not null group by coalesce({currency}, ''){and_key}"
        ));
    }
    queries
}
