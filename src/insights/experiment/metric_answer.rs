//! Writes the result of one metric: as JSON, and as the lines of the CSV output.

use serde_json::{Map, Value as Json, json};

use super::arm_count::ArmCount;
use super::comparison::{ComparedArm, ComparedMetric};
use super::count::ExperimentCount;
use super::metrics::Metric;
use super::question::ExperimentQuestion;
use super::sums::MetricSums;
use crate::insights::columns::amounts::UNITS_PER_ONE;
use crate::insights::questions::answer::Cell;
use crate::insights::statistics::difference::Interval;
use crate::insights::statistics::metric::{ArmSummary, Comparison, CupedEffect};
use crate::record::HELD_OUT;

pub(super) fn metric_json(
    metric_index: usize,
    metric: &Metric,
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    compared_metric: &ComparedMetric,
) -> Json {
    if metric.is_amount() && count.money.is_mixed() {
        return mixed_metric_json(metric, question, count);
    }
    let limit = metric.value.as_ref().map(|_| count.cap_units.map(|units| units as f64 / UNITS_PER_ONE));
    let sums = || count.arms.iter().chain([&count.holdout]).map(|arm| arm.sums[metric_index]);
    let [too_early, arms, against] =
        compared_json(metric_index, metric, question, &count.arms, compared_metric);
    json!({
        "role": metric.role.name(),
        "goal": metric.text,
        "value": metric.value_name(),
        "kind": if metric.is_amount() { "mean" } else { "proportion" },
        "cap": limit.flatten(),
        "capRule": limit.map(|_| question.cap.to_string()),
        "margin": metric.margin,
        "lowerIsBetter": metric.lower_is_better,
        "currency": question.currency.as_ref().filter(|_| metric.is_amount()),
        "currencies": metric.value.as_ref().map(|_| count.money.by_currency(&count.currencies)),
        "ignoredAmounts": sums().map(|sums| sums.ignored_amounts).sum::<u64>(),
        "capped": sums().map(|sums| sums.capped).sum::<u64>(),
        "tooEarly": too_early,
        "arms": arms,
        "holdout": sums_json(metric, question, &count.holdout.sums[metric_index], &compared_metric.holdout),
        "against": against,
    })
}

/// Returns a metric of a segment. If the amounts of the metric have several currencies, it compares nothing.
pub(super) fn segment_metric_json(
    metric_index: usize,
    question: &ExperimentQuestion,
    count: &ExperimentCount,
    arms: &[ArmCount],
    compared_metric: &ComparedMetric,
) -> Json {
    let metric = &question.metrics[metric_index];
    let [too_early, arms, against] = match metric.is_amount() && count.money.is_mixed() {
        true => [json!([]), json!([]), json!([])],
        false => compared_json(metric_index, metric, question, arms, compared_metric),
    };
    json!({
        "role": metric.role.name(),
        "goal": metric.text,
        "value": metric.value_name(),
        "tooEarly": too_early,
        "arms": arms,
        "against": against,
    })
}

/// Returns the arms that are not compared yet, the sums of all arms, and the comparisons.
fn compared_json(
    metric_index: usize,
    metric: &Metric,
    question: &ExperimentQuestion,
    arms: &[ArmCount],
    compared_metric: &ComparedMetric,
) -> [Json; 3] {
    let key = |arm: usize| arms[arm].key.as_str();
    let early = compared_metric.result.too_early.iter();
    let early = early.map(|(arm, reason)| json!({ "arm": key(*arm), "reason": reason.name() }));
    let sums = arms.iter().zip(&compared_metric.result.arms).map(|(arm, summary)| {
        let mut members = sums_json(metric, question, &arm.sums[metric_index], summary);
        members.shift_insert(0, "key".to_owned(), json!(arm.key));
        Json::Object(members)
    });
    let against = compared_metric.against.iter().map(|arm| against_json(key(arm.comparison.arm), arm));
    [early.collect(), sums.collect(), against.collect()]
}

/// Returns a metric whose amounts have several currencies. It has the sums of each currency, and compares nothing.
fn mixed_metric_json(metric: &Metric, question: &ExperimentQuestion, count: &ExperimentCount) -> Json {
    json!({
        "role": metric.role.name(),
        "goal": metric.text,
        "value": metric.value_name(),
        "kind": "mean",
        "cap": null,
        "capRule": question.cap.to_string(),
        "margin": metric.margin,
        "lowerIsBetter": metric.lower_is_better,
        "currency": null,
        "currencies": count.money.by_currency(&count.currencies),
        "tooEarly": [],
        "arms": [],
        "holdout": null,
        "against": [],
    })
}

fn against_json(arm_key: &str, compared_arm: &ComparedArm) -> Json {
    let Comparison { estimate, interval, p, cuped, .. } = compared_arm.comparison;
    json!({
        "key": arm_key,
        "estimate": estimate,
        "low": interval.map(|interval| interval.low),
        "high": interval.map(|interval| interval.high),
        "p": p,
        "pAdjusted": compared_arm.p_adjusted,
        "verdict": compared_arm.verdict,
        "cuped": cuped.as_ref().map(cuped_json),
    })
}

/// Returns the effect of CUPED on a comparison.
fn cuped_json(effect: &CupedEffect) -> Json {
    let [before, active] = effect.factors;
    let unadjusted = &effect.unadjusted;
    json!({
        "factors": { "before": before, "active": active },
        "varianceRatio": effect.variance_ratio,
        "unadjusted": {
            "estimate": unadjusted.estimate,
            "low": unadjusted.interval.map(|interval| interval.low),
            "high": unadjusted.interval.map(|interval| interval.high),
        },
    })
}

/// Returns the sums over the time before the first exposures.
fn before_json(sums: &MetricSums) -> Json {
    json!({
        "active": sums.active,
        "sum": sums.before.sum(),
        "sumOfSquares": sums.before.squares(),
        "sumOfProducts": sums.products.sum(),
        "sumOfActive": sums.of_active(),
    })
}

fn sums_json(
    metric: &Metric,
    question: &ExperimentQuestion,
    sums: &MetricSums,
    summary: &ArmSummary,
) -> Map<String, Json> {
    let is_amount = metric.is_amount();
    let members = [
        ("n", json!(sums.visitors)),
        ("converted", json!(sums.converted)),
        ("sum", json!(sums.values.sum())),
        ("sumOfSquares", json!(sums.values.squares())),
        ("ignoredAmounts", json!(sums.ignored_amounts)),
        ("capped", json!(sums.capped)),
        ("valued", json!(is_amount.then_some(sums.valued))),
        ("uncappedSum", json!(is_amount.then(|| sums.uncapped.sum()))),
        ("uncappedSumOfSquares", json!(is_amount.then(|| sums.uncapped.squares()))),
        ("before", json!(question.cuped.then(|| before_json(sums)))),
        ("mean", json!(summary.mean)),
        ("low", json!(summary.interval.map(|interval| interval.low))),
        ("high", json!(summary.interval.map(|interval| interval.high))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns one line for each arm. If the holdout has visitors, the last line is the line of the holdout. A segment has no
/// holdout. `segment` has the name of the dimension, and the value.
pub(super) fn metric_lines(
    metric_index: usize,
    metric: &Metric,
    arms: &[ArmCount],
    holdout: Option<&ArmCount>,
    compared_metric: &ComparedMetric,
    segment: [Option<&str>; 2],
) -> Vec<Vec<Cell>> {
    let line = |key: &str, sums: &MetricSums, summary: &ArmSummary, change: Vec<Cell>| {
        let mut line = sums_cells(metric, key, sums);
        line.extend(summary_cells(summary));
        line.extend(change);
        line.extend(segment.map(|text| Cell::Text(text.map(str::to_owned))));
        line
    };
    let no_change = || vec![Cell::Text(None); 6];
    let arms = arms.iter().zip(&compared_metric.result.arms).enumerate();
    let arms = arms.map(|(index, (arm, summary))| {
        let change = compared_metric.against.iter().find(|arm| arm.comparison.arm == index);
        line(&arm.key, &arm.sums[metric_index], summary, change.map_or_else(no_change, change_cells))
    });
    let holdout = holdout.filter(|holdout| holdout.exposed > 0);
    let summary = &compared_metric.holdout;
    let holdout = holdout.map(|arm| line(HELD_OUT, &arm.sums[metric_index], summary, no_change()));
    arms.chain(holdout).collect()
}

fn sums_cells(metric: &Metric, arm_key: &str, sums: &MetricSums) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    vec![
        text(metric.role.name()),
        text(&metric.text),
        Cell::Text(metric.value_name().map(str::to_owned)),
        text(arm_key),
        Cell::Number(sums.visitors as i64),
        Cell::Decimal(sums.values.sum()),
        Cell::Decimal(sums.values.squares()),
    ]
}

fn summary_cells(summary: &ArmSummary) -> [Cell; 3] {
    let bound = |bound: fn(&Interval) -> f64| summary.interval.as_ref().map(bound);
    [summary.mean, bound(|interval| interval.low), bound(|interval| interval.high)].map(decimal)
}

fn change_cells(compared_arm: &ComparedArm) -> Vec<Cell> {
    let Comparison { estimate, interval, p, .. } = compared_arm.comparison;
    let bound = |bound: fn(&Interval) -> f64| interval.as_ref().map(bound);
    let low = bound(|interval| interval.low);
    let high = bound(|interval| interval.high);
    let numbers = [estimate, low, high, p, compared_arm.p_adjusted];
    let verdict = Cell::Text(compared_arm.verdict.map(str::to_owned));
    numbers.map(decimal).into_iter().chain([verdict]).collect()
}

/// Returns a cell with a number. An absent number gives an empty cell.
fn decimal(number: Option<f64>) -> Cell {
    number.map_or(Cell::Text(None), Cell::Decimal)
}
