//! Whatever call fails, whenever the power goes: the table after a start is the fold of the log.

use parallax::visitors::log::Ack;

use super::{World, same};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::{Fault, Plan};

/// A life of a server with calls that fail, and what stands after it.
fn live(world: &mut World, dice: &mut Dice, what: &str) {
    let opened = world.try_open().or_else(|_| {
        world.disk.plan(Plan::Never);
        world.try_open()
    });
    let mut running = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    for _ in 0..dice.below(12) {
        world.record(&mut running, 1 + dice.below(30));
        world.clock.pass([0, 60, 600, 11_000][dice.below(4)]);
        if dice.below(2) == 0 {
            running.scribe.as_mut().expect("it is there").step();
        }
        running.writer.step();
    }
    world.disk.plan(Plan::Never);
    let stops = dice.below(4) == 0;
    let last = running.queue.figures().last_seq();
    if stops {
        running.stop();
    } else {
        let durable = running.queue.figures().durable_seq();
        same(&running.killed(), &world.fold(last), what);
        if dice.below(2) == 0 {
            world.disk.cut_power();
            world.history.lock().expect("no test panics in here").split_off(&(durable + 1));
        }
    }
    let running = world.open();
    assert!(
        running.findings.iter().all(|finding| finding.contains("not used")),
        "{what}: {:?}",
        running.findings
    );
    assert!(!running.report.is_loud(), "{what}: {:?}", running.report.findings);
    same(&running.killed(), &world.fold(world.last()), what);
}

#[test]
fn power_cuts_and_failing_calls_leave_the_table_the_fold_of_the_log() {
    let mut made = 0;
    for seed in 0..times(120, 20_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(dice.number());
        world.options.ack = [Ack::Disk, Ack::Written][dice.below(2)];
        world.options.segment_bytes = [600, 5_000, 100_000][dice.below(3)];
        world.cost_max = [u64::MAX, 6_000][dice.below(2)];
        world.log_bytes = [1, 2_000][dice.below(2)];
        for round in 0..3 {
            world.disk.plan(match dice.below(3) {
                0 => Plan::Never,
                1 => Plan::OneIn(15),
                _ => Plan::From(1 + dice.below(150) as u64),
            });
            live(&mut world, &mut dice, &format!("seed {seed}, round {round}"));
        }
        made += world.seqs().len();
    }
    assert!(made > 50, "{made} checkpoints are too few to have tried anything");
}

fn every_call_fails(fault: Fault) {
    for n in 1.. {
        let mut world = World::new(n);
        world.options.segment_bytes = 4_000;
        world.disk.plan(Plan::Nth(n, fault));
        let mut dice = Dice(7);
        live(&mut world, &mut dice, &format!("{fault:?} at call {n}"));
        let mut opened = world.try_open().expect("the disk is well");
        world.disk.plan(Plan::Nth(n, fault));
        for _ in 0..6 {
            world.record(&mut opened, 20);
            world.clock.pass(11_000);
            opened.settle_once();
        }
        let calls = world.disk.calls();
        world.disk.plan(Plan::Never);
        drop(opened);
        // A start whose calls fail takes the older file, or all of the log, and comes to the same.
        world.disk.plan(Plan::Nth(n, fault));
        if let Ok(running) = world.try_open() {
            same(&running.killed(), &world.fold(world.last()), &format!("{fault:?} at call {n} of a start"));
        }
        world.disk.plan(Plan::Never);
        same(&world.open().killed(), &world.fold(world.last()), &format!("{fault:?} at call {n}, after it"));
        if calls < n {
            assert!(n > 60, "{n} calls are too few to have tried anything");
            return;
        }
    }
}

impl super::Running {
    fn settle_once(&mut self) {
        for _ in 0..4 {
            self.writer.step();
            self.scribe.as_mut().expect("it is there").step();
        }
    }
}

#[test]
fn any_call_may_fail_with_an_input_output_error() {
    every_call_fails(Fault::Eio);
}

#[test]
fn any_call_may_find_the_disk_full() {
    every_call_fails(Fault::Enospc);
}

#[test]
fn any_call_may_do_less_than_asked() {
    every_call_fails(Fault::Short);
}
