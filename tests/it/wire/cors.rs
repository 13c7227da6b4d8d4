//! Who may read an answer from another origin: everyone the public ones, those whom the site
//! names the private ones.

use parallax::site::compile::compile;
use parallax::site::source::files::Files;
use parallax::site::source::read::read;
use serde_json::json;

use super::{Shared, compiled, page, site_file, zone};
use crate::harness::{Client, Response, Server};

static SERVER: Shared = Shared::new(|| {
    let routes = [page("/", json!({ "hero": zone(&["b"], json!([])) }))];
    let origins = json!([
        "https://www.acme.example",
        "https://*.acme.example",
        "http://localhost:*",
        "https://shop.example:8443",
    ]);
    let closed = compiled(&site_file("closed", json!({ "origins": origins })), &routes, 1);
    let open = compiled(&site_file("open", json!({})), &routes, 1);
    Server::start(&[("closed.snapshot", &closed), ("open.snapshot", &open)], &[])
});

const ALLOWED: &str = "https://www.acme.example";
const STRANGER: &str = "https://elsewhere.example";

fn from(origin: &str, target: &str) -> Response {
    SERVER.get().get_with(target, &[("Origin", origin)])
}

/// Allowed origin, credentials, `Vary`.
fn cors(response: &Response) -> (Option<&str>, Option<&str>, Option<&str>) {
    let allowed = response.field("access-control-allow-origin");
    (allowed, response.field("access-control-allow-credentials"), response.field("vary"))
}

const EXPOSED: &str = "ETag, X-Request-Id, X-Version, X-Variants, X-Dropped, Server-Timing, Retry-After";

#[test]
fn public_answers_are_for_every_origin() {
    for target in [
        "/v1/routes?site=closed",
        "/v1/resolve?site=closed&route=/&variants=",
        "/v1/resolve?site=closed&route=/&variants=no:such",
        "/v1/variants?site=closed&route=/&include=combinations",
    ] {
        for origin in [ALLOWED, STRANGER, "null"] {
            let response = from(origin, target);
            assert_eq!(cors(&response), (Some("*"), None, None), "{target} {origin}");
            assert_eq!(response.field("access-control-expose-headers"), Some(EXPOSED));
        }
        assert_eq!(cors(&SERVER.get().get(target)), (Some("*"), None, None));
    }
}

#[test]
fn private_answers_name_an_origin_of_the_site_with_credentials() {
    for endpoint in ["resolve", "variants"] {
        let target = format!("/v1/{endpoint}?site=closed&route=/");
        for origin in [
            ALLOWED,
            "https://de.acme.example",
            "https://a.b-c.acme.example",
            "http://localhost:3000",
            "http://localhost:1",
            "https://shop.example:8443",
        ] {
            let response = from(origin, &target);
            assert_eq!(cors(&response), (Some(origin), Some("true"), Some("Origin")), "{origin}");
            assert_eq!(response.field("access-control-expose-headers"), Some(EXPOSED));
        }
    }
}

#[test]
fn strangers_get_a_private_answer_that_they_cannot_read() {
    for stranger in [
        STRANGER,
        "null",
        "http://www.acme.example",
        "https://acme.example",
        "https://www.acme.example:444",
        "https://www.acme.example.evil.example",
        "https://evilacme.example",
        "https://evil.example/.acme.example",
        "https://evil.example?.acme.example",
        "https://user@x.acme.example",
        "https://.acme.example",
        "http://localhost",
        "http://localhost:",
        "http://localhost:80a",
        "http://localhost:3000.evil.example",
        "https://shop.example",
        "https://shop.example:84433",
        "*",
    ] {
        let response = from(stranger, "/v1/resolve?site=closed&route=/");
        assert_eq!(response.status, 200);
        assert_eq!(cors(&response), (None, None, Some("Origin")), "{stranger}");
        assert_eq!(response.field("access-control-expose-headers"), None);
    }
    let server = SERVER.get().get("/v1/resolve?site=closed&route=/");
    assert_eq!(cors(&server), (None, None, Some("Origin")));
}

#[test]
fn private_answers_of_a_site_without_origins_are_for_all_without_credentials() {
    for origin in [ALLOWED, STRANGER, "null"] {
        assert_eq!(cors(&from(origin, "/v1/variants?site=open&route=/")), (Some("*"), None, None));
    }
    assert_eq!(cors(&SERVER.get().get("/v1/resolve?site=open&route=/")), (Some("*"), None, None));
}

#[test]
fn problems_are_readable_as_the_answers_of_their_class() {
    let private = "/v1/resolve?site=closed&route=/&anonId=%20";
    assert_eq!(cors(&from(ALLOWED, private)), (Some(ALLOWED), Some("true"), Some("Origin")));
    assert_eq!(cors(&from(STRANGER, private)), (None, None, Some("Origin")));
    for public in [
        "/v1/resolve?site=closed&route=/&variants=!",
        "/v1/resolve?site=closed&variants=",
        "/v1/routes?site=closed&limit=0",
        "/v1/variants?site=closed&route=/&include=all",
        "/v1/resolve?site=closed&route=/not/published",
        "/v1/resolve?site=gamma&route=/",
        "/v1/resolve",
        "/v1/nothing",
    ] {
        let response = from(STRANGER, public);
        assert!(response.status >= 400);
        assert_eq!(cors(&response), (Some("*"), None, None), "{public}");
        assert_eq!(response.field("access-control-expose-headers"), Some(EXPOSED));
    }
}

fn preflight(target: &str, fields: &[(&str, &str)]) -> Response {
    let asked = [&[("Access-Control-Request-Method", "POST")], fields].concat();
    Client::to(SERVER.get().edge).request("OPTIONS", target, &asked)
}

#[test]
fn a_preflight_is_answered_before_anything_is_looked_up() {
    for target in [
        "/v1/resolve?site=closed&route=/",
        "/v1/resolve?site=gamma&site=delta",
        "/v1/resolve?x=%FF&route",
        "/v1/nothing",
        "/",
    ] {
        for origin in [ALLOWED, STRANGER] {
            let response = preflight(target, &[("Origin", origin)]);
            assert_eq!((response.status, response.body.len()), (204, 0), "{target}");
            assert_eq!(response.field("content-length"), None);
            let (allowed, credentials, vary) = cors(&response);
            assert_eq!((allowed, credentials), (Some(origin), Some("true")));
            assert!(vary.is_some_and(|v| v.contains("Origin")));
            assert_eq!(response.field("access-control-allow-methods"), Some("GET, HEAD, POST"));
            assert_eq!(response.field("access-control-max-age"), Some("86400"));
            assert_eq!(response.field("access-control-allow-headers"), None);
        }
    }
}

#[test]
fn a_preflight_never_echoes_null_nor_what_no_browser_sends() {
    for origin in ["null", "", "https://\u{e9}.example", "https://a.example https://b.example"] {
        let response = preflight("/v1/resolve", &[("Origin", origin)]);
        assert_eq!(response.status, 204);
        assert_eq!(response.field("access-control-allow-origin"), Some("*"), "{origin}");
        assert_eq!(response.field("access-control-allow-credentials"), None);
    }
}

/// The headers that a preflight allows of those that it asked for, sorted.
fn allowed(asked: &str) -> Vec<String> {
    let fields = [("Origin", STRANGER), ("Access-Control-Request-Headers", asked)];
    let response = preflight("/v1/resolve", &fields);
    let list = response.field("access-control-allow-headers").unwrap_or_default();
    let mut names: Vec<String> =
        list.split(", ").map(str::to_ascii_lowercase).filter(|n| !n.is_empty()).collect();
    names.sort();
    names
}

#[test]
fn a_preflight_allows_those_of_the_asked_headers_that_are_listed() {
    let listed = "authorization,baggage,content-encoding,content-type,if-none-match,prefer,traceparent,\
                  tracestate,x-anon-id,x-debug-timing,x-preview,x-request-id,x-retry-count";
    assert_eq!(allowed(listed).join(","), listed);
    assert_eq!(allowed("X-Anon-Id, x-evil , Content-Type"), ["content-type", "x-anon-id"]);
    assert_eq!(allowed("x-evil,cookie,x-anon,,"), [""; 0]);
    assert_eq!(allowed("*"), [""; 0]);
}

#[test]
fn a_preflight_allows_each_header_once() {
    assert_eq!(allowed(&"prefer,".repeat(50)), ["prefer"]);
    assert_eq!(allowed(&format!("{}x-anon-id", "prefer,".repeat(50))), ["prefer", "x-anon-id"]);
}

#[test]
fn a_question_for_the_methods_is_no_preflight() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for endpoint in ["/v1/resolve", "/v1/variants", "/v1/routes?site=gamma"] {
        let response = client.request("OPTIONS", endpoint, &[("Origin", STRANGER)]);
        assert_eq!((response.status, response.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(response.field("access-control-allow-methods"), None);
    }
    assert_eq!(client.request("OPTIONS", "/v1/nothing", &[]).code(), "unknown_endpoint");
}

#[test]
fn an_origin_with_two_wildcards_does_not_compile() {
    let mistakes = |origin: &str| {
        let site = site_file("acme", json!({ "origins": [origin] }));
        let files = Files::from_memory([("site.json", site.as_bytes())]);
        let (source, mistakes) = read(&files, &|_, _| {});
        compile(&source, mistakes, 1, &|_, _| {}).err().map_or(0, |mistakes| mistakes.len())
    };
    for origin in ["https://*.acme.example", "http://localhost:*", "https://acme.example:8443"] {
        assert_eq!(mistakes(origin), 0, "{origin}");
    }
    for origin in
        ["https://*.acme.example:*", "https://*", "https://www.*.example", "*", "null", "acme.example"]
    {
        assert_eq!(mistakes(origin), 1, "{origin}");
    }
}
