//! Writes the answer about the length of visits, and its SQL.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::engagement::{EngagementCounts, EngagementQuestion, VisitSums};
use super::params::share;
use crate::insights::questions::answer::{Answer, AnsweredLog, Cell, begin_document, end_document};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::{buckets_table, instant};

/// The columns of CSV and of tables.
const HEADER: [&str; 9] = [
    "t",
    "time",
    "visits",
    "bounces",
    "views",
    "durationMs",
    "bounceRate",
    "viewsPerVisit",
    "meanDurationMs",
];

/// Writes the answer.
pub(super) fn write(
    question: &EngagementQuestion,
    site: &SiteFacts,
    counts: &EngagementCounts,
    answered_log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.selection.range, site, answered_log);
    let total_sums = sums(&counts.totals).into_iter().map(|(name, sum)| (name.to_owned(), json!(sum)));
    let total_rates = rates(&counts.totals).into_iter().map(|(name, rate)| (name.to_owned(), json!(rate)));
    document.insert("totals".to_owned(), Json::Object(total_sums.chain(total_rates).collect()));
    let buckets = question.buckets(&site.zone);
    let seconds: Vec<i64> = buckets.iter().map(|start_ms| start_ms.div_euclid(1_000)).collect();
    let mut series = Map::new();
    series.insert("t".to_owned(), json!(seconds));
    for (index, (name, _)) in sums(&VisitSums::default()).into_iter().enumerate() {
        series.insert(name.to_owned(), counts.series.iter().map(|bucket| sums(bucket)[index].1).collect());
    }
    document.insert("series".to_owned(), Json::Object(series));
    let line = |(second, bucket): (&i64, &VisitSums)| {
        let time = Cell::Text(Some(site.zone.local_time(*second)));
        let numbers = sums(bucket).into_iter().map(|(_, number)| Cell::Number(number as i64));
        let rates = rates(bucket).into_iter().map(|(_, rate)| rate.map_or(Cell::Text(None), Cell::Decimal));
        [Cell::Number(*second), time].into_iter().chain(numbers).chain(rates).collect()
    };
    let lines = seconds.iter().zip(&counts.series).map(line).collect();
    end_document(&mut document, &counts.other, counts.rows, answered_log, query(question, site));
    let document = Json::Object(document);
    Answer { document, header: HEADER.to_vec(), lines, notes: Vec::new(), seq: answered_log.seq }
}

/// Returns the sums with their names.
fn sums(bucket: &VisitSums) -> [(&'static str, u64); 4] {
    let VisitSums { visits, bounces, views, duration_ms } = *bucket;
    [("visits", visits), ("bounces", bounces), ("views", views), ("durationMs", duration_ms)]
}

/// Returns the numbers of a visit on average, with their names. They are `None` if there are no visits.
fn rates(bucket: &VisitSums) -> [(&'static str, Option<f64>); 3] {
    let VisitSums { visits, bounces, views, duration_ms } = *bucket;
    [
        ("bounceRate", share(bounces, visits)),
        ("viewsPerVisit", share(views, visits)),
        ("meanDurationMs", share(duration_ms, visits)),
    ]
}

/// Returns the query.
fn query(question: &EngagementQuestion, site: &SiteFacts) -> String {
    let mut sql = question.selection.begin_sql(site);
    let from = instant(question.selection.range.start);
    let sums = "count(*) as visits, count(*) filter (where views = 1 and actions = 0) as bounces,
  coalesce(sum(views), 0) as views, coalesce(sum(duration), 0) as duration";
    let _ = write!(
        sql,
        ",
{},
visits as (
  select visitor, visit, any_value(began) as began, count(*) filter (where of_visit and type = 'page') as views,
    count(*) filter (where of_visit and type <> 'page') as actions,
    max(epoch_ms(ts)) filter (where of_visit) - min(epoch_ms(ts)) filter (where of_visit) as duration
  from journeys where visit > 0 and began >= {from} group by 1, 2 having bool_or(in_range and passes)),
of_buckets as (select b.t, v.* from visits v asof join buckets b on v.began >= b.t),
series as (select t, {sums} from of_buckets group by 1)
select 'series' as part, cast(epoch(t) as bigint) as t, coalesce(visits, 0), coalesce(bounces, 0), coalesce(views, 0),
  coalesce(duration, 0) from buckets left join series using (t) union all
select 'totals', null, {sums} from visits order by part, t",
        buckets_table(&question.buckets(&site.zone))
    );
    sql
}
