//! The load generator: sends requests at a pace and measures a window of them.
//!
//! Closed loop: every connection sends its next requests as soon as it has all responses to the last ones. It
//! shows the server's CPU cost at full load. Open loop: requests are due at fixed intervals, independent of
//! the server, and latency counts from the due time. So a stalled server is charged for all requests that
//! were due during the stall.

mod check;
mod clock;
mod connection;
pub mod counter;
mod framing;
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

/// A load on a server.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    pub address: SocketAddr,
    /// Number of connections, split evenly between the threads.
    pub connections: usize,
    /// Requests per send. All their responses are awaited before the next send.
    pub depth: usize,
    pub pace: Pace,
    /// Length of the load before the window, not measured.
    pub warm_up: Duration,
    pub window: Duration,
    /// Interval of complete checks: of the responses to each template, the first and then every n-th is
    /// checked.
    pub check_every: u32,
    /// CPUs. One thread is pinned to each.
    pub processors: &'a [usize],
    pub templates: &'a [Template],
}

/// The times at which requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As soon as the responses to the last requests are complete.
    Closed,
    /// At a fixed rate over all connections.
    Open { per_second: f64 },
}

impl Pace {
    fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

impl Load<'_> {
    /// Returns the request line of a template.
    fn request_line(&self, template: usize) -> String {
        let bytes = &self.templates[template].bytes;
        let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
        bytes[..end].escape_ascii().to_string()
    }

    fn validate(&self) -> Result<(), LoadError> {
        let has_room =
            |template: &Template| template.counters.iter().all(|range| range.end <= template.bytes.len());
        let wrong = if self.templates.is_empty() || !self.templates.iter().all(has_room) {
            "no requests, or a request without room for its counter"
        } else if self.depth == 0 || self.check_every == 0 {
            "depth or check interval is 0"
        } else if self.processors.is_empty() || self.connections < self.processors.len() {
            "no CPU, or fewer connections than CPUs"
        } else if matches!(self.pace, Pace::Open { per_second } if per_second.is_nan() || per_second <= 0.0) {
            "the rate must be above 0"
        } else {
            return Ok(());
        };
        Err(LoadError::Invalid(wrong))
    }
}

#[derive(Debug, Error)]
pub enum LoadError {
    #[error("invalid load: {0}")]
    Invalid(&'static str),
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("io_uring of the load generator failed: {0}")]
    Ring(#[source] io::Error),
    #[error("cannot pin the load generator to CPU {processor}: {source}")]
    Pin { processor: usize, source: rustix::io::Errno },
}

/// Runs a load and measures its window. `server_cpu` returns the server's CPU time so far. It is called at
/// both ends of the window.
pub fn run(load: &Load<'_>, server_cpu: &dyn Fn() -> Duration) -> Result<Outcome, LoadError> {
    load.validate()?;
    let mut shares = open_connections(load)?;
    let clock = Clock::new();
    let begin = clock.now() + load.warm_up.as_nanos() as u64;
    let window = begin..begin + load.window.as_nanos() as u64;
    let (tallies, used_cpu) = std::thread::scope(|scope| {
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
        let used_cpu = server_cpu().saturating_sub(before);
        let tallies: Result<Vec<Tally>, LoadError> =
            threads.into_iter().map(|thread| thread.join().expect("a generator does not panic")).collect();
        tallies.map(|tallies| (tallies, used_cpu))
    })?;
    Ok(Tally::outcome(tallies, load.window, used_cpu))
}

/// Opens all connections, grouped by thread. Their first templates are spread over the cycle.
fn open_connections(load: &Load<'_>) -> Result<Vec<Vec<Connection>>, LoadError> {
    let threads = load.processors.len();
    let mut shares: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..load.connections {
        let connection = Connection::open(load.address, number * load.templates.len() / load.connections);
        let connection = connection.map_err(|source| LoadError::Connect { address: load.address, source })?;
        shares[number % threads].push(connection);
    }
    Ok(shares)
}

/// Returns the sends of an open loop that thread `number` makes: every n-th.
fn schedule(load: &Load<'_>, number: usize, now: u64, end: u64) -> Option<Schedule> {
    let Pace::Open { per_second } = load.pace else { return None };
    let sends = per_second / load.depth as f64;
    let start = now + (number as f64 * 1e9 / sends) as u64;
    Some(Schedule::new(start, end, sends / load.processors.len() as f64))
}

/// Pins the calling thread to a CPU.
fn pin(processor: usize) -> Result<(), LoadError> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(|source| LoadError::Pin { processor, source })
}

#[cfg(test)]
mod tests;
