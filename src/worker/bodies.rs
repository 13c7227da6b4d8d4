//! The request bodies that a worker is receiving: their memory budget, and the end of slow ones.
//!
//! Bodies have a budget of their own, so half-sent bodies cannot take the memory of responses. A body that is
//! too slow is cut off: the server shuts down reading on its connection, and the connection sends a 408. When
//! the budget is exhausted, the slowest body is cut off for a new one.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::memory::{MemoryBudget, Reservation};
use super::receive_rate::ReceiveRate;
use super::timeouts::shut_down_reading;
use crate::clock;
use crate::limits::{BODY_AGE_MS_MIN, BODY_BYTES_PER_S_MIN};
use crate::problem::{self, Actual, Problem};

/// The bodies that a worker is receiving.
pub(super) struct IncomingBodies {
    /// Each body stores its own index.
    bodies: RefCell<Vec<Rc<IncomingBody>>>,
    memory: Rc<MemoryBudget>,
    /// The time over which the rate of a body is measured.
    window_ms: u64,
    epoch: Instant,
}

/// A body that is being received, or whose request is being answered.
struct IncomingBody {
    descriptor: RawFd,
    index: Cell<usize>,
    memory: RefCell<Reservation>,
    rate: RefCell<ReceiveRate>,
    /// True if the connection is waiting for more bytes. Only then can the body be cut off.
    is_awaited: Cell<bool>,
    cut_off: Cell<Option<CutOff>>,
}

/// The reason why a body was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutOff {
    /// It was slower than `BODY_BYTES_PER_S_MIN`.
    TooSlow,
    /// It was the slowest when the budget was exhausted.
    Slowest,
}

impl IncomingBodies {
    /// Creates an empty set whose bodies may take `bytes_max` together.
    pub(super) fn new(bytes_max: usize, window: Duration) -> Rc<Self> {
        Rc::new(Self {
            bodies: RefCell::default(),
            memory: MemoryBudget::new(bytes_max),
            window_ms: window.as_millis() as u64,
            epoch: clock::instant(),
        })
    }

    /// Tracks a body that begins now on the connection of `descriptor`, until the returned guard is dropped.
    /// Drop the guard before the descriptor is closed.
    pub(super) fn track(self: &Rc<Self>, descriptor: RawFd) -> BodyGuard {
        let mut bodies = self.bodies.borrow_mut();
        let body = Rc::new(IncomingBody {
            descriptor,
            index: Cell::new(bodies.len()),
            memory: RefCell::new(self.memory.reserve(0)),
            rate: RefCell::new(ReceiveRate::new(self.window_ms, self.now_ms())),
            is_awaited: Cell::new(false),
            cut_off: Cell::new(None),
        });
        bodies.push(Rc::clone(&body));
        BodyGuard { bodies: Rc::clone(self), body }
    }

    /// Cuts off the bodies that are slower than `BODY_BYTES_PER_S_MIN`.
    pub(super) fn sweep(&self) {
        let now_ms = self.now_ms();
        let bodies = self.bodies.borrow();
        let is_slow = |body: &IncomingBody| body.rate.borrow().is_below(BODY_BYTES_PER_S_MIN, now_ms);
        for body in bodies.iter().filter(|body| body.can_be_cut_off() && is_slow(body)) {
            body.cut_off(CutOff::TooSlow);
        }
    }

    /// Cuts off the slowest body that takes memory, but none younger than `BODY_AGE_MS_MIN`. Returns whether
    /// there was one.
    fn cut_off_slowest(&self) -> bool {
        let now_ms = self.now_ms();
        let bodies = self.bodies.borrow();
        let candidates = bodies.iter().filter(|body| {
            body.can_be_cut_off()
                && body.memory.borrow().bytes() > 0
                && body.rate.borrow().age_ms(now_ms) >= BODY_AGE_MS_MIN
        });
        let slowest = candidates.min_by_key(|body| body.rate.borrow().bytes_per_s(now_ms));
        slowest.inspect(|body| body.cut_off(CutOff::Slowest)).is_some()
    }

    fn now_ms(&self) -> u64 {
        clock::instant().duration_since(self.epoch).as_millis() as u64
    }
}

impl IncomingBody {
    fn can_be_cut_off(&self) -> bool {
        self.is_awaited.get() && self.cut_off.get().is_none()
    }

    /// Ends the pending read of the connection. The connection frees its buffer as soon as it runs, so the
    /// memory counts as free already.
    fn cut_off(&self, reason: CutOff) {
        self.cut_off.set(Some(reason));
        self.memory.borrow_mut().resize(0);
        shut_down_reading(self.descriptor);
    }
}

/// A guard that tracks one body.
pub(super) struct BodyGuard {
    bodies: Rc<IncomingBodies>,
    body: Rc<IncomingBody>,
}

impl BodyGuard {
    /// Changes the memory of the body to `bytes`. If they do not fit, the slowest bodies are cut off.
    ///
    /// # Errors
    /// `timeout` if this body is cut off, `overloaded` if no other body could be.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), Problem<'static>> {
        loop {
            if let Some(problem) = self.problem() {
                return Err(problem);
            }
            if self.body.memory.borrow_mut().try_resize(bytes) {
                return Ok(());
            }
            self.body.is_awaited.set(true);
            if !self.bodies.cut_off_slowest() {
                let sentence = "Memory limit for request bodies reached; retry later.";
                return Err(Problem::new(problem::OVERLOADED, sentence));
            }
        }
    }

    /// Records that the connection waits for more bytes of the body.
    pub(super) fn start_read(&self) {
        self.body.is_awaited.set(true);
    }

    /// Records the end of a read that received `bytes`.
    pub(super) fn finish_read(&self, bytes: usize) {
        self.body.is_awaited.set(false);
        self.body.rate.borrow_mut().record(bytes, self.bodies.now_ms());
    }

    /// Returns the problem of a body that was cut off.
    pub(super) fn problem(&self) -> Option<Problem<'static>> {
        let problem = |sentence| Problem::new(problem::TIMEOUT, sentence);
        Some(match self.body.cut_off.get()? {
            CutOff::TooSlow => {
                let sentence =
                    "The request body arrived at less than 1024 bytes per second in the last {} ms.";
                Problem { actual: Actual::Count(self.bodies.window_ms as usize), ..problem(sentence) }
            }
            CutOff::Slowest => {
                problem("Memory limit for request bodies reached; this was the slowest body. Retry later.")
            }
        })
    }
}

impl Drop for BodyGuard {
    fn drop(&mut self) {
        let mut bodies = self.bodies.bodies.borrow_mut();
        let index = self.body.index.get();
        bodies.swap_remove(index);
        if let Some(moved) = bodies.get(index) {
            moved.index.set(index);
        }
    }
}
