//! One generator thread: its connections, until the window is over.
//!
//! Each iteration sends the due requests, enters the kernel once, and reads all completions. It reads the
//! clock after that call, and once more for each send.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::clock::{Clock, thread_cpu};
use super::connection::Connection;
use super::counter::{next_number, write_digits};
use super::judge::ResponseJudge;
use super::ring::{Event, EventKind, Ring};
use super::schedule::Schedule;
use super::tally::Tally;
use super::{Load, LoadError};
use crate::outcome::LATE_AFTER;

/// Time after which a missing response has failed: 2 s after it was due, or after the window.
const RESPONSE_TIMEOUT_NS: u64 = 2_000_000_000;
/// Failures that end the run. With so many its figures are worthless, and more would only open connections in
/// vain.
const FAILED_MAX: u64 = 1000;

pub struct Generator<'a> {
    load: &'a Load<'a>,
    clock: Clock,
    window: Range<u64>,
    ring: Ring,
    connections: Vec<Connection>,
    /// Open loop: connections without outstanding responses, longest idle first.
    idle: VecDeque<usize>,
    /// The schedule of an open loop.
    schedule: Option<Schedule>,
    judge: ResponseJudge<'a>,
    /// True if the thread polls instead of sleeping: to keep the schedule, or to keep its own wake-up out of
    /// the latency of a single connection.
    is_polling: bool,
    cpu_before: Option<Duration>,
    cpu_after: Option<Duration>,
}

impl<'a> Generator<'a> {
    /// Creates a generator. Must be called on the generator's thread, which owns the ring.
    pub fn new(
        load: &'a Load<'a>,
        clock: Clock,
        window: Range<u64>,
        connections: Vec<Connection>,
        schedule: Option<Schedule>,
    ) -> Result<Self, LoadError> {
        let ring = Ring::new(connections.len()).map_err(LoadError::Ring)?;
        let judge = ResponseJudge::new(load, window.clone());
        let is_polling = schedule.is_some() || load.connections == 1;
        let (idle, cpu_before, cpu_after) = (VecDeque::new(), None, None);
        Ok(Self {
            load,
            clock,
            window,
            ring,
            connections,
            idle,
            schedule,
            judge,
            is_polling,
            cpu_before,
            cpu_after,
        })
    }

    /// Runs until the window is over. An open loop also waits for the responses to all requests due in the
    /// window.
    pub fn run(mut self) -> Result<Tally, LoadError> {
        for slot in 0..self.connections.len() {
            self.start_connection(slot)?;
        }
        let mut now = self.clock.now();
        while !self.is_over(now) {
            self.send_due(now)?;
            if self.is_polling { self.ring.poll() } else { self.ring.wait() }.map_err(LoadError::Ring)?;
            now = self.clock.now();
            while let Some(event) = self.ring.next() {
                self.handle_event(event, now)?;
            }
            self.read_cpu(now);
        }
        self.fail_outstanding(now);
        let mut tally = self.judge.tally;
        tally.cpu = self.cpu_after.unwrap_or_default().saturating_sub(self.cpu_before.unwrap_or_default());
        Ok(tally)
    }

    fn is_over(&self, now: u64) -> bool {
        let is_complete = || self.connections.iter().all(|connection| connection.awaited == 0);
        let is_sent = || self.schedule.as_ref().is_none_or(|schedule| schedule.next_due(u64::MAX).is_none());
        self.judge.tally.failed >= FAILED_MAX
            || now >= self.window.end
                && (self.schedule.is_none()
                    || now >= self.window.end + RESPONSE_TIMEOUT_NS
                    || is_sent() && is_complete())
    }

    /// Records the thread's CPU time at both ends of the window.
    fn read_cpu(&mut self, now: u64) {
        if self.cpu_before.is_none() && now >= self.window.start {
            self.cpu_before = Some(thread_cpu());
        }
        if self.cpu_after.is_none() && now >= self.window.end {
            self.cpu_after = Some(thread_cpu());
        }
    }

    /// Counts requests that have no response at the end as failed.
    fn fail_outstanding(&mut self, now: u64) {
        for connection in &self.connections {
            if connection.awaited > 0
                && (self.schedule.is_some() || now >= connection.latency_start_ns + RESPONSE_TIMEOUT_NS)
            {
                let waiting_time = Duration::from_nanos(now - connection.latency_start_ns);
                let reason = || format!("no response within {waiting_time:?}");
                self.judge.tally.fail(connection.awaited as u64, reason);
            }
        }
        while let Some(due) = self.schedule.as_ref().and_then(|schedule| schedule.next_due(now)) {
            self.count_due(due, false);
            let reason = || "no connection was free to send the request".to_owned();
            self.judge.tally.fail(self.load.depth as u64, reason);
        }
    }

    fn handle_event(&mut self, event: Event, now: u64) -> Result<(), LoadError> {
        let Event { slot, kind: reason } = event;
        match reason {
            EventKind::Received(chunk) => {
                let connection = &mut self.connections[slot];
                let read = if connection.is_closing {
                    Ok(())
                } else {
                    let templates = self.load.templates.len();
                    connection.read(self.ring.received(chunk), now, templates, &mut self.judge)
                };
                self.ring.release(chunk);
                if !chunk.is_continued {
                    self.receive(slot)?;
                }
                match read {
                    Err(reason) => self.end_connection(slot, &reason, now),
                    Ok(()) if self.connections[slot].is_last => {
                        self.end_connection(slot, "the server closed the connection", now)
                    }
                    Ok(()) => self.send_next(slot, now),
                }
            }
            EventKind::Paused => self.receive(slot),
            EventKind::Ended(error) => {
                self.connections[slot].is_receiving = false;
                let error = std::io::Error::from_raw_os_error(-error);
                let reason = if error.raw_os_error() == Some(0) {
                    "the server closed the connection".to_owned()
                } else {
                    error.to_string()
                };
                self.end_connection(slot, &reason, now)
            }
            EventKind::Sent(bytes) => self.on_sent(slot, bytes, now),
        }
    }

    fn on_sent(&mut self, slot: usize, bytes: i32, now: u64) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        if bytes < 0 || connection.is_closing {
            let reason = std::io::Error::from_raw_os_error(-bytes.min(0)).to_string();
            return self.end_connection(slot, &reason, now);
        }
        connection.sent_bytes += bytes as usize;
        if connection.sent_bytes < self.ring.send_buffer_bytes(slot) {
            return self.ring.send(slot, connection.socket(), connection.sent_bytes).map_err(LoadError::Ring);
        }
        self.send_next(slot, now)
    }

    /// Sends the next requests of a connection if nothing is outstanding. In an open loop, marks it as idle.
    fn send_next(&mut self, slot: usize, now: u64) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        if connection.is_closing || connection.awaited > 0 || self.ring.is_sending(slot) {
            return Ok(());
        }
        if self.schedule.is_none() {
            return self.send(slot, None);
        }
        // Both the last response and the completion of its send lead here.
        if connection.idle_since_ns == 0 {
            connection.idle_since_ns = now;
            self.idle.push_back(slot);
        }
        Ok(())
    }

    /// Open loop: sends the due requests, as long as there are idle connections.
    fn send_due(&mut self, now: u64) -> Result<(), LoadError> {
        while let Some(due) = self.schedule.as_ref().and_then(|schedule| schedule.next_due(now)) {
            let Some(slot) = self.idle.pop_front() else { return Ok(()) };
            // A request is late only by the delay of this thread. Waiting for a busy connection is the
            // server's latency.
            let earliest_ns = due.max(std::mem::take(&mut self.connections[slot].idle_since_ns));
            self.send(slot, Some(due))?;
            let is_late = self.clock.now() > earliest_ns + LATE_AFTER.as_nanos() as u64;
            self.count_due(due, is_late);
        }
        Ok(())
    }

    fn count_due(&mut self, due: u64, is_late: bool) {
        self.schedule.iter_mut().for_each(Schedule::advance);
        self.judge.on_due(due, self.load.depth as u64, is_late);
    }

    /// Sends the next requests of a connection, all at once.
    fn send(&mut self, slot: usize, due: Option<u64>) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        let (templates, out) = (self.load.templates, self.ring.send_buffer(slot));
        for number in 0..self.load.depth {
            let template = &templates[(connection.template + number) % templates.len()];
            let at = out.len();
            out.extend_from_slice(&template.bytes);
            if !template.counters.is_empty() {
                let number = next_number();
                for range in &template.counters {
                    write_digits(number, &mut out[at + range.start..at + range.end]);
                }
            }
        }
        (connection.awaited, connection.sent_bytes) = (self.load.depth, 0);
        connection.latency_start_ns = due.unwrap_or_else(|| self.clock.now());
        self.ring.send(slot, connection.socket(), 0).map_err(LoadError::Ring)
    }

    fn receive(&mut self, slot: usize) -> Result<(), LoadError> {
        self.ring.receive(slot, self.connections[slot].socket()).map_err(LoadError::Ring)
    }

    /// Starts to use a connection that has just been opened.
    fn start_connection(&mut self, slot: usize) -> Result<(), LoadError> {
        self.connections[slot].is_receiving = true;
        self.receive(slot)?;
        self.send_next(slot, self.clock.now())
    }

    /// Gives up a connection: its outstanding requests have failed. When the ring has finished with it, opens
    /// another in its place.
    fn end_connection(&mut self, slot: usize, reason: &str, now: u64) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        if !connection.is_closing {
            let awaited = std::mem::take(&mut connection.awaited) as u64;
            self.judge.tally.fail(awaited, || format!("{reason}; outstanding responses: {awaited}"));
            connection.close();
            self.idle.retain(|idle| *idle != slot);
        }
        if connection.is_receiving || self.ring.is_sending(slot) || now >= self.window.end {
            return Ok(());
        }
        let template = connection.template;
        *connection = Connection::open(self.load.address, template)
            .map_err(|source| LoadError::Connect { address: self.load.address, source })?;
        self.start_connection(slot)
    }
}
