//! The answers to event requests: receipts and problems.

use parallax::testing::events::receipt::StoreOutcome;
use parallax::testing::log::{Ack, RecordResult};
use serde_json::{Value, json};

use super::{Outcome, post, receipt, track};

/// Returns a batch with a good, a dropped, a rejected, a good and a rejected event.
fn mixed_batch() -> Outcome {
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
fn a_receipt_counts_all_events_and_lists_those_not_accepted() {
    let outcome = mixed_batch();
    let results = outcome.results.as_ref().expect("the body is valid");
    let answers = [RecordResult::Accepted(41), RecordResult::Duplicate];
    let rejected = |index: u32, id: Value, pointer: &str, detail: &str| json!({"index": index, "messageId": id, "status": "rejected", "code": "invalid_event", "pointer": pointer, "detail": detail});
    assert_eq!(
        receipt(results, StoreOutcome::Stored(&answers, Ack::Disk, None)),
        json!({"accepted": 1, "duplicates": 1, "dropped": 1, "rejected": 2, "durable": "disk", "seq": "41", "results": [
            {"index": 1, "messageId": "m1", "status": "dropped", "reason": "preview"},
            rejected(2, json!("m\"2"), "/batch/2/event",
                "The event has no type; add 'event', a profile operation such as 'set', 'traits' or 'userId', or 'type'."),
            {"index": 3, "messageId": "m3", "status": "duplicate"},
            rejected(4, json!(null), "/batch/4/messageId", "Expected 1 to 128 bytes of text, got '{}'."),
        ]})
    );
    assert!(results.problem().is_none() && !results.are_all_recorded());
}

#[test]
fn the_seq_is_that_of_the_last_accepted_event() {
    let outcome = mixed_batch();
    let results = outcome.results.as_ref().expect("the body is valid");
    let seq = |answers: &[RecordResult]| {
        receipt(results, StoreOutcome::Stored(answers, Ack::Written, None))["seq"].clone()
    };
    assert_eq!(seq(&[RecordResult::Duplicate, RecordResult::Accepted(10_442)]), "10442");
    assert_eq!(seq(&[RecordResult::Accepted(1), RecordResult::Accepted(u64::MAX)]), "18446744073709551615");
    assert_eq!(seq(&[RecordResult::Duplicate, RecordResult::Duplicate]), Value::Null);
}

#[test]
fn a_dry_run_counts_the_events_that_would_be_accepted() {
    let receipt = receipt(mixed_batch().results.as_ref().expect("the body is valid"), StoreOutcome::DryRun);
    assert_eq!((&receipt["accepted"], &receipt["duplicates"]), (&json!(2), &json!(0)));
    assert_eq!((&receipt["durable"], &receipt["seq"]), (&json!(null), &json!(null)));
    assert_eq!(receipt["results"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_single_event_has_a_receipt_too() {
    let outcome = post("/v1/track", track(json!({"messageId": "m"})));
    let results = outcome.results.as_ref().expect("the body is valid");
    let none: [Value; 0] = [];
    assert_eq!(
        receipt(results, StoreOutcome::Stored(&[RecordResult::Accepted(5)], Ack::Written, None)),
        json!({"accepted": 1, "duplicates": 0, "dropped": 0, "rejected": 0, "durable": "written", "seq": "5", "results": none})
    );
    assert_eq!(
        receipt(results, StoreOutcome::Stored(&[RecordResult::Duplicate], Ack::Disk, None))["results"],
        json!([{"index": 0, "messageId": "m", "status": "duplicate"}])
    );
    assert!(results.are_all_recorded());
}

#[test]
fn a_batch_without_a_valid_event_is_a_problem_with_errors() {
    let large = "x".repeat(33_000);
    let batch = json!({"batch": [{"anonId": "v", "event": large}, {"event": "e", "messageId": "m"}]});
    let problem = post("/v1/batch", batch.to_string()).problem();
    assert_eq!(
        problem,
        json!({"type": "/v1/problems/invalid_event", "title": "The event is not valid", "status": 400,
            "code": "invalid_event", "pointer": "/batch", "detail": "No event of the batch is valid.", "errors": [
            {"index": 0, "messageId": null, "status": "rejected", "code": "event_too_large", "pointer": "/batch/0",
                "detail": "The event has 33025 bytes, more than the limit of 32768."},
            {"index": 1, "messageId": "m", "status": "rejected", "code": "missing_visitor", "pointer": "/batch/1/anonId",
                "detail": "The event names no visitor; add 'anonId' or 'userId'."},
        ]})
    );
}

#[test]
fn a_problem_of_a_single_event_names_the_request() {
    let outcome = post("/v1/track", track(json!({"timestamp": "x"})));
    let mut out = Vec::new();
    outcome
        .results
        .as_ref()
        .expect("the body is valid")
        .problem()
        .expect("a problem")
        .write_problem(Some("r\"1"), &mut out);
    let problem: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(
        problem,
        json!({"type": "/v1/problems/invalid_timestamp", "title": "The time is not valid", "status": 400,
            "code": "invalid_timestamp", "pointer": "/timestamp", "requestId": "r\"1",
            "detail": "Expected a time from the year 2000 on, in ISO 8601, such as '2026-01-05T10:00:00.000Z', or in seconds or milliseconds since 1970, got 'x'."})
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
    let results = outcome.results.as_ref().expect("the body is valid");
    assert!(
        results.problem().is_none() && results.single_drop_reason().is_none(),
        "X-Dropped is for single events"
    );
    let empty = post("/v1/batch", "{\"batch\":[]}");
    assert_eq!(empty.receipt()["accepted"], 0);
    assert!(empty.results.expect("the body is valid").are_all_recorded());
}
