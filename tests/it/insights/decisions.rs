//! The limit of the values of visitors, the sentence that decides, and filters with values that no event has.

use parallax::testing::insights::KnownExperiment;
use parallax::testing::site::snapshot::format::Metrics;
use serde_json::{Value, json};

use super::Event;
use super::experiments::{ask_columns, columns, exposure, order, parse_known, visitors};
use super::split::{MEMORY_BYTES, ask, exposures, halves, known, phase};
use crate::dice::Dice;
use crate::harness::times;

#[test]
fn one_forged_order_does_not_decide_the_result() {
    let known = known(vec![halves(0)]);
    let mut events = Vec::new();
    for (arm, buyers, revenue) in [("cta:default", 200, 10), ("cta:b", 400, 10)] {
        for (number, visitor) in visitors(arm, 1_000).into_iter().enumerate() {
            events.push(exposure(visitor, 1, arm));
            if number < buyers {
                events.push(order(Some(visitor), None, 2, &(revenue + number % 3).to_string()));
            }
        }
    }
    let value = |events: &[Event], query: &str| ask(&known, events, query)["metrics"][1].clone();
    assert_eq!(value(&events, "")["against"][0]["verdict"], "better");
    events.push(order(Some("cta:default0"), None, 3, "9999999"));
    let capped = value(&events, "");
    assert_eq!(capped["against"][0]["verdict"], "better");
    let members = ["cap", "capRule", "capped"].map(|name| &capped[name]);
    assert_eq!(members, [&json!(12.0), &json!("p99"), &json!(1)]);
    let sums =
        ["sum", "uncappedSum", "valued"].map(|name| capped["arms"][0][name].as_f64().expect("a number"));
    assert_eq!(sums[1] - sums[0], 9_999_999.0 + 10.0 - 12.0);
    assert_eq!(sums[2], 200.0);
    for memory_bytes in [2_000, 20_000] {
        let question = parse_known("key=cta", |_| known.clone()).expect("a question");
        let answer = ask_columns(&columns(&events, 1_000), &question, memory_bytes).expect("an answer");
        assert_eq!(answer["metrics"][1], capped, "{memory_bytes}");
    }
    let uncapped = value(&events, "&cap=none");
    assert_ne!(uncapped["against"][0]["verdict"], "better");
    assert_eq!((&uncapped["cap"], &uncapped["capRule"]), (&Value::Null, &json!("none")));
}

#[test]
fn the_largest_value_never_sets_its_own_limit() {
    let known = known(vec![halves(0)]);
    // Orders of 1, 2, and so on, and the limit of each quantile.
    for (orders, cap, limit) in [
        (0, "p99", None),
        (1, "p99", None),
        (2, "p99", Some(1.0)),
        (3, "p99", Some(2.0)),
        (100, "p99", Some(99.0)),
        (101, "p99", Some(100.0)),
        (200, "p99", Some(198.0)),
        (200, "p99.9", Some(199.0)),
        (100, "p50", Some(50.0)),
        (100, "p50.5", Some(51.0)),
    ] {
        let mut events = exposures(1, &[("cta:b", orders), ("cta:~", 1)]);
        let names: Vec<&str> = events.iter().filter_map(|event| event.anon_id).collect();
        events.extend((0..orders).map(|at| order(Some(names[at]), None, 2, &format!("-{}", at + 1))));
        // The holdout sets no limit, and is limited.
        events.push(order(Some("cta:~0"), None, 2, "5000"));
        for memory_bytes in [MEMORY_BYTES, 1_000] {
            let question = parse_known(&format!("key=cta&cap={cap}"), |_| known.clone()).expect("a question");
            let answer = ask_columns(&columns(&events, 50), &question, memory_bytes).expect("an answer");
            let value = &answer["metrics"][1];
            assert_eq!(value["cap"], json!(limit), "{orders} {cap}");
            assert_eq!(value["holdout"]["sum"], json!(limit.unwrap_or(5_000.0)));
        }
    }
}

#[test]
fn a_published_cap_is_the_default_and_another_one_is_exploratory() {
    let mut known = known(vec![halves(0)]);
    let asked = |known: &KnownExperiment, query: &str| {
        let answer = ask(known, &[], query);
        json!([answer["metrics"][1]["capRule"], answer["exploratory"]])
    };
    assert_eq!(asked(&known, ""), json!(["p99", false]));
    assert_eq!(asked(&known, "&cap=p99.0"), json!(["p99", false]));
    assert_eq!(asked(&known, "&cap=none"), json!(["none", true]));
    known.published.as_mut().expect("published").metrics.cap = Some("250.5".to_owned());
    assert_eq!(asked(&known, ""), json!(["250.5", false]));
    assert_eq!(asked(&known, "&cap=p99"), json!(["p99", true]));
}

/// Returns the decision over so many visitors and buyers of `default` and `b`, and a refund of each of so many of them.
fn decide(known: &KnownExperiment, arms: [(usize, usize, usize); 2], query: &str) -> Value {
    let mut events = Vec::new();
    for (arm, (exposed, buyers, refunds)) in ["cta:default", "cta:b"].into_iter().zip(arms) {
        for (number, visitor) in visitors(arm, exposed).into_iter().enumerate() {
            events.push(exposure(visitor, 1, arm));
            if number < buyers {
                events.push(order(Some(visitor), None, 2, "10"));
            }
            if number < refunds {
                events.push(Event { event: Some("Refund"), ..order(Some(visitor), None, 2, "0") });
            }
        }
    }
    ask(known, &events, query)["decision"].clone()
}

#[test]
fn one_sentence_decides() {
    let running = known(vec![halves(0)]);
    let ended = KnownExperiment { published: None, ..running.clone() };
    for (arms, query, action, reason, arm) in [
        ([(500, 50, 50), (500, 150, 50)], "", "choose", "better", "b"),
        ([(500, 150, 50), (500, 50, 50)], "", "choose", "worse", "default"),
        ([(500, 50, 50), (500, 150, 250)], "", "choose", "harmed", "default"),
        ([(500, 50, 50), (500, 51, 50)], "", "go_on", "not_told_apart", ""),
        ([(500, 50, 50), (500, 51, 50)], "&lift=0.2", "go_on", "not_told_apart", ""),
        ([(500, 50, 50), (500, 51, 50)], "&lift=0.001", "cannot_decide", "too_long", ""),
        ([(500, 50, 50), (500, 51, 50)], "&lift=5", "choose", "equal", "default"),
        ([(99, 50, 50), (99, 80, 50)], "", "go_on", "too_early", ""),
        // The guardrail is too early.
        ([(500, 50, 0), (500, 150, 0)], "", "go_on", "too_early", ""),
        ([(500, 50, 50), (500, 51, 50)], "&to=2026-01-20", "cannot_decide", "ended", ""),
        ([(500, 50, 50), (900, 300, 50)], "", "cannot_decide", "alarm", ""),
        ([(500, 50, 50), (500, 150, 50)], "&alpha=0.01", "cannot_decide", "exploratory", ""),
        ([(0, 0, 0), (0, 0, 0)], "", "cannot_decide", "no_visitors", ""),
    ] {
        let decision = decide(&running, arms, query);
        let arm = if arm.is_empty() { Value::Null } else { json!(arm) };
        assert_eq!(
            json!([decision["action"], decision["reason"], decision["arm"]]),
            json!([action, reason, arm]),
            "{decision}"
        );
        let begin = match action {
            "choose" => "Stop and choose ",
            "go_on" => "Go on, ",
            _ => "Cannot be decided, because ",
        };
        assert!(
            decision["sentence"].as_str().is_some_and(|sentence| sentence.starts_with(begin)),
            "{decision}"
        );
        assert_eq!(decision["days"].is_u64(), action == "go_on" && query.contains("lift"), "{decision}");
    }
    assert_eq!(decide(&ended, [(500, 50, 50), (500, 150, 50)], "")["reason"], "not_running");
    let mut without_goal = running;
    without_goal.published.as_mut().expect("published").metrics = Metrics::default();
    assert_eq!(decide(&without_goal, [(500, 50, 50), (500, 150, 50)], "")["reason"], "no_goal");
}

#[test]
fn of_two_better_arms_the_sentence_chooses_the_larger_change() {
    let thirds = phase(0, &[("default", 1.0 / 3.0), ("b", 1.0 / 3.0), ("c", 1.0 / 3.0)]);
    let mut known = known(vec![thirds]);
    known.published.as_mut().expect("published").metrics.guardrails.clear();
    let mut events = exposures(1, &[("cta:default", 500), ("cta:b", 500), ("cta:c", 500)]);
    for (arm, buyers) in [("cta:default", 50), ("cta:b", 200), ("cta:c", 300)] {
        events.extend(visitors(arm, buyers).into_iter().map(|visitor| order(Some(visitor), None, 2, "10")));
    }
    let decision = &ask(&known, &events, "")["decision"];
    assert_eq!((&decision["action"], &decision["arm"]), (&json!("choose"), &json!("c")));
    assert!(decision["sentence"].as_str().is_some_and(|text| text.contains("not compared")), "{decision}");
}

#[test]
fn no_sentence_contradicts_its_numbers() {
    let known = known(vec![halves(0)]);
    let mut dice = Dice(39);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..times(150, 3_000) {
        let mut arm = || {
            let exposed = *dice.pick(&[0, 50, 99, 100, 300, 400]);
            (exposed, dice.below(exposed + 1), dice.below(exposed + 1))
        };
        let arms = [arm(), arm()];
        let query = *dice.pick(&["", "&lift=0.2", "&lift=3", "&to=2026-01-20", "&method=fixed"]);
        let mut events = Vec::new();
        for (arm, (exposed, buyers, refunds)) in ["cta:default", "cta:b"].into_iter().zip(arms) {
            events.extend(exposures(1, &[(arm, exposed)]));
            let some = |count| visitors(arm, count).into_iter();
            events.extend(some(buyers).map(|visitor| order(Some(visitor), None, 2, "10")));
            let refund = |visitor| Event { event: Some("Refund"), ..order(Some(visitor), None, 2, "0") };
            events.extend(some(refunds).map(refund));
        }
        let answer = ask(&known, &events, query);
        let (decision, metrics) = (&answer["decision"], &answer["metrics"]);
        let verdict = |metric: usize| metrics[metric]["against"][0]["verdict"].as_str().unwrap_or_default();
        let has_alarm = answer["alarms"] != json!([]);
        seen.insert(decision["reason"].as_str().expect("a reason").to_owned());
        match decision["action"].as_str().expect("an action") {
            "choose" => {
                assert!(!has_alarm && answer["exploratory"] == json!(false), "{answer}");
                // Harm is certain, also if the goal is too early.
                assert!(verdict(0) != "too_early" || decision["reason"] == "harmed", "{answer}");
                if decision["arm"] == "b" {
                    assert_eq!(verdict(0), "better", "{answer}");
                    assert!(
                        verdict(1) != "worse" && !["harmed", "too_early"].contains(&verdict(2)),
                        "{answer}"
                    );
                } else {
                    let is_kept =
                        verdict(0) == "worse" || verdict(2) == "harmed" || answer["daysLeft"] == json!(0);
                    assert!(is_kept, "{answer}");
                }
            }
            "go_on" => {
                assert!(!has_alarm && decision["days"] != json!(0), "{answer}");
                assert!(decision["days"].is_null() || decision["days"] == answer["daysLeft"], "{answer}");
            }
            action => assert!(action == "cannot_decide" && decision["arm"].is_null(), "{answer}"),
        }
    }
    assert!(seen.len() >= 6, "{seen:?}");
}

#[test]
fn values_that_no_event_has_are_named() {
    let known = known(vec![halves(0)]);
    let event = Event {
        country: Some("DE"),
        path: Some("/a"),
        touch: [Some("news"), None, None],
        ..exposure("a", 1, "cta:b")
    };
    let events = [event, order(Some("a"), None, 2, "5")];
    let query =
        "&country=DE&country=Germany&page=/a&page=/b&source=news&source=(direct)&source=nws&campaign=spring";
    let unknown = json!([
        {"filter": "page", "value": "/b"},
        {"filter": "source", "value": "nws"},
        {"filter": "campaign", "value": "spring"},
        {"filter": "country", "value": "Germany"},
        {"filter": "more", "value": "page:/thanks"},
        {"filter": "guardrail", "value": "Refund"},
    ]);
    assert_eq!(ask(&known, &events, &format!("{query}&more=page:/thanks"))["unknown"], unknown);
    let known_values = "&guardrail=Order Placed:0.1&more=page:/a&country=DE";
    assert_eq!(ask(&known, &events, known_values)["unknown"], Value::Null);
}
