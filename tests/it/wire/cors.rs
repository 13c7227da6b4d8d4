//! CORS: every origin may read public responses. Private responses are readable from the origins of the site,
//! or from every origin without credentials if the site has no list.

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::json;

use super::{SharedServer, compile_site, page, site_file, zone};
use crate::harness::{Client, Response, Server};

static SERVER: SharedServer = SharedServer::new(|| {
    let routes = [page("/", json!({ "hero": zone(&["b"], json!([])) }))];
    let origins = json!([
        "https://www.acme.example",
        "https://*.acme.example",
        "http://localhost:*",
        "https://shop.example:8443",
        "http://[::1]:8080",
        "https://[2001:db8::2]",
    ]);
    let closed = compile_site(&site_file("closed", json!({ "origins": origins })), &routes, 1);
    let open = compile_site(&site_file("open", json!({})), &routes, 1);
    Server::start(&[("closed.snapshot", &closed), ("open.snapshot", &open)], &[])
});

const SITE_ORIGIN: &str = "https://www.acme.example";
const FOREIGN_ORIGIN: &str = "https://elsewhere.example";

fn get_from(origin: &str, target: &str) -> Response {
    SERVER.get().get_with(target, &[("Origin", origin)])
}

/// Returns the allowed origin, the credentials field and `Vary`.
fn cors(response: &Response) -> (Option<&str>, Option<&str>, Option<&str>) {
    let allowed = response.field("access-control-allow-origin");
    (allowed, response.field("access-control-allow-credentials"), response.field("vary"))
}

const EXPOSED: &str = "ETag, X-Request-Id, X-Version, X-Variants, X-Experiments, Parallax-Stale, X-Dropped, Server-Timing, Retry-After";

#[test]
fn every_origin_may_read_public_responses() {
    for target in [
        "/v1/routes?site=closed",
        "/v1/resolve?site=closed&route=/&variants=",
        "/v1/resolve?site=closed&route=/&variants=no:such",
        "/v1/variants?site=closed&route=/&include=combinations",
    ] {
        for origin in [SITE_ORIGIN, FOREIGN_ORIGIN, "null"] {
            let response = get_from(origin, target);
            assert_eq!(cors(&response), (Some("*"), None, None), "{target} {origin}");
            assert_eq!(response.field("access-control-expose-headers"), Some(EXPOSED));
        }
        assert_eq!(cors(&SERVER.get().get(target)), (Some("*"), None, None));
    }
}

#[test]
fn site_origins_may_read_private_responses_with_credentials() {
    for endpoint in ["resolve", "variants"] {
        let target = format!("/v1/{endpoint}?site=closed&route=/");
        for origin in [
            SITE_ORIGIN,
            "https://de.acme.example",
            "https://a.b-c.acme.example",
            "http://localhost:3000",
            "http://localhost:1",
            "https://shop.example:8443",
            "http://[::1]:8080",
            "https://[2001:db8::2]",
        ] {
            let response = get_from(origin, &target);
            assert_eq!(cors(&response), (Some(origin), Some("true"), Some("Origin")), "{origin}");
            assert_eq!(response.field("access-control-expose-headers"), Some(EXPOSED));
        }
    }
}

#[test]
fn foreign_origins_may_not_read_private_responses() {
    for foreign in [
        FOREIGN_ORIGIN,
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
        let response = get_from(foreign, "/v1/resolve?site=closed&route=/");
        assert_eq!(response.status, 200);
        assert_eq!(cors(&response), (None, None, Some("Origin")), "{foreign}");
        assert_eq!(response.field("access-control-expose-headers"), None);
    }
    let server = SERVER.get().get("/v1/resolve?site=closed&route=/");
    assert_eq!(cors(&server), (None, None, Some("Origin")));
}

#[test]
fn without_site_origins_every_origin_may_read_private_responses() {
    for origin in [SITE_ORIGIN, FOREIGN_ORIGIN, "null"] {
        assert_eq!(cors(&get_from(origin, "/v1/variants?site=open&route=/")), (Some("*"), None, None));
    }
    assert_eq!(cors(&SERVER.get().get("/v1/resolve?site=open&route=/")), (Some("*"), None, None));
}

#[test]
fn problems_are_readable_from_the_same_origins_as_responses() {
    let private = "/v1/resolve?site=closed&route=/&anonId=%20";
    assert_eq!(cors(&get_from(SITE_ORIGIN, private)), (Some(SITE_ORIGIN), Some("true"), Some("Origin")));
    assert_eq!(cors(&get_from(FOREIGN_ORIGIN, private)), (None, None, Some("Origin")));
    for public in [
        "/v1/resolve?site=closed&route=/&variants=!",
        "/v1/resolve?site=closed&variants=",
        "/v1/routes?site=closed&limit=0",
        "/v1/variants?site=closed&route=/&include=all",
        "/v1/resolve?site=closed&route=/not/published&variants=",
        "/v1/resolve?site=gamma&route=/&variants=",
        "/v1/variants?include=combinations",
        "/v1/routes",
        "/v1/query",
        "/v1/nothing",
    ] {
        let response = get_from(FOREIGN_ORIGIN, public);
        assert!(response.status >= 400);
        assert_eq!(cors(&response), (Some("*"), None, None), "{public}");
        assert_eq!(response.field("access-control-expose-headers"), Some(EXPOSED));
    }
}

#[test]
fn a_private_404_is_readable_by_the_pages_that_may_read_the_layout() {
    let not_found = "/v1/resolve?site=closed&route=/not/published";
    let response = get_from(SITE_ORIGIN, not_found);
    assert_eq!((response.status, response.code().as_str()), (404, "route_not_found"));
    assert_eq!(cors(&response), (Some(SITE_ORIGIN), Some("true"), Some("Origin")));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    assert_eq!(response.json()["requestId"].as_str(), response.field("x-request-id"));
    assert_eq!(cors(&get_from(FOREIGN_ORIGIN, not_found)), (None, None, Some("Origin")));
    let open = get_from(FOREIGN_ORIGIN, "/v1/variants?site=open&route=/not/published");
    assert_eq!((open.status, cors(&open)), (404, (Some("*"), None, None)));
}

#[test]
fn before_the_site_is_known_a_private_problem_is_readable_from_every_origin() {
    for private in ["/v1/resolve?site=gamma&route=/", "/v1/resolve", "/v1/variants?site=%FF", "/v1/variants"]
    {
        let response = get_from(FOREIGN_ORIGIN, private);
        assert!(response.status >= 400);
        let echo = (Some(FOREIGN_ORIGIN), Some("true"), Some("Origin"));
        assert_eq!(cors(&response), echo, "{private}");
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert_eq!(cors(&get_from("null", private)), (Some("*"), None, None), "{private}");
    }
}

#[test]
fn a_public_404_is_cached_briefly_with_the_tags_of_its_site() {
    for (target, tags) in [
        ("/v1/resolve?site=closed&route=/not/published&variants=", Some("closed,closed:/not/published")),
        ("/v1/variants?site=closed&route=/no&include=combinations", Some("closed,closed:/no")),
        ("/v1/resolve?site=gamma&route=/a%2520b/&variants=", Some("gamma,gamma:/a%20b")),
        ("/v1/resolve?site=gamma&route=nowhere&variants=", Some("gamma")),
        ("/v1/variants?site=gamma&route=/&include=combinations", Some("gamma,gamma:/")),
        ("/v1/routes?site=gamma&route=/", Some("gamma")),
        ("/v1/routes?trackingId=track_gamma", None),
        ("/v1/query?site=gamma&query=q", Some("gamma")),
        ("/v1/routes?site=a%20b", None),
    ] {
        let response = SERVER.get().get_with(target, &[("X-Request-Id", "mine")]);
        assert_eq!(response.status, 404, "{target}");
        assert_eq!(response.field("cache-control"), Some("public, s-maxage=10"), "{target}");
        assert_eq!(response.field("cache-tag"), tags, "{target}");
        assert_eq!(response.field("surrogate-key"), tags.map(|tags| tags.replace(',', " ")).as_deref());
        assert_eq!(response.json().get("requestId"), None, "{target}");
        assert_ne!(response.field("x-request-id"), Some("mine"));
        assert_eq!(SERVER.get().get(target).body, response.body, "{target}");
    }
    for private in ["/v1/resolve?site=gamma&route=/", "/v1/resolve?site=closed&route=/no", "/v1/nothing"] {
        let response = SERVER.get().get(private);
        assert_eq!((response.status, response.field("cache-control")), (404, Some("no-store")), "{private}");
        assert_eq!(response.field("cache-tag"), None);
    }
}

fn preflight(target: &str, fields: &[(&str, &str)]) -> Response {
    let requested = [&[("Access-Control-Request-Method", "POST")], fields].concat();
    Client::to(SERVER.get().edge).request("OPTIONS", target, &requested)
}

#[test]
fn a_preflight_is_answered_without_any_lookup() {
    for target in [
        "/v1/resolve?site=closed&route=/",
        "/v1/resolve?site=gamma&site=delta",
        "/v1/resolve?x=%FF&route",
        "/v1/nothing",
        "/",
    ] {
        for origin in [SITE_ORIGIN, FOREIGN_ORIGIN] {
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
fn a_preflight_never_echoes_null_or_an_invalid_origin() {
    for origin in ["null", "", "https://\u{e9}.example", "https://a.example https://b.example"] {
        let response = preflight("/v1/resolve", &[("Origin", origin)]);
        assert_eq!(response.status, 204);
        assert_eq!(response.field("access-control-allow-origin"), Some("*"), "{origin}");
        assert_eq!(response.field("access-control-allow-credentials"), None);
    }
}

/// Returns the requested headers that a preflight allows, sorted.
fn allowed(requested: &str) -> Vec<String> {
    let fields = [("Origin", FOREIGN_ORIGIN), ("Access-Control-Request-Headers", requested)];
    let response = preflight("/v1/resolve", &fields);
    let list = response.field("access-control-allow-headers").unwrap_or_default();
    let mut names: Vec<String> =
        list.split(", ").map(str::to_ascii_lowercase).filter(|n| !n.is_empty()).collect();
    names.sort();
    names
}

#[test]
fn a_preflight_allows_only_the_listed_headers() {
    let listed = "authorization,baggage,content-encoding,content-type,if-none-match,prefer,traceparent,\
                  tracestate,x-anon-id,x-debug-timing,x-preview,x-request-id,x-retry-count";
    assert_eq!(allowed(listed).join(","), listed);
    assert_eq!(allowed("X-Anon-Id, x-evil , Content-Type"), ["content-type", "x-anon-id"]);
    assert_eq!(allowed("x-evil,cookie,x-anon,,"), [""; 0]);
    assert_eq!(allowed("*"), [""; 0]);
}

#[test]
fn a_preflight_may_request_headers_on_several_lines() {
    let lines = ["prefer", "x-evil", "X-Anon-Id"].map(|line| ("Access-Control-Request-Headers", line));
    let response = preflight("/v1/resolve", &lines);
    assert_eq!(response.field("access-control-allow-headers"), Some("prefer, x-anon-id"));
}

#[test]
fn a_preflight_allows_each_header_once() {
    assert_eq!(allowed(&"prefer,".repeat(50)), ["prefer"]);
    assert_eq!(allowed(&format!("{}x-anon-id", "prefer,".repeat(50))), ["prefer", "x-anon-id"]);
}

#[test]
fn options_without_a_requested_method_is_no_preflight() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for endpoint in ["/v1/resolve", "/v1/variants", "/v1/routes?site=gamma"] {
        let response = client.request("OPTIONS", endpoint, &[("Origin", FOREIGN_ORIGIN)]);
        assert_eq!((response.status, response.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(response.field("access-control-allow-methods"), None);
    }
    assert_eq!(client.request("OPTIONS", "/v1/nothing", &[]).code(), "unknown_endpoint");
}

#[test]
fn an_invalid_origin_does_not_compile() {
    let diagnostics = |origin: &str| {
        let site = site_file("acme", json!({ "origins": [origin] }));
        let files = Files::from_memory([("site.json", site.as_bytes())]);
        let (source, diagnostics) = read(&files, &|_, _| {});
        compile(&source, diagnostics, 1, &|_, _| {}).err().map_or(0, |diagnostics| diagnostics.len())
    };
    for origin in [
        "https://*.acme.example",
        "http://localhost:*",
        "https://acme.example:8443",
        "http://[::1]",
        "http://[::1]:*",
        "https://[2001:db8::2]:8443",
    ] {
        assert_eq!(diagnostics(origin), 0, "{origin}");
    }
    for origin in
        ["https://*.acme.example:*", "https://*", "https://www.*.example", "*", "null", "acme.example"]
    {
        assert_eq!(diagnostics(origin), 1, "{origin}");
    }
}
