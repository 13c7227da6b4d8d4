//! Refusals before a request is read completely: a page of another origin can read them on private endpoints
//! and on those of events.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use parallax::testing::limits::DISCARDED_BYTES_MAX;
use serde_json::json;

use super::{SharedServer, page, site_file};
use crate::harness::{Client, Response, Server, snapshot};

const ORIGIN: &str = "https://page.example";

fn start_server(flags: &[&str]) -> Server {
    let site = site_file("acme", json!({ "origins": ["https://www.acme.example"] }));
    let page = page("/", json!({}));
    let files = [("site.json", site.as_str()), ("routes/index.json", page.as_str())];
    Server::start(&[("acme.snapshot", &snapshot(&files, 1))], flags)
}

static SERVER: SharedServer =
    SharedServer::new(|| start_server(&["--timeout-head-ms", "400", "--timeout-body-ms", "400"]));

/// Private targets and targets of events, with their methods.
const PRIVATE: [(&str, &str); 5] = [
    ("POST", "/v1/track?site=acme"),
    ("POST", "/v1/batch?a=b"),
    ("POST", "/v1/query?a=b"),
    ("GET", "/v1/resolve?site=acme&route=/"),
    ("GET", "/v1/variants?site=acme&route=/"),
];
const PUBLIC: [(&str, &str); 5] = [
    ("GET", "/v1/routes?site=acme"),
    ("GET", "/v1/resolve?site=acme&route=/&variants="),
    ("GET", "/v1/query?site=acme&query=q"),
    ("GET", "/v1/openapi.json?a=b"),
    ("GET", "/v1/parallax.js?a=b"),
];

/// A refused request: its status, and its text for a method, a target and an origin.
type Refusal = (u16, fn(&str, &str, &str) -> String);

const REFUSALS: &[Refusal] = &[
    (400, |method, target, origin| {
        head(method, target, origin, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")
    }),
    (400, |method, target, origin| head(method, target, origin, "Host: b\r\n")),
    (405, |_, target, origin| head("PUT", target, origin, "")),
    (408, |method, target, origin| head(method, target, origin, "X-Unfinished: ").trim_end().to_owned()),
    (408, |method, target, origin| head(method, target, origin, "Content-Length: 9\r\n") + "{"),
    (413, |method, target, origin| head(method, target, origin, "Content-Length: 524289\r\n")),
    (413, |method, target, origin| {
        head(method, target, origin, "Transfer-Encoding: chunked\r\n") + "80001\r\n"
    }),
    (414, |method, target, origin| head(method, &format!("{target}&pad={}", "p".repeat(8192)), origin, "")),
    (417, |method, target, origin| head(method, target, origin, "Expect: tea\r\n")),
    (431, |method, target, origin| head(method, target, origin, &"A: b\r\n".repeat(65))),
    (431, |method, target, origin| head(method, target, origin, &format!("A: {}\r\n", "b".repeat(17_000)))),
];

fn head(method: &str, target: &str, origin: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\norigin: {origin}\r\n{fields}\r\n")
}

fn send(server: &Server, request: &str) -> Response {
    let mut client = Client::to(server.edge);
    client.send(request.as_bytes());
    client.response(false)
}

/// Asserts that a page of `origin` can read the response, with credentials unless the origin is `null`.
#[track_caller]
fn assert_readable(response: &Response, origin: &str) {
    let expected = match origin {
        "null" => (Some("*"), None),
        origin => (Some(origin), Some("true")),
    };
    let allowed = response.field("access-control-allow-origin");
    assert_eq!((allowed, response.field("access-control-allow-credentials")), expected, "{response:?}");
    let exposed = response.field("access-control-expose-headers").expect("exposed headers");
    assert!(exposed.contains("Retry-After"), "{exposed}");
}

#[test]
fn early_refusals_of_private_requests_and_events_are_readable_from_every_origin() {
    for (status, refusal) in REFUSALS {
        for (method, target) in PRIVATE {
            for origin in [ORIGIN, "null"] {
                let response = send(&SERVER.get(), &refusal(method, target, origin));
                assert_eq!(response.status, *status, "{method} {target}: {response:?}");
                assert_readable(&response, origin);
            }
        }
    }
}

#[test]
fn early_refusals_of_public_requests_name_no_origin() {
    for (status, refusal) in REFUSALS {
        for (method, target) in PUBLIC.into_iter().filter(|_| ![408, 405].contains(status)) {
            let response = send(&SERVER.get(), &refusal(method, target, ORIGIN));
            assert_eq!(response.status, *status, "{method} {target}: {response:?}");
            assert_eq!(response.field("access-control-allow-origin"), Some("*"));
            assert_eq!(response.field("vary"), None);
        }
    }
}

#[test]
fn a_refusal_is_readable_however_its_head_is_split() {
    let request = head("POST", "/v1/track", ORIGIN, &"A: b\r\n".repeat(65));
    let mut client = Client::to(SERVER.get().edge);
    for piece in request.as_bytes().chunks(50) {
        client.send(piece);
    }
    let response = client.response(false);
    assert_eq!(response.status, 431);
    assert_readable(&response, ORIGIN);
}

#[test]
fn a_503_of_a_server_at_its_limits_is_readable() {
    let full = start_server(&["--connections", "1"]);
    let mut kept = Client::to(full.edge);
    assert_eq!(kept.request("GET", "/v1/routes?site=acme", &[]).status, 200);
    let refused = send(&full, &head("POST", "/v1/track", ORIGIN, "Content-Length: 0\r\n"));
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert_readable(&refused, ORIGIN);
}

/// Sends a body that is too large, completely before the response is read, as a proxy does.
fn send_too_large(stream: &mut TcpStream, body_bytes: usize) -> io::Result<()> {
    let head = head("POST", "/v1/track", ORIGIN, &format!("Content-Length: {body_bytes}\r\n"));
    stream.write_all(head.as_bytes()).expect("the server reads a head");
    stream.write_all(&vec![b'p'; body_bytes])
}

#[test]
fn a_client_that_sends_a_too_large_body_first_can_read_the_413_up_to_a_limit() {
    let server = start_server(&[]);
    for body_bytes in [DISCARDED_BYTES_MAX - 1, DISCARDED_BYTES_MAX] {
        let mut stream = TcpStream::connect(server.edge).expect("it listens");
        send_too_large(&mut stream, body_bytes).expect("the server reads all of it");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it ends without a reset");
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    }
    // Beyond the limit the server closes the connection, so a client cannot occupy it. The buffers of the sockets take a part.
    let mut stream = TcpStream::connect(server.edge).expect("it listens");
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("not zero");
    let error =
        send_too_large(&mut stream, DISCARDED_BYTES_MAX + 64 * 1024 * 1024).expect_err("it is closed");
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
}
