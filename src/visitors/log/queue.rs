//! Requests travel from the workers to the writer, and come back with their verdicts.
//!
//! A request is a buffer of encoded records. It is queued whole or refused at once; where the queue
//! takes it, it comes back, always, through the port that sent it. Its buffers travel along, so that a
//! worker uses them again. A worker is woken once for all completions of a batch, and calls the writer once for all
//! requests of a turn of its loop: a writer that is woken by the first would take it alone to the disk.
//!
//! The queue is bounded in requests and bytes, each port in requests that it has not taken back: so a
//! completion always finds room, and the writer never waits for a worker.

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};

use super::erase::{EraseError, Erasure, Order, Turn, Visitor};
use super::metrics::Figures;
use super::record::{self, Record, RecordFault};
use crate::limits::{ERASED_IDS_MAX, OUTSTANDING_MAX, REQUEST_BYTES_MAX};

/// How a worker is told that completions wait for it; called on the writer's thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Records that are accepted or refused together, and what became of each.
#[derive(Debug, Default)]
pub struct Request {
    /// The sender's own; the writer does not look at it.
    pub token: u64,
    records: Vec<u8>,
    verdicts: Vec<Verdict>,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has this seq.
    Accepted(u64),
    /// Its key counted as seen.
    Duplicate,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every accepted record survives a power cut, and is folded.
    Durable,
    /// Every accepted record survives the process, and is folded; the sync follows.
    Written,
    /// Nothing of it was accepted: the disk failed.
    DiskUnavailable,
}

/// A request that came back.
#[derive(Debug)]
pub struct Completion {
    /// What became of it. The verdicts hold unless it is [`Outcome::DiskUnavailable`].
    pub outcome: Outcome,
    /// It.
    pub request: Request,
}

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many requests or bytes are waiting.
    #[error("the queue is full")]
    QueueFull,
    /// The disk failed a moment ago and is being tried again.
    #[error("the disk does not take events")]
    DiskUnavailable,
    /// The log has been stopped.
    #[error("the log is stopped")]
    Stopped,
}

impl Request {
    /// Without records.
    pub fn new(token: u64) -> Self {
        Self { token, ..Self::default() }
    }

    /// Takes everything out; the buffers stay.
    pub fn clear(&mut self) {
        self.records.clear();
        self.verdicts.clear();
    }

    /// Adds a record.
    ///
    /// # Errors
    /// It passes a bound; the request is as before.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), RecordFault> {
        let before = self.records.len();
        record.encode(&mut self.records)?;
        let length = self.records.len();
        if length > REQUEST_BYTES_MAX {
            self.records.truncate(before);
            return Err(RecordFault::RequestTooLong(length));
        }
        Ok(())
    }

    /// What became of each record, in the order in which they were added; of a completion.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Its records, in the order in which they were added.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = self.records.as_slice();
        std::iter::from_fn(move || {
            let (record, length) = Record::decode(rest)?;
            rest = &rest[length..];
            Some(record)
        })
    }

    /// The site of its first record.
    pub fn site(&self) -> Option<&str> {
        record::site(&self.records)
    }

    /// Bytes that its buffer holds, used or not.
    pub fn capacity(&self) -> usize {
        self.records.capacity()
    }

    /// Bytes of its records.
    pub fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Its records as they stand.
    pub(super) fn encoded(&self) -> impl Iterator<Item = &[u8]> {
        record::encoded(&self.records)
    }

    /// Asks for a verdict on each record.
    pub(super) fn judge(&mut self, verdict: impl FnMut(&[u8]) -> Verdict) {
        self.verdicts.extend(record::encoded(&self.records).map(verdict));
    }
}

/// The workers' side; each worker asks for a port of its own.
#[derive(Debug, Clone)]
pub struct Queue {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    figures: Arc<Figures>,
    requests_max: usize,
    bytes_max: usize,
    /// Who waits at the other end, once it has.
    writer: OnceLock<Thread>,
}

impl Shared {
    fn call_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

#[derive(Debug)]
enum Message {
    Request(Parcel),
    Erase(Order),
    Stop,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) request: Request,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Where a port's completions come to.
pub(super) struct Mailbox {
    done: Sender<Completion>,
    wake: Wake,
    /// The last batch that put something here.
    batch: AtomicU64,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &self.done.len()).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// Puts a completion in; says whether it is the first of this batch.
    pub(super) fn put(&self, completion: Completion, batch: u64) -> bool {
        // The ring has room for all that the port has outstanding. A port that is gone wants nothing.
        let _ = self.done.try_send(completion);
        self.batch.swap(batch, Ordering::Relaxed) != batch
    }

    pub(super) fn wake(&self) {
        (self.wake)();
    }
}

/// A queue with its two ends. `requests_max` and `bytes_max` are what may wait in it.
pub(super) fn queue(requests_max: usize, bytes_max: usize, figures: Arc<Figures>) -> (Queue, Intake) {
    // Two more, so that the word to stop and that to erase, of which there is one at a time, always fit.
    let (sender, receiver) = bounded(requests_max + 2);
    let writer = OnceLock::new();
    let shared = Arc::new(Shared { figures, requests_max, bytes_max, writer });
    let intake = Intake {
        receiver,
        shared: Arc::clone(&shared),
        held: None,
        taken: 0,
        order: None,
        is_stopping: false,
    };
    (Queue { sender, shared }, intake)
}

impl Queue {
    /// A worker's own way to the writer and back.
    pub fn port(&self, wake: Wake) -> Port {
        let (done, completions) = bounded(OUTSTANDING_MAX);
        let mailbox = Arc::new(Mailbox { done, wake, batch: AtomicU64::new(0) });
        Port { queue: self.clone(), mailbox, completions, outstanding: Cell::new(0) }
    }

    /// What the log counts.
    pub fn figures(&self) -> &Figures {
        &self.shared.figures
    }

    /// Asks the writer to begin to erase a visitor; [`Erasure::finish`] does what remains.
    ///
    /// # Errors
    /// It is refused, and nothing was begun.
    pub fn erase(&self, visitor: Visitor) -> Result<Erasure, EraseError> {
        if !(1..=ERASED_IDS_MAX).contains(&visitor.ids.len()) {
            return Err(EraseError::Ids(visitor.ids.len()));
        }
        let turn = Turn::take(&self.shared.figures).ok_or(EraseError::Busy)?;
        let (erasure, order) = Erasure::new(visitor, turn);
        // Counted like a request, so that a writer that stops answers it.
        self.figures().queued_requests.fetch_add(1, Ordering::SeqCst);
        let is_closed = self.figures().closed.load(Ordering::SeqCst);
        if is_closed || self.sender.try_send(Message::Erase(order)).is_err() {
            uncount(self.figures(), 0);
            return Err(EraseError::Stopped);
        }
        self.shared.call_writer();
        Ok(erasure)
    }

    /// No port takes a request any more; the writer ends once it has answered those that were taken.
    pub fn stop(&self) {
        if !self.figures().closed.swap(true, Ordering::SeqCst) {
            // There is room for it; a writer that is gone has stopped.
            let _ = self.sender.try_send(Message::Stop);
            self.shared.call_writer();
        }
    }
}

/// A worker's way to the writer and back.
#[derive(Debug)]
pub struct Port {
    queue: Queue,
    mailbox: Arc<Mailbox>,
    completions: Receiver<Completion>,
    outstanding: Cell<usize>,
}

impl Port {
    /// Why a request would be refused now, however small; asked before it is made. [`send`](Self::send) may still refuse it.
    pub fn refusal(&self) -> Option<Refusal> {
        let figures = self.queue.figures();
        let waiting = figures.queued_requests.load(Ordering::Relaxed);
        let bytes = figures.queued_bytes.load(Ordering::Relaxed);
        if figures.closed.load(Ordering::Relaxed) {
            return Some(Refusal::Stopped);
        }
        self.refused(waiting, bytes, 0)
    }

    /// Why `bytes` more do not fit behind what waits, of a log that is not closed.
    fn refused(&self, waiting: usize, bytes_waiting: usize, bytes: usize) -> Option<Refusal> {
        let Shared { figures, requests_max, bytes_max, .. } = &*self.queue.shared;
        let fits = waiting < *requests_max
            && bytes_waiting + bytes <= *bytes_max
            && self.outstanding.get() < OUTSTANDING_MAX;
        match figures.is_available() {
            false => Some(Refusal::DiskUnavailable),
            true => (!fits).then_some(Refusal::QueueFull),
        }
    }

    /// Puts a request where the writer finds it; [`call_writer`](Self::call_writer) is to follow. Never waits.
    ///
    /// # Errors
    /// It is refused and comes back at once, as it was.
    pub fn send(&self, request: Request) -> Result<(), (Request, Refusal)> {
        let figures = self.queue.figures();
        let bytes = request.bytes();
        // Counted before `closed` is looked at: a writer that stops waits for whoever was counted.
        let ahead = figures.queued_requests.fetch_add(1, Ordering::SeqCst);
        let bytes_ahead = figures.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = if figures.closed.load(Ordering::SeqCst) {
            Err((request, Refusal::Stopped))
        } else if let Some(refusal) = self.refused(ahead, bytes_ahead, bytes) {
            Err((request, refusal))
        } else {
            self.hand_over(request)
        };
        match sent {
            Ok(()) => self.outstanding.set(self.outstanding.get() + 1),
            Err(_) => uncount(figures, bytes),
        }
        sent
    }

    fn hand_over(&self, request: Request) -> Result<(), (Request, Refusal)> {
        let parcel = Parcel { request, mailbox: Arc::clone(&self.mailbox) };
        self.queue.sender.try_send(Message::Request(parcel)).map_err(|error| match error {
            TrySendError::Full(Message::Request(parcel)) => (parcel.request, Refusal::QueueFull),
            TrySendError::Disconnected(Message::Request(parcel)) => (parcel.request, Refusal::Stopped),
            TrySendError::Full(_) | TrySendError::Disconnected(_) => unreachable!("a request was sent"),
        })
    }

    /// Has the writer look at what was sent, where it rests.
    pub fn call_writer(&self) {
        self.queue.shared.call_writer();
    }

    /// A request that came back; `None` until the next wake.
    pub fn take(&self) -> Option<Completion> {
        let completion = self.completions.try_recv().ok()?;
        self.outstanding.set(self.outstanding.get() - 1);
        Some(completion)
    }
}

fn uncount(figures: &Figures, bytes: usize) {
    figures.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    figures.queued_requests.fetch_sub(1, Ordering::SeqCst);
}

/// Requests that came together from which on workers go first: taking in so many takes a worker longer than a sync takes. So the
/// processor is what is short, and fewer syncs spare it; below, the disk is, and is not kept waiting.
const GATHERED_MIN: usize = 64;

/// The writer's side.
#[derive(Debug)]
pub(super) struct Intake {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    /// What ended the wait.
    held: Option<Message>,
    /// Requests since the wait before.
    taken: usize,
    order: Option<Order>,
    is_stopping: bool,
}

impl Intake {
    /// Waits until it is called, at most so long; not at all where something is there. Where many were taken before and fewer are
    /// there, the others are likely on their way: a worker that shares the core goes first, so that one batch takes more of them.
    pub(super) fn wait(&mut self, at_most: Option<Duration>) {
        self.shared.writer.get_or_init(thread::current);
        match self.receiver.try_recv() {
            Ok(message) => self.held = Some(message),
            Err(TryRecvError::Disconnected) => self.is_stopping = true,
            // A call that came before this is not lost: it lets the thread through.
            Err(TryRecvError::Empty) => at_most.map_or_else(thread::park, thread::park_timeout),
        }
        let taken = mem::take(&mut self.taken);
        if taken >= GATHERED_MIN && self.waiting() < taken {
            thread::yield_now();
        }
    }

    /// The next request, if there is one.
    pub(super) fn take(&mut self) -> Option<Parcel> {
        loop {
            match self.held.take().or_else(|| self.receiver.try_recv().ok())? {
                Message::Stop => self.is_stopping = true,
                Message::Erase(order) => {
                    uncount(&self.shared.figures, 0);
                    self.order = Some(order);
                }
                Message::Request(parcel) => {
                    uncount(&self.shared.figures, parcel.request.bytes());
                    self.taken += 1;
                    return Some(parcel);
                }
            }
        }
    }

    /// Whom to erase, if that was asked before what was taken last.
    pub(super) fn take_order(&mut self) -> Option<Order> {
        self.order.take()
    }

    /// Whether it is time to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// How many requests are in the queue or on their way into it.
    pub(super) fn waiting(&self) -> usize {
        self.shared.figures.queued_requests.load(Ordering::SeqCst)
    }
}
