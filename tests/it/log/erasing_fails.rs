//! The next start or the next erasure finishes an interrupted erasure, and no other visitor loses a record.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::{Ack, LogItem, LogReader, Options, RecordResult};
use parallax::testing::record::RecordKind;

use super::erasing::{files_with, send};
use super::naming::{erase, finish, visitor};
use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{DIRECTORY, Log, TestClock, options};
use crate::dice::Dice;
use crate::harness::times;

#[test]
fn an_erasure_that_cannot_write_its_tombstone_leaves_no_marker() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    send(&mut log, clock.now_ms(), &[(1, "<ana>")]);
    let mut ids = visitor(&log.key, &["<ana>"]);
    ids.site = "x".repeat(10_000);
    let erasure = log.queue.erase(ids).expect("no other erasure runs");
    log.writer.run_once();
    assert!(erasure.begin().is_err(), "no record has such a site");
    assert!(!disk.names().contains(&"erasing".to_owned()));
    assert_eq!(erase(&mut log, &["<ana>"]).expect("the disk works").records, 1);
}

/// The IDs of the visitors. They occur in no other text.
const VISITORS: [&str; 4] = ["<ana>", "<bob>", "<carl>", "<dora>"];

/// A disk with a log, and the records that must be in it.
struct World {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    options: Options,
    /// The key and the visitor of each acknowledged record, by seq.
    acknowledged: BTreeMap<u64, (u128, &'static str)>,
    /// Visitors whose erasure succeeded.
    erased: Vec<&'static str>,
    /// Visitors whose erasure was requested, and may have happened.
    requested: Vec<&'static str>,
    next_key: u128,
}

impl World {
    fn new(seed: u64, ack: Ack, segment_bytes: u64) -> Self {
        Self {
            disk: SimulatedDisk::new(seed),
            clock: Arc::default(),
            options: Options { ack, segment_bytes, dedup_ids_max: 1_000, ..options() },
            acknowledged: BTreeMap::new(),
            erased: Vec::new(),
            requested: Vec::new(),
            next_key: 1,
        }
    }

    fn open(&mut self) -> Log {
        let log = Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
        let log = log.or_else(|_| {
            self.disk.plan(Plan::Never);
            Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone())
        });
        let mut log = log.expect("the disk works");
        if log.report.interrupted_erasure.is_some() {
            let erasure = log.queue.resume_erasure().expect("no other erasure runs");
            log.writer.run_once();
            // If the disk fails, a later start or erasure finishes it.
            let _ = finish(erasure, &log.key, &[]);
        }
        assert!(!log.report.has_unexpected_damage(), "{:?}", log.report.damage);
        log
    }

    /// Kills the process and starts it again.
    fn kill_and_reopen(&mut self, log: Log) -> Log {
        drop(log);
        self.open()
    }

    fn send(&mut self, log: &mut Log, visitors: &[&'static str]) {
        let events: Vec<(u128, &'static str)> = (self.next_key..).zip(visitors.iter().copied()).collect();
        self.next_key += events.len() as u128;
        for (result, event) in send(log, self.clock.now_ms(), &events).into_iter().zip(events) {
            let RecordResult::Accepted(seq) = result else { panic!("{event:?} was never sent before") };
            self.acknowledged.insert(seq, event);
        }
    }

    fn erase(&mut self, log: &mut Log, visitor: &'static str) -> bool {
        self.requested.push(visitor);
        let is_erased = erase(log, &[visitor]).is_ok();
        if is_erased {
            self.erased.push(visitor);
        }
        is_erased
    }

    /// Cuts the power. Records that were not durable may be lost.
    fn cut_power(&mut self, durable_seq: u64) {
        self.disk.plan(Plan::Never);
        self.disk.cut_power();
        self.acknowledged.retain(|seq, _| *seq <= durable_seq);
    }

    /// Compares the files with the expected records. Returns the number of tombstones.
    fn check_records(&self) -> usize {
        self.disk.plan(Plan::Never);
        let mut reader =
            LogReader::open(Arc::new(self.disk.clone()), Path::new(DIRECTORY), 0).expect("the log opens");
        let (mut kinds, mut last_seq) = (BTreeMap::new(), 0);
        while let Some(item) = reader.read_next().expect("reading succeeds") {
            let LogItem::Records(records) = item else { panic!("{item:?}") };
            last_seq = records.seqs().end - 1;
            kinds.extend(records.iter().map(|(seq, record)| (seq, (record.kind, record.key))));
        }
        for (seq, (key, visitor)) in self.acknowledged.range(..=last_seq) {
            match kinds[seq] {
                (RecordKind::Track, found) => {
                    assert_eq!(found, *key);
                    assert!(!self.erased.contains(visitor), "{visitor} is in the record of seq {seq}");
                }
                (RecordKind::Void, found) => {
                    assert_eq!(found, *key, "a void record keeps its key");
                    assert!(self.requested.contains(visitor), "{visitor} lost the record of seq {seq}")
                }
                other => panic!("{other:?} at seq {seq}"),
            }
        }
        for visitor in &self.erased {
            assert_eq!(files_with(&self.disk, visitor), [""; 0], "{visitor}");
        }
        kinds.values().filter(|(kind, _)| *kind == RecordKind::Tombstone).count()
    }
}

/// Returns a log of several segments, one of which has void batches because its sync failed.
fn log_with_history(seed: u64, ack: Ack) -> (World, Log) {
    let mut world = World::new(seed, ack, 600);
    let mut log = world.open();
    for round in 0..3 {
        world.send(&mut log, &[VISITORS[0], VISITORS[1]]);
        world.send(&mut log, &[VISITORS[1], VISITORS[2 + round % 2]]);
    }
    world.disk.plan(Plan::Nth(2, Fault::Eio));
    world.send(&mut log, &[VISITORS[0], VISITORS[3]]);
    world.clock.pass(60);
    log.writer.run_once();
    world.disk.plan(Plan::Never);
    world.clock.pass(500);
    log.writer.run_once();
    world.send(&mut log, &[VISITORS[0]]);
    world.clock.pass(60);
    log.writer.run_once();
    assert_eq!(log.queue.metrics().durable_seq(), log.queue.metrics().last_seq());
    (world, log)
}

/// Kills the process at each call of an erasure in turn, or cuts the power. Returns the first `n` above the number of
/// calls.
fn crash_at_each_call(ack: Ack, cuts_power: bool) -> u64 {
    for n in 1.. {
        let (mut world, mut log) = log_with_history(n, ack);
        world.disk.plan(Plan::From(n));
        let is_erased = world.erase(&mut log, VISITORS[0]);
        let calls = world.disk.calls();
        let durable_seq = log.queue.metrics().durable_seq();
        drop(log);
        world.disk.plan(Plan::Never);
        if cuts_power {
            world.cut_power(durable_seq);
        }
        let log = world.open();
        world.check_records();
        // Only tombstones have the key 0.
        let is_begun = log.consumed().iter().any(|(_, key)| *key == 0);
        if is_begun {
            assert_eq!(
                files_with(&world.disk, VISITORS[0]),
                [""; 0],
                "n = {n}: the start finishes the erasure"
            );
        } else {
            assert!(!is_erased, "n = {n}: the erasure did not begin");
        }
        if let Some(erasure) = log.report.interrupted_erasure {
            assert_eq!(erasure.is_begun, is_begun, "n = {n}");
            assert_eq!(erasure.requested_ms, Some(world.clock.now_ms()), "n = {n}");
        }
        assert!(!world.disk.names().iter().any(|name| name == "erasing" || name.starts_with('.')), "n = {n}");
        let mut log = world.kill_and_reopen(log);
        assert!(world.erase(&mut log, VISITORS[0]), "the erasure can be repeated");
        world.check_records();
        if calls < n {
            return n;
        }
    }
    unreachable!("an erasure makes a finite number of calls")
}

#[test]
fn the_next_start_finishes_an_erasure_after_a_crash_at_any_call() {
    for (ack, cuts_power) in [Ack::Disk, Ack::Written].into_iter().flat_map(|ack| [(ack, false), (ack, true)])
    {
        let calls = crash_at_each_call(ack, cuts_power);
        assert!(calls > 50, "{calls} calls are too few");
    }
}

#[test]
fn the_next_erasure_finishes_one_that_failed_at_any_call() {
    for (ack, fault) in [Fault::Eio, Fault::Enospc, Fault::Short, Fault::Eintr]
        .into_iter()
        .flat_map(|fault| [(Ack::Disk, fault), (Ack::Written, fault)])
    {
        for n in 1.. {
            let (mut world, mut log) = log_with_history(n, ack);
            world.disk.plan(Plan::Nth(n, fault));
            let is_erased = world.erase(&mut log, VISITORS[0]);
            let calls = world.disk.calls();
            world.disk.plan(Plan::Never);
            world.clock.pass(500);
            log.writer.run_once();
            world.send(&mut log, &[VISITORS[1]]);
            assert!(world.erase(&mut log, VISITORS[2]), "n = {n}, {fault:?}");
            world.clock.pass(100);
            log.writer.run_once();
            if world.check_records() > 1 {
                assert_eq!(files_with(&world.disk, VISITORS[0]), [""; 0], "n = {n}, {fault:?}");
            } else {
                assert!(!is_erased);
            }
            let log = world.kill_and_reopen(log);
            assert_eq!(
                (world.check_records() > 0, log.report.interrupted_erasure),
                (true, None),
                "n = {n}, {fault:?}"
            );
            if calls < n {
                break;
            }
        }
    }
}

/// Sends, erases, fails and crashes at random.
fn run_random_steps(seed: u64, ack: Ack) {
    let mut dice = Dice(seed);
    let mut world = World::new(dice.next_u64(), ack, [1, 600, 2_000][dice.below(3)]);
    let has_faults = dice.below(2) == 0;
    for _ in 0..4 {
        let mut log = world.open();
        world.check_records();
        let fails_from = 1 + dice.below(120) as u64;
        world.disk.plan(match dice.below(3) {
            0 => Plan::From(fails_from),
            _ if has_faults => Plan::OneIn(25),
            _ => Plan::Never,
        });
        for _ in 0..dice.below(10) {
            let remaining: Vec<&str> =
                VISITORS.into_iter().filter(|v| !world.requested.contains(v)).collect();
            match dice.below(5) {
                0 if remaining.len() > 1 => {
                    world.erase(&mut log, remaining[dice.below(remaining.len())]);
                }
                _ => {
                    let some: Vec<&str> = (0..1 + dice.below(3)).map(|_| *dice.pick(&remaining)).collect();
                    world.send(&mut log, &some);
                }
            }
            world.clock.pass([0, 1, 60, 120, 500][dice.below(5)]);
            log.writer.run_once();
        }
        let durable_seq = match dice.below(4) {
            0 => log.stop().durable_seq,
            _ => log.queue.metrics().durable_seq(),
        };
        if dice.below(3) > 0 {
            world.cut_power(durable_seq);
        }
    }
    world.disk.plan(Plan::Never);
    drop(world.open());
    world.check_records();
}

#[test]
fn an_erased_visitor_stays_erased_after_random_crashes_and_faults() {
    for seed in 0..times(300, 300_000) as u64 {
        for ack in [Ack::Disk, Ack::Written] {
            let survived = std::panic::catch_unwind(|| run_random_steps(seed, ack));
            assert!(survived.is_ok(), "seed {seed}, {ack:?}");
        }
    }
}
