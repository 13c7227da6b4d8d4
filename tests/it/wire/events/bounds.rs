//! The limits of events, tested one below the limit, at the limit and above it.

use serde_json::{Value, json};

use super::super::problem;
use super::{SERVER, counts, expected_problem, only_record, post, problem_with_pointer, unique_id};

/// Returns an event with a size of `bytes`.
fn event_of_size(bytes: usize) -> String {
    let begin = r#"{"anonId":"big","event":"e","properties":{"pad":""#;
    format!("{begin}{}\"}}}}", "p".repeat(bytes - begin.len() - 3))
}

fn send_body(body: &str) -> crate::harness::Response {
    SERVER.get().post("/v1/track?site=acme", &[], body.as_bytes())
}

#[test]
fn an_event_has_at_most_32_kib() {
    for bytes in [32 * 1024 - 1, 32 * 1024] {
        assert_eq!(event_of_size(bytes).len(), bytes);
        assert_eq!(counts(&send_body(&event_of_size(bytes))), [1, 0, 0, 0]);
    }
    let response = send_body(&event_of_size(32 * 1024 + 1));
    assert_eq!(problem(&response), (413, "event_too_large".into()));
    assert!(response.text().contains("32768"), "{}", response.text());
    let batch = |bytes: usize| format!(r#"{{"batch":[{},{}]}}"#, event_of_size(100), event_of_size(bytes));
    assert_eq!(counts(&send_body(&batch(32 * 1024))), [2, 0, 0, 0]);
    let receipt = send_body(&batch(32 * 1024 + 1));
    assert_eq!(counts(&receipt), [1, 0, 0, 1]);
    let result = &receipt.json()["results"][0];
    assert_eq!((&result["code"], &result["pointer"]), (&json!("event_too_large"), &json!("/batch/1")));
}

#[test]
fn a_body_has_at_most_512_kib() {
    let batch = |bytes: usize| {
        let batch = format!(r#"{{"batch":[{}]}}"#, vec![event_of_size(30_000); 17].join(","));
        format!("{batch}{}", " ".repeat(bytes - batch.len()))
    };
    for bytes in [512 * 1024 - 1, 512 * 1024] {
        assert_eq!(counts(&send_body(&batch(bytes))), [17, 0, 0, 0]);
    }
    let response = send_body(&batch(512 * 1024 + 1));
    assert_eq!(problem(&response), (413, "body_too_large".into()));
    assert!(response.text().contains("524288"), "{}", response.text());
}

#[test]
fn a_batch_has_at_most_2500_events() {
    let id = unique_id("many");
    let batch = |events: usize| json!({ "site": "acme", "batch": vec![json!({ "anonId": id, "event": "e" }); events] });
    for events in [2_499, 2_500] {
        assert_eq!(counts(&post("/v1/batch", &batch(events))), [events as u64, 0, 0, 0]);
    }
    let response = post("/v1/batch", &batch(2_501));
    assert_eq!(problem_with_pointer(&response), expected_problem(413, "batch_too_large", "/batch"));
    assert!(response.text().contains("2500") && response.text().contains("2501"), "{}", response.text());
}

#[test]
fn strings_of_an_event_have_length_limits() {
    let with = |name: &str, value: Value| {
        let mut event = json!({ "site": "acme", "anonId": "v1", "event": "e" });
        event[name] = value;
        post("/v1/track", &event)
    };
    for (name, most, code) in [
        ("event", 200, "invalid_event"),
        ("messageId", 128, "invalid_event"),
        ("anonId", 128, "invalid_anon_id"),
        ("userId", 256, "invalid_event"),
    ] {
        for length in [most - 1, most] {
            let text = unique_id("t").repeat(length)[..length].to_owned();
            assert_eq!(counts(&with(name, text.into())), [1, 0, 0, 0], "{name} {length}");
        }
        let response = with(name, "a".repeat(most + 1).into());
        assert_eq!(problem_with_pointer(&response), expected_problem(400, code, &format!("/{name}")));
    }
    // The limit counts characters, not bytes.
    assert_eq!(counts(&with("event", "ä".repeat(200).into())), [1, 0, 0, 0]);
}

#[test]
fn the_context_of_a_batch_has_limits() {
    let with = |context: Value, events: usize| {
        let batch = vec![json!({ "anonId": "v1", "event": "e" }); events];
        post("/v1/batch", &json!({ "site": "acme", "context": context, "batch": batch }))
    };
    let members = |count: usize| -> Value { (0..count).map(|n| (n.to_string(), json!(n))).collect() };
    for count in [255, 256] {
        assert_eq!(counts(&with(members(count), 1)), [1, 0, 0, 0]);
    }
    assert_eq!(
        problem_with_pointer(&with(members(257), 1)),
        expected_problem(400, "invalid_event", "/context")
    );
    // The context is stored with every event. The records of one request may have at most 4 MiB.
    let padded = |bytes: usize| json!({ "pad": "p".repeat(bytes - 10) });
    assert_eq!(counts(&with(padded(1_600), 2_400)), [2_400, 0, 0, 0]);
    assert_eq!(problem(&with(padded(1_800), 2_400)), (413, "batch_too_large".into()));
}

#[test]
fn the_context_of_a_batch_is_merged_into_its_events() {
    let id = unique_id("under");
    let batch = json!({ "site": "acme", "sentAt": "", "context": { "locale": "de", "page": { "path": "/a", "title": "t" } },
        "batch": [{ "anonId": id, "event": "e", "context": { "page": { "path": "/b" } } }] });
    let record = only_record(&post("/v1/batch", &batch), &id);
    assert_eq!(record["path"], "/b");
    assert_eq!(
        record["payload"]["context"],
        json!({ "locale": "de", "page": { "path": "/b", "title": "t" } })
    );
}
