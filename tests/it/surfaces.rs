//! Pages and events on one address, or each on its own.

use std::net::SocketAddr;

use crate::harness::{Client, Server, eventually};

const EVENT: &[u8] = br#"{"trackingId":"track_demo","anonId":"v1","event":"Seen"}"#;
const PAGE: &str = "/v1/resolve?site=fjell&route=/&variants=";

fn demo(flags: &[&str]) -> Server {
    Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], flags)
}

#[test]
fn one_address_serves_both_unless_events_have_their_own() {
    let server = demo(&[]);
    assert_eq!(server.get(PAGE).status, 200);
    assert_eq!(server.post("/v1/track", &[], EVENT).status, 200);
}

#[test]
fn separate_addresses_serve_only_their_own_endpoints() {
    let server = demo(&["--events-listen", "127.0.0.1:0"]);
    let address = eventually("the server logs the events address", || {
        let log = server.log();
        let rest = log.split("listening on the events address url=http://").nth(1)?;
        rest.split_whitespace().next()?.parse::<SocketAddr>().ok()
    });
    let mut events = Client::to(address);
    assert_eq!(events.post("/v1/track", &[], EVENT).status, 200);
    assert_eq!(events.post("/v1/p", &[], EVENT).status, 200);
    for target in [PAGE, "/v1/openapi.json", "/v1/parallax.js", "/v1/query?site=fjell&query=x"] {
        assert_eq!(events.request("GET", target, &[]).code(), "unknown_endpoint", "{target}");
    }
    assert_eq!(events.request("GET", "/v1/track", &[]).code(), "method_not_allowed");
    assert_eq!(server.get(PAGE).status, 200);
    for target in ["/v1/page", "/v1/track", "/v1/t", "/v1/batch"] {
        assert_eq!(server.post(target, &[], EVENT).code(), "unknown_endpoint", "{target}");
    }
    assert_eq!(server.admin_get("/readyz").status, 200);
    assert_eq!(Client::to(server.admin).post("/v1/track", &[], EVENT).code(), "unauthorized");
}

#[test]
fn a_server_with_two_addresses_stops_cleanly() {
    let mut server = demo(&["--events-listen", "127.0.0.1:0"]);
    assert_eq!(server.get(PAGE).status, 200);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}
