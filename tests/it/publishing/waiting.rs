//! `wait` of `/v1/routes`: a request is held until its site has another version, or until the time is over.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::limits::{
    HELD_REQUESTS_MAX, HELD_REQUESTS_OF_CLIENT_MAX, HELD_REQUESTS_OF_SITE_MAX, WAIT_S_MAX,
};
use serde_json::json;

use super::{acme, site};
use crate::harness::{Client, Response, Server, eventually};

/// A margin for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

fn target(since: u64, wait_s: u64) -> String {
    format!("/v1/routes?site=acme&since={since}&wait={wait_s}")
}

/// Sends a request that is held, on a connection that a worker has accepted.
fn begin(server: &Server, since: u64, wait_s: u64) -> Client {
    let mut client = Client::to(server.edge);
    client.request("HEAD", "/v1/routes?site=acme", &[]);
    client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target(since, wait_s)).as_bytes());
    client
}

fn paths(response: &Response) -> Vec<String> {
    let answer = response.json();
    let routes = answer["routes"].as_array().expect("routes").iter();
    routes.map(|route| route["path"].as_str().expect("a path").to_owned()).collect()
}

fn start(flags: &[&str]) -> Server {
    Server::start(&[("acme.snapshot", &acme(1, "one"))], flags)
}

/// Starts a server with each driver that works on this machine.
fn with_each_driver(test: impl Fn(Server)) {
    for driver in ["auto", "epoll"] {
        test(start(&["--driver", driver]));
    }
}

#[test]
fn a_publication_answers_a_held_request() {
    with_each_driver(|server| {
        let mut waiting: Vec<Client> = (0..20).map(|_| begin(&server, 1, 30)).collect();
        // Another site does not end the wait.
        server.publish("other.snapshot", &site("other", "track_other", 7, "other"));
        server.wait_until_served("other", Some("other"));
        let begun = Instant::now();
        server.publish("acme.snapshot", &acme(2, "two"));
        for client in &mut waiting {
            let response = client.response(false);
            assert_eq!((response.status, response.field("x-version")), (200, Some("2")));
            assert_eq!(
                (response.json()["since"].clone(), paths(&response)),
                (json!("1"), vec!["/".to_owned()])
            );
            // The connection serves the next request.
            assert_eq!(client.request("GET", "/v1/routes?site=acme", &[]).status, 200);
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
}

#[test]
fn the_response_at_the_end_of_the_wait_has_empty_lists() {
    with_each_driver(|server| {
        let begun = Instant::now();
        let response = server.get(&target(1, 1));
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(1) && took < SOON, "{took:?}");
        let expected = json!({ "site": "acme", "version": "1", "updatedAt": null, "since": "1", "routes": [],
            "redirects": [], "removed": [], "queries": [], "removedQueries": [], "nextCursor": null });
        assert_eq!((response.status, response.json()), (200, expected));
    });
}

#[test]
fn a_client_with_another_version_does_not_wait() {
    let server = start(&[]);
    server.publish("acme.snapshot", &acme(2, "two"));
    server.wait_until_served("acme", Some("two"));
    let begun = Instant::now();
    assert_eq!(paths(&server.get(&target(1, 30))), ["/"]);
    let unknown = server.get(&target(9, 30));
    assert_eq!((paths(&unknown).len(), &unknown.json()["since"]), (2, &json!(null)));
    assert!(begun.elapsed() < SOON);
}

#[test]
fn a_response_with_wait_is_public_and_no_cache_stores_it() {
    let server = start(&[]);
    let fields = [("X-Request-Id", "mine"), ("Origin", "https://elsewhere.example"), ("X-Debug-Timing", "1")];
    let waited = server.get_with(&target(1, 1), &fields);
    let plain = server.get_with("/v1/routes?site=acme&since=1", &fields);
    assert_eq!((waited.field("cache-control"), &waited.body), (Some("no-store"), &plain.body));
    for name in ["etag", "cache-tag", "surrogate-key", "access-control-allow-origin", "vary", "server-timing"]
    {
        assert_eq!(waited.field(name), plain.field(name), "{name}");
    }
    assert_ne!(waited.field("x-request-id"), Some("mine"));
    let etag = plain.field("etag").expect("an ETag");
    assert_eq!(server.get_with(&target(1, 1), &[("If-None-Match", etag)]).status, 304);
    let head = Client::to(server.edge).request("HEAD", &target(1, 1), &[]);
    assert_eq!((head.status, head.field("etag")), (200, Some(etag)));
}

#[test]
fn wait_is_1_to_30_and_needs_since() {
    let server = start(&[]);
    for wait in ["0", "31", "-1", "1.5", "x", "%2B1", "1s"] {
        let response = server.get(&format!("/v1/routes?site=acme&since=1&wait={wait}"));
        assert_eq!((response.status, response.code()), (400, "invalid_param".into()), "{wait}");
        assert_eq!(response.json()["param"], "wait");
    }
    for wait in [1, 2, WAIT_S_MAX - 1, WAIT_S_MAX] {
        // Another version than the client's: no request is held.
        assert_eq!(server.get(&target(7, wait)).status, 200, "{wait}");
        let response = server.get(&format!("/v1/routes?site=acme&wait={wait}"));
        assert_eq!((response.status, response.code()), (400, "invalid_param".into()), "{wait}");
    }
    // An empty parameter is absent. Other faults are reported before the wait.
    assert_eq!(server.get("/v1/routes?site=acme&wait=").status, 200);
    for fault in ["&limit=0", "&cursor=x", "&include=y"] {
        assert_eq!(server.get(&format!("{}{fault}", target(1, 30))).status, 400, "{fault}");
    }
}

#[test]
fn an_unpublished_site_answers_a_held_request_with_404() {
    let server = start(&[]);
    let mut waiting = begin(&server, 1, 30);
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    assert_eq!(waiting.response(false).code(), "site_not_found");
}

#[test]
fn a_server_that_stops_answers_held_requests_at_once() {
    with_each_driver(|mut server| {
        let mut waiting: Vec<Client> = (0..4).map(|_| begin(&server, 1, 30)).collect();
        let begun = Instant::now();
        server.signal("TERM");
        for client in &mut waiting {
            let response = client.response(false);
            assert_eq!((response.status, response.field("connection")), (200, Some("close")));
            assert_eq!(paths(&response), [""; 0]);
        }
        assert_eq!(server.exit_code(), 0);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
}

/// Starts a server whose clients name their address, with the sites acme, b, c ... of version 1.
fn start_with_sites(others: &[&str]) -> Server {
    let server = start(&["--workers", "1", "--trusted-proxy", "127.0.0.1"]);
    for name in others {
        server.publish(&format!("{name}.snapshot"), &site(name, &format!("track_{name}"), 1, name));
        server.wait_until_served(name, Some(name));
    }
    server
}

/// Begins a request that waits for another version of a site.
fn wait_for(server: &Server, site: &str, address: &str, wait_s: u64) -> Client {
    let mut client = Client::to(server.edge);
    client.request("HEAD", "/v1/routes?site=acme", &[]);
    let target = format!("/v1/routes?site={site}&since=1&wait={wait_s}");
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n").as_bytes());
    client
}

/// Returns whether a further request is held.
fn is_held(server: &Server, site: &str, address: &str) -> bool {
    let begun = Instant::now();
    let response = wait_for(server, site, address, 1).response(false);
    assert_eq!((response.status, paths(&response)), (200, vec![]));
    begun.elapsed() >= Duration::from_secs(1)
}

/// Takes one place less than `count`, sees that one more request is held, and takes the last place.
fn take_places(server: &Server, count: usize, site: &str, address: impl Fn(usize) -> String) -> Vec<Client> {
    let mut waiting: Vec<_> = (1..count).map(|n| wait_for(server, site, &address(n), 30)).collect();
    assert!(is_held(server, site, &address(0)), "{count} places");
    waiting.push(wait_for(server, site, &address(count), 30));
    eventually("the last place is taken", || (!is_held(server, site, &address(0))).then_some(()));
    waiting
}

/// Returns an address of the network for documentation (RFC 5737).
fn address(number: usize) -> String {
    format!("192.0.2.{}", number % 250)
}

#[test]
fn a_request_beyond_the_places_of_its_site_is_answered_at_once() {
    let server = start_with_sites(&["b"]);
    let mut waiting = take_places(&server, HELD_REQUESTS_OF_SITE_MAX, "acme", address);
    assert!(is_held(&server, "b", &address(0)));
    server.publish("acme.snapshot", &acme(2, "two"));
    for client in &mut waiting {
        assert_eq!(paths(&client.response(false)), ["/"]);
    }
}

#[test]
fn a_request_beyond_the_places_of_its_client_is_answered_at_once() {
    let server = start_with_sites(&["b"]);
    let one = |_| "192.0.2.1".to_owned();
    let mut waiting = take_places(&server, HELD_REQUESTS_OF_CLIENT_MAX, "acme", one);
    assert!(!is_held(&server, "b", &one(0)), "the site does not matter");
    assert!(is_held(&server, "acme", "192.0.2.2"));
    // The place of a client that has gone is free.
    drop(waiting.pop());
    eventually("a place is free", || is_held(&server, "acme", &one(0)).then_some(()));
}

#[test]
fn a_request_beyond_the_places_of_a_worker_is_answered_at_once() {
    let server = start_with_sites(&["b", "c"]);
    let places = HELD_REQUESTS_MAX - HELD_REQUESTS_OF_SITE_MAX;
    let _waiting = take_places(&server, HELD_REQUESTS_OF_SITE_MAX, "acme", address);
    let _others = take_places(&server, places, "b", address);
    assert!(!is_held(&server, "c", &address(0)));
}

#[test]
fn a_request_with_a_body_is_not_held() {
    with_each_driver(|server| {
        let (mut client, begun) = (Client::to(server.edge), Instant::now());
        let head = format!("GET {} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", target(1, WAIT_S_MAX));
        client.send(head.as_bytes());
        client.send(b"{}");
        assert_eq!(client.response(false).status, 200);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
}

#[test]
fn requests_behind_a_held_one_and_other_connections_are_answered() {
    let server = start(&["--workers", "1"]);
    let mut pipelined = Client::to(server.edge);
    let requests = [target(1, 1), "/v1/routes?site=acme".to_owned()];
    for target in &requests {
        pipelined.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    }
    // A client that leaves while its request is held.
    drop(begin(&server, 1, 1));
    let begun = Instant::now();
    assert_eq!(server.get("/v1/routes?site=acme").status, 200);
    let body = br#"{"anonId":"v","event":"e"}"#;
    assert_eq!(server.post("/v1/track?site=acme", &[], body).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(1), "a held request blocks the worker");
    assert_eq!(paths(&pipelined.response(false)), [""; 0]);
    assert_eq!(paths(&pipelined.response(false)), ["/", "/fixed"]);
}

#[test]
fn the_admin_address_holds_no_request() {
    let server = start(&[]);
    let begun = Instant::now();
    assert_eq!(server.admin_get(&target(1, 30)).status, 200);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn held_requests_and_publications_in_any_order_miss_no_version() {
    let server = start(&[]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (mut client, mut version) = (Client::to(server.edge), 1_u64);
                while version < 8 {
                    let begun = Instant::now();
                    let response = client.request("GET", &target(version, 30), &[]);
                    let next = response.json()["version"].as_str().and_then(|text| text.parse().ok());
                    assert!(next > Some(version) && begun.elapsed() < Duration::from_secs(25), "{version}");
                    version = next.expect("a version");
                }
            });
        }
        for version in 2..=8 {
            server.publish("acme.snapshot", &acme(version, &format!("text {version}")));
            server.wait_until_served("acme", Some(&format!("text {version}")));
        }
    });
}
