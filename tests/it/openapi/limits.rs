//! The limits in the document are those of the server: one below and at a limit is accepted, above it is refused.

use serde_json::{Value, json};

use super::Description;
use crate::harness::{Response, Server};

/// Returns the largest number of repetitions in a pattern such as `^[!-~]{1,128}$`.
fn repetitions_max(schema: &Value) -> usize {
    let pattern = schema["pattern"].as_str().expect("a pattern");
    let bounds = pattern.rsplit('{').next().expect("bounds").split('}').next().expect("bounds");
    bounds.split(',').next_back().expect("a bound").parse().expect("digits")
}

fn length_max(schema: &Value) -> usize {
    schema["maxLength"].as_u64().expect("a length") as usize
}

/// Asserts that `send` is accepted for sizes one below and at `max`, and gets `code` one above.
#[track_caller]
fn assert_limit(max: usize, code: &str, send: impl Fn(usize) -> Response) {
    for size in [max - 1, max] {
        let response = send(size);
        assert!(response.status == 200 || response.code() != code, "{size}: {}", response.text());
    }
    assert_eq!(send(max + 1).code(), code, "{}", max + 1);
}

#[test]
fn numbers_are_limited_as_described() {
    let server = Server::demo();
    let description = Description::of(&server);
    let parameters = &description.document["components"]["parameters"];
    for (key, target, code) in [
        ("limitOfRoutes", "/v1/routes?site=fjell", "invalid_limit"),
        ("limitOfQuery", "/v1/query?site=fjell&query=products", "invalid_limit"),
        ("since", "/v1/routes?site=fjell", "invalid_param"),
        ("wait", "/v1/routes?site=fjell&since=7", "invalid_param"),
    ] {
        let Value::Object(schema) = &parameters[key]["schema"] else { panic!("{key} is not described") };
        let name = parameters[key]["name"].as_str().expect("a name");
        let get = |value: i64| server.get(&format!("{target}&{name}={value}"));
        let [min, max] = ["minimum", "maximum"].map(|bound| schema[bound].as_i64().expect("a bound"));
        for accepted in [min, max - 1, max] {
            assert_eq!(get(accepted).status, 200, "{name}={accepted}");
        }
        for refused in [min - 1, max + 1] {
            assert_eq!(get(refused).code(), code, "{name}={refused}");
        }
    }
}

#[test]
fn choices_are_limited_as_described() {
    let server = Server::demo();
    let description = Description::of(&server);
    let parameters = &description.document["components"]["parameters"];
    for (key, target) in [
        ("strict", "/v1/resolve?site=fjell&route=/&variants="),
        ("explain", "/v1/resolve?site=fjell&route=/"),
        ("includeCombinations", "/v1/variants?site=fjell&route=/"),
        ("includeVariants", "/v1/routes?site=fjell"),
    ] {
        let name = parameters[key]["name"].as_str().expect("a name");
        for value in parameters[key]["schema"]["enum"].as_array().expect("choices") {
            let target = format!("{target}&{name}={}", value.as_str().expect("text"));
            assert_eq!(server.admin_get(&target).status, 200, "{target}");
        }
        assert_eq!(server.admin_get(&format!("{target}&{name}=other")).code(), "invalid_param", "{name}");
    }
}

#[test]
fn texts_of_requests_are_limited_as_described() {
    let server = Server::demo();
    let description = Description::of(&server);
    let components = &description.document["components"];
    let (parameters, schemas) = (&components["parameters"], &components["schemas"]);
    assert_limit(repetitions_max(&schemas["TrackingId"]), "invalid_tracking_id", |length| {
        server.get(&format!("/v1/resolve?route=/&trackingId=track_{}", "a".repeat(length)))
    });
    assert_limit(repetitions_max(&schemas["AnonId"]), "invalid_anon_id", |length| {
        server.get(&format!("/v1/resolve?site=fjell&route=/&anonId={}", "a".repeat(length)))
    });
    assert_limit(length_max(&parameters["route"]["schema"]), "invalid_route", |length| {
        server.get(&format!("/v1/resolve?site=fjell&variants=&route=/{}", "a".repeat(length - 1)))
    });
    // The pattern bounds the pairs after the first one.
    assert_limit(repetitions_max(&parameters["variants"]["schema"]) + 1, "invalid_variants", |count| {
        let pairs: Vec<String> = (0..count).map(|n| format!("z{n}:k")).collect();
        server.get(&format!("/v1/resolve?site=fjell&route=/&variants={}", pairs.join(",")))
    });
}

#[test]
fn events_are_limited_as_described() {
    let server = Server::demo();
    let description = Description::of(&server);
    let schemas = &description.document["components"]["schemas"];
    let post = |body: Value| server.post("/v1/track?site=fjell", &[], body.to_string().as_bytes());
    let text = |length: usize| "a".repeat(length);
    assert_limit(repetitions_max(&schemas["AnonId"]), "invalid_anon_id", |length| {
        post(json!({ "anonId": text(length), "event": "e" }))
    });
    assert_limit(length_max(&schemas["UserId"]), "invalid_event", |length| {
        post(json!({ "userId": text(length), "event": "e" }))
    });
    assert_limit(length_max(&schemas["MessageId"]), "invalid_event", |length| {
        post(json!({ "anonId": "v1", "event": "e", "messageId": text(length) }))
    });
    assert_limit(length_max(&schemas["EventName"]), "invalid_event", |length| {
        post(json!({ "anonId": "v1", "event": text(length) }))
    });
    let events_max = schemas["Batch"]["properties"]["batch"]["maxItems"].as_u64().expect("a bound") as usize;
    assert_limit(events_max, "batch_too_large", |count| {
        post(json!({ "batch": vec![json!({ "anonId": "v1", "event": "e" }); count] }))
    });
}
