//! Retention deletes only records that every kept checkpoint holds, and requests a checkpoint if it has to
//! wait.

use parallax::testing::limits::{CHECKPOINT_RETENTION_INTERVAL_MS, RETENTION_INTERVAL_MS};
use parallax::testing::log::parse_segment_name;

use super::{RunningLog, World, assert_same};
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

/// Returns the first seqs of the existing segments.
fn segments(world: &World) -> Vec<u64> {
    world.disk.names().iter().filter_map(|name| parse_segment_name(name)).collect()
}

/// Lets years pass, so that every record is old, and runs the log writer.
fn run_retention(world: &World, running: &mut RunningLog) {
    world.clock.pass(4_000 * DAY_MS);
    running.writer.run_once();
}

#[test]
fn without_a_checkpoint_nothing_is_deleted() {
    let mut world = world(u64::MAX);
    let mut running = world.open();
    let _idle_checkpoint_writer = running.checkpoint_writer.take();
    for _ in 0..5 {
        world.record(&mut running, 1);
    }
    run_retention(&world, &mut running);
    assert_eq!(segments(&world), [1, 2, 3, 4, 5, 6]);
    assert_same(&running.kill(), &world.fold(5), "the table");
}

#[test]
fn only_records_in_the_older_checkpoint_are_deleted() {
    let mut world = world(1);
    let mut running = world.open();
    for _ in 0..4 {
        world.record(&mut running, 20);
        running.settle();
    }
    assert_eq!(world.seqs(), [60, 80]);
    run_retention(&world, &mut running);
    assert_eq!(segments(&world), [61, 81], "only the newest checkpoint has the records from 61 on");
    drop(running);
    // If the newest checkpoint is damaged, the older one and the log have everything.
    let path = world.directory().path_of(80);
    let mut bytes = world.disk.bytes(&path);
    bytes[100] ^= 1;
    world.disk.put(&path, &bytes);
    let running = world.open();
    assert_eq!((running.seq, running.report.records, running.warnings.len()), (60, 20, 1));
    assert_same(&running.kill(), &world.fold(80), "the table");
}

#[test]
fn with_one_checkpoint_its_records_are_deleted() {
    let mut world = world(1);
    let mut running = world.open();
    world.record(&mut running, 3);
    running.settle();
    run_retention(&world, &mut running);
    assert_eq!((world.seqs(), segments(&world)), (vec![3], vec![4]));
    drop(running);
    assert_same(&world.open().kill(), &world.fold(3), "the table");
}

#[test]
fn retention_requests_checkpoints_with_pauses_between_them() {
    let mut world = world(u64::MAX);
    world.options.retain_ms = Some(0);
    let mut running = world.open();
    for _ in 0..3 {
        world.record(&mut running, 1);
    }
    world.clock.pass(4_000 * DAY_MS);
    running.settle();
    assert_eq!(world.seqs(), [3], "retention requested it");
    world.clock.pass(RETENTION_INTERVAL_MS);
    running.settle();
    assert_eq!(segments(&world), [4], "all records are deleted");
    world.record(&mut running, 1);
    world.clock.pass(RETENTION_INTERVAL_MS);
    running.settle();
    assert_eq!(world.seqs(), [3], "the next one is not due yet");
    for _ in 0..2 {
        world.clock.pass(CHECKPOINT_RETENTION_INTERVAL_MS);
        running.settle();
        world.record(&mut running, 1);
    }
    running.settle();
    assert_eq!(world.seqs().len(), 2);
    world.clock.pass(RETENTION_INTERVAL_MS);
    running.settle();
    assert!(segments(&world)[0] > 4, "{:?}", segments(&world));
    let last = world.last();
    assert_same(&running.kill(), &world.fold(last), "the table");
    assert_same(&world.open().kill(), &world.fold(last), "after a start");
}

#[test]
fn a_start_after_retention_gives_the_fold_of_all_records() {
    for seed in 0..times(30, 2_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = world([1, 3_000, 100_000][dice.below(3)]);
        world.options.segment_bytes = [1, 3_000][dice.below(2)];
        world.cost_max = [u64::MAX, 5_000][dice.below(2)];
        for _ in 0..4 {
            let mut running = world.open();
            assert!(running.warnings.is_empty(), "seed {seed}: {:?}", running.warnings);
            for _ in 0..dice.below(12) {
                world.record(&mut running, 1 + dice.below(20));
                world.clock.pass(
                    [0, RETENTION_INTERVAL_MS, CHECKPOINT_RETENTION_INTERVAL_MS, 4_000 * DAY_MS]
                        [dice.below(4)],
                );
                (0..dice.below(8)).for_each(|_| {
                    running.writer.run_once();
                    running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
                });
            }
            if dice.below(2) == 0 {
                world.disk.cut_power();
            }
            assert_same(&running.kill(), &world.fold(world.last()), &format!("seed {seed}"));
        }
    }
}
