//! The admin address: access checks, endpoints and readiness.

use std::sync::Arc;

use parallax::testing::admin::{AccessSettings, AdminService, Metrics};
use parallax::testing::api::{Handler, Service, Settings};
use parallax::testing::http::request::{ParseOutcome, parse};
use parallax::testing::metrics::{PublishCounters, Totals, WebhookCounters};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::CurrentCatalog;
use parallax::testing::site::snapshot::open::SnapshotBudget;
use parallax::testing::worker::{ENDPOINT_COUNTERS, Lifecycle};
use serde_json::json;

use super::{SharedServer, acme_snapshot, page, problem, zone};
use crate::harness::{Client, Response, Server, eventually, request_meta};

fn site() -> Vec<u8> {
    acme_snapshot(&[page("/", json!({ "hero": zone(&["b"], json!([{ "when": {}, "variant": "b" }])) }))])
}

static OPEN: SharedServer = SharedServer::new(|| Server::start(&[("acme.snapshot", &site())], &[]));
static LOCKED: SharedServer =
    SharedServer::new(|| Server::start(&[("acme.snapshot", &site())], &["--admin-token", "open-sesame"]));

const EXPLAIN_TARGET: &str = "/v1/resolve?site=acme&route=/&explain=1";

/// Sends a request with these header lines to the admin address.
fn send(server: &Server, method: &str, target: &str, lines: &str) -> Response {
    let mut client = Client::to(server.admin);
    client.send(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n").as_bytes());
    client.response(method == "HEAD")
}

#[test]
fn health_and_readiness_need_no_token() {
    for server in [OPEN.get(), LOCKED.get()] {
        for target in ["/healthz", "/readyz"] {
            for lines in ["Host: localhost\r\n", "Host: rebound.example\r\nOrigin: https://a.example\r\n"] {
                let response = send(&server, "GET", target, lines);
                assert_eq!(
                    (response.status, response.field("cache-control")),
                    (200, Some("no-store")),
                    "{target}"
                );
            }
            assert_eq!(send(&server, "HEAD", target, "Host: a\r\n").status, 200);
        }
    }
}

#[test]
fn a_server_without_sites_is_alive_but_not_ready() {
    let server = Server::start(&[], &[]);
    assert_eq!(server.admin_get("/healthz").status, 200);
    let unready = server.admin_get("/readyz");
    assert_eq!(
        (unready.status, &unready.json()["ready"], &unready.json()["sites"]),
        (503, &json!(false), &json!(0))
    );
    server.publish("acme.snapshot", &site());
    let ready = eventually("the server is ready with a site", || {
        Some(server.admin_get("/readyz")).filter(|response| response.status == 200)
    });
    assert_eq!((&ready.json()["ready"], &ready.json()["sites"]), (&json!(true), &json!(1)));
    std::fs::remove_file(server.path("acme.snapshot")).expect("the snapshot is removed");
    eventually("the server is not ready without a site", || {
        (server.admin_get("/readyz").status == 503).then_some(())
    });
}

#[test]
fn without_a_token_gets_on_loopback_are_answered() {
    let server = OPEN.get();
    let response = send(&server, "GET", EXPLAIN_TARGET, "Host: localhost:9090\r\n");
    assert_eq!((response.status, response.json()["decisions"][0]["zone"].as_str()), (200, Some("hero")));
    assert_eq!(send(&server, "HEAD", EXPLAIN_TARGET, "Host: 127.0.0.1\r\n").status, 200);
    for target in ["/v1/variants?site=acme&route=/", "/v1/routes?site=acme"] {
        let response = send(&server, "GET", target, "Host: localhost\r\n");
        assert_eq!(response.body, server.get(target).body);
    }
}

#[test]
fn without_a_token_other_methods_are_refused_and_the_detail_says_how_to_set_one() {
    let server = OPEN.get();
    for method in ["DELETE", "POST", "OPTIONS"] {
        let response = send(&server, method, "/visitors?site=acme&anonId=v1", "Host: localhost\r\n");
        assert_eq!(problem(&response), (401, "unauthorized".into()), "{method}");
        assert_eq!(response.field("www-authenticate"), Some("Bearer"));
        let detail = response.json()["detail"].as_str().expect("a detail").to_owned();
        assert!(detail.starts_with("No admin token is configured"), "{detail}");
        assert!(detail.contains("--admin-token TOKEN or PARALLAX_ADMIN_TOKEN"), "{detail}");
    }
}

#[test]
fn without_a_token_requests_through_a_proxy_are_refused() {
    for field in
        ["Forwarded: for=192.0.2.7", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-For:", "Via: 1.1 proxy"]
    {
        let lines = format!("Host: localhost\r\n{field}\r\n");
        let response = send(&OPEN.get(), "GET", EXPLAIN_TARGET, &lines);
        assert_eq!(problem(&response), (401, "unauthorized".into()), "{field}");
        let lines = format!("{lines}Authorization: Bearer open-sesame\r\n");
        assert_eq!(send(&LOCKED.get(), "GET", EXPLAIN_TARGET, &lines).status, 200, "{field}");
    }
}

#[test]
fn without_a_token_requests_of_web_pages_are_refused() {
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let lines = format!("Host: localhost\r\nSec-Fetch-Site: {site}\r\n");
        let response = send(&OPEN.get(), "GET", EXPLAIN_TARGET, &lines);
        assert_eq!(response.status, status, "{site}");
        if status == 403 {
            assert_eq!(response.code(), "origin_not_allowed");
        }
        let health = send(&OPEN.get(), "GET", "/healthz", &lines);
        assert_eq!(health.status, 200, "{site}");
    }
}

#[test]
fn without_a_token_the_host_must_be_an_ip_address_or_localhost() {
    let server = OPEN.get();
    for host in
        ["localhost", "LocalHost:1", "127.0.0.1", "10.1.2.3:9090", "[::1]", "[::1]:9090", "[fe80::1]:80"]
    {
        assert_eq!(send(&server, "GET", EXPLAIN_TARGET, &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    for host in ["rebound.example", "rebound.example:9090", "localhost.example", "127.0.0.1.example", "1.2.3"]
    {
        let response = send(&server, "GET", EXPLAIN_TARGET, &format!("Host: {host}\r\n"));
        assert_eq!(problem(&response), (403, "host_not_allowed".into()), "{host}");
    }
    for host in ["", "localhost:x", "[::1", "user@localhost", "a b", "a/b", "[]", ":80"] {
        let response = send(&server, "GET", EXPLAIN_TARGET, &format!("Host: {host}\r\n"));
        assert_eq!(problem(&response), (400, "malformed_request".into()), "{host}");
    }
}

#[test]
fn without_a_token_every_origin_is_refused() {
    let own = "http://localhost:9090";
    for method in ["GET", "POST", "OPTIONS"] {
        for origin in ["https://a.example", "null", own] {
            let lines = format!("Host: localhost:9090\r\nOrigin: {origin}\r\n");
            let response = send(&OPEN.get(), method, EXPLAIN_TARGET, &lines);
            // The refusal of a POST of the own page names the flag that is missing.
            let expected = match (method, origin == own) {
                ("POST", true) => (401, "unauthorized".into()),
                _ => (403, "origin_not_allowed".into()),
            };
            assert_eq!(problem(&response), expected, "{method} {origin}");
            assert_eq!(response.field("access-control-allow-origin"), None);
        }
    }
}

#[test]
fn with_a_token_only_pages_of_the_admin_address_itself_are_answered() {
    let host = "Host: admin.example:9090\r\n";
    let bearer = "Authorization: Bearer open-sesame\r\n";
    for origin in ["http://admin.example:9090", "https://admin.example:9090"] {
        let lines = format!("{host}Origin: {origin}\r\n");
        let response = send(&LOCKED.get(), "GET", EXPLAIN_TARGET, &format!("{lines}{bearer}"));
        assert_eq!(response.status, 200, "{origin}");
        let response = send(&LOCKED.get(), "GET", EXPLAIN_TARGET, &lines);
        assert_eq!(problem(&response), (401, "unauthorized".into()), "{origin} without the token");
    }
    for origin in ["https://a.example", "null", "http://admin.example", "ftp://admin.example:9090", ""] {
        for bearer in ["", bearer, "Authorization: Bearer wrong\r\n"] {
            let lines = format!("{host}Origin: {origin}\r\n{bearer}");
            let response = send(&LOCKED.get(), "GET", EXPLAIN_TARGET, &lines);
            assert_eq!(problem(&response), (403, "origin_not_allowed".into()), "{origin} {bearer}");
            assert_eq!(response.field("access-control-allow-origin"), None);
        }
    }
}

#[test]
fn with_a_token_every_method_needs_it_on_loopback_too() {
    let host = "Host: localhost\r\n";
    for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS"] {
        for target in [EXPLAIN_TARGET, "/visitors?site=acme&anonId=v1", "/nothing"] {
            for lines in ["", "Authorization: Basic open-sesame\r\n", "Authorization: open-sesame\r\n"] {
                let response = send(&LOCKED.get(), method, target, &format!("{host}{lines}"));
                assert_eq!(response.status, 401, "{method} {target} {lines}");
                assert_eq!(response.field("www-authenticate"), Some("Bearer"));
                if method != "HEAD" {
                    assert_eq!(response.code(), "unauthorized");
                }
            }
        }
    }
    for right in ["Bearer", "bearer", "BEARER"] {
        let lines = format!("{host}Authorization: {right} open-sesame\r\n");
        assert_eq!(send(&LOCKED.get(), "GET", EXPLAIN_TARGET, &lines).status, 200, "{right}");
        assert_eq!(send(&LOCKED.get(), "POST", EXPLAIN_TARGET, &lines).code(), "method_not_allowed");
    }
}

#[test]
fn one_wrong_token_a_second_gets_401_and_further_ones_429() {
    let server = Server::start(&[("acme.snapshot", &site())], &["--admin-token", "open-sesame"]);
    let get = |token: &str| {
        let lines = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n");
        send(&server, "GET", EXPLAIN_TARGET, &lines)
    };
    let began = std::time::Instant::now();
    assert_eq!(problem(&get("open-sesam")), (401, "unauthorized".into()));
    let further: Vec<_> = ["open-sesame2", "Open-sesame"].iter().map(|token| get(token)).collect();
    if began.elapsed() < std::time::Duration::from_secs(1) {
        for response in &further {
            assert_eq!(problem(response), (429, "rate_limited".into()));
            assert_eq!(response.field("retry-after"), Some("1"));
        }
    }
    assert_eq!(get("open-sesame").status, 200, "the right token is never limited");
    eventually("a wrong token gets 401 again", || (get("wrong").status == 401).then_some(()));
}

#[test]
fn wrong_tokens_of_the_console_itself_are_limited_too() {
    let server = Server::start(&[("acme.snapshot", &site())], &["--admin-token", "open-sesame"]);
    let target = "/visitors?site=acme&anonId=v1";
    let ask = |method: &str, token: &str| {
        let own = "Host: localhost:9090\r\nOrigin: http://localhost:9090\r\n";
        send(&server, method, target, &format!("{own}Authorization: Bearer {token}\r\n"))
    };
    let began = std::time::Instant::now();
    assert_eq!(problem(&ask("DELETE", "wrong")), (401, "unauthorized".into()));
    let further = [ask("DELETE", "guess"), ask("GET", "guess")];
    if began.elapsed() < std::time::Duration::from_secs(1) {
        for response in further {
            assert_eq!(problem(&response), (429, "rate_limited".into()));
        }
    }
    let right = problem(&ask("DELETE", "open-sesame"));
    assert_eq!(right, (404, "visitor_not_found".into()), "the right token is never limited");
}

#[test]
fn a_header_names_the_visitor_instead_of_the_url() {
    let server = Server::start(&[("acme.snapshot", &site())], &["--admin-token", "open-sesame"]);
    let batch = json!([{ "type": "page", "anonId": "a+b%2Fc", "properties": { "path": "/" } },
        { "type": "identify", "anonId": "a+b%2Fc", "userId": "åse&co" }]);
    let body = json!({ "trackingId": "track_acme", "batch": batch }).to_string();
    assert_eq!(server.post("/v1/batch", &[], body.as_bytes()).json()["accepted"], 2);
    let ask = |method: &str, target: &str, visitor: &str| {
        let lines =
            format!("Host: localhost\r\nAuthorization: Bearer open-sesame\r\nx-visitor: {visitor}\r\n");
        send(&server, method, target, &lines)
    };
    for visitor in ["anonId=a%2Bb%252Fc", "userId=%C3%A5se%26co"] {
        let profile = ask("GET", "/visitors?site=acme", visitor);
        assert_eq!((profile.status, &profile.json()["known"]), (200, &json!(true)), "{visitor}");
        let records = ask("GET", "/visitors/records?site=acme&limit=1", visitor).json();
        assert_eq!(records["records"][0]["type"], "identify", "{visitor}");
        let export = ask("GET", "/visitors/export?site=acme", visitor);
        assert_eq!(export.text().lines().count(), 2, "{visitor}");
        let explained = ask("GET", EXPLAIN_TARGET, visitor).json();
        assert_eq!(explained["visitor"]["pageViews"], json!(null), "{explained}");
        assert_eq!(explained["visitor"]["visitor"]["userId"], "åse&co", "{explained}");
    }
    for malformed in ["v1", "anonId", "site=acme", "anonId=v1&site=other", "anonId=v1&anonId=v2"] {
        let response = ask("GET", "/visitors?site=acme", malformed);
        assert_eq!(problem(&response), (400, "invalid_param".into()), "{malformed}");
    }
    let both = ask("GET", "/visitors?site=acme&anonId=v1", "anonId=v1");
    assert_eq!(problem(&both), (400, "repeated_param".into()));
    let two = ask("DELETE", "/visitors?site=acme&anonId=v1", "userId=u1");
    assert_eq!(problem(&two), (400, "missing_visitor".into()));
    assert_eq!(ask("GET", "/visitors?site=acme", "anonId=null").code(), "placeholder_id");
    let erased = ask("DELETE", "/visitors?site=acme", "anonId=a%2Bb%252Fc");
    assert_eq!(erased.json()["erased"]["records"], 2, "{}", erased.text());
    assert_eq!(ask("GET", "/visitors?site=acme", "userId=%C3%A5se%26co").json()["known"], false);
}

#[test]
fn an_absolute_target_decides_the_host_for_which_the_admin_address_answers() {
    for (authority, host, expected) in [
        ("http://rebound.example", "localhost", (403, "host_not_allowed".into())),
        ("HTTP://rebound.example:9090", "127.0.0.1", (403, "host_not_allowed".into())),
        ("http://localhost", "rebound.example", (200, String::new())),
        ("https://[::1]:9090", "rebound.example", (200, String::new())),
    ] {
        let response =
            send(&OPEN.get(), "GET", &format!("{authority}{EXPLAIN_TARGET}"), &format!("Host: {host}\r\n"));
        let code = if response.status == 200 { String::new() } else { response.code() };
        assert_eq!((response.status, code), expected, "{authority}, Host: {host}");
    }
    let lines = |origin: &str| {
        format!("Host: localhost\r\nOrigin: {origin}\r\nAuthorization: Bearer open-sesame\r\n")
    };
    let target = format!("http://parallax.internal:9090{EXPLAIN_TARGET}");
    let own = send(&LOCKED.get(), "GET", &target, &lines("http://parallax.internal:9090"));
    assert_eq!(own.status, 200, "{}", own.text());
    let other = send(&LOCKED.get(), "GET", &target, &lines("http://localhost"));
    assert_eq!(problem(&other), (403, "origin_not_allowed".into()));
}

#[test]
fn with_a_token_any_host_is_accepted() {
    let lines = "Host: parallax.internal:9090\r\nAuthorization: Bearer open-sesame\r\n";
    assert_eq!(send(&LOCKED.get(), "GET", EXPLAIN_TARGET, lines).status, 200);
}

#[test]
fn a_malformed_or_placeholder_id_of_a_visitor_is_refused() {
    let user_id = "u".repeat(257);
    let anon_id = "a".repeat(129);
    for path in ["/visitors", "/visitors/export", "/visitors/records"] {
        for (id, code) in [
            ("anonId=a%20b", "invalid_anon_id"),
            (&*format!("anonId={anon_id}"), "invalid_anon_id"),
            ("anonId=%C3%A4", "invalid_anon_id"),
            ("anonId=undefined", "placeholder_id"),
            ("userId=NULL", "placeholder_id"),
            (&*format!("userId={user_id}"), "invalid_param"),
        ] {
            let target = format!("{path}?site=acme&{id}");
            let response = send(&OPEN.get(), "GET", &target, "Host: localhost\r\n");
            assert_eq!(problem(&response), (400, code.into()), "{target}");
            assert_eq!(response.json()["param"], id.split('=').next().expect("a name"));
        }
        for id in [format!("anonId={}", &anon_id[1..]), format!("userId={}", &user_id[1..])] {
            let target = format!("{path}?site=acme&{id}");
            assert_eq!(send(&OPEN.get(), "GET", &target, "Host: localhost\r\n").status, 200, "{target}");
        }
    }
}

#[test]
fn the_admin_address_serves_no_other_endpoints() {
    let server = OPEN.get();
    for target in ["/console", "/v1/query?site=acme", "/v1/nothing", "/healthz/", "/readyz/x"] {
        let response = send(&server, "GET", target, "Host: localhost\r\n");
        assert_eq!(problem(&response), (404, "unknown_endpoint".into()), "{target}");
    }
    for target in ["/healthz", "/readyz"] {
        assert_eq!(server.get(target).code(), "unknown_endpoint");
    }
}

/// Returns the status of the response to a request from `peer`. Calls the service without a socket.
fn status_for_peer(peer: &str, token: Option<&str>, fields: &str) -> String {
    let handlers = [(), ()].map(|()| {
        Handler::new(Settings::default(), &CurrentCatalog::default(), Arc::new(UserAgentParser::new()))
    });
    let totals = Totals::new(ENDPOINT_COUNTERS);
    let counters = (PublishCounters::default(), WebhookCounters::default());
    let metrics = Metrics::at_startup(&totals, counters.0, &counters.1, SnapshotBudget::new(0));
    let mut access = AccessSettings::default();
    access.token = token.map(str::to_owned);
    let mut admin = AdminService::new(handlers, access, Lifecycle::default(), metrics);
    let head = format!("GET {EXPLAIN_TARGET} HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n");
    let ParseOutcome::Complete(request, _) = parse(head.as_bytes(), None) else {
        panic!("the request is incomplete")
    };
    let mut out = Vec::new();
    admin.handle(&request, &request_meta(peer), &mut out);
    let text = String::from_utf8(out).expect("UTF-8");
    text.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn a_get_from_another_machine_needs_the_token() {
    // No site is published here, so 404 means that the request passed the access checks.
    let bearer = "Authorization: Bearer open-sesame\r\n";
    for loopback in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(status_for_peer(loopback, None, ""), "404", "{loopback}");
        assert_eq!(status_for_peer(loopback, Some("open-sesame"), ""), "401", "{loopback}");
        assert_eq!(status_for_peer(loopback, Some("open-sesame"), bearer), "404", "{loopback}");
    }
    for elsewhere in ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7", "0.0.0.0"] {
        assert_eq!(status_for_peer(elsewhere, None, ""), "401", "{elsewhere}");
        assert_eq!(status_for_peer(elsewhere, None, bearer), "401", "{elsewhere}");
        assert_eq!(status_for_peer(elsewhere, Some("open-sesame"), ""), "401", "{elsewhere}");
        assert_eq!(status_for_peer(elsewhere, Some("open-sesame"), bearer), "404", "{elsewhere}");
    }
}
