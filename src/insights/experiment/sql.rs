//! Writes the SQL of an answer about an experiment.

use std::fmt::Write;

use super::metrics::Metric;
use super::question::{BEFORE_MS, ExperimentQuestion};
use super::segments::SEGMENT_VALUES_MAX;
use crate::insights::questions::goal_sql::{amount, chosen_condition, currency as currency_of, exists};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::{
    VISIT_SOURCE, add_referrers, add_visits, begin_events, buckets_table, event_conditions, instant, text,
};
use crate::record::ERROR_EVENT;
use crate::site::experiment_metrics::{Cap, Dimension};

/// The columns of metrics in a row that is not about a metric. They are null.
const NO_SUMS: &str =
    "null as converted, null as sum, null as sum_of_squares, null as ignored, null as capped,
  null as cap, null as valued, null as uncapped_sum, null as uncapped_sum_of_squares,
  null as active, null as before_sum, null as before_sum_of_squares, null as sum_of_products, null as sum_of_active";

/// The columns of a segment in a row that is about no segment.
const NO_SEGMENT: &str = "null as segment, null as segment_value, null as is_others";

/// The sums over the time before the first exposures.
const BEFORE_SUMS: &str =
    "count(*) filter (where was_active), sum(before), sum(cast(before as double) * cast(before as double)),
  sum(cast(value as double) * cast(before as double)), coalesce(sum(value) filter (where was_active), 0)";

/// The sums of a metric over the visitors of an arm.
const METRIC_SUMS: &str =
    "count(*), count(*) filter (where goals > 0), sum(value), sum(cast(value as double) * cast(value as double)),
  cast(sum(ignored) as bigint), count(*) filter (where value <> uncapped), any_value(cap), count(*) filter (where uncapped <> 0),
  sum(uncapped), sum(cast(uncapped as double) * cast(uncapped as double))";

/// The condition that a visitor has exactly one arm, and that this arm is compared or is the holdout.
const COMPARED: &str = "arms = 1 and is_compared";

/// Returns the query that counts the visitors of an experiment and adds up the metrics.
pub(crate) fn experiment_query(question: &ExperimentQuestion, site: &SiteFacts) -> String {
    let mut sql = begin_events(&site.site, question.bots);
    let no_sums = format!("{NO_SUMS}, {NO_SEGMENT}");
    add_exposures(&mut sql, question, site);
    if question.before_from_ms().is_some() {
        let _ = write!(
            sql,
            ",
active as (
  select distinct v.visitor from exposed e join events v on v.visitor = e.visitor and {}
  where v.type in ('page', 'track', 'screen'))",
            before_exposure("v")
        );
    }
    if !question.dimensions.is_empty() {
        add_segments(&mut sql, question);
    }
    for (number, metric) in question.metrics.iter().enumerate() {
        add_metric(&mut sql, number, metric, question, site);
    }
    let from = instant(question.range.start);
    let to = instant(question.range.end);
    let holdout = text(question.held_out_arm());
    let error = text(ERROR_EVENT);
    let is_exposure = format!(
        "type in ('page', 'track') and visitor is not null and regexp_matches(experiments, {})",
        arm_pattern(question)
    );
    let buckets = site.zone.buckets(&question.range, question.by).unwrap_or_default();
    let _ = write!(
        sql,
        ",
{}
select 'arms' as part, null as metric, arm, count(*) as n, {no_sums} from exposed where {COMPARED} group by arm union all
select 'other_arms', null, arm, count(*), {no_sums} from exposed where arms = 1 and not is_compared group by arm union all
select 'both', null, null, count(*), {no_sums} from exposed where arms > 1 union all
select 'earlier', null, null, count(*), {no_sums}
  from exposures where exposed < {from} and last_exposed >= {from} and passes union all
select 'errors', null, arm, count(*), {no_sums} from exposed e where {COMPARED} and arm <> {holdout} and exists (
  select 1 from events v where v.visitor = e.visitor and v.type in ('track', 'screen') and v.event = {error}
    and v.ts >= e.exposed and v.ts < {to}) group by arm union all
select 'first_exposure', epoch_ms(min(ts)), null, null, {no_sums} from events where {is_exposure} and ts >= {from} and ts < {to} union all
select 'last_exposure', epoch_ms(max(ts)), null, null, {no_sums} from events where {is_exposure} and ts >= {from} and ts < {to} union all
select 'last_page', epoch_ms(max(ts)), null, null, {no_sums}
  from events where type = 'page' and visitor is not null and ts >= {from} and ts < {to} union all
select 'series', cast(epoch(b.t) as bigint), arm, count(*), {no_sums}
  from exposed e asof join buckets b on e.exposed >= b.t where {COMPARED} and arm <> {holdout} group by b.t, arm",
        buckets_table(&buckets)
    );
    let before = if question.cuped { BEFORE_SUMS } else { "null, null, null, null, null" };
    for number in 0..question.metrics.len() {
        let _ = write!(
            sql,
            " union all
select 'metrics', {number}, arm, {METRIC_SUMS},
  {before}, {NO_SEGMENT} from visitors_{number} group by arm"
        );
    }
    if !question.dimensions.is_empty() {
        add_segment_rows(&mut sql, question, before);
    }
    if question.metrics.iter().any(Metric::is_amount) {
        let sums = no_sums.replacen("null as sum,", "total,", 1);
        let _ =
            write!(sql, " union all\nselect 'currencies', null, currency, amounts, {sums} from currencies");
    }
    sql.push_str(" order by part, metric, arm, segment, segment_value");
    sql
}

/// Adds the rows of the segments: the visitors of each arm, and the sums of each metric.
fn add_segment_rows(sql: &mut String, question: &ExperimentQuestion, before_sums: &str) {
    let group = "group by arm, segment, segment_value, is_others";
    let _ = write!(
        sql,
        " union all
select 'segment_arms', null, arm, count(*), {NO_SUMS}, segment, segment_value, is_others from segments {group}"
    );
    for number in 0..question.metrics.len() {
        let _ = write!(
            sql,
            " union all
select 'segments', {number}, arm, {METRIC_SUMS},
  {before_sums}, segment, segment_value, is_others from visitors_{number} v join segments s using (visitor, arm) {group}"
        );
    }
}

/// Adds the table `segments`. It has the values of each compared visitor at its first exposure. The values with fewer visitors
/// than the listed ones are null, and `is_others` is true.
fn add_segments(sql: &mut String, question: &ExperimentQuestion) {
    let values = question.dimensions.iter().map(|dimension| {
        let name = dimension.name();
        let value = match dimension {
            Dimension::New => "if(exists (select 1 from events v where v.visitor = e.visitor and v.type in ('page', 'track', 'screen')
    and v.seq < e.exposed_seq and v.ts < e.exposed), 'returning', 'new')",
            _ => name,
        };
        format!("select visitor, arm, '{name}' as segment, {value} as segment_value from exposed e where {COMPARED} and arm <> {}", text(question.held_out_arm()))
    });
    let _ = write!(
        sql,
        ",
segmented as (
  {}),
segments as (
  select visitor, arm, segment, if(rank > {SEGMENT_VALUES_MAX}, null, segment_value) as segment_value, rank > {SEGMENT_VALUES_MAX} as is_others
  from (
    select *, dense_rank() over (partition by segment order by visitors desc, segment_value nulls last) as rank
    from (select *, count(*) over (partition by segment, segment_value) as visitors from segmented)))",
        values.collect::<Vec<_>>().join(" union all\n  ")
    );
}

/// Returns the condition that an event of a table is before the first exposure of the visitor `e`.
fn before_exposure(table: &str) -> String {
    let seconds = BEFORE_MS / 1_000;
    format!(
        "{table}.seq < e.exposed_seq and {table}.ts >= e.exposed - interval {seconds} second and {table}.ts < e.exposed"
    )
}

/// Adds the table `exposures` and the table `exposed`. `exposures` has each visitor that has an exposure. `exposed` has
/// only the visitors that count.
fn add_exposures(sql: &mut String, question: &ExperimentQuestion, site: &SiteFacts) {
    let from = instant(question.range.start);
    let to = instant(question.range.end);
    let pattern = arm_pattern(question);
    let source = match question.needs_visits() {
        true => {
            add_referrers(sql, site);
            add_visits(sql, "range", question.range.end);
            "numbered_range n join visits_range v using (visitor, visit)"
        }
        false => "events n",
    };
    let is_compared = is_compared(question);
    let conditions = event_conditions(&question.filters, VISIT_SOURCE);
    let passes = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") };
    let columns = question.dimensions.iter().filter_map(|dimension| match dimension {
        Dimension::New => None,
        Dimension::Source => Some((VISIT_SOURCE, "source")),
        Dimension::Device => Some(("n.device", "device")),
        Dimension::Country => Some(("n.country", "country")),
        Dimension::Language => Some(("n.language", "language")),
    });
    let columns: Vec<_> = columns.collect();
    let seen: String = columns.iter().map(|(column, name)| format!(", {column} as {name}")).collect();
    let first: String =
        columns.iter().map(|(_, name)| format!(", first({name} order by ts, seq) as {name}")).collect();
    let _ = write!(
        sql,
        ",
seen as (
  select n.visitor, n.ts, n.seq, regexp_extract(n.experiments, {pattern}, 2) as arm, coalesce({passes}, false) as passes{seen}
  from {source} where n.type in ('page', 'track') and n.ts < {to}),
exposures as (
  select visitor, min(ts) as exposed, max(ts) as last_exposed, min(arm) as arm, count(distinct arm) as arms,
    first(passes order by ts, seq) as passes, first(seq order by ts, seq) as exposed_seq{first}
  from seen where arm <> '' and visitor is not null group by 1),
exposed as (select *, {is_compared} as is_compared from exposures where exposed >= {from} and passes)"
    );
}

/// Returns the regular expression that finds the arm in `experiments`, as its second group.
fn arm_pattern(question: &ExperimentQuestion) -> String {
    text(&format!("(^|,){}:([A-Za-z0-9_-]+|~)", question.key()))
}

/// Returns the condition that an arm is compared or is the holdout. If the experiment has no known arm, all arms are
/// compared.
fn is_compared(question: &ExperimentQuestion) -> String {
    let known = question.known.arms_in(question.phases());
    let arms = known.iter().map(String::as_str).chain([question.held_out_arm()]).map(text);
    match known.is_empty() {
        true => "true".to_owned(),
        false => format!("arm in ({})", arms.collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the query that gives the limit of the values. The limit is the amount of the question, or the value at the
/// rank of its quantile.
fn cap_query(question: &ExperimentQuestion, metric_index: usize, metric: &Metric) -> String {
    let cap = if metric.is_amount() { question.cap } else { Cap::None };
    match cap {
        Cap::None => "select null as cap".to_owned(),
        Cap::Units(units) => format!("select {}.{:04} as cap", units / 10_000, units % 10_000),
        Cap::Quantile(thousandths) => format!(
            "select max(size) as cap from (
    select abs(uncapped) as size, row_number() over (order by abs(uncapped)) as rank, count(*) over () as n
    from values_{metric_index} where uncapped <> 0 and arm <> {})
  where rank = least(({thousandths} * n + 999) // 1000, n - 1)",
            text(question.held_out_arm())
        ),
    }
}

/// Returns the table `visitors_NUMBER`: the limited values of each visitor. `total` is the value of the goals `g`.
fn visitors_table(question: &ExperimentQuestion, metric_index: usize, total: &str) -> String {
    let limited = |value: &str| format!("if(cap is null, {value}, greatest(-cap, least(cap, {value})))");
    let value = limited("uncapped");
    if question.cuped {
        let before = limited("coalesce(earlier, 0)");
        let condition = before_exposure("g");
        format!(
            "earlier_{metric_index} as (
  select e.visitor, {total} as earlier
  from exposed e join goals_{metric_index} g on g.visitor = e.visitor and {condition} group by 1),
visitors_{metric_index} as (
  select v.*, cap, {value} as value, {before} as before, a.visitor is not null as was_active
  from values_{metric_index} v cross join cap_{metric_index} left join earlier_{metric_index} using (visitor)
  left join active a using (visitor))"
        )
    } else {
        format!(
            "visitors_{metric_index} as (
  select *, {value} as value from values_{metric_index} cross join cap_{metric_index})"
        )
    }
}

/// Adds the table `visitors_NUMBER`: the value of a metric for each exposed visitor.
fn add_metric(
    sql: &mut String,
    metric_index: usize,
    metric: &Metric,
    question: &ExperimentQuestion,
    site: &SiteFacts,
) {
    let to = instant(question.range.end);
    let condition = chosen_condition(&metric.goal, site, "e.");
    let (value, ignored, total) = match &metric.value {
        None => ("null".to_owned(), "false".to_owned(), "if(count(g.ts) > 0, 1, 0)".to_owned()),
        Some(value) => {
            let amount = amount(&value.path, "e.");
            let ignored = format!("{} and {amount} is null", exists(&value.path, "e."));
            (amount, ignored, "coalesce(sum(g.value) filter (where g.counts), 0)".to_owned())
        }
    };
    let currency = metric.value.as_ref().and_then(|value| value.currency.as_ref());
    let currency = currency.map_or_else(|| "null".to_owned(), |path| currency_of(path, "e."));
    let counts = question
        .currency
        .as_ref()
        .filter(|_| metric.is_amount())
        .map_or_else(|| "true".to_owned(), |name| format!("coalesce({currency} = {}, false)", text(name)));
    // A window that is longer than the range has no effect. The query leaves out such a window, because it can be too
    // long for an interval of SQL.
    let window_ms =
        question.window_ms.filter(|window_ms| *window_ms <= question.range.end - question.range.start);
    let window =
        window_ms.map(|window_ms| format!(" and g.ts < e.exposed + interval {} second", window_ms / 1_000));
    let window = window.unwrap_or_default();
    let _ = write!(
        sql,
        ",
goals_{metric_index} as (
  select e.visitor, e.ts, e.seq, {value} as value, {ignored} as ignored, {currency} as currency, {counts} as counts
  from events e where {condition}),
values_{metric_index} as (
  select e.visitor, e.arm, count(g.ts) as goals, {total} as uncapped, count(*) filter (where g.ignored and g.counts) as ignored
  from exposed e left join goals_{metric_index} g on g.visitor = e.visitor and g.ts >= e.exposed and g.ts < {to}{window}
  where {COMPARED} group by 1, 2),
cap_{metric_index} as ({}),
{}",
        cap_query(question, metric_index, metric),
        visitors_table(question, metric_index, &total),
    );
    if metric.is_amount() {
        let _ = write!(
            sql,
            ",
currencies as (
  select g.currency as currency, count(*) as amounts, sum(g.value) as total
  from exposed e join goals_{metric_index} g on g.visitor = e.visitor and g.ts >= e.exposed and g.ts < {to}{window}
  where {COMPARED} and g.value is not null and g.counts group by 1)"
        );
    }
}
