//! Optional values that the server cannot use: the event is recorded, and the receipt names them.

use parallax::testing::events::ignored::IGNORED_VALUES_NAMED_MAX;
use parallax::testing::events::receipt::StoreOutcome;
use parallax::testing::log::{Ack, RecordResult};
use serde_json::{Value, json};

use super::{post, receipt, track};

#[test]
fn an_event_with_an_unusable_optional_value_is_recorded_and_the_value_named() {
    for (members, code, pointer, detail) in [
        (json!({"sentAt": "2021-10-16T16:00:27.957:Z"}), "invalid_timestamp", "/sentAt", "27.957:Z'."),
        (json!({"sentAt": "1970-01-01T00:00:09.000Z"}), "invalid_timestamp", "/sentAt", "year 2000"),
        (json!({"sentAt": {}}), "invalid_timestamp", "/sentAt", "got '{}'."),
        (json!({"properties": "x"}), "invalid_event", "/properties", "Expected an object, got 'x'."),
        (json!({"properties": [1]}), "invalid_event", "/properties", "Expected an object, got '[1]'."),
        (json!({"traits": 1, "type": "track"}), "invalid_event", "/traits", "Expected an object, got '1'."),
        (json!({"name": {}}), "invalid_event", "/name", "Expected a string of at most 1024 bytes, got '{}'."),
        (json!({"context": 1}), "invalid_event", "/context", "Expected an object, got '1'."),
        (json!({"context": {"page": "x"}}), "invalid_event", "/context/page", "Expected an object"),
        (json!({"context": {"campaign": 1}}), "invalid_event", "/context/campaign", "Expected an object"),
        (json!({"context": {"locale": 1}}), "invalid_event", "/context/locale", "Expected a string"),
        (json!({"context": {"userAgent": {}}}), "invalid_event", "/context/userAgent", "Expected a string"),
    ] {
        let receipt = post("/v1/track", track(members.clone())).receipt();
        assert_eq!((&receipt["accepted"], &receipt["results"]), (&json!(1), &json!([])), "{members}");
        let warnings = receipt["warnings"].as_array().expect("warnings");
        assert_eq!(warnings.len(), 1, "{receipt}");
        let named = (&warnings[0]["index"], &warnings[0]["code"], &warnings[0]["pointer"]);
        assert_eq!(named, (&json!(0), &json!(code), &json!(pointer)), "{members}");
        assert!(warnings[0]["detail"].as_str().expect("a detail").contains(detail), "{receipt}");
    }
}

#[test]
fn the_empty_arrays_of_php_are_empty_objects() {
    for members in [
        json!({"properties": []}),
        json!({"context": []}),
        json!({"context": {"page": [], "campaign": [], "consent": []}}),
        json!({"traits": [], "event": null, "type": "identify", "userId": "u"}),
        json!({"set": [], "event": null, "userId": "u"}),
    ] {
        let outcome = post("/v1/track", track(members.clone()));
        let receipt = outcome.receipt();
        assert_eq!((&receipt["accepted"], receipt.get("warnings")), (&json!(1), None), "{members}");
        assert!(outcome.results.expect("the body is valid").are_all_recorded(), "{members}");
    }
}

#[test]
fn an_unusable_value_of_a_batch_refuses_no_event() {
    let event = json!({"anonId": "v1", "event": "e"});
    for (members, code, pointer) in [
        (json!({"sentAt": "x"}), "invalid_timestamp", "/sentAt"),
        (json!({"context": "x"}), "invalid_event", "/context"),
        (json!({"context": {"page": 1}}), "invalid_event", "/context/page"),
    ] {
        let mut body = json!({"batch": [event, event]});
        body.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        let receipt = post("/v1/batch", body.to_string()).receipt();
        assert_eq!(receipt["accepted"], 2, "{body}");
        let warning = &receipt["warnings"][0];
        assert_eq!(receipt["warnings"].as_array().map(Vec::len), Some(1), "once for the batch: {receipt}");
        let named = (&warning["index"], &warning["code"], &warning["pointer"]);
        assert_eq!(named, (&Value::Null, &json!(code), &json!(pointer)), "{body}");
    }
    let body = json!({"batch": [event], "context": []});
    assert_eq!(post("/v1/batch", body.to_string()).receipt().get("warnings"), None);
}

#[test]
fn an_unusable_context_of_an_event_leaves_that_of_its_batch() {
    let events = json!([{"anonId": "v1", "event": "e", "context": "x"}, {"anonId": "v1", "event": "e", "context": {"locale": 7}}]);
    let body = json!({"batch": events, "context": {"locale": "de-DE"}});
    for record in post("/v1/batch", body.to_string()).records() {
        assert_eq!(record["language"], "de");
    }
}

#[test]
fn a_receipt_names_a_bounded_number_of_ignored_values() {
    for (count, named) in [
        (IGNORED_VALUES_NAMED_MAX - 1, IGNORED_VALUES_NAMED_MAX - 1),
        (IGNORED_VALUES_NAMED_MAX, IGNORED_VALUES_NAMED_MAX),
        (IGNORED_VALUES_NAMED_MAX + 1, IGNORED_VALUES_NAMED_MAX),
    ] {
        let event = json!({"anonId": "v1", "event": "e", "sentAt": "x"});
        let outcome = post("/v1/batch", json!({"batch": vec![event; count]}).to_string());
        let results = outcome.results.as_ref().expect("the body is valid");
        let answers = vec![RecordResult::Accepted(1); count];
        let receipt = receipt(results, StoreOutcome::Stored(&answers, Ack::Disk, None));
        assert_eq!(receipt["warnings"].as_array().map(Vec::len), Some(named));
        assert_eq!(results.ignored_count(), count);
        assert!(!results.are_all_recorded(), "a client that wants no receipt gets one");
    }
}
