//! What the connections of a worker hold in memory beside the buffer that each waits with: bodies on their way, records that are
//! not acknowledged yet, and answers that are not taken yet. It has a bound; past it who wants more is told to come again.

use std::cell::Cell;
use std::rc::Rc;

/// The sum of what is held, and its bound.
pub(super) struct Held {
    bytes: Cell<usize>,
    bytes_max: usize,
}

impl Held {
    /// Nothing is held of `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self { bytes: Cell::new(0), bytes_max })
    }

    /// Whether there is room for so much more.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes.get() + bytes <= self.bytes_max
    }

    /// Whether more than half of the room is taken, so that who takes nothing of an answer is not waited for as long.
    pub(super) fn is_pressed(&self) -> bool {
        self.bytes.get() > self.bytes_max / 2
    }

    /// Counts `bytes` for as long as what comes back lives.
    pub(super) fn hold(self: &Rc<Self>, bytes: usize) -> Holding {
        let mut holding = Holding { held: Rc::clone(self), bytes: 0 };
        holding.set(bytes);
        holding
    }
}

/// A part of the sum.
pub(super) struct Holding {
    held: Rc<Held>,
    bytes: usize,
}

impl Holding {
    /// It is so much from now on.
    pub(super) fn set(&mut self, bytes: usize) {
        self.held.bytes.set(self.held.bytes.get() - self.bytes + bytes);
        self.bytes = bytes;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.set(0);
    }
}
