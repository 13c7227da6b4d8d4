//! Clients that send a part of a body and then nothing (R18). GETs are answered all the while, and each body
//! gets 408 soon after its last byte.

use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::worker::ReceiveRate;
use proptest::prelude::*;

use crate::harness::{Client, PATIENCE, Response, Server, post, times, under_load};

const DEMO_PAGE: &str = "/v1/variants?site=fjell&route=/";

fn demo(flags: &[&str]) -> Server {
    Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], flags)
}

/// A client that announced a body and sent a part of it.
struct HalfSentBody {
    client: Client,
    sent_at: Instant,
}

impl HalfSentBody {
    /// Sends `sent` bytes of a body of `announced` bytes.
    fn send(server: &Server, sent: usize, announced: usize) -> Self {
        let mut client = Client::to(server.edge);
        let request = post("/v1/query", &[], &vec![b' '; announced]);
        client.send(&request[..request.len() - announced + sent]);
        Self { client, sent_at: Instant::now() }
    }

    fn send_more(&mut self, bytes: usize) {
        self.client.send(&vec![b' '; bytes]);
        self.sent_at = Instant::now();
    }

    /// Waits for the last response of the connection, and returns its time since the last byte.
    fn end(&mut self) -> (Response, Duration) {
        let response = self.client.response(false);
        let waited = self.sent_at.elapsed();
        assert_eq!(response.field("connection"), Some("close"), "{response:?}");
        assert!(self.client.is_closed());
        (response, waited)
    }
}

#[test]
fn half_sent_bodies_stop_no_get_and_get_408() {
    let (count, sent, announced) = times_of([(300, 27_000, 51_200), (1_100, 270_000, 524_288)]);
    let quick = ["--bodies-memory", "0", "--timeout-body-ms", "2000"];
    let (flags, bound) = times_of([(&quick[..], 3_000), (&[][..], 11_000)]);
    let server = demo(flags);
    let get = |client: &mut Client| {
        let response = client.request("GET", DEMO_PAGE, &[]);
        assert_eq!(response.status, 200, "{response:?}");
    };
    let (ends, gets) = under_load(server.edge, 4, get, || {
        let mut bodies: Vec<_> = (0..count).map(|_| HalfSentBody::send(&server, sent, announced)).collect();
        bodies.iter_mut().map(HalfSentBody::end).collect::<Vec<_>>()
    });
    let slowest = ends.iter().map(|(_, waited)| *waited).max().expect("a body");
    let timed_out = ends.iter().filter(|(response, _)| response.status == 408).count();
    eprintln!("{count} bodies, {timed_out} with 408, the last after {slowest:?}; {gets} GETs, all 200");
    assert!(slowest < Duration::from_millis(bound), "{slowest:?}");
    for (response, _) in &ends {
        // With a small limit, a body gets 503 if the others are too young to be cut off.
        assert!(response.status == 408 || response.status == 503 && !flags.is_empty(), "{response:?}");
    }
    assert!(timed_out > 0);
}

/// Returns the first value, or the second in the long form.
fn times_of<T: Copy>(forms: [T; 2]) -> T {
    forms[times(0, 1)]
}

#[test]
fn a_body_that_stalls_after_a_burst_gets_408_after_the_window() {
    let server = demo(&["--timeout-body-ms", "600"]);
    let (response, waited) = HalfSentBody::send(&server, 200_000, 400_000).end();
    assert_eq!((response.status, response.code().as_str()), (408, "timeout"));
    let detail = "The request body arrived at less than 1024 bytes per second in the last 600 ms.";
    assert_eq!(response.json()["detail"], detail);
    assert!(waited >= Duration::from_millis(590), "{waited:?} is before the end of the window");
    assert!(waited < Duration::from_secs(5), "{waited:?}: the burst counts for longer than the window");
}

#[test]
fn a_body_that_stays_above_the_rate_is_received_for_many_windows() {
    let server = demo(&["--timeout-body-ms", "300"]);
    let (pieces, piece) = (40, 700);
    let mut body = HalfSentBody::send(&server, 0, pieces * piece);
    let mut pace = Pace::new(Duration::from_millis(50));
    for _ in 0..pieces {
        pace.wait();
        body.send_more(piece);
    }
    assert_eq!(body.client.response(false).code(), "malformed_json", "the whole body was received");
}

/// A clock for a client that sends at a steady rate.
struct Pace {
    next: Instant,
    step: Duration,
}

impl Pace {
    fn new(step: Duration) -> Self {
        Self { next: Instant::now(), step }
    }

    fn wait(&mut self) {
        self.next += self.step;
        while let Some(left) = self.next.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
    }
}

#[test]
fn under_memory_pressure_the_slowest_body_is_cut_off_first() {
    // One worker, with 1 MiB for bodies.
    let server = demo(&["--workers", "1", "--bodies-memory", "0"]);
    let mut slow = HalfSentBody::send(&server, 250_000, 500_000);
    let mut fast = HalfSentBody::send(&server, 100_000, 500_000);
    Pace::new(Duration::from_millis(1_100)).wait();
    fast.send_more(300_000);
    let mut young = HalfSentBody::send(&server, 450_000, 500_000);
    let (response, _) = slow.end();
    assert_eq!((response.status, response.code().as_str()), (408, "timeout"));
    let detail = "Memory limit for request bodies reached; this was the slowest body. Retry later.";
    assert_eq!(response.json()["detail"], detail);
    fast.send_more(100_000);
    young.send_more(50_000);
    for mut other in [fast, young] {
        assert_eq!(other.client.response(false).code(), "malformed_json", "the whole body was received");
    }
}

/// Removes the first body that gets a response before `deadline`, and returns the response.
fn take_refused(bodies: &mut Vec<HalfSentBody>, deadline: Instant) -> Option<Response> {
    for body in &mut *bodies {
        body.client.set_read_timeout(Duration::from_millis(10));
    }
    while Instant::now() < deadline {
        let answered =
            bodies.iter_mut().enumerate().find_map(|(i, body)| Some((i, body.client.try_response()?)));
        if let Some((i, response)) = answered {
            bodies.remove(i);
            return Some(response);
        }
    }
    None
}

#[test]
fn a_body_younger_than_a_second_is_not_cut_off_for_another() {
    // There is memory for two of the three. The worker may read them in another order than they were sent. On a
    // busy machine they can be older than a second before one is refused, which proves nothing.
    let is_proven = (0..50).any(|_| {
        let server = demo(&["--workers", "1", "--bodies-memory", "0"]);
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut bodies: Vec<_> = (0..3).map(|_| HalfSentBody::send(&server, 490_000, 500_000)).collect();
        let Some(response) = take_refused(&mut bodies, deadline).filter(|_| Instant::now() < deadline) else {
            return false;
        };
        assert_eq!((response.status, response.code().as_str()), (503, "overloaded"));
        for body in &mut bodies {
            body.client.set_read_timeout(PATIENCE);
            body.send_more(10_000);
            assert_eq!(body.client.response(false).code(), "malformed_json", "the whole body was received");
        }
        true
    });
    assert!(is_proven, "the machine is too slow for this test");
}

#[test]
fn a_client_that_sends_bodies_one_after_the_other_starts_again_with_each() {
    let server = demo(&["--timeout-body-ms", "600"]);
    let mut client = Client::to(server.edge);
    let body = vec![b' '; 20];
    let request = post("/v1/query", &[], &body);
    let (head, body) = request.split_at(request.len() - body.len());
    client.send(head);
    let mut pace = Pace::new(Duration::from_millis(250));
    // Each piece ends a body and begins the next one. All bodies together are slower than the limit.
    for _ in 0..6 {
        pace.wait();
        client.send(&[body, head].concat());
        assert_eq!(client.response(false).code(), "malformed_json");
    }
}

/// The bytes that arrived in the last `window_ms`, by adding up all arrivals.
fn naive_window_bytes(arrivals: &[(u64, usize)], window_ms: u64, now_ms: u64) -> u64 {
    arrivals.iter().filter(|(at, _)| at + window_ms > now_ms).map(|(_, bytes)| *bytes as u64).sum()
}

proptest! {
    #[test]
    fn the_rate_of_a_body_is_that_of_its_last_window(
        window_ms in 100_u64..20_000,
        start_ms in 0_u64..100_000,
        steps in prop::collection::vec((0_u64..6_000, 0_usize..40_000), 0..60),
        idle_ms in 0_u64..30_000,
    ) {
        let mut rate = ReceiveRate::new(window_ms, start_ms);
        let (mut now_ms, mut arrivals) = (start_ms, Vec::new());
        for (pause_ms, bytes) in steps {
            now_ms += pause_ms;
            rate.record(bytes, now_ms);
            arrivals.push((now_ms, bytes));
        }
        now_ms += idle_ms;
        let least = naive_window_bytes(&arrivals, window_ms, now_ms);
        let most = naive_window_bytes(&arrivals, window_ms + window_ms / 40 + 1, now_ms);
        let counted = rate.window_bytes(now_ms);
        prop_assert!((least..=most).contains(&counted), "{counted} of {least} to {most}");
        let is_old = now_ms - start_ms >= window_ms;
        for limit in [1, 1024, counted * 1000 / window_ms, counted * 1000 / window_ms + 2] {
            prop_assert_eq!(rate.is_below(limit, now_ms), is_old && counted < limit * window_ms / 1000);
        }
        let measured_ms = (now_ms - start_ms).clamp(1, window_ms);
        prop_assert_eq!(rate.bytes_per_s(now_ms), counted * 1000 / measured_ms);
    }
}
