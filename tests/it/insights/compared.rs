//! Answers that are compared with another range: the same numbers as asking for that range alone.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use parallax::testing::events::time::{TIME_MS_MIN, write};
use parallax::testing::insights::{
    Answer, AskedQuery, Attribution, COMPARED_LIMIT_MAX, Cell, Columns, CountedLog, EngagementQuestion,
    FunnelQuestion, JourneyQuestion, LIMIT_MAX, LIST_BYTES_MAX, Limits, PathsQuestion, Query, Question,
    QuestionError, RetentionQuestion, SiteFacts, Subject, Zone, ZonesQuestion, answer_over,
};
use parallax::testing::resolve::published_zones::PublishedZone;

use super::oracle::{DAY_MS, HOUR_MS, NOW_MS, START_MS, any_event, any_params};
use super::served::{ask, page, send};
use super::{Event, columns_with_goals, goals};
use crate::harness::{Client, Server};

const QUESTIONS: [&str; 7] = ["overview", "top", "funnel", "retention", "paths", "engagement", "zones"];
const MEMORY_BYTES: u64 = 1 << 30;

type Pairs<'p> = Vec<(&'p str, &'p str)>;

/// Returns the site with goals, in a zone with this change of its clock.
fn site(clock_change: Option<(i64, i64)>) -> SiteFacts {
    let offsets = [(0, 3_600)].into_iter().chain(clock_change).collect();
    let site = goals::site(Attribution { window_ms: 2 * DAY_MS, is_first: false });
    SiteFacts { zone: Zone { name: "X".to_owned(), offsets }, ..site }
}

fn text(time_ms: i64) -> String {
    let mut out = Vec::new();
    write(&mut out, time_ms);
    String::from_utf8(out).expect("ASCII")
}

fn parse(name: &str, pairs: &[(&str, &str)], site: &SiteFacts) -> Result<Query, QuestionError> {
    let zone = &site.zone;
    let views = |subject| {
        let pairs = pairs.iter().copied();
        Question::parse_with_goals(subject, pairs, zone, NOW_MS, &site.goals).map(Query::Views)
    };
    let zones = |_: &str| {
        let variants = ["default", "x"].map(str::to_owned).to_vec();
        vec![PublishedZone {
            zone: "hero".to_owned(),
            nested: false,
            rules: Vec::new(),
            comparable: true,
            variants,
        }]
    };
    match name {
        "overview" => views(Subject::Overview),
        "top" => views(Subject::Top),
        "zones" => ZonesQuestion::parse(pairs.iter().copied(), zones, zone, NOW_MS).map(Query::Zones),
        "funnel" => FunnelQuestion::parse(pairs, zone, NOW_MS, &site.goals)
            .map(|question| Query::Journey(JourneyQuestion::Funnel(question))),
        "retention" => RetentionQuestion::parse(pairs, zone, NOW_MS, &site.goals)
            .map(|question| Query::Journey(JourneyQuestion::Retention(question))),
        "paths" => PathsQuestion::parse(pairs, zone, NOW_MS)
            .map(|question| Query::Journey(JourneyQuestion::Paths(question))),
        _ => EngagementQuestion::parse(pairs, zone, NOW_MS)
            .map(|question| Query::Journey(JourneyQuestion::Engagement(question))),
    }
}

fn asked(name: &str, pairs: &[(&str, &str)], site: &SiteFacts) -> Result<AskedQuery, QuestionError> {
    let default = if name == "overview" { "previous" } else { "none" };
    AskedQuery::parse_with(pairs, default, &site.zone, NOW_MS, |pairs| parse(name, pairs, site))
}

/// Replaces the parameters by those that the question has.
fn own_params<'p>(name: &str, pairs: Pairs<'p>) -> Pairs<'p> {
    let is_own = |(param, value): &(&str, &str)| {
        let is_taken = match *param {
            "by" => matches!(name, "overview" | "engagement"),
            "page" => !matches!(name, "paths" | "zones"),
            "of" | "contains" => name == "top",
            "limit" => !matches!(name, "retention" | "engagement"),
            _ => true,
        };
        is_taken && !value.is_empty()
    };
    let own: &[(&str, &str)] = match name {
        "overview" => &[("goal", "order"), ("goal", "offers")],
        "funnel" => &[("step", "page:/"), ("step", "page:/*"), ("step", "Order Placed"), ("by", "source")],
        "retention" => &[("by", "day"), ("return", "page:/")],
        "paths" | "zones" => &[("page", "/")],
        _ => &[],
    };
    pairs.into_iter().filter(is_own).chain(own.iter().copied()).collect()
}

struct Asker<'a> {
    name: &'a str,
    site: &'a SiteFacts,
    files: &'a [&'a Columns],
}

impl Asker<'_> {
    fn over(&self, query: &Query) -> Answer {
        let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &|| false };
        answer_over(self.files, CountedLog::alone(9), query, self.site, NOW_MS, &limits).expect("an answer")
    }

    /// Asks for one range alone.
    fn alone(&self, pairs: &[(&str, &str)], from: &str, to: &str) -> Answer {
        let others = pairs.iter().copied().filter(|(name, _)| !["from", "to"].contains(name));
        let pairs: Pairs<'_> = others.chain([("from", from), ("to", to)]).collect();
        self.over(&parse(self.name, &pairs, self.site).expect("a question"))
    }
}

/// Returns an answer without its time and the members that all ranges share.
fn numbers(document: &Value) -> Value {
    let mut numbers = document.clone();
    let members = numbers.as_object_mut().expect("an object");
    members.retain(|name, _| {
        !["seq", "timeZone", "since", "took", "unknown", "elapsed", "compared"].contains(&name.as_str())
    });
    numbers
}

/// Returns the rows of the range alone for the values of `rows`, and the number of its other values.
fn listed_rows(rows: &Value, alone: &Value) -> (Vec<Value>, usize) {
    let of_alone: HashMap<String, &Value> =
        alone["rows"].as_array().expect("rows").iter().map(|row| (row["value"].to_string(), row)).collect();
    let rows: Vec<Value> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let zero = json!({"value": row["value"], "views": 0, "events": 0, "visitors": 0, "visits": 0});
            of_alone.get(&row["value"].to_string()).copied().cloned().unwrap_or(zero)
        })
        .collect();
    let found = rows.iter().filter(|row| of_alone.contains_key(&row["value"].to_string())).count();
    (rows, of_alone.len() - found)
}

fn lines_of<'a>(answer: &'a Answer, period: &str) -> Vec<&'a [Cell]> {
    let period = Cell::Text(Some(period.to_owned()));
    let lines = answer.lines.iter().filter(|line| line.last() == Some(&period));
    lines.map(|line| &line[..line.len() - 1]).collect()
}

/// Compares one range of an answer with the answer about this range alone.
fn check_period(
    asker: &Asker<'_>,
    pairs: &[(&str, &str)],
    answer: &Answer,
    period: &str,
) -> Result<(), TestCaseError> {
    let of_period = &answer.document[period];
    let (from, to) = (of_period["from"].as_str().expect("from"), of_period["to"].as_str().expect("to"));
    if asker.name != "top" {
        let alone = asker.alone(pairs, from, to);
        prop_assert_eq!(&numbers(of_period), &numbers(&alone.document), "{} {}", asker.name, period);
        prop_assert_eq!(lines_of(answer, period), alone.lines.iter().map(Vec::as_slice).collect::<Vec<_>>());
        return Ok(());
    }
    let others = pairs.iter().copied().filter(|(name, _)| *name != "limit");
    let pairs: Pairs<'_> = others.chain([("limit", "10000")]).collect();
    let alone = asker.alone(&pairs, from, to).document;
    let (rows, more) = listed_rows(&answer.document["rows"], &alone);
    prop_assert_eq!(&of_period["rows"], &json!(rows), "{}", period);
    prop_assert_eq!(&of_period["more"], &json!(more));
    prop_assert_eq!(&of_period["total"], &alone["total"]);
    prop_assert_eq!(&of_period["sql"], &alone["sql"]);
    prop_assert_eq!(lines_of(answer, period).len(), rows.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_numbers_of_a_compared_range_are_those_of_asking_for_it_alone(
        events in proptest::collection::vec(any_event(), 0..120),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        params in any_params(),
        name in select(QUESTIONS.to_vec()),
        compared in prop_oneof![
            Just(None),
            (0..14_i64, 1..14_i64, 0..24_i64).prop_map(Some),
        ],
        // The clock goes forward or back at 02:00 on a day of the events.
        clock_change in select(vec![None, Some((5, 7_200)), Some((5, 0)), Some((9, 5_400))]),
    ) {
        let change = clock_change.map(|(day, offset_s)| ((START_MS + day * DAY_MS + HOUR_MS) / 1_000, offset_s));
        let site = site(change);
        let compare = compared.map_or("previous".to_owned(), |(day, days, hour)| {
            format!("2026-01-{:02}T{hour:02}:00..2026-01-{:02}", 1 + day, 2 + day + days)
        });
        let pairs = params.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let pairs = own_params(name, pairs);
        let all: Pairs<'_> = pairs.iter().copied().chain([("compare", compare.as_str())]).collect();
        let files = columns_with_goals(&site.goals, &events, &lengths);
        let files: Vec<&Columns> = files.iter().collect();
        let asker = Asker { name, site: &site, files: &files };
        let query = parse(name, &pairs, &site).expect("a question");
        let answer = asked(name, &all, &site).expect("a question").answer(|query| Ok::<_, ()>(asker.over(query)));
        let answer = answer.expect("an answer");
        prop_assert_eq!(numbers(&answer.document), numbers(&asker.over(&query).document));
        prop_assert_eq!(answer.header.last(), Some(&"period"));

        let times = pairs.iter().copied().filter(|(name, _)| ["from", "to"].contains(name));
        let range = Question::parse(Subject::Overview, times, &site.zone, NOW_MS).expect("a range").range;
        let comparison = site.zone.comparison(&range, NOW_MS);
        let is_cut = compared.is_none() && comparison.range != range;
        if compared.is_none() && comparison.range.is_empty() {
            prop_assert_eq!(&answer.document["compared"], &Value::Null);
            prop_assert!(answer.document.get("elapsed").is_none());
            return Ok(());
        }
        if compared.is_none() {
            let of_compared = &answer.document["compared"];
            prop_assert_eq!(&of_compared["from"], &json!(text(comparison.before.start)));
            prop_assert_eq!(&of_compared["to"], &json!(text(comparison.before.end)));
        }
        prop_assert_eq!(answer.document.get("elapsed").is_some(), is_cut);
        if is_cut {
            prop_assert_eq!(&answer.document["elapsed"]["to"], &json!(text(comparison.range.end)));
            check_period(&asker, &pairs, &answer, "elapsed")?;
        }
        check_period(&asker, &pairs, &answer, "compared")?;
    }
}

#[test]
fn a_range_without_a_full_hour_or_an_earlier_time_has_no_period_before() {
    let site = site(None);
    let asker = Asker { name: "overview", site: &site, files: &[] };
    let compared = |from: &str, to: &str| {
        let asked = asked("overview", &[("from", from), ("to", to)], &site).expect("a question");
        let answer = asked.answer(|query| Ok::<_, ()>(asker.over(query))).expect("an answer");
        (answer.document["compared"]["from"].clone(), answer.document.get("elapsed").is_some())
    };
    let hour = NOW_MS / HOUR_MS * HOUR_MS;
    let end = text(NOW_MS + DAY_MS);
    assert_eq!(compared(&text(hour), &end), (Value::Null, false));
    assert!(compared(&text(hour - 1), &end).1);
    assert_eq!(compared(&text(NOW_MS + DAY_MS), &text(NOW_MS + 2 * DAY_MS)), (Value::Null, false));
    assert_eq!(compared("0000-01-01", "0000-01-02").0, Value::Null);
    assert_eq!(compared("0000-01-02T06:00", "0000-01-05T06:00").0, json!(text(TIME_MS_MIN)));
}

#[test]
fn the_rows_of_a_compared_list_are_the_values_of_the_range() {
    let site = site(None);
    let on =
        |day: i64, path: &'static str| Event { path: Some(path), ..Event::page(START_MS + day * DAY_MS) };
    // In the first week `/b` is the last of three pages, and `/new` is not among them.
    let first = [on(0, "/a"), on(0, "/a"), on(1, "/a"), on(1, "/c"), on(1, "/c"), on(2, "/b")];
    let second = [on(7, "/b"), on(7, "/b"), on(8, "/b"), on(8, "/new"), on(8, "/new"), on(9, "/a")];
    let events = [&first[..], &second].concat();
    let files = columns_with_goals(&site.goals, &events, &[]);
    let files: Vec<&Columns> = files.iter().collect();
    let asker = Asker { name: "top", site: &site, files: &files };
    let pairs = [
        ("of", "page"),
        ("limit", "2"),
        ("from", "2026-01-12"),
        ("to", "2026-01-15"),
        ("compare", "2026-01-05..2026-01-12"),
    ];
    let answer =
        asked("top", &pairs, &site).expect("a question").answer(|query| Ok::<_, ()>(asker.over(query)));
    let answer = answer.expect("an answer");
    let views = |document: &Value| -> Vec<Value> {
        document["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| json!([row["value"], row["views"]]))
            .collect()
    };
    assert_eq!(views(&answer.document), [json!(["/b", 3]), json!(["/new", 2])]);
    assert_eq!(views(&answer.document["compared"]), [json!(["/b", 1]), json!(["/new", 0])]);
    assert_eq!([&answer.document["more"], &answer.document["compared"]["more"]], [&json!(1), &json!(2)]);
    assert_eq!(answer.document["compared"]["total"]["views"], 6);
    let csv = "value,views,events,visitors,visits,period\r\n/b,3,0,1,2,range\r\n/new,2,0,1,1,range\r\n\
               /b,1,0,1,1,compared\r\n/new,0,0,0,0,compared\r\n";
    assert_eq!(answer.to_csv(), csv);
}

#[test]
fn a_compared_list_has_a_third_of_the_rows_and_bytes_of_a_list() {
    let site = site(None);
    let limit = |limit: usize, compare: &str| {
        let limit = limit.to_string();
        let pairs = [("of", "page"), ("limit", &*limit), ("compare", compare)];
        asked("top", &pairs, &site).map(|_| ()).map_err(|error| (error.param, error.kind.code))
    };
    for compare in ["previous", "2026-01-01..2026-01-02"] {
        assert_eq!(limit(COMPARED_LIMIT_MAX - 1, compare), Ok(()));
        assert_eq!(limit(COMPARED_LIMIT_MAX, compare), Ok(()));
        assert_eq!(limit(COMPARED_LIMIT_MAX + 1, compare), Err(("limit".to_owned(), "invalid_limit")));
    }
    assert_eq!(limit(LIMIT_MAX, "none"), Ok(()));
    const { assert!(3 * COMPARED_LIMIT_MAX <= LIMIT_MAX) };

    let path = |number: usize, bytes: usize| -> &'static str {
        format!("/{number:06}{}", "x".repeat(bytes - 7)).leak()
    };
    let (full, rest) = (LIST_BYTES_MAX / 3 / 1_024, LIST_BYTES_MAX / 3 % 1_024);
    for (last_bytes, rows) in [(rest - 1, full + 1), (rest, full + 1), (rest + 1, full)] {
        let paths = (0..full).map(|number| path(number, 1_024)).chain([path(full, last_bytes)]);
        let on = |path| Event { path: Some(path), ..Event::page(NOW_MS - DAY_MS) };
        let files = columns_with_goals(&site.goals, &paths.map(on).collect::<Vec<_>>(), &[]);
        let files: Vec<&Columns> = files.iter().collect();
        let asker = Asker { name: "top", site: &site, files: &files };
        let pairs = [("of", "page"), ("limit", "3000"), ("compare", "previous")];
        let asked = asked("top", &pairs, &site).expect("a question");
        let document = asked.answer(|query| Ok::<_, ()>(asker.over(query))).expect("an answer").document;
        for listed in [&document, &document["compared"], &document["elapsed"]] {
            assert_eq!(listed["rows"].as_array().expect("rows").len(), rows, "{last_bytes}");
        }
    }
}

/// Returns the status, the parameter and the sentence of a refused question.
fn refused(server: &Server, question: &str) -> (u16, Value, String) {
    let response = server.admin_get(&format!("/insights/{question}"));
    let problem = response.json();
    (response.status, problem["param"].clone(), problem["detail"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn wrong_comparisons_are_refused() {
    let server = Server::demo();
    let forms = "'none', 'previous', or two times with '..' between them, such as '2026-01-05..2026-01-12'";
    let date = "a date or a time, such as '2026-01-05' or '2026-01-05T10:00'";
    for (question, expected) in [
        ("overview?site=fjell&compare=before", forms),
        ("top?of=page&site=fjell&compare=2026-01-05", forms),
        ("retention?site=fjell&compare=..2026-01-05", date),
        ("retention?site=fjell&compare=2026-01-05..", date),
        ("engagement?site=fjell&compare=2026-01-05..monday", date),
        (
            "paths?page=/&site=fjell&compare=2026-01-05..2026-01-05",
            "a range whose first time is before the second one",
        ),
        (
            "zones?page=/&site=fjell&compare=2026-01-06..2026-01-05",
            "a range whose first time is before the second one",
        ),
        (
            "experiment?key=cta-colour&site=fjell&compare=previous",
            "'none', because an experiment compares its arms",
        ),
        ("holdout?site=fjell&compare=previous", "'none', because an experiment compares its arms"),
        ("experiments?site=fjell&compare=previous", "'none', because each experiment has its own range"),
        (
            "live?site=fjell&compare=previous",
            "'none', because a live answer is always about the last 30 minutes",
        ),
    ] {
        let (status, param, detail) = refused(&server, question);
        assert_eq!((status, &param), (400, &json!("compare")), "{question}");
        assert!(detail.contains(expected), "{question}: {detail}");
    }
    for (question, param) in [
        ("overview?site=fjell&compare=none&compare=none", "compare"),
        ("funnel?step=page:/&step=page:/a&site=fjell&compare=previous&compare=none", "compare"),
        ("top?of=page&limit=3001&site=fjell&compare=previous", "limit"),
        ("overview?of=page&limit=101&site=fjell&compare=none", "limit"),
        // A series of the compared range has more than 10,000 hours.
        ("overview?by=hour&site=fjell&compare=2020-01-01..2026-01-01", "by"),
        ("retention?by=day&site=fjell&compare=2020-01-01..2026-01-01", "by"),
    ] {
        let (status, found, detail) = refused(&server, question);
        assert_eq!((status, found), (400, json!(param)), "{question}: {detail}");
    }
    for question in [
        "live?site=fjell&compare=none",
        "experiments?site=fjell&compare=",
        "top?of=page&site=fjell&compare=none",
    ] {
        assert_eq!(ask(&server, question)["compared"], Value::Null, "{question}");
    }
}

#[test]
fn a_comparison_has_both_queries_one_position_in_the_log_and_one_tag() {
    let server = Server::demo();
    send(&mut Client::to(server.edge), &[page("a", "/"), page("b", "/a")]);
    let document = ask(&server, "overview?site=fjell&of=page&of=source&compare=previous");
    for answer in [&document, &document["lists"][0], &document["lists"][1]] {
        for range in [answer, &answer["elapsed"], &answer["compared"]] {
            if range.is_null() {
                continue;
            }
            let instant = range["from"].as_str().expect("a time").trim_end_matches('Z').replace('T', " ");
            assert!(range["sql"].as_str().expect("SQL").contains(&instant[..10]), "{range}");
            assert!(range["took"]["rows"].is_number());
        }
        assert!(answer["compared"].get("seq").is_none() && answer["compared"].get("timeZone").is_none());
    }
    // The lists of an overview are compared only if the question names it.
    let document = ask(&server, "overview?site=fjell&of=page");
    assert!(document.get("compared").is_some() && document["lists"][0].get("compared").is_none());
    let none = ask(&server, "overview?site=fjell&compare=none");
    assert!(none.get("compared").is_none() && none.get("elapsed").is_none());

    let tag = |question: &str| {
        let response = server.admin_get(&format!("/insights/{question}"));
        response.field("etag").expect("a tag").to_owned()
    };
    let range = "top?of=page&site=fjell&from=2026-01-05&to=2026-01-06";
    assert_eq!(
        tag(&format!("{range}&compare=previous")),
        tag(&format!("{range}&compare=2026-01-04..2026-01-05"))
    );
    assert_ne!(tag(&format!("{range}&compare=previous")), tag(range));
    assert_eq!(tag(&format!("{range}&compare=none")), tag(range));
}

#[test]
fn a_table_is_compared_only_if_the_question_names_it() {
    let server = Server::demo();
    let csv = |question: &str| {
        Client::to(server.admin)
            .request("GET", &format!("/insights/{question}"), &[("Accept", "text/csv")])
            .text()
            .to_owned()
    };
    let range = "overview?site=fjell&from=2026-03-28&to=2026-03-30";
    assert_eq!(csv(range).lines().count(), 3);
    assert!(!csv(range).contains("period"));
    let compared = csv(&format!("{range}&compare=2026-03-01..2026-03-02"));
    let lines: Vec<&str> = compared.lines().collect();
    assert_eq!(lines[0], "t,time,visitors,visits,views,events,period");
    assert_eq!(lines[1].rsplit(',').next(), Some("range"));
    assert!(lines[3].contains(",2026-03-01T00:00:00") && lines[3].ends_with(",compared"), "{compared}");
    assert_eq!(lines.len(), 4);
}
