//! The visitor, the time and the page of an event.

use serde_json::{Value, json};

use super::{expected_problem, only_record, post, post_with, problem_with_pointer, unique_id};
use crate::wire::problem;

#[test]
fn the_anon_id_comes_from_event_then_parameter_then_header_then_cookie() {
    let [own, param, header, cookie] = ["own", "param", "header", "cookie"].map(unique_id);
    let target = format!("/v1/track?site=closed&anonId={param}");
    let cookies = format!("other=x; vid={cookie}");
    let fields = [("X-Anon-Id", header.as_str()), ("Cookie", cookies.as_str())];
    let event = json!({ "event": "e" });
    let named = json!({ "event": "e", "anonId": own, "anonymousId": "ignored" });
    only_record(&post_with(&target, &fields, &named), &own);
    only_record(&post_with(&target, &fields, &event), &param);
    only_record(&post_with("/v1/track?site=closed", &fields, &event), &header);
    only_record(&post_with("/v1/track?site=closed", &fields[1..], &event), &cookie);
    let cookie = unique_id("cookie");
    let cookies = format!("vid=\"{cookie}\"; vid=second");
    let mangled = [("X-Anon-Id", "a b"), ("Cookie", cookies.as_str())];
    only_record(&post_with("/v1/track?site=closed", &mangled, &event), &cookie);
}

#[test]
fn an_event_takes_the_first_usable_cookie_of_the_name() {
    for first in ["null", "undefined", "", "a b", "%6eull"] {
        let id = unique_id("cookie");
        let cookies = format!("vid={first}; other=x; vid={id}; vid=later");
        only_record(
            &post_with("/v1/track?site=closed", &[("Cookie", &cookies)], &json!({ "event": "e" })),
            &id,
        );
    }
    let refused =
        post_with("/v1/track?site=closed", &[("Cookie", "vid=null; vid=")], &json!({ "event": "e" }));
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[test]
fn an_event_needs_a_valid_anon_id_or_a_user_id() {
    for (fields, body, expected) in [
        (vec![], json!({}), expected_problem(400, "missing_visitor", "/anonId")),
        (
            vec![],
            json!({ "anonId": "", "userId": null }),
            expected_problem(400, "missing_visitor", "/anonId"),
        ),
        (vec![("X-Anon-Id", "null")], json!({}), expected_problem(400, "missing_visitor", "/anonId")),
        (
            vec![("Cookie", "anon_id=undefined")],
            json!({}),
            expected_problem(400, "missing_visitor", "/anonId"),
        ),
        (
            vec![("X-Anon-Id", "v1")],
            json!({ "anonId": "a b" }),
            expected_problem(400, "invalid_anon_id", "/anonId"),
        ),
        (vec![], json!({ "anonId": "v".repeat(129) }), expected_problem(400, "invalid_anon_id", "/anonId")),
        (vec![], json!({ "anonymousId": "grün" }), expected_problem(400, "invalid_anon_id", "/anonymousId")),
        (vec![], json!({ "anonId": ["v1"] }), expected_problem(400, "invalid_anon_id", "/anonId")),
    ] {
        let mut event = body;
        event["event"] = "e".into();
        assert_eq!(
            problem_with_pointer(&post_with("/v1/track?site=acme", &fields, &event)),
            expected,
            "{event}"
        );
    }
    let response = post("/v1/track?site=acme&anonId=a%20b", &json!({ "event": "e" }));
    assert_eq!((response.status, response.code()), (400, "invalid_anon_id".into()));
    assert_eq!(post("/v1/track?site=acme", &json!({ "event": "e", "anonId": "v".repeat(128) })).status, 200);
    assert_eq!(post("/v1/track?site=acme", &json!({ "event": "e", "userId": "grün" })).status, 200);
}

#[test]
fn a_placeholder_id_is_refused() {
    for id in [
        json!("anonymous"),
        json!("NULL"),
        json!("undefined"),
        json!("none"),
        json!("nil"),
        json!("0"),
        json!(0),
        json!("-"),
        json!("True"),
        json!(false),
        json!("nan"),
        json!("[object Object]"),
        json!("{}"),
        json!("00000000-0000-0000-0000-000000000000"),
    ] {
        for member in ["anonId", "anonymousId", "userId"] {
            let event = json!({ "event": "e", member: id });
            let response = post("/v1/track?site=acme", &event);
            assert_eq!(
                problem_with_pointer(&response),
                expected_problem(400, "placeholder_id", &format!("/{member}")),
                "{event}"
            );
        }
    }
}

#[test]
fn a_placeholder_id_in_the_query_string_is_refused() {
    for id in ["null", "undefined", "anonymous"] {
        let response =
            post(&format!("/v1/track?site=acme&anonId={id}"), &json!({ "event": "e", "userId": "u" }));
        assert_eq!(problem(&response), (400, "placeholder_id".into()), "{id}");
        assert_eq!(response.json()["param"], "anonId");
    }
}

#[test]
fn a_wrong_client_clock_is_corrected_and_no_event_is_in_the_future() {
    let record = |times: Value| {
        let id = unique_id("clock");
        let mut event = times;
        event["event"] = "e".into();
        event["anonId"] = id.as_str().into();
        only_record(&post("/v1/track?site=acme", &event), &id)
    };
    let given = record(json!({ "timestamp": "2026-01-05T10:00:00Z" }));
    assert_eq!(given["timestamp"], "2026-01-05T10:00:00.000Z");
    assert_eq!(
        record(json!({ "timestamp": 1_767_607_200_000_u64 }))["timestamp"],
        "2026-01-05T10:00:00.000Z"
    );
    assert_eq!(record(json!({ "timestamp": 1_767_607_200 }))["timestamp"], "2026-01-05T10:00:00.000Z");
    for times in [
        json!({}),
        json!({ "timestamp": "2099-01-01" }),
        json!({ "timestamp": "2031-01-05T10:00:00Z", "sentAt": "2031-01-05T10:00:00Z" }),
        json!({ "timestamp": "2001-01-05T10:00:00Z", "sentAt": "2001-01-05T10:00:00Z" }),
    ] {
        let record = record(times);
        assert_eq!(record["timestamp"], record["receivedAt"]);
    }
}

#[test]
fn the_page_path_comes_from_the_first_source_that_has_one() {
    let referer = [("Referer", "https://a.example/from/?x=1")];
    for (properties, context, path) in [
        (
            json!({ "path": "/a/", "url": "https://a.example/b" }),
            json!({ "page": { "path": "/c" } }),
            json!("/a"),
        ),
        (json!({ "url": "https://a.example/b" }), json!({ "page": { "path": "/c/d" } }), json!("/c/d")),
        (
            json!({ "url": "https://a.example/b?q#f" }),
            json!({ "page": { "url": "https://a.example/e" } }),
            json!("/b"),
        ),
        (json!({}), json!({ "page": { "url": "https://a.example" } }), json!("/")),
        (json!({}), json!({}), json!("/from")),
        (json!({ "path": "/caf%C3%A9" }), json!({}), json!("/café")),
        (json!({ "path": "no path" }), json!({}), json!("no path")),
        (json!({ "path": "x".repeat(2_000) }), json!({}), json!("x".repeat(1_024))),
    ] {
        let id = unique_id("page");
        let event = json!({ "site": "acme", "anonId": id, "properties": properties, "context": context });
        assert_eq!(only_record(&post_with("/v1/page", &referer, &event), &id)["path"], path, "{event}");
    }
    let id = unique_id("page");
    assert_eq!(
        only_record(&post("/v1/page", &json!({ "site": "acme", "anonId": id })), &id)["path"],
        Value::Null
    );
}
