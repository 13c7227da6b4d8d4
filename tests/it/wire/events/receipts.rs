//! What is said of events that were taken, and of those that were not.

use serde_json::{Value, json};

use super::super::problem;
use super::{counts, fresh, post, post_with, records_of, refusal, refused, started};
use crate::harness::Client;
use crate::logged;

#[test]
fn a_receipt_is_exactly_this() {
    let server = started(&[]);
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
                "detail": "Expected the event's name, 1 to 200 characters; got '7'." },
            { "index": 5, "messageId": "m2", "status": "duplicate" },
            { "index": 6, "messageId": null, "status": "rejected", "code": "invalid_event", "pointer": "/batch/6",
                "detail": "Expected an object; got '7'." },
        ] })
    );
}

#[test]
fn a_batch_in_which_nothing_is_valid_is_a_problem_and_an_empty_one_is_not() {
    let batch = json!({ "site": "acme", "batch": [{ "event": "e" }, { "anonId": "v1" }] });
    let response = post("/v1/batch", &batch);
    assert_eq!(refused(&response), refusal(400, "invalid_event", "/batch"));
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
        assert_eq!(refused(&response), refusal(400, "invalid_event", "/batch"), "{wrong}");
    }
}

#[test]
fn dry_run_judges_and_stores_nothing() {
    let server = started(&[]);
    let event = json!({ "anonId": "v1", "event": "e", "messageId": "m1" });
    let ask = |target: &str, body: &Value| server.post(target, &[], body.to_string().as_bytes());
    for _ in 0..3 {
        let told = ask("/v1/track?site=acme&dryRun=1", &event).json();
        assert_eq!(
            (&told["accepted"], &told["seq"], &told["durable"]),
            (&json!(1), &Value::Null, &Value::Null)
        );
    }
    assert_eq!(problem(&ask("/v1/track?site=acme&dryRun=1", &json!({}))), (400, "invalid_event".into()));
    assert_eq!(problem(&ask("/v1/track?site=acme&dryRun=2", &event)), (400, "invalid_param".into()));
    let receipt = ask("/v1/track?site=acme&dryRun=0", &event);
    assert_eq!((counts(&receipt), logged::seq(&receipt)), ([1, 0, 0, 0], Some(1)));
    assert_eq!(logged::up_to(server.data(), &receipt).len(), 1);
}

#[test]
fn who_wants_no_receipt_gets_none_where_nothing_is_to_be_said() {
    let minimal = [("Prefer", "respond-async, return=minimal"), ("Origin", "https://a.example")];
    let id = fresh("minimal");
    let event = json!({ "site": "acme", "anonId": id, "event": "e", "messageId": fresh("m") });
    let response = post_with("/v1/track", &minimal, &event);
    assert_eq!((response.status, response.body.len(), response.field("content-type")), (204, 0, None));
    assert_eq!(response.field("access-control-allow-origin"), Some("https://a.example"));
    // A duplicate is neither dropped nor rejected.
    assert_eq!(post_with("/v1/track", &minimal, &event).status, 204);
    assert_eq!(post_with("/v1/track", &[("Prefer", "return=representation")], &event).status, 200);
    let batch = json!({ "site": "acme", "batch": [event, { "event": "e" }] });
    assert_eq!(counts(&post_with("/v1/track", &minimal, &batch)), [0, 1, 0, 1]);
    let preview = json!({ "site": "acme", "anonId": id, "event": "e", "context": { "preview": true } });
    assert_eq!(counts(&post_with("/v1/track", &minimal, &preview)), [0, 0, 1, 0]);
    let last = post("/v1/track", &json!({ "site": "acme", "anonId": id, "event": "last" }));
    assert_eq!(records_of(&last, &id).len(), 2);
}

#[test]
fn an_answer_is_private_and_may_be_timed() {
    let event = json!({ "site": "acme", "anonId": "v1", "event": "e" });
    let fields = [("X-Request-Id", "mine"), ("X-Debug-Timing", "1")];
    let response = post_with("/v1/track", &fields, &event);
    assert_eq!((response.status, response.field("x-request-id")), (200, Some("mine")));
    let timing = response.field("server-timing").expect("it was asked for");
    let ms: f64 = timing.strip_prefix("total;dur=").expect("its form").parse().expect("a number");
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
fn with_ack_written_a_receipt_says_so_and_the_record_outlives_the_process() {
    let mut server = started(&["--ack", "written"]);
    for n in 0..5 {
        let event = json!({ "site": "acme", "anonId": "v1", "event": "e", "messageId": n });
        let receipt = server.post("/v1/track", &[], event.to_string().as_bytes());
        assert_eq!(receipt.json()["durable"], "written");
        // A process that is killed at once.
        server = server.restart(&["--ack", "written"]);
        assert_eq!(logged::recovered(&server, 0).len(), n + 1);
        let again = server.post("/v1/track", &[], event.to_string().as_bytes());
        assert_eq!(counts(&again), [0, 1, 0, 0]);
    }
}
