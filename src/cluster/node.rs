//! A node: drives the rules on the log writer's thread. It owns the state of the stream, and changes the
//! table of visitors only with the records that the stream returns.
//!
//! The writer calls it with each durable batch, and between batches. It never waits: the thread `cluster`
//! talks to the stream.
//!
//! ```text
//! own records --push--> OwnRecords --forward--> Command::Append --> stream
//!                                                                     |
//! table <--apply-- filter::step <--follow-- EventKind::Message <------+
//! ```

mod checkpoints;
mod erasures;
mod follow;
mod heartbeat;
mod standing;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acknowledge::WaitingRequests;
use super::erasing::{ErasureLink, read_erased};
use super::follow::{Follower, Head, OwnLog, ReturnHistory};
use super::forward::{Forwarder, fill_run};
use super::identity::{Identity, random_bits};
use super::join::{NotReady, Progress, Readiness};
use super::link::{Command, StreamEnd, WriterLink};
use super::members::{Membership, Standing};
use super::message::{Decoder, Encoder, Header, Kind};
use super::own_log::OwnRecords;
use super::positions::PositionsFile;
use super::producer::{PRODUCER_FILE, Producer, ProducerId};
use super::secret::ClusterKeys;
use super::shared_log::{LogSeqs, SharedLog};
use super::state::{SavedState, StreamState};
use crate::clock::Clock;
use crate::ids;
use crate::log::{DurableBatch, Records};
use crate::metrics::cluster::{ClusterMetrics, ClusterState};
use crate::storage;
use crate::storage::disk::Disk;
use crate::visitors::live::ProfileTable;

/// Time between two writes of the file `producer` while records return, in ms.
const PRODUCER_SAVE_MS: i64 = 60_000;
/// Time for which retention keeps a record after its return, in ms.
const RETAINED_MS: i64 = 24 * 60 * 60 * 1_000;
/// Time that the node works between two batches. A message that has begun is finished: at most 256 KiB of
/// records, about a millisecond.
const SLICE: Duration = Duration::from_micros(100);
/// Messages that one slice sends at most. Compressing one takes up to 0.3 ms.
const SENDS_PER_SLICE: usize = 2;
/// Time to the next look while records are under way, in ms: the forwarder goes back after 2 s.
const LOOK_MS: i64 = 500;

/// The settings and the parts of a node.
pub(crate) struct NodeParts {
    pub(crate) directory: PathBuf,
    pub(crate) outbox: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) keys: ClusterKeys,
    pub(crate) producer: Producer,
    /// True if the file `producer` exists.
    pub(crate) is_producer_saved: bool,
    /// The last seq of the own log at the start.
    pub(crate) last_seq: u64,
    /// The state of the checkpoint from which the table was restored. `None`: the table is empty.
    pub(crate) saved: Option<SavedState>,
    pub(crate) return_timeout: Duration,
    pub(crate) readiness: Readiness,
    /// Greatest cost of the table that this node allows.
    pub(crate) cost_max: u64,
    pub(crate) link: WriterLink,
    pub(crate) shared: SharedLog,
    pub(crate) positions: PositionsFile,
    pub(crate) erasures: ErasureLink,
    pub(crate) metrics: Arc<ClusterMetrics>,
}

/// The relation of the node to the stream.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// No connection.
    Disconnected,
    /// The message at a position was asked for, to check the state or the candidate.
    Checking,
    /// Messages are read.
    Following,
    /// The node must not follow the stream. The operator has to act.
    Stopped,
}

/// A node of a cluster.
pub(crate) struct Node {
    directory: PathBuf,
    outbox: PathBuf,
    disk: Arc<dyn Disk>,
    keys: ClusterKeys,
    link: WriterLink,
    metrics: Arc<ClusterMetrics>,
    connection: u64,
    phase: Phase,
    /// True if a NATS server has answered on the present connection.
    is_reachable: bool,
    membership: Membership,
    standing: Standing,
    forbidden: standing::ForbiddenMessages,
    /// True if the loaded state knows the log of this directory, and not its instance as a member.
    was_removed: bool,
    /// `None` before the first message of the era was read.
    state: Option<StreamState>,
    /// The content of a file of `new-era` that waits for the message of its era.
    unfounded: Option<SavedState>,
    /// States from which the node can continue if the present one is not of the stream, the best last.
    candidates: Vec<checkpoints::Candidate>,
    /// The states of the checkpoints that this process has written.
    kept: checkpoints::KeptStates,
    follower: Follower,
    forwarder: Forwarder,
    waiting: WaitingRequests<DurableBatch>,
    history: ReturnHistory,
    heartbeats: heartbeat::Heartbeats,
    positions: PositionsFile,
    erasures: erasures::Erasures,
    /// The log of the cluster.
    shared: SharedLog,
    log_seqs: LogSeqs,
    /// A message whose records the log of the cluster does not have yet, because the disk fails.
    stalled: Option<follow::AcceptedRecords>,
    log: OwnRecords,
    encoder: Encoder,
    decoder: Decoder,
    payload: Vec<u8>,
    cost_max: u64,
    producer_saved_ms: i64,
    /// The time of the last processed message. `None`: the clock of the state.
    last_message_ms: Option<i64>,
    /// The last known end of the stream.
    end: StreamEnd,
    readiness: Readiness,
    /// True after recovery has passed all own records, and the loaded state was compared with them.
    is_recovered: bool,
    /// The extent of the stream at the connection.
    head: Option<Head>,
    /// The last seq that was sent under the present producer ID.
    sent_before: u64,
}

impl Node {
    /// Creates a node without a connection. Recovery passes the own records after the returned ones.
    ///
    /// # Errors
    /// There is no memory for the compressor.
    pub(crate) fn new(parts: NodeParts) -> std::io::Result<Self> {
        let NodeParts { directory, outbox, disk, keys, producer, is_producer_saved, saved, .. } = parts;
        let (founded, unfounded) = match saved {
            Some(saved) if saved.position == 0 => (None, Some(saved)),
            saved => (saved, None),
        };
        let state = founded.map(|saved| saved.restore(ids::random_u64()));
        let follower = Follower::new(producer, is_producer_saved);
        let returned = returned_of(&follower.producer, state.as_ref(), unfounded.as_ref());
        let log = OwnRecords::new(Arc::clone(&disk), &outbox, returned.min(parts.last_seq));
        let node = Self {
            erasures: erasures::Erasures::new(parts.erasures, read_erased(&outbox)),
            directory,
            outbox,
            shared: parts.shared,
            log_seqs: LogSeqs::default(),
            stalled: None,
            disk,
            keys,
            link: parts.link,
            metrics: parts.metrics,
            connection: 0,
            phase: Phase::Disconnected,
            is_reachable: false,
            membership: Membership::new(parts.identity),
            standing: Standing::Applicant,
            forbidden: standing::ForbiddenMessages::default(),
            was_removed: false,
            state,
            unfounded,
            candidates: Vec::new(),
            kept: checkpoints::KeptStates::default(),
            follower,
            forwarder: Forwarder::new(returned),
            waiting: WaitingRequests::new(milliseconds(parts.return_timeout)),
            history: ReturnHistory::new(RETAINED_MS),
            heartbeats: heartbeat::Heartbeats::default(),
            positions: parts.positions,
            log,
            encoder: Encoder::new()?,
            decoder: Decoder::new()?,
            payload: Vec::new(),
            cost_max: parts.cost_max,
            producer_saved_ms: 0,
            last_message_ms: None,
            end: StreamEnd::default(),
            readiness: parts.readiness,
            is_recovered: false,
            head: None,
            sent_before: returned,
        };
        node.publish_refusal();
        Ok(node)
    }

    /// Returns the last own seq that has returned. Recovery passes the records after it.
    pub(crate) fn returned(&self) -> u64 {
        returned_of(&self.follower.producer, self.state.as_ref(), self.unfounded.as_ref())
    }

    /// Compares the own log with the state of the start. Called after recovery and before the first record is written.
    pub(crate) fn on_recovered(&mut self, clock: &dyn Clock) {
        if std::mem::replace(&mut self.is_recovered, true) {
            return;
        }
        self.compare_loaded();
        // After the next record, the log could be as long as the file says that it was.
        let is_new_id = !self.follower.producer.predecessors.is_empty();
        // Without the file, the next start would take the log for one of a server that was alone.
        let is_new_log = self.log.last_seq() == 0;
        if !self.follower.is_saved && (is_new_id || is_new_log) {
            self.save_producer(clock.now_ms());
        }
    }

    /// Adds own durable records. The stream returns them later.
    pub(crate) fn push(&mut self, records: Records<'_>, clock: &dyn Clock) {
        self.log.push(records, monotonic_ms(clock));
    }

    /// Holds the acknowledgement of a batch until its records have returned, or acknowledges it at once.
    pub(crate) fn hold(&mut self, batch: DurableBatch, clock: &dyn Clock) {
        let now_ms = monotonic_ms(clock);
        let (last_seq, returned) = (batch.last_seq, self.returned());
        if last_seq <= returned {
            return batch.complete_visible(|seq| self.log_seqs.of(seq));
        }
        let oldest_ms = self.log.durable_ms_after(returned);
        let is_connected = self.is_caught_up();
        if let Some(batch) = self.waiting.push(batch, last_seq, is_connected, oldest_ms, now_ms) {
            self.complete_invisible(batch);
        }
    }

    fn complete_invisible(&self, batch: DurableBatch) {
        self.metrics.invisible_acknowledgements.fetch_add(1, Ordering::Relaxed);
        batch.complete(false);
    }

    fn is_caught_up(&self) -> bool {
        self.phase == Phase::Following && self.follower.is_caught_up
    }

    /// Does one slice of work. Returns the time after which to call this again if nothing else happens.
    pub(crate) fn on_idle(&mut self, profiles: &mut ProfileTable, clock: &dyn Clock) -> Option<Duration> {
        let begun = clock.monotonic();
        self.shared.run_once();
        let mut has_more = self.finish_stalled(profiles, clock);
        while has_more && self.stalled.is_none() && clock.monotonic() - begun < SLICE {
            has_more = self.handle_next_event(profiles, clock);
        }
        self.expire_waiting(monotonic_ms(clock));
        self.take_done_erasures();
        self.send_heartbeat_if_due(clock);
        has_more |= self.forward(clock);
        self.save_producer_if_due(clock.now_ms());
        self.end_if_replaced();
        self.publish_metrics(clock);
        self.publish_readiness(clock);
        if has_more {
            return Some(Duration::ZERO);
        }
        self.next_look(monotonic_ms(clock))
    }

    fn expire_waiting(&mut self, now_ms: i64) {
        while let Some(batch) = self.waiting.next_expired(now_ms) {
            self.complete_invisible(batch);
        }
    }

    fn next_look(&self, now_ms: i64) -> Option<Duration> {
        let pending = self.log.last_seq() > self.returned() && self.is_caught_up();
        let look = pending.then_some(now_ms + LOOK_MS);
        let shared = self.shared.next_due().map(milliseconds);
        let next = [
            look,
            shared,
            self.waiting.next_deadline_ms(),
            self.heartbeat_due_ms(),
            self.readiness.deadline_ms(),
        ];
        let next = next.into_iter().flatten().min()?;
        Some(Duration::from_millis(u64::try_from(next - now_ms).unwrap_or(0)))
    }

    /// Sends the next messages. Returns whether more can be sent now.
    fn forward(&mut self, clock: &dyn Clock) -> bool {
        for _ in 0..SENDS_PER_SLICE {
            match self.forward_one(clock) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    tracing::error!(%error, "cannot read the own log; its records are sent later");
                    return false;
                }
            }
        }
        true
    }

    fn forward_one(&mut self, clock: &dyn Clock) -> Result<bool, crate::log::LogError> {
        let Some(state) = self.state.as_ref().filter(|_| self.phase == Phase::Following) else {
            return Ok(false);
        };
        if !self.follower.may_forward() || !self.erasures.is_idle() {
            return Ok(false);
        }
        let now_ms = monotonic_ms(clock);
        let (durable, returned) = (self.log.last_seq(), self.follower.returned(state));
        let Some(first) = self.forwarder.next(durable, returned, now_ms) else { return Ok(false) };
        let last = self.log.load(first, durable)?;
        let count = fill_run(&self.log, first, last, &mut self.payload);
        if count == 0 {
            tracing::error!(seq = first, "a record of the own log is not in memory; reading it again");
            self.log.read_again();
            return Ok(false);
        }
        let producer = &self.follower.producer;
        let header = Header {
            kind: Kind::Run,
            era: state.era.id,
            producer_id: producer.id,
            base_seq: producer.base_seq,
            first,
            sent_ms: clock.now_ms(),
            count,
        };
        match self.encoder.encode(&header, &self.payload) {
            Ok(bytes) => {
                if first <= self.sent_before {
                    self.metrics.resends.fetch_add(1, Ordering::Relaxed);
                }
                let last = first + u64::from(count) - 1;
                self.sent_before = self.sent_before.max(last);
                self.forwarder.on_sent(last, returned, now_ms);
                self.link.send(self.connection, Command::Append(bytes));
                Ok(true)
            }
            Err(error) => {
                tracing::error!(%error, "cannot compress a message; trying again");
                Ok(false)
            }
        }
    }

    /// Writes the file `producer` if it is missing or old.
    fn save_producer_if_due(&mut self, now_ms: i64) {
        let is_old =
            self.follower.producer.returned_seq > 0 && now_ms - self.producer_saved_ms >= PRODUCER_SAVE_MS;
        if self.state.is_some() && (!self.follower.is_saved || is_old) {
            self.save_producer(now_ms);
        }
    }

    fn save_producer(&mut self, now_ms: i64) {
        self.producer_saved_ms = now_ms;
        let path = self.outbox.join(PRODUCER_FILE);
        match storage::write_data_file(&path, &self.follower.producer.to_bytes()) {
            Ok(()) => self.follower.is_saved = true,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot write the producer ID; no event is sent until it is written");
            }
        }
    }

    fn random_id() -> ProducerId {
        ProducerId(random_bits())
    }

    /// Returns the seq up to which retention may delete records.
    pub(crate) fn deletable_seq(&mut self) -> u64 {
        self.kept.deletable_seq(&self.follower.producer).min(self.history.deletable_seq())
    }

    /// Called when the server stops: acknowledges the requests that wait, and writes the file `producer`.
    pub(crate) fn close(&mut self, now_ms: i64) {
        self.expire_waiting(i64::MAX);
        if self.state.is_some() {
            self.save_producer(now_ms);
        }
        self.shared.save();
    }

    /// Publishes the state of the node with the readiness that follows from it, and logs a change.
    fn set_state(&mut self, state: ClusterState, reason: &str, clock: &dyn Clock) {
        let not_ready = self.decide_readiness(state, clock);
        if !self.metrics.set_state(state, reason, not_ready, clock.now_ms()) {
            return;
        }
        match state {
            ClusterState::Joining => tracing::info!("connected to the stream; reading to its end"),
            ClusterState::Loading => tracing::info!("reading a checkpoint"),
            ClusterState::Connected => {
                tracing::info!(position = self.position(), "read to the end of the stream")
            }
            ClusterState::Alone => {
                tracing::warn!(reason, "this node is alone")
            }
        }
    }

    /// Returns the position in the stream. 0 before the first message of the era was read.
    pub(crate) fn position(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.position)
    }

    /// Returns the time of the last known message of the stream minus that of the last processed one, in ms.
    fn lag_ms(&self) -> i64 {
        let Some(state) = self.state.as_ref().filter(|state| state.position < self.end.last) else {
            return 0;
        };
        (self.end.last_ms - self.last_message_ms.unwrap_or(state.clock_ms)).max(0)
    }

    /// Publishes the readiness, which also depends on the lag and on the time since the start.
    fn publish_readiness(&mut self, clock: &dyn Clock) {
        let not_ready = self.decide_readiness(self.metrics.state(), clock);
        self.metrics.set_not_ready(not_ready);
    }

    /// Returns why a node in this state is not ready.
    fn decide_readiness(&mut self, state: ClusterState, clock: &dyn Clock) -> Option<NotReady> {
        let progress = Progress {
            standing: self.standing,
            is_reachable: self.is_reachable,
            is_following: state != ClusterState::Alone,
            is_caught_up: self.is_caught_up(),
            lag_ms: self.lag_ms(),
        };
        self.readiness.look(progress, monotonic_ms(clock))
    }

    /// Moves the end up to which Insights and exports read.
    fn publish_log_end(&self) {
        if let Some(state) = self.state.as_ref().filter(|_| self.stalled.is_none()) {
            self.shared.publish_end(state, self.erasures.erased_to(state.position));
        }
    }

    fn publish_metrics(&self, clock: &dyn Clock) {
        let (position, returned) = (self.position(), self.returned());
        self.publish_log_end();
        let metrics = &self.metrics;
        metrics.position.store(position, Ordering::Relaxed);
        metrics.head_position.store(self.end.last.max(position), Ordering::Relaxed);
        metrics.lag_ms.store(u64::try_from(self.lag_ms()).unwrap_or(0), Ordering::Relaxed);
        let unreturned = self.log.last_seq().saturating_sub(returned);
        metrics.unreturned_records.store(unreturned, Ordering::Relaxed);
        metrics.unreturned_bytes.store(self.log.pending_bytes() as u64, Ordering::Relaxed);
        let age_ms = match self.log.durable_ms_after(returned) {
            i64::MAX => 0,
            durable_ms => monotonic_ms(clock).saturating_sub(durable_ms.max(0)),
        };
        metrics.unreturned_ms.store(u64::try_from(age_ms).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Returns the last own seq that a state has accepted, or the state of a file that waits for the message of its era.
fn returned_of(producer: &Producer, state: Option<&StreamState>, saved_state: Option<&SavedState>) -> u64 {
    let producers = state.map(|state| &state.producers).or(saved_state.map(|saved| &saved.producers));
    let entry = producers.and_then(|producers| producers.get(&producer.id));
    entry.map_or(producer.base_seq, |entry| entry.next) - 1
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn monotonic_ms(clock: &dyn Clock) -> i64 {
    milliseconds(clock.monotonic())
}
