//! Memory budgets of a worker. One is for request bodies, the other for unacknowledged events and unsent
//! responses.
//!
//! A budget counts the capacity of buffers. A connection's own small read buffer is not counted. When the
//! budget of responses is exhausted, the slowest response is cut off for a new request, and the request gets 503 if
//! there is none. Above half of the budget, slow readers get a shorter write timeout.

use std::cell::Cell;
use std::rc::Rc;

use crate::limits::OUTPUT_BUFFER_BYTES_MAX;

/// A memory budget of a worker.
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

    /// Returns whether `bytes` more would fit, and a quarter of the limit would stay free for small responses. Two of the
    /// largest responses always fit.
    pub(super) fn has_room_for_large(&self, bytes: usize) -> bool {
        let limit_bytes = (self.limit_bytes / 4 * 3).max(2 * OUTPUT_BUFFER_BYTES_MAX);
        self.used_bytes.get() + bytes <= limit_bytes.min(self.limit_bytes)
    }

    /// Returns whether more than half of the budget is in use. Clients that read no response then get less
    /// time.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.used_bytes.get() > self.limit_bytes / 2
    }

    /// Reserves `bytes` until the returned value is dropped. It does not check the limit: see
    /// [`Self::has_room`].
    pub(super) fn reserve(self: &Rc<Self>, bytes: usize) -> Reservation {
        let mut reservation = Reservation { budget: Rc::clone(self), bytes: 0 };
        reservation.resize(bytes);
        reservation
    }
}

/// A reserved part of the budget.
pub(super) struct Reservation {
    budget: Rc<MemoryBudget>,
    bytes: usize,
}

impl Reservation {
    /// Returns the size of the reservation.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the size of the reservation to `bytes` if they fit, and returns whether they do. A smaller
    /// reservation always fits.
    pub(super) fn try_resize(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes || self.budget.has_room(bytes - self.bytes);
        if fits {
            self.resize(bytes);
        }
        fits
    }

    /// Changes the size of the reservation to `bytes`. It does not check the limit.
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
