//! The user IDs of events at a site that verifies them.

use std::sync::LazyLock;

use data_encoding::{HEXLOWER, HEXUPPER};
use parallax::testing::checksum::{HmacKey, hmac_sha256};
use parallax::testing::events::ignored::IGNORED_VALUES_NAMED_MAX;
use parallax::testing::events::request::RequestFacts;
use parallax::testing::identity_keys::UserRule;
use serde_json::{Value, json};

use super::{Outcome, REQUEST, post, post_as, track};

const NEW_KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const OLD_KEY: &[u8; 32] = b"the key before the last rotation";

static KEYS: LazyLock<[HmacKey; 2]> = LazyLock::new(|| [HmacKey::new(NEW_KEY), HmacKey::new(OLD_KEY)]);

/// Returns the hash of a user ID.
fn hash(key: &[u8; 32], user_id: &str) -> String {
    HEXLOWER.encode(&hmac_sha256(key, &[user_id.as_bytes()]))
}

/// Posts a body to a site that verifies user IDs.
fn post_signed(path: &str, header_hash: Option<&str>, body: &Value) -> Outcome {
    let header_hash = header_hash.map(str::as_bytes);
    let request = RequestFacts { user_rule: UserRule::Signed { keys: &*KEYS, header_hash }, ..REQUEST };
    post_as(&request, path, body.to_string())
}

/// Returns a track event of `u1`, with this hash in its context.
fn event_with_hash(user_hash: &Value) -> Value {
    json!({ "anonId": "v1", "userId": "u1", "event": "e", "context": { "userHash": user_hash } })
}

#[test]
fn the_hash_is_that_of_common_tools() {
    // printf u1 | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
    let known = "39536bc0c20e6efcd22ec30bb96eec5aff9be6a37fe8e9db166b4cc950c94e7e";
    assert_eq!(hash(NEW_KEY, "u1"), known);
    assert_eq!(
        post_signed("/v1/track", Some(known), &event_with_hash(&Value::Null)).record()["userId"],
        "u1"
    );
}

#[test]
fn a_user_id_counts_with_its_hash_in_the_context_of_the_event_or_of_the_batch_or_in_the_header() {
    let hash_of = |user_id| hash(NEW_KEY, user_id);
    let upper = HEXUPPER.encode(&hmac_sha256(NEW_KEY, &[b"u1"]));
    for user_hash in [hash_of("u1"), upper, hash(OLD_KEY, "u1")] {
        let outcome = post_signed("/v1/track", None, &event_with_hash(&json!(user_hash)));
        assert_eq!((&outcome.record()["userId"], &outcome.record()["anonId"]), (&json!("u1"), &json!("v1")));
        assert_eq!(outcome.receipt().get("warnings"), None);
        let alone = json!({ "userId": "u1", "event": "e" });
        assert_eq!(post_signed("/v1/track", Some(&user_hash), &alone).record()["userId"], "u1");
        let batch = json!({ "batch": [alone, alone], "context": { "userHash": user_hash } });
        assert!(
            post_signed("/v1/batch", None, &batch).records().iter().all(|record| record["userId"] == "u1")
        );
    }
    let number = json!({ "userId": 7, "event": "e", "context": { "userHash": hash_of("7") } });
    assert_eq!(post_signed("/v1/track", None, &number).record()["userId"], "7");
    let umlaut = json!({ "userId": "jürgen@b.example", "event": "e" });
    let header = hash_of("jürgen@b.example");
    assert_eq!(post_signed("/v1/track", Some(&header), &umlaut).record()["userId"], "jürgen@b.example");
}

#[test]
fn the_nearest_hash_counts_alone() {
    let (right, wrong) = (hash(NEW_KEY, "u1"), hash(NEW_KEY, "u2"));
    for (own, batch, header, counts) in [
        (Some(&right), Some(&wrong), Some(&wrong), true),
        (None, Some(&right), Some(&wrong), true),
        (None, None, Some(&right), true),
        (Some(&wrong), Some(&right), Some(&right), false),
        (None, Some(&wrong), Some(&right), false),
        (None, None, Some(&wrong), false),
        (None, None, None, false),
    ] {
        let body = json!({ "batch": [event_with_hash(&json!(own))], "context": { "userHash": batch, "locale": "de" } });
        let record = post_signed("/v1/batch", header.map(String::as_str), &body).record();
        assert_eq!(record["userId"] == "u1", counts, "{body}");
    }
}

#[test]
fn an_event_with_an_unverified_user_id_is_that_of_its_anonymous_id() {
    let right = hash(NEW_KEY, "u1");
    let other_key = hash(b"ffffffffffffffffffffffffffffffff", "u1");
    for user_hash in [
        json!(null),
        json!(""),
        json!(hash(NEW_KEY, "u2")),
        json!(hash(NEW_KEY, "U1")),
        json!(other_key),
        json!(right[..63]),
        json!(format!("{right}0")),
        json!(format!(" {right}")),
        json!("g".repeat(64)),
        json!(7),
        json!({}),
        json!([right]),
    ] {
        let outcome = post_signed("/v1/track", None, &event_with_hash(&user_hash));
        let record = outcome.record();
        assert_eq!((&record["anonId"], &record["userId"]), (&json!("v1"), &Value::Null), "{user_hash}");
        assert_eq!(record["payload"].get("userId"), None, "nor does its payload name the user: {record}");
        assert_eq!(record["payload"]["event"], "e");
        let receipt = outcome.receipt();
        let warning = &receipt["warnings"][0];
        let named = (&warning["index"], &warning["code"], &warning["pointer"]);
        assert_eq!(named, (&json!(0), &json!("unverified_user"), &json!("/userId")), "{user_hash}");
        assert_eq!(receipt["warnings"].as_array().map(Vec::len), Some(1), "{receipt}");
        let results = outcome.results.expect("the body is valid");
        assert!(!results.are_all_recorded(), "a client that wants no receipt gets one");
        assert_eq!((results.unverified_users_count(), results.ignored_count()), (1, 0));
    }
}

#[test]
fn each_kind_of_event_loses_an_unverified_user_id_and_nothing_else() {
    for (path, members) in [
        ("/v1/page", json!({})),
        ("/v1/track", json!({ "event": "e" })),
        ("/v1/track", json!({ "set": { "plan": "pro" } })),
        ("/v1/identify", json!({ "traits": { "plan": "pro" } })),
        ("/v1/screen", json!({ "name": "s" })),
        ("/v1/group", json!({ "groupId": "g" })),
        ("/v1/alias", json!({ "previousId": "v2" })),
    ] {
        let mut event = json!({ "anonymousId": "v1", "userId": "u1", "messageId": "m" });
        event.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        let record = post_signed(path, None, &event).record();
        assert_eq!((&record["anonId"], &record["userId"]), (&json!("v1"), &Value::Null), "{path}");
        event.as_object_mut().expect("an object").remove("userId");
        assert_eq!(record["payload"], event, "{path}");
    }
}

#[test]
fn an_event_with_neither_an_anonymous_id_nor_a_valid_hash_is_refused() {
    let single = post_signed("/v1/track", None, &json!({ "userId": "u1", "event": "e" }));
    let problem = single.problem();
    let named = (&problem["code"], &problem["status"], &problem["pointer"]);
    assert_eq!(named, (&json!("unverified_user"), &json!(403), &json!("/userId")));
    let signed = json!({ "userId": "u2", "event": "e", "context": { "userHash": hash(NEW_KEY, "u2") } });
    let batch = json!({ "batch": [
        { "userId": "u1", "event": "e", "messageId": "m1" },
        signed,
        { "userId": "u1", "previousId": "v1", "type": "alias" },
        { "userId": "u1", "anonId": "v1", "event": "e" },
    ] });
    let outcome = post_signed("/v1/batch", None, &batch);
    let receipt = outcome.receipt();
    assert_eq!((&receipt["accepted"], &receipt["rejected"]), (&json!(2), &json!(2)));
    let result = &receipt["results"][0];
    let named = (&result["index"], &result["messageId"], &result["code"], &result["pointer"]);
    assert_eq!(named, (&json!(0), &json!("m1"), &json!("unverified_user"), &json!("/batch/0/userId")));
    assert_eq!(receipt["results"][1]["pointer"], "/batch/2/userId");
    assert_eq!(receipt["warnings"][0]["pointer"], "/batch/3/userId");
    assert_eq!(receipt["warnings"].as_array().map(Vec::len), Some(1), "{receipt}");
    assert_eq!(outcome.results.expect("valid").unverified_users_count(), 3);
}

#[test]
fn an_anonymous_id_beside_the_body_records_the_event() {
    let rule = UserRule::Signed { keys: &[], header_hash: None };
    let request = RequestFacts { anon_id: Some("cookie"), user_rule: rule, ..REQUEST };
    let record = post_as(&request, "/v1/track", r#"{"userId":"u1","event":"e"}"#).record();
    assert_eq!((&record["anonId"], &record["userId"]), (&json!("cookie"), &Value::Null));
}

#[test]
fn a_site_without_a_key_counts_no_user_id() {
    let header_hash = Some(hash(NEW_KEY, "u1"));
    let header_hash = header_hash.as_deref().map(str::as_bytes);
    let request = RequestFacts { user_rule: UserRule::Signed { keys: &[], header_hash }, ..REQUEST };
    assert_eq!(post_as(&request, "/v1/track", r#"{"userId":"u1","event":"e"}"#).code(), "unverified_user");
}

#[test]
fn no_record_has_the_hash_of_a_user_id_whether_the_site_verifies_or_not() {
    let right = hash(NEW_KEY, "u1");
    let event = |context: Value| json!({ "anonId": "v1", "userId": "u1", "event": "e", "context": context });
    for (context, kept) in [
        (json!({ "userHash": right }), json!({})),
        (json!({ "userHash": null, "locale": "de" }), json!({ "locale": "de" })),
        (json!({ "ip": "192.0.2.7", "userHash": right, "os": 1 }), json!({ "os": 1 })),
        (json!({ "userHash": { "x": right } }), json!({})),
    ] {
        for user_rule in [UserRule::Any, UserRule::Signed { keys: &*KEYS, header_hash: None }] {
            let request = RequestFacts { user_rule, ..REQUEST };
            let outcome = post_as(&request, "/v1/track", event(context.clone()).to_string());
            assert_eq!(outcome.record()["payload"]["context"], kept, "{context}");
            assert!(!outcome.lines[0].contains("userHash"), "{}", outcome.lines[0]);
        }
    }
    let own = event(json!({ "locale": "de" }));
    let batch =
        json!({ "batch": [own, { "anonId": "v1", "event": "e" }], "context": { "userHash": right, "a": 1 } });
    for line in post("/v1/batch", batch.to_string()).lines {
        assert!(!line.contains("userHash") && line.contains(r#""a":1"#), "{line}");
    }
    // JSON allows the name twice, and other characters for it.
    let twice = format!(
        r#"{{"anonId":"v1","event":"e","context":{{"userHash":"{right}","\u0075serHash":"{right}","userHash":"{right}"}}}}"#
    );
    let line = &post("/v1/track", twice).lines[0];
    assert!(!line.contains(&right), "{line}");
}

#[test]
fn members_of_the_same_name_elsewhere_stay() {
    let members = json!({ "properties": { "userHash": "p" }, "context": { "app": { "userHash": "a" }, "userHash": "c" } });
    let payload = &post("/v1/track", track(members)).record()["payload"];
    let kept = (&payload["properties"]["userHash"], &payload["context"]["app"]["userHash"]);
    assert_eq!(kept, (&json!("p"), &json!("a")));
    let own = json!({ "anonId": "v1", "event": "e", "context": { "app": { "b": 1 } } });
    let batch = json!({ "batch": [own], "context": { "app": { "userHash": "a" }, "userHash": "c" } });
    let context = &post("/v1/batch", batch.to_string()).record()["payload"]["context"];
    assert_eq!(*context, json!({ "app": { "b": 1, "userHash": "a" } }));
}

#[test]
fn a_receipt_names_as_many_unverified_users_as_ignored_values_and_counts_all() {
    for count in [IGNORED_VALUES_NAMED_MAX - 1, IGNORED_VALUES_NAMED_MAX, IGNORED_VALUES_NAMED_MAX + 1] {
        let batch = json!({ "batch": vec![event_with_hash(&Value::Null); count] });
        let outcome = post_signed("/v1/batch", None, &batch);
        let named = outcome.receipt()["warnings"].as_array().map(Vec::len);
        assert_eq!(named, Some(count.min(IGNORED_VALUES_NAMED_MAX)));
        assert_eq!(outcome.results.expect("valid").unverified_users_count(), count);
    }
}
