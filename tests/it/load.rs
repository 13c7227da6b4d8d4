//! Limits of the server: connections, descriptors, memory, and requests per client address and per site.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Client, PATIENCE, Server, eventually, post};

const ROUTES: &str = "/v1/routes?site=fjell";

fn demo(flags: &[&str]) -> Server {
    Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], flags)
}

/// Opens connections until one is refused. Returns the served connections and the refused one.
fn connect_until_refused(server: &Server) -> (Vec<Client>, Client) {
    let mut served = Vec::new();
    loop {
        let mut client = Client::to(server.edge);
        let response = client.request("GET", ROUTES, &[]);
        if response.status != 200 {
            assert_eq!((response.status, response.code().as_str()), (503, "overloaded"));
            assert_eq!(response.field("retry-after"), Some("1"));
            assert_eq!(response.field("connection"), Some("close"));
            return (served, client);
        }
        served.push(client);
        assert!(served.len() < 1_000, "the server has no limit");
    }
}

#[test]
fn a_connection_over_the_limit_gets_503_and_the_others_continue() {
    let server = demo(&["--connections", "5"]);
    let (mut served, mut refused) = connect_until_refused(&server);
    assert_eq!(served.len(), 5);
    assert!(refused.is_closed());
    for client in &mut served {
        assert_eq!(client.request("GET", ROUTES, &[]).status, 200);
    }
    drop(served.pop());
    eventually("the server accepts requests again", || (server.get(ROUTES).status == 200).then_some(()));
}

#[test]
fn a_low_descriptor_limit_lowers_the_connection_limit() {
    let server = Server::start_through(
        &["prlimit", "--nofile=64"],
        &[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)],
        &[],
    );
    // After this both workers accept connections and have opened every descriptor that they need for it.
    (0..20).for_each(|_| assert_eq!(server.get(ROUTES).status, 200));
    let before =
        eventually("the connections are closed", || Some(server.descriptors()).filter(|count| *count < 30));
    let (mut served, _) = connect_until_refused(&server);
    assert!((4..64).contains(&served.len()), "{} were served", served.len());
    for client in &mut served {
        assert_eq!(client.request("GET", ROUTES, &[]).status, 200);
    }
    drop(served);
    eventually("all descriptors are closed", || (server.descriptors() <= before).then_some(()));
    assert_eq!(server.get(ROUTES).status, 200);
    server.wait_for_log("ulimit -n");
}

#[test]
fn a_connection_without_a_free_descriptor_gets_503_at_once() {
    let server = demo(&[]);
    let mut known = Client::to(server.edge);
    assert_eq!(known.request("GET", ROUTES, &[]).status, 200);
    // Uses the highest descriptor, not their count: the server cannot reuse a closed descriptor above the
    // limit.
    let numbers = server.highest_descriptor() + 1;
    let limit = format!("--nofile={numbers}:");
    let lowered = Command::new("prlimit").args(["--pid", &server.id().to_string(), &limit]).status();
    assert!(lowered.expect("prlimit is there").success());
    let (mut served, _) = connect_until_refused(&server);
    assert!(served.len() < numbers, "{} were served with {numbers} descriptors", served.len());
    assert_eq!(known.request("GET", ROUTES, &[]).status, 200);
    served.clear();
    let raised = Command::new("prlimit").args(["--pid", &server.id().to_string(), "--nofile=1024:"]).status();
    assert!(raised.expect("prlimit is there").success());
    eventually("the server accepts requests again", || (server.get(ROUTES).status == 200).then_some(()));
    let warnings = server.log().matches("accept failed").count();
    assert!(warnings <= 4, "each worker logs it once per episode: {}", server.log());
}

#[test]
fn a_body_over_the_memory_limit_gets_503() {
    let server = demo(&["--bodies-memory", "0"]);
    let body = vec![b' '; 500 * 1024];
    let request = post("/v1/query", &[], &body);
    let mut waiting = Vec::new();
    let refused = loop {
        let mut client = Client::to(server.edge);
        client.send(&request[..request.len() - 10]);
        client.set_read_timeout(Duration::from_millis(100));
        if let Some(response) = client.try_response() {
            break response;
        }
        waiting.push(client);
        assert!(waiting.len() < 100, "the server has no limit");
    };
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert!(waiting.len() >= 2, "{} bodies of 500 KiB fit 1 MiB", waiting.len());
    drop(waiting);
    eventually("the server accepts requests again", || (server.get(ROUTES).status == 200).then_some(()));
}

#[test]
fn an_address_over_its_rate_limit_gets_429_and_others_do_not() {
    let server = demo(&["--rate-limit-per-ip", "3", "--trusted-proxy", "127.0.0.0/8,2001:db8:ffff::/48"]);
    let get = |forwarded: &str| server.get_with(ROUTES, &[("X-Forwarded-For", forwarded)]);
    for _ in 0..3 {
        assert_eq!(get("192.0.2.1").status, 200);
    }
    let limited = get("192.0.2.1");
    assert_eq!((limited.status, limited.code().as_str()), (429, "rate_limited"));
    assert_eq!(limited.field("retry-after"), Some("1"));
    assert_eq!(limited.field("access-control-allow-origin"), Some("*"));
    let origin = [("X-Forwarded-For", "192.0.2.1"), ("Origin", "https://shop.example")];
    let event = server.post("/v1/track", &origin, b"{}");
    let allowed = ["access-control-allow-origin", "access-control-allow-credentials"];
    let allowed = allowed.map(|name| event.field(name));
    assert_eq!((event.status, allowed), (429, [Some("https://shop.example"), Some("true")]));
    // Addresses further left may be invented by the client. Addresses of trusted proxies are skipped.
    for same in ["198.51.100.7, 192.0.2.1", "192.0.2.1, 127.0.0.1", "192.0.2.1:4711, 2001:db8:ffff::1"] {
        assert_eq!(get(same).status, 429, "{same}");
    }
    assert_eq!(get("192.0.2.2").status, 200, "another address has its own limit");
    for address in 1..=3 {
        assert_eq!(get(&format!("2001:db8::{address}")).status, 200);
    }
    assert_eq!(get("2001:db8::4").status, 429, "all addresses of a /64 share one limit");
    assert_eq!(get("2001:db8:0:1::4").status, 200);
    let preflight = [("X-Forwarded-For", "192.0.2.1"), ("Access-Control-Request-Method", "GET")];
    let response = Client::to(server.edge).request("OPTIONS", ROUTES, &preflight);
    assert_eq!(response.status, 204, "the preflight succeeds, so that a page sees the 429");
    for own in ["", "127.0.0.1", "2001:db8:ffff::2"] {
        (0..5).for_each(|_| {
            assert_eq!(get(own).status, 200, "{own:?}: requests of the proxy itself are not limited")
        });
    }
    eventually("the bucket refills", || (get("192.0.2.1").status == 200).then_some(()));
}

#[test]
fn a_client_that_a_proxy_names_by_no_address_shares_the_limit_of_the_proxy() {
    for unread in ["unknown", "192.0.2.1,", ",", "192.0.2.1, 192.0.2.1.5", "_hidden, 127.0.0.1", "\u{e9}"] {
        let server = demo(&["--rate-limit-per-ip", "3", "--trusted-proxy", "127.0.0.0/8"]);
        let get = |forwarded: &str| server.get_with(ROUTES, &[("X-Forwarded-For", forwarded)]).status;
        (0..3).for_each(|_| assert_eq!(get(unread), 200, "{unread}"));
        assert_eq!(get(unread), 429, "{unread}");
        assert_eq!(get("another text"), 429, "after {unread}");
        assert_eq!((get("192.0.2.1"), get("127.0.0.1")), (200, 200), "after {unread}");
    }
}

#[test]
fn a_forwarded_address_from_an_untrusted_peer_is_ignored() {
    // This machine itself is never limited, and no proxy is trusted, so the header field is ignored.
    let server = demo(&["--rate-limit-per-ip", "1"]);
    (0..5).for_each(|_| assert_eq!(server.get_with(ROUTES, &[("X-Forwarded-For", "192.0.2.1")]).status, 200));
}

#[test]
fn a_site_over_its_rate_limit_gets_429_for_every_address() {
    let server = demo(&["--rate-limit-per-site", "2", "--trusted-proxy", "127.0.0.1"]);
    let get = |address: usize| {
        let forwarded = format!("192.0.2.{address}");
        server.get_with("/v1/variants?trackingId=track_demo&route=/", &[("X-Forwarded-For", &forwarded)])
    };
    let statuses: Vec<u16> = (0..4).map(|address| get(address).status).collect();
    assert_eq!(statuses[..2], [200, 200]);
    assert!(statuses.contains(&429), "{statuses:?}");
    let own = TcpStream::connect(server.edge).expect("connected");
    own.set_read_timeout(Some(PATIENCE)).expect("the timeout is set");
    assert_eq!(server.get(ROUTES).status, 200, "loopback clients are not limited");
}
