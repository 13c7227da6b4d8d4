//! Randomly mutated requests to a server with the demo (R2). The responses match the pure framing function,
//! there are never more responses than requests (R1), and the server keeps running.
//!
//! The mutants of a connection depend only on its seed: the seed of the run plus the connection's number.
//! `PARALLAX_SEED` sets the seed of a run, or repeats one connection by its seed.

mod corpus;
pub mod mutations;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use corpus::corpus;
use mutations::mutant;

use crate::dice::Dice;
use crate::fuzz::body::feed;
use crate::harness::{PATIENCE, Server, eventually, times};
use crate::strict;

const SEED: u64 = 20_260_105;
const CLIENTS: usize = 4;
/// Mutants on one connection, if none ends it earlier.
const MUTANTS_MAX: usize = 32;
/// Allowed memory growth of the server after the warm-up, in KiB. It covers caches of the allocator. In the
/// long form a leak of 1 KiB per thousand requests exceeds it.
const SLACK_KIB: u64 = 8 * 1024;

/// The bytes of a connection and the expected number of responses.
struct RequestStream {
    bytes: Vec<u8>,
    mutants: usize,
    answers: usize,
    /// True if the server closes the connection, and its last response says so.
    closed: bool,
}

impl RequestStream {
    /// Adds mutants until one ends the connection or is incomplete.
    fn generate(dice: &mut Dice, corpus: &[Vec<u8>]) -> Self {
        let mut stream = Self { bytes: Vec::new(), mutants: 0, answers: 0, closed: false };
        while stream.mutants < MUTANTS_MAX && !stream.closed {
            let mutant = mutant(corpus, dice);
            let outcome = feed([&mutant[..]]);
            stream.bytes.extend(mutant);
            stream.mutants += 1;
            stream.answers += outcome.answered.len() + usize::from(outcome.refused.is_some());
            stream.closed = outcome.refused.is_some() || outcome.closed;
            if outcome.unfinished {
                break;
            }
        }
        stream
    }

    /// Returns an upper bound for the responses. Each head ends with an empty line, and one refusal may
    /// follow.
    fn answers_max(&self) -> usize {
        let mut rest = &self.bytes[..];
        let mut ends = 0;
        while let Some(at) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
            (rest, ends) = (&rest[at + 4..], ends + 1);
        }
        ends + 1
    }

    fn heads_max(&self) -> usize {
        self.bytes.windows(4).filter(|four| four == b"HEAD").count()
    }

    /// Returns a description of the first difference between the received and the expected responses.
    fn fault(&self, received: &[u8]) -> Option<String> {
        let read = match strict::parse(received) {
            Ok(read) => read,
            Err(fault) => return Some(fault),
        };
        let statuses: Vec<u16> = read.responses.iter().map(|answer| answer.status).collect();
        let closes = read.responses.last().is_some_and(|answer| answer.closes);
        let heads = read.responses.iter().filter(|answer| answer.head_only).count();
        let is_expected = statuses.len() == self.answers
            && statuses.len() <= self.answers_max()
            && read.interim <= self.answers_max()
            && heads <= self.heads_max()
            && closes == self.closed
            && !statuses.contains(&500);
        let expected = (self.answers, self.closed);
        (!is_expected)
            .then(|| format!("{statuses:?}, heads {heads}, closes {closes}; expected: {expected:?}"))
    }
}

/// Sends the bytes in one or two pieces and closes the sending side. Returns all received bytes.
fn exchange(server: &Server, bytes: &[u8], dice: &mut Dice) -> Result<Vec<u8>, String> {
    let address = if dice.below(8) == 0 { server.admin } else { server.edge };
    let mut stream = TcpStream::connect(address).map_err(|error| format!("not connected: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is set");
    stream.set_write_timeout(Some(PATIENCE)).expect("the timeout is set");
    stream.set_nodelay(true).expect("the socket option is set");
    let split = if dice.below(4) == 0 { dice.below(bytes.len()) } else { 0 };
    let (first, second) = bytes.split_at(split);
    // Writing fails if the server has closed. The responses that it sent before can still be read.
    let written = stream.write_all(first).and_then(|()| stream.write_all(second));
    let written = written.and_then(|()| stream.shutdown(Shutdown::Write));
    let mut received = Vec::new();
    match (written, stream.read_to_end(&mut received)) {
        (_, Err(error)) if error.kind() == ErrorKind::WouldBlock => {
            Err("the server does not respond".to_owned())
        }
        (Err(error), _) if error.kind() == ErrorKind::WouldBlock => {
            Err("the server does not read".to_owned())
        }
        _ => Ok(received),
    }
}

/// Runs connections with `mutants` mutants in total, beginning with `seed`. Returns the next seed.
fn run(server: &Server, corpus: &[Vec<u8>], seed: u64, mutants: usize) -> u64 {
    let (next, done) = (AtomicU64::new(seed), AtomicUsize::new(0));
    let client = || {
        while done.load(Ordering::Relaxed) < mutants {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let mut dice = Dice(seed);
            let stream = RequestStream::generate(&mut dice, corpus);
            let received = exchange(server, &stream.bytes, &mut dice);
            let fault = received.map_or_else(Some, |received| stream.fault(&received));
            let fail = |fault| {
                panic!("PARALLAX_SEED={seed}: {fault}\n{}\n{}", stream.bytes.escape_ascii(), server.log())
            };
            fault.map(fail);
            done.fetch_add(stream.mutants, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().for_each(|client| client.join().expect("all responses are as expected"));
    });
    next.into_inner()
}

#[test]
fn mutated_requests_are_answered_or_refused_without_leaks() {
    let seed = std::env::var("PARALLAX_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    let mutants = times(100_000, 10_000_000);
    let corpus = corpus();
    let mut server = Server::demo();
    let warm = mutants.min(1_000_000) / 5;
    let seed = run(&server, &corpus, seed, warm);
    let rest = |server: &Server| (server.descriptors(), server.resident_kib());
    let before = rest(&server);
    let seed_after_warm_up = seed;
    let seed = run(&server, &corpus, seed, mutants - warm);
    eventually("its descriptors are closed", || (server.descriptors() <= before.0).then_some(()));
    let after = rest(&server);
    eprintln!(
        "{mutants} mutants, {} connections after the warm-up; descriptors {} > {}, memory {} > {} KiB",
        seed - seed_after_warm_up,
        before.0,
        after.0,
        before.1,
        after.1
    );
    assert!(after.1 <= before.1 + SLACK_KIB, "{before:?} > {after:?}");
    assert_eq!(server.get("/v1/routes?site=fjell").status, 200);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    assert!(!server.log().contains("panic"), "{}", server.log());
}

#[test]
fn the_corpus_requests_are_valid() {
    for request in corpus() {
        let outcome = feed([&request[..]]);
        assert!(outcome.refused.is_none() && !outcome.unfinished, "{outcome:?} {}", request.escape_ascii());
    }
}
