//! Clients that send requests while servers are restarted, and count everything that goes wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::PAGE;
use crate::dice::Dice;
use crate::harness::{PATIENCE, post};

/// Failures that are kept. One is enough to fail the test.
const FAILURES_MAX: usize = 10;

/// A kind of client.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// The name, for message IDs and failures.
    name: &'static str,
    /// True if the client keeps its connection until the server closes it.
    keeps_alive: bool,
    /// True if it sends events, false if it asks for pages.
    sends_events: bool,
    /// Pause between two requests, at most.
    pause_max: Duration,
}

const fn kind(name: &'static str, keeps_alive: bool, sends_events: bool, pause_max_ms: u64) -> Kind {
    Kind { name, keeps_alive, sends_events, pause_max: Duration::from_millis(pause_max_ms) }
}

/// The clients. Those with long pauses have idle connections when a server stops.
const CLIENTS: [Kind; 10] = [
    kind("new-page-1", false, false, 2),
    kind("new-page-2", false, false, 2),
    kind("new-event", false, true, 2),
    kind("kept-page-1", true, false, 2),
    kind("kept-page-2", true, false, 40),
    kind("kept-event-1", true, true, 2),
    kind("kept-event-2", true, true, 40),
    kind("slow-page-1", true, false, 600),
    kind("slow-page-2", true, false, 600),
    kind("slow-event", true, true, 600),
];

/// Clients under restarts, with their results.
#[derive(Default)]
pub(super) struct Load {
    is_over: AtomicBool,
    ended: AtomicUsize,
    answered: AtomicUsize,
    connections: AtomicUsize,
    slowest: Mutex<Duration>,
    failures: Mutex<Vec<String>>,
    acknowledged: Mutex<Vec<String>>,
}

/// A guard that ends the load, even if the test panics.
pub(super) struct EndOnDrop<'l>(&'l Load);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answered = self.answered();
        let connections = self.connections.load(Ordering::Relaxed);
        let events = self.acknowledged.lock().expect("no panic").len();
        let slowest = *self.slowest.lock().expect("no panic");
        write!(
            f,
            "{answered} responses on {connections} connections, {events} events, the slowest response took {slowest:?}"
        )
    }
}

impl Load {
    /// Starts all clients: those of `CLIENTS` on the public address, and one on the admin address.
    pub(super) fn start<'s, 'e>(
        &'s self,
        scope: &'s Scope<'s, 'e>,
        public: SocketAddr,
        admin: SocketAddr,
    ) -> EndOnDrop<'s> {
        for (number, kind) in CLIENTS.into_iter().enumerate() {
            scope.spawn(move || self.run(kind, number as u64, public));
        }
        scope.spawn(move || self.run(kind("admin", true, false, 40), CLIENTS.len() as u64, admin));
        EndOnDrop(self)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == CLIENTS.len() + 1
    }

    pub(super) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("no panic").clone()
    }

    /// Asserts that the log has each acknowledged event once, and no other event.
    pub(super) fn assert_all_recorded_once(&self, recorded: &[String]) {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let acknowledged = self.acknowledged.lock().expect("no panic");
        assert!(acknowledged.len() > 50, "only {} events were sent", acknowledged.len());
        acknowledged.iter().for_each(|id| counts.entry(id).or_default().0 += 1);
        recorded.iter().for_each(|id| counts.entry(id).or_default().1 += 1);
        counts.retain(|_, count| *count != (1, 1));
        assert!(counts.is_empty(), "(acknowledged, recorded) is not (1, 1): {counts:?}");
    }

    /// Sends requests until the end. After a failure the client goes on, so that one failure is one line.
    fn run(&self, kind: Kind, seed: u64, address: SocketAddr) {
        let mut dice = Dice(seed);
        let mut kept: Option<TcpStream> = None;
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("{}-{number}", kind.name);
            let begun = Instant::now();
            match self.send_one(kind, &id, kept.take(), address) {
                Ok(stream) => kept = stream.filter(|_| kind.keeps_alive),
                Err(failure) => {
                    let mut failures = self.failures.lock().expect("no panic");
                    if failures.len() < FAILURES_MAX {
                        failures.push(format!("{id} after {:?}: {failure}", begun.elapsed()));
                    }
                }
            }
            let mut slowest = self.slowest.lock().expect("no panic");
            *slowest = slowest.max(begun.elapsed());
            drop(slowest);
            let pause_us = dice.below(kind.pause_max.as_micros() as usize + 1);
            thread::sleep(Duration::from_micros(pause_us as u64));
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends one request and reads its response. Returns the connection if the server keeps it open.
    ///
    /// Like a proxy, the client looks whether the server has closed a kept connection before it uses it.
    fn send_one(
        &self,
        kind: Kind,
        id: &str,
        kept: Option<TcpStream>,
        address: SocketAddr,
    ) -> Result<Option<TcpStream>, String> {
        let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        let kept = kept.filter(is_open);
        let mut stream = match kept {
            Some(stream) => stream,
            None => {
                self.connections.fetch_add(1, Ordering::Relaxed);
                TcpStream::connect(address).map_err(failed("connect"))?
            }
        };
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed("set a timeout"))?;
        let request = match kind {
            Kind { sends_events: true, .. } => {
                let body =
                    format!(r#"{{"trackingId":"track_demo","anonId":"v","event":"e","messageId":"{id}"}}"#);
                post("/v1/track", &[], body.as_bytes())
            }
            Kind { name: "admin", .. } => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            _ => format!("GET {PAGE} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        };
        stream.write_all(&request).map_err(failed("send"))?;
        let response = read_response(&mut stream)?;
        let head = response.split("\r\n\r\n").next().unwrap_or_default();
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(response);
        }
        if kind.sends_events {
            if !response.contains("\"accepted\":1,\"duplicates\":0,") {
                return Err(response);
            }
            self.acknowledged.lock().expect("no panic").push(id.to_owned());
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok((!head.contains("\r\nConnection: close")).then_some(stream))
    }
}

/// Returns whether the server has not closed the connection.
fn is_open(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let is_open = matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock);
    is_open && stream.set_nonblocking(false).is_ok()
}

/// Reads a whole response.
fn read_response(stream: &mut TcpStream) -> Result<String, String> {
    let (mut received, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => {
                return Err(format!("the connection ended after {} bytes of a response", received.len()));
            }
            Ok(bytes) => received.extend_from_slice(&chunk[..bytes]),
            Err(error) => return Err(format!("{error} after {} bytes of a response", received.len())),
        }
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let length: usize = length.and_then(|length| length.parse().ok()).ok_or("no length")?;
        if body.len() >= length {
            return Ok(text.into_owned());
        }
    }
}
