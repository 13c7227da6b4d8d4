//! Experiments that the server knows: phases, weights, the split among the arms, published metrics, and the list.

use parallax::testing::insights::{
    Columns, CountedLog, ExperimentsQuestion, KnownExperiment, Limits, Places, PublishedExperiment, Query,
    Zone, answer_over,
};
use parallax::testing::site::catalog::phases::{Coverage, Phase, PhaseArm};
use parallax::testing::site::snapshot::format::{Guardrail, Metrics};
use serde_json::{Value, json};

use super::Event;
use super::experiments::{
    HOUR_MS, START_MS, ask_columns, columns, exposure, order, parse_known, site, told_apart, unknown,
    visitors,
};
use super::oracle::DAY_MS;

/// Enough memory for one pass.
pub(super) const MEMORY_BYTES: u64 = 1 << 30;

/// Returns a phase that begins after these hours, with the arms and their weights.
pub(super) fn phase(hours: i64, arms: &[(&str, f64)]) -> Phase {
    let arm = |(key, weight): &(&str, f64)| PhaseArm { key: (*key).to_owned(), weight: *weight };
    Phase {
        arms: arms.iter().map(arm).collect(),
        seed: "cta".to_owned(),
        holdout: 0.0,
        coverages: vec![Coverage { from_ms: START_MS + hours * HOUR_MS, share: 1.0 }],
        to_ms: None,
    }
}

pub(super) fn halves(hours: i64) -> Phase {
    phase(hours, &[("default", 0.5), ("b", 0.5)])
}

/// Returns the published experiment `cta` with these phases.
pub(super) fn known(phases: Vec<Phase>) -> KnownExperiment {
    let guardrail = Guardrail { goal: "Refund".to_owned(), margin: 0.1, lower_is_better: true };
    let metrics = Metrics {
        goal: Some("Order Placed".to_owned()),
        value: Some("properties.revenue".to_owned()),
        currency: None,
        cap: None,
        guardrails: vec![guardrail],
        planned: Some(20_000),
        window: Some("14d".to_owned()),
        segments: Vec::new(),
    };
    let published = PublishedExperiment { definition: halves(0), from_ms: None, winner: None, metrics };
    KnownExperiment {
        key: "cta".to_owned(),
        published: Some(published),
        phases,
        ..KnownExperiment::default()
    }
}

pub(super) fn ask(known: &KnownExperiment, events: &[Event], query: &str) -> Value {
    let question = parse_known(&format!("key=cta{query}"), |_| known.clone()).expect("a question");
    ask_columns(&columns(events, 1_000), &question, MEMORY_BYTES).expect("an answer")
}

/// Returns an exposure of each of so many visitors to each arm.
pub(super) fn exposures(hours: i64, arms: &[(&'static str, usize)]) -> Vec<Event> {
    let of_arm = |(text, count): &(&'static str, usize)| {
        let text = *text;
        visitors(text, *count).into_iter().map(move |visitor| exposure(visitor, hours, text))
    };
    arms.iter().flat_map(of_arm).collect()
}

#[test]
fn an_uneven_split_is_an_alarm_and_an_even_one_is_none() {
    let known = known(vec![halves(0)]);
    let even = ask(&known, &exposures(1, &[("cta:default", 300), ("cta:b", 310)]), "");
    assert_eq!((&even["srm"]["alarm"], &even["srmReason"]), (&json!(false), &Value::Null));
    assert_eq!(even["alarms"], json!([]));
    let arms = json!([{"key": "default", "weight": 0.5, "exposed": 300}, {"key": "b", "weight": 0.5, "exposed": 310}]);
    assert_eq!(even["arms"], arms);
    let uneven = ask(&known, &exposures(1, &[("cta:default", 300), ("cta:b", 500)]), "");
    assert_eq!((&uneven["srm"]["alarm"], &uneven["alarms"]), (&json!(true), &json!(["srm"])));
    assert!(
        uneven["srm"]["bayesFactor"].as_f64() > Some(1_000.0) && uneven["srm"]["p"].as_f64() < Some(0.001)
    );
}

#[test]
fn the_split_is_tested_against_the_hash_numbers_of_the_coverage_at_the_first_exposure() {
    // At a coverage of 0.0002 the arms have 1 and 2 of the ten thousand numbers.
    let mut ramp = phase(0, &[("default", 0.25), ("b", 0.75)]);
    ramp.coverages[0].share = 0.0002;
    ramp.coverages.push(Coverage { from_ms: START_MS + 48 * HOUR_MS, share: 1.0 });
    let known = known(vec![ramp]);
    let at = |hours: i64, of_default: usize| {
        [("cta:default", of_default), ("cta:b", 3_000 - of_default)].into_iter().flat_map(
            move |(text, count)| {
                let visitors = visitors(&format!("{hours}{text}"), count).into_iter();
                visitors.map(move |visitor| exposure(visitor, hours, text))
            },
        )
    };
    for (events, is_alarm) in [
        (at(1, 1_000).collect::<Vec<_>>(), false),
        (at(1, 750).collect(), true),
        (at(50, 750).collect(), false),
        (at(50, 1_000).collect(), true),
        (at(1, 1_000).chain(at(50, 750)).collect(), false),
        (at(1, 1_000).chain(at(50, 1_000)).collect(), true),
    ] {
        let answer = ask(&known, &events, "");
        assert_eq!(answer["srm"]["alarm"], is_alarm, "{}", answer["srm"]);
        let list = list(vec![(known.clone(), Places::default())], &events, MEMORY_BYTES);
        assert_eq!(list[0]["alarms"], if is_alarm { json!(["srm"]) } else { json!([]) });
    }
}

#[test]
fn an_arm_that_nobody_sees_is_part_of_the_split() {
    let answer = ask(&known(vec![halves(0)]), &exposures(1, &[("cta:default", 60)]), "");
    assert_eq!(answer["arms"][1], json!({"key": "b", "weight": 0.5, "exposed": 0}));
    assert_eq!(answer["alarms"], json!(["srm"]));
}

#[test]
fn weights_are_shares_of_the_coverage_and_the_holdout_has_none() {
    let thirds = phase(0, &[("default", 1.0 / 3.0), ("b", 2.0 / 3.0)]);
    let events = exposures(1, &[("cta:default", 100), ("cta:b", 200), ("cta:~", 400)]);
    let answer = ask(&known(vec![thirds]), &events, "");
    let weight = |arm: usize| answer["arms"][arm]["weight"].as_f64().expect("a weight");
    assert!((weight(0) - 1.0 / 3.0).abs() < 1e-9 && (weight(1) - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!((&answer["alarms"], &answer["holdout"]["exposed"]), (&json!([]), &json!(400)));
    assert_eq!(answer["phases"][0]["from"], "2026-01-05T00:00:00.000Z");
}

#[test]
fn an_arm_without_a_weight_is_an_alarm_and_no_part_of_the_split() {
    let known = known(vec![halves(0)]);
    for (forged, alarms) in [(1, json!([])), (9, json!([])), (10, json!(["zero_weight"]))] {
        let events = exposures(1, &[("cta:default", 100), ("cta:b", 100), ("cta:forged", forged)]);
        let answer = ask(&known, &events, "");
        assert_eq!(answer["alarms"], alarms, "{forged}");
        assert_eq!(answer["arms"].as_array().map(Vec::len), Some(2));
        let others = json!({"exposed": forged, "arms": [{"key": "forged", "exposed": forged}]});
        assert_eq!(answer["otherArms"], others);
        assert_eq!(answer["srm"]["alarm"], false);
        let list = list(vec![(known.clone(), Places::default())], &events, MEMORY_BYTES);
        assert_eq!([&list[0]["exposed"], &list[0]["otherArms"]["exposed"]], [&json!(200), &json!(forged)]);
        assert_eq!(list[0]["alarms"], alarms);
    }
}

#[test]
fn without_visitors_the_split_is_unknown_and_no_arm_has_a_change() {
    let known = known(vec![halves(0)]);
    let answer = ask(&known, &[], "");
    assert_eq!((&answer["srm"], &answer["srmReason"]), (&Value::Null, &json!("no_visitors")));
    let events = exposures(1, &[("cta:default", 9)]);
    let events: Vec<Event> = events.into_iter().chain([order(Some("cta:default0"), None, 2, "5")]).collect();
    let answer = ask(&known, &events, "");
    for metric in answer["metrics"].as_array().expect("metrics") {
        assert_eq!(metric["against"][0]["estimate"], Value::Null);
    }
}

#[test]
fn the_weight_of_an_arm_is_never_a_negative_zero() {
    let nobody = phase(0, &[]);
    let one = phase(0, &[("default", 1.0), ("b", 0.0)]);
    for phase in [nobody, one] {
        let answer = ask(&known(vec![phase]), &exposures(1, &[("cta:default", 3)]), "");
        assert!(!answer.to_string().contains("-0.0"), "{answer}");
    }
}

#[test]
fn without_a_phase_at_the_begin_of_the_range_the_weights_are_unknown() {
    let events = exposures(1, &[("cta:default", 60)]);
    for (known, query) in
        [(known(Vec::new()), ""), (known(vec![halves(0)]), "&from=2026-01-04"), (unknown("cta"), "")]
    {
        let answer = ask(&known, &events, query);
        assert_eq!((&answer["srm"], &answer["srmReason"]), (&Value::Null, &json!("weights_unknown")));
        assert_eq!((&answer["arms"][0]["weight"], &answer["alarms"]), (&Value::Null, &json!([])));
    }
}

#[test]
fn a_change_of_the_phase_in_the_range_is_an_alarm_and_ends_the_test_of_the_split() {
    let known = known(vec![halves(0), phase(48, &[("default", 0.1), ("c", 0.9)])]);
    let events = exposures(1, &[("cta:default", 5), ("cta:c", 60)]);
    let answer = ask(&known, &events, "&from=2026-01-05&to=2026-01-08");
    assert_eq!(answer["alarms"], json!(["phase_changed"]));
    assert_eq!((&answer["srm"], &answer["srmReason"]), (&Value::Null, &json!("phase_changed")));
    let keys: Vec<&Value> = answer["arms"].as_array().expect("arms").iter().map(|arm| &arm["key"]).collect();
    assert_eq!(keys, ["default", "b", "c"]);
    // The range that ends with the phase has one phase.
    let before = ask(&known, &events, "&from=2026-01-05&to=2026-01-07");
    assert_eq!(before["alarms"], json!(["zero_weight"]));
    assert_eq!(before["phases"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_range_begins_with_the_newest_phase_and_leaves_out_visitors_of_the_phase_before() {
    let known = known(vec![halves(0), halves(48)]);
    let events = [exposure("a", 47, "cta:b"), exposure("a", 49, "cta:default"), exposure("b", 48, "cta:b")];
    let answer = ask(&known, &events, "");
    assert_eq!(answer["from"], "2026-01-07T00:00:00.000Z");
    assert_eq!([&answer["earlier"], &answer["both"]], [&json!(1), &json!(0)]);
    assert_eq!((&answer["arms"][1]["exposed"], &answer["exploratory"]), (&json!(1), &json!(false)));
    // A range that ends before the newest phase begins with the phase before it.
    assert_eq!(ask(&known, &events, "&to=2026-01-06")["from"], "2026-01-05T00:00:00.000Z");
}

#[test]
fn the_published_metrics_are_the_defaults_and_parameters_replace_them() {
    let known = known(vec![halves(0)]);
    let metrics = |query: &str| {
        let answer = ask(&known, &[], query);
        let metrics = answer["metrics"].as_array().expect("metrics").iter();
        let metrics =
            metrics.map(|metric| json!([metric["role"], metric["goal"], metric["value"], metric["margin"]]));
        (metrics.collect::<Value>(), answer["exploratory"].clone())
    };
    let goal = json!(["goal", "Order Placed", null, null]);
    let value = json!(["value", "Order Placed", "properties.revenue", null]);
    let guardrail = json!(["guardrail", "Refund", null, 0.1]);
    assert_eq!(metrics(""), (json!([goal, value, guardrail]), json!(false)));
    assert_eq!(metrics("&more=Signup").0[2], json!(["more", "Signup", null, null]));
    // The value belongs to the published goal.
    assert_eq!(metrics("&goal=Signup"), (json!([["goal", "Signup", null, null], guardrail]), json!(true)));
    assert_eq!(
        metrics("&value=properties.total").0[1],
        json!(["value", "Order Placed", "properties.total", null])
    );
    assert_eq!(metrics("&guardrail=Crash:0.5").0[2], json!(["guardrail", "Crash", null, 0.5]));
    let none = ask(&unknown("cta"), &exposures(1, &[("cta:b", 1)]), "");
    assert_eq!(
        [&none["metrics"], &none["exploratory"], &none["published"]],
        [&json!([]), &json!(false), &json!(false)]
    );
}

#[test]
fn an_answer_to_other_choices_is_exploratory() {
    let known = known(vec![halves(0)]);
    for (query, is_exploratory) in [
        (
            "&goal=Order Placed&value=properties.revenue&guardrail=Refund:0.1:lower&planned=20000&window=336h",
            false,
        ),
        ("&goal=event:Order Placed&more=Signup&by=hour&lift=0.1&to=2026-01-09&baseline=default", false),
        ("&from=2026-01-05&alpha=0.05&method=anytime", false),
        ("&goal=Signup", true),
        ("&value=properties.total", true),
        ("&guardrail=Refund:0.1", true),
        ("&planned=20001", true),
        ("&window=13d", true),
        ("&cap=10", true),
        ("&alpha=0.04", true),
        ("&method=fixed", true),
        ("&baseline=b", true),
        ("&from=2026-01-06", true),
        ("&bots=include", true),
        ("&country=DE", true),
    ] {
        assert_eq!(ask(&known, &[], query)["exploratory"], json!(is_exploratory), "{query}");
    }
}

#[test]
fn the_published_window_and_the_planned_number_count() {
    let known = known(vec![halves(0)]);
    let mut events = told_apart();
    events.push(exposure("late", 0, "cta:b"));
    events.push(order(Some("late"), None, 14 * 24, "5"));
    let answer = ask(&known, &events, "");
    let converted = |answer: &Value| answer["metrics"][0]["arms"][1]["converted"].clone();
    assert_eq!(converted(&answer), json!(120));
    let longer = ask(&known, &events, "&window=1209601s");
    assert_eq!(converted(&longer), json!(121));
    let other = ask(&known, &events, "&planned=2000");
    assert_ne!(answer["metrics"][0]["against"][0]["low"], other["metrics"][0]["against"][0]["low"]);
}

#[test]
fn the_series_counts_first_exposures_by_bucket_and_arm() {
    let known = known(vec![halves(0)]);
    let events = [
        exposure("a", 1, "cta:b"),
        exposure("a", 30, "cta:b"),
        exposure("b", 30, "cta:b"),
        exposure("c", 31, "cta:default"),
        exposure("d", 31, "cta:~"),
    ];
    let days = ask(&known, &events, "&to=2026-01-08");
    let start_s = START_MS / 1_000;
    assert_eq!(days["series"]["t"], json!([start_s, start_s + 86_400, start_s + 2 * 86_400]));
    assert_eq!(days["series"]["exposed"], json!({"default": [0, 1, 0], "b": [1, 1, 0]}));
    let weeks = ask(&known, &events, "&by=week&to=2026-01-08");
    assert_eq!(weeks["series"], json!({"t": [start_s], "exposed": {"default": [1], "b": [2]}}));
}

#[test]
fn the_days_left_follow_the_smallest_arm() {
    let known = known(vec![halves(0)]);
    // 400 visitors of each arm since the first hour, 20 days before now, and a baseline rate of 10 %.
    let events = told_apart();
    let left = |query: &str| ask(&known, &events, query)["daysLeft"].clone();
    assert_eq!(left(""), Value::Null);
    // The formula of the issue: 14,751 visitors for a lift of 10 % with a power of 0.8, times 2.40.
    let needed = parallax::testing::insights::statistics::sample_size::visitors_per_arm(
        &parallax::testing::insights::statistics::sample_size::Target {
            rate: 0.1,
            lift: 0.1,
            alpha: 0.05,
            power: 0.8,
        },
        parallax::testing::insights::statistics::difference::Method::Anytime { planned: 20_000 },
    )
    .expect("a number");
    let per_day = 400.0 * DAY_MS as f64 / (20 * DAY_MS - HOUR_MS) as f64;
    let expected = ((needed - 400) as f64 / per_day).ceil() as u64;
    assert_eq!(left("&lift=0.1"), json!(expected));
    assert!(left("&lift=0.1&power=0.5").as_u64() < Some(expected));
    assert_eq!(left("&lift=10"), Value::Null, "a rate above 1 cannot be reached");
    assert_eq!(left("&lift=2&goal=Nothing"), Value::Null);
    // An arm without a weight is not waited for.
    let mut forged = events.clone();
    forged.push(exposure("f", 1, "cta:forged"));
    assert_eq!(ask(&known, &forged, "&lift=0.1")["daysLeft"], json!(expected));
}

#[test]
fn filters_keep_the_visitors_whose_first_exposure_passes() {
    let event = |visitor: &'static str, hours: i64, country: &'static str, path: &'static str| Event {
        country: Some(country),
        path: Some(path),
        ..exposure(visitor, hours, "cta:b")
    };
    let begin = Event { experiments: None, touch: [Some("news"), None, None], ..exposure("a", 0, "") };
    let visit = Event { time_ms: START_MS + HOUR_MS - 20 * 60_000, ..begin };
    let events = [
        visit,
        event("a", 1, "DE", "/a"),
        event("a", 2, "NO", "/b"),
        event("b", 1, "NO", "/a"),
        event("b", 2, "DE", "/a"),
        // Two arms, the first in NO.
        event("c", 1, "NO", "/b"),
        Event { experiments: Some("cta:default"), ..event("c", 2, "DE", "/b") },
        event("early", -1, "DE", "/a"),
        event("early", 1, "NO", "/a"),
    ];
    let known = known(vec![halves(0)]);
    let counts = |query: &str| {
        let answer = ask(&known, &events, query);
        json!([answer["arms"][1]["exposed"], answer["both"], answer["earlier"]])
    };
    assert_eq!(counts(""), json!([2, 1, 1]));
    assert_eq!(counts("&country=DE"), json!([1, 0, 1]));
    assert_eq!(counts("&country=NO"), json!([1, 1, 0]));
    assert_eq!(counts("&country=DE&country=NO"), json!([2, 1, 1]));
    assert_eq!(counts("&country=NO&page=/a"), json!([1, 0, 0]));
    // The visit of the first exposure of `a` began 20 minutes before it.
    assert_eq!(counts("&source=news"), json!([1, 0, 0]));
    assert_eq!(counts("&source=(direct)"), json!([1, 1, 1]));
    assert_eq!(counts("&campaign=spring"), json!([0, 0, 0]));
}

/// Returns the list over the events.
pub(super) fn list(known: Vec<(KnownExperiment, Places)>, events: &[Event], memory_bytes: u64) -> Value {
    let now_ms = START_MS + 20 * DAY_MS;
    let question =
        ExperimentsQuestion::parse([].into_iter(), &Zone::utc(), now_ms, known, false).expect("a question");
    let files = columns(events, 100);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes, is_over: &|| false };
    let answer =
        answer_over(&files, CountedLog::alone(9), &Query::Experiments(question), &site(), now_ms, &limits);
    answer.expect("an answer").document["experiments"].clone()
}

#[test]
fn the_list_counts_each_experiment_over_its_newest_phase() {
    let places =
        Places { routes: vec!["/".to_owned()], zones: ["hero".to_owned()].into(), ..Places::default() };
    let other =
        KnownExperiment { key: "old".to_owned(), phases: vec![halves(0)], ..KnownExperiment::default() };
    let mut events =
        exposures(50, &[("cta:default", 90), ("cta:b", 10), ("cta:~", 3), ("cta:b,old:default", 7)]);
    events.extend([exposure("x", 47, "cta:b"), exposure("x", 60, "cta:default"), exposure("y", 51, "cta:b")]);
    events.push(exposure("y", 52, "cta:default"));
    for memory_bytes in [MEMORY_BYTES, 2_000] {
        let known =
            vec![(known(vec![halves(0), halves(48)]), places.clone()), (other.clone(), Places::default())];
        let list = list(known, &events, memory_bytes);
        let expected = json!({
            "key": "cta", "published": true, "routes": ["/"], "moreRoutes": 0, "zones": ["hero"],
            "arms": [{"key": "default", "weight": 0.5}, {"key": "b", "weight": 0.5}], "coverage": 1.0, "holdout": 0.0,
            "goal": "Order Placed", "value": "properties.revenue", "cap": null,
            "guardrails": [{"goal": "Refund", "margin": 0.1, "lowerIsBetter": true}], "planned": 20_000, "window": "14d",
            "standing": "running", "from": null, "to": null, "winner": null,
            "phase": "2026-01-07T00:00:00.000Z", "firstExposure": "2026-01-07T02:00:00.000Z",
            "lastExposure": "2026-01-07T12:00:00.000Z", "exposed": 107, "otherArms": {"exposed": 0}, "both": 1, "alarms": ["srm"],
        });
        assert_eq!(list[0], expected);
        let numbers = ["published", "exposed", "both", "alarms", "goal"].map(|name| &list[1][name]);
        assert_eq!(numbers, [&json!(false), &json!(7), &json!(0), &json!([]), &Value::Null]);
    }
}
