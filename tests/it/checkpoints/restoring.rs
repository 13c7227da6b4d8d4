//! What a start makes of what it finds: the newest that the log bears out, and a loud word for everything else.

use parallax::visitors::checkpoint::directory::checkpoint_name;
use parallax::visitors::checkpoint::format::HEADER_BYTES;
use parallax::visitors::log::segment_name;

use super::{FOLDER, World, same};

#[test]
fn without_a_checkpoint_the_log_is_folded_from_its_beginning() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 40);
    drop(running);
    let running = world.open();
    assert_eq!((running.seq, running.report.records, &running.findings[..]), (0, 40, &[][..]));
    same(&running.killed(), &world.fold(40), "the table");
}

#[test]
fn another_bound_evicts_at_the_start_and_is_kept_at_once() {
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
    assert_eq!(world.seqs(), [200, 201], "the bound stands in the newest");
    let fewer = running.killed();
    let cost = |entries: &[super::Entry]| entries.iter().map(|entry| entry.1.len() as u64 + 112).sum::<u64>();
    assert!(fewer.len() < all.len() && cost(&fewer) <= 4_000 && cost(&all) > 4_000);
    same(&world.open().killed(), &fewer, "the same bound evicts nobody again");
    let left: Vec<_> = all.iter().filter(|entry| fewer.contains(entry)).cloned().collect();
    assert!(left.len() + 3 >= fewer.len(), "who stays is who was there, but for whom the last record is of");
}

#[test]
fn one_beyond_the_log_is_refused_put_aside_and_named() {
    let mut world = World::new(1);
    world.options.segment_bytes = 2_000;
    let mut running = world.open();
    for _ in 0..6 {
        world.record(&mut running, 10);
        running.settle();
    }
    drop(running);
    assert_eq!(world.seqs(), [50, 60]);
    // The end of the log is lost: the segments that begin with 41 or behind it.
    let lost: Vec<String> = world.disk.names().into_iter().filter(|name| *name >= segment_name(41)).collect();
    let disk = world.folder();
    for name in lost.iter().filter(|name| name.ends_with(".segment")) {
        disk.disk().unlink(&std::path::Path::new(FOLDER).join(name)).expect("the disk is well");
    }
    let running = world.open();
    let last = running.report.next_seq - 1;
    assert!((20..50).contains(&last), "{last}");
    assert_eq!((running.seq, running.report.records), (0, last));
    let named: Vec<String> = [50, 60].map(|seq| format!("{}: refused", checkpoint_name(seq))).to_vec();
    assert!(
        running.findings.iter().zip(&named).all(|(finding, named)| finding.starts_with(named)),
        "{:?}",
        running.findings
    );
    assert_eq!((running.findings.len(), world.seqs()), (2, vec![]));
    assert!(world.disk.names().contains(&format!("{}.refused", checkpoint_name(60))));
    same(&running.killed(), &world.fold(last), "the table");
    // The seqs are given to other records now, which no file of before may stand for.
    let mut running = world.open();
    assert!(running.findings.is_empty());
    world.log_bytes = u64::MAX;
    for _ in 0..3 {
        world.record(&mut running, 10);
    }
    drop(running);
    same(&world.open().killed(), &world.fold(world.last()), "the table");
}

#[test]
fn a_checkpoint_of_all_that_is_durable_is_no_log_that_was_lost() {
    // The log names a seq durable only with the next batch; the checkpoint was faster.
    let mut world = World::new(1);
    let mut running = world.open();
    world.record(&mut running, 10);
    for _ in 0..5 {
        running.writer.step();
        running.scribe.as_mut().expect("it is there").step();
    }
    assert_eq!(world.seqs(), [10]);
    drop(running);
    world.disk.cut_power();
    let running = world.open();
    assert_eq!((running.seq, running.findings.len(), running.report.next_seq), (10, 0, 11));
    assert!(running.report.findings.is_empty(), "{:?}", running.report.findings);
    same(&running.killed(), &world.fold(10), "the table");
}

#[test]
fn a_later_release_s_checkpoint_stops_the_start() {
    let mut world = World::new(1);
    let mut running = world.open();
    world.record(&mut running, 10);
    running.settle();
    drop(running);
    let path = world.folder().path_of(10);
    let mut bytes = world.disk.bytes(&path);
    bytes[8] = 2;
    let crc = parallax::checksum::castagnoli(&[&bytes[..HEADER_BYTES - 4]]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    world.disk.put(&path, &bytes);
    let refusal = world.try_open().err().expect("it is refused");
    assert!(refusal.contains(&checkpoint_name(10)) && refusal.contains("format version 2"), "{refusal}");
    assert!(world.seqs() == [10], "nothing was put aside");
}

#[test]
fn records_that_neither_a_checkpoint_nor_the_log_has_are_said_to_be_lost() {
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
        let mut bytes = world.disk.bytes(&world.folder().path_of(seq));
        bytes[70] ^= 1;
        world.disk.put(&world.folder().path_of(seq), &bytes);
    }
    for seq in [1, 3] {
        let path = std::path::Path::new(FOLDER).join(segment_name(seq));
        world.folder().disk().unlink(&path).expect("the disk is well");
    }
    let running = world.open();
    assert_eq!(running.findings.len(), 3);
    assert!(running.findings[2].starts_with("records 1..=4 are in no checkpoint"), "{:?}", running.findings);
    assert_eq!(running.report.records, 4);
}
