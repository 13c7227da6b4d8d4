//! Every problem that a test can provoke matches the description of its operation.

use std::collections::BTreeSet;

use parallax::testing::problem;
use serde_json::{Value, json};

use super::{ADMIN_CODES, CODES_WITHOUT_OPERATION, Description, FAULT_CODES};
use crate::harness::{Client, Response, Server, eventually, post, snapshot};

const LAYOUT: &str = "/v1/resolve?site=acme&route=/";

/// A server with a short timeout for request heads. Its query can evaluate more items than a response may.
fn acme() -> Server {
    let items: Vec<Value> =
        (0..=10_000).map(|n| json!({ "id": n.to_string(), "type": "t", "fields": { "n": n } })).collect();
    let files = [
        ("site.json", r#"{"site":"acme","trackingId":"track_acme","name":"A"}"#),
        ("routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#),
        ("content/items.json", &json!(items).to_string()),
        (
            "queries.json",
            r#"{"from":{"collection":"items","params":{"n":{"type":"number"}},"where":{"n":{"$gte":{"$param":"n"}}},
                "select":[],"limit":1}}"#,
        ),
    ];
    let closed = [(
        "site.json",
        r#"{"site":"closed","trackingId":"track_closed","name":"C","origins":["https://a.example"],"identity":{"verify":"signed"}}"#,
    )];
    let snapshots = [("acme.snapshot", &*snapshot(&files, 1)), ("closed.snapshot", &*snapshot(&closed, 1))];
    Server::start(&snapshots, &["--timeout-head-ms", "1500"])
}

/// GET targets and the expected codes.
const GETS: &[(&str, &str)] = &[
    ("/v1/resolve?site=%FF&route=/", "invalid_query"),
    ("/v1/resolve?site=acme&route=/&route=/", "repeated_param"),
    ("/v1/resolve?route=/", "missing_site"),
    ("/v1/resolve?trackingId=acme&route=/", "invalid_tracking_id"),
    ("/v1/resolve?trackingId=track_acme&site=b&route=/", "site_mismatch"),
    ("/v1/resolve?site=nobody&route=/", "site_not_found"),
    ("/v1/resolve?site=acme", "missing_route"),
    ("/v1/resolve?site=acme&route=a", "invalid_route"),
    ("/v1/resolve?site=acme&route=//", "invalid_route"),
    ("/v1/resolve?site=acme&route=/a", "route_not_found"),
    ("/v1/resolve?site=acme&route=/&variants=a", "invalid_variants"),
    ("/v1/resolve?site=acme&route=/&variants=a:b&strict=1", "unknown_variant"),
    ("/v1/resolve?site=acme&route=/&strict=2&variants=", "invalid_param"),
    ("/v1/resolve?site=acme&route=/&anonId=%20", "invalid_anon_id"),
    ("/v1/resolve?site=acme&route=/&explain=1", "explain_not_allowed"),
    ("/v1/resolve?site=acme&route=/&explain=yes", "invalid_param"),
    ("/v1/resolve?site=acme&route=/&now=2026-12-24T18:00:00Z", "now_not_allowed"),
    ("/v1/variants?site=acme", "missing_route"),
    ("/v1/variants?site=acme&route=b", "invalid_route"),
    ("/v1/variants?site=acme&route=/b", "route_not_found"),
    ("/v1/variants?site=acme&route=/&include=all", "invalid_param"),
    ("/v1/variants?site=acme&route=/&anonId=%C3%A4", "invalid_anon_id"),
    ("/v1/variants?site=acme&route=/&explain=1", "explain_not_allowed"),
    ("/v1/variants?site=acme&route=/&now=2026-12-24T18:00:00Z", "now_not_allowed"),
    ("/v1/variants?site=acme&site=acme", "repeated_param"),
    ("/v1/routes?prefix=%FF&site=acme", "invalid_query"),
    ("/v1/routes", "missing_site"),
    ("/v1/routes?site=acme&limit=0", "invalid_limit"),
    ("/v1/routes?site=acme&limit=10001", "invalid_limit"),
    ("/v1/routes?site=acme&since=-1", "invalid_param"),
    ("/v1/routes?site=acme&include=all", "invalid_param"),
    ("/v1/routes?site=acme&cursor=00", "invalid_cursor"),
    ("/v1/routes?site=acme&wait=1", "invalid_param"),
    ("/v1/routes?site=acme&since=1&wait=31", "invalid_param"),
    ("/v1/site?site=acme&site=acme", "repeated_param"),
    ("/v1/site", "missing_site"),
    ("/v1/site?site=nobody", "site_not_found"),
    ("/v1/rules?site=acme", "rules_not_published"),
    ("/v1/query?site=acme", "invalid_param"),
    ("/v1/query?site=acme&query=nope", "query_not_found"),
    ("/v1/query?site=acme&query=from", "invalid_param"),
    ("/v1/query?site=acme&query=from&params.n=x", "invalid_param"),
    ("/v1/query?site=acme&query=from&params.n=1&params.n=2", "repeated_param"),
    ("/v1/query?site=acme&query=from&params.n=1&limit=101", "invalid_limit"),
    ("/v1/query?site=acme&query=from&params.n=1&cursor=zz", "invalid_cursor"),
    ("/v1/query?site=acme&query=from&params.n=0", "query_too_expensive"),
    ("/v1/query?query=from&trackingId=track_nobody", "site_not_found"),
    ("/v1/parallax.js?h=1&h=1", "repeated_param"),
    ("/v1/parallax.js?h=%FF", "invalid_query"),
    ("/v1/problems/nothing", "unknown_endpoint"),
    ("/v1/projects/track_nobody/settings", "site_not_found"),
    ("/v1/projects/acme/settings", "invalid_tracking_id"),
];

/// POST bodies, one extra header field each, and the expected codes.
const POSTS: &[(&str, (&str, &str), &str)] = &[
    ("{", ("X", "x"), "malformed_json"),
    ("[]", ("X", "x"), "malformed_json"),
    (r#"{"query":"from"}"#, ("X", "x"), "missing_site"),
    (r#"{"query":"from","trackingId":"acme"}"#, ("X", "x"), "invalid_tracking_id"),
    (r#"{"query":"from","trackingId":"track_acme","site":"b"}"#, ("X", "x"), "site_mismatch"),
    (r#"{"query":"from","site":"nobody"}"#, ("Origin", "https://a.example"), "site_not_found"),
    (r#"{"site":"acme"}"#, ("X", "x"), "invalid_param"),
    (r#"{"site":"acme","query":"nope"}"#, ("X-Request-Id", "mine"), "query_not_found"),
    (r#"{"site":"acme","query":"from","params":{"n":"1"}}"#, ("X", "x"), "invalid_param"),
    (r#"{"site":"acme","query":"from","params":{"n":1},"limit":"1"}"#, ("X", "x"), "invalid_limit"),
    (r#"{"site":"acme","query":"from","params":{"n":1},"cursor":"0"}"#, ("X", "x"), "invalid_cursor"),
    (r#"{"site":"acme","query":"from","params":{"n":0}}"#, ("X", "x"), "query_too_expensive"),
    ("{}", ("Content-Type", "text/html"), "unsupported_type"),
    ("{}", ("Content-Encoding", "br"), "unsupported_encoding"),
];

/// Event requests: path, body, one extra header field, and the expected code.
const EVENTS: &[(&str, &str, (&str, &str), &str)] = &[
    ("/v1/track", "{", ("X", "x"), "malformed_json"),
    ("/v1/page", "[]", ("X", "x"), "malformed_json"),
    ("/v1/page?site=acme&site=acme", "{}", ("X", "x"), "repeated_param"),
    ("/v1/page?site=%FF", "{}", ("X", "x"), "invalid_query"),
    ("/v1/track", r#"{"anonId":"v1","event":"e"}"#, ("Authorization", "Basic =="), "missing_site"),
    ("/v1/track", r#"{"anonId":"v1","event":"e"}"#, ("Authorization", "Basic eDp5"), "invalid_tracking_id"),
    ("/v1/page?site=acme", r#"{"anonId":"v1","writeKey":"track_closed"}"#, ("X", "x"), "site_mismatch"),
    ("/v1/batch", r#"{"site":"nobody","batch":[]}"#, ("Origin", "https://a.example"), "site_not_found"),
    ("/v1/page?site=closed", r#"{"anonId":"v1"}"#, ("Origin", "https://b.example"), "origin_not_allowed"),
    ("/v1/page?site=closed", r#"{"userId":"u1"}"#, ("X-User-Hash", "x"), "unverified_user"),
    ("/v1/page?site=acme&dryRun=2", r#"{"anonId":"v1"}"#, ("X", "x"), "invalid_param"),
    ("/v1/page?site=acme&anonId=%20", "{}", ("X", "x"), "invalid_anon_id"),
    ("/v1/page?site=acme", r#"{"anonId":" "}"#, ("X-Request-Id", "mine"), "invalid_anon_id"),
    ("/v1/page?site=acme", r#"{"anonId":"null"}"#, ("X", "x"), "placeholder_id"),
    ("/v1/page?site=acme", "{}", ("X-Anon-Id", "a b"), "missing_visitor"),
    ("/v1/page?site=acme", r#"{"anonId":"v1","type":"track"}"#, ("X", "x"), "invalid_type"),
    ("/v1/page?site=acme", r#"{"anonId":"v1","timestamp":"x"}"#, ("X", "x"), "invalid_timestamp"),
    ("/v1/page?site=acme", r#"{"anonId":"v1","variants":"x"}"#, ("X", "x"), "invalid_variants"),
    ("/v1/track?site=acme", r#"{"anonId":"v1"}"#, ("X", "x"), "invalid_event"),
    ("/v1/batch?site=acme", r#"{"anonId":"v1","event":"e"}"#, ("X", "x"), "invalid_event"),
    ("/v1/batch?site=acme", r#"{"batch":[{"anonId":"v1"},{"event":"e"},7]}"#, ("X", "x"), "invalid_event"),
    ("/v1/track?site=acme", r#"{"anonId":"v1","event":"e","set":{}}"#, ("X", "x"), "ambiguous_event"),
    ("/v1/track?site=acme", "{}", ("Content-Type", "text/html"), "unsupported_type"),
    ("/v1/batch?site=acme", "{}", ("Content-Encoding", "br"), "unsupported_encoding"),
];

/// Returns event requests that exceed a size limit.
fn oversized() -> [(&'static str, String, &'static str); 3] {
    let event = format!(r#"{{"anonId":"v1","event":"e","properties":{{"pad":"{}"}}}}"#, "p".repeat(33_000));
    let batch = json!({ "batch": vec![json!({ "event": "e" }); 2_501] }).to_string();
    let path = "/v1/track?site=acme";
    [
        (path, event, "event_too_large"),
        ("/v1/batch?site=acme", batch, "batch_too_large"),
        (path, " ".repeat(513 * 1024), "body_too_large"),
    ]
}

/// Returns raw requests and their codes. The server closes the connection after each refusal.
fn malformed_requests() -> Vec<(String, &'static str)> {
    let get = |fields: &str| format!("GET {LAYOUT} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    vec![
        (get("Host: b\r\n"), "malformed_request"),
        (get("Expect: tea\r\n"), "expectation_failed"),
        (get("Content-Length: 600000\r\n"), "body_too_large"),
        (get("Transfer-Encoding: gzip, chunked\r\n"), "unknown_transfer_coding"),
        (get(&format!("A: {}\r\n", "a".repeat(17_000))), "head_too_large"),
        (get("").replace("route=/", &format!("route=/{}", "a".repeat(9_000))), "target_too_long"),
        (get("").replace("HTTP/1.1", "HTTP/2.0"), "unsupported_version"),
        (get("").trim_end().to_owned(), "timeout"),
    ]
}

fn answer(server: &Server, bytes: &[u8], head_only: bool) -> Response {
    let mut client = Client::to(server.edge);
    client.send(bytes);
    client.response(head_only)
}

/// Returns refusals of a server that allows one connection, and one request per second from an address.
fn overload_responses() -> [Response; 2] {
    let flags = ["--connections", "1", "--rate-limit-per-ip", "1", "--trusted-proxy", "127.0.0.1"];
    let server = Server::start(&[], &flags);
    let mut only = Client::to(server.edge);
    let mut ask = || only.request("GET", LAYOUT, &[("X-Forwarded-For", "192.0.2.1")]);
    let limited =
        eventually("the rate limit is exceeded", || Some(ask()).filter(|response| response.status == 429));
    [limited, server.get(LAYOUT)]
}

#[test]
fn every_problem_is_described_at_its_operation() {
    let server = acme();
    let description = Description::of(&server);
    let mut seen = BTreeSet::new();
    for (target, code) in GETS {
        let response = server.get(target);
        assert_eq!(response.code(), *code, "{target}");
        description.assert_described("GET", target, &response);
        let head = Client::to(server.edge).request("HEAD", target, &[]);
        description.assert_described("HEAD", target, &head);
        seen.insert(response.code());
    }
    for (body, field, code) in POSTS {
        let response = server.post("/v1/query", &[*field], body.as_bytes());
        assert_eq!(response.code(), *code, "{body}");
        description.assert_described("POST", "/v1/query", &response);
        seen.insert(response.code());
    }
    let oversized = oversized();
    let oversized = oversized.iter().map(|(path, body, code)| (*path, body.as_str(), ("X", "x"), *code));
    for (target, body, field, code) in EVENTS.iter().copied().chain(oversized) {
        let response = server.post(target, &[field], body.as_bytes());
        assert_eq!(response.code(), code, "{target} {body}");
        description.assert_described("POST", target, &response);
        seen.insert(response.code());
    }
    for (bytes, code) in malformed_requests() {
        for (method, path) in [
            ("GET", LAYOUT),
            ("GET", "/v1/openapi.json"),
            ("GET", "/v1/parallax.js"),
            ("GET", "/v1/problems/timeout"),
            ("OPTIONS", "/v1/query"),
        ] {
            let bytes = bytes.replacen("GET ", &format!("{method} "), 1).replacen(LAYOUT, path, 1);
            // The limit of a target includes its query.
            let path = if code == "target_too_long" { LAYOUT } else { path };
            let response = answer(&server, bytes.as_bytes(), false);
            assert_eq!(response.code(), code, "{method} {path}");
            description.assert_problem_described(&response);
            if method == "GET" {
                description.assert_described(method, path, &response);
            }
            seen.insert(response.code());
        }
    }
    let oversized = post("/v1/query", &[("Content-Length", "600000")], b"");
    description.assert_problem_described(&answer(&server, &oversized, false));
    for (method, target, code) in [
        ("GET", "/v1/nothing", "unknown_endpoint"),
        ("PUT", "/v1/routes", "method_not_allowed"),
        ("BREW", "/v1/routes", "unknown_method"),
    ] {
        let response = Client::to(server.edge).request(method, target, &[]);
        assert_eq!(response.code(), code);
        assert!(CODES_WITHOUT_OPERATION.contains(&code));
        description.assert_problem_described(&response);
        seen.insert(response.code());
    }
    let excluded = Client::to(server.edge).request("GET", LAYOUT, &[("If-Match", "\"x\"")]);
    for response in overload_responses().into_iter().chain([excluded]) {
        description.assert_described("GET", LAYOUT, &response);
        description.assert_problem_described(&response);
        seen.insert(response.code());
    }
    let provoked = |code: &&str| !ADMIN_CODES.contains(code) && !FAULT_CODES.contains(code);
    let all: BTreeSet<_> =
        problem::ALL.iter().map(|kind| kind.code).filter(provoked).map(str::to_owned).collect();
    assert_eq!(seen, all);
}
