//! Each refusal: its code, its pointer, and a detail with the expected and the actual value.

use serde_json::{Value, json};

use super::{page, post, track};

/// Asserts the refusal of `body` as a single event and as the second event of a batch. Returns the detail.
/// `pointer` is that of the single event.
fn assert_refused(path: &str, body: &Value, code: &str, pointer: &str) -> String {
    let problem = post(path, body.to_string()).problem();
    assert_eq!((&problem["code"], &problem["pointer"]), (&json!(code), &json!(pointer)), "{body}");
    let good = json!({"type": "page", "anonId": "v1"});
    let batch = post(path, json!({"batch": [good, body, good]}).to_string()).receipt();
    assert_eq!((&batch["accepted"], &batch["rejected"]), (&json!(2), &json!(1)), "{body}");
    let result = &batch["results"][0];
    assert_eq!(
        (&result["index"], &result["code"], &result["pointer"]),
        (&json!(1), &json!(code), &json!(format!("/batch/1{pointer}")))
    );
    problem["detail"].as_str().expect("a detail").to_owned()
}

#[test]
fn each_member_is_refused_by_its_own_rule() {
    for (members, code, pointer, detail) in [
        (
            json!({"event": 7}),
            "invalid_event",
            "/event",
            "Expected the event's name, 1 to 200 characters, got '7'.",
        ),
        (json!({"event": ["x"]}), "invalid_event", "/event", "got '[\"x\"]'."),
        (json!({"context": {"consent": true}}), "invalid_event", "/context/consent", "Expected an object"),
        (
            json!({"context": {"preview": "true"}}),
            "invalid_event",
            "/context/preview",
            "Expected true or false",
        ),
        (
            json!({"context": {"consent": {"measure": "false"}}}),
            "invalid_event",
            "/context/consent/measure",
            "Expected true or false, got 'false'.",
        ),
        (
            json!({"messageId": []}),
            "invalid_event",
            "/messageId",
            "Expected 1 to 128 bytes of text, got '[]'.",
        ),
        (json!({"messageId": true}), "invalid_event", "/messageId", "bytes of text, got 'true'."),
        (json!({"anonId": "a b"}), "invalid_anon_id", "/anonId", "visible ASCII, got 'a b'."),
        (json!({"anonId": "é"}), "invalid_anon_id", "/anonId", "visible ASCII, got 'é'."),
        (json!({"anonId": {}}), "invalid_anon_id", "/anonId", "visible ASCII, got '{}'."),
        (json!({"userId": {}}), "invalid_event", "/userId", "Expected 1 to 256 bytes of text, got '{}'."),
        (json!({"timestamp": "yesterday"}), "invalid_timestamp", "/timestamp", "got 'yesterday'."),
        (json!({"timestamp": true}), "invalid_timestamp", "/timestamp", "got 'true'."),
        (json!({"originalTimestamp": "x"}), "invalid_timestamp", "/originalTimestamp", "got 'x'."),
        (json!({"variants": "cta"}), "invalid_variants", "/variants", "got 'cta'."),
        (json!({"variants": {"cta": "b"}}), "invalid_variants", "/variants", "got '{\"cta\":\"b\"}'."),
    ] {
        let body: Value = serde_json::from_str(&track(members)).expect("JSON");
        let actual = assert_refused("/v1/track", &body, code, pointer);
        assert!(actual.contains(detail), "{actual}");
    }
}

#[test]
fn variants_are_pairs_of_a_zone_and_a_key() {
    let key = "k".repeat(64);
    let many = |n: usize| (0..n).map(|i| format!("z{i}:a")).collect::<Vec<_>>().join(",");
    for good in ["cta:b", "cta:b,hero:returning", "a_-Z9:0", &format!("{key}:{key}"), &many(64)] {
        assert_eq!(post("/v1/track", track(json!({"variants": good}))).record()["variants"], *good);
    }
    for bad in [",", "a:b,", "a:", ":b", "a:b:c", "a:b,a:c", "a b:c", "é:a", &format!("{key}k:a"), &many(65)]
    {
        assert_eq!(post("/v1/track", track(json!({"variants": bad}))).code(), "invalid_variants", "{bad}");
    }
    assert_eq!(post("/v1/track", track(json!({"variants": null}))).record()["variants"], Value::Null);
}

#[test]
fn unknown_and_unfitting_types_are_refused() {
    for (path, body, detail) in [
        ("/v1/page", json!({"anonId": "v1", "type": "track"}), "Expected 'page' at this endpoint"),
        ("/v1/track", json!({"anonId": "v1", "type": "page"}), "Expected 'track', 'identify' or 'profile'"),
        ("/v1/track", json!({"anonId": "v1", "type": "screen"}), "got 'screen'."),
    ] {
        let problem = post(path, body.to_string()).problem();
        assert_eq!((&problem["code"], &problem["pointer"]), (&json!("invalid_type"), &json!("/type")));
        assert!(problem["detail"].as_str().expect("a detail").contains(detail), "{problem}");
    }
    for kind in [json!("Track"), json!("view"), json!(1), json!({})] {
        assert_refused("/v1/track", &json!({"anonId": "v1", "type": kind}), "invalid_type", "/type");
    }
}

#[test]
fn a_refusal_points_to_the_missing_member() {
    for (body, code, pointer) in [
        (json!({"anonId": "v1"}), "invalid_event", "/event"),
        (json!({"anonId": "v1", "type": "track"}), "invalid_event", "/event"),
        (json!({"anonId": "v1", "type": "track", "event": ""}), "invalid_event", "/event"),
        (json!({"anonId": "v1", "type": "profile"}), "invalid_event", "/set"),
        (json!({"event": "e"}), "missing_visitor", "/anonId"),
        (json!({"event": "e", "anonId": null, "userId": ""}), "missing_visitor", "/anonId"),
        (json!({"event": "e", "traits": {}, "anonId": "v1"}), "ambiguous_event", "/type"),
    ] {
        assert_refused("/v1/track", &body, code, pointer);
    }
}

#[test]
fn a_refusal_points_to_the_wrong_part_of_an_operation() {
    for (operations, pointer) in [
        (json!({"set": ["a"]}), "/set"),
        (json!({"set": 1}), "/set"),
        (json!({"setOnce": "x"}), "/setOnce"),
        (json!({"unset": {"a": 1}}), "/unset"),
        (json!({"unset": ["a", 1]}), "/unset/1"),
        (json!({"increment": [1]}), "/increment"),
        (json!({"increment": {"a": 1, "b/~c": "2"}}), "/increment/b~1~0c"),
        (json!({"increment": {"a": null}}), "/increment/a"),
        (json!({"append": ["a"]}), "/append"),
        (json!({"union": {"a": 1}}), "/union/a"),
        (json!({"remove": {"a": ["x"], "b": {"c": []}}}), "/remove/b"),
        (json!({"set": {"a": 1}, "remove": {"a": "x"}}), "/remove/a"),
    ] {
        let body: Value = serde_json::from_str(&page(operations)).expect("JSON");
        assert_refused("/v1/track", &body, "invalid_event", pointer);
    }
}

#[test]
fn a_batch_element_that_is_no_event_is_rejected_alone() {
    for element in [json!(null), json!(1), json!("x"), json!([]), json!(true)] {
        let batch = json!({"batch": [element, {"anonId": "v1", "event": "e"}]});
        let receipt = post("/v1/batch", batch.to_string()).receipt();
        assert_eq!((&receipt["accepted"], &receipt["rejected"]), (&json!(1), &json!(1)));
        let result = &receipt["results"][0];
        assert_eq!((&result["code"], &result["pointer"]), (&json!("invalid_event"), &json!("/batch/0")));
    }
}

#[test]
fn an_error_of_the_batch_itself_refuses_the_whole_batch() {
    let event = json!({"anonId": "v1", "event": "e"});
    let wide: serde_json::Map<String, Value> = (0..257).map(|i| (format!("m{i}"), json!(1))).collect();
    for (body, code, pointer) in [
        (json!({"anonId": "v1", "event": "e"}), "invalid_event", "/batch"),
        (json!({"batch": null}), "invalid_event", "/batch"),
        (json!({"batch": {"0": event}}), "invalid_event", "/batch"),
        (json!({"batch": [event], "context": {"preview": 1}}), "invalid_event", "/context/preview"),
        (json!({"batch": [event], "context": {"a": {"b": wide}}}), "invalid_event", "/context/a/b"),
        (json!({"batch": [event], "trackingId": {}}), "invalid_tracking_id", "/trackingId"),
        (json!({"batch": [event], "writeKey": []}), "invalid_tracking_id", "/writeKey"),
        (json!({"batch": [event], "site": []}), "missing_site", "/site"),
    ] {
        let problem = post("/v1/batch", body.to_string()).problem();
        assert_eq!((&problem["code"], &problem["pointer"]), (&json!(code), &json!(pointer)), "{body}");
    }
}

#[test]
fn an_event_of_another_site_is_refused() {
    for (name, other, own) in [
        ("trackingId", "track_other", "track_acme"),
        ("writeKey", "track_other", "track_acme"),
        ("site", "other", "acme"),
    ] {
        assert_refused(
            "/v1/track",
            &json!({"anonId": "v1", "event": "e", name: other}),
            "site_mismatch",
            &format!("/{name}"),
        );
        let body = json!({"anonId": "v1", "event": "e", name: own});
        assert_eq!(post("/v1/track", body.to_string()).receipt()["accepted"], 1);
        assert_eq!(post("/v1/batch", json!({"batch": [body]}).to_string()).receipt()["accepted"], 1);
    }
}

#[test]
fn long_values_are_truncated_in_the_detail() {
    let detail = |text: &str| {
        let problem = post("/v1/track", track(json!({"timestamp": text}))).problem();
        problem["detail"].as_str().expect("a detail").to_owned()
    };
    assert!(detail(&"é".repeat(100)).ends_with(&format!("got '{}'.", "é".repeat(100))));
    assert!(detail(&"é".repeat(101)).ends_with(&format!("got '{}…'.", "é".repeat(100))));
}
