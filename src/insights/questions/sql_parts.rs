//! The parts that the SQL of all answers has: the events of a site, their visits, and the conditions of filters.

use std::fmt::Write;
use std::ops::Range;

use super::question::Filters;
use super::site::SiteFacts;
use crate::events::time;
use crate::limits::VISIT_REACH_MS;
use crate::providers;
use crate::record::EXPOSURE_EVENT;

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

/// Returns the first tables of a query. The table `events` has the events of a site, with their visitors.
pub(crate) fn begin_events(site: &str, includes_bots: bool) -> String {
    begin_events_until(site, includes_bots, None)
}

/// Does the same as [`begin_events`] for the records up to a seq. `None` is the whole log.
pub(crate) fn begin_events_until(site: &str, includes_bots: bool, last_seq: Option<u64>) -> String {
    let until =
        last_seq.map_or_else(String::new, |last_seq| format!(" and cast(seq as bigint) <= {last_seq}"));
    let bots = if includes_bots { "" } else { " where not bot" };
    format!("{RECORDED}{}{until}){EVENTS}{bots})", text(site))
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

/// The source of a visit in the table `visits_NAME`, if this table is `v`.
pub(crate) const VISIT_SOURCE: &str = "v.visit_source";

/// Returns one condition for each filter that selects events or visits. `source` is the expression of the source of a visit.
pub(crate) fn event_conditions(filters: &Filters, source: &str) -> Vec<String> {
    let lists = [
        (source, &filters.source),
        ("v.visit_campaign", &filters.campaign),
        ("n.path", &filters.page),
        ("n.country", &filters.country),
        ("n.device", &filters.device),
        ("n.language", &filters.language),
    ];
    let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
    lists.map(|(column, values)| format!("{column} in ({})", texts(values))).collect()
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

/// Returns the table `buckets`. It has the first instant of each bucket.
pub(crate) fn buckets_table(bucket_starts_ms: &[i64]) -> String {
    let instants = bucket_starts_ms.iter().map(|start| format!("({})", instant(*start))).collect::<Vec<_>>();
    format!("buckets as (select * from (values {}) b(t))", instants.join(", "))
}
