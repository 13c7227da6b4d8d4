//! After any failing call and any power cut, the table after a start equals the fold of the log.

use parallax::testing::log::Ack;

use super::{World, assert_same};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::{Fault, Plan};

/// Runs a server whose calls fail, ends it, and checks the table after the next start.
fn run_with_faults(world: &mut World, dice: &mut Dice, context: &str) {
    let opened = world.try_open().or_else(|_| {
        world.disk.plan(Plan::Never);
        world.try_open()
    });
    let mut running = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
    for _ in 0..dice.below(12) {
        world.record(&mut running, 1 + dice.below(30));
        world.clock.pass([0, 60, 600, 11_000][dice.below(4)]);
        if dice.below(2) == 0 {
            running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
        }
        running.writer.run_once();
    }
    world.disk.plan(Plan::Never);
    let stops = dice.below(4) == 0;
    let last = running.queue.metrics().last_seq();
    if stops {
        running.stop();
    } else {
        let durable = running.queue.metrics().durable_seq();
        assert_same(&running.kill(), &world.fold(last), context);
        if dice.below(2) == 0 {
            world.disk.cut_power();
            world.history.lock().expect("the lock is not poisoned").split_off(&(durable + 1));
        }
    }
    let running = world.open();
    assert!(
        running.warnings.iter().all(|warning| warning.contains("not used")),
        "{context}: {:?}",
        running.warnings
    );
    assert!(!running.report.has_unexpected_damage(), "{context}: {:?}", running.report.damage);
    assert_same(&running.kill(), &world.fold(world.last()), context);
}

#[test]
fn the_table_survives_power_cuts_and_failing_calls() {
    let mut checkpoints = 0;
    for seed in 0..times(120, 20_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(dice.next_u64());
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
            run_with_faults(&mut world, &mut dice, &format!("seed {seed}, round {round}"));
        }
        checkpoints += world.seqs().len();
    }
    assert!(checkpoints > 50, "{checkpoints} checkpoints are too few to test anything");
}

fn fail_each_call(fault: Fault) {
    for n in 1.. {
        let mut world = World::new(n);
        world.options.segment_bytes = 4_000;
        world.disk.plan(Plan::Nth(n, fault));
        let mut dice = Dice(7);
        run_with_faults(&mut world, &mut dice, &format!("{fault:?} at call {n}"));
        let mut opened = world.try_open().expect("the disk works");
        world.disk.plan(Plan::Nth(n, fault));
        for _ in 0..6 {
            world.record(&mut opened, 20);
            world.clock.pass(11_000);
            opened.settle_once();
        }
        let calls = world.disk.calls();
        world.disk.plan(Plan::Never);
        drop(opened);
        // A start whose calls fail uses the older file or the whole log, and gets the same table.
        world.disk.plan(Plan::Nth(n, fault));
        if let Ok(running) = world.try_open() {
            assert_same(
                &running.kill(),
                &world.fold(world.last()),
                &format!("{fault:?} at call {n} of a start"),
            );
        }
        world.disk.plan(Plan::Never);
        assert_same(
            &world.open().kill(),
            &world.fold(world.last()),
            &format!("{fault:?} at call {n}, at the next start"),
        );
        if calls < n {
            assert!(n > 60, "{n} calls are too few to test anything");
            return;
        }
    }
}

impl super::RunningLog {
    fn settle_once(&mut self) {
        for _ in 0..4 {
            self.writer.run_once();
            self.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
        }
    }
}

#[test]
fn any_call_may_fail_with_an_io_error() {
    fail_each_call(Fault::Eio);
}

#[test]
fn any_call_may_find_the_disk_full() {
    fail_each_call(Fault::Enospc);
}

#[test]
fn any_call_may_do_less_than_asked() {
    fail_each_call(Fault::Short);
}
