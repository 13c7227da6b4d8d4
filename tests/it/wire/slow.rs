//! Who is slow is cut off, and told where that is possible; nobody else notices.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use serde_json::json;

use super::{Shared, page, problem, site_file};
use crate::harness::{Client, PATIENCE, Server, snapshot};

const ROUTES: &str = "/v1/routes?site=acme";

fn serving(flags: &'static [&'static str]) -> Server {
    let site = site_file("acme", json!({}));
    let filler = "a page that is too large for what a socket holds ".repeat(10_000);
    let page = page("/", json!({})).replace("\"props\":{}", &format!("\"props\":{{\"text\":\"{filler}\"}}"));
    let files = [("site.json", site.as_str()), ("routes/index.json", page.as_str())];
    Server::start(&[("acme.snapshot", &snapshot(&files, 1))], flags)
}

static SERVER: Shared = Shared::new(|| {
    serving(&["--timeout-head-ms", "300", "--timeout-body-ms", "300", "--timeout-write-ms", "300"])
});
static IDLE: Shared = Shared::new(|| serving(&["--timeout-idle-ms", "300"]));

/// Sends the beginning of a request and no more.
fn begin(beginning: &str) -> Client {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    client.send(beginning.as_bytes());
    assert_eq!(server.get(ROUTES).status, 200, "others go on");
    client
}

#[test]
fn a_head_that_does_not_end_is_408_and_the_connection_closes() {
    for beginning in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut client = begin(beginning);
        let response = client.response(false);
        assert_eq!(problem(&response), (408, "timeout".into()), "{beginning:?}");
        assert_eq!(response.field("connection"), Some("close"));
        assert!(client.is_closed());
    }
}

#[test]
fn a_head_behind_an_answered_request_has_its_own_time() {
    let mut client = begin(&format!("GET {ROUTES} HTTP/1.1\r\nHost: a\r\n\r\nGET /"));
    assert_eq!(client.response(false).status, 200);
    assert_eq!(problem(&client.response(false)), (408, "timeout".into()));
    assert!(client.is_closed());
}

#[test]
fn a_body_that_stops_is_408_counted_or_chunked() {
    let head = "POST /v1/query HTTP/1.1\r\nHost: a\r\n";
    for rest in ["Content-Length: 1000\r\n\r\n{\"site\"", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        let mut client = begin(&format!("{head}{rest}"));
        assert_eq!(problem(&client.response(false)), (408, "timeout".into()), "{rest:?}");
        assert!(client.is_closed());
    }
}

#[test]
fn a_client_that_takes_nothing_of_its_answers_is_cut_off() {
    let server = SERVER.get();
    let mut stream = TcpStream::connect(server.edge).expect("connected");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    let request = b"GET /v1/resolve?site=acme&route=/&variants= HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    // Until the server, which does not read on while its answer is not taken, has closed.
    let error = std::iter::repeat_with(|| stream.write_all(&request)).find_map(Result::err).expect("an end");
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    assert_eq!(server.get(ROUTES).status, 200);
}

#[test]
fn a_connection_without_a_request_is_closed_without_a_word() {
    let server = IDLE.get();
    let mut fresh = Client::to(server.edge);
    assert!(fresh.is_closed());
    let mut used = Client::to(server.edge);
    assert_eq!(used.request("GET", ROUTES, &[]).status, 200);
    assert!(used.is_closed());
    assert!(used.rest().is_empty());
}
