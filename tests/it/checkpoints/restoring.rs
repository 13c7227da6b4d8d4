//! Startup uses the newest checkpoint that the log confirms, and reports every checkpoint that it does not
//! use.

use parallax::testing::log::{DamageKind, check_directory, parse_segment_name, segment_name};
use parallax::testing::visitors::checkpoint::directory::checkpoint_name;
use parallax::testing::visitors::checkpoint::format::HEADER_BYTES;

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

/// Returns a world of 60 records in several segments, with checkpoints of the seqs 50 and 60.
fn checkpointed_world() -> World {
    let mut world = World::new(1);
    world.options.segment_bytes = 2_000;
    let mut running = world.open();
    for _ in 0..6 {
        world.record(&mut running, 10);
        running.settle();
    }
    drop(running);
    assert_eq!(world.seqs(), [50, 60]);
    world
}

/// Deletes the segments whose names `is_deleted` accepts.
fn delete_segments(world: &World, is_deleted: impl Fn(&str) -> bool) {
    for name in world.disk.names().iter().filter(|name| name.ends_with(".segment") && is_deleted(name)) {
        let path = std::path::Path::new(DIRECTORY).join(name);
        world.directory().disk().unlink(&path).expect("the disk works");
    }
}

#[test]
fn a_log_that_ends_below_a_checkpoint_is_damaged_and_gives_no_seq_twice() {
    for keeps_some in [true, false] {
        let world = checkpointed_world();
        delete_segments(&world, |name| !keeps_some || *name >= *segment_name(41));
        let check =
            |disk| check_directory(disk, std::path::Path::new(DIRECTORY), 60).expect("it is readable");
        let found = check(std::sync::Arc::new(world.disk.clone())).damage;
        let lost = found.iter().map(|damage| damage.lost_seqs.clone()).next_back().expect("it is damaged");
        assert_eq!((found.len(), lost.end), (1, 61), "{found:?}");
        assert!(if keeps_some { (20..50).contains(&lost.start) } else { lost.start == 1 }, "{lost:?}");
        let mut world = world;
        let mut running = world.open();
        assert_eq!((running.seq, running.report.next_seq), (60, 61), "the checkpoint counts");
        assert_eq!(running.report.damage, found);
        assert!(running.report.has_unexpected_damage());
        world.record(&mut running, 10);
        assert_same(&running.kill(), &world.fold(70), "the table");
    }
}

#[test]
fn the_seq_of_a_damaged_checkpoint_counts_too() {
    let world = checkpointed_world();
    for seq in [50, 60] {
        let mut bytes = world.disk.bytes(&world.directory().path_of(seq));
        *bytes.last_mut().expect("it has a trailer") ^= 1;
        world.disk.put(&world.directory().path_of(seq), &bytes);
    }
    delete_segments(&world, |_| true);
    let running = world.open();
    assert_eq!((running.seq, running.report.next_seq), (0, 61));
    assert_eq!(running.report.damage[0].lost_seqs, 1..61);
}

#[test]
fn a_start_notices_a_missing_segment_that_a_checkpoint_covers() {
    let world = checkpointed_world();
    let names: Vec<String> =
        world.disk.names().into_iter().filter(|name| name.ends_with(".segment")).collect();
    assert!(names.len() > 3, "{names:?}");
    delete_segments(&world, |name| name == names[1]);
    let running = world.open();
    let [damage] = &running.report.damage[..] else { panic!("{:?}", running.report.damage) };
    let first = |name: &str| parse_segment_name(name).expect("a segment");
    assert_eq!(
        (damage.kind, &damage.lost_seqs),
        (DamageKind::Missing, &(first(&names[1])..first(&names[2])))
    );
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
    bytes[8] = 5;
    let crc = parallax::testing::checksum::crc32c(&[&bytes[..HEADER_BYTES - 4]]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    world.disk.put(&path, &bytes);
    let refusal = world.try_open().err().expect("the start fails");
    assert!(refusal.contains(&checkpoint_name(10)) && refusal.contains("format version 5"), "{refusal}");
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
