//! The checkpoint scheduler on the log writer's thread: decides when to make a checkpoint, and copies the
//! table in slices between batches.
//!
//! It sends the copied entries to the checkpointer and never waits for it: if the checkpointer has no free
//! chunk, the copy pauses. Invariant: a copy is the table as of one seq, and all records up to that seq were
//! durable when it began.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::CheckpointMetrics;
use super::directory::CheckpointDirectory;
use super::format::{CheckpointEntry, Header};
use super::writer::{CheckpointWriter, FoldSections, Message, Reply};
use crate::clock::Clock;
use crate::limits::RECENT_TIES_MAX;
use crate::limits::{
    CHECKPOINT_CHUNK_BYTES, CHECKPOINT_CHUNKS, CHECKPOINT_LOG_BYTES_DEFAULT, CHECKPOINT_STOP_MS,
};
use crate::log::LogId;
use crate::record::IdTag;
use crate::visitors::store::table::Table;
use crate::visitors::ties::known::KnownTies;
use crate::visitors::ties::lost::LostAliases;

/// Delay of the next checkpoint after a failed or aborted one, in ms.
pub const CHECKPOINT_RETRY_MS: u64 = 10_000;
/// Shortest time between two checkpoints if retention is the only reason for the second, in ms.
pub const CHECKPOINT_RETENTION_INTERVAL_MS: u64 = 10 * 60 * 1000;

/// Time that a copy waits for the disk before it checks again, in ms.
const CHECKPOINT_WAIT_MS: u64 = 5;

/// Number of entries that the log writer copies between two batches, plus two for each record that it has
/// folded since. An entry takes about 300 ns, so an event that arrives meanwhile waits under a millisecond,
/// and a copy ends at any event rate.
const CHECKPOINT_SLICE_ENTRIES: usize = 1024;

/// Entries copied between two checks of the chunk's size. They take at most 1 MiB.
const STEP_ENTRIES: usize = 64;
/// Time between two polls of the checkpointer while the log writer has nothing else to do.
const POLL_INTERVAL: Duration = Duration::from_millis(CHECKPOINT_WAIT_MS);

/// Options for checkpoints.
#[derive(Debug, Clone)]
pub struct Options {
    /// Minimum bytes of log between two checkpoints.
    pub log_bytes: u64,
    /// Time after which a checkpoint is made of any new record or message. `None` if only `log_bytes` counts.
    pub interval: Option<Duration>,
    /// Memory limit of the table, as a cost in bytes.
    pub cost_max: u64,
    /// Secret with which the table's keys are hashed.
    pub secret: [u8; 16],
    /// The ID of the log.
    pub log_id: LogId,
    /// Time limit of the last checkpoint at shutdown, in milliseconds. It can be lowered until then. At
    /// the limit the checkpoint is skipped.
    pub stop_ms: Arc<AtomicU64>,
}

impl Options {
    /// Returns the default options for a table of this log, with this secret and memory limit.
    pub fn new(secret: [u8; 16], cost_max: u64, log_id: LogId) -> Self {
        let stop_ms = Arc::new(AtomicU64::new(CHECKPOINT_STOP_MS));
        Self { log_bytes: CHECKPOINT_LOG_BYTES_DEFAULT, interval: None, cost_max, secret, log_id, stop_ms }
    }
}

/// The state of the checkpoints when the server starts.
#[derive(Debug, Clone, Default)]
pub struct CheckpointState {
    /// Seqs of the usable checkpoints, ascending.
    pub generations: Vec<u64>,
    /// Seq of the loaded checkpoint.
    pub seq: u64,
    /// Size of the loaded checkpoint, in bytes.
    pub bytes: u64,
    /// True if the next checkpoint must be made at once, because the memory limit has changed or a
    /// checkpoint was not usable.
    pub is_outdated: bool,
}

/// The fold of which checkpoints are made.
pub struct Fold<'f> {
    /// The table of visitors.
    pub table: &'f mut Table,
    /// The IDs that lost their alias.
    pub lost: &'f LostAliases,
    /// The entries of ownership and the known sites.
    pub known: &'f KnownTies,
    /// Visitors evicted since the first record of the log.
    pub evicted: u64,
    /// Encodes the state of a node of a cluster. It returns nothing if the server is alone.
    pub stream: &'f mut dyn FnMut() -> Vec<u8>,
}

/// The phase of an attempt to make a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No attempt is in progress.
    Idle,
    /// The table is being copied as of this seq.
    Copying(u64),
    /// The attempt has failed, and the rest of the copy is discarded.
    Discarding,
    /// The copy is complete, and its last chunk still has to be sent.
    Finishing(u64),
    /// The end or the abort was sent, and the checkpointer has not reported the result yet.
    Writing(u64),
}

/// A scheduler of checkpoints, used by the log writer.
pub struct CheckpointScheduler {
    options: Options,
    messages: SyncSender<Message>,
    replies: Receiver<Reply>,
    metrics: Arc<CheckpointMetrics>,
    phase: Phase,
    /// Free buffers, and the buffer that is being filled.
    free_chunks: Vec<Vec<u8>>,
    chunk: Option<Vec<u8>>,
    /// Seq of the last checkpoint, and the size of its file.
    seq: u64,
    bytes: u64,
    /// Bytes of log after the last checkpoint, and the value of this when the attempt began.
    log_bytes_since_last: u64,
    log_bytes_at_begin: u64,
    /// Records folded since the last slice.
    records_since_slice: usize,
    is_outdated: bool,
    is_retention_blocked: bool,
    /// The number of requests for a checkpoint when the attempt began, and the erased users that it leaves
    /// out.
    requests_at_begin: u64,
    erased_at_begin: Vec<(IdTag, u64)>,
    not_before: Duration,
    /// Time of the last checkpoint that this process made.
    written_at: Option<Duration>,
}

/// Creates a scheduler and a writer for the checkpoints of a directory, connected by channels.
pub fn build_checkpointer(
    dir: CheckpointDirectory,
    options: Options,
    state: CheckpointState,
    metrics: Arc<CheckpointMetrics>,
) -> (CheckpointScheduler, CheckpointWriter) {
    // Capacity for all messages that can be in flight: every chunk, the end of an attempt, and the begin
    // and end of the next attempt.
    let (messages, message_receiver) = sync_channel(CHECKPOINT_CHUNKS + 4);
    let (reply_sender, replies) = sync_channel(CHECKPOINT_CHUNKS + 4);
    let CheckpointState { generations, seq, bytes, is_outdated } = state;
    let writer =
        CheckpointWriter::new(dir, generations, message_receiver, reply_sender, Arc::clone(&metrics));
    let scheduler = CheckpointScheduler {
        options,
        messages,
        replies,
        metrics,
        phase: Phase::Idle,
        free_chunks: vec![Vec::new(); CHECKPOINT_CHUNKS],
        chunk: None,
        seq,
        bytes,
        log_bytes_since_last: 0,
        log_bytes_at_begin: 0,
        records_since_slice: 0,
        is_outdated,
        is_retention_blocked: false,
        requests_at_begin: 0,
        erased_at_begin: Vec::new(),
        not_before: Duration::ZERO,
        written_at: None,
    };
    (scheduler, writer)
}

impl CheckpointScheduler {
    /// Counts folded records, and their bytes in the log.
    pub fn on_folded(&mut self, record_count: usize, bytes: usize) {
        self.records_since_slice += record_count;
        self.log_bytes_since_last += bytes as u64;
    }

    /// Notes that retention waits for a checkpoint.
    pub fn on_retention_blocked(&mut self) {
        self.is_retention_blocked = true;
    }

    /// Returns the last seq whose records are in all checkpoints.
    pub fn checkpointed_seq(&self) -> u64 {
        self.metrics.checkpointed_seq()
    }

    /// Does one slice of the pending work. `durable_seq` is the last seq if all records up to it are durable
    /// and folded. Returns the time after which to call this again if nothing else happens.
    pub fn on_idle(
        &mut self,
        fold: &mut Fold<'_>,
        clock: &dyn Clock,
        durable_seq: Option<u64>,
    ) -> Option<Duration> {
        let now = clock.monotonic();
        self.receive_replies(fold, now);
        match (self.phase, durable_seq) {
            (Phase::Idle, Some(seq)) if self.is_due(fold, seq, now) => {
                if now < self.not_before {
                    return Some(self.not_before - now);
                }
                self.begin(fold, seq, clock.now_ms());
                Some(Duration::ZERO)
            }
            (Phase::Idle, Some(seq)) if seq > self.seq => {
                self.due_at().map(|due_at| due_at.saturating_sub(now))
            }
            (Phase::Idle, _) => None,
            (Phase::Copying(_) | Phase::Discarding, _) => Some(self.copy_slice(fold.table, now)),
            (Phase::Finishing(seq), _) => Some(self.finish_copy(seq)),
            (Phase::Writing(_), _) => Some(POLL_INTERVAL),
        }
    }

    /// Makes a last checkpoint at shutdown, if there are new records, within the time limit.
    pub fn close(&mut self, fold: &mut Fold<'_>, clock: &dyn Clock, durable_seq: Option<u64>) {
        let Some(seq) = durable_seq else { return };
        let begun = clock.monotonic();
        let limit_ms = self.options.stop_ms.load(Ordering::Relaxed);
        let limit = Duration::from_millis(limit_ms);
        if matches!(self.phase, Phase::Copying(_)) {
            // That copy is of an earlier seq.
            self.abort();
        }
        let mut buffered = Duration::ZERO;
        let mut has_begun = false;
        loop {
            self.receive_replies(fold, clock.monotonic());
            if self.phase == Phase::Idle {
                if seq <= self.seq || has_begun {
                    return;
                }
                self.begin(fold, seq, clock.now_ms());
                has_begun = true;
            }
            let wait = self.on_idle(fold, clock, None).unwrap_or_default();
            if wait > Duration::ZERO {
                buffered += self.wait_for_reply(fold, wait.min(POLL_INTERVAL), clock);
            }
            if buffered.max(clock.monotonic() - begun) >= limit {
                tracing::info!(
                    limit_ms,
                    last_checkpoint = self.seq,
                    "skipped the last checkpoint: time limit reached; the next start folds the log from the previous one"
                );
                return;
            }
        }
    }

    /// Returns the time of the next checkpoint by the interval, on the monotonic clock, which begins with the process.
    fn due_at(&self) -> Option<Duration> {
        Some(self.written_at.unwrap_or_default() + self.options.interval?)
    }

    /// Returns whether a checkpoint as of `seq` is due. A request needs one even if no record was added.
    fn is_due(&self, fold: &Fold<'_>, seq: u64, now: Duration) -> bool {
        let pause = Duration::from_millis(CHECKPOINT_RETENTION_INTERVAL_MS);
        let is_long_ago = self.written_at.is_none_or(|made_at| now - made_at >= pause);
        let has_grown = self.is_outdated
            || self.log_bytes_since_last >= self.options.log_bytes.max(self.bytes / 4)
            || self.is_retention_blocked && is_long_ago
            || self.due_at().is_some_and(|due_at| now >= due_at)
            || fold.known.recent_len() >= RECENT_TIES_MAX;
        self.metrics.has_request() || seq > self.seq && has_grown
    }

    fn begin(&mut self, fold: &mut Fold<'_>, seq: u64, created_ms: i64) {
        let Options { secret, cost_max, log_id, .. } = self.options;
        let Fold { table, lost, known, evicted, stream } = fold;
        let entries = table.len() as u64;
        let evicted = *evicted;
        self.requests_at_begin = self.metrics.requested.load(Ordering::Acquire);
        let replaces_all = self.metrics.must_replace_all();
        let ties = known.copy();
        let key_check = ties.key_check;
        let header = Header { seq, created_ms, secret, cost_max, entries, log_id, evicted, key_check };
        self.erased_at_begin.clone_from(&ties.erased);
        let sections = FoldSections { ties, lost: (*lost).clone(), stream: stream(), replaces_all };
        table.begin_copy();
        // A previous attempt that failed at its end may have left an unsent chunk.
        self.free_chunks.extend(self.chunk.take().map(cleared));
        self.log_bytes_at_begin = self.log_bytes_since_last;
        self.records_since_slice = 0;
        self.phase = Phase::Copying(seq);
        self.send(Message::Begin(header, table.cost(), Box::new(sections)));
    }

    /// Copies one slice of the table.
    fn copy_slice(&mut self, table: &mut Table, now: Duration) -> Duration {
        let mut left = CHECKPOINT_SLICE_ENTRIES + 2 * std::mem::take(&mut self.records_since_slice);
        while left > 0 {
            // Without a copy, `copy_chunk` would never return true.
            if !table.is_copying() {
                self.abort_copy(now);
                return POLL_INTERVAL;
            }
            if !self.prepare_chunk() {
                return POLL_INTERVAL;
            }
            let chunk = &mut self.chunk;
            let is_last = table.copy_chunk(STEP_ENTRIES, &mut |key, value, rank, order| {
                if let Some(chunk) = chunk {
                    CheckpointEntry { key, order, class: rank, value }.encode(chunk);
                }
            });
            if is_last {
                self.phase = match self.phase {
                    Phase::Copying(seq) => Phase::Finishing(seq),
                    _ => Phase::Idle,
                };
                return Duration::ZERO;
            }
            left = left.saturating_sub(STEP_ENTRIES);
        }
        Duration::ZERO
    }

    /// Sends a full chunk and takes a free one. Returns whether the copy can continue. A copy that is
    /// discarded needs no chunk.
    fn prepare_chunk(&mut self) -> bool {
        if self.phase == Phase::Discarding {
            self.free_chunks.extend(self.chunk.take().map(cleared));
            return true;
        }
        if self.chunk.as_ref().is_some_and(|chunk| chunk.len() >= CHECKPOINT_CHUNK_BYTES)
            && let Some(chunk) = self.chunk.take()
        {
            self.send(Message::Entries(chunk));
        }
        if self.chunk.is_none() {
            self.chunk = self.free_chunks.pop();
        }
        self.chunk.is_some()
    }

    fn finish_copy(&mut self, seq: u64) -> Duration {
        self.chunk.take().into_iter().for_each(|chunk| self.send(Message::Entries(chunk)));
        self.send(Message::End);
        self.phase = Phase::Writing(seq);
        POLL_INTERVAL
    }

    /// Ends an attempt whose copy was aborted, because the table changed faster than it was copied.
    fn abort_copy(&mut self, now: Duration) {
        self.metrics.aborted.fetch_add(1, Ordering::Relaxed);
        self.not_before = now + Duration::from_millis(CHECKPOINT_RETRY_MS);
        match self.phase {
            Phase::Copying(_) => self.abort(),
            _ => self.phase = Phase::Idle,
        }
    }

    fn abort(&mut self) {
        self.free_chunks.extend(self.chunk.take().map(cleared));
        self.send(Message::Abort);
        self.phase = Phase::Writing(self.seq);
    }

    /// Handles all replies of the checkpointer that have arrived.
    fn receive_replies(&mut self, fold: &Fold<'_>, now: Duration) {
        while let Ok(reply) = self.replies.try_recv() {
            self.on_reply(fold, reply, now);
        }
    }

    fn on_reply(&mut self, fold: &Fold<'_>, reply: Reply, now: Duration) {
        match (reply, self.phase) {
            (Reply::Chunk(room), _) => self.free_chunks.push(cleared(room)),
            (Reply::Done { bytes, is_complete }, Phase::Writing(seq)) => {
                (self.seq, self.bytes, self.written_at) = (seq, bytes, Some(now));
                self.log_bytes_since_last -= self.log_bytes_at_begin;
                self.is_outdated = false;
                fold.known.on_checkpoint(seq, &self.erased_at_begin);
                if is_complete {
                    self.metrics.fulfilled.fetch_max(self.requests_at_begin, Ordering::AcqRel);
                } else {
                    // The request remains, so the next checkpoint tries again to delete the others.
                    self.not_before = now + Duration::from_millis(CHECKPOINT_RETRY_MS);
                }
                self.is_retention_blocked = false;
                self.phase = Phase::Idle;
            }
            // The attempt has failed. Done is only valid after all entries were sent.
            (Reply::Done { .. } | Reply::Failed, state) => {
                self.not_before = now + Duration::from_millis(CHECKPOINT_RETRY_MS);
                self.phase = if matches!(state, Phase::Copying(_)) { Phase::Discarding } else { Phase::Idle };
            }
        }
    }

    /// Waits for a reply. Returns `timeout` if none arrives in that time, and zero otherwise.
    fn wait_for_reply(&mut self, fold: &Fold<'_>, timeout: Duration, clock: &dyn Clock) -> Duration {
        match self.replies.recv_timeout(timeout) {
            Ok(reply) => {
                self.on_reply(fold, reply, clock.monotonic());
                Duration::ZERO
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => timeout,
        }
    }

    fn send(&mut self, message: Message) {
        // The channel has capacity for all messages in flight. If the checkpointer is gone, no reply comes
        // and none is waited for.
        let _ = self.messages.try_send(message);
    }
}

fn cleared(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer
}
