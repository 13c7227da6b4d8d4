//! Tests of the load generator with servers in this process: the bare server, and scripted ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{Load, LoadError, Pace, run};
use crate::floor::{self, ExtraWork};
use crate::outcome::Outcome;
use crate::request::{Expected, ExpectedBody, Template};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nv=12";

fn templates(body: ExpectedBody) -> Vec<Template> {
    let bytes = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    vec![Template { bytes, counters: Vec::new(), expected: Expected { status: 200, body } }]
}

fn load(address: SocketAddr, templates: &[Template]) -> Load<'_> {
    let (warm, window) = (Duration::from_millis(20), Duration::from_millis(200));
    let pace = Pace::Closed;
    Load {
        address,
        connections: 8,
        depth: 1,
        pace,
        warm_up: warm,
        window,
        check_every: 10,
        processors: &[0],
        templates,
    }
}

fn measure(load: &Load<'_>) -> Outcome {
    run(load, &|| Duration::ZERO).expect("it runs")
}

/// Formats the counts, without the thousands of numbers of the histogram.
fn format_counts(outcome: &Outcome) -> String {
    let Outcome { completed, checked, failed, failure, due, .. } = outcome;
    format!("{completed} completed, {checked} checked, {failed} failed, {due} due: {failure:?}")
}

/// Returns whether io_uring is available, and prints a note if not.
fn has_ring() -> bool {
    let ring = io_uring::IoUring::new(1);
    ring.map_err(|error| eprintln!("skipped: io_uring is unavailable: {error}")).is_ok()
}

/// Starts the bare server on a thread. It runs until the tests end.
fn start_floor() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // Otherwise a response waits until the one before is acknowledged.
    socket2::SockRef::from(&listener).set_tcp_nodelay(true).expect("an option");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || floor::serve(&listener, RESPONSE, ExtraWork::default()));
    address
}

/// Starts a server that calls `response` with each connection.
fn server(response: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || response(stream));
        }
    });
    address
}

/// Reads one request, which arrives at once. Returns `None` at the end of the connection.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
    Some(bytes[..count].to_vec())
}

#[test]
fn a_closed_loop_completes_every_request_and_checks_some() {
    if !has_ring() {
        return;
    }
    let templates = templates(ExpectedBody::Exact(b"v=12".to_vec()));
    let address = start_floor();
    for (connections, depth, processors) in [(8, 1, &[0][..]), (1, 1, &[0]), (3, 16, &[0]), (5, 4, &[0, 0])] {
        let outcome = measure(&Load { connections, depth, processors, ..load(address, &templates) });
        assert_eq!((outcome.failed, &outcome.failure), (0, &None));
        assert!(
            outcome.completed > 100 && outcome.checked > outcome.completed / 20,
            "{}",
            format_counts(&outcome)
        );
        assert_eq!(outcome.latency_ns.len(), outcome.completed);
        let bytes = outcome.completed * RESPONSE.len() as u64;
        assert!(outcome.received_bytes.abs_diff(bytes) <= (connections * depth * RESPONSE.len()) as u64);
        assert!(
            outcome.generator_cpu > Duration::ZERO && outcome.generator_cpu < 3 * Duration::from_millis(200)
        );
    }
}

#[test]
fn an_open_loop_sends_every_due_request() {
    if !has_ring() {
        return;
    }
    let templates = templates(ExpectedBody::Contains(Vec::new()));
    let address = start_floor();
    for (depth, processors) in [(1, &[0][..]), (5, &[0]), (1, &[0, 1])] {
        let pace = Pace::Open { per_second: 2000.0 };
        let outcome = measure(&Load { pace, depth, processors, ..load(address, &templates) });
        assert_eq!((outcome.failed, &outcome.failure), (0, &None));
        assert!(outcome.due.abs_diff(400) <= depth as u64, "{}", format_counts(&outcome));
        assert_eq!(outcome.completed, outcome.due);
    }
}

#[test]
fn latency_includes_waiting_for_a_connection() {
    if !has_ring() {
        return;
    }
    // 100 requests per second are due on one connection, whose responses take 20 ms each. So the last request
    // of a window waits for half of the window.
    let address = server(|mut stream| {
        while request(&mut stream).is_some() {
            std::thread::sleep(Duration::from_millis(20));
            let _ = stream.write_all(RESPONSE);
        }
    });
    let templates = templates(ExpectedBody::Contains(Vec::new()));
    let pace = Pace::Open { per_second: 100.0 };
    let outcome = measure(&Load { pace, connections: 1, ..load(address, &templates) });
    assert_eq!((outcome.failed, outcome.completed, outcome.due), (0, 20, 20), "{}", format_counts(&outcome));
    assert!(outcome.latency_ns.max() > 200_000_000, "{}", outcome.latency_ns.max());
    assert!(outcome.latency_ns.value_at_quantile(0.5) > 100_000_000);
}

#[test]
fn an_unexpected_response_fails_and_names_its_request() {
    if !has_ring() {
        return;
    }
    let address = start_floor();
    let templates = templates(ExpectedBody::Exact(b"v=13".to_vec()));
    let outcome = measure(&Load { check_every: 1, ..load(address, &templates) });
    assert!(outcome.failed > 0 && outcome.completed == 0);
    let failure = outcome.failure.expect("it failed");
    assert!(failure.contains("GET /page HTTP/1.1") && failure.contains("unexpected body"), "{failure}");
}

#[test]
fn a_closed_connection_is_opened_again() {
    if !has_ring() {
        return;
    }
    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let announcing = server(|mut stream| {
        for response in [RESPONSE, RESPONSE, LAST] {
            let _ = request(&mut stream).map(|_| stream.write_all(response));
        }
    });
    let abrupt = server(|mut stream| {
        let _ = request(&mut stream).map(|_| stream.write_all(RESPONSE));
        let _ = request(&mut stream);
    });
    let templates = templates(ExpectedBody::Contains(Vec::new()));
    let outcome = measure(&load(announcing, &templates));
    assert_eq!((outcome.failed, &outcome.failure), (0, &None));
    assert!(outcome.completed > 100, "{}", format_counts(&outcome));
    let outcome = measure(&load(abrupt, &templates));
    assert!(outcome.failed > 0, "{}", format_counts(&outcome));
    let failure = outcome.failure.expect("it failed");
    assert!(failure.contains("outstanding responses: 1"), "{failure}");
}

#[test]
fn a_request_with_a_counter_is_never_sent_twice() {
    if !has_ring() {
        return;
    }
    // Responds 409 if the number in a request is not greater than the one before on this connection.
    let address = server(|mut stream| {
        let mut before = 0;
        while let Some(request) = request(&mut stream) {
            let text = String::from_utf8_lossy(&request[5..25]).into_owned();
            let number: u64 = text.parse().expect("digits");
            let code = if number > before { "200 OK" } else { "409 Conflict" };
            before = number;
            let _ = stream.write_all(format!("HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    let mut templates = templates(ExpectedBody::Contains(Vec::new()));
    templates[0].bytes = b"GET /00000000000000000000 HTTP/1.1\r\n\r\n".to_vec();
    templates[0].counters.push(5..25);
    let outcome = measure(&load(address, &templates));
    assert_eq!((outcome.failed, &outcome.failure), (0, &None));
    assert!(outcome.completed > 100, "{}", format_counts(&outcome));
}

#[test]
fn an_invalid_load_is_refused() {
    let templates = templates(ExpectedBody::Contains(Vec::new()));
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let good = load(closed, &templates);
    let refused = |load: &Load<'_>| run(load, &|| Duration::ZERO).expect_err("it cannot be");
    assert!(matches!(refused(&good), LoadError::Connect { .. }));
    for wrong in [
        Load { templates: &[], ..good.clone() },
        Load { depth: 0, ..good.clone() },
        Load { check_every: 0, ..good.clone() },
        Load { processors: &[], ..good.clone() },
        Load { connections: 1, processors: &[0, 0], ..good.clone() },
        Load { pace: Pace::Open { per_second: 0.0 }, ..good.clone() },
    ] {
        assert!(matches!(refused(&wrong), LoadError::Invalid(_)), "{wrong:?}");
    }
}
