//! Power cuts, killed processes and failing calls, from seeds. The log loses no acknowledged record, accepts
//! no record twice, and never returns a rejected record.

use std::collections::HashMap;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::{Ack, Options, RecordResult, WriteOutcome};

use super::simulated::{Plan, SimulatedDisk};
use super::{Log, TestClock, options, request};
use crate::dice::Dice;
use crate::harness::times;

/// The expected state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// The key may be in the log: it was sent without an answer, or its record was not synced before a cut.
    InDoubt,
    /// The record was acknowledged in this run, or recovery found it, under this seq.
    Stored(u64),
    /// The log rejected it in this run, after this number of acknowledged records.
    Rejected(u64),
    /// The key is not in the log. It must not appear unless it is sent again.
    Absent,
}

struct World {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    random: Dice,
    options: Options,
    has_faults: bool,
    states: HashMap<u128, KeyState>,
    next_key: u128,
    /// The number of new records that were acknowledged in this run.
    acknowledged: u64,
    /// The last durable seq at the end of the last run.
    durable_seq: u64,
}

impl World {
    fn new(seed: u64, ack: Ack) -> Self {
        let mut random = Dice(seed);
        let segment_bytes = [600, 2_000, 100_000][random.below(3)];
        let has_faults = random.below(2) == 0;
        Self {
            disk: SimulatedDisk::new(random.next_u64()),
            clock: Arc::default(),
            options: Options { ack, segment_bytes, dedup_ids_max: 1_000, ..options() },
            random,
            has_faults,
            states: HashMap::new(),
            next_key: 1,
            acknowledged: 0,
            durable_seq: 0,
        }
    }

    fn run_and_crash(&mut self) {
        let mut log = self.open();
        self.acknowledged = 0;
        let steps = self.random.below(12);
        let fails_from = self.random.below(40) as u64 + 1;
        let power_fails = self.random.below(2) == 0;
        self.disk.plan(match self.has_faults {
            _ if power_fails => Plan::From(fails_from),
            true => Plan::OneIn(12),
            false => Plan::Never,
        });
        for _ in 0..steps {
            self.send(&log);
            self.clock.pass([0, 1, 20, 60, 120][self.random.below(5)]);
            log.writer.run_once();
            self.take_completions(&log);
        }
        self.durable_seq = if self.random.below(4) == 0 {
            log.stop().durable_seq
        } else {
            log.queue.metrics().durable_seq()
        };
        if self.random.below(3) > 0 {
            self.cut_power();
        }
    }

    /// Cuts the power. Without a cut the process is only killed, and the page cache survives.
    fn cut_power(&mut self) {
        self.disk.cut_power();
        // Records that were written and not synced may be lost. Their acknowledgement allows that.
        for state in self.states.values_mut() {
            if matches!(*state, KeyState::Stored(seq) if seq > self.durable_seq) {
                *state = KeyState::InDoubt;
            }
        }
    }

    /// Opens the log, possibly with failing calls at first, and compares it with the expected keys.
    fn open(&mut self) -> Log {
        if self.has_faults {
            self.disk.plan(Plan::OneIn(20));
            let opened = Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
            if let Ok(log) = opened {
                return self.check_recovered(log);
            }
            if self.random.below(2) == 0 {
                self.cut_power();
            }
        }
        self.disk.plan(Plan::Never);
        let log = Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
        self.check_recovered(log.expect("the disk works"))
    }

    fn check_recovered(&mut self, log: Log) -> Log {
        assert!(!log.report.has_unexpected_damage(), "{:?}", log.report.damage);
        let consumed = log.consumed();
        assert!(
            consumed.iter().map(|(seq, _)| *seq).eq(1..=consumed.len() as u64),
            "seqs are consecutive: {consumed:?}"
        );
        assert_eq!(log.report.next_seq, consumed.len() as u64 + 1);
        let found: HashMap<u128, u64> = consumed.iter().map(|&(seq, key)| (key, seq)).collect();
        assert_eq!(found.len(), consumed.len(), "no key twice: {consumed:?}");
        for (key, state) in &mut self.states {
            let found = found.get(key).copied();
            match *state {
                KeyState::Stored(seq) => assert_eq!(found, Some(seq), "{key} was acknowledged: {consumed:?}"),
                KeyState::Absent => assert_eq!(found, None, "{key} was lost: {consumed:?}"),
                KeyState::Rejected(acknowledged) if acknowledged < self.acknowledged => {
                    assert_eq!(found, None, "{key} was rejected before accepted ones: {consumed:?}");
                }
                KeyState::InDoubt | KeyState::Rejected(_) => {}
            }
            *state = found.map_or(KeyState::Absent, KeyState::Stored);
        }
        assert!(found.keys().all(|key| self.states.contains_key(key)));
        log
    }

    fn send(&mut self, log: &Log) {
        for _ in 0..self.random.below(3) {
            let keys: Vec<u128> = (0..=self.random.below(3)).map(|_| self.pick_key()).collect();
            if log.client.send(request(0, &keys, self.clock.now_ms())).is_ok() {
                for key in keys {
                    let state = self.states.entry(key).or_insert(KeyState::InDoubt);
                    if !matches!(state, KeyState::Stored(_)) {
                        *state = KeyState::InDoubt;
                    }
                }
            }
        }
    }

    /// Returns a new key or any key that was sent.
    fn pick_key(&mut self) -> u128 {
        if self.next_key > 1 && self.random.below(3) == 0 {
            return 1 + self.random.below(self.next_key as usize - 1) as u128;
        }
        self.next_key += 1;
        self.next_key - 1
    }

    fn take_completions(&mut self, log: &Log) {
        let consumed: HashMap<u64, u128> = log.consumed().into_iter().collect();
        while let Some(completion) = log.client.next_completion() {
            let expected =
                if self.options.ack == Ack::Disk { WriteOutcome::Durable } else { WriteOutcome::Written };
            let keys = keys(&completion.request);
            if completion.outcome == WriteOutcome::DiskUnavailable {
                for key in keys {
                    if self.states[&key] == KeyState::InDoubt {
                        self.states.insert(key, KeyState::Rejected(self.acknowledged));
                    }
                }
                continue;
            }
            assert_eq!(completion.outcome, expected);
            for (key, result) in keys.into_iter().zip(completion.request.results()) {
                match *result {
                    RecordResult::Accepted(seq) => {
                        assert!(!matches!(self.states[&key], KeyState::Stored(_)), "{key} counts twice");
                        assert_eq!(
                            consumed.get(&seq),
                            Some(&key),
                            "the consumer receives a record before its acknowledgement"
                        );
                        self.acknowledged += 1;
                        self.states.insert(key, KeyState::Stored(seq));
                    }
                    RecordResult::Duplicate => {
                        assert!(matches!(self.states[&key], KeyState::Stored(_)), "{key} is new")
                    }
                }
            }
        }
    }
}

/// Returns the keys of a completed request.
fn keys(request: &parallax::testing::log::Request) -> Vec<u128> {
    request.records().map(|record| record.key).collect()
}

fn run_seed(seed: u64, ack: Ack) {
    let mut world = World::new(seed, ack);
    for _ in 0..4 {
        world.run_and_crash();
    }
    world.has_faults = false;
    world.open();
}

fn run_all_seeds(ack: Ack) {
    for seed in 0..times(10_000, 1_000_000) as u64 {
        let survived = std::panic::catch_unwind(|| run_seed(seed, ack));
        assert!(survived.is_ok(), "seed {seed}");
    }
}

#[test]
fn durable_records_survive_any_crash_exactly_once() {
    run_all_seeds(Ack::Disk);
}

#[test]
fn written_records_survive_any_crash_once_unless_they_were_not_synced() {
    run_all_seeds(Ack::Written);
}
