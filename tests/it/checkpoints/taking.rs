//! A checkpoint is the table as of one seq, even if records arrive while it is made. It is made when it is
//! due.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parallax::testing::limits::{CHECKPOINT_RETRY_MS, CHECKPOINT_STOP_MS};
use parallax::testing::log::Ack;
use parallax::testing::visitors::checkpoint::reader::CheckpointReader;
use parallax::testing::visitors::store::table::Table;

use super::{Entry, World, assert_same, entries};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::Plan;

/// Returns the entries of the checkpoint at a seq.
fn checkpoint_entries(world: &World, seq: u64) -> Vec<Entry> {
    let opened = CheckpointReader::open(world.directory().disk(), &world.directory().path_of(seq))
        .expect("the file is valid");
    assert_eq!(opened.header().seq, seq);
    let (mut entries, mut kept) = (opened.entries().expect("the file is valid"), Vec::new());
    while let Some(entry) = entries.read_next().expect("the file is valid") {
        kept.push((entry.key, entry.value.to_vec(), entry.class));
    }
    kept
}

#[test]
fn a_checkpoint_made_under_load_is_the_fold_up_to_its_seq() {
    let mut under_load = 0;
    for seed in 0..times(6, 300) as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(seed);
        world.visitors = [20, 6_000][dice.below(2)];
        world.cost_max = [u64::MAX, 900_000, 20_000][dice.below(3)];
        world.options.ack = [Ack::Disk, Ack::Written][dice.below(2)];
        world.log_bytes = 200_000;
        let mut running = world.open();
        for _ in 0..40 {
            let before = world.last();
            world.record(&mut running, 1 + dice.below(200));
            world.clock.pass([0, 60][dice.below(2)]);
            // Sometimes the disk is slower than the log writer.
            if dice.below(3) > 0 {
                running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
            }
            for seq in world.seqs() {
                under_load += u64::from(seq < before);
                assert_same(
                    &checkpoint_entries(&world, seq),
                    &world.fold(seq),
                    &format!("seed {seed}, seq {seq}"),
                );
            }
        }
        assert!(running.metrics.written() > 0, "seed {seed}: there were enough records for a checkpoint");
        assert_same(&running.kill(), &world.fold(world.last()), &format!("seed {seed}"));
        assert_same(&world.open().kill(), &world.fold(world.last()), &format!("seed {seed}, after a start"));
    }
    assert!(under_load > 0, "no record arrived while a checkpoint was made");
}

#[test]
fn a_checkpoint_is_made_after_enough_records_and_no_sooner() {
    let mut world = World::new(1);
    world.log_bytes = 3_000;
    let mut running = world.open();
    let mut bytes = 0;
    while bytes < 3_000 {
        running.settle();
        assert_eq!(world.seqs(), [0; 0], "{bytes} bytes are too few");
        let before = running.queue.metrics().bytes();
        world.record(&mut running, 1);
        // The header of a batch is not part of its records.
        bytes += running.queue.metrics().bytes() - before - 40;
    }
    running.settle();
    assert_eq!(world.seqs(), [world.last()]);
    assert_eq!((running.metrics.written(), running.metrics.seq()), (1, world.last()));
    running.settle();
    assert_eq!(running.metrics.written(), 1, "there are no new records");
}

#[test]
fn with_an_interval_a_checkpoint_is_made_after_this_time_if_there_is_a_new_record() {
    let mut world = World::new(1);
    (world.log_bytes, world.interval) = (u64::MAX, Some(Duration::from_secs(3_600)));
    let mut running = world.open();
    world.record(&mut running, 1);
    for written in 1..=2 {
        world.clock.pass(3_599_000);
        running.settle();
        assert_eq!(running.metrics.written(), written - 1, "an hour has not passed");
        world.clock.pass(1_000);
        running.settle();
        assert_eq!((running.metrics.written(), running.metrics.seq()), (written, world.last()));
        world.record(&mut running, 1);
    }
    running.settle();
    world.clock.pass(3_600_000);
    running.settle();
    world.clock.pass(3_600_000);
    running.settle();
    assert_eq!(running.metrics.written(), 3, "there are no new records since the third one");
}

#[test]
fn two_checkpoints_are_kept_and_a_temporary_file_is_deleted() {
    let mut world = World::new(1);
    let mut running = world.open();
    let mut last_seqs = Vec::new();
    for _ in 0..5 {
        world.record(&mut running, 10);
        running.settle();
        last_seqs.push(world.last());
        assert_eq!(world.seqs(), last_seqs[last_seqs.len().saturating_sub(2)..]);
        assert_eq!(running.metrics.checkpointed_seq(), world.seqs()[0]);
    }
    drop(running);
    world.disk.put(std::path::Path::new("/data/.checkpoint"), b"half");
    let running = world.open();
    assert!(!world.disk.names().contains(&".checkpoint".to_owned()));
    assert_eq!((running.seq, running.report.records), (world.last(), 0));
}

#[test]
fn a_failing_disk_costs_one_checkpoint_and_no_event() {
    let mut world = World::new(1);
    world.log_bytes = 20_000;
    let mut running = world.open();
    world.record(&mut running, 200);
    // The copy has begun, and from now on the disk is full.
    running.writer.run_once();
    world.disk.plan(Plan::Full);
    for _ in 0..50 {
        running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
        running.writer.run_once();
    }
    assert_eq!(
        (running.metrics.written(), running.metrics.failed()),
        (0, 1),
        "the next attempt waits for a pause"
    );
    world.disk.plan(Plan::Never);
    assert!(world.record(&mut running, 1));
    running.settle();
    assert_eq!(running.metrics.written(), 0);
    let due = running.writer.next_due().expect("the next attempt is scheduled");
    assert!(due.as_millis() <= u128::from(CHECKPOINT_RETRY_MS), "{due:?}");
    world.clock.pass(CHECKPOINT_RETRY_MS);
    running.settle();
    assert_eq!((running.metrics.written(), world.seqs()), (1, vec![world.last()]));
    assert_same(&running.kill(), &world.fold(world.last()), "the table");
}

#[test]
fn a_stop_writes_a_last_checkpoint_and_the_next_start_reads_no_record() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 500);
    running.stop();
    assert_eq!(world.seqs(), [500]);
    let running = world.open();
    assert_eq!((running.seq, running.report.records, running.warnings.len()), (500, 0, 0));
    running.stop();
    assert_eq!(world.seqs(), [500], "there are no new records");
    assert_same(&world.open().kill(), &world.fold(500), "the table");
}

#[test]
fn a_stop_does_not_wait_for_a_hanging_checkpoint_writer() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 50);
    // The test never runs the checkpoint writer, and the stop may wait 100 ms for it.
    let _idle_checkpoint_writer = running.checkpoint_writer.take();
    running.stop_ms.store(100, Ordering::Relaxed);
    running.queue.stop();
    let begun = std::time::Instant::now();
    running.writer.close();
    let took = begun.elapsed().as_millis() as u64;
    assert!((100..CHECKPOINT_STOP_MS).contains(&took), "{took} ms");
    assert_eq!(world.seqs(), [0; 0]);
    assert_same(&world.open().kill(), &world.fold(50), "the log has every record");
}

#[test]
fn a_restored_table_evicts_in_the_same_order_as_its_original() {
    let mut world = World::new(3);
    world.cost_max = 8_000;
    world.visitors = 100;
    let mut running = world.open();
    for _ in 0..30 {
        world.record(&mut running, 7);
        running.settle();
    }
    let seq = *world.seqs().last().expect("a checkpoint was made");
    assert!(!checkpoint_entries(&world, seq).is_empty());
    drop(running);
    // Each round is a restart with new records, evictions and a checkpoint.
    for round in 0..10 {
        let mut running = world.open();
        world.record(&mut running, 5);
        running.settle();
        assert_same(&running.kill(), &world.fold(world.last()), &format!("round {round}"));
    }
    let none = Table::new();
    assert!(entries(none).is_empty());
}
