//! The settings that Segment's browser library loads first.

use serde_json::json;

use super::{SharedServer, compile_site, page, problem, site_file};
use crate::harness::{Client, Response, Server};

const SITE_ORIGIN: &str = "https://www.acme.example";

static SERVER: SharedServer = SharedServer::new(|| {
    let routes = [page("/", json!({}))];
    let open = compile_site(&site_file("open", json!({})), &routes, 1);
    let listed = compile_site(&site_file("listed", json!({ "origins": [SITE_ORIGIN] })), &routes, 1);
    let snapshots = [("open.snapshot", &*open), ("listed.snapshot", &*listed)];
    Server::start(&snapshots, &["--trusted-proxy", "127.0.0.1"])
});

const OPEN: &str = "/v1/projects/track_open/settings";
const LISTED: &str = "/v1/projects/track_listed/settings";

/// Sends a request with these header lines.
fn send(server: &Server, method: &str, target: &str, lines: &str) -> Response {
    let mut client = Client::to(server.edge);
    client.send(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n").as_bytes());
    client.response(method == "HEAD")
}

/// Returns the allowed origin, the credentials field and `Vary`.
fn cors(response: &Response) -> (Option<&str>, Option<&str>, Option<&str>) {
    let allowed = response.field("access-control-allow-origin");
    (allowed, response.field("access-control-allow-credentials"), response.field("vary"))
}

#[test]
fn an_absolute_target_decides_the_host_and_the_header_field_is_ignored() {
    for scheme in ["http", "HTTP", "https"] {
        let target = format!("{scheme}://events.acme.example:81{OPEN}");
        let response = send(&SERVER.get(), "GET", &target, "Host: other.example\r\n");
        let api_host = &response.json()["integrations"]["Segment.io"]["apiHost"];
        assert_eq!(*api_host, "events.acme.example:81/v1", "{scheme}");
    }
    let response = send(&SERVER.get(), "GET", &format!("http://a.example{OPEN}"), "");
    assert_eq!((response.status, response.code()), (400, "malformed_request".into()), "Host must be there");
}

#[test]
fn the_settings_send_events_to_the_host_of_the_request() {
    for host in ["events.acme.example", "localhost:8080", "[::1]:8080"] {
        for target in [OPEN, "/v1/projects/track_open/settings.json", "/v1/projects/track_open/settings?v=1"]
        {
            let lines = format!("Host: {host}\r\nX-Request-Id: mine\r\n");
            let response = send(&SERVER.get(), "GET", target, &lines);
            let integration =
                json!({ "apiKey": "track_open", "apiHost": format!("{host}/v1"), "protocol": "http" });
            assert_eq!(response.json(), json!({ "integrations": { "Segment.io": integration } }));
            assert_eq!(response.field("content-type"), Some("application/json"));
            assert_eq!(response.field("cache-control"), Some("no-store"));
            assert_eq!((response.field("x-request-id"), response.field("etag")), (Some("mine"), None));
            let head = send(&SERVER.get(), "HEAD", target, &lines);
            assert_eq!((head.status, head.field("content-length")), (200, response.field("content-length")));
        }
    }
}

#[test]
fn the_protocol_is_that_of_a_trusted_proxy() {
    let untrusting = Server::start(&[("a.snapshot", &super::acme_snapshot(&[page("/", json!({}))]))], &[]);
    for (forwarded, trusted) in [
        ("https", "https"),
        ("HTTPS", "https"),
        ("https, http", "https"),
        ("http", "http"),
        ("ftp", "http"),
        ("", "http"),
    ] {
        let lines = format!("Host: a.example\r\nX-Forwarded-Proto: {forwarded}\r\n");
        let protocol = |server: &Server, target| {
            send(server, "GET", target, &lines).json()["integrations"]["Segment.io"]["protocol"].clone()
        };
        assert_eq!(protocol(&SERVER.get(), OPEN), trusted, "{forwarded}");
        assert_eq!(protocol(&untrusting, "/v1/projects/track_acme/settings"), "http", "{forwarded}");
    }
}

#[test]
fn origins_of_the_settings_are_those_of_events() {
    let get = |target: &str, origin: &str| {
        send(&SERVER.get(), "GET", target, &format!("Host: a\r\nOrigin: {origin}\r\n"))
    };
    for (target, origin) in [(OPEN, "https://a.example"), (LISTED, SITE_ORIGIN)] {
        let response = get(target, origin);
        assert_eq!(response.status, 200);
        assert_eq!(cors(&response), (Some(origin), Some("true"), Some("Origin")), "{target}");
    }
    let refused = get(LISTED, "https://a.example");
    assert_eq!(problem(&refused), (403, "origin_not_allowed".into()));
    assert_eq!(cors(&refused), (Some("https://a.example"), Some("true"), Some("Origin")));
    assert_eq!(send(&SERVER.get(), "GET", LISTED, "Host: a\r\n").status, 200);
}

#[test]
fn settings_of_unknown_sites_are_refused() {
    for (target, code) in [
        ("/v1/projects/track_other/settings", (404, "site_not_found")),
        ("/v1/projects/other/settings", (400, "invalid_tracking_id")),
        ("/v1/projects//settings", (400, "invalid_tracking_id")),
        ("/v1/projects/track_open/other", (404, "unknown_endpoint")),
        ("/v1/projects/track_open/a/settings", (404, "unknown_endpoint")),
    ] {
        let response = send(&SERVER.get(), "GET", target, "Host: a\r\nOrigin: https://a.example\r\n");
        assert_eq!(problem(&response), (code.0, code.1.into()), "{target}");
        if code.1 != "unknown_endpoint" {
            let echo = (Some("https://a.example"), Some("true"), Some("Origin"));
            assert_eq!(cors(&response), echo, "{target}");
        }
    }
    let mut client = Client::to(SERVER.get().edge);
    client.send(format!("GET {OPEN} HTTP/1.0\r\n\r\n").as_bytes());
    assert_eq!(problem(&client.response(false)), (400, "malformed_request".into()));
    let response = send(&SERVER.get(), "POST", OPEN, "Host: a\r\nContent-Length: 0\r\n");
    assert_eq!((response.status, response.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn the_settings_are_on_the_address_of_events() {
    let snapshot = super::acme_snapshot(&[page("/", json!({}))]);
    let server = Server::start(&[("a.snapshot", &snapshot)], &["--events-listen", "127.0.0.1:0"]);
    let events = crate::harness::eventually("the server logs the events address", || {
        let log = server.log();
        let url = log.split("listening on the events address url=http://").nth(1)?;
        url.split_whitespace().next()?.parse::<std::net::SocketAddr>().ok()
    });
    let target = "/v1/projects/track_acme/settings";
    assert_eq!(Client::to(events).request("GET", target, &[]).status, 200);
    assert_eq!(Client::to(events).request("GET", "/v1/problems/timeout", &[]).status, 200);
    assert_eq!(server.get(target).code(), "unknown_endpoint");
}
