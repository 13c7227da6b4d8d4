//! The log of a cluster on one node, against a plain list: the stream gives messages, loses its end and gives others, and the
//! node crashes and continues from a checkpoint.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parallax::testing::clock::Clock;
use parallax::testing::cluster::message::RunRecord;
use parallax::testing::cluster::order::order;
use parallax::testing::cluster::positions::PositionsFile;
use parallax::testing::cluster::shared_log::{EffectiveRecords, SharedLog};
use parallax::testing::log::{Ack, LockedLog, LogItem, LogReader, NeededRecords, Options, StreamLog};
use tempfile::TempDir;

use super::simulated::{Plan, SimulatedDisk};
use super::{DIRECTORY, START_MS, TestClock, options, record};
use crate::dice::Dice;
use crate::harness::{temporary_directory, times};

/// A state with a checkpoint: the messages that it has processed, and their records.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    messages: usize,
    seq: u64,
}

/// The keys of the records of each message.
type Stream = Vec<Vec<u128>>;

struct World {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    random: Dice,
    options: Options,
    /// The directory of the file `positions`.
    place: TempDir,
    stream: Stream,
    next_key: u128,
    /// `None` while no process runs.
    log: Option<SharedLog>,
    state: State,
    checkpoints: Vec<State>,
}

/// Opens the log as a start does whose newest checkpoint has this seq.
fn open(
    disk: &SimulatedDisk,
    clock: &Arc<TestClock>,
    options: &Options,
    place: &TempDir,
    checkpointed_seq: u64,
) -> (SharedLog, u64) {
    disk.plan(Plan::Never);
    let dyn_disk = Arc::new(disk.clone());
    let locked = LockedLog::lock(Path::new(DIRECTORY), dyn_disk.clone()).expect("the disk works");
    let last_seq = locked.seq_range().expect("the disk works").last;
    let needed = Arc::<AtomicU64>::default();
    let options = Options { checkpointed_seq, ..options.clone() };
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let (_, writer, report) =
        locked.open(options, clock, Box::new(NeededRecords(Arc::clone(&needed)))).expect("the disk works");
    assert!(!report.has_unexpected_damage(), "{:?}", report.damage);
    let positions = PositionsFile::open(place.path());
    let log = SharedLog::new(StreamLog::new(writer), positions, Path::new(DIRECTORY), dyn_disk, needed);
    (log, last_seq)
}

/// Returns the records of a message at a position of the stream.
fn effective_records(position: u64, keys: &[u128]) -> EffectiveRecords {
    let mut records = EffectiveRecords::default();
    for (index, key) in (0..).zip(keys) {
        let payload = format!(r#"{{"key":{key}}}"#);
        let record = record(*key, START_MS + *key as i64, &payload);
        let mut bytes = Vec::new();
        record.encode(&mut bytes).expect("a short record");
        let of_run = RunRecord { seq: index + 1, bytes: &bytes, record, key: *key };
        records.push(&of_run, order(position, index));
    }
    records
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Dice(seed);
        let segment_bytes = [600, 2_000, 100_000][random.below(3)];
        let options = Options { ack: Ack::Written, segment_bytes, ..options() };
        let (disk, clock) = (SimulatedDisk::new(random.next_u64()), Arc::<TestClock>::default());
        let place = temporary_directory();
        let (log, _) = open(&disk, &clock, &options, &place, 0);
        Self {
            disk,
            clock,
            random,
            options,
            place,
            stream: Vec::new(),
            next_key: 1,
            log: Some(log),
            state: State::default(),
            checkpoints: vec![State::default()],
        }
    }

    fn log(&mut self) -> &mut SharedLog {
        self.log.as_mut().expect("a process runs")
    }

    fn extend_stream(&mut self) {
        for _ in 0..self.random.below(6) {
            let count = self.random.below(4) as u128;
            self.stream.push((self.next_key..self.next_key + count).collect());
            self.next_key += count;
        }
    }

    /// Processes messages. If the disk fails, the node waits and tries the same message again.
    fn follow(&mut self) {
        let end = self.stream.len().min(self.state.messages + 1 + self.random.below(4));
        while self.state.messages < end {
            let position = self.state.messages as u64 + 1;
            let first_seq = self.state.seq + 1;
            let records = effective_records(position, &self.stream[self.state.messages]);
            while !self.log().add(first_seq, &records) {
                self.disk.plan(Plan::Never);
                self.clock.pass(1_000);
                self.log().run_once();
            }
            let count = self.stream[self.state.messages].len() as u64;
            let makes_tie = self.random.below(3) == 0;
            if count > 0 {
                self.log().note_orders(first_seq, &records, makes_tie);
            }
            self.state.seq += count;
            self.state.messages += 1;
            self.clock.pass(self.random.below(400) as u64);
            self.log().run_once();
        }
    }

    fn checkpoint(&mut self) {
        if self.log().save() {
            self.checkpoints.push(self.state);
        }
    }

    /// Ends the process, with or without the power, and starts another one from the newest checkpoint in the log.
    fn crash(&mut self) {
        if self.random.below(2) == 0 {
            self.disk.cut_power();
        }
        self.log = None;
        let newest = self.checkpoints.last().copied().unwrap_or_default();
        let (log, last_seq) = open(&self.disk, &self.clock, &self.options, &self.place, newest.seq);
        self.log = Some(log);
        assert!(newest.seq <= last_seq, "the log ends at {last_seq}, before the checkpoint {newest:?}");
        self.load(newest);
    }

    fn load(&mut self, state: State) {
        self.state = state;
        self.log().on_loaded(state.seq, order(state.messages as u64, u64::MAX));
    }

    /// The stream loses its end and continues with other messages, and the node with a checkpoint from before.
    fn lose_end(&mut self) {
        self.stream.truncate(self.stream.len() - self.random.below(self.stream.len() + 1).min(8));
        self.checkpoints.retain(|one| one.messages <= self.stream.len());
        self.extend_stream();
        self.load(self.checkpoints.last().copied().unwrap_or_default());
    }

    fn step(&mut self) {
        self.disk.plan(if self.random.below(3) == 0 { Plan::OneIn(15) } else { Plan::Never });
        match self.random.below(12) {
            0 | 1 => self.crash(),
            2 => self.lose_end(),
            3 | 4 => self.checkpoint(),
            _ => {
                self.extend_stream();
                self.follow();
            }
        }
    }

    /// Returns the keys of the log.
    fn keys(&self) -> Vec<u128> {
        let mut reader =
            LogReader::open(Arc::new(self.disk.clone()), Path::new(DIRECTORY), 0).expect("the disk works");
        let mut keys = Vec::new();
        while let Some(item) = reader.read_next().expect("the disk works") {
            let LogItem::Records(records) = item else { panic!("{item:?}") };
            for (seq, record) in records.iter() {
                assert_eq!(seq, keys.len() as u64 + 1);
                keys.push(record.key);
            }
        }
        keys
    }
}

#[test]
fn the_log_of_the_cluster_is_the_list_of_the_records_of_the_stream() {
    for seed in 1..=times(600, 40_000) as u64 {
        let mut world = World::new(seed);
        for _ in 0..world.random.below(40) {
            world.step();
        }
        world.disk.plan(Plan::Never);
        while world.state.messages < world.stream.len() {
            world.follow();
        }
        let seq = world.state.seq;
        world.log().end_tail(seq);
        // A mark of the idle writer says that the last records are durable.
        // After a failure the log begins a segment within a second.
        let is_saved = (0..3).any(|_| {
            world.clock.pass(1_000);
            world.log().run_once();
            world.log().save()
        });
        assert!(is_saved, "seed {seed}");
        world.clock.pass(1_000);
        world.log().run_once();
        assert_eq!(world.keys(), world.stream.concat(), "seed {seed}");
    }
}
