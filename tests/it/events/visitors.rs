//! The visitor of an event, and the site of a body.

use parallax::testing::events::request::RequestFacts;
use serde_json::{Value, json};

use super::{REQUEST, page, post, post_as, track};

#[test]
fn ids_may_have_the_member_names_of_both_dialects() {
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
fn the_anon_id_of_a_header_or_cookie_is_the_fallback() {
    let request = RequestFacts { anon_id: Some("cookie"), ..REQUEST };
    let anon_id = |body: Value| post_as(&request, "/v1/track", body.to_string()).record()["anonId"].clone();
    assert_eq!(anon_id(json!({"event": "e"})), "cookie");
    assert_eq!(anon_id(json!({"event": "e", "userId": "u"})), "cookie");
    assert_eq!(anon_id(json!({"event": "e", "anonId": "own"})), "own");
}

#[test]
fn placeholder_ids_are_refused_with_a_pointer_to_their_member() {
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
fn ids_have_length_limits() {
    let code = |name: &str, length: usize| {
        let outcome = post("/v1/page", json!({"anonId": "v", name: "x".repeat(length)}).to_string());
        outcome.results.as_ref().expect("the body is valid").problem().map(|refused| refused.kind().code)
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
fn a_missing_message_id_is_generated_and_not_returned() {
    let batch = json!({"batch": [{"anonId": "v", "event": "e"}, {"anonId": "v", "event": "e", "messageId": ""},
        {"anonId": "v", "event": "e", "messageId": 77}]});
    let outcome = post("/v1/batch", batch.to_string());
    let records = outcome.records();
    let ids: Vec<&Value> = records.iter().map(|record| &record["messageId"]).collect();
    assert_eq!(ids, ["0000000000000001", "0000000000000002", "77"]);
    // With a key, a client that guesses generated IDs could make other visitors' events duplicates.
    assert_eq!(outcome.duplicate_keys.iter().map(|key| *key == 0).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(outcome.payload(0).get("messageId"), None);
    assert_eq!(outcome.receipt()["results"], json!([]));
}

#[test]
fn only_the_same_site_and_message_id_give_the_same_dedup_key() {
    let key = |site: &'static str, id: &str| {
        let body = track(json!({"messageId": id}));
        post_as(&RequestFacts { site, ..REQUEST }, "/v1/track", body).duplicate_keys[0]
    };
    assert_eq!(key("acme", "m1"), key("acme", "m1"));
    assert_eq!(key("acme", "m1"), xxhash_rust::xxh3::xxh3_128(b"acme\0m1"));
    assert_ne!(key("acme", "m1"), key("acme", "m2"));
    assert_ne!(key("acme", "m1"), key("acm", "em1"));
}

#[test]
fn a_body_may_name_its_site() {
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
fn the_members_that_name_the_site_are_not_stored() {
    let body = page(
        json!({"trackingId": "track_acme", "writeKey": "w", "site": "acme", "properties": {"writeKey": "kept"}}),
    );
    let stored = json!({"anonId": "v1", "site": "acme", "properties": {"writeKey": "kept"}});
    assert_eq!(post("/v1/page", &body).record()["payload"], stored);
}
