//! Startup uses the newest checkpoint that the log confirms, and reports every checkpoint that it does not
//! use.

use parallax::testing::visitors::checkpoint::directory::checkpoint_name;
use parallax::testing::visitors::checkpoint::format::HEADER_BYTES;
use parallax::testing::visitors::log::segment_name;

use super::{DIRECTORY, World, assert_same};

#[test]
fn without_a_checkpoint_the_log_is_folded_from_its_beginning() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 40);
    drop(running);
    let running = world.open();
    assert_eq!((running.seq, running.report.records, &running.warnings[..]), (0, 40, &[][..]));
    assert_same(&running.kill(), &world.fold(40), "the table");
}

#[test]
fn a_smaller_bound_evicts_at_startup_and_is_saved_at_once() {
    let mut world = World::new(1);
    world.visitors = 60;
    let mut running = world.open();
    world.record(&mut running, 200);
    running.settle();
    drop(running);
    let all = world.fold(200);
    world.cost_max = 4_000;
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    assert_eq!(running.seq, 200);
    world.record(&mut running, 1);
    running.settle();
    assert_eq!(world.seqs(), [200, 201], "the newest checkpoint has the new bound");
    let fewer = running.kill();
    let cost = |entries: &[super::Entry]| entries.iter().map(|entry| entry.1.len() as u64 + 112).sum::<u64>();
    assert!(fewer.len() < all.len() && cost(&fewer) <= 4_000 && cost(&all) > 4_000);
    assert_same(&world.open().kill(), &fewer, "the same bound evicts nobody at the next start");
    let left: Vec<_> = all.iter().filter(|entry| fewer.contains(entry)).cloned().collect();
    assert!(left.len() + 3 >= fewer.len(), "only the owners of the last record are new");
}

#[test]
fn a_checkpoint_beyond_the_log_is_quarantined_and_reported() {
    let mut world = World::new(1);
    world.options.segment_bytes = 2_000;
    let mut running = world.open();
    for _ in 0..6 {
        world.record(&mut running, 10);
        running.settle();
    }
    drop(running);
    assert_eq!(world.seqs(), [50, 60]);
    // The end of the log is lost: all segments that begin at seq 41 or later.
    let lost: Vec<String> = world.disk.names().into_iter().filter(|name| *name >= segment_name(41)).collect();
    let directory = world.directory();
    for name in lost.iter().filter(|name| name.ends_with(".segment")) {
        directory.disk().unlink(&std::path::Path::new(DIRECTORY).join(name)).expect("the disk works");
    }
    let running = world.open();
    let last = running.report.next_seq - 1;
    assert!((20..50).contains(&last), "{last}");
    assert_eq!((running.seq, running.report.records), (0, last));
    let named: Vec<String> = [50, 60].map(|seq| format!("{}: quarantined", checkpoint_name(seq))).to_vec();
    assert!(
        running.warnings.iter().zip(&named).all(|(warning, named)| warning.starts_with(named)),
        "{:?}",
        running.warnings
    );
    assert_eq!((running.warnings.len(), world.seqs()), (2, vec![]));
    assert!(world.disk.names().contains(&format!("{}.refused", checkpoint_name(60))));
    assert_same(&running.kill(), &world.fold(last), "the table");
    // These seqs belong to other records now, and no older file may cover them.
    let mut running = world.open();
    assert!(running.warnings.is_empty());
    world.log_bytes = u64::MAX;
    for _ in 0..3 {
        world.record(&mut running, 10);
    }
    drop(running);
    assert_same(&world.open().kill(), &world.fold(world.last()), "the table");
}

#[test]
fn a_checkpoint_ahead_of_the_watermark_is_not_a_lost_log() {
    // The log marks a seq as durable only with the next batch. The checkpoint was faster.
    let mut world = World::new(1);
    let mut running = world.open();
    world.record(&mut running, 10);
    for _ in 0..5 {
        running.writer.run_once();
        running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
    }
    assert_eq!(world.seqs(), [10]);
    drop(running);
    world.disk.cut_power();
    let running = world.open();
    assert_eq!((running.seq, running.warnings.len(), running.report.next_seq), (10, 0, 11));
    assert!(running.report.damage.is_empty(), "{:?}", running.report.damage);
    assert_same(&running.kill(), &world.fold(10), "the table");
}

#[test]
fn a_checkpoint_of_a_later_release_stops_the_start() {
    let mut world = World::new(1);
    let mut running = world.open();
    world.record(&mut running, 10);
    running.settle();
    drop(running);
    let path = world.directory().path_of(10);
    let mut bytes = world.disk.bytes(&path);
    bytes[8] = 3;
    let crc = parallax::testing::checksum::crc32c(&[&bytes[..HEADER_BYTES - 4]]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    world.disk.put(&path, &bytes);
    let refusal = world.try_open().err().expect("the start fails");
    assert!(refusal.contains(&checkpoint_name(10)) && refusal.contains("format version 3"), "{refusal}");
    assert!(world.seqs() == [10], "nothing was quarantined");
}

#[test]
fn records_in_neither_a_checkpoint_nor_the_log_are_reported_lost() {
    let mut world = World::new(1);
    world.options.segment_bytes = 1;
    let mut running = world.open();
    for _ in 0..4 {
        world.record(&mut running, 2);
        running.settle();
    }
    drop(running);
    assert_eq!(world.seqs(), [6, 8]);
    for seq in [6, 8] {
        let mut bytes = world.disk.bytes(&world.directory().path_of(seq));
        bytes[70] ^= 1;
        world.disk.put(&world.directory().path_of(seq), &bytes);
    }
    for seq in [1, 3] {
        let path = std::path::Path::new(DIRECTORY).join(segment_name(seq));
        world.directory().disk().unlink(&path).expect("the disk works");
    }
    let running = world.open();
    assert_eq!(running.warnings.len(), 3);
    assert!(running.warnings[2].starts_with("records 1..=4 are in no checkpoint"), "{:?}", running.warnings);
    assert_eq!(running.report.records, 4);
}
