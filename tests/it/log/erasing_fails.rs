//! An erasure that is cut short is finished by the next start or the next erasure; nobody else loses anything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parallax::clock::Clock;
use parallax::visitors::log::{Ack, Item, Kind, Options, Reader, Verdict};

use super::erasing::{erase, files_with, send};
use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{FOLDER, Log, TestClock, options};
use crate::dice::Dice;
use crate::harness::times;

/// Their ids stand in no other text.
const VISITORS: [&str; 4] = ["<ana>", "<bob>", "<carl>", "<dora>"];

/// A log, and what is known of it.
struct World {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    options: Options,
    /// Key and visitor of what was acknowledged, by seq.
    known: BTreeMap<u64, (u128, &'static str)>,
    /// Who is surely erased.
    erased: Vec<&'static str>,
    /// Who is perhaps.
    begun: Vec<&'static str>,
    next_key: u128,
}

impl World {
    fn new(seed: u64, ack: Ack, segment_bytes: u64) -> Self {
        Self {
            disk: SimulatedDisk::new(seed),
            clock: Arc::default(),
            options: Options { ack, segment_bytes, duplicates_max: 1_000, ..options() },
            known: BTreeMap::new(),
            erased: Vec::new(),
            begun: Vec::new(),
            next_key: 1,
        }
    }

    fn open(&mut self) -> Log {
        let log = Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
        let log = log.or_else(|_| {
            self.disk.plan(Plan::Never);
            Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone())
        });
        let log = log.expect("the disk is well");
        assert!(!log.report.is_loud(), "{:?}", log.report.findings);
        log
    }

    /// Kills the process, and starts it anew.
    fn open_again(&mut self, log: Log) -> Log {
        drop(log);
        self.open()
    }

    fn send(&mut self, log: &mut Log, visitors: &[&'static str]) {
        let events: Vec<(u128, &'static str)> = (self.next_key..).zip(visitors.iter().copied()).collect();
        self.next_key += events.len() as u128;
        for (verdict, event) in send(log, self.clock.now_ms(), &events).into_iter().zip(events) {
            let Verdict::Accepted(seq) = verdict else { panic!("{event:?} was never sent before") };
            self.known.insert(seq, event);
        }
    }

    fn erase(&mut self, log: &mut Log, visitor: &'static str) -> bool {
        self.begun.push(visitor);
        let is_erased = erase(log, &[visitor]).is_ok();
        if is_erased {
            self.erased.push(visitor);
        }
        is_erased
    }

    /// What was not durable may be gone.
    fn cut_power(&mut self, durable_seq: u64) {
        self.disk.plan(Plan::Never);
        self.disk.cut_power();
        self.known.retain(|seq, _| *seq <= durable_seq);
    }

    /// Holds the files against what is known; gives how many tombstones there are.
    fn look(&self) -> usize {
        self.disk.plan(Plan::Never);
        let mut reader = Reader::open(Arc::new(self.disk.clone()), Path::new(FOLDER), 0).expect("it opens");
        let (mut kinds, mut last_seq) = (BTreeMap::new(), 0);
        while let Some(item) = reader.read_next().expect("it reads") {
            let Item::Records(records) = item else { panic!("{item:?}") };
            last_seq = records.seqs().end - 1;
            kinds.extend(records.iter().map(|(seq, record)| (seq, (record.kind, record.key))));
        }
        for (seq, (key, visitor)) in self.known.range(..=last_seq) {
            match kinds[seq] {
                (Kind::Track, found) => {
                    assert_eq!(found, *key);
                    assert!(!self.erased.contains(visitor), "{visitor} is in the record of seq {seq}");
                }
                (Kind::Void, 0) => {
                    assert!(self.begun.contains(visitor), "{visitor} lost the record of seq {seq}")
                }
                other => panic!("{other:?} at {seq}"),
            }
        }
        for visitor in &self.erased {
            assert_eq!(files_with(&self.disk, visitor), [""; 0], "{visitor}");
        }
        kinds.values().filter(|(kind, _)| *kind == Kind::Tombstone).count()
    }
}

/// Segments of each size, one of which a failed sync left with what is void.
fn lived(seed: u64, ack: Ack) -> (World, Log) {
    let mut world = World::new(seed, ack, 600);
    let mut log = world.open();
    for round in 0..3 {
        world.send(&mut log, &[VISITORS[0], VISITORS[1]]);
        world.send(&mut log, &[VISITORS[1], VISITORS[2 + round % 2]]);
    }
    world.disk.plan(Plan::Nth(2, Fault::Eio));
    world.send(&mut log, &[VISITORS[0], VISITORS[3]]);
    world.clock.pass(60);
    log.writer.step();
    world.disk.plan(Plan::Never);
    world.clock.pass(500);
    log.writer.step();
    world.send(&mut log, &[VISITORS[0]]);
    world.clock.pass(60);
    log.writer.step();
    assert_eq!(log.queue.figures().durable_seq(), log.queue.figures().last_seq());
    (world, log)
}

/// The power goes at each call of an erasure; the answer is at how many.
fn crashes(ack: Ack) -> u64 {
    for n in 1.. {
        let (mut world, mut log) = lived(n, ack);
        world.disk.plan(Plan::From(n));
        let is_erased = world.erase(&mut log, VISITORS[0]);
        let calls = world.disk.calls();
        let durable_seq = log.queue.figures().durable_seq();
        drop(log);
        world.cut_power(durable_seq);
        let log = world.open();
        world.look();
        // A void record, or a tombstone.
        let is_begun = log.folded().iter().any(|(_, key)| *key == 0);
        if is_begun {
            assert_eq!(files_with(&world.disk, VISITORS[0]), [""; 0], "n = {n}: the start finishes it");
        } else {
            assert!(!is_erased, "n = {n}: nothing was begun");
        }
        assert!(!world.disk.names().iter().any(|name| name == "erasing" || name.starts_with('.')), "n = {n}");
        let mut log = world.open_again(log);
        assert!(world.erase(&mut log, VISITORS[0]), "and it may be asked for again");
        world.look();
        if calls < n {
            return n;
        }
    }
    unreachable!("an erasure makes so many calls")
}

#[test]
fn a_crash_anywhere_in_an_erasure_leaves_what_the_next_start_finishes() {
    for ack in [Ack::Disk, Ack::Written] {
        let calls = crashes(ack);
        assert!(calls > 60, "{calls} calls are too few");
    }
}

#[test]
fn any_call_of_an_erasure_may_fail_and_the_next_erasure_finishes_it() {
    for (ack, fault) in [Fault::Eio, Fault::Enospc, Fault::Short, Fault::Eintr]
        .into_iter()
        .flat_map(|fault| [(Ack::Disk, fault), (Ack::Written, fault)])
    {
        for n in 1.. {
            let (mut world, mut log) = lived(n, ack);
            world.disk.plan(Plan::Nth(n, fault));
            let is_erased = world.erase(&mut log, VISITORS[0]);
            let calls = world.disk.calls();
            world.disk.plan(Plan::Never);
            world.clock.pass(500);
            log.writer.step();
            world.send(&mut log, &[VISITORS[1]]);
            assert!(world.erase(&mut log, VISITORS[2]), "n = {n}, {fault:?}");
            world.clock.pass(100);
            log.writer.step();
            if world.look() > 1 {
                assert_eq!(files_with(&world.disk, VISITORS[0]), [""; 0], "n = {n}, {fault:?}");
            } else {
                assert!(!is_erased);
            }
            let log = world.open_again(log);
            assert_eq!((world.look() > 0, log.report.finished), (true, None), "n = {n}, {fault:?}");
            if calls < n {
                break;
            }
        }
    }
}

/// Lives, erases, fails and crashes by chance.
fn survive(seed: u64, ack: Ack) {
    let mut dice = Dice(seed);
    let mut world = World::new(dice.number(), ack, [1, 600, 2_000][dice.below(3)]);
    let has_faults = dice.below(2) == 0;
    for _ in 0..4 {
        let mut log = world.open();
        world.look();
        let dies_at = 1 + dice.below(120) as u64;
        world.disk.plan(match dice.below(3) {
            0 => Plan::From(dies_at),
            _ if has_faults => Plan::OneIn(25),
            _ => Plan::Never,
        });
        for _ in 0..dice.below(10) {
            let living: Vec<&str> = VISITORS.into_iter().filter(|v| !world.begun.contains(v)).collect();
            match dice.below(5) {
                0 if living.len() > 1 => drop(world.erase(&mut log, living[dice.below(living.len())])),
                _ => {
                    let some: Vec<&str> = (0..1 + dice.below(3)).map(|_| *dice.of(&living)).collect();
                    world.send(&mut log, &some);
                }
            }
            world.clock.pass([0, 1, 60, 120, 500][dice.below(5)]);
            log.writer.step();
        }
        let durable_seq = match dice.below(4) {
            0 => log.stop().durable_seq,
            _ => log.queue.figures().durable_seq(),
        };
        if dice.below(3) > 0 {
            world.cut_power(durable_seq);
        }
    }
    world.disk.plan(Plan::Never);
    drop(world.open());
    world.look();
}

#[test]
fn whatever_happens_an_erased_visitor_stays_erased_and_nobody_else_is_touched() {
    for seed in 0..times(300, 300_000) as u64 {
        for ack in [Ack::Disk, Ack::Written] {
            let survived = std::panic::catch_unwind(|| survive(seed, ack));
            assert!(survived.is_ok(), "seed {seed}, {ack:?}");
        }
    }
}
