//! The limits of a question about an experiment: arms, memory, and time.

use std::cell::Cell;
use std::time::Instant;

use parallax::testing::insights::{
    COLUMN_TEXTS_MAX, Columns, CountedLog, KnownExperiment, Limits, PublishedExperiment, Query, ScanError,
    UNKNOWN_ARMS_MAX, answer_over,
};
use parallax::testing::record::RecordKind;
use parallax::testing::site::catalog::phases::{Coverage, Phase, PhaseArm};
use parallax::testing::site::snapshot::format::Metrics;
use serde_json::{Value, json};

use super::Event;
use super::experiments::{
    START_MS, ask_columns, columns, exposure, order, parse_known, site, told_apart, unknown,
};

const MEMORY_BYTES: u64 = 1 << 30;

fn leak(text: String) -> &'static str {
    text.leak()
}

fn known_arm(arm: &str) -> KnownExperiment {
    let arms = vec![PhaseArm { key: arm.to_owned(), weight: 1.0 }];
    let coverages = vec![Coverage { from_ms: 0, share: 1.0 }];
    let definition = Phase { arms, seed: "cta".to_owned(), holdout: 0.0, coverages, to_ms: None };
    let published =
        PublishedExperiment { definition, from_ms: None, winner: None, metrics: Metrics::default() };
    KnownExperiment { key: "cta".to_owned(), published: Some(published), ..KnownExperiment::default() }
}

fn ask(events: &[Event], query: &str, memory_bytes: u64) -> Result<Value, ScanError> {
    let question = parse_known(&format!("key=cta&from=2026-01-05&{query}"), unknown).expect("a question");
    ask_columns(&columns(events, 100_000), &question, memory_bytes)
}

#[test]
fn arms_that_only_events_name_are_bounded_and_the_rest_is_counted() {
    let forged = |number: usize| exposure(leak(format!("v{number}")), 1, leak(format!("cta:forged{number}")));
    for (arms, rest) in [(UNKNOWN_ARMS_MAX - 1, 0), (UNKNOWN_ARMS_MAX, 0), (UNKNOWN_ARMS_MAX + 1, 1)] {
        let mut events: Vec<Event> = (0..arms).map(forged).collect();
        // The published arm is found after all forged ones, and a forged one is seen by a second visitor.
        events.extend([exposure("last", 2, "cta:default"), exposure("again", 2, "cta:forged0")]);
        let question = parse_known("key=cta&from=2026-01-05", |_| known_arm("default")).expect("a question");
        for memory_bytes in [MEMORY_BYTES, 1_000] {
            let answer = ask_columns(&columns(&events, 20), &question, memory_bytes).expect("an answer");
            let named = answer["arms"].as_array().expect("arms");
            assert_eq!(*named, [json!({"key": "default", "weight": null, "exposed": 1})]);
            let others = answer["otherArms"]["arms"].as_array().expect("arms");
            assert_eq!(others.len(), arms.min(UNKNOWN_ARMS_MAX));
            let forged0 = others.iter().find(|arm| arm["key"] == "forged0");
            assert_eq!(forged0.map(|arm| &arm["exposed"]), Some(&json!(2)));
            let exposed = arms.min(UNKNOWN_ARMS_MAX) + 1 + rest;
            assert_eq!((&answer["otherArms"]["exposed"], &answer["both"]), (&json!(exposed), &json!(0)));
        }
    }
}

#[test]
fn a_visitor_of_two_arms_beyond_the_named_ones_is_one_of_both() {
    let mut events: Vec<Event> = (0..UNKNOWN_ARMS_MAX)
        .map(|number| exposure(leak(format!("v{number}")), 1, leak(format!("cta:forged{number}"))))
        .collect();
    events.extend([exposure("x", 2, "cta:one"), exposure("x", 3, "cta:two"), exposure("y", 2, "cta:one")]);
    events.push(exposure("y", 4, "cta:one"));
    // The arms of the first file are the named ones.
    let files = columns(&events, UNKNOWN_ARMS_MAX);
    let question = parse_known("key=cta&from=2026-01-05", unknown).expect("a question");
    let answer = ask_columns(&files, &question, MEMORY_BYTES).expect("an answer");
    assert_eq!((&answer["otherArms"]["exposed"], &answer["both"]), (&json!(1), &json!(1)));
}

#[test]
fn a_question_stays_within_its_memory_or_is_too_large() {
    let events = told_apart();
    let query = "goal=Order Placed&value=properties.revenue";
    let without_time = |answer: Value| {
        let mut answer = answer;
        answer.as_object_mut().expect("an object").remove("took");
        answer
    };
    let expected = without_time(ask(&events, query, MEMORY_BYTES).expect("an answer"));
    let passed = |memory_bytes| ask(&events, query, memory_bytes).map(without_time);
    for memory_bytes in [40_000, 4_000, 1_000] {
        assert_eq!(passed(memory_bytes).expect("an answer"), expected);
    }
    assert!(matches!(passed(10), Err(ScanError::TooLarge)));
    // The events of one visitor cannot be divided.
    let one: Vec<Event> = (0..1_000).map(|_| exposure("v", 1, "cta:b")).collect();
    assert!(matches!(ask(&one, "", 10_000), Err(ScanError::TooLarge)));
    assert!(ask(&one, "", 100_000).is_ok());
}

#[test]
fn the_ties_of_a_question_count_as_its_memory_and_its_sources_take_none() {
    let tie = |number: usize| Event {
        kind: RecordKind::Identify,
        user_id: Some("u"),
        experiments: None,
        ..exposure(leak(format!("v{number}")), 1, "")
    };
    let mut events: Vec<Event> = (0..2_000).map(tie).collect();
    events.push(exposure("v7", 2, "cta:b"));
    assert!(ask(&events, "goal=x", 10_000).is_ok(), "no event is of a user alone, so no tie is needed");
    events.push(order(None, Some("u"), 3, "1"));
    assert!(ask(&events, "goal=x", MEMORY_BYTES).is_ok());
    // All devices of one user are in each part.
    assert!(matches!(ask(&events, "goal=x", 10_000), Err(ScanError::TooLarge)));
    let source = |number: usize| Event {
        touch: [Some(leak(format!("source{number}"))), None, None],
        ..exposure("v", 1, "cta:b")
    };
    let events: Vec<Event> = (0..100).map(source).collect();
    assert!(ask(&events, "source=source7", 8_000).is_ok());
}

#[test]
fn an_unknown_key_is_refused_unless_a_kept_event_names_it() {
    let refused = |events: &[Event]| match ask(events, "", MEMORY_BYTES) {
        Err(ScanError::Refused(error)) => Some((error.param, error.kind.code)),
        _ => None,
    };
    assert_eq!(refused(&[exposure("v", 1, "other:b")]), Some(("key".to_owned(), "invalid_param")));
    let elsewhere = Event { site: "other", ..exposure("v", 1, "cta:b") };
    assert_eq!(refused(&[elsewhere]), Some(("key".to_owned(), "invalid_param")));
    // Events outside of the range and of crawlers are kept events too.
    assert_eq!(refused(&[exposure("v", -900, "cta:b")]), None);
    assert_eq!(refused(&[Event { bot: true, ..exposure("v", 1, "cta:b") }]), None);
}

#[test]
fn the_time_is_looked_at_in_each_block_and_before_each_comparison() {
    let events = told_apart();
    let files = columns(&events, 100_000);
    let files: Vec<&Columns> = files.iter().collect();
    let question =
        parse_known("key=cta&from=2026-01-05&goal=Order Placed&more=x", unknown).expect("a question");
    let query = Query::Experiment(Box::new(question));
    let run = |looks: usize| {
        let seen = Cell::new(0);
        let is_over = || {
            seen.set(seen.get() + 1);
            seen.get() > looks
        };
        let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &is_over };
        let answer = answer_over(&files, CountedLog::alone(9), &query, &site(), START_MS, &limits);
        (matches!(answer, Err(ScanError::TooExpensive)), seen.get())
    };
    let (is_over, looks) = run(usize::MAX);
    // One block, two metrics, and one file in which the texts of the goals are searched.
    assert_eq!((is_over, looks), (false, 4));
    for allowed in 0..looks {
        assert_eq!(run(allowed), (true, allowed + 1));
    }
}

/// Returns how long a question about orders of these events takes.
fn seconds(events: &[Event]) -> f64 {
    let (files, question) =
        (columns(events, 100_000), parse_known("key=cta&from=2026-01-05&goal=Order Placed", unknown));
    let question = question.expect("a question");
    let began = Instant::now();
    ask_columns(&files, &question, MEMORY_BYTES).expect("an answer");
    began.elapsed().as_secs_f64()
}

#[test]
fn a_user_with_very_many_ties_costs_no_more_than_many_users() {
    let tie = |visitor: &'static str, user: &'static str| Event {
        kind: RecordKind::Identify,
        user_id: Some(user),
        experiments: None,
        ..exposure(visitor, 1, "")
    };
    // Each device is tied to the user, and then to another one. So no tie of the user lasts.
    let log = |count: usize, is_hostile: bool| {
        let user = |number: usize| if is_hostile { "u" } else { leak(format!("u{number}")) };
        let mut events = vec![exposure("a", 0, "cta:b")];
        for number in 0..count {
            let visitor = leak(format!("v{number}"));
            events.extend([tie(visitor, user(number)), tie(visitor, leak(format!("w{number}")))]);
        }
        events.extend((0..count).map(|number| order(None, Some(user(number)), 2, "1")));
        events
    };
    let (hostile, harmless) = (seconds(&log(30_000, true)), seconds(&log(30_000, false)));
    assert!(hostile < 10.0 * harmless.max(0.05), "{hostile} s, and {harmless} s with many users");
}

#[test]
fn texts_beyond_the_dictionaries_are_reported() {
    let mut events: Vec<Event> = (0..COLUMN_TEXTS_MAX)
        .map(|number| Event {
            site: "other",
            event: Some(leak(format!("e{number}"))),
            ..Event::page(START_MS)
        })
        .collect();
    events.push(exposure("v", 1, "cta:b"));
    events.push(order(Some("v"), None, 2, "1"));
    let answer = ask(&events, "goal=Order Placed", MEMORY_BYTES).expect("an answer");
    assert_eq!(answer["other"], json!({"event": 1}));
    let mut events: Vec<Event> = (0..COLUMN_TEXTS_MAX)
        .map(|number| Event { site: "other", ..exposure("v", 1, leak(format!("k:a{number}"))) })
        .collect();
    events.extend([exposure("v", 1, "cta:b"), exposure("v", -1, "k:a1")]);
    let question = parse_known("key=cta&from=2026-01-05", |_| known_arm("b")).expect("a question");
    let answer = ask_columns(&columns(&events, 100_000), &question, MEMORY_BYTES).expect("an answer");
    assert_eq!(answer["other"], json!({"experiments": 1}));
    let mut events: Vec<Event> = (0..COLUMN_TEXTS_MAX)
        .map(|number| Event { site: leak(format!("s{number}")), ..exposure("v", 1, "cta:b") })
        .collect();
    events.extend([exposure("v", 1, "cta:b"), exposure("w", -900, "cta:b")]);
    let answer = ask_columns(&columns(&events, 100_000), &question, MEMORY_BYTES).expect("an answer");
    assert_eq!(answer["other"], json!({"site": 1}));
}

#[test]
fn the_twenty_values_with_the_most_visitors_are_listed_and_the_others_are_one_segment() {
    for (values, listed, others) in [(19, 19, None), (20, 20, None), (21, 20, Some(1)), (23, 20, Some(3))] {
        // The value `s0` has the most visitors. Of the others, which have one each, the first ones by their texts are listed.
        let visitor = |number: usize| Event {
            touch: [Some(leak(format!("s{:02}", number.saturating_sub(3)))), None, None],
            ..exposure(leak(format!("v{number}")), 1, ["cta:default", "cta:b"][number % 2])
        };
        let events: Vec<Event> = (0..values + 3).map(visitor).collect();
        let answer = ask(&events, "by=segment:source&goal=Order Placed", MEMORY_BYTES).expect("an answer");
        let [source] = &answer["segments"].as_array().expect("segments")[..] else { panic!("one dimension") };
        let names: Vec<&str> = source["values"]
            .as_array()
            .expect("values")
            .iter()
            .filter_map(|one| one["value"].as_str())
            .collect();
        let expected: Vec<String> = (0..listed).map(|number| format!("s{number:02}")).collect();
        assert_eq!(names, expected);
        assert_eq!(source["values"][0]["exposed"], 4);
        assert_eq!(source["others"]["values"].as_u64(), others);
        assert_eq!(source["others"]["exposed"].as_u64(), others);
        let per_part = ask(&events, "by=segment:source&goal=Order Placed", 2_000).expect("an answer");
        assert_eq!(per_part["segments"], answer["segments"], "a small memory gives the same segments");
    }
}

#[test]
fn values_of_segments_that_take_more_than_their_memory_are_too_large() {
    // A value takes 160 bytes and its text.
    let visitor = |number: usize| Event {
        touch: [Some(leak(format!("{number:0840}"))), None, None],
        ..exposure(leak(format!("v{number}")), 1, "cta:b")
    };
    let events: Vec<Event> = (0..1_049).map(visitor).collect();
    // The value `(direct)` takes 168 bytes.
    let [below, above] = [1_048, 1_049].map(|count| ask(&events[..count], "by=segment:source", 1_000_000));
    let below = below.expect("an answer");
    assert_eq!(below["segments"][0]["others"]["values"], 1_028);
    assert!(matches!(above, Err(ScanError::TooLarge)));
}
