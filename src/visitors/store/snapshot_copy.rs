//! A copy of the table as of one moment, taken in slices while the table goes on (copy on update).
//!
//! The nodes of the order are gone through by number. What was put after the moment has a later place and is passed over; what is
//! about to be replaced or removed and has not been reached is held back, as it was, and handed out with the next slice. What is
//! held has a bound in bytes; past it the copy is given up, for a table that changes faster than it is copied would be held twice.

use std::collections::VecDeque;

use super::entry::{Taker, cost};
use super::eviction::{Order, Placed};
use super::table::{Record, Table};
use crate::limits::COPY_HELD_BYTES_MAX;

impl Table {
    /// Begins a copy of the table as it is now; one that was under way ends.
    pub fn begin_copy(&mut self) {
        self.end_copy();
        self.copy_failed = false;
        self.copying = Some(Copying::new(&self.order));
    }

    /// Hands out more of the copy, in no order, after looking at this many entries. True says that this was the last of it.
    /// Without a copy under way nothing is handed out.
    pub fn copy_some(&mut self, entries: usize, out: &mut Taker<'_>) -> bool {
        let Some(mut copying) = self.copying.take() else { return false };
        for _ in 0..entries {
            let step = copying.step(&self.order);
            match step {
                Step::Held(placed) | Step::There(placed) => {
                    let (key, value) = self.parts(&placed);
                    out(key, value, placed.rank, placed.place);
                }
                Step::Passed => {}
                Step::Done => return true,
            }
            if let Step::Held(placed) = step {
                self.retire(placed.thing);
            }
        }
        self.copying = Some(copying);
        self.tidy();
        false
    }

    /// Whether the copy that was begun last was given up at its bound.
    pub fn copy_failed(&self) -> bool {
        self.copy_failed
    }

    /// What a node held is out of the table: a copy that misses it holds it back.
    pub(super) fn drop_placed(&mut self, node: u32, placed: Placed<Record>) {
        let cost = cost(self.parts(&placed).1.len());
        self.cost -= cost;
        match &mut self.copying {
            Some(copying) if copying.misses(node, placed.place) => {
                let held = copying.hold(placed, cost as usize);
                if held > COPY_HELD_BYTES_MAX {
                    self.end_copy();
                    self.copy_failed = true;
                }
            }
            _ => self.retire(placed.thing),
        }
    }

    fn end_copy(&mut self) {
        let held = self.copying.take().into_iter().flat_map(Copying::into_held);
        held.for_each(|record| self.retire(record));
    }
}

/// A copy on its way.
#[derive(Debug)]
pub struct Copying<T> {
    /// The next node to be looked at.
    next: u32,
    /// Nodes that there were at the moment.
    end: u32,
    /// Places from here on were given after the moment.
    moment: u64,
    held: VecDeque<(Placed<T>, usize)>,
    held_bytes: usize,
}

/// One step of a copy.
pub enum Step<T> {
    /// It is out of the table already: whoever takes it retires it.
    Held(Placed<T>),
    There(Placed<T>),
    /// Nothing that belongs to the copy.
    Passed,
    Done,
}

impl<T: Copy> Copying<T> {
    /// The moment is now.
    pub fn new(order: &Order<T>) -> Self {
        let (end, moment) = (order.given(), order.next_place());
        Self { next: 0, end, moment, held: VecDeque::new(), held_bytes: 0 }
    }

    /// Whether what a node holds, put at `place`, belongs to the copy and has not been handed out.
    pub fn misses(&self, node: u32, place: u64) -> bool {
        place < self.moment && node >= self.next
    }

    /// Holds what goes out of the table; what is held altogether.
    pub fn hold(&mut self, placed: Placed<T>, bytes: usize) -> usize {
        self.held.push_back((placed, bytes));
        self.held_bytes += bytes;
        self.held_bytes
    }

    /// The next step; what is held goes first.
    pub fn step(&mut self, order: &Order<T>) -> Step<T> {
        if let Some((placed, bytes)) = self.held.pop_front() {
            self.held_bytes -= bytes;
            return Step::Held(placed);
        }
        if self.next == self.end {
            return Step::Done;
        }
        self.next += 1;
        let placed = order.get(self.next - 1).filter(|placed| placed.place < self.moment);
        placed.map_or(Step::Passed, Step::There)
    }

    /// What is held.
    pub fn into_held(self) -> impl Iterator<Item = T> {
        self.held.into_iter().map(|(placed, _)| placed.thing)
    }
}
