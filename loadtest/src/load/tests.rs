//! The load against servers of this process: the bare one, and one that does as it is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{Load, LoadError, Pace, run};
use crate::floor::{self, Burden};
use crate::outcome::Outcome;
use crate::request::{Body, Expected, Template};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nv=12";

fn templates(body: Body) -> Vec<Template> {
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
        warm,
        window,
        check_every: 10,
        processors: &[0],
        templates,
    }
}

fn measure(load: &Load<'_>) -> Outcome {
    run(load, &|| Duration::ZERO).expect("it runs")
}

/// The counts without the histogram, which is thousands of numbers.
fn say(outcome: &Outcome) -> String {
    let Outcome { completed, checked, failed, failure, due, .. } = outcome;
    format!("{completed} completed, {checked} checked, {failed} failed, {due} due: {failure:?}")
}

/// Whether io_uring is to be had; says so where it is not.
fn has_ring() -> bool {
    let ring = io_uring::IoUring::new(1);
    ring.map_err(|error| eprintln!("skipped: io_uring is not to be had: {error}")).is_ok()
}

/// The bare server on a thread, for as long as the tests run.
fn bare() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // As without it an answer waits until the one before is acknowledged.
    socket2::SockRef::from(&listener).set_tcp_nodelay(true).expect("an option");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || floor::serve(&listener, ANSWER, Burden::default()));
    address
}

/// A server that does as `answer` says with each connection.
fn server(answer: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Reads one request, which comes at once; None at the end.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
    Some(bytes[..count].to_vec())
}

#[test]
fn a_closed_loop_has_every_request_answered_and_some_checked() {
    if !has_ring() {
        return;
    }
    let templates = templates(Body::Same(b"v=12".to_vec()));
    let address = bare();
    for (connections, depth, processors) in [(8, 1, &[0][..]), (1, 1, &[0]), (3, 16, &[0]), (5, 4, &[0, 0])] {
        let outcome = measure(&Load { connections, depth, processors, ..load(address, &templates) });
        assert_eq!((outcome.failed, &outcome.failure), (0, &None));
        assert!(outcome.completed > 100 && outcome.checked > outcome.completed / 20, "{}", say(&outcome));
        assert_eq!(outcome.latency_ns.len(), outcome.completed);
        let bytes = outcome.completed * ANSWER.len() as u64;
        assert!(outcome.received_bytes.abs_diff(bytes) <= (connections * depth * ANSWER.len()) as u64);
        assert!(
            outcome.generator_cpu > Duration::ZERO && outcome.generator_cpu < 3 * Duration::from_millis(200)
        );
    }
}

#[test]
fn an_open_loop_sends_as_many_as_are_due() {
    if !has_ring() {
        return;
    }
    let templates = templates(Body::Contains(Vec::new()));
    let address = bare();
    for (depth, processors) in [(1, &[0][..]), (5, &[0]), (1, &[0, 1])] {
        let pace = Pace::Open { per_second: 2000.0 };
        let outcome = measure(&Load { pace, depth, processors, ..load(address, &templates) });
        assert_eq!((outcome.failed, &outcome.failure), (0, &None));
        assert!(outcome.due.abs_diff(400) <= depth as u64, "{}", say(&outcome));
        assert_eq!(outcome.completed, outcome.due);
    }
}

#[test]
fn what_waits_for_a_connection_counts_from_when_it_was_due() {
    if !has_ring() {
        return;
    }
    // 100 a second are due on one connection, whose answers take 20 ms each: so the last of a window waits for half of it.
    let address = server(|mut stream| {
        while request(&mut stream).is_some() {
            std::thread::sleep(Duration::from_millis(20));
            let _ = stream.write_all(ANSWER);
        }
    });
    let templates = templates(Body::Contains(Vec::new()));
    let pace = Pace::Open { per_second: 100.0 };
    let outcome = measure(&Load { pace, connections: 1, ..load(address, &templates) });
    assert_eq!((outcome.failed, outcome.completed, outcome.due), (0, 20, 20), "{}", say(&outcome));
    assert!(outcome.latency_ns.max() > 200_000_000, "{}", outcome.latency_ns.max());
    assert!(outcome.latency_ns.value_at_quantile(0.5) > 100_000_000);
}

#[test]
fn an_answer_that_is_not_as_expected_has_failed_and_says_of_which_request() {
    if !has_ring() {
        return;
    }
    let address = bare();
    let templates = templates(Body::Same(b"v=13".to_vec()));
    let outcome = measure(&Load { check_every: 1, ..load(address, &templates) });
    assert!(outcome.failed > 0 && outcome.completed == 0);
    let failure = outcome.failure.expect("it failed");
    assert!(failure.contains("GET /page HTTP/1.1") && failure.contains("another"), "{failure}");
}

#[test]
fn a_connection_that_the_server_closes_is_opened_again() {
    if !has_ring() {
        return;
    }
    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let polite = server(|mut stream| {
        for answer in [ANSWER, ANSWER, LAST] {
            let _ = request(&mut stream).map(|_| stream.write_all(answer));
        }
    });
    let rude = server(|mut stream| {
        let _ = request(&mut stream).map(|_| stream.write_all(ANSWER));
        let _ = request(&mut stream);
    });
    let templates = templates(Body::Contains(Vec::new()));
    let outcome = measure(&load(polite, &templates));
    assert_eq!((outcome.failed, &outcome.failure), (0, &None));
    assert!(outcome.completed > 100, "{}", say(&outcome));
    let outcome = measure(&load(rude, &templates));
    assert!(outcome.failed > 0, "{}", say(&outcome));
    let failure = outcome.failure.expect("it failed");
    assert!(failure.contains("1 answers outstanding"), "{failure}");
}

#[test]
fn a_request_with_a_counter_is_never_sent_twice() {
    if !has_ring() {
        return;
    }
    // Says 409 where the digits of a request are not above those of the one before it on the connection.
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
    let mut templates = templates(Body::Contains(Vec::new()));
    templates[0].bytes = b"GET /00000000000000000000 HTTP/1.1\r\n\r\n".to_vec();
    templates[0].counters.push(5..25);
    let outcome = measure(&load(address, &templates));
    assert_eq!((outcome.failed, &outcome.failure), (0, &None));
    assert!(outcome.completed > 100, "{}", say(&outcome));
}

#[test]
fn a_load_that_cannot_be_is_refused() {
    let templates = templates(Body::Contains(Vec::new()));
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
        assert!(matches!(refused(&wrong), LoadError::Wrong(_)), "{wrong:?}");
    }
}
