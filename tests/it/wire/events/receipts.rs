//! Receipts of event requests, and problems if no event is valid.

use serde_json::{Value, json};

use super::super::problem;
use super::{
    counts, expected_problem, post, post_with, problem_with_pointer, records_of, start_with_flags, unique_id,
};
use crate::harness::Client;
use crate::logged;

#[test]
fn a_receipt_matches_the_interface_exactly() {
    let server = start_with_flags(&[]);
    let mut client = Client::to(server.edge);
    let mut post = |target: &str, body: Value| client.post(target, &[], body.to_string().as_bytes());
    let event = json!({ "site": "acme", "anonId": "v1", "event": "e", "messageId": "m1" });
    let response = post("/v1/track", event.clone());
    assert_eq!(
        response.text(),
        r#"{"accepted":1,"duplicates":0,"dropped":0,"rejected":0,"durable":"disk","seq":"1","results":[]}"#
    );
    assert_eq!(response.field("content-type"), Some("application/json"));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    assert_eq!((response.field("etag"), response.field("x-version")), (None, None));
    assert_eq!(
        post("/v1/track", event.clone()).text(),
        r#"{"accepted":0,"duplicates":1,"dropped":0,"rejected":0,"durable":"disk","seq":null,"results":[{"index":0,"messageId":"m1","status":"duplicate"}]}"#
    );
    let batch = json!({ "site": "acme", "batch": [
        { "anonId": "v1", "event": "e", "messageId": "m2" },
        { "anonId": "v1", "event": "e" },
        { "anonId": "v1", "event": "e", "messageId": "m1" },
        { "anonId": "v1", "event": "e", "messageId": "m3", "context": { "preview": true } },
        { "anonId": "v1", "event": 7, "messageId": "m4" },
        { "anonId": "v1", "event": "e", "messageId": "m2" },
        7,
    ] });
    assert_eq!(
        post("/v1/track", batch).json(),
        json!({ "accepted": 2, "duplicates": 2, "dropped": 1, "rejected": 2, "durable": "disk", "seq": "3", "results": [
            { "index": 2, "messageId": "m1", "status": "duplicate" },
            { "index": 3, "messageId": "m3", "status": "dropped", "reason": "preview" },
            { "index": 4, "messageId": "m4", "status": "rejected", "code": "invalid_event", "pointer": "/batch/4/event",
                "detail": "Expected the event's name, 1 to 200 characters, got '7'." },
            { "index": 5, "messageId": "m2", "status": "duplicate" },
            { "index": 6, "messageId": null, "status": "rejected", "code": "invalid_event", "pointer": "/batch/6",
                "detail": "Expected an object, got '7'." },
        ] })
    );
}

#[test]
fn a_batch_without_valid_events_is_a_problem_unless_it_is_empty() {
    let batch = json!({ "site": "acme", "batch": [{ "event": "e" }, { "anonId": "v1" }] });
    let response = post("/v1/batch", &batch);
    assert_eq!(problem_with_pointer(&response), expected_problem(400, "invalid_event", "/batch"));
    let errors = &response.json()["errors"];
    assert_eq!(errors.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&errors[0]["code"], &errors[1]["code"]),
        (&json!("missing_visitor"), &json!("invalid_event"))
    );
    assert_eq!(errors[1]["index"], 1);
    assert_eq!(counts(&post("/v1/batch", &json!({ "site": "acme", "batch": [] }))), [0; 4]);
    let dropped = json!({ "site": "acme", "batch": [{ "event": "e" }, { "anonId": "v", "event": "e", "context": { "preview": true } }] });
    assert_eq!(counts(&post("/v1/batch", &dropped)), [0, 0, 1, 1]);
    for wrong in [json!(7), json!({}), json!("[]")] {
        let response = post("/v1/batch", &json!({ "site": "acme", "batch": wrong }));
        assert_eq!(
            problem_with_pointer(&response),
            expected_problem(400, "invalid_event", "/batch"),
            "{wrong}"
        );
    }
}

#[test]
fn a_dry_run_validates_and_stores_nothing() {
    let server = start_with_flags(&[]);
    let event = json!({ "anonId": "v1", "event": "e", "messageId": "m1" });
    let send = |target: &str, body: &Value| server.post(target, &[], body.to_string().as_bytes());
    for _ in 0..3 {
        let dry_receipt = send("/v1/track?site=acme&dryRun=1", &event).json();
        assert_eq!(
            (&dry_receipt["accepted"], &dry_receipt["seq"], &dry_receipt["durable"]),
            (&json!(1), &Value::Null, &Value::Null)
        );
    }
    assert_eq!(problem(&send("/v1/track?site=acme&dryRun=1", &json!({}))), (400, "invalid_event".into()));
    assert_eq!(problem(&send("/v1/track?site=acme&dryRun=2", &event)), (400, "invalid_param".into()));
    let receipt = send("/v1/track?site=acme&dryRun=0", &event);
    assert_eq!((counts(&receipt), logged::receipt_seq(&receipt)), ([1, 0, 0, 0], Some(1)));
    assert_eq!(logged::records_up_to(server.data(), &receipt).len(), 1);
}

#[test]
fn return_minimal_gets_204_if_no_event_was_dropped_or_rejected() {
    let minimal = [("Prefer", "respond-async, return=minimal"), ("Origin", "https://a.example")];
    let id = unique_id("minimal");
    let event = json!({ "site": "acme", "anonId": id, "event": "e", "messageId": unique_id("m") });
    let response = post_with("/v1/track", &minimal, &event);
    assert_eq!((response.status, response.body.len(), response.field("content-type")), (204, 0, None));
    assert_eq!(response.field("access-control-allow-origin"), Some("https://a.example"));
    // A duplicate counts as neither dropped nor rejected.
    assert_eq!(post_with("/v1/track", &minimal, &event).status, 204);
    for prefer in ["return=\"minimal\"", "Return = Minimal; foo=1", "wait=1;x, return=minimal"] {
        assert_eq!(post_with("/v1/track", &[("Prefer", prefer)], &event).status, 204, "{prefer}");
    }
    for prefer in
        ["return=representation", "return=\"minimal", "x=return=minimal", "return", "return=minimalist"]
    {
        assert_eq!(post_with("/v1/track", &[("Prefer", prefer)], &event).status, 200, "{prefer}");
    }
    let two_lines = [("Prefer", "respond-async"), ("Prefer", "return=minimal")];
    assert_eq!(post_with("/v1/track", &two_lines, &event).status, 204);
    let batch = json!({ "site": "acme", "batch": [event, { "event": "e" }] });
    assert_eq!(counts(&post_with("/v1/track", &minimal, &batch)), [0, 1, 0, 1]);
    let preview = json!({ "site": "acme", "anonId": id, "event": "e", "context": { "preview": true } });
    assert_eq!(counts(&post_with("/v1/track", &minimal, &preview)), [0, 0, 1, 0]);
    let last = post("/v1/track", &json!({ "site": "acme", "anonId": id, "event": "last" }));
    assert_eq!(records_of(&last, &id).len(), 2);
}

#[test]
fn a_response_echoes_the_request_id_and_may_contain_a_timing() {
    let event = json!({ "site": "acme", "anonId": "v1", "event": "e" });
    let fields = [("X-Request-Id", "mine"), ("X-Debug-Timing", "1")];
    let response = post_with("/v1/track", &fields, &event);
    assert_eq!((response.status, response.field("x-request-id")), (200, Some("mine")));
    let timing = response.field("server-timing").expect("a requested timing");
    let ms: f64 = timing.strip_prefix("total;dur=").expect("the total").parse().expect("a number");
    assert!(ms < 60_000.0, "{timing}");
    assert_eq!(post_with("/v1/track?dryRun=1", &fields, &event).field("server-timing").map(|_| ()), Some(()));
    assert_eq!(post("/v1/track", &event).field("server-timing"), None);
    let response = post_with("/v1/track", &fields, &json!({ "site": "acme" }));
    assert_eq!(
        (response.field("x-request-id"), &response.json()["requestId"]),
        (Some("mine"), &json!("mine"))
    );
    assert!(response.field("set-cookie").is_none());
}

#[test]
fn with_ack_written_records_survive_a_killed_process() {
    let mut server = start_with_flags(&["--ack", "written"]);
    for n in 0..5 {
        let event = json!({ "site": "acme", "anonId": "v1", "event": "e", "messageId": n });
        let receipt = server.post("/v1/track", &[], event.to_string().as_bytes());
        assert_eq!(receipt.json()["durable"], "written");
        // The restart kills the process without a shutdown.
        server = server.restart(&["--ack", "written"]);
        assert_eq!(logged::records_after_start(&server, 0).len(), n + 1);
        let again = server.post("/v1/track", &[], event.to_string().as_bytes());
        assert_eq!(counts(&again), [0, 1, 0, 0]);
    }
}
