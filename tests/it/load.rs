//! What the server does when there is too much: connections, descriptors, memory, requests of one address or for one site.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::harness::{Client, PATIENCE, Server, eventually, post};

const ROUTES: &str = "/v1/routes?site=fjell";

fn demo(flags: &[&str]) -> Server {
    Server::start(&[("demo.snapshot", &parallax::cli::demo::snapshot().1)], flags)
}

/// Connections, one after the other, until one is told that it is too many; the others, each of which had an answer.
fn crowd(server: &Server) -> (Vec<Client>, Client) {
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
        assert!(served.len() < 1_000, "there is a bound");
    }
}

#[test]
fn one_connection_more_than_allowed_is_told_so_and_the_others_go_on() {
    let server = demo(&["--connections", "5"]);
    let (mut served, mut refused) = crowd(&server);
    assert_eq!(served.len(), 5);
    assert!(refused.is_closed());
    for client in &mut served {
        assert_eq!(client.request("GET", ROUTES, &[]).status, 200);
    }
    drop(served.pop());
    eventually("there is room again", || (server.get(ROUTES).status == 200).then_some(()));
}

#[test]
fn where_descriptors_are_few_the_bound_follows_them_and_they_come_back() {
    let server =
        Server::under(&["prlimit", "--nofile=64"], &[("demo.snapshot", &parallax::cli::demo::snapshot().1)]);
    // Both workers accept by now, with all that they need for it.
    (0..20).for_each(|_| assert_eq!(server.get(ROUTES).status, 200));
    let before = eventually("they are closed", || Some(server.descriptors()).filter(|count| *count < 30));
    let (mut served, _) = crowd(&server);
    assert!((4..64).contains(&served.len()), "{} were served", served.len());
    for client in &mut served {
        assert_eq!(client.request("GET", ROUTES, &[]).status, 200);
    }
    drop(served);
    eventually("all are given back", || (server.descriptors() <= before).then_some(()));
    assert_eq!(server.get(ROUTES).status, 200);
    assert!(server.log().contains("ulimit -n"), "{}", server.log());
}

#[test]
fn who_comes_when_descriptors_are_out_is_told_so_at_once() {
    let server = demo(&[]);
    let mut known = Client::to(server.edge);
    assert_eq!(known.request("GET", ROUTES, &[]).status, 200);
    // Not their count: what is above the limit is of no use to the server when it is given back.
    let numbers = server.highest_descriptor() + 1;
    let limit = format!("--nofile={numbers}:");
    let lowered = Command::new("prlimit").args(["--pid", &server.id().to_string(), &limit]).status();
    assert!(lowered.expect("prlimit is there").success());
    let (mut served, _) = crowd(&server);
    assert!(served.len() < numbers, "{} were served with {numbers} descriptors", served.len());
    assert_eq!(known.request("GET", ROUTES, &[]).status, 200);
    served.clear();
    let raised = Command::new("prlimit").args(["--pid", &server.id().to_string(), "--nofile=1024:"]).status();
    assert!(raised.expect("prlimit is there").success());
    eventually("there is room again", || (server.get(ROUTES).status == 200).then_some(()));
    let told = server.log().matches("a connection was not accepted").count();
    assert!(told <= 4, "it is said once for each worker and time: {}", server.log());
}

#[test]
fn bodies_that_there_is_no_room_for_are_refused_and_get_goes_on() {
    let server = demo(&["--connections-memory", "0"]);
    let body = vec![b' '; 500 * 1024];
    let request = post("/v1/query", &[], &body);
    let mut waiting = Vec::new();
    let refused = loop {
        let mut client = Client::to(server.edge);
        client.send(&request[..request.len() - 10]);
        client.set_patience(Duration::from_millis(300));
        if let Some(response) = client.try_response() {
            break response;
        }
        waiting.push(client);
        assert!(waiting.len() < 100, "there is a bound");
    };
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert!(waiting.len() >= 3, "{} bodies of 512 KiB fit 4 MiB", waiting.len());
    drop(waiting);
    eventually("there is room again", || (server.get(ROUTES).status == 200).then_some(()));
}

/// A client that takes next to nothing of what it is sent, asks for much, and sends a batch behind it, again and again: 64 KiB that
/// become 3 MiB of records, in 300 bytes of gzip.
fn who_takes_nothing(server: &Server) -> Socket {
    let batch = vec![json!({ "event": "e", "anonId": "v" }); 2_000];
    let body = json!({ "context": { "pad": "p".repeat(1_500) }, "batch": batch }).to_string();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(body.as_bytes()).expect("a Vec takes everything");
    let body = gzip.finish().expect("a Vec takes everything");
    let mut requests = b"GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    requests.extend(post("/v1/batch?site=fjell", &[("Content-Encoding", "gzip")], &body));
    let mut client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    client.set_recv_buffer_size(4096).expect("it is small");
    client.connect(&server.edge.into()).expect("connected");
    client.write_all(&requests.repeat(40)).expect("the kernel takes it");
    client
}

#[test]
fn records_that_wait_behind_an_answer_that_nobody_takes_are_counted() {
    let server = demo(&["--connections-memory", "0"]);
    let idle: Vec<Socket> = (0..3).map(|_| who_takes_nothing(&server)).collect();
    let refused = || Some(server.get(ROUTES)).filter(|response| response.status != 200);
    let refused = eventually("there is no room", refused);
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    drop(idle);
    eventually("there is room again", || (server.get(ROUTES).status == 200).then_some(()));
}

#[test]
fn an_address_that_asks_too_often_is_429_and_others_are_not() {
    let server = demo(&["--limit-address", "3", "--trusted-proxy", "127.0.0.0/8,2001:db8:ffff::/48"]);
    let ask = |forwarded: &str| server.get_with(ROUTES, &[("X-Forwarded-For", forwarded)]);
    for _ in 0..3 {
        assert_eq!(ask("192.0.2.1").status, 200);
    }
    let limited = ask("192.0.2.1");
    assert_eq!((limited.status, limited.code().as_str()), (429, "rate_limited"));
    assert_eq!(limited.field("retry-after"), Some("1"));
    assert_eq!(limited.field("access-control-allow-origin"), Some("*"));
    let origin = [("X-Forwarded-For", "192.0.2.1"), ("Origin", "https://shop.example")];
    let event = server.post("/v1/track", &origin, b"{}");
    let allowed = ["access-control-allow-origin", "access-control-allow-credentials"];
    let allowed = allowed.map(|name| event.field(name));
    assert_eq!((event.status, allowed), (429, [Some("https://shop.example"), Some("true")]));
    // What the client made up stands further left; what trusted proxies wrote behind it is stepped over.
    for same in ["198.51.100.7, 192.0.2.1", "192.0.2.1, 127.0.0.1", "192.0.2.1:4711, 2001:db8:ffff::1"] {
        assert_eq!(ask(same).status, 429, "{same}");
    }
    assert_eq!(ask("192.0.2.2").status, 200, "another address");
    for address in 1..=3 {
        assert_eq!(ask(&format!("2001:db8::{address}")).status, 200);
    }
    assert_eq!(ask("2001:db8::4").status, 429, "one household has a whole /64");
    assert_eq!(ask("2001:db8:0:1::4").status, 200);
    let preflight = [("X-Forwarded-For", "192.0.2.1"), ("Access-Control-Request-Method", "GET")];
    let asked = Client::to(server.edge).request("OPTIONS", ROUTES, &preflight);
    assert_eq!(asked.status, 204, "a page is to see why it is refused");
    for own in ["", "127.0.0.1", "nonsense", "2001:db8:ffff::2"] {
        (0..5).for_each(|_| assert_eq!(ask(own).status, 200, "{own:?}: a proxy's own requests"));
    }
    eventually("a bucket fills again", || (ask("192.0.2.1").status == 200).then_some(()));
}

#[test]
fn whom_nobody_trusts_is_not_believed() {
    // This machine itself is never limited, and its word of others is not asked for.
    let server = demo(&["--limit-address", "1"]);
    (0..5).for_each(|_| assert_eq!(server.get_with(ROUTES, &[("X-Forwarded-For", "192.0.2.1")]).status, 200));
}

#[test]
fn a_site_that_is_asked_for_too_often_is_429_whoever_asks() {
    let server = demo(&["--limit-site", "2", "--trusted-proxy", "127.0.0.1"]);
    let ask = |address: usize| {
        let forwarded = format!("192.0.2.{address}");
        server.get_with("/v1/variants?trackingId=track_demo&route=/", &[("X-Forwarded-For", &forwarded)])
    };
    let statuses: Vec<u16> = (0..4).map(|address| ask(address).status).collect();
    assert_eq!(statuses[..2], [200, 200]);
    assert!(statuses.contains(&429), "{statuses:?}");
    let own = TcpStream::connect(server.edge).expect("connected");
    own.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    assert_eq!(server.get(ROUTES).status, 200, "the site's own server asks from here");
}
