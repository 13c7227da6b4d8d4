//! The answer about an experiment: exposed visitors by arm, and the sums of each metric.

use serde_json::{Map, Value as Json, json};

use super::comparison::{ComparedArm, ComparedMetric, arms, compare_arms};
use super::count::{ExperimentCount, HOLDOUT, MetricSums};
use super::question::{ExperimentQuestion, Metric};
use super::sql::experiment_query;
use crate::insights::amounts::{AMOUNT_NAMES, UNITS_PER_ONE};
use crate::insights::answer::{Answer, AnsweredLog, Cell, begin_document};
use crate::insights::site::SiteFacts;
use crate::insights::statistics::difference::Interval;
use crate::insights::statistics::metric::{ArmSummary, Comparison, has_too_many_in_both};

/// The columns of CSV and of tables.
#[rustfmt::skip]
const HEADER: [&str; 16] = [
    "role", "goal", "value", "arm", "n", "sum", "sumOfSquares", "mean", "low", "high", "estimate", "changeLow",
    "changeHigh", "p", "pAdjusted", "verdict",
];

/// Writes an answer.
pub(in crate::insights) fn write_experiment(
    question: &ExperimentQuestion,
    site: &SiteFacts,
    count: &ExperimentCount,
    log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.range, site, log);
    document.insert("key".to_owned(), json!(question.key));
    let seen = count.arms.iter().filter(|(arm, _)| *arm != HOLDOUT);
    let seen = seen.map(|(arm, (exposed, _))| json!({ "key": arm, "exposed": exposed })).collect();
    document.insert("arms".to_owned(), seen);
    document.insert("both".to_owned(), json!(count.both));
    document.insert("earlier".to_owned(), json!(count.earlier));
    let exposed = count.arms.get(HOLDOUT).map_or(0, |(exposed, _)| *exposed);
    document.insert("holdout".to_owned(), json!({ "exposed": exposed }));
    let all_exposed = count.arms.values().map(|(exposed, _)| *exposed).sum::<u64>() + count.both;
    let alarms: &[&str] = if has_too_many_in_both(count.both, all_exposed) { &["both_arms"] } else { &[] };
    document.insert("alarms".to_owned(), json!(alarms));
    let (metrics, compared) = (question.metrics(), compare_arms(question, count));
    let numbered = || metrics.iter().zip(&compared).enumerate();
    let written = numbered().map(|(number, (metric, compared))| metric_json(number, metric, count, compared));
    document.insert("metrics".to_owned(), written.collect());
    document.insert("took".to_owned(), json!({ "ms": log.took_ms, "rows": count.rows }));
    document.insert("sql".to_owned(), json!(experiment_query(question, &site.site)));
    let lines =
        numbered().flat_map(|(number, (metric, compared))| metric_lines(number, metric, count, compared));
    Answer { lines: lines.collect(), document: Json::Object(document), header: HEADER.to_vec(), seq: log.seq }
}

fn metric_json(number: usize, metric: &Metric, count: &ExperimentCount, compared: &ComparedMetric) -> Json {
    let sums = |(_, (_, sums)): (&String, &(u64, Vec<MetricSums>))| sums[number];
    let total = |number: fn(&MetricSums) -> u64| count.arms.iter().map(|arm| number(&sums(arm))).sum::<u64>();
    let keys: Vec<&str> = arms(count).map(|(key, _)| key).collect();
    let written = arms(count).zip(&compared.result.arms).map(|((key, sums), summary)| {
        let mut written = sums_json(metric, &sums[number], summary);
        written.shift_insert(0, "key".to_owned(), json!(key));
        Json::Object(written)
    });
    let holdout = count.arms.get(HOLDOUT).map_or_else(MetricSums::default, |(_, sums)| sums[number]);
    let early = compared.result.too_early.iter();
    let early = early.map(|(arm, reason)| json!({ "arm": keys[*arm], "reason": reason.name() }));
    let against = compared.against.iter().map(|arm| against_json(keys[arm.comparison.arm], arm));
    json!({
        "role": metric.role.name(),
        "goal": metric.text,
        "value": value_name(metric),
        "kind": if metric.column.is_some() { "mean" } else { "proportion" },
        "margin": metric.margin,
        "lowerIsBetter": metric.lower_is_better,
        "ignoredAmounts": total(|sums| sums.ignored_amounts),
        "capped": total(|sums| sums.capped),
        "tooEarly": early.collect::<Json>(),
        "arms": written.collect::<Json>(),
        "holdout": sums_json(metric, &holdout, &compared.holdout),
        "against": against.collect::<Json>(),
    })
}

fn against_json(key: &str, arm: &ComparedArm) -> Json {
    let Comparison { estimate, interval, p, .. } = arm.comparison;
    json!({
        "key": key,
        "estimate": estimate,
        "low": interval.map(|interval| interval.low),
        "high": interval.map(|interval| interval.high),
        "p": p,
        "pAdjusted": arm.p_adjusted,
        "verdict": arm.verdict,
    })
}

fn value_name(metric: &Metric) -> Option<&'static str> {
    metric.column.map(|column| AMOUNT_NAMES[usize::from(column)])
}

/// Returns the sum of a metric and the sum of its squares.
pub(super) fn sum_and_squares(metric: &Metric, sums: &MetricSums) -> (f64, f64) {
    match metric.column {
        Some(_) => (sums.sum_units as f64 / UNITS_PER_ONE, sums.squares()),
        None => (sums.converted as f64, sums.converted as f64),
    }
}

fn sums_json(metric: &Metric, sums: &MetricSums, summary: &ArmSummary) -> Map<String, Json> {
    let (sum, squares) = sum_and_squares(metric, sums);
    let members = [
        ("n", json!(sums.visitors)),
        ("converted", json!(sums.converted)),
        ("sum", json!(sum)),
        ("sumOfSquares", json!(squares)),
        ("ignoredAmounts", json!(sums.ignored_amounts)),
        ("capped", json!(sums.capped)),
        ("mean", json!(summary.mean)),
        ("low", json!(summary.interval.map(|interval| interval.low))),
        ("high", json!(summary.interval.map(|interval| interval.high))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a line for each arm, in the order of the count. The holdout is among them and is never compared.
fn metric_lines(
    number: usize,
    metric: &Metric,
    count: &ExperimentCount,
    compared: &ComparedMetric,
) -> Vec<Vec<Cell>> {
    let mut summaries = compared.result.arms.iter().enumerate();
    let lines = count.arms.iter().map(|(key, (_, sums))| {
        let found = if key == HOLDOUT { None } else { summaries.next() };
        let summary = found.map_or(&compared.holdout, |(_, summary)| summary);
        let arm = found.and_then(|(at, _)| compared.against.iter().find(|arm| arm.comparison.arm == at));
        let mut line = sums_cells(metric, key, &sums[number]);
        line.extend(summary_cells(summary));
        line.extend(arm.map_or_else(|| vec![Cell::Text(None); 6], change_cells));
        line
    });
    lines.collect()
}

fn sums_cells(metric: &Metric, arm: &str, sums: &MetricSums) -> Vec<Cell> {
    let (sum, squares) = sum_and_squares(metric, sums);
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    vec![
        text(metric.role.name()),
        text(&metric.text),
        Cell::Text(value_name(metric).map(str::to_owned)),
        text(arm),
        Cell::Number(sums.visitors as i64),
        Cell::Decimal(sum),
        Cell::Decimal(squares),
    ]
}

fn summary_cells(summary: &ArmSummary) -> [Cell; 3] {
    let bound = |bound: fn(&Interval) -> f64| summary.interval.as_ref().map(bound);
    [summary.mean, bound(|interval| interval.low), bound(|interval| interval.high)].map(decimal)
}

fn change_cells(arm: &ComparedArm) -> Vec<Cell> {
    let Comparison { estimate, interval, p, .. } = arm.comparison;
    let bound = |bound: fn(&Interval) -> f64| interval.as_ref().map(bound);
    let numbers =
        [estimate, bound(|interval| interval.low), bound(|interval| interval.high), p, arm.p_adjusted];
    let verdict = Cell::Text(Some(arm.verdict.to_owned()));
    numbers.map(decimal).into_iter().chain([verdict]).collect()
}

/// An absent number is an empty cell.
fn decimal(number: Option<f64>) -> Cell {
    number.map_or(Cell::Text(None), Cell::Decimal)
}
