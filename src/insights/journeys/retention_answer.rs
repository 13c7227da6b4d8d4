//! Writes the answer about visitors that return, and its SQL.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::params::share;
use super::retention::{RetentionCounts, RetentionQuestion};
use super::selection::step_condition;
use crate::insights::questions::answer::{Answer, AnsweredLog, Cell, begin_document, end_document};
use crate::insights::questions::calendar::Unit;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::buckets_table;
use crate::insights::questions::steps::Step;

/// The columns of CSV and of tables. Each line has a cohort and a period after its beginning.
const HEADER: [&str; 6] = ["t", "time", "visitors", "period", "returned", "share"];

/// Writes the answer.
pub(super) fn write(
    question: &RetentionQuestion,
    site: &SiteFacts,
    counts: &RetentionCounts,
    answered_log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.selection.range, site, answered_log);
    let text = |step: Option<&Step>| json!(step.map(|step| &step.text));
    document.insert("begin".to_owned(), text(question.begin()));
    document.insert("return".to_owned(), text(question.returning()));
    document.insert("by".to_owned(), json!(if question.by == Unit::Day { "day" } else { "week" }));
    let seconds: Vec<i64> = question.buckets.iter().map(|start_ms| start_ms.div_euclid(1_000)).collect();
    let cohorts = counts.visitors.iter().zip(&counts.returned).zip(&seconds);
    let cohort_json = cohorts.clone().map(
        |((visitors, returned), second)| json!({ "t": second, "visitors": visitors, "returned": returned }),
    );
    document.insert("cohorts".to_owned(), cohort_json.collect());
    let curve = counts.curve(question);
    let curve = curve.iter().enumerate().map(|(period, point)| {
        let share = share(point.returned, point.visitors);
        json!({ "period": period, "visitors": point.visitors, "returned": point.returned, "share": share })
    });
    document.insert("curve".to_owned(), curve.collect());
    let lines = cohorts.flat_map(|((visitors, returned), second)| {
        let time = site.zone.local_time(*second);
        returned.iter().enumerate().map(move |(period, returned)| {
            vec![
                Cell::Number(*second),
                Cell::Text(Some(time.clone())),
                Cell::Number(*visitors as i64),
                Cell::Number(period as i64),
                Cell::Number(*returned as i64),
                share(*returned, *visitors).map_or(Cell::Text(None), Cell::Decimal),
            ]
        })
    });
    let lines = lines.collect();
    end_document(&mut document, &counts.other, counts.rows, answered_log, query(question, site));
    let document = Json::Object(document);
    Answer { document, header: HEADER.to_vec(), lines, notes: Vec::new(), seq: answered_log.seq }
}

/// Returns the query. It has only the periods in which somebody returned.
fn query(question: &RetentionQuestion, site: &SiteFacts) -> String {
    let mut sql = question.selection.begin_sql(site);
    let condition =
        |step: Option<&Step>| step.map_or_else(|| "true".to_owned(), |step| step_condition(step, site));
    let _ = write!(
        sql,
        ",
{},
numbered as (select t, row_number() over (order by t) - 1 as number from buckets),
begun as (
  select visitor, min_by({{'in_range': in_range, 'passes': passes, 'ts': ts, 'seq': seq}}, {{'t': ts, 'seq': seq}}) as first
  from journeys where {} group by 1),
cohorts as (
  select b.visitor, b.first.ts as ts, b.first.seq as seq, n.number as cohort
  from begun b asof join numbered n on b.first.ts >= n.t where b.first.in_range and b.first.passes),
returns as (
  select distinct c.visitor, c.cohort, n.number - c.cohort as period
  from (select c.visitor, c.cohort, j.ts from cohorts c
    join journeys j on j.visitor = c.visitor and (j.ts > c.ts or j.ts = c.ts and j.seq > c.seq) where {}) c
  asof join numbered n on c.ts >= n.t),
complete as (select * from numbered where number < {}),
cells as (
  select c.cohort, c.period, count(*) as returned from returns c group by 1, 2)
select 'cohorts' as part, cohort, null as period, count(*) as number from cohorts group by 2 union all
select 'returned', cohort, period, returned from cells union all
select 'curve_visitors', null, p.number, count(c.visitor)
  from complete p left join cohorts c on c.cohort + p.number < {} group by 3 union all
select 'curve_returned', null, period, sum(returned) from cells where cohort + period < {} group by 3
order by part, cohort, period",
        buckets_table(&question.buckets),
        condition(question.begin()),
        condition(question.returning()),
        question.complete,
        question.complete,
        question.complete,
    );
    sql
}
