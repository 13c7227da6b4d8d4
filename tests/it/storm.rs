//! Slow heads, slow bodies and slow readers beside good traffic (R12): each of them is cut off in its time and told why, the good
//! traffic has no error, and who waits costs little.

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

/// Clients of the good traffic, each with one request at a time.
const GOOD_CLIENTS: usize = 4;
/// A slow client sends a byte at every so many looks.
const LOOKS_A_BYTE: usize = 4;
/// Of this many good requests one comes on a connection of its own.
const FRESH_EVERY: usize = 32;
/// A page that does not fit what the kernel keeps for a client that takes nothing in small segments.
const LARGE_BYTES: usize = 256 * 1024;
/// What a waiting connection may cost.
const WAITING_KIB: u64 = 8;
/// What a reader may cost beside: an answer in a buffer that grew by doubling.
const READER_KIB: u64 = 2 * (LARGE_BYTES as u64 / 1024);
/// The allocator's own, and the connections of the good traffic.
const SLACK_KIB: u64 = 16 * 1024;

/// How many of each, how long they may last, and how often they are looked at.
struct Plan {
    heads: usize,
    bodies: usize,
    readers: usize,
    /// Before this none of a kind is cut off: heads and bodies, readers.
    from: [Duration; 2],
    /// By then all of a kind are.
    to: [Duration; 2],
    look: Duration,
    quiet: Duration,
    flags: &'static [&'static str],
}

impl Plan {
    fn of_this_run() -> Self {
        let ms = Duration::from_millis;
        if times(0, 1) == 1 {
            let (from, to) = ([ms(10_000), ms(30_000)], [ms(11_000), ms(31_000)]);
            return Self {
                heads: 10_000,
                bodies: 1_000,
                readers: 1_000,
                from,
                to,
                look: ms(250),
                quiet: ms(10_000),
                flags: &[],
            };
        }
        let flags = &["--timeout-head-ms", "500", "--timeout-body-ms", "500", "--timeout-write-ms", "500"];
        // That they end is all that a busy machine lets us say.
        let (from, to) = ([ms(500); 2], [PATIENCE; 2]);
        Self { heads: 200, bodies: 50, readers: 50, from, to, look: ms(20), quiet: ms(500), flags }
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let of = |kind, count| std::iter::repeat_n(kind, count);
        of(Kind::Reader, self.readers)
            .chain(of(Kind::Chunked, self.bodies / 2))
            .chain(of(Kind::Counted, self.bodies - self.bodies / 2))
            .chain(of(Kind::Head, self.heads))
    }

    /// Descriptors of either side, with room.
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
    fn begins(self) -> &'static [u8] {
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
struct Slow {
    kind: Kind,
    stream: TcpStream,
    begun: Instant,
    received: Vec<u8>,
    lasted: Option<Duration>,
}

impl Slow {
    fn begin(kind: Kind, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        if kind == Kind::Reader {
            // With small segments and little room the kernel keeps little of an answer on either side.
            socket.set_tcp_mss(536).expect("an option");
            socket.set_recv_buffer_size(4096).expect("an option");
        }
        socket.connect(&address.into()).expect("connected");
        let mut stream = TcpStream::from(socket);
        stream.set_nonblocking(true).expect("an option");
        let begun = Instant::now();
        stream.write_all(kind.begins()).expect("a fresh socket takes it");
        Self { kind, stream, begun, received: Vec::new(), lasted: None }
    }

    /// Takes what is there, readers excepted; where `goes_on`, sends one byte more.
    fn look(&mut self, goes_on: bool) {
        let is_over = match self.kind {
            // What it sent on lies unread at the server, so that the end is a reset.
            Kind::Reader => self.stream.take_error().expect("it can be asked").is_some(),
            _ => self.receive(),
        };
        if is_over {
            self.lasted = Some(self.begun.elapsed());
        } else if goes_on && self.received.is_empty() {
            // Where it is gone by now the next look sees it.
            let _ = self.stream.write(b"x");
        }
    }

    /// Whether there is an end.
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

    /// Whether it was told that it was too slow, where it can be.
    fn was_told(&self) -> bool {
        let statuses = strict::read(&self.received)
            .map(|read| read.answers.iter().map(|answer| (answer.status, answer.closes)).collect::<Vec<_>>());
        self.kind == Kind::Reader || statuses == Ok(vec![(408, true)])
    }
}

/// The time of each good request.
#[derive(Default)]
struct Good {
    asked: AtomicUsize,
    times: Mutex<Vec<Duration>>,
}

impl Good {
    fn ask(&self, client: &mut Client, server: &Server) {
        const TARGET: &str = "/v1/resolve?site=acme&route=/&anonId=v1";
        let begun = Instant::now();
        let response = match self.asked.fetch_add(1, Ordering::Relaxed) % FRESH_EVERY {
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

/// What was seen of a storm.
struct Seen {
    slow: Vec<Slow>,
    /// The most memory that the server took, in KiB.
    height: u64,
    /// The longest time between two looks: so much later than it came an end may be seen.
    grain: Duration,
}

/// All slow clients from their beginning until the last of them is cut off.
fn storm(plan: &Plan, server: &Server) -> Seen {
    let slow = plan.kinds().map(|kind| Slow::begin(kind, server.edge)).collect();
    let mut seen = Seen { slow, height: 0, grain: Duration::ZERO };
    let begun = Instant::now();
    for at in 0.. {
        let looked = Instant::now();
        let open = seen.slow.iter_mut().filter(|slow| slow.lasted.is_none());
        if open.map(|slow| slow.look(at % LOOKS_A_BYTE == 0)).count() == 0 {
            break;
        }
        assert!(begun.elapsed() < plan.to[1] + PATIENCE, "some are never cut off");
        seen.height = seen.height.max(server.resident_kib());
        thread::park_timeout(plan.look);
        seen.grain = seen.grain.max(looked.elapsed());
    }
    seen
}

/// So many descriptors for this process, and for the servers that it starts.
fn raise_descriptors(count: usize) {
    let (process, limit) = (std::process::id().to_string(), format!("--nofile={count}:"));
    let raised = Command::new("prlimit").args(["--pid", &process, &limit]).status();
    assert!(raised.expect("prlimit is there").success(), "{count} descriptors are allowed");
}

#[test]
fn slow_clients_are_cut_off_and_nobody_else_notices() {
    let plan = Plan::of_this_run();
    if times(0, 1) == 1 {
        raise_descriptors(plan.descriptors());
    }
    let server = server(plan.flags);
    let (quiet, stormy) = (Good::default(), Good::default());
    let wait = || thread::park_timeout(plan.quiet);
    under_load(server.edge, GOOD_CLIENTS, |client| quiet.ask(client, &server), wait);
    let (descriptors, before) = (server.descriptors(), server.resident_kib());
    let load = |client: &mut Client| stormy.ask(client, &server);
    let (Seen { slow, height, grain }, asked) =
        under_load(server.edge, GOOD_CLIENTS, load, || storm(&plan, &server));

    for (at, is) in [|kind| kind != Kind::Reader, |kind| kind == Kind::Reader].into_iter().enumerate() {
        let times = slow.iter().filter(|slow| is(slow.kind)).filter_map(|slow| slow.lasted);
        let (least, most) = (times.clone().min().expect("some"), times.max().expect("some"));
        eprintln!(
            "{}: cut off after {least:?} to {most:?}, seen {grain:?} later at most",
            ["heads and bodies", "readers"][at]
        );
        assert!(least >= plan.from[at] && most <= plan.to[at] + grain, "{least:?} {most:?}");
    }
    let untold = slow.iter().find(|slow| !slow.was_told());
    let shown = untold.map(|slow| (slow.kind, slow.received.escape_ascii().to_string()));
    assert_eq!(shown, None, "told 408 and no more");
    let (quiet, stormy) = (quiet.p99(), stormy.p99());
    eprintln!(
        "{asked} good requests, no error; p99 {quiet:?} without, {stormy:?} beside {} slow clients",
        slow.len()
    );
    eprintln!("p99 ratio {:.2}; memory {before} > {height} KiB", stormy.as_secs_f64() / quiet.as_secs_f64());
    assert!(height <= before + plan.cost_max_kib(), "{before} > {height} KiB");
    eventually("their descriptors are closed", || (server.descriptors() <= descriptors).then_some(()));
}
