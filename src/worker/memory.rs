//! Per-worker budget for request bodies, unacknowledged events and unsent responses.
//!
//! A connection's own read buffer is not counted. When the budget is exhausted, new work gets 503. Above half
//! of it, slow readers get a shorter write timeout.

use std::cell::Cell;
use std::rc::Rc;

/// The memory budget of a worker.
pub(super) struct MemoryBudget {
    used_bytes: Cell<usize>,
    limit_bytes: usize,
}

impl MemoryBudget {
    /// Creates an unused budget of `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self { used_bytes: Cell::new(0), limit_bytes: bytes_max })
    }

    /// Returns whether `bytes` more would fit.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes.get() + bytes <= self.limit_bytes
    }

    /// Returns whether more than half of the budget is in use. Clients that read no response then get less
    /// time.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.used_bytes.get() > self.limit_bytes / 2
    }

    /// Reserves `bytes` until the returned value is dropped. It does not check the limit: see
    /// [`Self::has_room`].
    pub(super) fn reserve(self: &Rc<Self>, bytes: usize) -> Reservation {
        let mut holding = Reservation { budget: Rc::clone(self), bytes: 0 };
        holding.resize(bytes);
        holding
    }
}

/// A reserved part of the budget.
pub(super) struct Reservation {
    budget: Rc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    /// Changes the size of the reservation to `bytes`.
    pub(super) fn resize(&mut self, bytes: usize) {
        self.budget.used_bytes.set(self.budget.used_bytes.get() - self.bytes + bytes);
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}
