//! Checkpoints of the table of visitors. After any fault of disk or process, the table after a start equals
//! the fold of the log. The tests run the server's code on a simulated disk and clock, and step it
//! themselves.

// Each bound of a checkpoint file.
mod bounds;
// The output of `check` and `inspect`.
mod commands;
// An erasure that a crash cuts off at any call.
mod cut_off;
// Damaged checkpoints.
mod damage;
// Erased visitors.
pub mod erasing;
// A failure of each file operation, power cuts and killed processes, by seed.
mod faults;
// The format, byte for byte.
mod format;
// The entries of ownership, the known sites and the lost aliases.
mod ownership;
// The checkpoint that a start selects.
mod restoring;
// Retention of the log, and the checkpoints that it waits for.
mod retention;
// A real server that is stopped or killed.
mod server;
// The moment and the contents of a checkpoint.
mod taking;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax::testing::clock::Clock;
use parallax::testing::log::{
    self, LockedLog, LogClient, LogConsumer, LogId, LogWriter, Options, Queue, Records, RecoveryReport,
    Request, VisitorIds,
};
use parallax::testing::record::{IdKind, Record, RecordKind, TombstoneKey};
use parallax::testing::storage::disk::Disk;
use parallax::testing::visitors::apply::ProfileUpdater;
use parallax::testing::visitors::checkpoint::CheckpointMetrics;
use parallax::testing::visitors::checkpoint::directory::CheckpointDirectory;
use parallax::testing::visitors::checkpoint::restore::{LogRange, RestoredTable, restore};
use parallax::testing::visitors::checkpoint::scheduler::{self, build_checkpointer};
use parallax::testing::visitors::checkpoint::writer::CheckpointWriter;
use parallax::testing::visitors::live::ProfileTable;
use parallax::testing::visitors::profile::FoldCounts;
use parallax::testing::visitors::store::table::{EvictionClass, Key, Table};

use crate::dice::Dice;
use crate::folded::with_fold_input;
use crate::log::TestClock;
use crate::log::simulated::SimulatedDisk;

pub const DIRECTORY: &str = "/data";
const SECRET: [u8; 16] = *b"secret of a test";
/// Start of the simulated clocks, in milliseconds since 1970.
const NOW_MS: i64 = 1_800_000_000_000;

/// An entry of a table: key, value, eviction class.
type Entry = (Key, Vec<u8>, EvictionClass);

/// Returns all entries of a table, in the order of their last put.
fn entries(mut table: Table) -> Vec<Entry> {
    let mut all = Vec::new();
    table.begin_copy();
    while !table
        .copy_chunk(100, &mut |key, value, rank, order| all.push((order, (key, value.to_vec(), rank))))
    {}
    all.sort_by_key(|(order, _)| *order);
    all.into_iter().map(|(_, entry)| entry).collect()
}

/// Passes record `number` to `take`. It is an event of one of `visitors` visitors, who are linked to users
/// now and then.
fn with_record<T>(number: u64, visitors: usize, take: impl FnOnce(&Record<'_>) -> T) -> T {
    let mut dice = Dice(number);
    let anon_id = format!("visitor-{}", dice.below(visitors));
    let user_id = format!("user-{}", dice.below(visitors / 2 + 1));
    let (path, event) = (format!("/page/{}", dice.below(7)), format!("event {}", dice.below(5)));
    let kind =
        [RecordKind::Page, RecordKind::Page, RecordKind::Track, RecordKind::Track, RecordKind::Identify]
            [dice.below(5)];
    let payload = match kind {
        RecordKind::Identify => {
            format!(r#"{{"traits":{{"plan":"{}","size":{}}}}}"#, "x".repeat(dice.below(60)), number % 90)
        }
        _ => "{}".to_owned(),
    };
    let record = Record {
        received_ms: NOW_MS,
        timestamp_ms: NOW_MS + number as i64 * 1_000,
        key: u128::from(number),
        site: Some("acme"),
        anon_id: (kind != RecordKind::Track || dice.below(6) > 0).then_some(&*anon_id),
        user_id: (kind == RecordKind::Identify || dice.below(6) == 0).then_some(&*user_id),
        event: (kind == RecordKind::Track).then_some(&*event),
        path: (kind == RecordKind::Page).then_some(&*path),
        payload: &payload,
        ..Record::new(kind)
    };
    with_fold_input(kind, &payload, |fold_input| take(&Record { fold_input, ..record }))
}

/// A change that the log holds at one seq.
#[derive(Debug, Clone)]
enum Change {
    /// The record of this number was appended.
    Appended(u64),
    /// A visitor was erased.
    Erased(VisitorIds),
}

/// The contents of the log by seq, as far as the consumer has seen them.
type History = Arc<Mutex<BTreeMap<u64, Change>>>;

/// The log consumer of a server. It also records the history.
struct RecordingConsumer {
    profiles: Arc<Mutex<Option<ProfileTable>>>,
    history: History,
}

impl RecordingConsumer {
    fn with<T>(&self, act: impl FnOnce(&mut ProfileTable) -> T) -> T {
        act(self
            .profiles
            .lock()
            .expect("the lock is not poisoned")
            .as_mut()
            .expect("the profiles are not taken yet"))
    }
}

impl LogConsumer for RecordingConsumer {
    fn consume(&mut self, records: Records<'_>) {
        let mut history = self.history.lock().expect("the lock is not poisoned");
        let is_event = |(_, record): &(u64, Record<'_>)| record.kind != RecordKind::Tombstone;
        let appended =
            records.iter().filter(is_event).map(|(seq, record)| (seq, Change::Appended(record.key as u64)));
        for (seq, change) in appended {
            history.split_off(&seq);
            history.insert(seq, change);
        }
        self.with(|profiles| profiles.fold(records));
    }

    fn is_current(&self, visitor: &VisitorIds) -> bool {
        self.with(|profiles| profiles.is_current(visitor))
    }

    fn on_erase(&mut self, visitor: &VisitorIds, seq: u64) {
        self.history.lock().expect("the lock is not poisoned").insert(seq, Change::Erased(visitor.clone()));
        self.with(|profiles| profiles.erase(visitor, seq));
    }

    fn on_idle(&mut self, clock: &dyn Clock, durable: Option<u64>) -> Option<Duration> {
        self.with(|profiles| profiles.on_idle(clock, durable))
    }

    fn on_closed(&mut self, clock: &dyn Clock, durable: Option<u64>) {
        self.with(|profiles| profiles.close(clock, durable));
    }

    fn checkpointed_seq(&self) -> u64 {
        self.with(|profiles| profiles.checkpointed_seq())
    }

    fn on_retention_blocked(&mut self) {
        self.with(ProfileTable::on_retention_blocked);
    }
}

/// A data directory, and the known contents of its log.
pub struct World {
    pub disk: SimulatedDisk,
    pub clock: Arc<TestClock>,
    pub options: Options,
    history: History,
    /// Cost limit of the table.
    cost_max: u64,
    /// Bytes of log between two checkpoints.
    pub log_bytes: u64,
    /// Longest time between two checkpoints.
    interval: Option<Duration>,
    visitors: usize,
    /// The number of the next record.
    number: u64,
}

/// A running log with its writer, its checkpoint writer and its profiles.
pub struct RunningLog {
    queue: Queue,
    pub client: LogClient,
    pub writer: LogWriter,
    checkpoint_writer: Option<CheckpointWriter>,
    pub profiles: Arc<Mutex<Option<ProfileTable>>>,
    report: RecoveryReport,
    metrics: Arc<CheckpointMetrics>,
    pub warnings: Vec<String>,
    /// The seq of the checkpoint that was loaded, or 0.
    seq: u64,
    /// Time limit for the last checkpoint during a stop, in milliseconds.
    stop_ms: Arc<AtomicU64>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            disk: SimulatedDisk::new(seed),
            clock: Arc::default(),
            options: Options { dedup_ids_max: 1_000, ..Options::default() },
            history: History::default(),
            cost_max: u64::MAX,
            log_bytes: 1,
            interval: None,
            visitors: 30,
            number: 1,
        }
    }

    fn directory(&self) -> CheckpointDirectory {
        CheckpointDirectory::new(Arc::new(self.disk.clone()), Path::new(DIRECTORY))
    }

    /// Opens the log and restores the profiles, as a server starts.
    fn try_open(&self) -> Result<RunningLog, String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let locked = LockedLog::lock(Path::new(DIRECTORY), disk).map_err(|error| error.to_string())?;
        let range = locked.seq_range().map_err(|error| error.to_string())?;
        let log = LogRange { first: range.first, log_id: range.log_id };
        let restored = restore(&self.directory(), log, self.cost_max, &mut |_, _| {})
            .map_err(|error| error.to_string())?;
        let RestoredTable { table, state, secret, log_id, seq, durable_seq, checkpoint_state, warnings } =
            restored;
        let log_id = log_id.or(self.options.log_id).unwrap_or(LogId([7; 16]));
        let secret = secret.unwrap_or(SECRET);
        let metrics = Arc::<CheckpointMetrics>::default();
        let options = scheduler::Options {
            log_bytes: self.log_bytes,
            interval: self.interval,
            ..scheduler::Options::new(secret, self.cost_max, log_id)
        };
        let stop_ms = Arc::clone(&options.stop_ms);
        let (scheduler, checkpoint_writer) =
            build_checkpointer(self.directory(), options, checkpoint_state, Arc::clone(&metrics));
        let (profiles, _) = ProfileTable::from_table(table, state, secret, self.cost_max);
        let key = locked.load_or_draw_key().map_err(|error| error.to_string())?;
        let profiles = profiles.with_checkpoints(scheduler).with_tombstone_key(Some(key.clone()));
        let profiles = Arc::new(Mutex::new(Some(profiles)));
        let consumer =
            RecordingConsumer { profiles: Arc::clone(&profiles), history: Arc::clone(&self.history) };
        let options = Options {
            checkpointed_seq: seq,
            durable_seq,
            log_id: Some(log_id),
            tombstone_key: Some(key),
            ..self.options.clone()
        };
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        // A start that fails half-way has already passed records to the consumer, perhaps from the first one
        // on.
        let before = self.history.lock().expect("the lock is not poisoned").clone();
        let opened = locked.open(options, clock, Box::new(consumer));
        let mut history = self.history.lock().expect("the lock is not poisoned");
        let (queue, writer, report) = opened.map_err(|error| {
            *history = before;
            error.to_string()
        })?;
        history.split_off(&report.next_seq);
        drop(history);
        let client = queue.client(Arc::new(|| {}));
        let checkpoint_writer = Some(checkpoint_writer);
        Ok(RunningLog {
            queue,
            client,
            writer,
            checkpoint_writer,
            profiles,
            report,
            metrics,
            warnings,
            seq,
            stop_ms,
        })
    }

    pub fn open(&self) -> RunningLog {
        self.try_open().expect("the disk works")
    }

    /// Sends `records` records in one request. Returns whether the log accepted them.
    fn record(&mut self, running: &mut RunningLog, records: usize) -> bool {
        let mut request = Request::new(0);
        for _ in 0..records {
            with_record(self.number, self.visitors, |record| request.push(record))
                .expect("the record is within bounds");
            self.number += 1;
        }
        if running.client.send(request).is_err() {
            return false;
        }
        running.writer.run_once();
        let completion = running.client.next_completion().expect("the run completes the request");
        completion.outcome != log::WriteOutcome::DiskUnavailable
    }

    /// Folds the log from its beginning up to a seq.
    fn fold(&self, until: u64) -> Vec<Entry> {
        let history = self.history.lock().expect("the lock is not poisoned");
        let (mut table, mut updater) = (Table::new(), ProfileUpdater::new(SECRET));
        for (at, (seq, change)) in history.range(..=until).enumerate() {
            assert_eq!(*seq, at as u64 + 1, "no seq is missing");
            match change {
                Change::Appended(number) => with_record(*number, self.visitors, |record| {
                    updater.apply(&mut table, record, self.cost_max, &mut FoldCounts::default());
                }),
                Change::Erased(VisitorIds { site, named, .. }) => {
                    let key = self.key();
                    let users = (0..self.visitors).map(|n| (IdKind::User, format!("user-{n}")));
                    let all = users.chain((0..self.visitors).map(|n| (IdKind::Anon, format!("visitor-{n}"))));
                    for (kind, id) in all.filter(|(kind, id)| named.contains(&key.tag(site, *kind, id))) {
                        updater.erase(&mut table, site, kind, &id);
                    }
                }
            }
        }
        entries(table)
    }

    /// Returns the key of the digests in tombstones.
    fn key(&self) -> TombstoneKey {
        let key = TombstoneKey::read(Arc::new(self.disk.clone()), Path::new(DIRECTORY));
        key.expect("the disk works").expect("the key is made with the directory")
    }

    /// Returns the first seq of the oldest segment.
    fn first_seq(&self) -> u64 {
        self.disk.names().iter().filter_map(|name| log::parse_segment_name(name)).min().unwrap_or(0)
    }

    fn seqs(&self) -> Vec<u64> {
        self.directory().seqs().expect("the disk works")
    }

    /// Returns the seq of the newest change that the consumer has seen.
    fn last(&self) -> u64 {
        self.history.lock().expect("the lock is not poisoned").keys().next_back().copied().unwrap_or(0)
    }
}

impl RunningLog {
    /// Runs the log writer and the checkpoint writer until neither has work left.
    pub fn settle(&mut self) {
        for _ in 0..400 {
            self.writer.run_once();
            if let Some(checkpoint_writer) = &mut self.checkpoint_writer {
                checkpoint_writer.run_pending();
            }
        }
    }

    /// Kills the process. Returns the entries of its table.
    fn kill(self) -> Vec<Entry> {
        let profiles =
            self.profiles.lock().expect("the lock is not poisoned").take().expect("it is not taken yet");
        entries(profiles.into_table())
    }

    /// Stops the log cleanly.
    fn stop(mut self) -> log::FinalPosition {
        self.checkpoint_writer.take().expect("it is not taken yet").spawn().expect("a thread");
        self.queue.stop();
        self.writer.close()
    }
}

/// Fails with the first difference instead of both whole tables.
#[track_caller]
fn assert_same(found: &[Entry], expected: &[Entry], context: &str) {
    let difference = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{context}: {} entries, expected {}; first difference at index {difference:?}",
        found.len(),
        expected.len()
    );
}
