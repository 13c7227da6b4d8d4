//! The type of an event, which comes from its endpoint, its `type` or its other members.

use serde_json::{Value, json};

use super::super::problem;
use super::{expected_problem, only_record, post, problem_with_pointer, records_of, unique_id};

/// Paths for single events, with the type of an event that has `event` and `userId` but no `type`.
const PATHS: [(&str, &str); 11] = [
    ("/v1/page", "page"),
    ("/v1/p", "page"),
    ("/v1/track", "track"),
    ("/v1/t", "track"),
    ("/v1/identify", "identify"),
    ("/v1/i", "identify"),
    ("/v1/screen", "screen"),
    ("/v1/s", "screen"),
    ("/v1/group", "group"),
    ("/v1/g", "group"),
    ("/v1/alias", "alias"),
];

#[test]
fn an_endpoint_determines_the_type_of_its_events() {
    for (path, kind) in PATHS.into_iter().chain([("/v1/a", "alias")]) {
        let id = unique_id("kind");
        let event = json!({ "site": "acme", "anonId": id, "event": "Viewed", "userId": "u" });
        let record = only_record(&post(path, &event), &id);
        assert_eq!(record["type"], kind, "{path}");
        let name = match kind {
            "track" => json!("Viewed"),
            "screen" => json!("screen"),
            _ => Value::Null,
        };
        assert_eq!(record["event"], name, "{path}");
        let mut typed = event.clone();
        typed["type"] = if kind == "page" { "track".into() } else { "page".into() };
        assert_eq!(
            problem_with_pointer(&post(path, &typed)),
            expected_problem(400, "invalid_type", "/type"),
            "{path}"
        );
    }
}

#[test]
fn a_batch_may_be_posted_to_every_path_and_mix_types() {
    let paths = PATHS.map(|(path, _)| path);
    for path in paths.into_iter().chain(["/v1/a", "/v1/batch", "/v1/b", "/v1/import"]) {
        let id = unique_id("mixed");
        let types = ["page", "track", "identify", "profile", "screen", "group", "alias"];
        let batch = types.map(
            |kind| json!({ "type": kind, "anonId": id, "event": "e", "userId": "u", "set": { "a": 1 } }),
        );
        let records = records_of(&post(path, &json!({ "site": "acme", "batch": batch })), &id);
        let kinds: Vec<_> = records.iter().map(|record| record["type"].as_str().expect("a type")).collect();
        assert_eq!(kinds, types, "{path}");
    }
    for path in ["/v1/batch", "/v1/b", "/v1/import"] {
        let single = json!({ "site": "acme", "anonId": "v1", "event": "e" });
        assert_eq!(
            problem_with_pointer(&post(path, &single)),
            expected_problem(400, "invalid_event", "/batch")
        );
    }
}

#[test]
fn track_derives_the_type_of_an_event_from_its_members() {
    let mut cases = vec![
        (json!({ "event": "Viewed" }), "track"),
        (json!({ "event": "Viewed", "userId": "u" }), "track"),
        (json!({ "event": "Viewed", "traits": null, "set": "" }), "track"),
        (json!({ "traits": { "plan": "pro" } }), "identify"),
        (json!({ "traits": {}, "userId": "u" }), "identify"),
        (json!({ "userId": "u" }), "identify"),
        (json!({ "set": { "a": 1 }, "userId": "u" }), "profile"),
        (json!({ "type": "profile", "set": { "a": 1 }, "traits": {}, "event": "x" }), "profile"),
        (json!({ "type": "identify" }), "identify"),
        (json!({ "type": "track", "event": "x", "traits": {} }), "track"),
    ];
    for (operation, value) in [
        ("setOnce", json!({ "a": 1 })),
        ("unset", json!(["a"])),
        ("increment", json!({ "a": -1.5 })),
        ("append", json!({ "a": 1 })),
        ("union", json!({ "a": [1] })),
        ("remove", json!({ "a": [1] })),
    ] {
        cases.push((json!({ operation: value }), "profile"));
    }
    for (members, kind) in cases {
        let id = unique_id("told");
        let mut event = members;
        event["site"] = "acme".into();
        event["anonId"] = id.as_str().into();
        assert_eq!(only_record(&post("/v1/track", &event), &id)["type"], kind, "{event}");
    }
}

#[test]
fn ambiguous_and_invalid_events_are_refused() {
    for (members, expected) in [
        (json!({}), ("invalid_event", "/event")),
        (json!({ "properties": { "a": 1 } }), ("invalid_event", "/event")),
        (json!({ "event": "e", "traits": {} }), ("ambiguous_event", "/type")),
        (json!({ "event": "e", "set": {} }), ("ambiguous_event", "/type")),
        (json!({ "traits": {}, "unset": [] }), ("ambiguous_event", "/type")),
        (json!({ "type": "page" }), ("invalid_type", "/type")),
        (json!({ "type": "screen" }), ("invalid_type", "/type")),
        (json!({ "type": "Track", "event": "e" }), ("invalid_type", "/type")),
        (json!({ "type": 7, "event": "e" }), ("invalid_type", "/type")),
        (json!({ "type": "track" }), ("invalid_event", "/event")),
        (json!({ "type": "profile" }), ("invalid_event", "/set")),
        (json!({ "event": 7 }), ("invalid_event", "/event")),
        (json!({ "increment": { "a": "1" } }), ("invalid_event", "/increment/a")),
        (json!({ "union": { "a/b": 1 } }), ("invalid_event", "/union/a~1b")),
        (json!({ "event": "e", "timestamp": "yesterday" }), ("invalid_timestamp", "/timestamp")),
        (json!({ "event": "e", "variants": "hero" }), ("invalid_variants", "/variants")),
    ] {
        let mut event = members;
        event["site"] = "acme".into();
        event["anonId"] = "v1".into();
        assert_eq!(
            problem_with_pointer(&post("/v1/track", &event)),
            expected_problem(400, expected.0, expected.1),
            "{event}"
        );
    }
}

#[test]
fn a_misspelled_path_is_no_endpoint() {
    for path in ["/v1/pages", "/v1/profile", "/v1/page/", "/v1/T"] {
        assert_eq!(problem(&post(path, &json!({}))), (404, "unknown_endpoint".into()), "{path}");
    }
}

#[test]
fn a_record_contains_the_event_as_sent() {
    let id = unique_id("whole");
    let message = unique_id("m");
    let event = format!(
        r#"{{"trackingId":"track_acme","anonymousId":"{id}","userId":7,"messageId":"{message}","name":"N",
            "originalTimestamp":"2026-01-05T10:00:00+01:00","sentAt":"","properties":{{"n":1.50e3,"a":1,"a":[2]}},
            "context":{{"page":{{"url":"https://a.example/pricing/?x=1#y"}},"ip":"192.0.2.7","library":{{"name":"l"}}}},
            "variants":"hero:b","unheard":"of"}}"#
    );
    let receipt = super::SERVER.get().post("/v1/page", &[], event.as_bytes());
    let record = only_record(&receipt, &id);
    assert!(receipt.body_contains(r#""durable":"disk""#));
    let members = [
        "site",
        "type",
        "messageId",
        "anonId",
        "userId",
        "event",
        "name",
        "path",
        "bot",
        "gpc",
        "variants",
        "ip",
    ];
    let members = members.map(|name| record[name].clone());
    let null = Value::Null;
    assert_eq!(
        json!(members),
        json!(["acme", "page", message, id, "7", null, "N", "/pricing", false, false, "hero:b", null])
    );
    assert_eq!(record["timestamp"], "2026-01-05T09:00:00.000Z");
    let payload = &record["payload"];
    assert_eq!(payload["properties"], json!({ "n": 1.50e3, "a": [2] }));
    assert_eq!(
        payload["context"],
        json!({ "page": { "url": "https://a.example/pricing/?x=1#y" }, "library": { "name": "l" } })
    );
    assert_eq!((&payload["trackingId"], &payload["unheard"]), (&null, &json!("of")));
}
