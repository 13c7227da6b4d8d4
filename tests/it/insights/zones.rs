//! Zones: the variants that a page showed, and the events that followed, compared with a naive count.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use parallax::testing::insights::{
    COLUMN_TEXTS_MAX, Columns, CountedLog, Limits, Query, QuestionError, ScanError, SiteFacts,
    ZONES_LIMIT_MAX, Zone, ZonesQuestion, answer_over,
};
use parallax::testing::record::RecordKind;
use parallax::testing::resolve::published_zones::PublishedZone;

use super::oracle::any_event;
use super::visitor_rule::visitor_of;
use super::{Event, columns};

const NOW_MS: i64 = 1_767_571_200_000 + 10 * 24 * 60 * 60_000;

fn published() -> Vec<PublishedZone> {
    let zone = |zone: &str, nested, variants: &[&str]| PublishedZone {
        zone: zone.to_owned(),
        nested,
        rules: Vec::new(),
        comparable: true,
        variants: variants.iter().map(|key| (*key).to_owned()).collect(),
    };
    vec![zone("hero", false, &["default", "x", "unseen"]), zone("inner", true, &["default", "b"])]
}

fn parse(params: &[(&str, &str)]) -> Result<ZonesQuestion, QuestionError> {
    let zones = |page: &str| if page == "/" { published() } else { Vec::new() };
    ZonesQuestion::parse(params.iter().copied(), zones, &Zone::utc(), NOW_MS)
}

fn ask(events: &[Event], question: &ZonesQuestion, lengths: &[usize], memory_bytes: u64) -> Value {
    try_ask(events, question, lengths, memory_bytes).expect("an answer")
}

fn try_ask(
    events: &[Event],
    question: &ZonesQuestion,
    lengths: &[usize],
    memory_bytes: u64,
) -> Result<Value, ScanError> {
    let site = SiteFacts::unpublished("acme");
    let files = columns(events, lengths);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes, is_over: &|| false };
    let query = Query::Zones(question.clone());
    answer_over(&files, CountedLog::alone(9), &query, &site, NOW_MS, &limits).map(|answer| answer.document)
}

/// The variant of a zone that a page event showed.
fn shown<'e>(variants: &'e str, zone: &str) -> &'e str {
    let mut pairs = variants.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.find(|(other, _)| *other == zone).map_or("default", |(_, key)| key)
}

/// Returns views, visitors, and the visitors of each event that followed.
fn naive(
    events: &[(&Event, String)],
    page: &str,
    zone: &str,
    key: &str,
) -> (usize, usize, BTreeMap<String, usize>) {
    let is_view = |(event, _): &&(&Event, String)| {
        event.kind == RecordKind::Page
            && event.path == Some(page)
            && event.variants.is_some_and(|variants| shown(variants, zone) == key)
    };
    let views: Vec<_> = events.iter().filter(is_view).collect();
    let visitors: BTreeSet<_> = views.iter().map(|(_, visitor)| visitor).collect();
    let mut followed = BTreeMap::<String, BTreeSet<_>>::new();
    let is_action = |event: &Event| matches!(event.kind, RecordKind::Track | RecordKind::Screen);
    for (event, visitor) in events.iter().filter(|(event, _)| is_action(event)) {
        let name = if event.kind == RecordKind::Screen { Some("screen") } else { event.event };
        let is_later = views.iter().any(|(view, viewer)| viewer == visitor && view.time_ms <= event.time_ms);
        if let Some(name) = name.filter(|_| is_later) {
            followed.entry(name.to_owned()).or_default().insert(visitor);
        }
    }
    (views.len(), visitors.len(), followed.into_iter().map(|(name, of)| (name, of.len())).collect())
}

/// Returns views, visitors and events of a variant of an answer.
fn found(variant: &Value) -> (usize, usize, BTreeMap<String, usize>) {
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let followed = variant["followed"].as_array().expect("events").iter();
    let followed =
        followed.map(|row| (row["event"].as_str().expect("a name").to_owned(), number(&row["visitors"])));
    (number(&variant["views"]), number(&variant["visitors"]), followed.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_number_of_zones_equals_a_naive_count(
        events in proptest::collection::vec(any_event(), 0..120),
        lengths in proptest::collection::vec(0..60_usize, 0..4),
        page in select(vec!["/", "/a"]),
        bots in select(vec!["", "include"]),
        days in (3..8_i64, 1..9_i64),
        memory_bytes in select(vec![1, 500, 1 << 30]),
    ) {
        let (from, to) = (format!("2026-01-{:02}", days.0), format!("2026-01-{:02}", days.0 + days.1));
        let params = [("page", page), ("bots", bots), ("from", &from), ("to", &to), ("limit", "9")];
        let question = parse(&params).expect("valid parameters");
        let answer = ask(&events, &question, &lengths, memory_bytes);
        let counted: Vec<(&Event, String)> = events.iter().enumerate().filter(|(_, event)| {
            event.site == "acme" && question.range.contains(&event.time_ms) && (question.bots || !event.bot)
        }).filter_map(|(at, event)| Some((event, visitor_of(&events, at)?))).collect();
        let zones = answer["zones"].as_array().expect("zones");
        // Every zone and key of the events is in the answer, or published.
        let in_events: BTreeSet<(&str, &str)> = counted.iter().map(|(event, _)| *event)
            .filter(|event| event.kind == RecordKind::Page && event.path == Some(page))
            .flat_map(|event| event.variants.unwrap_or_default().split(',').filter_map(|pair| pair.split_once(':')))
            .filter(|(_, key)| *key != "default").collect();
        let in_answer: BTreeSet<(&str, &str)> = zones.iter().flat_map(|zone| {
            let variants = zone["variants"].as_array().expect("variants").iter();
            variants.map(|variant| (zone["zone"].as_str().expect("a zone"), variant["key"].as_str().expect("a key")))
        }).collect();
        prop_assert!(in_events.is_subset(&in_answer), "{:?} {:?}", in_events, in_answer);
        for zone in zones {
            let name = zone["zone"].as_str().expect("a zone");
            let is_top = page == "/" && name == "hero";
            for variant in zone["variants"].as_array().expect("variants") {
                let key = variant["key"].as_str().expect("a key");
                if key == "default" && !is_top {
                    prop_assert_eq!(variant, &json!({"key": key, "views": null, "visitors": null, "followed": null, "more": null}));
                } else {
                    prop_assert_eq!(found(variant), naive(&counted, page, name, key), "{} {}", name, key);
                }
            }
        }
    }
}

#[test]
fn the_texts_of_a_page_take_an_eighth_of_the_memory_and_those_of_other_pages_none() {
    let forged = |path: &'static str| {
        let event = move |number: usize| Event {
            variants: Some(format!("z:k{number}").leak()),
            path: Some(path),
            ..Event::page(NOW_MS - 1_000)
        };
        (0..5_000).map(event).collect::<Vec<Event>>()
    };
    let question = parse(&[("page", "/")]).expect("valid parameters");
    let is_answered = |path, memory_bytes| match try_ask(&forged(path), &question, &[], memory_bytes) {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error, ScanError::TooLarge), "{error}");
            false
        }
    };
    assert!(is_answered("/", 64 << 20));
    assert!(!is_answered("/", 8 << 20));
    assert!(is_answered("/other", 8 << 20));
}

#[test]
fn the_rows_are_read_only_if_a_file_has_the_page_or_has_no_room_for_it() {
    let question = parse(&[("page", "/none")]).expect("valid parameters");
    let ask_with_paths = |paths: usize| {
        let event = |path: usize| Event {
            path: Some(format!("/{path}").leak()),
            variants: Some("z:k"),
            ..Event::page(NOW_MS - 1_000)
        };
        let events: Vec<Event> = (0..paths).map(event).collect();
        let answer = ask(&events, &question, &[], 1 << 30);
        (answer["took"]["rows"].as_u64().expect("a number") as usize, answer["other"]["path"].clone())
    };
    let full = COLUMN_TEXTS_MAX;
    assert_eq!(ask_with_paths(full - 1), (0, Value::Null));
    assert_eq!(ask_with_paths(full), (full, Value::Null));
    assert_eq!(ask_with_paths(full + 1), (full + 1, json!(1)));
}

#[test]
fn published_zones_come_first_and_lists_are_cut_at_their_limit() {
    let view = |variants: &'static str| Event { variants: Some(variants), ..Event::page(NOW_MS - 1_000) };
    let track = |event: &'static str| Event {
        kind: RecordKind::Track,
        event: Some(event),
        ..Event::page(NOW_MS - 500)
    };
    let events = [view("hero:x,z1:a"), view("hero:q,z2:b"), view("hero:r,z2:b"), track("One"), track("Two")];
    let question = parse(&[("page", "/"), ("limit", "1")]).expect("valid parameters");
    let answer = ask(&events, &question, &[], 1 << 30);
    let names = |list: &Value, member: &str| -> Vec<String> {
        list.as_array()
            .expect("a list")
            .iter()
            .map(|one| one[member].as_str().expect("a text").to_owned())
            .collect()
    };
    assert_eq!(names(&answer["zones"], "zone"), ["hero", "inner", "z2"]);
    assert_eq!(answer["more"], 1);
    let hero = &answer["zones"][0];
    assert_eq!(names(&hero["variants"], "key"), ["default", "x", "unseen", "q"]);
    assert_eq!(hero["more"], 1);
    assert_eq!(hero["variants"][1]["followed"], json!([{"event": "One", "visitors": 1}]));
    assert_eq!(hero["variants"][1]["more"], 1);
    assert_eq!(
        hero["variants"][2],
        json!({"key": "unseen", "views": 0, "visitors": 0, "followed": [], "more": 0})
    );
    assert_eq!(
        (&answer["zones"][2]["nested"], &answer["zones"][2]["comparable"]),
        (&json!(null), &json!(false))
    );
}

#[test]
fn wrong_parameters_of_zones_are_refused_by_name() {
    let long = (ZONES_LIMIT_MAX + 1).to_string();
    for limit in [1, ZONES_LIMIT_MAX - 1, ZONES_LIMIT_MAX] {
        let asked = parse(&[("page", "/"), ("limit", &limit.to_string())]).expect("a question");
        assert_eq!(asked.limit, limit);
    }
    for (params, param, code) in [
        (&[][..], "page", "invalid_param"),
        (&[("page", "")], "page", "invalid_param"),
        (&[("page", "/"), ("page", "/a")], "page", "repeated_param"),
        (&[("page", "/"), ("limit", "0")], "limit", "invalid_limit"),
        (&[("page", "/"), ("limit", &long)], "limit", "invalid_limit"),
        (&[("page", "/"), ("bots", "yes")], "bots", "invalid_param"),
        (&[("page", "/"), ("from", "today")], "from", "invalid_param"),
        (&[("page", "/"), ("to", "1970-01-01"), ("from", "1970-01-02")], "from", "invalid_param"),
    ] {
        let refused = parse(params).expect_err("a refusal");
        assert_eq!((&*refused.param, refused.kind.code), (param, code), "{params:?}");
    }
    let ignored = parse(&[("page", "/"), ("country", "DE"), ("of", "x"), ("by", "x")]).expect("a question");
    assert_eq!((ignored.page, ignored.limit), ("/".to_owned(), 10));
}
