//! Journeys: parameters that are refused, limits, and values that no event has.

use serde_json::json;

use parallax::testing::insights::{
    EngagementQuestion, FUNNEL_LIMIT_MAX, FUNNEL_STEPS_MAX, FUNNEL_STEPS_MIN, FunnelQuestion,
    JourneyQuestion, Limits, PathsQuestion, QuestionError, RetentionQuestion, ScanError,
};
use parallax::testing::site::goals::SiteGoals;

use super::Event;
use super::journeys::{self, ask};
use super::oracle::{MINUTE_MS, NOW_MS, START_MS, site};

fn funnel(params: &[(&str, &str)]) -> Result<FunnelQuestion, QuestionError> {
    FunnelQuestion::parse(params, &site().zone, NOW_MS, &SiteGoals::default())
}

/// The two steps of a short funnel.
const STEPS: [(&str, &str); 2] = [("step", "page:/"), ("step", "page:/a")];

#[test]
fn a_funnel_has_2_to_8_steps() {
    let steps = |count: usize| funnel(&vec![("step", "page:/"); count]).map(|question| question.steps.len());
    let refused = |count: usize| steps(count).map_err(|error| error.param);
    assert_eq!(refused(FUNNEL_STEPS_MIN - 1), Err("step".to_owned()));
    assert_eq!(refused(FUNNEL_STEPS_MIN), Ok(FUNNEL_STEPS_MIN));
    assert_eq!(refused(FUNNEL_STEPS_MIN + 1), Ok(FUNNEL_STEPS_MIN + 1));
    assert_eq!(refused(FUNNEL_STEPS_MAX - 1), Ok(FUNNEL_STEPS_MAX - 1));
    assert_eq!(refused(FUNNEL_STEPS_MAX), Ok(FUNNEL_STEPS_MAX));
    assert_eq!(refused(FUNNEL_STEPS_MAX + 1), Err("step".to_owned()));
}

#[test]
fn a_list_of_a_funnel_has_at_most_100_rows() {
    let limit = |limit: usize| {
        let text = limit.to_string();
        let question = funnel(&[&STEPS[..], &[("limit", &text)]].concat());
        question.map(|question| question.limit).map_err(|error| error.kind.code)
    };
    assert_eq!(limit(FUNNEL_LIMIT_MAX - 1), Ok(FUNNEL_LIMIT_MAX - 1));
    assert_eq!(limit(FUNNEL_LIMIT_MAX), Ok(FUNNEL_LIMIT_MAX));
    assert_eq!(limit(FUNNEL_LIMIT_MAX + 1), Err("invalid_limit"));
}

#[test]
fn wrong_parameters_of_journeys_are_refused_by_name() {
    let param = |error: Option<QuestionError>| error.map(|error| error.param);
    for (name, value) in [
        ("step", "page:kontakt"),
        ("step", "event:"),
        ("window", "soon"),
        ("window", "0s"),
        ("per", "week"),
        ("by", "day"),
        ("by", "experiment:"),
        ("by", "variant:"),
        ("by", "variant:hero:x"),
        ("by", "experiment:not a key"),
        ("device", "phone"),
        ("from", "yesterday"),
        ("bots", "yes"),
    ] {
        let error = funnel(&[&STEPS[..], &[(name, value)]].concat()).err();
        assert_eq!(param(error).as_deref(), Some(name), "{value}");
    }
    let zone = site().zone;
    let retention = |params: &[(&str, &str)]| {
        param(RetentionQuestion::parse(params, &zone, NOW_MS, &SiteGoals::default()).err())
    };
    assert_eq!(retention(&[("by", "month")]).as_deref(), Some("by"));
    assert_eq!(retention(&[("return", "page:a")]).as_deref(), Some("return"));
    assert_eq!(retention(&[("begin", "a"), ("begin", "b")]).as_deref(), Some("begin"));
    let paths = |params: &[(&str, &str)]| param(PathsQuestion::parse(params, &zone, NOW_MS).err());
    assert_eq!(paths(&[]).as_deref(), Some("page"));
    assert_eq!(paths(&[("page", "kontakt")]).as_deref(), Some("page"));
    assert_eq!(paths(&[("page", "/"), ("direction", "back")]).as_deref(), Some("direction"));
    let engagement = |params: &[(&str, &str)]| param(EngagementQuestion::parse(params, &zone, NOW_MS).err());
    assert_eq!(engagement(&[("by", "minute")]).as_deref(), Some("by"));
    assert_eq!(engagement(&[("by", "hour"), ("from", "2020-01-01")]).as_deref(), Some("by"));
}

/// Returns the two pages of a visitor, with this time between them.
fn visit(number: usize, between_ms: i64) -> [Event; 2] {
    let anon_id: Option<&'static str> = Some(format!("v{number}").leak());
    let first = Event { anon_id, ..Event::page(START_MS + number as i64) };
    [first.clone(), Event { path: Some("/a"), time_ms: first.time_ms + between_ms, ..first }]
}

#[test]
fn the_window_includes_a_chain_of_exactly_its_length() {
    let reached = |between_ms: i64| {
        let question = funnel(&[&STEPS[..], &[("window", "30m")]].concat()).expect("valid parameters");
        let answer = ask(JourneyQuestion::Funnel(question), &visit(0, between_ms), &[], 1 << 30);
        answer["steps"][1]["reached"].clone()
    };
    assert_eq!(reached(30 * MINUTE_MS - 1), 1);
    assert_eq!(reached(30 * MINUTE_MS), 1);
    assert_eq!(reached(30 * MINUTE_MS + 1), 0);
}

#[test]
fn a_funnel_is_refused_if_its_times_exceed_an_eighth_of_the_memory() {
    let answer = |visitors: usize, memory_bytes: u64| {
        let events: Vec<Event> = (0..visitors).flat_map(|number| visit(number, number as i64)).collect();
        let question = JourneyQuestion::Funnel(funnel(&STEPS).expect("valid parameters"));
        journeys::answer(&question, &events, &Limits { memory_bytes, is_over: &|| false })
    };
    // A time takes 16 bytes, and the times can always take 64 KiB.
    let median_ms = |visitors: usize, memory_bytes: u64| {
        answer(visitors, memory_bytes).expect("an answer").document["steps"][1]["medianMs"].as_f64()
    };
    let memory_bytes = 8 * (64 << 10);
    assert_eq!(median_ms(4_095, memory_bytes), Some(2_047.0));
    assert_eq!(median_ms(4_096, memory_bytes), Some(2_047.5));
    assert!(matches!(answer(4_097, memory_bytes), Err(ScanError::TooLarge)));
    assert!(matches!(answer(4_097, 64 << 10), Err(ScanError::TooLarge)), "the minimum is not more");
    assert_eq!(median_ms(4_097, 2 * memory_bytes), Some(2_048.0));
}

#[test]
fn steps_that_no_event_has_are_named() {
    let params =
        [("step", "page:/"), ("step", "page:/kontact"), ("step", "Oder Placed"), ("country", "Germany")];
    let question = funnel(&params).expect("valid parameters");
    let answer = ask(JourneyQuestion::Funnel(question), &[Event::page(START_MS)], &[], 1 << 30);
    let unknown = json!([
        { "filter": "country", "value": "Germany" },
        { "filter": "step", "value": "page:/kontact" },
        { "filter": "step", "value": "Oder Placed" },
    ]);
    assert_eq!(answer["unknown"], unknown);
    let question =
        PathsQuestion::parse(&[("page", "/kontact")], &site().zone, NOW_MS).expect("valid parameters");
    let answer = ask(JourneyQuestion::Paths(question), &[Event::page(START_MS)], &[], 1 << 30);
    assert_eq!(answer["unknown"], json!([{ "filter": "page", "value": "/kontact" }]));
}

#[test]
fn next_pages_and_values_are_counted_in_parts_if_they_exceed_an_eighth_of_the_memory() {
    let visit = |number: usize| {
        let anon_id: Option<&'static str> = Some(format!("v{number}").leak());
        let source: Option<&'static str> = Some(format!("s{}", number % 700).leak());
        let first = Event { anon_id, touch: [source, None, None], ..Event::page(START_MS + number as i64) };
        let next: Option<&'static str> = Some(format!("/next/{}", number % 900).leak());
        [first.clone(), Event { path: next, time_ms: first.time_ms + 1_000, ..first }]
    };
    let events: Vec<Event> = (0..2_000).flat_map(visit).collect();
    let params = [&STEPS[..], &[("by", "source"), ("limit", "100")]].concat();
    let answer = |memory_bytes: u64| {
        ask(JourneyQuestion::Funnel(funnel(&params).expect("valid parameters")), &events, &[], memory_bytes)
    };
    let all = answer(1 << 30);
    assert_eq!(answer(8 * (64 << 10)), all);
    let left = &all["steps"][0]["left"];
    assert_eq!((&left["next"][0], &left["more"]), (&json!({ "value": "/next/0", "count": 3 }), &json!(800)));
    assert_eq!((&all["rows"][0]["value"], &all["more"]), (&json!("s0"), &json!(600)));
}
