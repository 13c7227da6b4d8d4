//! Writes the SQL of an answer. DuckDB can run this SQL over the output of `parallax export`, and gives the same
//! numbers as the answer.

use std::fmt::Write;
use std::ops::Range;

use super::ask::RECENT_MS;
use super::channels::channel_sql;
use super::conversion_sql::{CreditedTable, add_credited, conversion_queries, event_value};
use super::question::{Filters, Group, Question, Subject};
use super::site::SiteFacts;
use super::sql_parts::{
    VISIT_SOURCE, add_referrers, add_visits, begin_events, buckets_table, event_conditions, instant, text,
    visitor_conditions,
};
use crate::site::goals::SiteGoal;

/// The columns with the totals of the table `counted_range`. `:from` is replaced with the start of the range.
const TOTALS: &str = "count(distinct visitor) filter (where type = 'page') as visitors,
  count(distinct (visitor, visit)) filter (where began >= :from) as visits,
  count(*) filter (where type = 'page') as views, count(*) filter (where type in ('track', 'screen')) as events,
  count(distinct visitor) filter (where type = 'page'
    and regexp_replace(variants, '[A-Za-z0-9_-]+:default(,|$)', '', 'g') <> '') as personalized";

/// Returns the query of a question about page views.
pub(crate) fn query(question: &Question, site: &SiteFacts) -> String {
    let mut sql = begin_events(&site.site, question.bots);
    add_referrers(&mut sql, site);
    add_range(&mut sql, &question.range, &question.filters);
    match question.subject {
        Subject::Overview => {
            add_series(&mut sql, question, site);
            let conversions = overview_conversions(&mut sql, question, site);
            let totals = TOTALS.replace(":from", &instant(question.range.start));
            let _ =
                write!(sql, "\nselect 'totals' as part, null as t, {totals}\n  from counted_range union all");
            sql.push_str("\nselect 'series', t, visitors, visits, views, events, null from series");
            sql.push_str(&conversions);
            sql.push_str(" order by part, t");
        }
        Subject::Top => add_top(&mut sql, question, site),
        Subject::Live => {
            add_series(&mut sql, question, site);
            add_live(&mut sql, &question.range);
        }
    }
    sql
}

/// Adds the table `counted_range`. It has the events in the range that the filters select. Each event has the facts about
/// its visit.
fn add_range(sql: &mut String, range: &Range<i64>, filters: &Filters) {
    add_visits(sql, "range", range.end);
    let from = instant(range.start);
    let _ = write!(
        sql,
        ",
counted_range as (
  select n.*, v.began, v.entry, v.exit, v.visit_source, v.visit_medium, v.visit_is_tagged, v.visit_campaign, v.visit_term,
    v.visit_content
  from numbered_range n join visits_range v using (visitor, visit) where n.ts >= {from}"
    );
    for condition in event_conditions(filters, VISIT_SOURCE) {
        let _ = write!(sql, "\n    and {condition}");
    }
    for condition in visitor_conditions(filters, range) {
        let _ = write!(sql, "\n    and {condition}");
    }
    sql.push(')');
}

/// Adds the table `series`. It has the numbers of each bucket.
fn add_series(sql: &mut String, question: &Question, site: &SiteFacts) {
    let from = instant(question.range.start);
    let buckets = buckets_table(&site.zone.buckets(&question.range, question.by).unwrap_or_default());
    let _ = write!(
        sql,
        ",
{buckets},
bucket_events as (
  select b.t, count(distinct visitor) filter (where type = 'page') as visitors,
    count(*) filter (where type = 'page') as views, count(*) filter (where type in ('track', 'screen')) as events
  from counted_range c asof join buckets b on c.ts >= b.t group by 1),
bucket_visits as (
  select b.t, count(*) as visits
  from (select distinct visitor, visit, began from counted_range where began >= {from}) v
    asof join buckets b on v.began >= b.t group by 1),
series as (
  select cast(epoch(t) as bigint) as t, coalesce(visitors, 0) as visitors, coalesce(visits, 0) as visits,
    coalesce(views, 0) as views, coalesce(events, 0) as events
  from buckets left join bucket_events using (t) left join bucket_visits using (t))"
    );
}

fn add_top(sql: &mut String, question: &Question, site: &SiteFacts) {
    let value = match question.of {
        Group::Entry | Group::Exit => question.of.name().to_owned(),
        Group::Channel => channel_sql("visit_source", "visit_medium", "visit_is_tagged"),
        group if group.is_of_visit() => format!("visit_{}", group.name()),
        group => event_value(group, site, ""),
    };
    let (visitors, events, rank) = match question.of {
        Group::Event => ("count(distinct visitor)", " where type in ('track', 'screen')", "events"),
        Group::Property(_) => ("count(distinct visitor)", "", "visitors"),
        group => {
            let rank = if group.is_of_visit() { "visits" } else { "views" };
            ("count(distinct visitor) filter (where type = 'page')", "", rank)
        }
    };
    let conversions = top_conversions(sql, question, site);
    let searched = question.contains.as_ref();
    let searched =
        searched.map_or_else(String::new, |part| format!(" where contains(lower(value), {})", text(part)));
    let from = instant(question.range.start);
    let numbers = format!(
        "count(*) filter (where type = 'page') as views, count(*) filter (where type in ('track', 'screen')) as events,
  {visitors} as visitors, count(distinct (visitor, visit)) filter (where began >= {from}) as visits"
    );
    let _ = write!(
        sql,
        ",
top as (select {value} as value, {numbers}\n  from counted_range{events} group by 1)
select 'rows' as part, * from top{searched} union all
select 'total', null, {numbers}\n  from counted_range{events}{conversions} order by part, {rank} desc, value nulls last"
    );
}

/// Returns the goals of a question.
fn goals_of<'s>(question: &Question, site: &'s SiteFacts) -> Vec<&'s SiteGoal> {
    question.goals.iter().map(|number| &site.goals.all()[*number]).collect()
}

/// Adds the tables of the conversions of an overview, and returns the queries that count them. Empty if the question names no goal.
fn overview_conversions(sql: &mut String, question: &Question, site: &SiteFacts) -> String {
    let goals = goals_of(question, site);
    if goals.is_empty() {
        return String::new();
    }
    add_credited(sql, CreditedTable { name: "range", range: &question.range }, question, site);
    let mut queries = conversion_queries("credited_range", "totals", None, &goals);
    let buckets = "(select r.*, cast(epoch(b.t) as bigint) as t from credited_range r asof join buckets b on r.ts >= b.t)";
    queries.extend(conversion_queries(buckets, "series", Some("t"), &goals));
    queries.iter().map(|query| format!(" union all\n{query}")).collect()
}

/// Does the same as [`overview_conversions`] for a list.
fn top_conversions(sql: &mut String, question: &Question, site: &SiteFacts) -> String {
    let goals = goals_of(question, site);
    if goals.is_empty() {
        return String::new();
    }
    add_credited(sql, CreditedTable { name: "range", range: &question.range }, question, site);
    let mut queries = conversion_queries("credited_range", "rows", Some("value"), &goals);
    queries.extend(conversion_queries("credited_range", "total", None, &goals));
    queries.iter().map(|query| format!(" union all\n{query}")).collect()
}

fn add_live(sql: &mut String, range: &Range<i64>) {
    let since = instant(range.end - RECENT_MS);
    let _ = write!(
        sql,
        ",
last_pages as (
  select visitor, last(path order by ts, seq) filter (where type = 'page') as page, bool_or(ts >= {since}) as recent
  from counted_range group by visitor)
select 'live' as part, null as t, null as value, count(distinct visitor) filter (where type = 'page') as visitors,
  null as views, null as events from counted_range union all
select 'pages', null, page, count(*), null, null from last_pages where recent and page is not null group by 3 union all
select 'series', t, null, visitors, views, events from series order by part, t, visitors desc, value"
    );
}
