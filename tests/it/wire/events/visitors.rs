//! Whose an event is, when it happened, and on which page.

use serde_json::{Value, json};

use super::{fresh, only_record, post, post_with, refusal, refused};

#[test]
fn an_id_comes_from_the_event_else_a_parameter_else_the_header_else_the_cookie() {
    let [own, param, header, cookie] = ["own", "param", "header", "cookie"].map(fresh);
    let target = format!("/v1/track?site=closed&anonId={param}");
    let cookies = format!("other=x; vid={cookie}");
    let fields = [("X-Anon-Id", header.as_str()), ("Cookie", cookies.as_str())];
    let event = json!({ "event": "e" });
    let named = json!({ "event": "e", "anonId": own, "anonymousId": "ignored" });
    only_record(&post_with(&target, &fields, &named), &own);
    only_record(&post_with(&target, &fields, &event), &param);
    only_record(&post_with("/v1/track?site=closed", &fields, &event), &header);
    only_record(&post_with("/v1/track?site=closed", &fields[1..], &event), &cookie);
    let cookie = fresh("cookie");
    let cookies = format!("vid=\"{cookie}\"; vid=second");
    let mangled = [("X-Anon-Id", "a b"), ("Cookie", cookies.as_str())];
    only_record(&post_with("/v1/track?site=closed", &mangled, &event), &cookie);
}

#[test]
fn somebody_has_to_be_named() {
    for (fields, body, wrong) in [
        (vec![], json!({}), refusal(400, "missing_visitor", "/anonId")),
        (vec![], json!({ "anonId": "", "userId": null }), refusal(400, "missing_visitor", "/anonId")),
        (vec![("X-Anon-Id", "null")], json!({}), refusal(400, "missing_visitor", "/anonId")),
        (vec![("Cookie", "anon_id=undefined")], json!({}), refusal(400, "missing_visitor", "/anonId")),
        (vec![("X-Anon-Id", "v1")], json!({ "anonId": "a b" }), refusal(400, "invalid_anon_id", "/anonId")),
        (vec![], json!({ "anonId": "v".repeat(129) }), refusal(400, "invalid_anon_id", "/anonId")),
        (vec![], json!({ "anonymousId": "grün" }), refusal(400, "invalid_anon_id", "/anonymousId")),
        (vec![], json!({ "anonId": ["v1"] }), refusal(400, "invalid_anon_id", "/anonId")),
    ] {
        let mut event = body;
        event["event"] = "e".into();
        assert_eq!(refused(&post_with("/v1/track?site=acme", &fields, &event)), wrong, "{event}");
    }
    let response = post("/v1/track?site=acme&anonId=a%20b", &json!({ "event": "e" }));
    assert_eq!((response.status, response.code()), (400, "invalid_anon_id".into()));
    assert_eq!(post("/v1/track?site=acme", &json!({ "event": "e", "anonId": "v".repeat(128) })).status, 200);
    assert_eq!(post("/v1/track?site=acme", &json!({ "event": "e", "userId": "grün" })).status, 200);
}

#[test]
fn a_placeholder_is_nobody() {
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
            assert_eq!(refused(&response), refusal(400, "placeholder_id", &format!("/{member}")), "{event}");
        }
    }
}

#[test]
fn a_clients_clock_is_repaired_and_the_future_is_now() {
    let record = |times: Value| {
        let id = fresh("clock");
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
    for times in [
        json!({}),
        json!({ "timestamp": "2099-01-01" }),
        json!({ "timestamp": "2031-01-05T10:00:00Z", "sentAt": "2031-01-05T10:00:00Z" }),
        json!({ "timestamp": "1999-01-05T10:00:00Z", "sentAt": "1999-01-05T10:00:00Z" }),
    ] {
        let record = record(times);
        assert_eq!(record["timestamp"], record["receivedAt"]);
    }
}

#[test]
fn the_page_is_the_first_that_is_said() {
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
        let id = fresh("page");
        let event = json!({ "site": "acme", "anonId": id, "properties": properties, "context": context });
        assert_eq!(only_record(&post_with("/v1/page", &referer, &event), &id)["path"], path, "{event}");
    }
    let id = fresh("page");
    assert_eq!(
        only_record(&post("/v1/page", &json!({ "site": "acme", "anonId": id })), &id)["path"],
        Value::Null
    );
}
