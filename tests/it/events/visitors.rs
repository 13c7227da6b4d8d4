//! Who an event is of, and whom a body is for.

use parallax::visitors::events::decode::Call;
use serde_json::{Value, json};

use super::{CALL, page, post, post_as, track};

#[test]
fn ids_have_the_names_of_both_dialects() {
    let ids = |body: Value| {
        let record = post("/v1/track", body.to_string()).record();
        (record["anonId"].clone(), record["userId"].clone())
    };
    assert_eq!(ids(json!({"event": "e", "anonId": "a"})), (json!("a"), json!(null)));
    assert_eq!(ids(json!({"event": "e", "anonymousId": "b"})), (json!("b"), json!(null)));
    assert_eq!(ids(json!({"event": "e", "anonymousId": "b", "anonId": "a"})), (json!("a"), json!(null)));
    assert_eq!(ids(json!({"event": "e", "anonymousId": "b", "anonId": ""})), (json!("b"), json!(null)));
    assert_eq!(ids(json!({"event": "e", "userId": "é x"})), (json!(null), json!("é x")));
    assert_eq!(
        ids(json!({"event": "e", "userId": 42, "anonId": 12345678901234567890u64})),
        (json!("12345678901234567890"), json!("42"))
    );
}

#[test]
fn an_anon_id_of_a_header_or_cookie_stands_where_the_event_names_none() {
    let call = Call { anon_id: Some("cookie"), ..CALL };
    let anon_id = |body: Value| post_as(&call, "/v1/track", body.to_string()).record()["anonId"].clone();
    assert_eq!(anon_id(json!({"event": "e"})), "cookie");
    assert_eq!(anon_id(json!({"event": "e", "userId": "u"})), "cookie");
    assert_eq!(anon_id(json!({"event": "e", "anonId": "own"})), "own");
}

#[test]
fn placeholders_are_refused_by_the_name_they_came_under() {
    for placeholder in [
        json!("anonymous"),
        json!("NULL"),
        json!("undefined"),
        json!("None"),
        json!("nil"),
        json!("0"),
        json!(0),
        json!("-"),
        json!("true"),
        json!(false),
        json!("nan"),
        json!("[object Object]"),
        json!("{}"),
        json!("00000000-0000-0000-0000-000000000000"),
    ] {
        for name in ["anonId", "anonymousId", "userId"] {
            let problem = post("/v1/track", json!({"event": "e", name: placeholder}).to_string()).problem();
            assert_eq!(
                (&problem["code"], &problem["pointer"]),
                (&json!("placeholder_id"), &json!(format!("/{name}")))
            );
        }
    }
}

#[test]
fn ids_have_bounds() {
    let code = |name: &str, length: usize| {
        let outcome = post("/v1/page", json!({"anonId": "v", name: "x".repeat(length)}).to_string());
        outcome.fates.as_ref().expect("understood").problem().map(|refused| refused.kind().code)
    };
    for (name, max, refusal) in [
        ("anonId", 128, "invalid_anon_id"),
        ("userId", 256, "invalid_event"),
        ("messageId", 128, "invalid_event"),
    ] {
        assert_eq!(code(name, 1), None);
        assert_eq!(code(name, max - 1), None);
        assert_eq!(code(name, max), None);
        assert_eq!(code(name, max + 1), Some(refusal));
    }
}

#[test]
fn a_message_id_that_is_missing_is_minted_and_not_told() {
    let batch = json!({"batch": [{"anonId": "v", "event": "e"}, {"anonId": "v", "event": "e", "messageId": ""},
        {"anonId": "v", "event": "e", "messageId": 77}]});
    let outcome = post("/v1/batch", batch.to_string());
    let records = outcome.records();
    let ids: Vec<&Value> = records.iter().map(|record| &record["messageId"]).collect();
    assert_eq!(ids, ["0000000000000001", "0000000000000002", "77"]);
    // Whoever guesses what will be minted could else make strangers' events duplicates of their own.
    assert_eq!(outcome.duplicate_keys.iter().map(|key| *key == 0).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(outcome.payload(0).get("messageId"), None);
    assert_eq!(outcome.receipt()["results"], json!([]));
}

#[test]
fn duplicates_have_one_key_and_nothing_else_has() {
    let key = |site: &'static str, id: &str| {
        let body = track(json!({"messageId": id}));
        post_as(&Call { site, ..CALL }, "/v1/track", body).duplicate_keys[0]
    };
    assert_eq!(key("acme", "m1"), key("acme", "m1"));
    assert_eq!(key("acme", "m1"), xxhash_rust::xxh3::xxh3_128(b"acme\0m1"));
    assert_ne!(key("acme", "m1"), key("acme", "m2"));
    assert_ne!(key("acme", "m1"), key("acm", "em1"));
}

#[test]
fn a_body_says_whom_it_is_for() {
    let address = |body: Value| {
        let outcome = post("/v1/page", body.to_string());
        (outcome.tracking_id, outcome.site)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        address(json!({"trackingId": "track_a", "writeKey": "b", "site": "c"})),
        (some("track_a"), some("c"))
    );
    assert_eq!(address(json!({"trackingId": "", "writeKey": "b"})), (some("b"), None));
    assert_eq!(address(json!({"site": 7, "batch": []})), (None, some("7")));
    assert_eq!(address(json!({})), (None, None));
}

#[test]
fn what_names_the_site_is_not_stored() {
    let body = page(
        json!({"trackingId": "track_acme", "writeKey": "w", "site": "acme", "properties": {"writeKey": "kept"}}),
    );
    let stored = json!({"anonId": "v1", "site": "acme", "properties": {"writeKey": "kept"}});
    assert_eq!(post("/v1/page", &body).record()["payload"], stored);
}
