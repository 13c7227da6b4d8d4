//! Requests with mistakes made by chance, sent to a served demo (R2): it answers as the pure function of the bytes says, never
//! more than was asked (R1), and goes on.
//!
//! A connection's mutants follow from a seed, the run's and the connection's number together; `PARALLAX_SEED` is another run's
//! seed, or that of one connection to see again.

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
/// On one connection, where no mistake ends it before.
const MUTANTS_MAX: usize = 32;
/// What a process may grow by after it was warm: the allocator's own pieces, not a kilobyte a thousand requests.
const SLACK_KIB: u64 = 8 * 1024;

/// What a connection sends, and how many answers that has.
struct Sent {
    bytes: Vec<u8>,
    mutants: usize,
    answers: usize,
    /// Whether the server ends it, and says so.
    closed: bool,
}

impl Sent {
    /// Mutants until one ends the connection, or is not whole.
    fn by(dice: &mut Dice, corpus: &[Vec<u8>]) -> Self {
        let mut sent = Self { bytes: Vec::new(), mutants: 0, answers: 0, closed: false };
        while sent.mutants < MUTANTS_MAX && !sent.closed {
            let mutant = mutant(corpus, dice);
            let outcome = feed([&mutant[..]]);
            sent.bytes.extend(mutant);
            sent.mutants += 1;
            sent.answers += outcome.answered.len() + usize::from(outcome.refused.is_some());
            sent.closed = outcome.refused.is_some() || outcome.closed;
            if outcome.unfinished {
                break;
            }
        }
        sent
    }

    /// More than this nobody could have asked for: each head ends with an empty line, and a refusal may follow the last.
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

    /// Why what came back is not what is due.
    fn fault(&self, received: &[u8]) -> Option<String> {
        let read = match strict::read(received) {
            Ok(read) => read,
            Err(fault) => return Some(fault),
        };
        let statuses: Vec<u16> = read.answers.iter().map(|answer| answer.status).collect();
        let closes = read.answers.last().is_some_and(|answer| answer.closes);
        let heads = read.answers.iter().filter(|answer| answer.head_only).count();
        let is_due = statuses.len() == self.answers
            && statuses.len() <= self.answers_max()
            && read.interim <= self.answers_max()
            && heads <= self.heads_max()
            && closes == self.closed
            && !statuses.contains(&500);
        let due = (self.answers, self.closed);
        (!is_due).then(|| format!("{statuses:?}, heads {heads}, closes {closes}; due: {due:?}"))
    }
}

/// Sends all, in one piece or two, and says that nothing follows; then everything that comes back, to the end.
fn exchange(server: &Server, bytes: &[u8], dice: &mut Dice) -> Result<Vec<u8>, String> {
    let address = if dice.below(8) == 0 { server.admin } else { server.edge };
    let mut stream = TcpStream::connect(address).map_err(|error| format!("not connected: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out is set");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out is set");
    stream.set_nodelay(true).expect("a socket option is set");
    let split = if dice.below(4) == 0 { dice.below(bytes.len()) } else { 0 };
    let (first, second) = bytes.split_at(split);
    // A server that has closed is not to be written to; what it said before is there.
    let written = stream.write_all(first).and_then(|()| stream.write_all(second));
    let written = written.and_then(|()| stream.shutdown(Shutdown::Write));
    let mut received = Vec::new();
    match (written, stream.read_to_end(&mut received)) {
        (_, Err(error)) if error.kind() == ErrorKind::WouldBlock => Err("it hangs".to_owned()),
        (Err(error), _) if error.kind() == ErrorKind::WouldBlock => Err("it takes nothing".to_owned()),
        _ => Ok(received),
    }
}

/// Connections with `mutants` in all, from the seed on; the seed of the next.
fn run(server: &Server, corpus: &[Vec<u8>], seed: u64, mutants: usize) -> u64 {
    let (next, done) = (AtomicU64::new(seed), AtomicUsize::new(0));
    let client = || {
        while done.load(Ordering::Relaxed) < mutants {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let mut dice = Dice(seed);
            let sent = Sent::by(&mut dice, corpus);
            let received = exchange(server, &sent.bytes, &mut dice);
            let fault = received.map_or_else(Some, |received| sent.fault(&received));
            let say = |fault| {
                panic!("PARALLAX_SEED={seed}: {fault}\n{}\n{}", sent.bytes.escape_ascii(), server.log())
            };
            fault.map(say);
            done.fetch_add(sent.mutants, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().for_each(|client| client.join().expect("all is as due"));
    });
    next.into_inner()
}

#[test]
fn mutated_requests_are_answered_or_refused_and_nothing_is_left_of_them() {
    let seed = std::env::var("PARALLAX_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    let mutants = times(100_000, 10_000_000);
    let corpus = corpus();
    let mut server = Server::demo();
    let warm = mutants.min(1_000_000) / 5;
    let seed = run(&server, &corpus, seed, warm);
    let rest = |server: &Server| (server.descriptors(), server.resident_kib());
    let before = rest(&server);
    let begun = seed;
    let seed = run(&server, &corpus, seed, mutants - warm);
    eventually("its descriptors are closed", || (server.descriptors() <= before.0).then_some(()));
    let after = rest(&server);
    eprintln!(
        "{mutants} mutants, {} connections after the warm-up; descriptors {} > {}, memory {} > {} KiB",
        seed - begun,
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
fn the_corpus_is_all_right() {
    for request in corpus() {
        let outcome = feed([&request[..]]);
        assert!(outcome.refused.is_none() && !outcome.unfinished, "{outcome:?} {}", request.escape_ascii());
    }
}
