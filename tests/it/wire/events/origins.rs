//! CORS for events: the origins that may send events, and the responses that they may read.

use serde_json::{Value, json};

use super::super::problem;
use super::{SERVER, post_with, unique_id};
use crate::harness::{Client, Response};

const SITE_ORIGIN: &str = "https://www.acme.example";
const FOREIGN_ORIGIN: &str = "https://elsewhere.example";

fn post_from(origin: Option<&str>, body: &Value) -> Response {
    let fields: Vec<_> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
    post_with("/v1/track", &fields, body)
}

fn event(site: &str) -> Value {
    json!({ "site": site, "anonId": "v1", "event": "e", "messageId": unique_id("m") })
}

/// Returns the allowed origin, the credentials field and `Vary`.
fn cors(response: &Response) -> (Option<&str>, Option<&str>, Option<&str>) {
    let allowed = response.field("access-control-allow-origin");
    (allowed, response.field("access-control-allow-credentials"), response.field("vary"))
}

#[test]
fn a_site_origin_is_allowed_with_credentials() {
    for origin in [SITE_ORIGIN, "http://localhost:3000"] {
        let response = post_from(Some(origin), &event("closed"));
        assert_eq!((response.status, cors(&response)), (200, (Some(origin), Some("true"), Some("Origin"))));
        let exposed = response.field("access-control-expose-headers").expect("a list");
        assert!(exposed.contains("X-Dropped") && exposed.contains("Retry-After"));
    }
}

#[test]
fn a_foreign_origin_is_refused() {
    for origin in [FOREIGN_ORIGIN, "null", "https://www.acme.example.evil.example", "http://www.acme.example"]
    {
        let response = post_from(Some(origin), &event("closed"));
        assert_eq!(problem(&response), (403, "origin_not_allowed".into()), "{origin}");
        let expected = match origin {
            "null" => (Some("*"), None, None),
            origin => (Some(origin), Some("true"), Some("Origin")),
        };
        assert_eq!(cors(&response), expected);
    }
}

#[test]
fn a_request_without_an_origin_is_accepted() {
    let response = post_from(None, &event("closed"));
    assert_eq!((response.status, cors(&response)), (200, (None, None, Some("Origin"))));
}

#[test]
fn a_site_without_origins_allows_every_origin_and_null_without_credentials() {
    let response = post_from(Some(FOREIGN_ORIGIN), &event("acme"));
    assert_eq!(
        (response.status, cors(&response)),
        (200, (Some(FOREIGN_ORIGIN), Some("true"), Some("Origin")))
    );
    let response = post_from(Some("null"), &event("acme"));
    assert_eq!((response.status, cors(&response)), (200, (Some("*"), None, None)));
}

#[test]
fn problems_are_readable_by_the_page_that_caused_them() {
    for body in [
        json!({}),
        json!({ "site": "nobody" }),
        json!({ "site": "acme" }),
        json!({ "site": "acme", "batch": 7 }),
    ] {
        let response = post_from(Some(FOREIGN_ORIGIN), &body);
        assert!(response.status >= 400);
        assert_eq!(cors(&response), (Some(FOREIGN_ORIGIN), Some("true"), Some("Origin")), "{body}");
    }
}

#[test]
fn a_preflight_allows_the_headers_of_event_requests() {
    let mut client = Client::to(SERVER.get().edge);
    for path in ["/v1/page", "/v1/track", "/v1/batch", "/v1/b", "/v1/i"] {
        let fields = [
            ("Origin", FOREIGN_ORIGIN),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type,x-anon-id,prefer,x-own"),
        ];
        let response = client.request("OPTIONS", path, &fields);
        assert_eq!(response.status, 204);
        assert_eq!((cors(&response).0, cors(&response).1), (Some(FOREIGN_ORIGIN), Some("true")));
        assert_eq!(response.field("access-control-allow-methods"), Some("GET, HEAD, POST"));
        assert_eq!(response.field("access-control-allow-headers"), Some("content-type, prefer, x-anon-id"));
        assert_eq!(response.field("access-control-max-age"), Some("86400"));
    }
}
