//! Crowds of single-visit visitors beside returning ones: the memory limit holds, and returning visitors stay
//! known.

use serde_json::{Value, json};

use crate::harness::{Client, Server, eventually, times};

const RETURNING: usize = 100;
const BATCH: usize = 500;
const MEMORY_BYTES: u64 = 1 << 20;

fn post(client: &mut Client, events: &[Value]) {
    let body = json!({ "batch": events }).to_string();
    let response = client.post("/v1/batch?site=fjell", &[], body.as_bytes());
    assert_eq!(response.json()["accepted"], events.len(), "{}", response.text());
}

fn page(anon_id: &str, at_ms: i64) -> Value {
    json!({ "type": "page", "anonId": anon_id, "timestamp": at_ms, "properties": { "path": "/tents" } })
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.admin_get("/metrics").text().to_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("the metric {name} is missing"))
}

#[test]
fn a_crowd_evicts_no_returning_visitor_and_a_restart_changes_nothing() {
    let flags = ["--profiles-memory", &MEMORY_BYTES.to_string()];
    let server = Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], &flags);
    let mut client = Client::to(server.edge);
    let now = parallax::testing::clock::now_ms();
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let returning: Vec<String> = (0..RETURNING).map(|i| format!("real-{i}")).collect();
    for days in [3, 1] {
        post(&mut client, &returning.iter().map(|id| page(id, now - days * DAY_MS)).collect::<Vec<_>>());
    }
    let crowd = times(20_000, 1_000_000);
    for first in (0..crowd).step_by(BATCH) {
        let events: Vec<Value> = (first..first + BATCH).map(|i| page(&format!("once-{i}"), now)).collect();
        post(&mut client, &events);
    }
    // While the audit log waits for the disk, a profile is not shown.
    let visitor_json = |server: &Server, id: &str| {
        eventually("the profile is shown", || {
            let response = server.admin_get(&format!("/visitors?site=fjell&anonId={id}"));
            (response.status != 503).then(|| response.json())
        })
    };
    let assert_bounds_hold = |server: &Server| {
        assert!(metric(server, "parallax_visitors_bytes") <= MEMORY_BYTES);
        let known = metric(server, "parallax_visitors");
        assert!((RETURNING as u64..crowd as u64 / 2).contains(&known), "{known} are known");
        for id in &returning {
            let profile = &visitor_json(server, id)["profile"]["visitor"];
            assert_eq!((&profile["pageViews"], &profile["isReturning"]), (&json!(2), &json!(true)), "{id}");
        }
        assert_eq!(visitor_json(server, "once-0")["known"], false, "the first of the crowd is evicted first");
        assert_eq!(visitor_json(server, &format!("once-{}", crowd - 1))["known"], true);
        known
    };
    let known = assert_bounds_hold(&server);
    assert_eq!(metric(&server, "parallax_visitors_evicted_total"), RETURNING as u64 + crowd as u64 - known);
    let first_known = |server: &Server| {
        let is_known = |i: &usize| visitor_json(server, &format!("once-{i}"))["known"] == true;
        (0..crowd)
            .rev()
            .take(known as usize + 1)
            .take_while(is_known)
            .last()
            .expect("the last visitor is known")
    };
    let first = first_known(&server);
    let server = server.restart(&flags);
    assert_eq!(
        (assert_bounds_hold(&server), first_known(&server)),
        (known, first),
        "a restart keeps the same visitors"
    );
    let server = server.restart(&["--profiles-memory", &(MEMORY_BYTES / 2).to_string()]);
    assert!(
        metric(&server, "parallax_visitors_bytes") <= MEMORY_BYTES / 2,
        "a smaller bound holds from the start"
    );
}

#[test]
fn extreme_visitors_stay_within_the_bounds_of_a_profile() {
    let server = Server::demo();
    let mut client = Client::to(server.edge);
    let now = parallax::testing::clock::now_ms();
    const YEAR_MS: i64 = 365 * 24 * 60 * 60 * 1000;
    // One clock is ten years slow, and one is ten years fast.
    post(&mut client, &[page("clock", now - 10 * YEAR_MS), page("clock", now + 10 * YEAR_MS)]);
    // A thousand trait names, and a large value.
    let traits: serde_json::Map<String, Value> =
        (0..1_000).map(|i| (format!("trait-{i}"), json!(i))).collect();
    post(&mut client, &[json!({ "type": "identify", "anonId": "many", "traits": traits })]);
    let large = json!({ "plan": "pro", "large": "x".repeat(30_000) });
    post(&mut client, &[json!({ "type": "identify", "anonId": "large", "traits": large })]);
    let events = times(20_000, 1_000_000);
    for first in (0..events).step_by(2_000) {
        let track = |i: usize| json!({ "type": "track", "anonId": "busy", "event": format!("e{}", i % 100), "timestamp": now });
        post(&mut client, &(first..first + 2_000).map(track).collect::<Vec<_>>());
    }
    let profile =
        |id: &str| server.admin_get(&format!("/visitors?site=fjell&anonId={id}")).json()["profile"].clone();
    let clock = profile("clock");
    assert_eq!(clock["visitor"]["firstSeen"], now - 10 * YEAR_MS);
    assert!(
        clock["visitor"]["lastSeen"].as_i64().is_some_and(|at_ms| (now..now + 60_000).contains(&at_ms)),
        "{clock}"
    );
    assert_eq!(profile("many")["traits"].as_object().expect("traits").len(), 64);
    assert_eq!(profile("large")["traits"], json!({ "plan": "pro" }));
    assert_eq!(metric(&server, "parallax_traits_too_large_total"), 1);
    let busy = profile("busy");
    assert_eq!(
        (&busy["visitor"]["events"], busy["events"].as_object().expect("names").len()),
        (&json!(events), 64)
    );
    // The body exceeds its limit by less than the server discards before it closes the connection.
    let too_large =
        json!({ "anonId": "v", "traits": { "large": "x".repeat(524_288) }, "type": "identify" }).to_string();
    let refused = client.post("/v1/track?site=fjell", &[], too_large.as_bytes());
    assert_eq!(refused.status, 413, "{}", refused.text());
}
