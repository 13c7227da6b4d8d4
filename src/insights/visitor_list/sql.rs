//! Writes the SQL of a list of visitors.

use std::fmt::Write;

use super::question::VisitorsQuestion;
use super::search::FoundVisitors;
use crate::insights::questions::channels::channel_sql;
use crate::insights::questions::conversion_sql::CREDITED_SOURCE;
use crate::insights::questions::goal_sql::{amount, currency, goal_condition};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::{
    VISIT_SOURCE, add_referrers, add_visits, begin_events_until, event_conditions, instant, text,
    visitor_conditions,
};

/// Returns the query of the rows of a page.
pub(super) fn query(question: &VisitorsQuestion, site: &SiteFacts) -> String {
    let selection = &question.selection;
    let mut sql = begin_events_until(&site.site, selection.bots, question.last_seq());
    add_referrers(&mut sql, site);
    add_visits(&mut sql, "range", selection.range.end);
    add_counted(&mut sql, question, site);
    let goal = question.goal_number().map(|number| &site.goals.all()[number]);
    let reaches = goal.map_or_else(String::new, |goal| format!(" where {}", goal_condition(goal, "c.")));
    let value = goal.and_then(|goal| goal.value.as_ref());
    let units = value
        .map_or_else(|| "null".to_owned(), |path| format!("cast({} * 10000 as bigint)", amount(path, "l.")));
    let paid_in = goal.and_then(|goal| goal.value.as_ref().and(goal.currency.as_ref()));
    let paid_in = paid_in.map_or_else(|| "null".to_owned(), |path| currency(path, "l."));
    let after = question.after.map_or_else(String::new, |after| {
        format!(" where (l.ts, l.seq) < ({}, {})", instant(after.time_ms), after.seq)
    });
    let _ = write!(
        sql,
        ",
reached as (select c.* from counted c{reaches}),
latest as (
  select * from reached qualify row_number() over (partition by visitor order by ts desc, seq desc) = 1),
activity as (
  select visitor, min(ts) as first_ts, max(ts) as last_ts, count(*) filter (where type = 'page') as views,
    count(*) filter (where type <> 'page') as events
  from counted group by 1),
conversions as (select visitor, count(*) as conversions from reached group by 1),
users as (select 'a:' || tied as visitor, userId as tied_user from ties where until is null and userId is not null)
(select 'rows' as part, l.seq, if(starts_with(visitor, 'a:'), substr(visitor, 3), null) as anon_id,
  if(starts_with(visitor, 'u:'), substr(visitor, 3), tied_user) as user_id, epoch_ms(first_ts), epoch_ms(last_ts), views, events,
  l.list_source, l.list_channel, l.list_country, l.list_device, epoch_ms(l.ts) as ms, conversions,
  {units} as units, if({units} is null, null, {paid_in}) as currency
from latest l join activity using (visitor) join conversions using (visitor) left join users using (visitor){after}
order by l.ts desc, l.seq desc limit {})
union all
select 'total', null, null, null, null, null, null, null, null, null, null, null, null, count(*), null, null from latest
order by part, ms desc, seq desc",
        question.limit
    );
    sql
}

/// Returns the query of the rows of found visitors. The first column of a row is the index of the visitor in `visitors`.
pub(super) fn found_query(question: &VisitorsQuestion, visitors: &FoundVisitors, site: &SiteFacts) -> String {
    let selection = &question.selection;
    let mut sql = begin_events_until(&site.site, selection.bots, None);
    add_referrers(&mut sql, site);
    add_visits(&mut sql, "range", selection.range.end);
    add_counted(&mut sql, question, site);
    let ids = visitors.visitors.iter().enumerate().flat_map(|(index, visitor)| {
        let anonymous = visitor.anon_ids.iter().map(|id| format!("a:{id}"));
        let user = visitor.user_id.iter().map(|id| format!("u:{id}"));
        anonymous.chain(user).map(move |id| format!("({}, {index})", text(&id)))
    });
    let ids: Vec<String> = ids.chain(["(null, null)".to_owned()]).collect();
    let _ = write!(
        sql,
        ",
found as (select * from (values {}) f(visitor, person)),
reached as (select c.*, person from counted c join found using (visitor)),
latest as (
  select * from reached qualify row_number() over (partition by person order by ts desc, seq desc) = 1),
activity as (
  select person, min(ts) as first_ts, max(ts) as last_ts, count(*) filter (where type = 'page') as views,
    count(*) filter (where type <> 'page') as events
  from reached group by 1)
select person, l.seq, epoch_ms(first_ts), epoch_ms(last_ts), views, events, l.list_source, l.list_channel, l.list_country,
  l.list_device
from latest l join activity using (person) order by l.ts desc, l.seq desc",
        ids.join(", ")
    );
    sql
}

/// Adds the table `counted`: the events that the filters select, with the visits to which they belong. With a goal, these are the
/// visits to which they are credited.
fn add_counted(sql: &mut String, question: &VisitorsQuestion, site: &SiteFacts) {
    let selection = &question.selection;
    let from = instant(selection.range.start);
    let is_tagged = if question.goal_number().is_some() {
        "coalesce(v.visit_is_tagged, false)"
    } else {
        "v.visit_is_tagged"
    };
    let source = if question.goal_number().is_some() { CREDITED_SOURCE } else { VISIT_SOURCE };
    let channel = channel_sql(source, "v.visit_medium", is_tagged);
    let credits = match question.goal_number() {
        None => format!("select seq, visit as credit from touches where ts >= {from}"),
        Some(_) => credits_of_goal(site, &from),
    };
    let _ = write!(
        sql,
        ",
touches as (
  select *, max(visit) over (partition by visitor order by ts, seq rows between unbounded preceding and current row) as begun,
    last_value(if(type = 'page' and visit > 0, country, null) ignore nulls) over so_far as page_country,
    last_value(if(type = 'page' and visit > 0, device, null) ignore nulls) over so_far as page_device
  from numbered_range where visitor is not null
  window so_far as (partition by visitor, visit order by ts, seq rows between unbounded preceding and current row)),
credits as (
  {credits}),
counted as (
  select n.*, {source} as list_source, {channel} as list_channel, coalesce(n.country, n.page_country) as list_country,
    coalesce(n.device, n.page_device) as list_device
  from touches n join credits using (seq) left join visits_range v on v.visitor = n.visitor and v.visit = credit
  where n.ts >= {from}"
    );
    let of_event = event_conditions(&selection.filters, source);
    for condition in of_event.into_iter().chain(visitor_conditions(&selection.filters, &selection.range)) {
        let _ = write!(sql, "\n    and {condition}");
    }
    sql.push(')');
}

/// Returns the query of the visits to which the events are credited.
fn credits_of_goal(site: &SiteFacts, from: &str) -> String {
    let seconds = site.attribution.window_ms / 1_000;
    let own = "own.visit_source is not null and own.visit_source <> '(direct)'";
    let credit = match site.attribution.is_first {
        true => "coalesce(min(c.visit), any_value(t.visit))".to_owned(),
        false => {
            format!("if(any_value({own}), any_value(t.visit), coalesce(max(c.visit), any_value(t.visit)))")
        }
    };
    format!(
        "select t.seq, {credit} as credit
  from touches t left join visits_range own on own.visitor = t.visitor and own.visit = t.visit
    left join visits_range c on c.visitor = t.visitor and c.visit <= t.begun and c.visit <> t.visit and c.visit > 0
      and c.visit_source is not null and c.visit_source <> '(direct)' and c.began >= t.ts - interval {seconds} second
  where t.ts >= {from} group by t.seq"
    )
}
