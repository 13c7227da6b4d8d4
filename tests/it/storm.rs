//! Slow heads, slow bodies and slow readers beside good traffic (R12). Each slow client is cut off in time,
//! with 408 where it can read that. The good traffic has no error, and a waiting client costs little memory.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::harness::{Client, PATIENCE, Server, eventually, snapshot, times, under_load};
use crate::strict;

/// Clients of the good traffic. Each has one request at a time.
const GOOD_CLIENTS: usize = 4;
/// Polls of a slow client for each byte that it sends.
const POLLS_PER_BYTE: usize = 4;
/// Good requests for each one that uses a new connection.
const NEW_CONNECTION_EVERY: usize = 32;
/// Size of the large page, in bytes. It does not fit the kernel's buffers for a client that reads nothing and
/// has small segments.
const LARGE_BYTES: usize = 256 * 1024;
/// Memory limit for a waiting connection, in KiB.
const WAITING_KIB: u64 = 8;
/// Additional memory limit for a reader, in KiB: a response in a buffer that grew by doubling.
const READER_KIB: u64 = 2 * (LARGE_BYTES as u64 / 1024);
/// Allowance for the allocator's own memory and the connections of the good traffic, in KiB.
const SLACK_KIB: u64 = 16 * 1024;

/// The number of slow clients of each kind, their allowed lifetimes, and the intervals of the test.
struct Plan {
    heads: usize,
    bodies: usize,
    readers: usize,
    /// Minimum lifetime of heads and bodies, and of readers.
    lifetime_min: [Duration; 2],
    /// Maximum lifetime of heads and bodies, and of readers.
    lifetime_max: [Duration; 2],
    poll_interval: Duration,
    quiet: Duration,
    flags: &'static [&'static str],
}

impl Plan {
    fn of_this_run() -> Self {
        let ms = Duration::from_millis;
        if times(0, 1) == 1 {
            let (lifetime_min, lifetime_max) = ([ms(10_000), ms(30_000)], [ms(11_000), ms(31_000)]);
            return Self {
                heads: 10_000,
                bodies: 1_000,
                readers: 1_000,
                lifetime_min,
                lifetime_max,
                poll_interval: ms(250),
                quiet: ms(10_000),
                flags: &[],
            };
        }
        let flags = &["--timeout-head-ms", "500", "--timeout-body-ms", "500", "--timeout-write-ms", "500"];
        // On a busy machine the test can only require that the clients are cut off at all.
        let (lifetime_min, lifetime_max) = ([ms(500); 2], [PATIENCE; 2]);
        Self {
            heads: 200,
            bodies: 50,
            readers: 50,
            lifetime_min,
            lifetime_max,
            poll_interval: ms(20),
            quiet: ms(500),
            flags,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let of = |kind, count| std::iter::repeat_n(kind, count);
        of(Kind::Reader, self.readers)
            .chain(of(Kind::Chunked, self.bodies / 2))
            .chain(of(Kind::Counted, self.bodies - self.bodies / 2))
            .chain(of(Kind::Head, self.heads))
    }

    /// Returns the number of descriptors that either side needs, with a margin.
    fn descriptors(&self) -> usize {
        self.heads + self.bodies + self.readers + 1_000
    }

    fn cost_max_kib(&self) -> u64 {
        let all = (self.heads + self.bodies + self.readers) as u64;
        all * WAITING_KIB + self.readers as u64 * READER_KIB + SLACK_KIB
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Head,
    Counted,
    Chunked,
    Reader,
}

impl Kind {
    fn first_bytes(self) -> &'static [u8] {
        match self {
            Self::Head => b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
            Self::Counted => b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{",
            Self::Chunked => {
                b"POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{"
            }
            Self::Reader => b"GET /v1/resolve?site=acme&route=/large&variants= HTTP/1.1\r\nHost: a\r\n\r\n",
        }
    }
}

/// A slow client.
struct SlowClient {
    kind: Kind,
    stream: TcpStream,
    begun: Instant,
    received: Vec<u8>,
    lifetime: Option<Duration>,
}

impl SlowClient {
    fn begin(kind: Kind, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        if kind == Kind::Reader {
            // With small segments and a small buffer the kernel stores little of a response on either side.
            socket.set_tcp_mss(536).expect("the option is set");
            socket.set_recv_buffer_size(4096).expect("the option is set");
        }
        socket.connect(&address.into()).expect("connected");
        let mut stream = TcpStream::from(socket);
        stream.set_nonblocking(true).expect("the option is set");
        let begun = Instant::now();
        stream.write_all(kind.first_bytes()).expect("a new socket buffers it");
        Self { kind, stream, begun, received: Vec::new(), lifetime: None }
    }

    /// Reads the available bytes, except for a reader. If `sends_byte` is set, sends one more byte.
    fn poll(&mut self, sends_byte: bool) {
        let is_over = match self.kind {
            // The server has not read the bytes that the client sent later, so the connection ends with a
            // reset.
            Kind::Reader => self.stream.take_error().expect("the error is readable").is_some(),
            _ => self.receive(),
        };
        if is_over {
            self.lifetime = Some(self.begun.elapsed());
        } else if sends_byte && self.received.is_empty() {
            // If the server has closed the connection by now, the next poll notices it.
            let _ = self.stream.write(b"x");
        }
    }

    /// Reads the available bytes. Returns whether the connection has ended.
    fn receive(&mut self) -> bool {
        let mut chunk = [0; 1024];
        match self.stream.read(&mut chunk) {
            Ok(bytes) => {
                self.received.extend_from_slice(&chunk[..bytes]);
                bytes == 0
            }
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Returns whether the client received 408 and nothing else. A reader cannot receive it.
    fn got_only_408(&self) -> bool {
        let statuses = strict::parse(&self.received).map(|read| {
            read.responses.iter().map(|response| (response.status, response.closes)).collect::<Vec<_>>()
        });
        self.kind == Kind::Reader || statuses == Ok(vec![(408, true)])
    }
}

/// The latency of each good request.
#[derive(Default)]
struct GoodTraffic {
    requests: AtomicUsize,
    times: Mutex<Vec<Duration>>,
}

impl GoodTraffic {
    fn ask(&self, client: &mut Client, server: &Server) {
        const TARGET: &str = "/v1/resolve?site=acme&route=/&anonId=v1";
        let begun = Instant::now();
        let response = match self.requests.fetch_add(1, Ordering::Relaxed) % NEW_CONNECTION_EVERY {
            0 => server.get(TARGET),
            _ => client.request("GET", TARGET, &[]),
        };
        self.times.lock().expect("unpoisoned").push(begun.elapsed());
        assert_eq!(response.status, 200, "{response:?}");
    }

    fn p99(self) -> Duration {
        let mut times = self.times.into_inner().expect("unpoisoned");
        times.sort();
        times[times.len() * 99 / 100]
    }
}

fn server(flags: &[&str]) -> Server {
    let page = |path: &str, text: &str| {
        json!({ "path": path, "layout": { "root": { "props": { "text": text } }, "zones": {} } }).to_string()
    };
    let (small, large) = (page("/", "small"), page("/large", &"large".repeat(LARGE_BYTES / 5)));
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    let files = [("site.json", site), ("routes/small.json", &small), ("routes/large.json", &large)];
    Server::start(&[("acme.snapshot", &snapshot(&files, 1))], flags)
}

/// The observations during a storm.
struct StormResult {
    slow: Vec<SlowClient>,
    /// The peak memory of the server, in KiB.
    peak_kib: u64,
    /// The longest time between two polls. The test may notice an end this much later.
    poll_gap_max: Duration,
}

/// Runs all slow clients until the last of them is cut off.
fn storm(plan: &Plan, server: &Server) -> StormResult {
    let slow = plan.kinds().map(|kind| SlowClient::begin(kind, server.edge)).collect();
    let mut result = StormResult { slow, peak_kib: 0, poll_gap_max: Duration::ZERO };
    let begun = Instant::now();
    for at in 0.. {
        let polled = Instant::now();
        let open = result.slow.iter_mut().filter(|slow| slow.lifetime.is_none());
        if open.map(|slow| slow.poll(at % POLLS_PER_BYTE == 0)).count() == 0 {
            break;
        }
        assert!(begun.elapsed() < plan.lifetime_max[1] + PATIENCE, "some slow clients are never cut off");
        result.peak_kib = result.peak_kib.max(server.resident_kib());
        thread::park_timeout(plan.poll_interval);
        result.poll_gap_max = result.poll_gap_max.max(polled.elapsed());
    }
    result
}

/// Raises the descriptor limit of this process, and of the servers that it starts.
fn raise_descriptors(count: usize) {
    let (process, limit) = (std::process::id().to_string(), format!("--nofile={count}:"));
    let raised = Command::new("prlimit").args(["--pid", &process, &limit]).status();
    assert!(raised.expect("prlimit is there").success(), "{count} descriptors are allowed");
}

#[test]
fn slow_clients_are_cut_off_without_errors_for_others() {
    let plan = Plan::of_this_run();
    if times(0, 1) == 1 {
        raise_descriptors(plan.descriptors());
    }
    let server = server(plan.flags);
    let (quiet, stormy) = (GoodTraffic::default(), GoodTraffic::default());
    let wait = || thread::park_timeout(plan.quiet);
    under_load(server.edge, GOOD_CLIENTS, |client| quiet.ask(client, &server), wait);
    let (descriptors, before) = (server.descriptors(), server.resident_kib());
    let load = |client: &mut Client| stormy.ask(client, &server);
    let (StormResult { slow, peak_kib, poll_gap_max }, requests) =
        under_load(server.edge, GOOD_CLIENTS, load, || storm(&plan, &server));

    for (at, is) in [|kind| kind != Kind::Reader, |kind| kind == Kind::Reader].into_iter().enumerate() {
        let times = slow.iter().filter(|slow| is(slow.kind)).filter_map(|slow| slow.lifetime);
        let (least, most) =
            (times.clone().min().expect("a slow client"), times.max().expect("a slow client"));
        eprintln!(
            "{}: cut off after {least:?} to {most:?}, noticed at most {poll_gap_max:?} later",
            ["heads and bodies", "readers"][at]
        );
        assert!(
            least >= plan.lifetime_min[at] && most <= plan.lifetime_max[at] + poll_gap_max,
            "{least:?} {most:?}"
        );
    }
    let wrong = slow.iter().find(|slow| !slow.got_only_408());
    let shown = wrong.map(|slow| (slow.kind, slow.received.escape_ascii().to_string()));
    assert_eq!(shown, None, "a slow client received something else than one 408");
    let (quiet, stormy) = (quiet.p99(), stormy.p99());
    eprintln!(
        "{requests} good requests, no error; p99 {quiet:?} without, {stormy:?} beside {} slow clients",
        slow.len()
    );
    eprintln!(
        "p99 ratio {:.2}; memory {before} > {peak_kib} KiB",
        stormy.as_secs_f64() / quiet.as_secs_f64()
    );
    assert!(peak_kib <= before + plan.cost_max_kib(), "{before} > {peak_kib} KiB");
    eventually("their descriptors are closed", || (server.descriptors() <= descriptors).then_some(()));
}
