//! The behaviour before the first exposure: its time, its order in the log, and its effect on the answer.

use parallax::testing::record::RecordKind;
use serde_json::{Value, json};

use super::Event;
use super::experiments::{HOUR_MS, START_MS, ask_columns, columns, exposure, order, parse_known, unknown};

const DAY_HOURS: i64 = 24;

/// Returns the answer over events in files of at most 300 rows.
fn ask(events: &[Event], query: &str) -> Value {
    let query = format!("key=cta&from=2026-01-05&to=2026-01-20&{query}");
    let question = parse_known(&query, unknown).expect("a question");
    ask_columns(&columns(events, 300), &question, 1 << 30).expect("an answer")
}

/// Returns the number of active visitors, and the sum of the values before the exposures, of the first arm in the last metric.
fn before(events: &[Event]) -> Value {
    let answer = ask(events, "goal=Order Placed&value=properties.revenue&cap=none");
    let before = &answer["metrics"][1]["arms"][0]["before"];
    json!([before["active"], before["sum"]])
}

fn page(visitor: &'static str, time_ms: i64) -> Event {
    Event { anon_id: Some(visitor), ..Event::page(time_ms) }
}

fn sign_in(visitor: &'static str, user: &'static str, hours: i64) -> Event {
    Event {
        kind: RecordKind::Identify,
        user_id: Some(user),
        experiments: None,
        ..exposure(visitor, hours, "")
    }
}

#[test]
fn an_event_counts_as_before_the_exposure_in_the_fourteen_days_before_it() {
    let first_ms = START_MS + HOUR_MS;
    let begin_ms = first_ms - 14 * 24 * HOUR_MS;
    for (time_ms, active) in
        [(begin_ms - 1, 0), (begin_ms, 1), (begin_ms + 1, 1), (first_ms - 1, 1), (first_ms, 0)]
    {
        let events = [page("a", time_ms), exposure("a", 1, "cta:b")];
        assert_eq!(before(&events)[0], active, "{}", time_ms - first_ms);
    }
    let kinds = [(RecordKind::Track, 1), (RecordKind::Screen, 1), (RecordKind::Identify, 0)];
    for (kind, active) in kinds {
        let event = Event { kind, event: Some("x"), ..page("a", START_MS) };
        assert_eq!(before(&[event, exposure("a", 1, "cta:b")])[0], active, "{kind:?}");
    }
}

#[test]
fn an_event_that_arrives_after_the_exposure_does_not_count() {
    let early = order(Some("a"), None, 0, "5");
    assert_eq!(before(&[early.clone(), exposure("a", 1, "cta:b")]), json!([1, 5.0]));
    assert_eq!(before(&[exposure("a", 1, "cta:b"), early.clone()]), json!([0, 0.0]));
    // The first exposure by time is the second one in the log.
    let events = [exposure("a", 2, "cta:b"), early, exposure("a", 1, "cta:b")];
    assert_eq!(before(&events), json!([1, 5.0]));
}

#[test]
fn an_order_of_a_user_counts_only_if_its_tie_is_before_it() {
    let order = || order(None, Some("u"), 0, "5");
    let exposure = || exposure("a", 1, "cta:b");
    assert_eq!(before(&[sign_in("a", "u", -1), order(), exposure()]), json!([1, 5.0]));
    assert_eq!(before(&[order(), exposure(), sign_in("a", "u", 2)]), json!([0, 0.0]));
    assert_eq!(before(&[order(), sign_in("a", "u", 0), exposure()]), json!([0, 0.0]));
}

#[test]
fn the_limit_of_the_values_also_limits_the_values_before_the_exposure() {
    let events = [
        order(Some("a"), None, 0, "50"),
        exposure("a", 1, "cta:b"),
        order(Some("a"), None, 2, "7"),
        exposure("c", 1, "cta:b"),
        order(Some("c"), None, 2, "3"),
    ];
    for (cap, sum, before) in [("none", 10.0, 50.0), ("4", 7.0, 4.0), ("p99", 6.0, 3.0)] {
        let answer = ask(&events, &format!("goal=Order Placed&value=properties.revenue&cap={cap}"));
        let arm = &answer["metrics"][1]["arms"][0];
        assert_eq!([&arm["sum"], &arm["before"]["sum"]], [&json!(sum), &json!(before)], "{cap}");
        let share = &answer["metrics"][0]["arms"][0];
        assert_eq!([&share["sum"], &share["before"]["sum"]], [&json!(2.0), &json!(1.0)], "{cap}");
    }
}

/// Returns the events of 400 visitors in two arms. About every third one was active before its exposure, and half of these
/// ordered then.
fn experiment() -> Vec<Event> {
    let visitors = (0..400).map(|number| (number, &*Box::leak(format!("v{number}").into_boxed_str())));
    let events = visitors.flat_map(|(number, visitor)| {
        let arm = if number % 2 == 0 { "cta:default" } else { "cta:b" };
        let active = number % 3 == 0 || number % 34 == 1;
        let ordered = active && number / 6 % 2 == 0;
        let buys = if ordered { number % 5 < 3 } else { number % 7 == 0 };
        [
            active.then(|| page(visitor, START_MS - 3 * DAY_HOURS * HOUR_MS)),
            ordered.then(|| order(Some(visitor), None, -30, "10")),
            Some(exposure(visitor, 1, arm)),
            buys.then(|| order(Some(visitor), None, 2, "12")),
        ]
    });
    events.flatten().collect()
}

#[test]
fn an_arm_that_only_causes_sign_ins_and_late_events_shows_no_effect() {
    let events = experiment();
    let query = "goal=Order Placed&value=properties.revenue";
    let sound = ask(&events, query);
    assert!(sound["metrics"][0]["against"][0]["cuped"].is_object(), "{}", sound["metrics"]);
    let late = (1..400).step_by(2).flat_map(|number| {
        let leak = |text: String| &*Box::leak(text.into_boxed_str());
        let (visitor, user) = (leak(format!("v{number}")), leak(format!("u{number}")));
        [sign_in(visitor, user, 3), order(Some(visitor), None, -20, "90"), page(visitor, START_MS - HOUR_MS)]
    });
    // Servers recorded these orders before the visitors signed in.
    let servers = (1..400).step_by(2).map(|number| {
        let user = Box::leak(format!("u{number}").into_boxed_str());
        order(None, Some(user), -10, "80")
    });
    let biased: Vec<Event> = servers.chain(events).chain(late).collect();
    assert_eq!(ask(&biased, query)["metrics"], sound["metrics"]);
}

#[test]
fn cuped_is_the_default_and_its_absence_is_exploratory() {
    let events = experiment();
    let query = "goal=Order Placed&value=properties.revenue";
    let answers = ["", "&cuped=auto", "&cuped=off"].map(|more| ask(&events, &format!("{query}{more}")));
    assert_eq!(answers[0]["metrics"], answers[1]["metrics"]);
    let against = answers.each_ref().map(|answer| &answer["metrics"][0]["against"][0]);
    assert_eq!(against[2]["cuped"], Value::Null);
    assert_eq!(answers[2]["metrics"][0]["arms"][0]["before"], Value::Null);
    for member in ["estimate", "low", "high"] {
        assert_eq!(against[0]["cuped"]["unadjusted"][member], against[2][member], "{member}");
        assert_ne!(against[0][member], against[2][member], "{member}");
    }
    let ratio = against[0]["cuped"]["varianceRatio"].as_f64().expect("a ratio");
    assert!(ratio > 0.0 && ratio < 1.0, "{ratio}");
    let widths = [0, 2].map(|at| {
        let end = |name: &str| against[at][name].as_f64().expect("an end");
        end("high") - end("low")
    });
    assert!(widths[0] < widths[1], "{widths:?}");
    let error = parse_known("key=cta&cuped=on", unknown).expect_err("no choice");
    assert_eq!(error, ("cuped".to_owned(), "invalid_param"));
}
