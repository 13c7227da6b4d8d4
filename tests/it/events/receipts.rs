//! What is answered: receipts and problems.

use parallax::visitors::events::receipt::{Answer, Durable, Stored};
use serde_json::{Value, json};

use super::{Outcome, post, receipt, track};

/// A batch of a good, a dropped, a rejected and a good event.
fn mixed() -> Outcome {
    let batch = json!({"batch": [
        {"anonId": "v", "event": "e", "messageId": "m0"},
        {"anonId": "v", "event": "e", "messageId": "m1", "context": {"preview": true}},
        {"anonId": "v", "messageId": "m\"2"},
        {"anonId": "v", "event": "e", "messageId": "m3"},
        {"anonId": "v", "event": "e", "messageId": {}},
    ]});
    post("/v1/batch", batch.to_string())
}

#[test]
fn a_receipt_counts_and_lists_what_was_not_accepted() {
    let outcome = mixed();
    let fates = outcome.fates.as_ref().expect("understood");
    let answers = [Answer::Accepted(41), Answer::Duplicate];
    let rejected = |index: u32, id: Value, pointer: &str, detail: &str| json!({"index": index, "messageId": id, "status": "rejected", "code": "invalid_event", "pointer": pointer, "detail": detail});
    assert_eq!(
        receipt(fates, Stored::Answered(&answers, Durable::Disk)),
        json!({"accepted": 1, "duplicates": 1, "dropped": 1, "rejected": 2, "durable": "disk", "seq": "41", "results": [
            {"index": 1, "messageId": "m1", "status": "dropped", "reason": "preview"},
            rejected(2, json!("m\"2"), "/batch/2/event",
                "Expected 'event', a profile operation such as 'set', 'traits' or 'userId', or a 'type'."),
            {"index": 3, "messageId": "m3", "status": "duplicate"},
            rejected(4, json!(null), "/batch/4/messageId", "Expected 1 to 128 bytes of text; got '{}'."),
        ]})
    );
    assert!(fates.problem().is_none() && !fates.is_complete());
}

#[test]
fn the_seq_is_that_of_the_last_accepted() {
    let outcome = mixed();
    let fates = outcome.fates.as_ref().expect("understood");
    let seq = |answers: &[Answer]| receipt(fates, Stored::Answered(answers, Durable::Written))["seq"].clone();
    assert_eq!(seq(&[Answer::Duplicate, Answer::Accepted(10_442)]), "10442");
    assert_eq!(seq(&[Answer::Accepted(1), Answer::Accepted(u64::MAX)]), "18446744073709551615");
    assert_eq!(seq(&[Answer::Duplicate, Answer::Duplicate]), Value::Null);
}

#[test]
fn a_dry_run_says_what_would_be_accepted() {
    let receipt = receipt(mixed().fates.as_ref().expect("understood"), Stored::Nothing);
    assert_eq!((&receipt["accepted"], &receipt["duplicates"]), (&json!(2), &json!(0)));
    assert_eq!((&receipt["durable"], &receipt["seq"]), (&json!(null), &json!(null)));
    assert_eq!(receipt["results"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_single_event_has_a_receipt_too() {
    let outcome = post("/v1/track", track(json!({"messageId": "m"})));
    let fates = outcome.fates.as_ref().expect("understood");
    let none: [Value; 0] = [];
    assert_eq!(
        receipt(fates, Stored::Answered(&[Answer::Accepted(5)], Durable::Written)),
        json!({"accepted": 1, "duplicates": 0, "dropped": 0, "rejected": 0, "durable": "written", "seq": "5", "results": none})
    );
    assert_eq!(
        receipt(fates, Stored::Answered(&[Answer::Duplicate], Durable::Disk))["results"],
        json!([{"index": 0, "messageId": "m", "status": "duplicate"}])
    );
    assert!(fates.is_complete());
}

#[test]
fn a_batch_without_a_valid_event_is_a_problem_with_errors() {
    let large = "x".repeat(33_000);
    let batch = json!({"batch": [{"anonId": "v", "event": large}, {"event": "e", "messageId": "m"}]});
    let problem = post("/v1/batch", batch.to_string()).problem();
    assert_eq!(
        problem,
        json!({"type": "https://parallax.dev/problems/invalid_event", "title": "The event is not valid", "status": 400,
            "code": "invalid_event", "pointer": "/batch", "detail": "Expected a batch with a valid event.", "errors": [
            {"index": 0, "messageId": null, "status": "rejected", "code": "event_too_large", "pointer": "/batch/0",
                "detail": "Expected an event of at most 32768 bytes; got 33025."},
            {"index": 1, "messageId": "m", "status": "rejected", "code": "missing_visitor", "pointer": "/batch/1/anonId",
                "detail": "Expected 'anonId' or 'userId'."},
        ]})
    );
}

#[test]
fn a_problem_of_a_single_event_names_the_request() {
    let outcome = post("/v1/track", track(json!({"timestamp": "x"})));
    let mut out = Vec::new();
    outcome.fates.as_ref().expect("understood").problem().expect("a problem").write(Some("r\"1"), &mut out);
    let problem: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(
        problem,
        json!({"type": "https://parallax.dev/problems/invalid_timestamp", "title": "The time is not valid", "status": 400,
            "code": "invalid_timestamp", "pointer": "/timestamp", "requestId": "r\"1",
            "detail": "Expected a time in ISO 8601, such as '2026-01-05T10:00:00.000Z', or in milliseconds since 1970; got 'x'."})
    );
}

#[test]
fn a_batch_that_was_dropped_or_empty_is_no_problem() {
    let dropped =
        json!({"context": {"preview": true}, "batch": [{"anonId": "v", "event": "e"}, {"anonId": "v"}]});
    let outcome = post("/v1/batch", dropped.to_string());
    let counts = outcome.receipt();
    assert_eq!(
        (&counts["dropped"], &counts["rejected"], &counts["seq"]),
        (&json!(1), &json!(1), &json!(null))
    );
    let fates = outcome.fates.as_ref().expect("understood");
    assert!(fates.problem().is_none() && fates.single_drop().is_none(), "X-Dropped is for single events");
    let empty = post("/v1/batch", "{\"batch\":[]}");
    assert_eq!(empty.receipt()["accepted"], 0);
    assert!(empty.fates.expect("understood").is_complete());
}
