//! Writes the answer about the steps of a funnel.

use serde_json::{Value as Json, json};

use super::funnel::{FunnelCounts, FunnelQuestion, Leavers, StepNumbers};
use super::funnel_sql::funnel_query;
use super::params::share;
use crate::insights::questions::answer::{Answer, AnsweredLog, Cell, begin_document, end_document};
use crate::insights::questions::site::SiteFacts;

/// The columns of CSV and of tables. With `by`, the column `value` is before them.
const HEADER: [&str; 6] = ["number", "step", "reached", "ofFirst", "ofBefore", "medianMs"];

/// Writes the answer.
pub(super) fn write(
    question: &FunnelQuestion,
    site: &SiteFacts,
    counts: &FunnelCounts,
    answered_log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.selection.range, site, answered_log);
    document.insert("per".to_owned(), json!(if question.per_visit { "visit" } else { "visitor" }));
    document.insert("windowMs".to_owned(), json!(question.window_ms));
    let mut steps = steps_json(question, &counts.total);
    for (step, left) in steps.iter_mut().zip(&counts.left) {
        step["left"] = left_json(left);
    }
    document.insert("steps".to_owned(), json!(steps));
    if let Some(by) = &question.by {
        let row = |(value, numbers): &(Option<String>, StepNumbers)| json!({ "value": value, "steps": steps_json(question, numbers) });
        document.insert("by".to_owned(), json!(by.text()));
        document.insert("rows".to_owned(), counts.groups.iter().map(row).collect());
        document.insert("more".to_owned(), json!(counts.more));
    }
    let sql = funnel_query(question, site);
    end_document(&mut document, &counts.other, counts.rows, answered_log, sql);
    let (header, lines) = table(question, counts);
    Answer { document: Json::Object(document), header, lines, notes: Vec::new(), seq: answered_log.seq }
}

/// The numbers of a step.
struct StepLine<'q> {
    text: &'q str,
    reached: u64,
    /// The share of the first step. `None` if nobody reached it.
    of_first: Option<f64>,
    /// The share of the step before. `None` if there is none, or if nobody reached it.
    of_before: Option<f64>,
    median_ms: Option<f64>,
}

fn step_lines<'q>(question: &'q FunnelQuestion, numbers: &StepNumbers) -> Vec<StepLine<'q>> {
    let line = |index: usize| {
        let reached = numbers.reached[index];
        StepLine {
            text: &question.steps[index].text,
            reached,
            of_first: share(reached, numbers.reached[0]),
            of_before: index.checked_sub(1).and_then(|before| share(reached, numbers.reached[before])),
            median_ms: numbers.medians_ms[index],
        }
    };
    (0..question.steps.len()).map(line).collect()
}

fn steps_json(question: &FunnelQuestion, numbers: &StepNumbers) -> Vec<Json> {
    let step = |line: &StepLine<'_>| {
        json!({
            "step": line.text, "reached": line.reached, "ofFirst": line.of_first, "ofBefore": line.of_before,
            "medianMs": line.median_ms,
        })
    };
    step_lines(question, numbers).iter().map(step).collect()
}

fn left_json(leavers: &Leavers) -> Json {
    let Leavers { count, exits, next, more } = leavers;
    let next = next.iter().map(|(page, count)| json!({ "value": page, "count": count }));
    json!({ "count": count, "exits": exits, "next": next.collect::<Json>(), "more": more })
}

fn table(question: &FunnelQuestion, counts: &FunnelCounts) -> (Vec<&'static str>, Vec<Vec<Cell>>) {
    if question.by.is_none() {
        return (HEADER.to_vec(), cells(question, &counts.total));
    }
    let lines = counts.groups.iter().flat_map(|(value, numbers)| {
        let value = Cell::Text(value.clone());
        cells(question, numbers).into_iter().map(move |line| [vec![value.clone()], line].concat())
    });
    (["value"].into_iter().chain(HEADER).collect(), lines.collect())
}

fn cells(question: &FunnelQuestion, numbers: &StepNumbers) -> Vec<Vec<Cell>> {
    let decimal = |number: Option<f64>| number.map_or(Cell::Text(None), Cell::Decimal);
    let line = |(index, line): (usize, &StepLine<'_>)| {
        vec![
            Cell::Number(index as i64 + 1),
            Cell::Text(Some(line.text.to_owned())),
            Cell::Number(line.reached as i64),
            decimal(line.of_first),
            decimal(line.of_before),
            decimal(line.median_ms),
        ]
    };
    step_lines(question, numbers).iter().enumerate().map(line).collect()
}
