//! The operator's address: who is admitted, what it serves, and when the server is ready.

use std::sync::Arc;

use parallax::admin::{Metrics, Operator};
use parallax::api::{Desk, Settings};
use parallax::http::request::{Parsed, parse};
use parallax::metrics::{Publishing, Totals};
use parallax::resolve::user_agent::Agents;
use parallax::site::catalog::catalog::Current;
use parallax::site::snapshot::open::Budget;
use parallax::worker::{ENDPOINTS_COUNTED, Service, Stopping};
use serde_json::json;

use super::{Shared, acme, page, problem, zone};
use crate::harness::{Client, Response, Server, arrival, eventually};

fn site() -> Vec<u8> {
    acme(&[page("/", json!({ "hero": zone(&["b"], json!([{ "when": {}, "variant": "b" }])) }))])
}

static OPEN: Shared = Shared::new(|| Server::start(&[("acme.snapshot", &site())], &[]));
static LOCKED: Shared =
    Shared::new(|| Server::start(&[("acme.snapshot", &site())], &["--admin-token", "open-sesame"]));

const WHY: &str = "/v1/resolve?site=acme&route=/&explain=1";

/// Sends these lines behind the request line.
fn ask(server: &Server, method: &str, target: &str, lines: &str) -> Response {
    let mut client = Client::to(server.admin);
    client.send(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n").as_bytes());
    client.response(method == "HEAD")
}

#[test]
fn health_and_readiness_need_no_token() {
    for server in [OPEN.get(), LOCKED.get()] {
        for target in ["/healthz", "/readyz"] {
            for lines in ["Host: localhost\r\n", "Host: rebound.example\r\nOrigin: https://a.example\r\n"] {
                let response = ask(&server, "GET", target, lines);
                assert_eq!(
                    (response.status, response.field("cache-control")),
                    (200, Some("no-store")),
                    "{target}"
                );
            }
            assert_eq!(ask(&server, "HEAD", target, "Host: a\r\n").status, 200);
        }
    }
}

#[test]
fn a_server_with_nothing_to_serve_is_alive_and_not_ready() {
    let server = Server::start(&[], &[]);
    assert_eq!(server.admin_get("/healthz").status, 200);
    let unready = server.admin_get("/readyz");
    assert_eq!(
        (unready.status, &unready.json()["ready"], &unready.json()["sites"]),
        (503, &json!(false), &json!(0))
    );
    server.publish("acme.snapshot", &site());
    let ready = eventually("the site makes it ready", || {
        Some(server.admin_get("/readyz")).filter(|response| response.status == 200)
    });
    assert_eq!((&ready.json()["ready"], &ready.json()["sites"]), (&json!(true), &json!(1)));
    std::fs::remove_file(server.path("acme.snapshot")).expect("the snapshot is removed");
    eventually("without the site it is not", || (server.admin_get("/readyz").status == 503).then_some(()));
}

#[test]
fn gets_on_loopback_need_no_token() {
    for server in [OPEN.get(), LOCKED.get()] {
        let response = ask(&server, "GET", WHY, "Host: localhost:9090\r\n");
        assert_eq!((response.status, response.json()["decisions"][0]["zone"].as_str()), (200, Some("hero")));
        assert_eq!(ask(&server, "HEAD", WHY, "Host: 127.0.0.1\r\n").status, 200);
        let decided = ask(&server, "GET", "/v1/variants?site=acme&route=/", "Host: localhost\r\n");
        assert_eq!(decided.body, server.get("/v1/variants?site=acme&route=/").body);
    }
}

#[test]
fn without_a_token_the_host_is_an_ip_address_or_localhost() {
    let server = OPEN.get();
    for host in
        ["localhost", "LocalHost:1", "127.0.0.1", "10.1.2.3:9090", "[::1]", "[::1]:9090", "[fe80::1]:80"]
    {
        assert_eq!(ask(&server, "GET", WHY, &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    for host in ["rebound.example", "rebound.example:9090", "localhost.example", "127.0.0.1.example", "1.2.3"]
    {
        let response = ask(&server, "GET", WHY, &format!("Host: {host}\r\n"));
        assert_eq!(problem(&response), (403, "host_not_allowed".into()), "{host}");
    }
    for host in ["", "localhost:x", "[::1", "user@localhost", "a b", "a/b", "[]", ":80"] {
        let response = ask(&server, "GET", WHY, &format!("Host: {host}\r\n"));
        assert_eq!(problem(&response), (400, "malformed_request".into()), "{host}");
    }
}

#[test]
fn an_origin_is_refused_with_a_token_too() {
    for server in [OPEN.get(), LOCKED.get()] {
        for method in ["GET", "POST", "OPTIONS"] {
            for origin in ["https://a.example", "null", "http://localhost:9090"] {
                let lines =
                    format!("Host: localhost\r\nOrigin: {origin}\r\nAuthorization: Bearer open-sesame\r\n");
                let response = ask(&server, method, WHY, &lines);
                assert_eq!(problem(&response), (403, "origin_not_allowed".into()), "{method} {origin}");
                assert_eq!(response.field("access-control-allow-origin"), None);
            }
        }
    }
}

#[test]
fn other_methods_need_the_token() {
    let server = LOCKED.get();
    let host = "Host: localhost\r\n";
    for wrong in [
        "",
        "Authorization: Bearer open-sesam\r\n",
        "Authorization: Basic open-sesame\r\n",
        "Authorization: open-sesame\r\n",
    ] {
        let response = ask(&server, "POST", WHY, &format!("{host}{wrong}"));
        assert_eq!(problem(&response), (401, "unauthorized".into()), "{wrong}");
        assert_eq!(response.field("www-authenticate"), Some("Bearer"));
    }
    for right in ["Bearer", "bearer", "BEARER"] {
        let response = ask(&server, "POST", WHY, &format!("{host}Authorization: {right} open-sesame\r\n"));
        assert_eq!(problem(&response), (405, "method_not_allowed".into()), "{right}");
    }
    let unlocked = ask(&OPEN.get(), "POST", WHY, &format!("{host}Authorization: Bearer \r\n"));
    assert_eq!(unlocked.status, 401);
}

#[test]
fn with_a_token_the_host_may_be_any() {
    let lines = "Host: parallax.internal:9090\r\nAuthorization: Bearer open-sesame\r\n";
    assert_eq!(ask(&LOCKED.get(), "GET", WHY, lines).status, 200);
    let wrong = lines.replace("sesame", "sesamo");
    assert_eq!(ask(&LOCKED.get(), "GET", WHY, &wrong).code(), "host_not_allowed");
}

#[test]
fn the_operators_address_serves_nothing_else() {
    let server = OPEN.get();
    for target in ["/", "/v1/routes?site=acme", "/v1/nothing", "/healthz/", "/readyz/x"] {
        let response = ask(&server, "GET", target, "Host: localhost\r\n");
        assert_eq!(problem(&response), (404, "unknown_endpoint".into()), "{target}");
    }
    for target in ["/healthz", "/readyz"] {
        assert_eq!(server.get(target).code(), "unknown_endpoint");
    }
}

/// The answer to a request from `peer`, without a socket in between.
fn answer_to(peer: &str, token: Option<&str>, fields: &str) -> String {
    let settings = Settings::default();
    let desk = Desk::new(settings, &Current::default(), Arc::new(Agents::new()));
    let metrics = Metrics {
        totals: Totals::new(ENDPOINTS_COUNTED),
        publishing: Publishing::default(),
        budget: Budget::new(0),
        started_s: 0,
        read: None,
    };
    let mut operator = Operator::new(desk, token.map(str::to_owned), Stopping::default(), metrics);
    let head = format!("GET {WHY} HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n");
    let Parsed::Whole(request, _) = parse(head.as_bytes(), None) else { panic!("it is whole") };
    let mut out = Vec::new();
    operator.answer(&request, &arrival(peer), &mut out);
    let text = String::from_utf8(out).expect("UTF-8");
    text.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn from_elsewhere_even_a_get_needs_the_token() {
    // Nothing is published here, so that 404 says that the request was admitted.
    let bearer = "Authorization: Bearer open-sesame\r\n";
    for loopback in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(answer_to(loopback, None, ""), "404", "{loopback}");
        assert_eq!(answer_to(loopback, Some("open-sesame"), ""), "404", "{loopback}");
    }
    for elsewhere in ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7", "0.0.0.0"] {
        assert_eq!(answer_to(elsewhere, None, ""), "401", "{elsewhere}");
        assert_eq!(answer_to(elsewhere, None, bearer), "401", "{elsewhere}");
        assert_eq!(answer_to(elsewhere, Some("open-sesame"), ""), "401", "{elsewhere}");
        assert_eq!(answer_to(elsewhere, Some("open-sesame"), bearer), "404", "{elsewhere}");
    }
}
