//! Connection timeouts: tracks the phase of each connection and shuts down those that exceed its limit.
//!
//! A connection reports the phase that it enters. A sweep checks all connections of the worker once per
//! period. It ends an expired one by shutting down the socket, so that the pending read or write returns.
//!
//! Only the sweep reads the clock, so that no request has to. A phase that is entered between two sweeps
//! counts from the next one. So no connection is ended early, however late a sweep runs, and each one is
//! ended at most two periods late.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, shutdown};

use crate::clock;
use crate::config::Timeouts;

/// Time, in milliseconds, that a connection must have been idle before a draining server closes it. A client that sends
/// requests at shorter intervals gets one more response, with `Connection: close`, so its next request does not meet
/// the end of the connection. It is also the time that a new connection has for its first request. A longer time would
/// delay a restart.
const DRAIN_IDLE_MS: u64 = 250;

/// Divisor of the write timeout for a stalled write while memory is under pressure.
const PRESSURE_DIVISOR: u64 = 10;

/// A sweeper for the timeouts of a worker's connections.
pub(super) struct TimeoutSweeper {
    timeouts: Timeouts,
    epoch: Instant,
    /// The timers of the open connections. Each timer stores its own index.
    timers: RefCell<Vec<Rc<ConnectionTimer>>>,
    /// Number of connections so far.
    watched: Cell<u64>,
}

/// The timer of one connection: its phase, and the start of that phase.
pub(super) struct ConnectionTimer {
    descriptor: RawFd,
    /// The number of the connection, in the order of acceptance.
    number: u64,
    /// The index of this timer in the sweeper.
    index: Cell<usize>,
    phase: Cell<Phase>,
    progress_at_ms: Cell<Option<u64>>,
    /// When the phase was entered, as seen by a sweep. Progress does not reset it.
    entered_at_ms: Cell<Option<u64>>,
    is_expired: Cell<bool>,
    /// Wakes the connection when its client has gone, if it wants to know that while its response is pending.
    hang_up_waker: RefCell<Option<Waker>>,
    has_hung_up: Cell<bool>,
    /// True if the connection gave its place to another one. Its last response may still be on its way.
    is_replaced: Cell<bool>,
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No byte of a request was received.
    Idle,
    /// A request head is being received.
    Head,
    /// A request body is being received.
    Body,
    /// A response is pending.
    Wait,
    /// A response is being written.
    Write,
    /// Remaining input is discarded before the connection closes.
    Drain,
}

impl TimeoutSweeper {
    /// Creates a sweeper without connections.
    pub(super) fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, epoch: clock::instant(), timers: RefCell::default(), watched: Cell::new(0) }
    }

    /// Tracks a connection until the returned guard is dropped. Drop the guard before the descriptor is
    /// closed.
    pub(super) fn watch(self: &Rc<Self>, descriptor: RawFd) -> TimeoutGuard {
        let mut timers = self.timers.borrow_mut();
        let number = self.watched.replace(self.watched.get() + 1);
        let timer = Rc::new(ConnectionTimer {
            descriptor,
            number,
            index: Cell::new(timers.len()),
            phase: Cell::new(Phase::Idle),
            progress_at_ms: Cell::new(None),
            entered_at_ms: Cell::new(None),
            is_expired: Cell::new(false),
            hang_up_waker: RefCell::default(),
            has_hung_up: Cell::new(false),
            is_replaced: Cell::new(false),
        });
        timers.push(Rc::clone(&timer));
        TimeoutGuard { sweeper: Rc::clone(self), timer }
    }

    /// Shuts down connections whose phase timed out. If the server is draining, also shuts down connections that have been
    /// idle for `DRAIN_IDLE_MS`. If memory
    /// is under pressure, also shuts down stalled writes. Wakes the connections whose client has gone and whose request ends
    /// with it.
    pub(super) fn sweep(&self, is_draining: bool, is_under_pressure: bool) {
        let now_ms = clock::instant().duration_since(self.epoch).as_millis() as u64;
        let timers = self.timers.borrow();
        for timer in timers.iter().filter(|timer| !timer.is_expired.get()) {
            let elapsed_ms = |since_ms: &Cell<Option<u64>>| {
                let start_ms = since_ms.get().unwrap_or(now_ms);
                since_ms.set(Some(start_ms));
                now_ms - start_ms
            };
            let phase = timer.phase.get();
            if phase == Phase::Wait {
                timer.look_for_hang_up();
            }
            let progress_ms = elapsed_ms(&timer.progress_at_ms);
            let is_over = timer.has_timed_out(progress_ms, &self.timeouts)
                || is_under_pressure && phase == Phase::Write && self.is_stalled(timer, elapsed_ms);
            if is_over || is_draining && phase == Phase::Idle && progress_ms >= DRAIN_IDLE_MS {
                timer.expire();
            }
        }
    }

    /// Closes the connection that has waited longest for its client. Returns whether there was one.
    ///
    /// A half-sent request waits too. Of connections that began to wait since the last sweep, the oldest
    /// counts as the one that waited longest.
    pub(super) fn close_longest_waiting(&self) -> bool {
        let timers = self.timers.borrow();
        let waiting = timers.iter().filter(|timer| timer.is_waiting() && !timer.is_replaced.get());
        let longest =
            waiting.min_by_key(|timer| (timer.progress_at_ms.get().unwrap_or(u64::MAX), timer.number));
        let closed = longest.inspect(|timer| {
            timer.is_replaced.set(true);
            timer.expire();
        });
        closed.is_some()
    }

    /// Returns whether a client holds up its response, by the stricter rules under memory pressure: it read
    /// nothing for a tenth of the write timeout, or needed more than the write timeout for the whole
    /// response.
    fn is_stalled(&self, timer: &ConnectionTimer, elapsed_ms: impl Fn(&Cell<Option<u64>>) -> u64) -> bool {
        let write_ms = self.timeouts.write.as_millis() as u64;
        elapsed_ms(&timer.progress_at_ms) >= write_ms / PRESSURE_DIVISOR
            || elapsed_ms(&timer.entered_at_ms) >= write_ms
    }
}

/// Ends the pending read of a connection. A response can still be sent.
pub(super) fn shut_down_reading(descriptor: RawFd) {
    shut_down(descriptor, Shutdown::Read);
}

/// Returns whether the client has closed the connection, or its sending half. The end after a further request is not seen
/// before that request is read.
fn has_hung_up(descriptor: RawFd) -> bool {
    !matches!(peek(descriptor), Ok(1..) | Err(Errno::EAGAIN | Errno::EINTR))
}

/// Returns how many bytes wait to be read: 0 at the end of the stream, else 1.
fn peek(descriptor: RawFd) -> nix::Result<usize> {
    recv(descriptor, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT)
}

/// Ends the connection: its pending read and write return.
pub(super) fn shut_down_both(descriptor: RawFd) {
    shut_down(descriptor, Shutdown::Both);
}

fn shut_down(descriptor: RawFd, direction: Shutdown) {
    // An error means that the client has already closed, so there is nothing left to do.
    let _ = shutdown(descriptor, direction);
}

impl ConnectionTimer {
    /// Returns whether the connection waits for bytes of its client.
    fn is_waiting(&self) -> bool {
        matches!(self.phase.get(), Phase::Idle | Phase::Head | Phase::Body | Phase::Drain)
    }

    /// Ends the connection. Only reading is shut down where a response is still possible: a partial request
    /// gets a 408, and a request that has just arrived gets its response.
    fn expire(&self) {
        self.is_expired.set(true);
        match self.phase.get() {
            Phase::Head | Phase::Body | Phase::Idle => shut_down_reading(self.descriptor),
            Phase::Wait | Phase::Write | Phase::Drain => shut_down_both(self.descriptor),
        }
    }

    /// Wakes the connection if it waits for this and the client has closed its sending half.
    fn look_for_hang_up(&self) {
        let mut waker = self.hang_up_waker.borrow_mut();
        if waker.is_some() && has_hung_up(self.descriptor) {
            self.has_hung_up.set(true);
            waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn has_timed_out(&self, elapsed_ms: u64, timeouts: &Timeouts) -> bool {
        let passed = |timeout: Duration| elapsed_ms >= timeout.as_millis() as u64;
        match self.phase.get() {
            Phase::Idle => passed(timeouts.idle),
            Phase::Head | Phase::Drain => passed(timeouts.head),
            // `IncomingBodies` ends a body by its rate.
            Phase::Body => false,
            // No timeout: the time of a disk write is not the client's fault.
            Phase::Wait => false,
            Phase::Write => passed(timeouts.write),
        }
    }
}

/// A guard that tracks one connection and reports its progress.
pub(super) struct TimeoutGuard {
    sweeper: Rc<TimeoutSweeper>,
    timer: Rc<ConnectionTimer>,
}

impl TimeoutGuard {
    /// Enters `phase` and restarts the timer. Does nothing if the connection is already in that phase.
    pub(super) fn enter(&self, phase: Phase) {
        if self.timer.phase.get() != phase {
            self.timer.phase.set(phase);
            // A request can arrive just as the previous phase expires. It is answered, with a time limit of
            // its own.
            self.timer.is_expired.set(false);
            self.timer.entered_at_ms.set(None);
            self.reset();
        }
    }

    /// Restarts the timer of the current phase after progress.
    pub(super) fn reset(&self) {
        self.timer.progress_at_ms.set(None);
    }

    /// Waits until the client has closed the connection. Only a sweep looks, so no request pays for it.
    pub(super) fn poll_hang_up(&self, context: &Context<'_>) -> Poll<()> {
        if self.has_hung_up() {
            return Poll::Ready(());
        }
        *self.timer.hang_up_waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns whether the client has closed the connection.
    pub(super) fn has_hung_up(&self) -> bool {
        self.timer.has_hung_up.get()
    }

    /// Returns whether a request has arrived although the connection timed out while it was idle. If none has, ends the
    /// connection.
    ///
    /// The sweep only ended the reading. A request that arrives between that and the close would be lost, so this looks
    /// once more. The end is sent at once and not at the close, which may be later.
    pub(super) fn has_late_request(&self) -> bool {
        if self.expired_phase() != Some(Phase::Idle) {
            return false;
        }
        let has_request = matches!(peek(self.timer.descriptor), Ok(1..));
        if !has_request {
            shut_down_both(self.timer.descriptor);
        }
        has_request
    }

    /// Returns the phase that timed out, if any.
    pub(super) fn expired_phase(&self) -> Option<Phase> {
        self.timer.is_expired.get().then(|| self.timer.phase.get())
    }
}

impl Drop for TimeoutGuard {
    fn drop(&mut self) {
        let mut timers = self.sweeper.timers.borrow_mut();
        let index = self.timer.index.get();
        timers.swap_remove(index);
        if let Some(moved) = timers.get(index) {
            moved.index.set(index);
        }
    }
}
