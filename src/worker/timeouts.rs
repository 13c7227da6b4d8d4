//! How long each connection of a worker takes for what it is at, and the end of those that take too long.
//!
//! A connection says what it begins; a sweep, once a period for all, ends what has lasted too long by shutting the socket down,
//! so that the pending read or write returns. Time is the sweep's, so that nothing asks for it on a request's way: what begins
//! between two sweeps counts from the next one. So nothing ends early, however late a sweep comes, and at most two periods late.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::socket::{Shutdown, shutdown};

use crate::clock;
use crate::config::Timeouts;
use crate::limits::BODY_RATE_BYTES_MIN;

/// Where memory is short, a write may stall for this part of its time.
const PRESSED_SHARE: u64 = 10;

/// The connections of a worker.
pub(super) struct Deadlines {
    timeouts: Timeouts,
    begun: Instant,
    /// Each knows where it stands.
    connections: RefCell<Vec<Rc<Deadline>>>,
}

/// What one connection is at, and since when.
pub(super) struct Deadline {
    descriptor: RawFd,
    /// Its index among the connections.
    at: Cell<usize>,
    phase: Cell<Phase>,
    since_ms: Cell<Option<u64>>,
    /// When the phase began, whatever was done of it since.
    begun_ms: Cell<Option<u64>>,
    /// Bytes of the body that have come.
    received: Cell<u64>,
    expired: Cell<bool>,
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of a request has come.
    Idle,
    /// A head is coming.
    Head,
    /// A body is coming.
    Body,
    /// An answer is waited for.
    Wait,
    /// An answer is being taken.
    Write,
    /// What nobody reads is coming, before the connection closes.
    Drain,
}

impl Deadlines {
    /// Nothing is watched.
    pub(super) fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, begun: clock::instant(), connections: RefCell::default() }
    }

    /// Watches a connection until what comes back is dropped, which must be before its descriptor is closed.
    pub(super) fn watch(self: &Rc<Self>, descriptor: RawFd) -> Watched {
        let mut connections = self.connections.borrow_mut();
        let deadline = Rc::new(Deadline {
            descriptor,
            at: Cell::new(connections.len()),
            phase: Cell::new(Phase::Idle),
            since_ms: Cell::new(None),
            begun_ms: Cell::new(None),
            received: Cell::new(0),
            expired: Cell::new(false),
        });
        connections.push(Rc::clone(&deadline));
        Watched { deadlines: Rc::clone(self), deadline }
    }

    /// Ends what has lasted too long; where the server stops, also what waits for a request; where memory is short
    /// (`pressed`), who takes nothing of an answer sooner.
    pub(super) fn sweep(&self, stopping: bool, pressed: bool) {
        let now_ms = clock::instant().duration_since(self.begun).as_millis() as u64;
        let connections = self.connections.borrow();
        for deadline in connections.iter().filter(|deadline| !deadline.expired.get()) {
            let lasted_ms = |since_ms: &Cell<Option<u64>>| {
                let since = since_ms.get().unwrap_or(now_ms);
                since_ms.set(Some(since));
                now_ms - since
            };
            let phase = deadline.phase.get();
            let is_over = deadline.is_over(lasted_ms(&deadline.since_ms), &self.timeouts)
                || pressed && phase == Phase::Write && self.is_held_up(deadline, lasted_ms);
            if is_over || stopping && phase == Phase::Idle {
                deadline.expired.set(true);
                // A request that is on its way can still be refused, one that has just come still be answered.
                let how = match phase {
                    Phase::Head | Phase::Body | Phase::Idle => Shutdown::Read,
                    Phase::Wait | Phase::Write | Phase::Drain => Shutdown::Both,
                };
                // A client that has gone already is what is wanted.
                let _ = shutdown(deadline.descriptor, how);
            }
        }
    }
}

impl Deadlines {
    /// Whether a client holds its answer up, where memory is short: by taking nothing of it for a tenth of the time that it has
    /// otherwise, or by taking longer than that for all of it.
    fn is_held_up(&self, deadline: &Deadline, lasted_ms: impl Fn(&Cell<Option<u64>>) -> u64) -> bool {
        let write_ms = self.timeouts.write.as_millis() as u64;
        lasted_ms(&deadline.since_ms) >= write_ms / PRESSED_SHARE || lasted_ms(&deadline.begun_ms) >= write_ms
    }
}

impl Deadline {
    fn is_over(&self, lasted_ms: u64, timeouts: &Timeouts) -> bool {
        let passed = |timeout: Duration| lasted_ms >= timeout.as_millis() as u64;
        match self.phase.get() {
            Phase::Idle => passed(timeouts.idle),
            Phase::Head | Phase::Drain => passed(timeouts.head),
            Phase::Body => {
                passed(timeouts.body) && self.received.get() < BODY_RATE_BYTES_MIN * lasted_ms / 1000
            }
            // The disk takes as long as it takes; it is no fault of the client's.
            Phase::Wait => false,
            Phase::Write => passed(timeouts.write),
        }
    }
}

/// A connection that is watched.
pub(super) struct Watched {
    deadlines: Rc<Deadlines>,
    deadline: Rc<Deadline>,
}

impl Watched {
    /// The connection begins `phase`; where it is at it already, its time goes on.
    pub(super) fn at(&self, phase: Phase) {
        if self.deadline.phase.get() != phase {
            self.deadline.phase.set(phase);
            // What came in the moment in which its time was up is answered, and has a time of its own.
            self.deadline.expired.set(false);
            self.deadline.begun_ms.set(None);
            self.again();
        }
    }

    /// The phase begins anew: something of it is done.
    pub(super) fn again(&self) {
        self.deadline.since_ms.set(None);
        self.deadline.received.set(0);
    }

    /// So many bytes have come.
    pub(super) fn received(&self, bytes: usize) {
        self.deadline.received.set(self.deadline.received.get() + bytes as u64);
    }

    /// The phase that lasted too long, if one did.
    pub(super) fn expired(&self) -> Option<Phase> {
        self.deadline.expired.get().then(|| self.deadline.phase.get())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut connections = self.deadlines.connections.borrow_mut();
        let at = self.deadline.at.get();
        connections.swap_remove(at);
        if let Some(moved) = connections.get(at) {
            moved.at.set(at);
        }
    }
}
