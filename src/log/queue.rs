//! The queue from the workers to the log writer, and the completions on the way back.
//!
//! A request is a buffer of encoded records. The queue accepts it as a whole or rejects it at once. Every
//! accepted request returns through the client that sent it, with its buffers, so that the worker can reuse
//! them. The writer wakes a worker once for all completions of a batch. A worker notifies the writer once for
//! all requests of one iteration of its loop. Otherwise the first request would wake the writer and be synced
//! alone.
//!
//! The queue is bounded in requests and bytes. Each client is bounded in requests whose completions it has
//! not taken. So there is always room for a completion, and the writer never waits for a worker.

// The core without a server includes this file by its path, and rustfmt then looks for this module in another directory.
#[cfg(feature = "server")]
#[path = "queue/erasing.rs"]
mod erasing;

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};

use super::erase::EraseCommand;
use super::metrics::LogMetrics;
use crate::acknowledgement::{Ack, RecordResult};
use crate::limits::{OUTSTANDING_REQUESTS_MAX, REQUEST_BYTES_MAX};
use crate::record::{self, Record, RecordError};

/// A callback that tells a worker about new completions. The writer's thread calls it.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A group of records that are persisted or fail together, with the result of each.
#[derive(Debug, Default)]
pub struct Request {
    /// A number for the sender's use. The writer ignores it.
    pub token: u64,
    records: Vec<u8>,
    results: Vec<RecordResult>,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Every accepted record survives a power cut and has been passed to the consumer.
    Durable,
    /// Every accepted record survives the process and has been passed to the consumer. The sync follows.
    Written,
    /// The disk failed and no record was accepted.
    DiskUnavailable,
}

impl WriteOutcome {
    /// Returns the outcome of a request that was persisted for `ack`.
    pub(super) fn of(ack: Ack) -> Self {
        match ack {
            Ack::Disk => Self::Durable,
            Ack::Written => Self::Written,
        }
    }

    /// Returns the acknowledgement of the request; `None` if it was not persisted.
    pub fn ack(self) -> Option<Ack> {
        match self {
            Self::Durable => Some(Ack::Disk),
            Self::Written => Some(Ack::Written),
            Self::DiskUnavailable => None,
        }
    }
}

/// A request that the writer has completed.
#[derive(Debug)]
pub struct Completion {
    /// The outcome. The request's results are valid unless this is [`WriteOutcome::DiskUnavailable`].
    pub outcome: WriteOutcome,
    /// Whether the next resolve of each visitor sees the events. `None`: it does, because this server is alone.
    pub visible: Option<bool>,
    /// The request itself, returned so that its buffers can be reused.
    pub request: Request,
}

/// An error while sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too many requests or bytes are queued or outstanding.
    #[error("the log queue is full; retry later")]
    QueueFull,
    /// The disk has failed and the writer retries after a pause.
    #[error("the disk does not accept events; retry later")]
    DiskUnavailable,
    /// The log was stopped.
    #[error("the log was stopped")]
    Stopped,
}

impl Request {
    /// Creates a request without records.
    pub fn new(token: u64) -> Self {
        Self { token, ..Self::default() }
    }

    /// Removes all records and results. The buffers keep their capacity.
    pub fn clear(&mut self) {
        self.records.clear();
        self.results.clear();
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The record or the request exceeds a limit. The request is then unchanged.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), RecordError> {
        let before = self.records.len();
        record.encode(&mut self.records)?;
        let length = self.records.len();
        if length > REQUEST_BYTES_MAX {
            self.records.truncate(before);
            return Err(RecordError::RequestTooLong(length));
        }
        Ok(())
    }

    /// Returns the results of a completed request, in the order in which the records were added.
    pub fn results(&self) -> &[RecordResult] {
        &self.results
    }

    /// Iterates over the records in the order in which they were added.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = self.records.as_slice();
        std::iter::from_fn(move || {
            let (record, length) = Record::decode(rest)?;
            rest = &rest[length..];
            Some(record)
        })
    }

    /// Returns the site of the first record.
    pub fn site(&self) -> Option<&str> {
        record::site(&self.records)
    }

    /// Returns the capacity of the record buffer, in bytes.
    pub fn capacity(&self) -> usize {
        self.records.capacity()
    }

    /// Returns the length of the records, in bytes.
    pub fn byte_len(&self) -> usize {
        self.records.len()
    }

    /// Iterates over the encoded records.
    pub(super) fn iter_encoded(&self) -> impl Iterator<Item = &[u8]> {
        record::encoded_records(&self.records)
    }

    /// Changes the result of each record.
    pub(super) fn change_results(&mut self, change: impl Fn(RecordResult) -> RecordResult) {
        self.results.iter_mut().for_each(|result| *result = change(*result));
    }

    /// Calls `decide` for each encoded record and stores the results.
    pub(super) fn set_results(&mut self, decide: impl FnMut(&[u8]) -> RecordResult) {
        self.results.extend(record::encoded_records(&self.records).map(decide));
    }
}

/// The workers' side of the queue. Each worker has a [`LogClient`] of its own.
#[derive(Debug, Clone)]
pub struct Queue {
    sender: Sender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    metrics: Arc<LogMetrics>,
    requests_max: usize,
    bytes_max: usize,
    /// The writer's thread. Set when it first waits.
    writer: OnceLock<Thread>,
}

impl Shared {
    fn notify_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

#[derive(Debug)]
enum Message {
    Request(QueuedRequest),
    Erase(EraseCommand),
    Stop,
}

/// A request in the queue, with the completion queue of its client.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    pub(super) request: Request,
    pub(super) completion_queue: Arc<CompletionQueue>,
}

/// The sending side of a client's completions.
pub(super) struct CompletionQueue {
    sender: Sender<Completion>,
    wake: Wake,
    /// The number of the last batch that pushed a completion here.
    last_batch: AtomicU64,
}

impl std::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompletionQueue").field("waiting", &self.sender.len()).finish_non_exhaustive()
    }
}

impl CompletionQueue {
    /// Pushes a completion. Returns whether it is the first one of this batch.
    pub(super) fn push(&self, completion: Completion, batch_number: u64) -> bool {
        // There is room for all outstanding requests of the client. A dropped client needs no completion.
        let _ = self.sender.try_send(completion);
        self.last_batch.swap(batch_number, Ordering::Relaxed) != batch_number
    }

    pub(super) fn wake(&self) {
        (self.wake)();
    }
}

/// Creates a queue and its receiver. The queue holds at most `requests_max` requests and `bytes_max` bytes.
pub fn channel(requests_max: usize, bytes_max: usize, metrics: Arc<LogMetrics>) -> (Queue, QueueReceiver) {
    // Two more slots, so that the stop message and the erase message, of which there is at most one each,
    // always fit.
    let (sender, receiver) = bounded(requests_max + 2);
    let writer = OnceLock::new();
    let shared = Arc::new(Shared { metrics, requests_max, bytes_max, writer });
    let queue_receiver = QueueReceiver {
        receiver,
        shared: Arc::clone(&shared),
        peeked: None,
        taken_count: 0,
        erase_command: None,
        is_stopping: false,
    };
    (Queue { sender, shared }, queue_receiver)
}

impl Queue {
    /// Creates a client for one worker. The writer calls `wake` when it has pushed completions.
    pub fn client(&self, wake: Wake) -> LogClient {
        let (sender, completions) = bounded(OUTSTANDING_REQUESTS_MAX);
        let completion_queue = Arc::new(CompletionQueue { sender, wake, last_batch: AtomicU64::new(0) });
        LogClient { queue: self.clone(), completion_queue, completions, outstanding: Cell::new(0) }
    }

    /// Returns the log's metrics.
    pub fn metrics(&self) -> &Arc<LogMetrics> {
        &self.shared.metrics
    }

    /// Sends the command of an erasure. Returns whether the writer will handle it.
    pub(super) fn send_erase(&self, command: EraseCommand) -> bool {
        // Count the command like a request, so that a stopping writer still handles it.
        self.metrics().queued_requests.fetch_add(1, Ordering::SeqCst);
        let is_closed = self.metrics().closed.load(Ordering::SeqCst);
        if is_closed || self.sender.try_send(Message::Erase(command)).is_err() {
            count_dequeued(self.metrics(), 0);
            return false;
        }
        self.shared.notify_writer();
        true
    }

    /// Makes the writer run a step, for example because a checkpoint was requested.
    pub fn wake_writer(&self) {
        self.shared.notify_writer();
    }

    /// Stops the log. Clients reject new requests, and the writer ends after it has completed the accepted
    /// ones.
    pub fn stop(&self) {
        if !self.metrics().closed.swap(true, Ordering::SeqCst) {
            // There is room for this message. If the writer is gone, the log has stopped already.
            let _ = self.sender.try_send(Message::Stop);
            self.shared.notify_writer();
        }
    }
}

/// A worker's handle to the log: sends requests to the writer and takes back completions.
#[derive(Debug)]
pub struct LogClient {
    queue: Queue,
    completion_queue: Arc<CompletionQueue>,
    completions: Receiver<Completion>,
    outstanding: Cell<usize>,
}

impl LogClient {
    /// Returns the error that even the smallest request would get now. The caller checks this before it
    /// encodes a request. [`send`](Self::send) may still reject the request.
    pub fn precheck(&self) -> Option<SendError> {
        let metrics = self.queue.metrics();
        let queued_requests = metrics.queued_requests.load(Ordering::Relaxed);
        let queued_bytes = metrics.queued_bytes.load(Ordering::Relaxed);
        if metrics.closed.load(Ordering::Relaxed) {
            return Some(SendError::Stopped);
        }
        self.capacity_error(queued_requests, queued_bytes, 0)
    }

    /// Returns the error that `bytes` more would get, given the queued requests and bytes. Ignores whether
    /// the log is stopped.
    fn capacity_error(&self, queued_count: usize, queued_bytes: usize, bytes: usize) -> Option<SendError> {
        let Shared { metrics, requests_max, bytes_max, .. } = &*self.queue.shared;
        let fits = queued_count < *requests_max
            && queued_bytes + bytes <= *bytes_max
            && self.outstanding.get() < OUTSTANDING_REQUESTS_MAX;
        if !metrics.is_available() {
            return Some(SendError::DiskUnavailable);
        }
        (!fits).then_some(SendError::QueueFull)
    }

    /// Enqueues a request without blocking. The caller then calls [`notify_writer`](Self::notify_writer).
    ///
    /// # Errors
    /// The queue rejects the request and returns it unchanged.
    pub fn send(&self, request: Request) -> Result<(), (Request, SendError)> {
        let metrics = self.queue.metrics();
        let bytes = request.byte_len();
        // Count the request before reading `closed`: a stopping writer waits for all counted requests.
        let queued_requests = metrics.queued_requests.fetch_add(1, Ordering::SeqCst);
        let queued_bytes = metrics.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = if metrics.closed.load(Ordering::SeqCst) {
            Err((request, SendError::Stopped))
        } else if let Some(refusal) = self.capacity_error(queued_requests, queued_bytes, bytes) {
            Err((request, refusal))
        } else {
            self.enqueue(request)
        };
        match sent {
            Ok(()) => self.outstanding.set(self.outstanding.get() + 1),
            Err(_) => count_dequeued(metrics, bytes),
        }
        sent
    }

    fn enqueue(&self, request: Request) -> Result<(), (Request, SendError)> {
        let queued = QueuedRequest { request, completion_queue: Arc::clone(&self.completion_queue) };
        self.queue.sender.try_send(Message::Request(queued)).map_err(|error| match error {
            TrySendError::Full(Message::Request(queued)) => (queued.request, SendError::QueueFull),
            TrySendError::Disconnected(Message::Request(queued)) => (queued.request, SendError::Stopped),
            TrySendError::Full(_) | TrySendError::Disconnected(_) => unreachable!("a request was sent"),
        })
    }

    /// Wakes the writer, if it is parked, to handle the requests that were sent.
    pub fn notify_writer(&self) {
        self.queue.shared.notify_writer();
    }

    /// Returns the next completed request. `None`: there is none until the next wake.
    pub fn next_completion(&self) -> Option<Completion> {
        let completion = self.completions.try_recv().ok()?;
        self.outstanding.set(self.outstanding.get() - 1);
        Some(completion)
    }
}

fn count_dequeued(metrics: &LogMetrics, bytes: usize) {
    metrics.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    metrics.queued_requests.fetch_sub(1, Ordering::SeqCst);
}

/// Requests of one round at or above which the writer yields to the workers before it drains the queue. A
/// worker needs longer to receive this many requests than a sync takes. So the CPU is the bottleneck, and
/// fewer syncs save CPU time. Below this number the disk is the bottleneck, and the writer starts at once.
const YIELD_REQUESTS_MIN: usize = 64;

/// The writer's side of the queue.
#[derive(Debug)]
pub struct QueueReceiver {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    /// The message that ended the last wait. It is taken before the queued ones.
    peeked: Option<Message>,
    /// Requests taken since the last wait.
    taken_count: usize,
    erase_command: Option<EraseCommand>,
    is_stopping: bool,
}

impl QueueReceiver {
    /// Parks until it is notified or `timeout` has passed. Does not park if a message is queued. If many
    /// requests were taken before this call and fewer are queued now, the rest are probably about to arrive.
    /// Then it yields once, so that a worker on the same core runs first and the next batch holds more
    /// requests.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) {
        self.shared.writer.get_or_init(thread::current);
        match self.receiver.try_recv() {
            Ok(message) => self.peeked = Some(message),
            Err(TryRecvError::Disconnected) => self.is_stopping = true,
            // An earlier notification is not lost: `park` then returns at once.
            Err(TryRecvError::Empty) => timeout.map_or_else(thread::park, thread::park_timeout),
        }
        let taken = mem::take(&mut self.taken_count);
        if taken >= YIELD_REQUESTS_MIN && self.queued_requests() < taken {
            thread::yield_now();
        }
    }

    /// Lets notifications wake the present thread. [`wait`](Self::wait) does so too.
    #[cfg(feature = "cluster")]
    pub(super) fn adopt_thread(&self) {
        self.shared.writer.get_or_init(thread::current);
    }

    /// Takes the next request, if there is one.
    pub(super) fn take(&mut self) -> Option<QueuedRequest> {
        loop {
            match self.peeked.take().or_else(|| self.receiver.try_recv().ok())? {
                Message::Stop => self.is_stopping = true,
                Message::Erase(command) => {
                    count_dequeued(&self.shared.metrics, 0);
                    self.erase_command = Some(command);
                }
                Message::Request(queued) => {
                    count_dequeued(&self.shared.metrics, queued.request.byte_len());
                    self.taken_count += 1;
                    return Some(queued);
                }
            }
        }
    }

    /// Takes the erase command, if one arrived before the request that was taken last.
    pub(super) fn take_erase_command(&mut self) -> Option<EraseCommand> {
        self.erase_command.take()
    }

    /// Returns whether the stop message has arrived.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns the number of requests that are queued or being enqueued.
    pub(super) fn queued_requests(&self) -> usize {
        self.shared.metrics.queued_requests.load(Ordering::SeqCst)
    }
}
