//! Writes the SQL of an answer. DuckDB can run this SQL over the output of `parallax export`, and gives the same
//! numbers as the answer.

use std::fmt::Write;
use std::ops::Range;

use super::ask::RECENT_MS;
use super::calendar::Comparison;
use super::channels::channel_sql;
use super::conversion_sql::{CreditedTable, add_credited, conversion_queries};
use super::question::{Filters, Group, Question, Subject};
use super::site::SiteFacts;
use crate::events::time;
use crate::limits::VISIT_REACH_MS;
use crate::providers;
use crate::record::EXPOSURE_EVENT;
use crate::site::goals::SiteGoal;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The part of each query that reads the export.
const RECORDED: &str = "with recorded as (
  select cast(seq as bigint) as seq, \"timestamp\"::timestamp as ts, type, bot, anonId, userId, tied, if(type = 'screen', 'screen', event) as event, path,
    variants, experiments, referrerHost, source, medium, campaign, term, content, device, os, browser, country, language,
    payload
  from read_json('events.ndjson', format = 'newline_delimited', columns = {seq: 'VARCHAR', \"timestamp\": 'VARCHAR',
    site: 'VARCHAR', type: 'VARCHAR', anonId: 'VARCHAR', userId: 'VARCHAR', tied: 'VARCHAR', event: 'VARCHAR', path: 'VARCHAR',
    bot: 'BOOLEAN', variants: 'VARCHAR', experiments: 'VARCHAR', referrerHost: 'VARCHAR', source: 'VARCHAR',
    medium: 'VARCHAR', campaign: 'VARCHAR', term: 'VARCHAR', content: 'VARCHAR', device: 'VARCHAR', os: 'VARCHAR',
    browser: 'VARCHAR', country: 'VARCHAR', language: 'VARCHAR', payload: 'JSON'})
  where site = ";

/// The tables `ties` and `events`. An alias ties an anonymous ID only if this ID has no tie yet. A row without a user
/// ends the tie of its anonymous ID. An event without an anonymous ID is credited to the anonymous ID of the latest
/// valid tie of its user before the event. A tie is valid until it ends, or until its anonymous ID is tied to another
/// user.
const EVENTS: &str = ",
ties as (
  select seq, tied, userId, lead(seq) over (partition by tied order by seq) as until
  from (select * from recorded where tied is not null
    qualify type <> 'alias' or lag(userId) over (partition by tied order by seq) is null)),
credited as (
  select r.seq, max_by(t.tied, t.seq) as credit from recorded r join ties t
    on t.userId = r.userId and t.seq < r.seq and (t.until is null or t.until > r.seq)
  where r.anonId is null group by 1),
events as (
  select r.*, coalesce('a:' || anonId, 'a:' || credit, 'u:' || userId) as visitor
  from recorded r left join credited using (seq)";

/// The columns with the totals of a table `counted_NAME`. `:from` is replaced with the start of the range.
const TOTALS: &str = "count(distinct visitor) filter (where type = 'page') as visitors,
  count(distinct (visitor, visit)) filter (where began >= :from) as visits,
  count(*) filter (where type = 'page') as views, count(*) filter (where type in ('track', 'screen')) as events,
  count(distinct visitor) filter (where type = 'page'
    and regexp_replace(variants, '[A-Za-z0-9_-]+:default(,|$)', '', 'g') <> '') as personalized";

/// Returns the query of a question about page views.
pub(crate) fn query(question: &Question, site: &SiteFacts, now_ms: i64) -> String {
    let mut sql = begin_events(&site.site, question.bots);
    add_referrers(&mut sql, site);
    let add =
        |sql: &mut String, name: &str, range: &Range<i64>| add_range(sql, name, range, &question.filters);
    add(&mut sql, "range", &question.range);
    match question.subject {
        Subject::Overview => {
            let comparison = site.zone.comparison(&question.range, now_ms);
            add(&mut sql, "compared", &comparison.range);
            add(&mut sql, "before", &comparison.before);
            add_series(&mut sql, question, site);
            let conversions = overview_conversions(&mut sql, question, site, &comparison);
            let ranges = [
                ("totals", "range", &question.range),
                ("comparison", "compared", &comparison.range),
                ("before", "before", &comparison.before),
            ];
            for (part, name, range) in ranges {
                let totals = TOTALS.replace(":from", &instant(range.start));
                let _ = write!(
                    sql,
                    "\nselect '{part}' as part, null as t, {totals}\n  from counted_{name} union all"
                );
            }
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

/// Returns the first tables of a query. The table `events` has the events of a site, with their visitors.
pub(crate) fn begin_events(site: &str, includes_bots: bool) -> String {
    format!("{RECORDED}{}){EVENTS}{})", text(site), if includes_bots { "" } else { " where not bot" })
}

/// Returns a text literal.
pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn texts(values: &[String]) -> String {
    values.iter().map(|value| text(value)).collect::<Vec<_>>().join(", ")
}

/// Returns a timestamp literal.
pub(crate) fn instant(time_ms: i64) -> String {
    let text = time::to_text(time_ms).replace('T', " ");
    format!("timestamp '{}'", text.trim_end_matches('Z'))
}

/// Adds the table `referred`. It has all events, and a column `referrer`. This column has the referrer host if the host
/// is external. Only this table contains the test, because the list of hosts in the test is long.
pub(crate) fn add_referrers(sql: &mut String, site: &SiteFacts) {
    let _ = write!(
        sql,
        ",\nreferred as (select *, if({}, referrerHost, null) as referrer from events)",
        is_external(site)
    );
}

/// Returns the condition that the referrer host is external.
fn is_external(site: &SiteFacts) -> String {
    let host = "regexp_replace(referrerHost, '^www[.]', '')";
    let others = site.own_hosts.iter().chain(&site.ignored_referrers);
    let (domains, hosts): (Vec<String>, Vec<String>) =
        others.map(|other| other.to_ascii_lowercase()).partition(|other| other.starts_with("*."));
    let mut condition = "referrerHost is not null".to_owned();
    if !hosts.is_empty() {
        let _ = write!(condition, " and {host} not in ({})", texts(&hosts));
    }
    let domains = domains.iter().map(|domain| &domain[2..]);
    let escape = |domain: &str| domain.replace('.', "[.]");
    let mut domains: Vec<String> = domains.map(escape).collect();
    if site.ignores_providers {
        domains.extend(providers::domains().map(escape));
    }
    if !domains.is_empty() {
        let pattern = text(&format!("(^|[.])({})$", domains.join("|")));
        let _ = write!(condition, "\n  and not regexp_matches({host}, {pattern})");
    }
    condition
}

/// Adds the tables `numbered_NAME` and `visits_NAME`. `numbered_NAME` has the events before `to_ms`, with the number of
/// the visit of each event. `visits_NAME` has the visits. Both tables need the table `referred`.
pub(crate) fn add_visits(sql: &mut String, name: &str, to_ms: i64) {
    let to = instant(to_ms);
    let exposure = text(EXPOSURE_EVENT);
    let reach_days = VISIT_REACH_MS / DAY_MS;
    let _ = write!(
        sql,
        ",
gaps_{name} as (
  select *, ts - max(ts) filter (where of_visit)
      over (partition by visitor order by ts, seq rows between unbounded preceding and 1 preceding) as gap
  from (select *, anonId is not null and coalesce(event, '') <> {exposure} as of_visit
    from referred where type in ('page', 'track', 'screen') and ts < {to})),
numbered_{name} as (
  select *, if(of_visit or gap <= interval {reach_days} day, count(*) filter (where of_visit and (gap is null or gap > interval 30 minute))
      over (partition by visitor order by ts, seq), 0) as visit
  from gaps_{name}),
visits_{name} as (
  select visitor, visit, min(ts) filter (where visit > 0) as began,
    first(path order by ts, seq) filter (where type = 'page' and visit > 0) as entry,
    last(path order by ts, seq) filter (where type = 'page' and visit > 0) as exit,
    first(coalesce(source, referrer, '(direct)') order by ts, seq)
      filter (where type = 'page' and visit > 0) as visit_source,
    first(medium order by ts, seq) filter (where type = 'page' and visit > 0) as visit_medium,
    first(source is not null order by ts, seq) filter (where type = 'page' and visit > 0) as visit_is_tagged,
    first(campaign order by ts, seq) filter (where type = 'page' and visit > 0) as visit_campaign,
    first(term order by ts, seq) filter (where type = 'page' and visit > 0) as visit_term,
    first(content order by ts, seq) filter (where type = 'page' and visit > 0) as visit_content
  from numbered_{name} group by visitor, visit)"
    );
}

/// Returns one condition for each filter that selects events or visits.
pub(crate) fn event_conditions(filters: &Filters) -> Vec<String> {
    let lists = [
        ("v.visit_source", &filters.source),
        ("v.visit_campaign", &filters.campaign),
        ("n.path", &filters.page),
        ("n.country", &filters.country),
        ("n.device", &filters.device),
        ("n.language", &filters.language),
    ];
    let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
    lists.map(|(column, values)| format!("{column} in ({})", texts(values))).collect()
}

/// Adds the table `counted_NAME`. It has the events in a range that the filters select. Each event has the facts about
/// its visit.
fn add_range(sql: &mut String, name: &str, range: &Range<i64>, filters: &Filters) {
    add_visits(sql, name, range.end);
    let from = instant(range.start);
    let _ = write!(
        sql,
        ",
counted_{name} as (
  select n.*, v.began, v.entry, v.exit, v.visit_source, v.visit_medium, v.visit_is_tagged, v.visit_campaign, v.visit_term,
    v.visit_content
  from numbered_{name} n join visits_{name} v using (visitor, visit) where n.ts >= {from}"
    );
    for condition in event_conditions(filters) {
        let _ = write!(sql, "\n    and {condition}");
    }
    for condition in visitor_conditions(filters, range) {
        let _ = write!(sql, "\n    and {condition}");
    }
    sql.push(')');
}

/// Returns one condition for each filter that selects the visitors of a table `n` by an event in the range.
pub(crate) fn visitor_conditions(filters: &Filters, range: &Range<i64>) -> Vec<String> {
    let from = instant(range.start);
    let to = instant(range.end);
    let visitors = format!("n.visitor in (select visitor from events where ts >= {from} and ts < {to}");
    let mut conditions = Vec::new();
    if !filters.event.is_empty() {
        let names = texts(&filters.event);
        conditions.push(format!("{visitors}\n      and type in ('track', 'screen') and event in ({names}))"));
    }
    if !filters.variant.is_empty() {
        let shown = filters.variant.iter();
        let shown = shown.map(|pair| format!("list_contains(string_split(variants, ','), {})", text(pair)));
        let shown = shown.collect::<Vec<_>>().join(" or ");
        conditions.push(format!("{visitors}\n      and type = 'page' and ({shown}))"));
    }
    conditions
}

/// Returns the table `bucket_starts_ms`. It has the first instant of each bucket.
pub(crate) fn buckets_table(bucket_starts_ms: &[i64]) -> String {
    let instants = bucket_starts_ms.iter().map(|start| format!("({})", instant(*start))).collect::<Vec<_>>();
    format!("buckets as (select * from (values {}) b(t))", instants.join(", "))
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
        Group::Page => "path".to_owned(),
        Group::Entry | Group::Exit => question.of.name().to_owned(),
        Group::Channel => channel_sql("visit_source", "visit_medium", "visit_is_tagged"),
        group if group.is_of_visit() => format!("visit_{}", group.name()),
        group => group.name().to_owned(),
    };
    let (visitors, events, rank) = match question.of {
        Group::Event => ("count(distinct visitor)", " where type in ('track', 'screen')", "events"),
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
fn overview_conversions(
    sql: &mut String,
    question: &Question,
    site: &SiteFacts,
    comparison: &Comparison,
) -> String {
    let goals = goals_of(question, site);
    if goals.is_empty() {
        return String::new();
    }
    let ranges =
        [("range", &question.range), ("compared", &comparison.range), ("before", &comparison.before)];
    let mut queries = Vec::new();
    for (name, range) in ranges {
        add_credited(sql, CreditedTable { name, range }, question, site);
        let part = if name == "range" { "totals" } else { name };
        queries.extend(conversion_queries(&format!("credited_{name}"), part, None, &goals));
    }
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
