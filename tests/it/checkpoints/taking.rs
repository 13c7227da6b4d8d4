//! A checkpoint is the table as of one seq, however much happens while it is made; and it is made when it is due.

use std::sync::atomic::Ordering;

use parallax::limits::{CHECKPOINT_RETRY_MS, CHECKPOINT_STOP_MS};
use parallax::visitors::checkpoint::reader::Opened;
use parallax::visitors::log::Ack;
use parallax::visitors::store::table::Table;

use super::{Entry, World, entries, same};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::Plan;

/// What the file of a seq holds.
fn kept(world: &World, seq: u64) -> Vec<Entry> {
    let opened = Opened::open(world.folder().disk(), &world.folder().path_of(seq)).expect("it is sound");
    assert_eq!(opened.header().seq, seq);
    let (mut entries, mut kept) = (opened.entries().expect("it is sound"), Vec::new());
    while let Some(entry) = entries.read_next().expect("it is sound") {
        kept.push((entry.key, entry.value.to_vec(), entry.rank));
    }
    kept
}

#[test]
fn a_checkpoint_that_was_made_in_a_storm_is_the_fold_up_to_its_seq() {
    let mut in_a_storm = 0;
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
            // The disk is slower than the writer, or not.
            if dice.below(3) > 0 {
                running.scribe.as_mut().expect("it is there").step();
            }
            for seq in world.seqs() {
                in_a_storm += u64::from(seq < before);
                same(&kept(&world, seq), &world.fold(seq), &format!("seed {seed}, seq {seq}"));
            }
        }
        assert!(running.figures.made() > 0, "seed {seed}: there was enough for one");
        same(&running.killed(), &world.fold(world.last()), &format!("seed {seed}"));
        same(&world.open().killed(), &world.fold(world.last()), &format!("seed {seed}, after a start"));
    }
    assert!(in_a_storm > 0, "records came while a checkpoint was made");
}

#[test]
fn one_is_made_once_enough_was_recorded_and_no_sooner() {
    let mut world = World::new(1);
    world.log_bytes = 3_000;
    let mut running = world.open();
    let mut bytes = 0;
    while bytes < 3_000 {
        running.settle();
        assert_eq!(world.seqs(), [0; 0], "{bytes} bytes are too few");
        let before = running.queue.figures().bytes();
        world.record(&mut running, 1);
        // A batch's header is no record's.
        bytes += running.queue.figures().bytes() - before - 40;
    }
    running.settle();
    assert_eq!(world.seqs(), [world.last()]);
    assert_eq!((running.figures.made(), running.figures.seq()), (1, world.last()));
    running.settle();
    assert_eq!(running.figures.made(), 1, "nothing has come since");
}

#[test]
fn two_generations_are_kept_and_what_was_half_made_goes() {
    let mut world = World::new(1);
    let mut running = world.open();
    let mut made = Vec::new();
    for _ in 0..5 {
        world.record(&mut running, 10);
        running.settle();
        made.push(world.last());
        assert_eq!(world.seqs(), made[made.len().saturating_sub(2)..]);
        assert_eq!(running.figures.covered(), world.seqs()[0]);
    }
    drop(running);
    world.disk.put(std::path::Path::new("/data/.checkpoint"), b"half");
    let running = world.open();
    assert!(!world.disk.names().contains(&".checkpoint".to_owned()));
    assert_eq!((running.seq, running.report.records), (world.last(), 0));
}

#[test]
fn a_disk_that_fails_costs_the_attempt_and_no_event() {
    let mut world = World::new(1);
    world.log_bytes = 20_000;
    let mut running = world.open();
    world.record(&mut running, 200);
    // The copy is on its way, and the disk takes no more.
    running.writer.step();
    world.disk.plan(Plan::Full);
    for _ in 0..50 {
        running.scribe.as_mut().expect("it is there").step();
        running.writer.step();
    }
    assert_eq!((running.figures.made(), running.figures.failed()), (0, 1), "it is not tried without a pause");
    world.disk.plan(Plan::Never);
    assert!(world.record(&mut running, 1));
    running.settle();
    assert_eq!(running.figures.made(), 0);
    let due = running.writer.due().expect("it is tried again by itself");
    assert!(due.as_millis() <= u128::from(CHECKPOINT_RETRY_MS), "{due:?}");
    world.clock.pass(CHECKPOINT_RETRY_MS);
    running.settle();
    assert_eq!((running.figures.made(), world.seqs()), (1, vec![world.last()]));
    same(&running.killed(), &world.fold(world.last()), "the table");
}

#[test]
fn a_stop_makes_a_last_one_and_the_next_start_reads_no_record() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 500);
    running.stop();
    assert_eq!(world.seqs(), [500]);
    let running = world.open();
    assert_eq!((running.seq, running.report.records, running.findings.len()), (500, 0, 0));
    running.stop();
    assert_eq!(world.seqs(), [500], "nothing has come since");
    same(&world.open().killed(), &world.fold(500), "the table");
}

#[test]
fn a_stop_does_not_wait_for_a_checkpointer_that_hangs() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 50);
    // Nobody steps it, and the stop has used up most of its time.
    let _scribe = running.scribe.take();
    running.stop_ms.store(100, Ordering::Relaxed);
    running.queue.stop();
    let begun = std::time::Instant::now();
    running.writer.close();
    let took = begun.elapsed().as_millis() as u64;
    assert!((100..CHECKPOINT_STOP_MS).contains(&took), "{took} ms");
    assert_eq!(world.seqs(), [0; 0]);
    same(&world.open().killed(), &world.fold(50), "the log has it");
}

#[test]
fn a_table_that_is_put_in_order_evicts_as_the_one_that_was_copied() {
    let mut world = World::new(3);
    world.cost_max = 8_000;
    world.visitors = 100;
    let mut running = world.open();
    for _ in 0..30 {
        world.record(&mut running, 7);
        running.settle();
    }
    let seq = *world.seqs().last().expect("one was made");
    assert!(!kept(&world, seq).is_empty());
    drop(running);
    // Whole runs of restarts, with evictions in between.
    for round in 0..10 {
        let mut running = world.open();
        world.record(&mut running, 5);
        running.settle();
        same(&running.killed(), &world.fold(world.last()), &format!("round {round}"));
    }
    let none = Table::new();
    assert!(entries(none).is_empty());
}
