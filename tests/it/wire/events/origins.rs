//! From which pages events are taken, and what those may read.

use serde_json::{Value, json};

use super::super::problem;
use super::{SERVER, fresh, post_with};
use crate::harness::{Client, Response};

const ALLOWED: &str = "https://www.acme.example";
const STRANGER: &str = "https://elsewhere.example";

fn from(origin: Option<&str>, body: &Value) -> Response {
    let fields: Vec<_> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
    post_with("/v1/track", &fields, body)
}

fn event(site: &str) -> Value {
    json!({ "site": site, "anonId": "v1", "event": "e", "messageId": fresh("m") })
}

/// Allowed origin, credentials, `Vary`.
fn cors(response: &Response) -> (Option<&str>, Option<&str>, Option<&str>) {
    let allowed = response.field("access-control-allow-origin");
    (allowed, response.field("access-control-allow-credentials"), response.field("vary"))
}

#[test]
fn an_origin_of_the_site_is_named_with_credentials() {
    for origin in [ALLOWED, "http://localhost:3000"] {
        let response = from(Some(origin), &event("closed"));
        assert_eq!((response.status, cors(&response)), (200, (Some(origin), Some("true"), Some("Origin"))));
        let exposed = response.field("access-control-expose-headers").expect("a list");
        assert!(exposed.contains("X-Dropped") && exposed.contains("Retry-After"));
    }
}

#[test]
fn a_stranger_is_refused() {
    for origin in [STRANGER, "null", "https://www.acme.example.evil.example", "http://www.acme.example"] {
        let response = from(Some(origin), &event("closed"));
        assert_eq!(problem(&response), (403, "origin_not_allowed".into()), "{origin}");
        assert_ne!(response.field("access-control-allow-origin"), Some("null"));
        assert_eq!(response.field("vary"), Some("Origin"));
    }
}

#[test]
fn who_names_no_origin_is_a_server_and_passes() {
    let response = from(None, &event("closed"));
    assert_eq!((response.status, cors(&response)), (200, (None, None, Some("Origin"))));
}

#[test]
fn where_the_site_names_none_every_origin_is_echoed_but_null() {
    let response = from(Some(STRANGER), &event("acme"));
    assert_eq!((response.status, cors(&response)), (200, (Some(STRANGER), Some("true"), Some("Origin"))));
    let response = from(Some("null"), &event("acme"));
    assert_eq!((response.status, cors(&response)), (200, (None, None, Some("Origin"))));
}

#[test]
fn problems_can_be_read_by_the_page_that_caused_them() {
    for body in [
        json!({}),
        json!({ "site": "nobody" }),
        json!({ "site": "acme" }),
        json!({ "site": "acme", "batch": 7 }),
    ] {
        let response = from(Some(STRANGER), &body);
        assert!(response.status >= 400);
        assert_eq!(cors(&response), (Some(STRANGER), Some("true"), Some("Origin")), "{body}");
    }
}

#[test]
fn a_preflight_allows_what_events_bring() {
    let mut client = Client::to(SERVER.get().edge);
    for path in ["/v1/page", "/v1/track", "/v1/batch", "/v1/b", "/v1/i"] {
        let fields = [
            ("Origin", STRANGER),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type,x-anon-id,prefer,x-own"),
        ];
        let response = client.request("OPTIONS", path, &fields);
        assert_eq!(response.status, 204);
        assert_eq!((cors(&response).0, cors(&response).1), (Some(STRANGER), Some("true")));
        assert_eq!(response.field("access-control-allow-methods"), Some("GET, HEAD, POST"));
        assert_eq!(response.field("access-control-allow-headers"), Some("content-type, prefer, x-anon-id"));
        assert_eq!(response.field("access-control-max-age"), Some("86400"));
    }
}
