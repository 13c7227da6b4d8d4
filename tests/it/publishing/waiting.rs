//! `wait` of `/v1/routes`: a request is held until its site has another version, or until the time is over.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::limits::{HELD_REQUESTS_MAX, WAIT_S_MAX};
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

#[test]
fn a_request_beyond_the_limit_of_held_requests_is_answered_at_once() {
    let server = start(&["--workers", "1"]);
    let mut waiting: Vec<Client> = (0..HELD_REQUESTS_MAX - 1).map(|_| begin(&server, 1, 30)).collect();
    // One below the limit: one more request is held, also after another one has ended.
    let begun = Instant::now();
    assert_eq!(server.get(&target(1, 1)).status, 200);
    assert!(begun.elapsed() >= Duration::from_secs(1), "the request is held");
    waiting.push(begin(&server, 1, 30));
    let at_once = eventually("the limit is reached", || {
        let begun = Instant::now();
        let response = server.get(&target(1, 1));
        (begun.elapsed() < Duration::from_secs(1)).then_some(response)
    });
    assert_eq!((at_once.status, paths(&at_once)), (200, vec![]));
    server.publish("acme.snapshot", &acme(2, "two"));
    for client in &mut waiting {
        assert_eq!(paths(&client.response(false)), ["/"]);
    }
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
