//! Damaged checkpoints: every damage is detected, reported with the name of the file, and costs no more than
//! the file.

use std::path::PathBuf;

use parallax::testing::log::LogId;
use parallax::testing::visitors::checkpoint::directory::checkpoint_name;
use parallax::testing::visitors::checkpoint::format::{
    BLOCK_HEADER_BYTES, CheckpointEntry, HEADER_BYTES, Parts, Run, begin_block, end_block, extend_checksum,
    trailer_to_bytes,
};
use parallax::testing::visitors::checkpoint::reader::CheckpointReader;
use parallax::testing::visitors::checkpoint::restore::load_fold;
use parallax::testing::visitors::store::table::{EvictionClass, Key};

use super::{World, assert_same};
use crate::dice::Dice;
use crate::harness::times;

/// Returns a world with checkpoints at seq 6 and 12 and three records after them, and the path of the newer
/// checkpoint.
fn two_checkpoints(visitors: usize) -> (World, PathBuf) {
    let mut world = World::new(1);
    world.visitors = visitors;
    let mut running = world.open();
    for _ in 0..2 {
        world.record(&mut running, 6);
        running.settle();
    }
    world.log_bytes = u64::MAX;
    drop(running);
    let mut running = world.open();
    world.record(&mut running, 3);
    assert_eq!(world.seqs(), [6, 12]);
    let path = world.directory().path_of(12);
    (world, path)
}

#[test]
fn any_changed_byte_makes_a_start_use_the_older_checkpoint() {
    let (world, path) = two_checkpoints(4);
    let valid = world.disk.bytes(&path);
    let expected = world.fold(15);
    let mut dice = Dice(1);
    for at in 0..valid.len() {
        let mut bytes = valid.clone();
        bytes[at] ^= 1 << dice.below(8);
        world.disk.put(&path, &bytes);
        let running = world.open();
        assert_eq!((running.seq, running.report.records), (6, 9), "byte {at}");
        let warning =
            running.warnings.first().unwrap_or_else(|| panic!("the change of byte {at} is not noticed"));
        assert!(warning.starts_with(&checkpoint_name(12)), "{warning}");
        assert_same(&running.kill(), &expected, &format!("byte {at}"));
    }
}

#[test]
fn a_truncated_or_extended_file_is_not_used() {
    let (world, path) = two_checkpoints(4);
    let valid = world.disk.bytes(&path);
    let expected = world.fold(15);
    for length in (0..valid.len()).chain([valid.len() + 1, valid.len() + 8]) {
        let mut bytes = valid.clone();
        bytes.resize(length, 0);
        world.disk.put(&path, &bytes);
        let running = world.open();
        assert_eq!((running.seq, running.warnings.len()), (6, 1), "{length} bytes");
        assert_same(&running.kill(), &expected, &format!("{length} bytes"));
    }
}

#[test]
fn with_both_checkpoints_damaged_the_whole_log_is_folded() {
    let (world, path) = two_checkpoints(10);
    let older = world.directory().path_of(6);
    for path in [&path, &older] {
        let mut bytes = world.disk.bytes(path);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        world.disk.put(path, &bytes);
    }
    let mut running = world.open();
    assert_eq!((running.seq, running.report.records, running.warnings.len()), (0, 15, 2));
    // Both files are unusable, so the next checkpoint is made as soon as there are records to keep.
    running.settle();
    assert_eq!(world.seqs(), [15], "the damaged checkpoints are deleted");
    assert_same(&running.kill(), &world.fold(15), "the table");
}

#[test]
fn random_bytes_and_misplaced_parts_are_never_accepted() {
    let (world, path) = two_checkpoints(40);
    let valid = world.disk.bytes(&path);
    let mut dice = Dice(5);
    for round in 0..times(300, 100_000) {
        let mut bytes = valid.clone();
        for _ in 0..=dice.below(3) {
            let (from, to) = (dice.below(bytes.len()), dice.below(bytes.len()));
            let length = dice.below(64).min(bytes.len() - from.max(to));
            match dice.below(3) {
                0 => bytes.copy_within(from..from + length, to),
                1 => bytes[from..from + length].iter_mut().for_each(|byte| *byte = dice.next_u64() as u8),
                _ => drop(bytes.drain(from..from + length)),
            }
        }
        world.disk.put(&path, &bytes);
        let opened = CheckpointReader::open(world.directory().disk(), &path)
            .and_then(|opened| load_fold(opened, &mut |_, _| {}));
        assert!(opened.is_err() || bytes == valid, "round {round}");
    }
}

/// Returns a checkpoint file of these runs. Every checksum is correct.
fn forge(runs: &[Vec<(u64, u64)>]) -> Vec<u8> {
    let world = World::new(1);
    let header = parallax::testing::visitors::checkpoint::format::Header {
        seq: 1,
        created_ms: 0,
        secret: super::SECRET,
        cost_max: world.cost_max,
        entries: runs.iter().map(|run| run.len() as u64).sum(),
        log_id: LogId([7; 16]),
        evicted: 0,
        key_check: 0,
    };
    let header = header.to_bytes();
    let (mut bytes, mut table) = (header.to_vec(), Vec::new());
    for run in runs {
        let mut block = Vec::new();
        begin_block(&mut block);
        for &(key, order) in run {
            CheckpointEntry {
                key: Key([key, key]),
                order,
                class: EvictionClass::SingleVisit,
                value: b"\x02value",
            }
            .encode(&mut block);
        }
        let crc = end_block(&mut block, run.len() as u32);
        let (at, entries) = (bytes.len() as u64, run.len() as u64);
        table.push(Run { offset: at, bytes: block.len() as u64, entries, checksum: extend_checksum(0, crc) });
        bytes.extend(&block);
    }
    let at = bytes.len() as u64;
    let empty = Run { offset: at, ..Run::default() };
    let parts = Parts { runs: table, ties: empty, lost: empty, sites: empty, stream: empty };
    bytes.extend(trailer_to_bytes(&parts, &header, at));
    bytes
}

fn load(bytes: &[u8]) -> Result<usize, String> {
    let world = World::new(1);
    let path = world.directory().path_of(1);
    world.disk.put(&path, bytes);
    let opened = CheckpointReader::open(world.directory().disk(), &path)
        .and_then(|opened| load_fold(opened, &mut |_, _| {}));
    opened.map(|fold| fold.table.len()).map_err(|fault| fault.to_string())
}

#[test]
fn impossible_contents_with_correct_checksums_are_refused() {
    assert_eq!(load(&forge(&[vec![(1, 5), (2, 9)], vec![(3, 1), (4, 7)]])), Ok(4));
    assert_eq!(load(&forge(&[])), Ok(0));
    let assert_refused = |runs: &[Vec<(u64, u64)>], reason: &str| {
        let refusal = load(&forge(runs)).expect_err(reason);
        assert!(refusal.contains(reason), "{refusal}");
    };
    assert_refused(&[vec![(1, 5), (2, 4)]], "the order of an entry is not above the one before");
    assert_refused(&[vec![(1, 5)], vec![(2, 5)]], "the order of an entry is not above the one before");
    assert_refused(&[vec![(1, u64::MAX)]], "the order of an entry is too large");
    assert_refused(&[vec![(1, 5), (1, 6)]], "two entries have the same key");
    assert_refused(&[vec![]], "invalid block");
    let mut bytes = forge(&[vec![(1, 5)]]);
    let entry = HEADER_BYTES + BLOCK_HEADER_BYTES;
    // An unknown eviction class. The checksum of the block is not updated, so it no longer matches either.
    bytes[entry + 24] = 3;
    let refusal = load(&bytes).expect_err("the block");
    assert!(refusal.contains("invalid block"), "{refusal}");
}
