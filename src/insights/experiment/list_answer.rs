//! Writes the list of experiments. For each experiment, the list has the definition and the visitors in the newest
//! phase.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::activity::Activity;
use super::answer::{phase_arms_json, schedule_json};
use super::arms::HOLDOUT_NUMBER;
use super::known::{KnownExperiment, Places};
use super::list::{ExperimentsQuestion, List, ListedCount, count_experiments, newest_arms};
use super::split::{Split, Visitors};
use crate::events::time;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::answer::{Answer, AnsweredLog, Cell, begin_document, end_document};
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::sql_parts::{begin_events, instant, text};

/// The columns of CSV and of tables.
const HEADER: [&str; 8] =
    ["key", "published", "phase", "firstExposure", "lastExposure", "exposed", "both", "alarms"];

/// The numbers of one experiment in the list.
struct Numbers {
    phase: Option<String>,
    first: Option<String>,
    last: Option<String>,
    exposed: u64,
    /// The number of visitors of arms that are not compared.
    others: u64,
    both: u64,
    alarms: Vec<&'static str>,
}

/// Answers the question for the list of experiments. The function calls `make_answered_log` after the count, to get the
/// facts about the log.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(crate) fn answer_experiments(
    columns: &[&Columns],
    question: &ExperimentsQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
    make_answered_log: &dyn Fn() -> AnsweredLog,
) -> Result<Answer, ScanError> {
    let List { counts, last_page_ms, rows, other } = count_experiments(columns, question, site, limits)?;
    let answered_log = make_answered_log();
    let mut document = begin_document(&question.range, site, answered_log);
    let mut experiments = Vec::new();
    let mut lines = Vec::new();
    for ((known, places), count) in question.known.iter().zip(&counts) {
        let numbers = numbers_of(question, known, count, last_page_ms);
        lines.push(line(known, &numbers));
        experiments.push(experiment_json(known, places, numbers, question.now_ms));
    }
    document.insert("experiments".to_owned(), Json::Array(experiments));
    document.insert("siteHoldout".to_owned(), json!(question.has_site_holdout));
    end_document(&mut document, &other, rows, answered_log, list_query(question, site));
    let document = Json::Object(document);
    Ok(Answer { document, header: HEADER.to_vec(), lines, notes: Vec::new(), seq: answered_log.seq })
}

fn numbers_of(
    question: &ExperimentsQuestion,
    known_experiment: &KnownExperiment,
    count: &ListedCount,
    last_page_ms: Option<i64>,
) -> Numbers {
    let exposed_at = |number: usize| count.exposed_at.get(number).map_or(&[][..], Vec::as_slice);
    let exposed = |number: usize| exposed_at(number).iter().sum::<u64>();
    let (compared, others) = count.arms.names().split_at(count.arms.compared());
    let names = compared.iter().enumerate().skip(HOLDOUT_NUMBER + 1);
    let visitors = Visitors {
        arms: names.map(|(number, name)| (name.as_str(), exposed_at(number))).collect(),
        others: count.unnamed + (0..others.len()).map(|index| exposed(compared.len() + index)).sum::<u64>(),
        both: count.both,
        held_out: exposed(HOLDOUT_NUMBER),
        errors: Vec::new(),
        activity: Activity {
            first_exposure_ms: count.first_ms,
            last_exposure_ms: count.last_ms,
            last_page_ms,
        },
        is_open: known_experiment.is_open(question.now_ms),
        has_mixed_currencies: false,
    };
    let newest = &known_experiment.phases[known_experiment.phases.len().saturating_sub(1)..];
    let exposed = visitors.exposed();
    Numbers {
        phase: newest.first().map(|phase| time::to_text(phase.from_ms())),
        first: count.first_ms.map(time::to_text),
        last: count.last_ms.map(time::to_text),
        exposed,
        others: visitors.others,
        both: count.both,
        alarms: Split::between(&visitors, newest, question.start_ms(known_experiment)).alarms,
    }
}

fn experiment_json(
    known_experiment: &KnownExperiment,
    places: &Places,
    numbers: Numbers,
    now_ms: i64,
) -> Json {
    let published = known_experiment.published.as_ref();
    let metrics = published.map(|published| &published.metrics);
    let guardrails = metrics.into_iter().flat_map(|metrics| &metrics.guardrails).map(
        |rail| json!({ "goal": rail.goal, "margin": rail.margin, "lowerIsBetter": rail.lower_is_better }),
    );
    let mut schedule = schedule_json(known_experiment);
    let members = [
        ("key", json!(known_experiment.key)),
        ("published", json!(published.is_some())),
        ("routes", json!(places.routes)),
        ("moreRoutes", json!(places.more_routes)),
        ("zones", json!(places.zones)),
        ("arms", known_experiment.newest().map_or(Json::Null, phase_arms_json)),
        ("coverage", json!(known_experiment.newest().map(|newest| newest.coverage(now_ms).share))),
        ("holdout", json!(published.map(|published| published.definition.holdout))),
        ("goal", json!(metrics.and_then(|metrics| metrics.goal.as_ref()))),
        ("value", json!(metrics.and_then(|metrics| metrics.value.as_ref()))),
        ("cap", json!(metrics.and_then(|metrics| metrics.cap.as_ref()))),
        ("guardrails", guardrails.collect()),
        ("planned", json!(metrics.and_then(|metrics| metrics.planned))),
        ("window", json!(metrics.and_then(|metrics| metrics.window.as_ref()))),
        ("standing", json!(known_experiment.standing(now_ms))),
        ("from", schedule["from"].take()),
        ("to", schedule["to"].take()),
        ("winner", schedule["winner"].take()),
        ("phase", json!(numbers.phase)),
        ("firstExposure", json!(numbers.first)),
        ("lastExposure", json!(numbers.last)),
        ("exposed", json!(numbers.exposed)),
        ("otherArms", json!({ "exposed": numbers.others })),
        ("both", json!(numbers.both)),
        ("alarms", json!(numbers.alarms)),
    ];
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn line(known_experiment: &KnownExperiment, numbers: &Numbers) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    vec![
        text(&known_experiment.key),
        text(if known_experiment.published.is_some() { "true" } else { "false" }),
        Cell::Text(numbers.phase.clone()),
        Cell::Text(numbers.first.clone()),
        Cell::Text(numbers.last.clone()),
        Cell::Number(numbers.exposed as i64),
        Cell::Number(numbers.both as i64),
        text(&numbers.alarms.join(" ")),
    ]
}

/// Returns the SQL that counts the visitors of all experiments.
fn list_query(question: &ExperimentsQuestion, site: &SiteFacts) -> String {
    let mut sql = begin_events(&site.site, question.bots);
    let begins = question.known.iter().map(|(known, _)| {
        let arms = newest_arms(known);
        let arms = arms.iter().map(|arm| text(arm)).collect::<Vec<_>>().join(", ");
        format!("({}, {}, cast([{arms}] as varchar[]))", text(&known.key), instant(question.start_ms(known)))
    });
    let begins = begins.collect::<Vec<_>>().join(", ");
    // If the site has no experiments, the table has one row of nulls. The query drops this row.
    let begins = if begins.is_empty() { "(null, null, null)".to_owned() } else { begins };
    let _ = write!(
        sql,
        ",
phases as (select * from (values {begins}) p(key, begin, known) where key is not null),
pairs as (
  select visitor, ts, unnest(string_split(experiments, ',')) as pair
  from events where type in ('page', 'track') and visitor is not null and ts < {}),
seen as (
  select p.key, p.begin, e.visitor, e.ts, split_part(e.pair, ':', 2) as arm
  from pairs e join phases p on split_part(e.pair, ':', 1) = p.key),
visitors as (
  select key, visitor, bool_or(ts < begin) as earlier, min(arm) as arm, count(distinct arm) as arms
  from seen group by key, visitor)
select key, (select min(ts) from seen s where s.key = p.key and ts >= begin) as first_exposure,
  (select max(ts) from seen s where s.key = p.key and ts >= begin) as last_exposure,
  (select count(*) from visitors v where v.key = p.key and not earlier and arms = 1 and arm <> '~'
    and (len(known) = 0 or list_contains(known, arm))) as exposed,
  (select count(*) from visitors v where v.key = p.key and not earlier and arms = 1 and arm <> '~'
    and len(known) > 0 and not list_contains(known, arm)) as other_arms,
  (select count(*) from visitors v where v.key = p.key and not earlier and arms > 1) as both
from phases p order by key",
        instant(question.range.end)
    );
    sql
}
