//! Slow clients are disconnected, after a 408 response where possible. Other clients are not affected.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use serde_json::json;

use super::{SharedServer, page, problem, site_file};
use crate::harness::{Client, PATIENCE, Server, snapshot};

const ROUTES: &str = "/v1/routes?site=acme";

fn start_server(flags: &'static [&'static str]) -> Server {
    let site = site_file("acme", json!({}));
    let filler = "a page that is too large for what a socket holds ".repeat(10_000);
    let page = page("/", json!({})).replace("\"props\":{}", &format!("\"props\":{{\"text\":\"{filler}\"}}"));
    let files = [("site.json", site.as_str()), ("routes/index.json", page.as_str())];
    Server::start(&[("acme.snapshot", &snapshot(&files, 1))], flags)
}

static SERVER: SharedServer = SharedServer::new(|| {
    start_server(&["--timeout-head-ms", "300", "--timeout-body-ms", "300", "--timeout-write-ms", "300"])
});
static IDLE: SharedServer = SharedServer::new(|| start_server(&["--timeout-idle-ms", "300"]));

/// Sends the beginning of a request, and asserts that other clients are served.
fn begin_request(beginning: &str) -> Client {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    client.send(beginning.as_bytes());
    assert_eq!(server.get(ROUTES).status, 200, "other clients are served");
    client
}

#[test]
fn an_unfinished_head_gets_408_and_a_close() {
    for beginning in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut client = begin_request(beginning);
        let response = client.response(false);
        assert_eq!(problem(&response), (408, "timeout".into()), "{beginning:?}");
        assert_eq!(response.field("connection"), Some("close"));
        assert!(client.is_closed());
    }
}

#[test]
fn a_pipelined_head_has_its_own_timeout() {
    let mut client = begin_request(&format!("GET {ROUTES} HTTP/1.1\r\nHost: a\r\n\r\nGET /"));
    assert_eq!(client.response(false).status, 200);
    assert_eq!(problem(&client.response(false)), (408, "timeout".into()));
    assert!(client.is_closed());
}

#[test]
fn an_unfinished_body_gets_408_with_a_length_or_chunks() {
    let head = "POST /v1/query HTTP/1.1\r\nHost: a\r\n";
    for rest in ["Content-Length: 1000\r\n\r\n{\"site\"", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        let mut client = begin_request(&format!("{head}{rest}"));
        assert_eq!(problem(&client.response(false)), (408, "timeout".into()), "{rest:?}");
        assert!(client.is_closed());
    }
}

#[test]
fn a_client_that_reads_no_responses_is_disconnected() {
    let server = SERVER.get();
    let mut stream = TcpStream::connect(server.edge).expect("connected");
    stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
    let request = b"GET /v1/resolve?site=acme&route=/&variants= HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    // Writes until the server, which stops reading while its response is not read, closes the connection.
    let error =
        std::iter::repeat_with(|| stream.write_all(&request)).find_map(Result::err).expect("a write error");
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    assert_eq!(server.get(ROUTES).status, 200);
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let server = IDLE.get();
    let mut fresh = Client::to(server.edge);
    assert!(fresh.is_closed());
    let mut used = Client::to(server.edge);
    assert_eq!(used.request("GET", ROUTES, &[]).status, 200);
    assert!(used.is_closed());
    assert!(used.read_to_end().is_empty());
}
