//! The writer's part of a checkpoint: when one is made, and the copy of the table, slice by slice between batches.
//!
//! In come the table and how much was recorded; out go entries to the checkpointer, which never makes the writer wait: where it has
//! no room the copy does. What always holds: what is copied is the table as of one seq, at which everything was durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::Figures;
use super::directory::Folder;
use super::format::{Header, Kept};
use super::writer::{Answer, Message, Scribe};
use crate::clock::Clock;
use crate::limits::{
    CHECKPOINT_CHUNK_BYTES, CHECKPOINT_CHUNKS, CHECKPOINT_LOG_BYTES, CHECKPOINT_RETENTION_MS,
    CHECKPOINT_RETRY_MS, CHECKPOINT_SLICE, CHECKPOINT_STOP_MS, CHECKPOINT_WAIT_MS,
};
use crate::visitors::store::table::Table;

/// Entries that are copied before the room for them is looked at again: at most a mebibyte.
const STEP: usize = 64;
/// How long the checkpointer is waited for before the copy is looked at again, where nothing else is to be done.
const LOOK: Duration = Duration::from_millis(CHECKPOINT_WAIT_MS);

/// How checkpoints are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of log between two, at least.
    pub log_bytes: u64,
    /// The bound of the table.
    pub cost_max: u64,
    /// What its keys are hashed with.
    pub secret: [u8; 16],
    /// What a last one may take, in milliseconds; can be made less until then.
    pub stop_ms: Arc<AtomicU64>,
}

impl Options {
    /// For a table of this secret and bound.
    pub fn new(secret: [u8; 16], cost_max: u64) -> Self {
        let stop_ms = Arc::new(AtomicU64::new(CHECKPOINT_STOP_MS));
        Self { log_bytes: CHECKPOINT_LOG_BYTES, cost_max, secret, stop_ms }
    }
}

/// What stands when a server has started.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// The seqs of the checkpoints that may be used, ascending.
    pub generations: Vec<u64>,
    /// The seq of the one that was loaded, and the bytes of its file.
    pub seq: u64,
    /// See there.
    pub bytes: u64,
    /// Whether the next is to be made at once: the bound has changed, or what was there could not be used.
    pub is_outdated: bool,
}

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is none.
    Idle,
    /// The table is copied, as of this seq.
    Copying(u64),
    /// It has failed, and the rest of the copy goes to nobody.
    Discarding,
    /// All of it is on its way to the checkpointer, but for what has no room yet.
    Ending(u64),
    /// The checkpointer is to say what became of it.
    Writing(u64),
}

/// The writer's half.
pub struct Making {
    options: Options,
    messages: SyncSender<Message>,
    answers: Receiver<Answer>,
    figures: Arc<Figures>,
    state: State,
    /// Buffers that may be filled, and the one that is.
    room: Vec<Vec<u8>>,
    chunk: Option<Vec<u8>>,
    /// The last checkpoint's seq, and the bytes of its file.
    seq: u64,
    bytes: u64,
    /// Bytes of log behind the last checkpoint, and those that were there when the attempt began.
    fresh_bytes: u64,
    begun_bytes: u64,
    /// Records since the last slice.
    fresh_records: usize,
    is_outdated: bool,
    is_held_back: bool,
    not_before: Duration,
    /// When one was made last, in this process.
    made_at: Option<Duration>,
}

/// The two halves, for checkpoints in a folder.
pub fn making(
    folder: Folder,
    options: Options,
    standing: Standing,
    figures: Arc<Figures>,
) -> (Making, Scribe) {
    // Room for what can be under way: all buffers, the end of an attempt, and the beginning and the end of the next.
    let (messages, inbox) = sync_channel(CHECKPOINT_CHUNKS + 4);
    let (outbox, answers) = sync_channel(CHECKPOINT_CHUNKS + 4);
    let Standing { generations, seq, bytes, is_outdated } = standing;
    let scribe = Scribe::new(folder, generations, inbox, outbox, Arc::clone(&figures));
    let making = Making {
        options,
        messages,
        answers,
        figures,
        state: State::Idle,
        room: vec![Vec::new(); CHECKPOINT_CHUNKS],
        chunk: None,
        seq,
        bytes,
        fresh_bytes: 0,
        begun_bytes: 0,
        fresh_records: 0,
        is_outdated,
        is_held_back: false,
        not_before: Duration::ZERO,
        made_at: None,
    };
    (making, scribe)
}

impl Making {
    /// So much was folded.
    pub fn folded(&mut self, records: usize, bytes: usize) {
        self.fresh_records += records;
        self.fresh_bytes += bytes as u64;
    }

    /// Retention waits for a checkpoint.
    pub fn held_back(&mut self) {
        self.is_held_back = true;
    }

    /// Somebody was erased as of `seq`: the next is made at once, and no older one is kept beside it.
    pub fn erased(&mut self, seq: u64) {
        self.figures.erased.fetch_max(seq, Ordering::AcqRel);
        self.is_outdated = true;
        if matches!(self.state, State::Copying(_)) {
            self.give_up();
        }
    }

    /// All checkpoints that are kept hold the records up to this seq.
    pub fn covered(&self) -> u64 {
        self.figures.covered()
    }

    /// Does a slice of what there is to do. `durable` is the last seq, where everything up to it is durable and folded. The answer
    /// says when there is more to do, if nothing else comes.
    pub fn between(
        &mut self,
        table: &mut Table,
        clock: &dyn Clock,
        durable: Option<u64>,
    ) -> Option<Duration> {
        let now = clock.monotonic();
        self.hear(now);
        match (self.state, durable) {
            (State::Idle, Some(seq)) if seq > self.seq && self.is_due(now) => {
                if now < self.not_before {
                    return Some(self.not_before - now);
                }
                self.begin(table, seq, clock.now_ms());
                Some(Duration::ZERO)
            }
            (State::Idle, _) => None,
            (State::Copying(_) | State::Discarding, _) => Some(self.slice(table, now)),
            (State::Ending(seq), _) => Some(self.end(seq)),
            (State::Writing(_), _) => Some(LOOK),
        }
    }

    /// Makes a last one, if there is something to keep, in the time that a stop has for it.
    pub fn close(&mut self, table: &mut Table, clock: &dyn Clock, durable: Option<u64>) {
        let Some(seq) = durable else { return };
        let begun = clock.monotonic();
        let limit = Duration::from_millis(self.options.stop_ms.load(Ordering::Relaxed));
        if matches!(self.state, State::Copying(_)) {
            // One of an earlier moment.
            self.give_up();
        }
        let (mut waited, mut has_begun) = (Duration::ZERO, false);
        loop {
            self.hear(clock.monotonic());
            if self.state == State::Idle {
                if seq <= self.seq || has_begun {
                    return;
                }
                self.begin(table, seq, clock.now_ms());
                has_begun = true;
            }
            let wait = self.between(table, clock, None).unwrap_or_default();
            if wait > Duration::ZERO {
                waited += self.wait(wait.min(LOOK), clock);
            }
            if waited.max(clock.monotonic() - begun) >= limit {
                tracing::info!(
                    "no last checkpoint: {} ms are over; the next start reads the log behind seq {}",
                    limit.as_millis(),
                    self.seq
                );
                return;
            }
        }
    }

    fn is_due(&self, now: Duration) -> bool {
        let pause = Duration::from_millis(CHECKPOINT_RETENTION_MS);
        let is_long_ago = self.made_at.is_none_or(|made_at| now - made_at >= pause);
        self.is_outdated
            || self.fresh_bytes >= self.options.log_bytes.max(self.bytes / 4)
            || self.is_held_back && is_long_ago
    }

    fn begin(&mut self, table: &mut Table, seq: u64, made_ms: i64) {
        let Options { secret, cost_max, .. } = self.options;
        let header = Header { seq, made_ms, secret, cost_max, entries: table.len() as u64 };
        table.begin_copy();
        // An attempt that failed at its end left what it had not sent.
        self.room.extend(self.chunk.take().map(emptied));
        self.begun_bytes = self.fresh_bytes;
        self.fresh_records = 0;
        self.state = State::Copying(seq);
        self.send(Message::Begin(header, table.cost()));
    }

    /// Copies some of the table.
    fn slice(&mut self, table: &mut Table, now: Duration) -> Duration {
        let mut left = CHECKPOINT_SLICE + 2 * std::mem::take(&mut self.fresh_records);
        while left > 0 {
            if table.copy_failed() {
                self.lose(now);
                return LOOK;
            }
            if !self.has_room() {
                return LOOK;
            }
            let chunk = &mut self.chunk;
            let is_last = table.copy_some(STEP, &mut |key, value, rank, order| {
                if let Some(chunk) = chunk {
                    Kept { key, order, rank, value }.encode(chunk);
                }
            });
            if is_last {
                self.state = match self.state {
                    State::Copying(seq) => State::Ending(seq),
                    _ => State::Idle,
                };
                return Duration::ZERO;
            }
            left = left.saturating_sub(STEP);
        }
        Duration::ZERO
    }

    /// Whether more can be copied. What goes to nobody needs no room.
    fn has_room(&mut self) -> bool {
        if self.state == State::Discarding {
            self.room.extend(self.chunk.take().map(emptied));
            return true;
        }
        if self.chunk.as_ref().is_some_and(|chunk| chunk.len() >= CHECKPOINT_CHUNK_BYTES)
            && let Some(chunk) = self.chunk.take()
        {
            self.send(Message::Entries(chunk));
        }
        if self.chunk.is_none() {
            self.chunk = self.room.pop();
        }
        self.chunk.is_some()
    }

    fn end(&mut self, seq: u64) -> Duration {
        self.chunk.take().into_iter().for_each(|chunk| self.send(Message::Entries(chunk)));
        self.send(Message::End);
        self.state = State::Writing(seq);
        LOOK
    }

    /// The table changes faster than it is copied.
    fn lose(&mut self, now: Duration) {
        self.figures.given_up.fetch_add(1, Ordering::Relaxed);
        self.not_before = now + Duration::from_millis(CHECKPOINT_RETRY_MS);
        match self.state {
            State::Copying(_) => self.give_up(),
            _ => self.state = State::Idle,
        }
    }

    fn give_up(&mut self) {
        self.room.extend(self.chunk.take().map(emptied));
        self.send(Message::GiveUp);
        self.state = State::Writing(self.seq);
    }

    /// Takes what came back.
    fn hear(&mut self, now: Duration) {
        while let Ok(answer) = self.answers.try_recv() {
            self.heard(answer, now);
        }
    }

    fn heard(&mut self, answer: Answer, now: Duration) {
        match (answer, self.state) {
            (Answer::Room(room), _) => self.room.push(emptied(room)),
            (Answer::Done(bytes), State::Writing(seq)) => {
                (self.seq, self.bytes, self.made_at) = (seq, bytes, Some(now));
                self.fresh_bytes -= self.begun_bytes;
                self.is_outdated = seq < self.figures.erased.load(Ordering::Relaxed);
                self.is_held_back = false;
                self.state = State::Idle;
            }
            // An attempt ends before it is done where it failed only.
            (Answer::Done(_) | Answer::Failed, state) => {
                self.not_before = now + Duration::from_millis(CHECKPOINT_RETRY_MS);
                self.state = if matches!(state, State::Copying(_)) { State::Discarding } else { State::Idle };
            }
        }
    }

    /// Waits for an answer; how long at the most.
    fn wait(&mut self, at_most: Duration, clock: &dyn Clock) -> Duration {
        match self.answers.recv_timeout(at_most) {
            Ok(answer) => {
                self.heard(answer, clock.monotonic());
                Duration::ZERO
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => at_most,
        }
    }

    fn send(&mut self, message: Message) {
        // There is room for all that can be under way; where the checkpointer is gone, nothing comes back and nothing is waited for.
        let _ = self.messages.try_send(message);
    }
}

fn emptied(mut room: Vec<u8>) -> Vec<u8> {
    room.clear();
    room
}
