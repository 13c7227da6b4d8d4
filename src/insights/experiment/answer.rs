//! Writes the answer about an experiment: the decision, the phases, the visitors of each arm, the test of the split,
//! and the result of each metric.

use serde_json::{Map, Value as Json, json};

use super::activity::Activity;
use super::arm_count::ArmCount;
use super::comparison::{ComparedMetric, ComparedSegment, baseline, compare_arms, compare_segments};
use super::count::{ExperimentCount, count_experiment};
use super::decision::{Decision, Facts, decide};
use super::known::KnownExperiment;
use super::metric_answer::{metric_json, metric_lines};
use super::metrics::Metric;
use super::question::ExperimentQuestion;
use super::remaining::remaining_days;
use super::segment_answer::{segment_lines, segments_json};
use super::split::Split;
use super::sql::experiment_query;
use crate::insights::columns::amounts::UNITS_PER_ONE;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::answer::{Answer, AnsweredLog, begin_document, end_document, time_json};
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::site::SiteFacts;
use crate::insights::statistics::mismatch::Mismatch;
use crate::site::catalog::phases::Phase;
use crate::site::experiment_metrics::Cap;

/// The column titles of the CSV output and of the tables.
#[rustfmt::skip]
const HEADER: [&str; 18] = [
    "role", "goal", "value", "arm", "n", "sum", "sumOfSquares", "mean", "low", "high", "estimate", "changeLow",
    "changeHigh", "p", "pAdjusted", "verdict", "segment", "segmentValue",
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
    let compared = compare_arms(question, &count, limits)?;
    let segments = compare_segments(question, &count, limits)?;
    let answered_log = make_answered_log();
    Ok(write_experiment(question, site, &count, &compared, &segments, now_ms, answered_log))
}

fn write_experiment(
    question: &ExperimentQuestion,
    site: &SiteFacts,
    count: &ExperimentCount,
    compared_metrics: &[ComparedMetric],
    compared_segments: &[Vec<ComparedSegment>],
    now_ms: i64,
    answered_log: AnsweredLog,
) -> Answer {
    let split = Split::of(question, count, now_ms);
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
    insert("segments", segments_json(question, count, compared_segments));
    insert("daysLeft", json!(days_left));
    end_document(&mut document, &count.other, count.rows, answered_log, experiment_query(question, site));
    let counted = numbered().filter(|(_, (metric, _))| !(metric.is_amount() && count.money.is_mixed()));
    let lines = counted.flat_map(|(number, (metric, comparison))| {
        metric_lines(number, metric, &count.arms, Some(&count.holdout), comparison, [None, None])
    });
    let lines = lines.chain(segment_lines(question, count, compared_segments));
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
