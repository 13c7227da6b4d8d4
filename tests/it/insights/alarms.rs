//! The alarms about the exposures that stop, and about an arm that fails.

use parallax::testing::record::RecordKind;
use serde_json::{Value, json};

use super::Event;
use super::experiments::{HOUR_MS, START_MS};
use super::split::{ask, exposures, halves, known, list};

/// Returns a page view without an exposure.
fn page(hours: i64) -> Event {
    Event { anon_id: Some("other"), ..Event::page(START_MS + hours * HOUR_MS) }
}

fn has_alarm(answer: &Value, alarm: &str) -> bool {
    answer["alarms"].as_array().expect("alarms").contains(&json!(alarm))
}

#[test]
fn exposures_that_stop_while_pages_go_on_are_an_alarm() {
    // Twenty visitors on the first day.
    let shown = |hours| exposures(hours, &[("cta:default", 10), ("cta:b", 10)]);
    let stalled = |last_page: i64, change: &dyn Fn(&mut parallax::testing::insights::KnownExperiment)| {
        let mut known = known(vec![halves(0)]);
        change(&mut known);
        let events: Vec<Event> = shown(1).into_iter().chain([page(last_page)]).collect();
        let answer = ask(&known, &events, "");
        let listed = list(vec![(known, Default::default())], &events, 1 << 30);
        let is_stalled = has_alarm(&answer, "enrolment_stalled");
        assert_eq!(has_alarm(&listed[0], "enrolment_stalled"), is_stalled, "{listed}");
        is_stalled
    };
    assert!(!stalled(24, &|_| ()));
    assert!(!stalled(25, &|_| ()));
    assert!(stalled(26, &|_| ()));
    // No exposure is expected.
    assert!(!stalled(26, &|known| known.published = None));
    assert!(!stalled(26, &|known| known.phases[0].coverages[0].share = 0.0));
    let ended_ms = Some(START_MS + 5 * HOUR_MS);
    assert!(!stalled(26, &|known| {
        known.phases[0].to_ms = ended_ms;
        known.published.as_mut().expect("published").definition.to_ms = ended_ms;
    }));
}

#[test]
fn few_visitors_can_miss_a_day_by_chance() {
    for (count, is_stalled) in [(4, false), (5, true), (6, true)] {
        let events: Vec<Event> =
            exposures(1, &[("cta:default", count), ("cta:b", count)]).into_iter().chain([page(26)]).collect();
        let answer = ask(&known(vec![halves(0)]), &events, "");
        assert_eq!(has_alarm(&answer, "enrolment_stalled"), is_stalled, "{count}");
    }
    // Twenty visitors in four days are five a day.
    let mut events = exposures(1, &[("cta:default", 19)]);
    events.extend(exposures(97, &[("cta:b", 1)]));
    events.push(page(122));
    assert!(!has_alarm(&ask(&known(vec![halves(0)]), &events, ""), "enrolment_stalled"));
}

#[test]
fn the_answer_has_the_times_of_exposures_and_pages() {
    let events: Vec<Event> = exposures(1, &[("cta:b", 1)])
        .into_iter()
        .chain(exposures(3, &[("cta:b", 1)]))
        .chain([page(5)])
        .collect();
    let answer = ask(&known(vec![halves(0)]), &events, "");
    let times = ["firstExposure", "lastExposure", "lastPage"].map(|name| answer[name].clone());
    let expected =
        ["2026-01-05T01:00:00.000Z", "2026-01-05T03:00:00.000Z", "2026-01-05T05:00:00.000Z"].map(Value::from);
    assert_eq!(times, expected, "{answer}");
    let answer = ask(&known(vec![halves(0)]), &[page(5)], "");
    assert_eq!([&answer["firstExposure"], &answer["lastExposure"]], [&Value::Null, &Value::Null]);
}

/// Returns the exposures of 400 visitors, and an error event of the first visitors of each arm.
fn failing(errors: [usize; 2]) -> Vec<Event> {
    let mut events = exposures(1, &[("cta:default", 200), ("cta:b", 200)]);
    let arms: Vec<Vec<Event>> = events.chunks(200).map(<[Event]>::to_vec).collect();
    for (arm, count) in arms.iter().zip(errors) {
        let error = |event: &Event| Event {
            kind: RecordKind::Track,
            event: Some("Experiment Error"),
            experiments: None,
            ..Event { time_ms: event.time_ms + HOUR_MS, ..event.clone() }
        };
        events.extend(arm[..count].iter().map(error));
        // An error before the exposure is none of the arm.
        events.extend(arm.iter().map(|event| Event { time_ms: event.time_ms - HOUR_MS, ..error(event) }));
    }
    events
}

#[test]
fn an_arm_with_more_error_events_is_an_alarm() {
    for (errors, is_alarm) in
        [([0, 0], false), ([20, 20], false), ([10, 16], false), ([0, 30], true), ([60, 10], true)]
    {
        for query in ["", "&goal=Order Placed", "&country=DE"] {
            let events: Vec<Event> =
                failing(errors).into_iter().map(|event| Event { country: Some("DE"), ..event }).collect();
            let answer = ask(&known(vec![halves(0)]), &events, query);
            assert_eq!(has_alarm(&answer, "arm_error"), is_alarm, "{errors:?} {query}");
            let counted = ["default", "b"].map(|arm| answer["errors"][arm].clone());
            assert_eq!(counted, errors.map(Value::from), "{query}");
        }
    }
}
