//! Funnels: the chain of events that gives the numbers of a visitor.

use serde_json::{Value, json};

use parallax::testing::insights::{
    EngagementQuestion, FunnelQuestion, JourneyQuestion, Limits, PathsQuestion, RetentionQuestion, ScanError,
    SiteFacts,
};
use parallax::testing::record::RecordKind;
use parallax::testing::site::goals::SiteGoals;

use super::Event;
use super::journeys::{answer, ask, ask_site};
use super::oracle::{MINUTE_MS, NOW_MS, START_MS, site};

/// Returns a page event of a visitor some minutes after the start.
fn page(path: &'static str, minute: i64) -> Event {
    Event { path: Some(path), ..Event::page(START_MS + minute * MINUTE_MS) }
}

/// Returns the steps of the funnel from `/` over `/a` to `/b`.
fn steps(events: &[Event], more_params: &[(&str, &str)]) -> Vec<Value> {
    let params = [("step", "page:/"), ("step", "page:/a"), ("step", "page:/b")];
    let params = [&params[..], more_params].concat();
    let question = FunnelQuestion::parse(&params, &site().zone, NOW_MS, &SiteGoals::default())
        .expect("valid parameters");
    let answer = ask(JourneyQuestion::Funnel(question), events, &[], 1 << 30);
    answer["steps"].as_array().expect("steps").clone()
}

fn reached(steps: &[Value]) -> Vec<u64> {
    steps.iter().filter_map(|step| step["reached"].as_u64()).collect()
}

fn minutes(steps: &[Value]) -> Vec<Option<f64>> {
    steps.iter().map(|step| step["medianMs"].as_f64().map(|median_ms| median_ms / MINUTE_MS as f64)).collect()
}

#[test]
fn the_longest_chain_counts_even_if_a_later_one_is_shorter() {
    let steps = steps(&[page("/", 0), page("/a", 10), page("/b", 11), page("/", 20), page("/a", 21)], &[]);
    assert_eq!((reached(&steps), minutes(&steps)), (vec![1, 1, 1], vec![None, Some(10.0), Some(1.0)]));
}

#[test]
fn of_equally_long_chains_the_one_that_begins_last_counts() {
    let steps = steps(&[page("/", 0), page("/", 4), page("/a", 10), page("/a", 12)], &[]);
    assert_eq!((reached(&steps), minutes(&steps)), (vec![1, 1, 0], vec![None, Some(6.0), None]));
}

#[test]
fn a_chain_in_the_window_counts_even_if_the_first_step_came_too_early() {
    let events = [page("/", 0), page("/a", 20), page("/", 25), page("/a", 26), page("/b", 40)];
    assert_eq!(reached(&steps(&events, &[("window", "15m")])), [1, 1, 1]);
    assert_eq!(reached(&steps(&events[..2], &[("window", "15m")])), [1, 0, 0]);
}

#[test]
fn the_order_of_the_log_decides_between_events_with_equal_times() {
    assert_eq!(reached(&steps(&[page("/", 0), page("/a", 0)], &[])), [1, 1, 0]);
    assert_eq!(reached(&steps(&[page("/a", 0), page("/", 0)], &[])), [1, 0, 0]);
}

#[test]
fn an_event_is_one_step_only_and_per_visit_all_steps_are_in_one_visit() {
    let params = [("step", "page:/"), ("step", "page:/")];
    let twice = |events: &[Event], per: &str| {
        let params = [&params[..], &[("per", per)]].concat();
        let question = FunnelQuestion::parse(&params, &site().zone, NOW_MS, &SiteGoals::default())
            .expect("valid parameters");
        let answer = ask(JourneyQuestion::Funnel(question), events, &[], 1 << 30);
        reached(answer["steps"].as_array().expect("steps"))
    };
    assert_eq!(twice(&[page("/", 0)], "visitor"), [1, 0]);
    assert_eq!(twice(&[page("/", 0), page("/", 30)], "visit"), [1, 1]);
    assert_eq!(twice(&[page("/", 0), page("/", 31)], "visit"), [2, 0]);
    assert_eq!(twice(&[page("/", 0), page("/", 31)], "visitor"), [1, 1]);
}

/// Returns the journeys that reached each step, of a site with the goals `offers`, a group of pages, and `pro`, which tests a property.
fn reached_goals(events: &[Event], texts: &[&str]) -> Vec<u64> {
    let list = json!([
        { "key": "offers", "name": "Offers", "target": { "page": "/offers*" }, "tests": {}, "value": null, "currency": null },
        { "key": "pro", "name": "Pro", "target": { "event": "Order*" }, "tests": { "properties.plan": { "$eq": "pro" } },
          "value": null, "currency": null },
    ]);
    let goals = SiteGoals::parse("acme", &list.to_string(), [].into_iter()).expect("goals");
    let params: Vec<(&str, &str)> = texts.iter().map(|text| ("step", *text)).collect();
    let question = FunnelQuestion::parse(&params, &site().zone, NOW_MS, &goals).expect("valid parameters");
    let site = SiteFacts { goals, ..site() };
    let answer = ask_site(&site, JourneyQuestion::Funnel(question), events, &[1], 1 << 30);
    reached(answer["steps"].as_array().expect("steps"))
}

fn track(name: &'static str, plan: &str, minute: i64) -> Event {
    let payload = json!({ "properties": { "plan": plan } }).to_string();
    Event { kind: RecordKind::Track, event: Some(name), payload, ..page("/", minute) }
}

#[test]
fn a_step_that_is_a_goal_of_the_site_has_its_pattern_and_its_tests() {
    let events = |path: &'static str, plan: &str| [page(path, 0), track("Order Placed", plan, 1)];
    assert_eq!(reached_goals(&events("/offers/tents", "pro"), &["offers", "pro"]), [1, 1]);
    assert_eq!(reached_goals(&events("/offers", "pro"), &["offers", "pro"]), [1, 1]);
    assert_eq!(reached_goals(&events("/offers", "free"), &["offers", "pro"]), [1, 0]);
    assert_eq!(reached_goals(&events("/offer", "pro"), &["offers", "pro"]), [0, 0]);
    assert_eq!(reached_goals(&events("/offers", "free"), &["offers", "Order Placed"]), [1, 1]);
    // The goal accepts only the second order.
    let orders = [track("Order Placed", "free", 0), track("Order Changed", "pro", 1)];
    assert_eq!(reached_goals(&orders, &["pro", "pro"]), [1, 0]);
    assert_eq!(reached_goals(&orders, &["Order Placed", "pro"]), [1, 1]);
}

#[test]
fn a_step_with_event_before_it_is_an_event_although_a_goal_has_this_key() {
    let order = track("Order Placed", "pro", 1);
    assert_eq!(reached_goals(&[page("/", 0), order.clone()], &["page:/", "event:pro"]), [1, 0]);
    let named = track("pro", "free", 1);
    assert_eq!(reached_goals(&[page("/", 0), named.clone()], &["page:/", "event:pro"]), [1, 1]);
    assert_eq!(reached_goals(&[page("/", 0), named], &["page:/", "pro"]), [1, 0]);
    assert_eq!(reached_goals(&[page("/", 0), order], &["page:/", "pro"]), [1, 1]);
}

#[test]
fn a_question_about_journeys_ends_when_its_time_is_over() {
    let zone = site().zone;
    let steps = [("step", "page:/"), ("step", "page:/a")];
    let funnel =
        FunnelQuestion::parse(&steps, &zone, NOW_MS, &SiteGoals::default()).expect("valid parameters");
    let retention =
        RetentionQuestion::parse(&[], &zone, NOW_MS, &SiteGoals::default()).expect("valid parameters");
    let paths = PathsQuestion::parse(&[("page", "/")], &zone, NOW_MS).expect("valid parameters");
    let engagement = EngagementQuestion::parse(&[], &zone, NOW_MS).expect("valid parameters");
    for question in [
        JourneyQuestion::Funnel(funnel),
        JourneyQuestion::Retention(retention),
        JourneyQuestion::Paths(paths),
        JourneyQuestion::Engagement(engagement),
    ] {
        let limits = Limits { memory_bytes: 1 << 30, is_over: &|| true };
        let answer = answer(&question, &[page("/", 0)], &limits);
        assert!(matches!(answer, Err(ScanError::TooExpensive)), "{question:?}");
    }
}
