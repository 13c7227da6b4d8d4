//! Writes the SQL of an answer about a funnel.

use std::fmt::Write;

use super::funnel::FunnelQuestion;
use super::funnel_group::FunnelGroup;
use super::selection::step_condition;
use crate::insights::questions::pairs::DEFAULT_VARIANT;
use crate::insights::questions::question::Group;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::{instant, text};

/// Returns the query.
///
/// The table `starts` has for each event and each step the latest first event of a chain that reaches the step with this event. The
/// table `chains` has the events of the chain of each unit, which is a visitor or a visit.
pub(super) fn funnel_query(question: &FunnelQuestion, site: &SiteFacts) -> String {
    let mut sql = question.selection.begin_sql(site);
    let (unit, is_counted) = if question.per_visit { ("visit", " and visit > 0") } else { ("0", "") };
    let conditions = question.steps.iter().enumerate();
    let conditions = conditions
        .map(|(index, step)| format!("coalesce({}, false) as is_{}", step_condition(step, site), index + 1))
        .collect::<Vec<_>>()
        .join(",\n    ");
    let by = match &question.by {
        None | Some(FunnelGroup::Experiment { .. }) => "null",
        Some(FunnelGroup::FirstStep(Group::Source)) => "visit_source",
        Some(FunnelGroup::FirstStep(Group::Campaign)) => "visit_campaign",
        Some(FunnelGroup::FirstStep(group)) => group.name(),
        Some(FunnelGroup::Variant { zone }) => &variant(zone),
    };
    let _ = write!(
        sql,
        ",
start_0 as (
  select visitor, {unit} as unit, ts, seq, type, path, passes, {by} as value, {{'t': ts, 'seq': seq}} as moment,
    {conditions}
  from journeys where in_range{is_counted})"
    );
    add_starts(&mut sql, question, "");
    add_chains(&mut sql, question, "");
    let mut values_prefix = "";
    if let Some(FunnelGroup::Experiment { key, .. }) = &question.by {
        values_prefix = "exposed_";
        add_exposed(&mut sql, question, key);
        add_starts(&mut sql, question, values_prefix);
        add_chains(&mut sql, question, values_prefix);
    }
    add_numbers(&mut sql, question, values_prefix);
    sql
}

/// Returns the expression of the variant of a zone that a page event showed.
fn variant(zone_name: &str) -> String {
    let pattern = text(&format!("(^|,){zone_name}:([A-Za-z0-9_-]+)"));
    let default = text(DEFAULT_VARIANT);
    format!(
        "if(variants is null, null, coalesce(nullif(regexp_extract(variants, {pattern}, 2), ''), {default}))"
    )
}

/// Adds the table `exposed_start_0`. It has the events of each visitor with exactly one arm since its first exposure. The value of the
/// events is the arm.
fn add_exposed(sql: &mut String, question: &FunnelQuestion, experiment_key: &str) {
    let pattern = text(&format!("(^|,){experiment_key}:([A-Za-z0-9_-]+|~)"));
    let range = &question.selection.range;
    let from = instant(range.start);
    let to = instant(range.end);
    let _ = write!(
        sql,
        ",
exposures as (
  select visitor, min(arm) as arm, count(distinct arm) as arms, min({{'t': ts, 'seq': seq}}) as exposed
  from (select visitor, ts, seq, regexp_extract(experiments, {pattern}, 2) as arm from events
    where type in ('page', 'track') and ts < {to}) where arm <> '' and visitor is not null group by 1),
exposed_start_0 as (
  select s.* replace (e.arm as value) from start_0 s join exposures e using (visitor)
  where e.arms = 1 and e.exposed.t >= {from} and s.moment >= e.exposed)"
    );
}

/// Adds the tables `PREFIXstart_NUMBER`. The first of them must exist.
fn add_starts(sql: &mut String, question: &FunnelQuestion, prefix: &str) {
    let in_window = question
        .window_ms
        .map(|window_ms| format!(" and epoch_ms(ts) - epoch_ms(before.t) <= {window_ms}"))
        .unwrap_or_default();
    for step in 1..=question.steps.len() {
        let before = match step {
            1 => "moment".to_owned(),
            step => format!(
                "max(start_{}) over (partition by visitor, unit order by ts, seq rows between unbounded preceding and 1 preceding)",
                step - 1
            ),
        };
        let _ = write!(
            sql,
            ",
{prefix}start_{step} as (
  select * exclude (before), if(is_{step}{in_window}, before, null) as start_{step}
  from (select *, {before} as before from {prefix}start_{}))",
            step - 1
        );
    }
}

/// Adds the tables `PREFIXchain_NUMBER`.
fn add_chains(sql: &mut String, question: &FunnelQuestion, prefix: &str) {
    let count = question.steps.len();
    let starts = (1..=count).map(|step| format!("max(start_{step}) as start_{step}")).collect::<Vec<_>>();
    let deepest = (1..=count).rev().map(|step| format!("start_{step}")).collect::<Vec<_>>().join(", ");
    let reached = (1..=count).rev().map(|step| format!("when start_{step} is not null then {step}"));
    let reached = reached.collect::<Vec<_>>().join(" ");
    let _ = write!(
        sql,
        ",
{prefix}units as (select visitor, unit, {} from {prefix}start_{count} group by 1, 2),
{prefix}chain_1 as (
  select u.visitor, u.unit, u.reached, u.moment as at_1, s.value
  from (select visitor, unit, coalesce({deepest}) as moment, case {reached} end as reached from {prefix}units where start_1 is not null) u
  join {prefix}start_0 s on s.visitor = u.visitor and s.unit = u.unit and s.moment = u.moment where s.passes)",
        starts.join(", ")
    );
    for step in 2..=count {
        let before = step - 1;
        let _ = write!(
            sql,
            ",
{prefix}chain_{step} as (
  select c.*, s.at_{step} from {prefix}chain_{before} c left join (
    select c.visitor, c.unit, min(s.moment) as at_{step} from {prefix}chain_{before} c
    join {prefix}start_0 s on s.visitor = c.visitor and s.unit = c.unit and s.moment > c.at_{before} and s.is_{step}
    where c.reached >= {step} group by 1, 2) s using (visitor, unit))"
        );
    }
}

/// Adds the numbers. The numbers of values are those of the tables `PREFIXchain_NUMBER`.
fn add_numbers(sql: &mut String, question: &FunnelQuestion, values_prefix: &str) {
    let count = question.steps.len();
    let last = (1..count).map(|step| format!("when {step} then at_{step}")).collect::<Vec<_>>().join(" ");
    let _ = write!(
        sql,
        ",
left_after as (
  select c.visitor, c.unit, c.reached, min_by({{'path': s.path}}, s.moment) as next from (
    select visitor, unit, reached, case reached {last} end as last from chain_{count} where reached < {count}) c
  left join start_0 s on s.visitor = c.visitor and s.unit = c.unit and s.type = 'page' and s.moment > c.last group by 1, 2, 3)"
    );
    let mut parts = Vec::new();
    for step in 1..=count {
        let median = match step {
            1 => "null::double".to_owned(),
            step => format!("median(epoch_ms(at_{step}.t) - epoch_ms(at_{}.t))", step - 1),
        };
        let numbers =
            |prefix: &str| format!("count(*), {median} from {prefix}chain_{count} where reached >= {step}");
        parts.push(format!("select 'steps' as part, {step} as step, null as value, {}", numbers("")));
        if question.by.is_some() {
            parts.push(format!("select 'rows', {step}, value, {} group by value", numbers(values_prefix)));
        }
    }
    parts.push(
        "select 'exits', reached, null, count(*), null from left_after where next is null group by 2"
            .to_owned(),
    );
    parts.push(
        "select 'next', reached, next.path, count(*), null from left_after where next is not null group by 2, 3".to_owned(),
    );
    let _ = write!(sql, "\n{}\norder by part, step, 4 desc, value nulls last", parts.join(" union all\n"));
}
