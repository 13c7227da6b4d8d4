//! A server that is told to stop answers the requests that it has received, accepts no more, and exits (R11).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::harness::{Client, PATIENCE, Server, eventually, times};

const REQUEST: &[u8] = b"GET /v1/resolve?site=fjell&route=/&variants= HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends one request. Returns `None` if the server closed without a byte of a response, and otherwise whether
/// the response is the last one of its connection. A partial response fails the test.
fn send_request(stream: &mut BufReader<TcpStream>) -> Option<bool> {
    stream.get_mut().write_all(REQUEST).ok()?;
    let mut head = String::new();
    loop {
        match stream.read_line(&mut head) {
            Ok(0) if head.is_empty() => return None,
            Err(error) if head.is_empty() && error.kind() == ErrorKind::ConnectionReset => return None,
            Ok(bytes) => assert!(bytes > 0, "the head is incomplete: {head}"),
            Err(error) => panic!("{error} in {head}"),
        }
        if head.ends_with("\r\n\r\n") {
            break;
        }
    }
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.split('\r').next());
    let mut body = vec![0; length.and_then(|text| text.parse().ok()).expect("a length")];
    stream.read_exact(&mut body).expect("a whole body");
    assert!(body.starts_with(b"{\"type\":\"layout\"") && body.ends_with(b"}"));
    Some(head.contains("\r\nConnection: close\r\n"))
}

fn connected(server: &Server) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.edge).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is set");
    BufReader::new(stream)
}

#[test]
fn responses_are_complete_if_a_server_stops_under_load() {
    for _ in 0..times(3, 50) {
        let mut server = Server::demo();
        let answered = AtomicUsize::new(0);
        thread::scope(|scope| {
            for mut stream in (0..8).map(|_| connected(&server)) {
                let answered = &answered;
                scope.spawn(move || {
                    while let Some(is_last) = send_request(&mut stream) {
                        answered.fetch_add(1, Ordering::Relaxed);
                        if is_last {
                            let mut rest = Vec::new();
                            assert_eq!(
                                stream.read_to_end(&mut rest).unwrap_or(0),
                                0,
                                "nothing follows the last response"
                            );
                            return;
                        }
                    }
                });
            }
            eventually("some requests are answered", || {
                (answered.load(Ordering::Relaxed) > 200).then_some(())
            });
            server.signal("TERM");
        });
        assert_eq!(server.exit_code(), 0);
        server.wait_for_log("stopped");
    }
}

#[test]
fn an_idle_connection_does_not_delay_the_shutdown() {
    let mut server = Server::demo();
    let (mut fresh, mut used) = (Client::to(server.edge), Client::to(server.edge));
    assert_eq!(used.request("GET", "/v1/routes?site=fjell", &[]).status, 200);
    server.signal("INT");
    assert!(fresh.is_closed() && used.is_closed());
    assert_eq!(server.exit_code(), 0);
}

#[test]
fn a_partial_request_delays_the_shutdown_until_a_second_signal() {
    let mut server = Server::demo();
    let (mut whole, mut half) = (Client::to(server.edge), Client::to(server.edge));
    let (first, second) = REQUEST.split_at(20);
    for client in [&mut whole, &mut half] {
        client.send(first);
        client.send(&second[..3]);
    }
    // A response on another connection of each worker shows that the worker has read the earlier bytes.
    (0..20).for_each(|_| assert_eq!(server.get("/v1/routes?site=fjell").status, 200));
    server.signal("HUP");
    assert_eq!(server.admin_get("/readyz").status, 200);
    server.signal("TERM");
    eventually("the server is not ready any more", || {
        (server.admin_get("/readyz").status == 503).then_some(())
    });
    assert_eq!(server.admin_get("/readyz").json()["draining"], true);
    eventually("the server accepts no connections any more", || TcpStream::connect(server.edge).err());
    whole.send(&second[3..]);
    let response = whole.response(false);
    assert_eq!((response.status, response.field("connection")), (200, Some("close")));
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

#[test]
fn a_signal_without_a_meaning_changes_nothing() {
    let mut server = Server::demo();
    for name in ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "XFSZ", "PWR", "STKFLT", "34", "64"] {
        server.signal(name);
        assert_eq!(server.get("/v1/resolve?site=fjell&route=/&variants=").status, 200, "signal {name}");
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}
