//! The site of an event, which is given in the query, in the body or in the credentials.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::problem;
use super::{counts, expected_problem, only_record, post, post_with, problem_with_pointer, unique_id};
use crate::harness::Response;

/// Returns an event of visitor `v1` with the members of `more` added.
fn event(more: Value) -> Value {
    event_of("v1", &more)
}

fn event_of(anon_id: &str, more: &Value) -> Value {
    let mut event = json!({ "anonId": anon_id, "event": "e" });
    event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    event
}

fn as_user(user: &str, target: &str, body: &Value) -> Response {
    let credentials = format!("Basic {}", STANDARD.encode(user));
    post_with(target, &[("Authorization", &credentials)], body)
}

#[test]
fn a_site_may_be_in_the_query_the_body_or_the_credentials() {
    for (target, body) in [
        ("/v1/track?site=closed", json!({})),
        ("/v1/track?trackingId=track_closed", json!({})),
        (
            "/v1/track?trackingId=track_closed&site=closed",
            json!({ "site": "closed", "writeKey": "track_closed" }),
        ),
        ("/v1/track?trackingId=&site=closed", json!({ "trackingId": null, "site": "" })),
        ("/v1/track", json!({ "site": "closed" })),
        ("/v1/track", json!({ "trackingId": "track_closed" })),
        ("/v1/track", json!({ "writeKey": "track_closed" })),
        ("/v1/track", json!({ "trackingId": null, "writeKey": "track_closed", "site": "closed" })),
    ] {
        let id = unique_id("named");
        let receipt = post(target, &event_of(&id, &body));
        assert_eq!(only_record(&receipt, &id)["site"], "closed", "{target} {body}");
    }
    for user in ["track_closed:", "track_closed", "track_closed:secret"] {
        let id = unique_id("user");
        let receipt = as_user(user, "/v1/track", &event_of(&id, &json!({})));
        assert_eq!(only_record(&receipt, &id)["site"], "closed", "{user}");
    }
}

#[test]
fn an_unknown_or_missing_site_is_refused() {
    for (target, body, status, code) in [
        ("/v1/track", json!({}), 400, "missing_site"),
        ("/v1/track?site=nobody", json!({}), 404, "site_not_found"),
        ("/v1/track", json!({ "site": "nobody" }), 404, "site_not_found"),
        ("/v1/track", json!({ "trackingId": "track_nobody" }), 404, "site_not_found"),
        ("/v1/track", json!({ "trackingId": "acme" }), 400, "invalid_tracking_id"),
        ("/v1/track", json!({ "writeKey": "track_" }), 400, "invalid_tracking_id"),
        ("/v1/track", json!({ "trackingId": ["track_acme"] }), 400, "invalid_tracking_id"),
        ("/v1/track", json!({ "site": {} }), 400, "missing_site"),
        ("/v1/track?trackingId=acme", json!({}), 400, "invalid_tracking_id"),
        ("/v1/track?site=acme&site=acme", json!({}), 400, "repeated_param"),
        ("/v1/track?site=%FF", json!({}), 400, "invalid_query"),
    ] {
        assert_eq!(problem(&post(target, &event(body.clone()))), (status, code.into()), "{target} {body}");
    }
    assert_eq!(
        problem(&as_user("acme:", "/v1/track", &event(json!({})))),
        (400, "invalid_tracking_id".into())
    );
    for unreadable in ["Basic", "Basic %%%", "Bearer track_acme", "Basic Og=="] {
        let response = post_with("/v1/track", &[("Authorization", unreadable)], &event(json!({})));
        assert_eq!(problem(&response), (400, "missing_site".into()), "{unreadable}");
    }
}

#[test]
fn ids_of_two_sites_are_a_mismatch() {
    for (target, body) in [
        ("/v1/track?trackingId=track_acme&site=closed", json!({})),
        ("/v1/track", json!({ "trackingId": "track_acme", "site": "closed" })),
        ("/v1/track?site=acme", json!({ "trackingId": "track_closed" })),
        ("/v1/track?trackingId=track_acme", json!({ "writeKey": "track_closed" })),
        ("/v1/track?site=acme", json!({ "site": "closed" })),
        ("/v1/batch?site=acme", json!({ "trackingId": "track_closed", "batch": [] })),
        ("/v1/batch?site=acme", json!({ "site": "closed", "batch": [{ "anonId": "v", "event": "e" }] })),
        (
            "/v1/batch?trackingId=track_acme",
            json!({ "writeKey": "track_closed", "batch": [{ "anonId": "v", "event": "e" }] }),
        ),
    ] {
        assert_eq!(
            problem(&post(target, &event(body.clone()))),
            (400, "site_mismatch".into()),
            "{target} {body}"
        );
    }
    let response = as_user("track_acme:", "/v1/track", &event(json!({ "site": "closed" })));
    assert_eq!(problem_with_pointer(&response), expected_problem(400, "site_mismatch", "/site"));
    let batch = json!({ "site": "acme", "batch": [
        event(json!({})), event(json!({ "writeKey": "track_acme", "site": "acme" })), event(json!({ "writeKey": "track_closed" })),
    ] });
    let receipt = post("/v1/batch", &batch);
    assert_eq!(counts(&receipt), [2, 0, 0, 1]);
    assert_eq!(receipt.json()["results"][0]["pointer"], "/batch/2/writeKey");
}

#[test]
fn of_several_names_of_the_tracking_id_the_first_wins() {
    let both = json!({ "trackingId": "track_closed", "writeKey": "track_acme" });
    let id = unique_id("first");
    assert_eq!(only_record(&post("/v1/track", &event_of(&id, &both)), &id)["site"], "closed");
    for (target, body) in [
        ("/v1/track", json!({ "trackingId": "track_closed" })),
        ("/v1/track", json!({ "writeKey": "track_closed" })),
        ("/v1/track?trackingId=track_closed", json!({})),
        ("/v1/track?writeKey=track_closed", json!({})),
        ("/v1/track?trackingId=track_closed&writeKey=track_acme", json!({})),
    ] {
        let id = unique_id("first");
        let receipt = as_user("track_acme:", target, &event_of(&id, &body));
        assert_eq!(only_record(&receipt, &id)["site"], "closed", "{target} {body}");
    }
}

#[test]
fn credentials_for_a_proxy_do_not_override_the_given_site() {
    let named = json!({ "trackingId": "track_closed" });
    for (target, body) in [
        ("/v1/track", &named),
        ("/v1/track", &json!({ "site": "closed" })),
        ("/v1/track?site=closed", &json!({})),
        ("/v1/track?trackingId=track_closed", &json!({})),
    ] {
        let id = unique_id("staging");
        let receipt = as_user("ana:the proxy's password", target, &event_of(&id, body));
        assert_eq!(only_record(&receipt, &id)["site"], "closed", "{target} {body}");
    }
}

#[test]
fn a_problem_names_the_parameter_or_the_pointer() {
    let response = post("/v1/track?site=nobody", &event(json!({})));
    assert_eq!((&response.json()["param"], &response.json()["pointer"]), (&json!("site"), &Value::Null));
    let response = post("/v1/track", &event(json!({ "site": "nobody" })));
    assert_eq!((&response.json()["param"], &response.json()["pointer"]), (&Value::Null, &json!("/site")));
    let response = post("/v1/track?site=acme&dryRun=yes", &event(json!({})));
    assert_eq!((&response.json()["param"], &response.json()["pointer"]), (&json!("dryRun"), &Value::Null));
}

#[test]
fn the_beacon_of_rudderstack_names_its_site_in_the_query_string() {
    let id = unique_id("beacon");
    let batch = json!({ "batch": [event_of(&id, &json!({}))] });
    let receipt = post("/beacon/v1/batch?writeKey=track_acme", &batch);
    assert_eq!(only_record(&receipt, &id)["site"], "acme");
    let unknown = post("/beacon/v1/batch?writeKey=track_nobody", &batch);
    assert_eq!(problem(&unknown).1, "site_not_found");
    assert_eq!(unknown.json()["param"], "writeKey");
}
