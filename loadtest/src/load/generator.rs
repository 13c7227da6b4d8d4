//! One thread of the load: its connections in turn, until the window is over.
//!
//! Every turn of the loop sends what is due, asks the kernel once, and reads all that came; the time is read after that call, and
//! once more for each send.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::clock::{Clock, thread_cpu};
use super::connection::Connection;
use super::counter::{next, write};
use super::judge::Judge;
use super::ring::{Event, Ring, What};
use super::schedule::Schedule;
use super::tally::Tally;
use super::{Load, LoadError};
use crate::outcome::LATE_AFTER;

/// What is not answered so long after it was due, or after the window, has failed.
const PATIENCE_NS: u64 = 2_000_000_000;
/// A run with so many failures is worth nothing; more would only be connections opened in vain.
const FAILED_MAX: u64 = 1000;

pub struct Generator<'a> {
    load: &'a Load<'a>,
    clock: Clock,
    window: Range<u64>,
    ring: Ring,
    connections: Vec<Connection>,
    /// In an open loop: those that await nothing, the one that has for longest in front.
    idle: VecDeque<usize>,
    /// In an open loop.
    schedule: Option<Schedule>,
    judge: Judge<'a>,
    /// Without sleeping: for the schedule's sake, or so that a lone connection's latency has no wake-up of this thread in it.
    is_polling: bool,
    cpu_before: Option<Duration>,
    cpu_behind: Option<Duration>,
}

impl<'a> Generator<'a> {
    /// To be called on its thread, to which the ring belongs.
    pub fn new(
        load: &'a Load<'a>,
        clock: Clock,
        window: Range<u64>,
        connections: Vec<Connection>,
        schedule: Option<Schedule>,
    ) -> Result<Self, LoadError> {
        let ring = Ring::new(connections.len()).map_err(LoadError::Ring)?;
        let judge = Judge::new(load, window.clone());
        let is_polling = schedule.is_some() || load.connections == 1;
        let (idle, cpu_before, cpu_behind) = (VecDeque::new(), None, None);
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
            cpu_behind,
        })
    }

    /// Until the window is over, and in an open loop all that was due in it is answered.
    pub fn run(mut self) -> Result<Tally, LoadError> {
        for slot in 0..self.connections.len() {
            self.begin(slot)?;
        }
        let mut now = self.clock.now();
        while !self.is_over(now) {
            self.send_due(now)?;
            if self.is_polling { self.ring.poll() } else { self.ring.wait() }.map_err(LoadError::Ring)?;
            now = self.clock.now();
            while let Some(event) = self.ring.next() {
                self.take(event, now)?;
            }
            self.read_cpu(now);
        }
        self.give_up(now);
        let mut tally = self.judge.tally;
        tally.cpu = self.cpu_behind.unwrap_or_default().saturating_sub(self.cpu_before.unwrap_or_default());
        Ok(tally)
    }

    fn is_over(&self, now: u64) -> bool {
        let is_answered = || self.connections.iter().all(|connection| connection.awaited == 0);
        let is_sent = || self.schedule.as_ref().is_none_or(|schedule| schedule.due(u64::MAX).is_none());
        self.judge.tally.failed >= FAILED_MAX
            || now >= self.window.end
                && (self.schedule.is_none()
                    || now >= self.window.end + PATIENCE_NS
                    || is_sent() && is_answered())
    }

    /// Both ends of the window.
    fn read_cpu(&mut self, now: u64) {
        if self.cpu_before.is_none() && now >= self.window.start {
            self.cpu_before = Some(thread_cpu());
        }
        if self.cpu_behind.is_none() && now >= self.window.end {
            self.cpu_behind = Some(thread_cpu());
        }
    }

    /// Counts what is not answered and will not be.
    fn give_up(&mut self, now: u64) {
        for connection in &self.connections {
            if connection.awaited > 0 && (self.schedule.is_some() || now >= connection.mark + PATIENCE_NS) {
                let waited = Duration::from_nanos(now - connection.mark);
                let what = || format!("no answer within {waited:?}");
                self.judge.tally.fail(connection.awaited as u64, what);
            }
        }
        while let Some(due) = self.schedule.as_ref().and_then(|schedule| schedule.due(now)) {
            self.take_due(due, false);
            let what = || "no connection was free to send it".to_owned();
            self.judge.tally.fail(self.load.depth as u64, what);
        }
    }

    fn take(&mut self, event: Event, now: u64) -> Result<(), LoadError> {
        let Event { slot, what } = event;
        match what {
            What::Received(chunk) => {
                let connection = &mut self.connections[slot];
                let read = if connection.is_closing {
                    Ok(())
                } else {
                    let templates = self.load.templates.len();
                    connection.read(self.ring.received(chunk), now, templates, &mut self.judge)
                };
                self.ring.give_back(chunk);
                if !chunk.goes_on {
                    self.receive(slot)?;
                }
                match read {
                    Err(what) => self.end(slot, &what, now),
                    Ok(()) if self.connections[slot].is_last => self.end(slot, "the server closed", now),
                    Ok(()) => self.go_on(slot, now),
                }
            }
            What::Paused => self.receive(slot),
            What::Ended(error) => {
                self.connections[slot].is_receiving = false;
                let error = std::io::Error::from_raw_os_error(-error);
                let what = if error.raw_os_error() == Some(0) {
                    "the server closed".to_owned()
                } else {
                    error.to_string()
                };
                self.end(slot, &what, now)
            }
            What::Sent(bytes) => self.sent(slot, bytes, now),
        }
    }

    fn sent(&mut self, slot: usize, bytes: i32, now: u64) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        if bytes < 0 || connection.is_closing {
            let what = std::io::Error::from_raw_os_error(-bytes.min(0)).to_string();
            return self.end(slot, &what, now);
        }
        connection.sent += bytes as usize;
        if connection.sent < self.ring.composed_bytes(slot) {
            return self.ring.send(slot, connection.socket(), connection.sent).map_err(LoadError::Ring);
        }
        self.go_on(slot, now)
    }

    /// Lets a connection have its next requests, if it awaits nothing.
    fn go_on(&mut self, slot: usize, now: u64) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        if connection.is_closing || connection.awaited > 0 || self.ring.is_sending(slot) {
            return Ok(());
        }
        if self.schedule.is_none() {
            return self.send(slot, None);
        }
        // Both the last answer and the end of sending it lead here.
        if connection.idle_since == 0 {
            connection.idle_since = now;
            self.idle.push_back(slot);
        }
        Ok(())
    }

    /// In an open loop: sends what is due, as far as there are connections for it.
    fn send_due(&mut self, now: u64) -> Result<(), LoadError> {
        while let Some(due) = self.schedule.as_ref().and_then(|schedule| schedule.due(now)) {
            let Some(slot) = self.idle.pop_front() else { return Ok(()) };
            // Late is what this thread left lying, not what waited for the server to answer another.
            let could_leave = due.max(std::mem::take(&mut self.connections[slot].idle_since));
            self.send(slot, Some(due))?;
            let is_late = self.clock.now() > could_leave + LATE_AFTER.as_nanos() as u64;
            self.take_due(due, is_late);
        }
        Ok(())
    }

    fn take_due(&mut self, due: u64, is_late: bool) {
        self.schedule.iter_mut().for_each(Schedule::take);
        self.judge.due(due, self.load.depth as u64, is_late);
    }

    /// Sends the next requests of a connection, all at once.
    fn send(&mut self, slot: usize, due: Option<u64>) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        let (templates, out) = (self.load.templates, self.ring.compose(slot));
        for number in 0..self.load.depth {
            let template = &templates[(connection.template + number) % templates.len()];
            let at = out.len();
            out.extend_from_slice(&template.bytes);
            if !template.counters.is_empty() {
                let number = next();
                for place in &template.counters {
                    write(number, &mut out[at + place.start..at + place.end]);
                }
            }
        }
        (connection.awaited, connection.sent) = (self.load.depth, 0);
        connection.mark = due.unwrap_or_else(|| self.clock.now());
        self.ring.send(slot, connection.socket(), 0).map_err(LoadError::Ring)
    }

    fn receive(&mut self, slot: usize) -> Result<(), LoadError> {
        self.ring.receive(slot, self.connections[slot].socket()).map_err(LoadError::Ring)
    }

    /// Begins with a connection that has just been opened.
    fn begin(&mut self, slot: usize) -> Result<(), LoadError> {
        self.connections[slot].is_receiving = true;
        self.receive(slot)?;
        self.go_on(slot, self.clock.now())
    }

    /// The connection is of no more use: what it awaits failed, and once the ring is done with it another takes its place.
    fn end(&mut self, slot: usize, what: &str, now: u64) -> Result<(), LoadError> {
        let connection = &mut self.connections[slot];
        if !connection.is_closing {
            let awaited = std::mem::take(&mut connection.awaited) as u64;
            self.judge
                .tally
                .fail(awaited, || format!("{what}, {awaited} answers outstanding on the connection"));
            connection.close();
            self.idle.retain(|idle| *idle != slot);
        }
        if connection.is_receiving || self.ring.is_sending(slot) || now >= self.window.end {
            return Ok(());
        }
        let template = connection.template;
        *connection = Connection::open(self.load.address, template)
            .map_err(|source| LoadError::Connect { address: self.load.address, source })?;
        self.begin(slot)
    }
}
