//! The responses that did not fit into the send buffers of their connections: the rest of each one, and the end of the
//! slowest.
//!
//! A response is sent from one buffer. If the client does not read it, the buffer is freed. The rest is copied again in
//! chunks, when the connection can take one: from the shared bytes of the response where there are any, and otherwise
//! from a copy of the rest. Only the copies count in the memory budget. When it is exhausted, the slowest response is
//! cut off for a new request.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, send};

use super::memory::{MemoryBudget, Reservation};
use super::output_pool::Output;
use super::timeouts::shut_down_both;
use crate::api::SharedBytes;
use crate::clock;
use crate::limits::{SHARED_PART_BYTES_MIN, UNSENT_AGE_MS_MIN};

/// Sends as many of these bytes as the connection can take now.
///
/// # Errors
/// `WouldBlock` if it can take none, or another error of the system.
pub(super) fn send_now(descriptor: RawFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(descriptor, bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?)
}

/// The rest of a response.
pub struct UnsentBytes {
    /// In reverse order: the last one is sent next.
    parts: Vec<UnsentPart>,
    /// The bytes that are not shared.
    unshared: Vec<u8>,
    /// Bytes of the last part that are sent.
    sent_bytes: usize,
}

/// A part of the rest.
enum UnsentPart {
    Unshared(Range<usize>),
    Shared(SharedBytes, Range<usize>),
}

impl UnsentBytes {
    /// Takes the rest of an output of which the first `sent_bytes` are sent. Leaves the buffer in the output if some of the
    /// rest is shared, and takes it otherwise.
    pub fn of(output: &mut Output, sent_bytes: usize) -> Self {
        let Output { bytes, shared } = output;
        let unsent = shared.as_slice().iter().filter(|part| part.end() > sent_bytes);
        let mut rest = Self { parts: Vec::new(), unshared: Vec::new(), sent_bytes: 0 };
        let mut offset = sent_bytes;
        for part in unsent {
            debug_assert_eq!(&bytes[part.begin..part.end()], part.bytes.as_slice());
            rest.push_unshared(&bytes[offset..part.begin.max(offset)]);
            offset = offset.max(part.begin);
            let range = offset - part.begin..part.end() - part.begin;
            rest.parts.push(UnsentPart::Shared(part.bytes.clone(), range));
            offset = part.end();
        }
        if rest.parts.is_empty() {
            rest.parts.push(UnsentPart::Unshared(sent_bytes..bytes.len()));
            rest.unshared = std::mem::take(bytes);
        } else {
            rest.push_unshared(&bytes[offset..]);
        }
        rest.parts.reverse();
        rest
    }

    fn push_unshared(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let begin = self.unshared.len();
            self.unshared.extend_from_slice(bytes);
            self.parts.push(UnsentPart::Unshared(begin..self.unshared.len()));
        }
    }

    /// Returns the memory of the bytes that are not shared.
    pub fn own_bytes(&self) -> usize {
        self.unshared.capacity()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends the next bytes, up to a length of `bytes_max`.
    pub fn copy_next(&self, bytes_max: usize, out: &mut Vec<u8>) {
        let mut sent_bytes = self.sent_bytes;
        for part in self.parts.iter().rev() {
            let bytes = &part.bytes(&self.unshared)[std::mem::take(&mut sent_bytes)..];
            out.extend_from_slice(&bytes[..bytes.len().min(bytes_max - out.len())]);
            if out.len() == bytes_max {
                return;
            }
        }
    }

    /// Removes the next `bytes`, which are sent.
    pub fn advance(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        while let Some(part) = self.parts.last() {
            let length = part.bytes(&self.unshared).len();
            if self.sent_bytes < length {
                return;
            }
            self.sent_bytes -= length;
            self.parts.pop();
        }
    }

    /// Returns the shared bytes that are not sent yet.
    pub(super) fn shared(&self) -> impl Iterator<Item = &SharedBytes> {
        self.parts.iter().filter_map(|part| match part {
            UnsentPart::Shared(bytes, _) => Some(bytes),
            UnsentPart::Unshared(_) => None,
        })
    }
}

impl UnsentPart {
    fn bytes<'a>(&'a self, unshared_bytes: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Unshared(range) => &unshared_bytes[range.clone()],
            Self::Shared(bytes, range) => &bytes.as_slice()[range.clone()],
        }
    }
}

/// The responses of a worker whose clients have not read them yet.
pub(super) struct UnsentResponses {
    /// Each response stores its own index.
    responses: RefCell<Vec<Rc<UnsentResponse>>>,
    memory: Rc<MemoryBudget>,
    epoch: Instant,
}

/// A response that a client has not read yet.
struct UnsentResponse {
    descriptor: RawFd,
    index: Cell<usize>,
    memory: RefCell<Reservation>,
    started_ms: u64,
    sent_bytes: Cell<usize>,
    is_cut_off: Cell<bool>,
}

impl UnsentResponses {
    /// Creates an empty set, whose responses count in `budget`.
    pub(super) fn new(budget: Rc<MemoryBudget>) -> Self {
        Self { responses: RefCell::default(), memory: budget, epoch: clock::instant() }
    }

    /// Tracks a response on the connection of `descriptor`, until the returned guard is dropped. Drop the guard before the
    /// descriptor is closed.
    pub(super) fn track(&self, descriptor: RawFd, memory: Reservation, sent_bytes: usize) -> UnsentGuard<'_> {
        let mut responses = self.responses.borrow_mut();
        let response = Rc::new(UnsentResponse {
            descriptor,
            index: Cell::new(responses.len()),
            memory: RefCell::new(memory),
            started_ms: self.now_ms(),
            sent_bytes: Cell::new(sent_bytes),
            is_cut_off: Cell::new(false),
        });
        responses.push(Rc::clone(&response));
        UnsentGuard { all: self, response }
    }

    /// Returns whether a request and its response find room in the budget. If not, cuts off the slowest responses until
    /// they do. Calls `on_cut_off` for each one.
    pub(super) fn make_room(&self, has_room: impl Fn(&MemoryBudget) -> bool, on_cut_off: impl Fn()) -> bool {
        while !has_room(&self.memory) {
            if !self.cut_off_slowest() {
                return false;
            }
            on_cut_off();
        }
        true
    }

    /// Cuts off the slowest response whose own bytes take as much memory as a shared part, but none younger than
    /// `UNSENT_AGE_MS_MIN`. The end of a smaller one would free nothing for a request. Returns whether there was one.
    fn cut_off_slowest(&self) -> bool {
        let now_ms = self.now_ms();
        let responses = self.responses.borrow();
        let candidates = responses.iter().filter(|response| {
            !response.is_cut_off.get()
                && response.memory.borrow().bytes() >= SHARED_PART_BYTES_MIN
                && response.age_ms(now_ms) >= UNSENT_AGE_MS_MIN
        });
        let slowest = candidates.min_by_key(|response| response.bytes_per_s(now_ms));
        slowest.inspect(|response| response.cut_off()).is_some()
    }

    fn now_ms(&self) -> u64 {
        clock::instant().duration_since(self.epoch).as_millis() as u64
    }
}

impl UnsentResponse {
    fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms - self.started_ms
    }

    fn bytes_per_s(&self, now_ms: u64) -> u64 {
        self.sent_bytes.get() as u64 * 1000 / self.age_ms(now_ms)
    }

    /// Ends the connection. It frees its memory as soon as it runs, so the memory counts as free already.
    fn cut_off(&self) {
        self.is_cut_off.set(true);
        self.memory.borrow_mut().resize(0);
        shut_down_both(self.descriptor);
    }
}

/// A guard that tracks one response.
pub(super) struct UnsentGuard<'r> {
    all: &'r UnsentResponses,
    response: Rc<UnsentResponse>,
}

impl UnsentGuard<'_> {
    /// Records that `bytes` more are sent.
    pub(super) fn record(&self, bytes: usize) {
        self.response.sent_bytes.set(self.response.sent_bytes.get() + bytes);
    }

    /// Returns the time since the response was tracked.
    pub(super) fn age(&self) -> Duration {
        Duration::from_millis(self.response.age_ms(self.all.now_ms()))
    }

    /// Ends the tracking, and returns the memory. `None` if the response was cut off.
    pub(super) fn finish(self) -> Option<Reservation> {
        let unused = self.all.memory.reserve(0);
        let memory = self.response.memory.replace(unused);
        (!self.response.is_cut_off.get()).then_some(memory)
    }
}

impl Drop for UnsentGuard<'_> {
    fn drop(&mut self) {
        let mut responses = self.all.responses.borrow_mut();
        let index = self.response.index.get();
        responses.swap_remove(index);
        if let Some(moved) = responses.get(index) {
            moved.index.set(index);
        }
    }
}
