//! The server accepts every event of Segment's documentation and stores it as it was sent. The events are in
//! `segment/spec-examples.json` of the public cases (github.com/segmentio/segment-docs 747b35d8, CC BY 4.0,
//! (c) Twilio Segment).

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::tree::Tree;
use super::{Outcome, post};
use crate::harness::cases;

/// The examples, each with the endpoint of its call. To make them valid requests, each gets our tracking ID,
/// a message ID, and an anon ID if it names no visitor. If `PARALLAX_CASES` is not set, there are no
/// examples, and a notice is printed.
pub(super) static EXAMPLES: LazyLock<Vec<(&'static str, Value)>> = LazyLock::new(|| {
    let Some(directory) = cases() else { return Vec::new() };
    let text = std::fs::read(directory.join("segment/spec-examples.json")).expect("readable");
    let examples: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(examples.len(), 78);
    let payloads = examples.into_iter().map(|mut example| example["payload"].take());
    payloads.enumerate().map(|(i, payload)| (endpoint(&payload), prepared(payload, i))).collect()
});

/// Returns the endpoint of an example: by its type, or by its members if it has no type.
fn endpoint(payload: &Value) -> &'static str {
    match payload["type"].as_str().or(payload["action"].as_str()) {
        _ if payload["batch"].is_array() => "/v1/batch",
        Some("identify") => "/v1/identify",
        Some("track") => "/v1/track",
        Some("page") => "/v1/page",
        Some("screen") => "/v1/screen",
        Some("group") => "/v1/group",
        Some("alias") => "/v1/alias",
        _ if payload["event"].is_string() => "/v1/track",
        _ if payload["groupId"].is_string() => "/v1/group",
        _ if payload["previousId"].is_string() => "/v1/alias",
        _ if payload["traits"].is_object() => "/v1/identify",
        _ => "/v1/page",
    }
}

fn prepared(mut payload: Value, number: usize) -> Value {
    let members = payload.as_object_mut().expect("an object");
    members.remove("writeKey");
    members.insert("trackingId".to_owned(), json!("track_acme"));
    match members.get_mut("batch") {
        Some(batch) => {
            for (i, event) in batch.as_array_mut().expect("an array").iter_mut().enumerate() {
                event["messageId"] = json!(format!("message-{number}-{i}"));
            }
        }
        None => {
            members.insert("messageId".to_owned(), json!(format!("message-{number}")));
            if !members.contains_key("anonymousId") && !members.contains_key("userId") {
                members.insert("anonymousId".to_owned(), json!("v1"));
            }
        }
    }
    payload
}

fn expected(mut event: Value, batch_context: Option<&Value>) -> Tree {
    let members = event.as_object_mut().expect("an object");
    members.remove("trackingId");
    if let Some(context) = batch_context {
        members.entry("context").or_insert(context.clone());
    }
    if let Some(context) = members.get_mut("context").and_then(Value::as_object_mut) {
        context.remove("ip");
    }
    Tree::read(&event.to_string())
}

#[test]
fn every_example_is_accepted_and_reads_back_as_it_was_sent() {
    let mut events = 0;
    for (path, example) in &*EXAMPLES {
        let outcome = post(path, example.to_string());
        let results = outcome.results.as_ref().unwrap_or_else(|refusal| panic!("{example}: {refusal:?}"));
        assert!(results.are_all_recorded(), "{example}: {:?}", results.refusals().collect::<Vec<_>>());
        let sent = match example["batch"].as_array() {
            Some(batch) => batch.iter().map(|e| expected(e.clone(), example.get("context"))).collect(),
            None => vec![expected(example.clone(), None)],
        };
        let stored: Vec<Tree> = (0..outcome.lines.len()).map(|i| outcome.payload(i)).collect();
        assert_eq!(stored, sent);
        events += stored.len();
    }
    let expected = if EXAMPLES.is_empty() { 0 } else { 81 };
    assert_eq!(events, expected, "78 examples, one of which is a batch of 4");
}

#[test]
fn an_example_cut_at_any_byte_is_malformed() {
    for (path, example) in &*EXAMPLES {
        let text = example.to_string();
        let mut server = super::Server::new();
        for length in 0..text.len() {
            let outcome: Outcome = server.post(&super::REQUEST, path, &text.as_bytes()[..length]);
            assert_eq!(outcome.code(), "malformed_json", "{}", &text[..text.floor_char_boundary(length)]);
        }
    }
}

#[test]
fn an_exported_line_has_the_documented_columns_in_order() {
    let body = super::track(json!({"messageId": "m1", "userId": 7, "variants": "cta:b",
        "timestamp": "2026-01-05T09:59:00.5+00:00", "properties": {"path": "/x/?q=1", "n": 1.50}}));
    let line = "{\"seq\":\"1\",\"receivedAt\":\"2026-01-05T10:00:00.000Z\",\"timestamp\":\"2026-01-05T09:59:00.500Z\",\
        \"clientTimestamp\":null,\"sentAt\":null,\
        \"site\":\"acme\",\"type\":\"track\",\"messageId\":\"m1\",\"anonId\":\"v1\",\"userId\":\"7\",\"tied\":null,\"event\":\"Viewed\",\
        \"name\":null,\"path\":\"/x\",\"bot\":false,\"gpc\":false,\"variants\":\"cta:b\",\
        \"experiments\":null,\"referrerHost\":null,\"source\":null,\"medium\":null,\"campaign\":null,\"term\":null,\"content\":null,\"device\":null,\
        \"os\":null,\"browser\":null,\"country\":null,\"language\":null,\"ip\":null,\"payload\":";
    assert_eq!(post("/v1/track", &body).lines, [format!("{line}{body}}}\n")]);
}
