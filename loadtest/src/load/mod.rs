//! Puts a load on a server and measures it: in go the requests and their pace, out comes what a window of it came to.
//!
//! Closed loop: every connection sends its next requests as soon as it has all answers to the last; for what the server takes when
//! it is busy. Open loop: requests are due at uniform intervals whatever the server does, and latency counts from then, so that a
//! server that stands still is charged for all who would have come meanwhile.

mod answer;
mod check;
mod clock;
mod connection;
pub mod counter;
mod generator;
mod judge;
mod ring;
mod schedule;
mod tally;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use thiserror::Error;

use crate::outcome::Outcome;
use crate::request::Template;
use clock::Clock;
use connection::Connection;
use generator::Generator;
use schedule::Schedule;
use tally::Tally;

/// What is put on a server.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    pub address: SocketAddr,
    /// Split evenly between the threads.
    pub connections: usize,
    /// Requests in one send, whose answers are all awaited before the next.
    pub depth: usize,
    pub pace: Pace,
    /// Of the load before the window, not counted.
    pub warm: Duration,
    pub window: Duration,
    /// Of the answers to each template the first and then every n-th is looked at whole.
    pub check_every: u32,
    /// One thread is pinned to each.
    pub processors: &'a [usize],
    pub templates: &'a [Template],
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As soon as the answers to the last have come.
    Closed,
    /// So many a second, on all connections together.
    Open { per_second: f64 },
}

impl Pace {
    fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

impl Load<'_> {
    /// The template's first line.
    fn named(&self, template: usize) -> String {
        let bytes = &self.templates[template].bytes;
        let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
        bytes[..end].escape_ascii().to_string()
    }

    fn check(&self) -> Result<(), LoadError> {
        let has_room =
            |template: &Template| template.counters.iter().all(|place| place.end <= template.bytes.len());
        let wrong = if self.templates.is_empty() || !self.templates.iter().all(has_room) {
            "has no requests, or one without room for its counter"
        } else if self.depth == 0 || self.check_every == 0 {
            "has a depth or a number of answers to check of 0"
        } else if self.processors.is_empty() || self.connections < self.processors.len() {
            "has no processor, or fewer connections than processors"
        } else if matches!(self.pace, Pace::Open { per_second } if per_second.is_nan() || per_second <= 0.0) {
            "has a rate of 0"
        } else {
            return Ok(());
        };
        Err(LoadError::Wrong(wrong))
    }
}

#[derive(Debug, Error)]
pub enum LoadError {
    #[error("the load {0}")]
    Wrong(&'static str),
    #[error("{address} takes no connection: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("the generator's io_uring: {0}")]
    Ring(#[source] io::Error),
    #[error("the generator cannot be pinned to processor {processor}: {source}")]
    Pin { processor: usize, source: rustix::io::Errno },
}

/// Loads, and measures the window. `server_cpu` is what the server has taken so far; it is asked at both ends of the window.
pub fn run(load: &Load<'_>, server_cpu: &dyn Fn() -> Duration) -> Result<Outcome, LoadError> {
    load.check()?;
    let mut shares = open(load)?;
    let clock = Clock::new();
    let begin = clock.now() + load.warm.as_nanos() as u64;
    let window = begin..begin + load.window.as_nanos() as u64;
    let (tallies, spent) = std::thread::scope(|scope| {
        let threads: Vec<_> = load
            .processors
            .iter()
            .enumerate()
            .map(|(number, &processor)| {
                let (connections, window) = (std::mem::take(&mut shares[number]), window.clone());
                let schedule = schedule(load, number, clock.now(), window.end);
                scope.spawn(move || {
                    pin(processor)?;
                    Generator::new(load, clock, window, connections, schedule)?.run()
                })
            })
            .collect();
        clock.sleep_until(window.start);
        let before = server_cpu();
        clock.sleep_until(window.end);
        let spent = server_cpu().saturating_sub(before);
        let tallies: Result<Vec<Tally>, LoadError> =
            threads.into_iter().map(|thread| thread.join().expect("a generator does not panic")).collect();
        tallies.map(|tallies| (tallies, spent))
    })?;
    Ok(Tally::outcome(tallies, load.window, spent))
}

/// All connections, by thread. They begin at different requests of the round, spread over it.
fn open(load: &Load<'_>) -> Result<Vec<Vec<Connection>>, LoadError> {
    let threads = load.processors.len();
    let mut shares: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..load.connections {
        let connection = Connection::open(load.address, number * load.templates.len() / load.connections);
        let connection = connection.map_err(|source| LoadError::Connect { address: load.address, source })?;
        shares[number % threads].push(connection);
    }
    Ok(shares)
}

/// The part of the open loop that thread `number` has: every n-th of its sends.
fn schedule(load: &Load<'_>, number: usize, now: u64, end: u64) -> Option<Schedule> {
    let Pace::Open { per_second } = load.pace else { return None };
    let sends = per_second / load.depth as f64;
    let start = now + (number as f64 * 1e9 / sends) as u64;
    Some(Schedule::new(start, end, sends / load.processors.len() as f64))
}

/// Pins the calling thread.
fn pin(processor: usize) -> Result<(), LoadError> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(|source| LoadError::Pin { processor, source })
}

#[cfg(test)]
mod tests;
