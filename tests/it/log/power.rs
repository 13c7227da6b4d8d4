//! Power cuts, killed processes and failing calls by seed: nothing acknowledged is lost, nothing counts
//! twice, nothing that was refused comes back.

use std::collections::HashMap;
use std::sync::Arc;

use parallax::clock::Clock;
use parallax::visitors::log::{Ack, Options, Outcome, Verdict};

use super::simulated::{Plan, SimulatedDisk};
use super::{Log, TestClock, options, request};
use crate::dice::Dice;
use crate::harness::times;

/// What is known of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Sent, without an answer.
    Open,
    /// Acknowledged in this run, or found by a recovery, under this seq.
    Kept(u64),
    /// Refused in this run, when so many had been acknowledged in it.
    Refused(u64),
    /// Gone: must never be seen again unless it is sent again.
    Dead,
}

struct World {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    random: Dice,
    options: Options,
    has_faults: bool,
    fates: HashMap<u128, Fate>,
    next_key: u128,
    /// New records acknowledged in this run.
    acknowledged: u64,
    /// When the last run ended.
    durable_seq: u64,
}

impl World {
    fn new(seed: u64, ack: Ack) -> Self {
        let mut random = Dice(seed);
        let segment_bytes = [600, 2_000, 100_000][random.below(3)];
        let has_faults = random.below(2) == 0;
        Self {
            disk: SimulatedDisk::new(random.number()),
            clock: Arc::default(),
            options: Options { ack, segment_bytes, duplicates_max: 1_000, ..options() },
            random,
            has_faults,
            fates: HashMap::new(),
            next_key: 1,
            acknowledged: 0,
            durable_seq: 0,
        }
    }

    fn live_and_crash(&mut self) {
        let mut log = self.open();
        self.acknowledged = 0;
        let steps = self.random.below(12);
        let dies_at = self.random.below(40) as u64 + 1;
        let dies = self.random.below(2) == 0;
        self.disk.plan(match self.has_faults {
            _ if dies => Plan::From(dies_at),
            true => Plan::OneIn(12),
            false => Plan::Never,
        });
        for _ in 0..steps {
            self.send(&log);
            self.clock.pass([0, 1, 20, 60, 120][self.random.below(5)]);
            log.writer.step();
            self.hear(&log);
        }
        self.durable_seq = if self.random.below(4) == 0 {
            log.stop().durable_seq
        } else {
            log.queue.figures().durable_seq()
        };
        if self.random.below(3) > 0 {
            self.cut_power();
        }
    }

    /// Otherwise the process is killed, and what it wrote is in the page cache.
    fn cut_power(&mut self) {
        self.disk.cut_power();
        // What was written and not synced may be gone; that is what it was acknowledged as.
        for fate in self.fates.values_mut() {
            if matches!(*fate, Fate::Kept(seq) if seq > self.durable_seq) {
                *fate = Fate::Open;
            }
        }
    }

    /// Opens the log, perhaps with calls that fail at first, and holds what it found against what is known.
    fn open(&mut self) -> Log {
        if self.has_faults {
            self.disk.plan(Plan::OneIn(20));
            let opened = Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
            if let Ok(log) = opened {
                return self.meet(log);
            }
            if self.random.below(2) == 0 {
                self.cut_power();
            }
        }
        self.disk.plan(Plan::Never);
        let log = Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
        self.meet(log.expect("the disk is well"))
    }

    fn meet(&mut self, log: Log) -> Log {
        assert!(!log.report.is_loud(), "{:?}", log.report.findings);
        let folded = log.folded();
        assert!(folded.iter().map(|(seq, _)| *seq).eq(1..=folded.len() as u64), "seqs follow: {folded:?}");
        assert_eq!(log.report.next_seq, folded.len() as u64 + 1);
        let found: HashMap<u128, u64> = folded.iter().map(|&(seq, key)| (key, seq)).collect();
        assert_eq!(found.len(), folded.len(), "nothing twice: {folded:?}");
        for (key, fate) in &mut self.fates {
            let found = found.get(key).copied();
            match *fate {
                Fate::Kept(seq) => assert_eq!(found, Some(seq), "{key} was acknowledged: {folded:?}"),
                Fate::Dead => assert_eq!(found, None, "{key} was gone: {folded:?}"),
                Fate::Refused(acknowledged) if acknowledged < self.acknowledged => {
                    assert_eq!(found, None, "{key} was refused and others went on: {folded:?}");
                }
                Fate::Open | Fate::Refused(_) => {}
            }
            *fate = found.map_or(Fate::Dead, Fate::Kept);
        }
        assert!(found.keys().all(|key| self.fates.contains_key(key)));
        log
    }

    fn send(&mut self, log: &Log) {
        for _ in 0..self.random.below(3) {
            let keys: Vec<u128> = (0..=self.random.below(3)).map(|_| self.key()).collect();
            if log.port.send(request(0, &keys, self.clock.now_ms())).is_ok() {
                for key in keys {
                    let fate = self.fates.entry(key).or_insert(Fate::Open);
                    if !matches!(fate, Fate::Kept(_)) {
                        *fate = Fate::Open;
                    }
                }
            }
        }
    }

    /// A new one, or any that was there.
    fn key(&mut self) -> u128 {
        if self.next_key > 1 && self.random.below(3) == 0 {
            return 1 + self.random.below(self.next_key as usize - 1) as u128;
        }
        self.next_key += 1;
        self.next_key - 1
    }

    fn hear(&mut self, log: &Log) {
        let folded: HashMap<u64, u128> = log.folded().into_iter().collect();
        while let Some(completion) = log.port.take() {
            let expected = if self.options.ack == Ack::Disk { Outcome::Durable } else { Outcome::Written };
            let keys = keys(&completion.request);
            if completion.outcome == Outcome::DiskUnavailable {
                for key in keys {
                    if self.fates[&key] == Fate::Open {
                        self.fates.insert(key, Fate::Refused(self.acknowledged));
                    }
                }
                continue;
            }
            assert_eq!(completion.outcome, expected);
            for (key, verdict) in keys.into_iter().zip(completion.request.verdicts()) {
                match *verdict {
                    Verdict::Accepted(seq) => {
                        assert!(!matches!(self.fates[&key], Fate::Kept(_)), "{key} counts twice");
                        assert_eq!(folded.get(&seq), Some(&key), "folded before it is acknowledged");
                        self.acknowledged += 1;
                        self.fates.insert(key, Fate::Kept(seq));
                    }
                    Verdict::Duplicate => assert!(matches!(self.fates[&key], Fate::Kept(_)), "{key} is new"),
                }
            }
        }
    }
}

/// The keys of a request that came back, from its payloads' numbers.
fn keys(request: &parallax::visitors::log::Request) -> Vec<u128> {
    request.records().map(|record| record.key).collect()
}

fn survive(seed: u64, ack: Ack) {
    let mut world = World::new(seed, ack);
    for _ in 0..4 {
        world.live_and_crash();
    }
    world.has_faults = false;
    world.open();
}

fn survive_all(ack: Ack) {
    for seed in 0..times(10_000, 1_000_000) as u64 {
        let survived = std::panic::catch_unwind(|| survive(seed, ack));
        assert!(survived.is_ok(), "seed {seed}");
    }
}

#[test]
fn after_any_crash_what_was_acknowledged_as_durable_is_there_once() {
    survive_all(Ack::Disk);
}

#[test]
fn after_any_crash_what_was_acknowledged_as_written_is_there_once_but_for_what_was_not_synced() {
    survive_all(Ack::Written);
}
