//! The query of an experiment's answer.

use std::fmt::Write;

use super::question::{ExperimentQuestion, Goal, Metric};
use crate::insights::amounts::AMOUNT_NAMES;
use crate::insights::sql::{begin_events, instant, text};

/// Returns the query of the sums of an experiment.
pub(crate) fn experiment_query(question: &ExperimentQuestion, site: &str) -> String {
    let mut sql = begin_events(site, question.bots);
    let (from, to) = (instant(question.range.start), instant(question.range.end));
    let pattern = text(&format!("(^|,){}:([A-Za-z0-9_-]+|~)", question.key));
    let _ = write!(
        sql,
        ",
seen as (
  select visitor, ts, regexp_extract(experiments, {pattern}, 2) as arm
  from events where type in ('page', 'track') and ts < {to}),
exposures as (
  select visitor, min(ts) as exposed, max(ts) as last_exposed, min(arm) as arm, count(distinct arm) as arms
  from seen where arm <> '' and visitor is not null group by 1),
exposed as (select * from exposures where exposed >= {from}),
ties as (
  select seq, anonId, userId, lead(seq) over (partition by anonId order by seq) as until
  from events where type = 'identify' and anonId is not null and userId is not null)"
    );
    let metrics = question.metrics();
    for (number, metric) in metrics.iter().enumerate() {
        add_metric(&mut sql, number, metric, question);
    }
    let nulls = "null as converted, null as sum, null as sum_of_squares, null as ignored, null as capped";
    let _ = write!(
        sql,
        "
select 'arms' as part, null as metric, arm, count(*) as n, {nulls} from exposed where arms = 1 group by arm union all
select 'both', null, null, count(*), {nulls} from exposed where arms > 1 union all
select 'earlier', null, null, count(*), {nulls} from exposures where exposed < {from} and last_exposed >= {from}"
    );
    for number in 0..metrics.len() {
        let _ = write!(
            sql,
            " union all
select 'metrics', {number}, arm, count(*), count(*) filter (where goals > 0), sum(value),
  sum(cast(value as double) * cast(value as double)), cast(sum(ignored) as bigint), count(*) filter (where value <> uncapped)
  from visitors_{number} group by arm"
        );
    }
    sql.push_str(" order by part, metric, arm");
    sql
}

/// Adds the table `visitors_NUMBER`: the value of a metric for each exposed visitor.
fn add_metric(sql: &mut String, number: usize, metric: &Metric, question: &ExperimentQuestion) {
    let to = instant(question.range.end);
    let condition = match &metric.goal {
        Goal::Event(name) => format!("e.type in ('track', 'screen') and e.event = {}", text(name)),
        Goal::Page(path) => format!("e.type = 'page' and e.path = {}", text(path)),
    };
    let (value, ignored, total) = match metric.column.map(|column| AMOUNT_NAMES[usize::from(column)]) {
        None => ("null".to_owned(), "false".to_owned(), "if(count(g.ts) > 0, 1, 0)".to_owned()),
        Some(name) => {
            let path = format!("'$.properties.{name}'");
            let amount = format!(
                "try_cast(if(json_type(e.payload, {path}) in ('BIGINT', 'UBIGINT', 'DOUBLE')
      or regexp_full_match(e.payload->>{path}, '-?[0-9]+([.][0-9]+)?'), e.payload->>{path}, null) as decimal(15,4))"
            );
            let ignored = format!("json_type(e.payload, {path}) <> 'NULL' and {amount} is null");
            (amount, ignored, "coalesce(sum(g.value), 0)".to_owned())
        }
    };
    let units = question.cap_units.filter(|_| metric.column.is_some());
    let cap = units.map(|units| format!("{}.{:04}", units / 10_000, units % 10_000));
    let capped = cap.map_or(total.clone(), |cap| format!("greatest(-{cap}, least({cap}, {total}))"));
    let window = question
        .window_ms
        .map(|window_ms| format!(" and g.ts < e.exposed + interval {} second", window_ms / 1_000));
    let _ = write!(
        sql,
        ",
goals_{number} as (
  select coalesce('a:' || e.anonId, (select max_by('a:' || t.anonId, t.seq) from ties t where t.userId = e.userId
      and t.seq < e.seq and (t.until is null or t.until > e.seq)), 'u:' || e.userId) as visitor, e.ts,
    {value} as value, {ignored} as ignored
  from events e where {condition}),
visitors_{number} as (
  select e.visitor, e.arm, count(g.ts) as goals, {total} as uncapped, {capped} as value,
    count(*) filter (where g.ignored) as ignored
  from exposed e left join goals_{number} g on g.visitor = e.visitor and g.ts >= e.exposed and g.ts < {to}{}
  where e.arms = 1 group by 1, 2)",
        window.unwrap_or_default()
    );
}
