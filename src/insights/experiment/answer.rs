//! Writes the answer about an experiment: the decision, the phases, the visitors of each arm, the test of the split,
//! and the result of each metric.

use serde_json::{Map, Value as Json, json};

use super::activity::Activity;
use super::comparison::{ComparedArm, ComparedMetric, baseline, compare_arms, withhold_verdicts};
use super::count::{ArmCount, ExperimentCount, count_experiment};
use super::decision::{Decision, Facts, decide};
use super::known::KnownExperiment;
use super::metrics::Metric;
use super::question::ExperimentQuestion;
use super::remaining::remaining_days;
use super::split::Split;
use super::sql::experiment_query;
use super::sums::MetricSums;
use crate::insights::columns::amounts::UNITS_PER_ONE;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::answer::{
    Answer, AnsweredLog, Cell, begin_document, end_document, time_json,
};
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::site::SiteFacts;
use crate::insights::statistics::difference::Interval;
use crate::insights::statistics::metric::{ArmSummary, Comparison, CupedEffect};
use crate::insights::statistics::mismatch::Mismatch;
use crate::record::HELD_OUT;
use crate::site::catalog::phases::Phase;
use crate::site::experiment_metrics::Cap;

/// The column titles of the CSV output and of the tables.
#[rustfmt::skip]
const HEADER: [&str; 16] = [
    "role", "goal", "value", "arm", "n", "sum", "sumOfSquares", "mean", "low", "high", "estimate", "changeLow",
    "changeHigh", "p", "pAdjusted", "verdict",
];

/// Answers a question about an experiment. The function calls `make_answered_log` after the count. `make_answered_log`
/// returns the facts about the log.
///
/// # Errors
/// Returns an error if a file is damaged, if the key is unknown, or if the question takes too much time or memory.
pub(crate) fn answer_experiment(
    columns: &[&Columns],
    question: &ExperimentQuestion,
    site: &SiteFacts,
    now_ms: i64,
    limits: &Limits<'_>,
    make_answered_log: &dyn Fn() -> AnsweredLog,
) -> Result<Answer, ScanError> {
    let count = count_experiment(columns, question, site, limits)?;
    let mut compared = compare_arms(question, &count, limits)?;
    let answered_log = make_answered_log();
    if answered_log.scope.is_part() {
        withhold_verdicts(&mut compared);
    }
    Ok(write_experiment(question, site, &count, &compared, now_ms, answered_log))
}

fn write_experiment(
    question: &ExperimentQuestion,
    site: &SiteFacts,
    count: &ExperimentCount,
    compared_metrics: &[ComparedMetric],
    now_ms: i64,
    answered_log: AnsweredLog,
) -> Answer {
    let split = Split::of(question, count, answered_log.scope, now_ms);
    let mut document = begin_document(&question.range, site, answered_log);
    let mut insert = |name: &str, value: Json| document.insert(name.to_owned(), value);
    let is_exploratory = is_exploratory(question, count);
    let days_left = remaining_days(question, count, split.weights.as_deref(), now_ms);
    let facts = Facts {
        question,
        count,
        compared: compared_metrics,
        split: &split,
        is_exploratory,
        days_left,
        now_ms,
    };
    // Nobody chooses between the two groups of the site's holdout.
    let decision = (!question.is_of_site_holdout()).then(|| decide(&facts));
    insert("key", json!(question.key()));
    insert("decision", json!(decision.as_ref().map(Decision::to_json)));
    insert("published", json!(question.known.published.is_some()));
    insert("standing", json!(question.known.standing(now_ms)));
    insert("schedule", schedule_json(&question.known));
    insert("exploratory", json!(is_exploratory));
    insert("phases", question.known.phases.iter().map(|phase| phase_json(phase, now_ms)).collect());
    insert("alarms", json!(split.alarms));
    insert("arms", arms_json(count, split.weights.as_deref()));
    insert("otherArms", other_arms_json(count));
    insert("both", json!(count.both));
    insert("earlier", json!(count.earlier));
    insert("holdout", json!({ "exposed": count.holdout.exposed }));
    let errors = count.arms.iter().map(|arm| (arm.key.clone(), json!(arm.errors)));
    insert("errors", Json::Object(errors.collect()));
    let Activity { first_exposure_ms, last_exposure_ms, last_page_ms } = count.activity;
    insert("firstExposure", json!(first_exposure_ms.map(time_json)));
    insert("lastExposure", json!(last_exposure_ms.map(time_json)));
    insert("lastPage", json!(last_page_ms.map(time_json)));
    insert("series", series_json(count));
    insert("srm", split.mismatch.map_or(Json::Null, |mismatch| mismatch_json(&mismatch)));
    insert("srmReason", json!(split.reason));
    let numbered = || question.metrics.iter().zip(compared_metrics).enumerate();
    let metrics =
        numbered().map(|(number, (metric, result))| metric_json(number, metric, question, count, result));
    insert("metrics", metrics.collect());
    insert("daysLeft", json!(days_left));
    end_document(&mut document, &count.other, count.rows, answered_log, experiment_query(question, site));
    let counted = numbered().filter(|(_, (metric, _))| !(metric.is_amount() && count.money.is_mixed()));
    let lines =
        counted.flat_map(|(number, (metric, comparison))| metric_lines(number, metric, count, comparison));
    let mut notes: Vec<String> = decision.iter().map(|decision| decision.sentence().to_owned()).collect();
    if decision.is_none() && !split.alarms.is_empty() {
        notes.push(format!("The result has an alarm ({}); do not use it.", split.alarms.join(", ")));
    }
    notes.extend(currency_sentence(count).or_else(|| cap_sentence(question, count)));
    let document = Json::Object(document);
    Answer { lines: lines.collect(), document, header: HEADER.to_vec(), notes, seq: answered_log.seq }
}

/// Returns a sentence that says why a value is not compared. `None` if all amounts have one currency.
fn currency_sentence(count: &ExperimentCount) -> Option<String> {
    let sentence = || {
        format!(
            "Values in {} are not added up. Choose one with currency=.",
            count.money.names(&count.currencies)
        )
    };
    count.money.is_mixed().then(sentence)
}

/// Returns a sentence that says how values are capped. `None` if no metric adds up an amount.
fn cap_sentence(question: &ExperimentQuestion, count: &ExperimentCount) -> Option<String> {
    let value = question.metrics.iter().position(Metric::is_amount)?;
    let capped: u64 = count.arms.iter().map(|arm| arm.sums[value].capped).sum();
    Some(match (question.cap, count.cap_units) {
        (Cap::None, _) => "Values are not limited, so one order can decide their result.".to_owned(),
        (_, None) => "Values are not limited yet, because fewer than two visitors have one.".to_owned(),
        (cap, Some(units)) => {
            let limit = units as f64 / UNITS_PER_ONE;
            format!("Values above {limit} ({cap}) are limited: {capped} visitors.")
        }
    })
}

/// Returns whether the question has other metrics, another start or other settings than the published experiment.
fn is_exploratory(question: &ExperimentQuestion, count: &ExperimentCount) -> bool {
    let baseline_key = question.baseline.as_deref();
    question.is_exploratory || baseline(baseline_key, &count.arms) != baseline(None, &count.arms)
}

/// Returns the start, the end and the winner of an experiment.
pub(super) fn schedule_json(known_experiment: &KnownExperiment) -> Json {
    let published = known_experiment.published.as_ref();
    json!({
        "from": published.and_then(|published| published.from_ms).map(time_json),
        "to": known_experiment.newest().and_then(|newest| newest.to_ms).map(time_json),
        "winner": published.and_then(|published| published.winner_key()),
    })
}

/// Returns the arms of a phase with their weights.
pub(super) fn phase_arms_json(phase: &Phase) -> Json {
    phase.arms.iter().map(|arm| json!({ "key": arm.key, "weight": arm.weight })).collect()
}

fn phase_json(phase: &Phase, now_ms: i64) -> Json {
    let coverages = phase.coverages.iter();
    let coverages =
        coverages.map(|coverage| json!({ "from": time_json(coverage.from_ms), "share": coverage.share }));
    json!({
        "from": time_json(phase.from_ms()),
        "arms": phase_arms_json(phase),
        "coverage": phase.coverage(now_ms).share,
        "coverages": coverages.collect::<Vec<_>>(),
        "holdout": phase.holdout,
        "to": phase.to_ms.map(time_json),
        "seed": phase.seed,
    })
}

fn arms_json(count: &ExperimentCount, weights: Option<&[f64]>) -> Json {
    let arm = |(number, arm): (usize, &ArmCount)| {
        let weight = weights.map(|weights| weights[number]);
        json!({ "key": arm.key, "weight": weight, "exposed": arm.exposed })
    };
    count.arms.iter().enumerate().map(arm).collect()
}

/// Returns the number of visitors of each arm that is not compared, as JSON. `exposed` also counts the visitors of arms
/// that are not listed in `arms`.
fn other_arms_json(count: &ExperimentCount) -> Json {
    let named: Json =
        count.other_arms.iter().map(|(key, exposed)| json!({ "key": key, "exposed": exposed })).collect();
    json!({ "exposed": count.other_exposed(), "arms": named })
}

fn series_json(count: &ExperimentCount) -> Json {
    let seconds: Vec<i64> = count.buckets.iter().map(|start_ms| start_ms.div_euclid(1_000)).collect();
    let exposed: Map<String, Json> =
        count.arms.iter().map(|arm| (arm.key.clone(), json!(arm.series))).collect();
    json!({ "t": seconds, "exposed": exposed })
}

fn mismatch_json(mismatch: &Mismatch) -> Json {
    json!({ "p": mismatch.p, "bayesFactor": mismatch.bayes_factor(), "alarm": mismatch.is_alarm })
}

fn metric_json(
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
    let arms = count.arms.iter().zip(&compared_metric.result.arms).map(|(arm, summary)| {
        let mut members = sums_json(metric, question, &arm.sums[metric_index], summary);
        members.shift_insert(0, "key".to_owned(), json!(arm.key));
        Json::Object(members)
    });
    let key = |arm: usize| count.arms[arm].key.as_str();
    let early = compared_metric.result.too_early.iter();
    let early = early.map(|(arm, reason)| json!({ "arm": key(*arm), "reason": reason.name() }));
    let against = compared_metric.against.iter().map(|arm| against_json(key(arm.comparison.arm), arm));
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
        "tooEarly": early.collect::<Json>(),
        "arms": arms.collect::<Json>(),
        "holdout": sums_json(metric, question, &count.holdout.sums[metric_index], &compared_metric.holdout),
        "against": against.collect::<Json>(),
    })
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

/// Returns one line for each arm. If the holdout has visitors, the last line is the line of the holdout.
fn metric_lines(
    metric_index: usize,
    metric: &Metric,
    count: &ExperimentCount,
    compared_metric: &ComparedMetric,
) -> Vec<Vec<Cell>> {
    let line = |key: &str, sums: &MetricSums, summary: &ArmSummary, change: Vec<Cell>| {
        let mut line = sums_cells(metric, key, sums);
        line.extend(summary_cells(summary));
        line.extend(change);
        line
    };
    let no_change = || vec![Cell::Text(None); 6];
    let arms = count.arms.iter().zip(&compared_metric.result.arms).enumerate();
    let arms = arms.map(|(index, (arm, summary))| {
        let change = compared_metric.against.iter().find(|arm| arm.comparison.arm == index);
        line(&arm.key, &arm.sums[metric_index], summary, change.map_or_else(no_change, change_cells))
    });
    let holdout = Some(&count.holdout).filter(|holdout| holdout.exposed > 0);
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
