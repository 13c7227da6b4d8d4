//! Retention lets go only what both kept checkpoints hold, and asks for one where it waits.

use parallax::limits::{CHECKPOINT_RETENTION_MS, RETENTION_EVERY_MS};
use parallax::visitors::log::seq_of;

use super::{Running, World, same};
use crate::dice::Dice;
use crate::harness::times;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn world(log_bytes: u64) -> World {
    let mut world = World::new(1);
    world.options.segment_bytes = 1;
    world.options.retain_ms = Some(DAY_MS as i64);
    world.log_bytes = log_bytes;
    world
}

/// The first seqs of the segments that are there.
fn segments(world: &World) -> Vec<u64> {
    world.disk.names().iter().filter_map(|name| seq_of(name)).collect()
}

/// Years go by: everything is old.
fn look(world: &World, running: &mut Running) {
    world.clock.pass(4_000 * DAY_MS);
    running.writer.step();
}

#[test]
fn without_a_checkpoint_nothing_is_let_go() {
    let mut world = world(u64::MAX);
    let mut running = world.open();
    let _nobody_steps_it = running.scribe.take();
    for _ in 0..5 {
        world.record(&mut running, 1);
    }
    look(&world, &mut running);
    assert_eq!(segments(&world), [1, 2, 3, 4, 5, 6]);
    same(&running.killed(), &world.fold(5), "the table");
}

#[test]
fn what_the_older_of_two_holds_is_let_go_and_no_more() {
    let mut world = world(1);
    let mut running = world.open();
    for _ in 0..4 {
        world.record(&mut running, 20);
        running.settle();
    }
    assert_eq!(world.seqs(), [60, 80]);
    look(&world, &mut running);
    assert_eq!(segments(&world), [61, 81], "the records from 61 on are in the newest only");
    drop(running);
    // Where the newest is damaged, the one before and the log have everything.
    let path = world.folder().path_of(80);
    let mut bytes = world.disk.bytes(&path);
    bytes[100] ^= 1;
    world.disk.put(&path, &bytes);
    let running = world.open();
    assert_eq!((running.seq, running.report.records, running.findings.len()), (60, 20, 1));
    same(&running.killed(), &world.fold(80), "the table");
}

#[test]
fn with_one_checkpoint_what_that_one_holds_is_let_go() {
    let mut world = world(1);
    let mut running = world.open();
    world.record(&mut running, 3);
    running.settle();
    look(&world, &mut running);
    assert_eq!((world.seqs(), segments(&world)), (vec![3], vec![4]));
    drop(running);
    same(&world.open().killed(), &world.fold(3), "the table");
}

#[test]
fn where_retention_waits_checkpoints_are_made_for_it_but_not_without_a_pause() {
    let mut world = world(u64::MAX);
    let mut running = world.open();
    for _ in 0..3 {
        world.record(&mut running, 1);
    }
    world.clock.pass(4_000 * DAY_MS);
    running.settle();
    assert_eq!(world.seqs(), [3], "it was asked for");
    world.clock.pass(RETENTION_EVERY_MS);
    running.settle();
    assert_eq!(segments(&world), [4], "one of all there was");
    world.record(&mut running, 1);
    world.clock.pass(RETENTION_EVERY_MS);
    running.settle();
    assert_eq!(world.seqs(), [3], "too soon");
    for _ in 0..2 {
        world.clock.pass(CHECKPOINT_RETENTION_MS);
        running.settle();
        world.record(&mut running, 1);
    }
    running.settle();
    assert_eq!(world.seqs().len(), 2);
    world.clock.pass(RETENTION_EVERY_MS);
    running.settle();
    assert!(segments(&world)[0] > 4, "{:?}", segments(&world));
    let last = world.last();
    same(&running.killed(), &world.fold(last), "the table");
    same(&world.open().killed(), &world.fold(last), "after a start");
}

#[test]
fn whatever_is_let_go_a_start_comes_to_the_fold_of_all_there_ever_was() {
    for seed in 0..times(30, 2_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = world([1, 3_000, 100_000][dice.below(3)]);
        world.options.segment_bytes = [1, 3_000][dice.below(2)];
        world.cost_max = [u64::MAX, 5_000][dice.below(2)];
        for _ in 0..4 {
            let mut running = world.open();
            assert!(running.findings.is_empty(), "seed {seed}: {:?}", running.findings);
            for _ in 0..dice.below(12) {
                world.record(&mut running, 1 + dice.below(20));
                world
                    .clock
                    .pass([0, RETENTION_EVERY_MS, CHECKPOINT_RETENTION_MS, 4_000 * DAY_MS][dice.below(4)]);
                (0..dice.below(8)).for_each(|_| {
                    running.writer.step();
                    running.scribe.as_mut().expect("it is there").step();
                });
            }
            if dice.below(2) == 0 {
                world.disk.cut_power();
            }
            same(&running.killed(), &world.fold(world.last()), &format!("seed {seed}"));
        }
    }
}
