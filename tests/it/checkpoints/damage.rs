//! Bytes that are not what was written: each is noticed, said with the file's name, and costs no more than the file.

use std::path::PathBuf;

use parallax::visitors::checkpoint::directory::checkpoint_name;
use parallax::visitors::checkpoint::format::{
    BLOCK_HEADER_BYTES, HEADER_BYTES, Kept, Run, begin_block, end_block, sum_on, trailer_to_bytes,
};
use parallax::visitors::checkpoint::reader::Opened;
use parallax::visitors::checkpoint::restore::table_of;
use parallax::visitors::store::table::{Key, Rank};

use super::{World, same};
use crate::dice::Dice;
use crate::harness::times;

/// Two generations and a record behind them; the file of the newer.
fn two(visitors: usize) -> (World, PathBuf) {
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
    let path = world.folder().path_of(12);
    (world, path)
}

#[test]
fn whatever_byte_of_the_newest_changes_the_one_before_stands_in_for_it() {
    let (world, path) = two(4);
    let sound = world.disk.bytes(&path);
    let expected = world.fold(15);
    let mut dice = Dice(1);
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << dice.below(8);
        world.disk.put(&path, &bytes);
        if bytes[8..12] != sound[8..12] {
            // A version that is not known, were the checksum right.
            bytes[8..12].copy_from_slice(&sound[8..12]);
        }
        let running = world.open();
        assert_eq!((running.seq, running.report.records), (6, 9), "byte {at}");
        let finding = running.findings.first().unwrap_or_else(|| panic!("byte {at} is not noticed"));
        assert!(finding.starts_with(&checkpoint_name(12)), "{finding}");
        same(&running.killed(), &expected, &format!("byte {at}"));
    }
}

#[test]
fn a_file_that_was_cut_or_grew_is_not_used() {
    let (world, path) = two(4);
    let sound = world.disk.bytes(&path);
    let expected = world.fold(15);
    for length in (0..sound.len()).chain([sound.len() + 1, sound.len() + 8]) {
        let mut bytes = sound.clone();
        bytes.resize(length, 0);
        world.disk.put(&path, &bytes);
        let running = world.open();
        assert_eq!((running.seq, running.findings.len()), (6, 1), "{length} bytes");
        same(&running.killed(), &expected, &format!("{length} bytes"));
    }
}

#[test]
fn with_both_damaged_the_log_is_folded_from_its_beginning() {
    let (world, path) = two(10);
    let older = world.folder().path_of(6);
    for path in [&path, &older] {
        let mut bytes = world.disk.bytes(path);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        world.disk.put(path, &bytes);
    }
    let mut running = world.open();
    assert_eq!((running.seq, running.report.records, running.findings.len()), (0, 15, 2));
    // What was there could not be used, so that another is made as soon as there is something to keep.
    running.settle();
    assert_eq!(world.seqs(), [15], "and the damaged ones are gone");
    same(&running.killed(), &world.fold(15), "the table");
}

#[test]
fn bytes_by_chance_and_sound_parts_in_the_wrong_place_are_never_taken() {
    let (world, path) = two(40);
    let sound = world.disk.bytes(&path);
    let mut dice = Dice(5);
    for round in 0..times(300, 100_000) {
        let mut bytes = sound.clone();
        for _ in 0..=dice.below(3) {
            let (from, to) = (dice.below(bytes.len()), dice.below(bytes.len()));
            let length = dice.below(64).min(bytes.len() - from.max(to));
            match dice.below(3) {
                0 => bytes.copy_within(from..from + length, to),
                1 => bytes[from..from + length].iter_mut().for_each(|byte| *byte = dice.byte()),
                _ => drop(bytes.drain(from..from + length)),
            }
        }
        world.disk.put(&path, &bytes);
        let opened =
            Opened::open(world.folder().disk(), &path).and_then(|opened| table_of(opened, &mut |_, _| {}));
        assert!(opened.is_err() || bytes == sound, "round {round}");
    }
}

/// A file of these runs, every checksum right.
fn forged(runs: &[Vec<(u64, u64)>]) -> Vec<u8> {
    let world = World::new(1);
    let header = parallax::visitors::checkpoint::format::Header {
        seq: 1,
        made_ms: 0,
        secret: super::SECRET,
        cost_max: world.cost_max,
        entries: runs.iter().map(|run| run.len() as u64).sum(),
    };
    let header = header.to_bytes();
    let (mut bytes, mut table) = (header.to_vec(), Vec::new());
    for run in runs {
        let mut block = Vec::new();
        begin_block(&mut block);
        for &(key, order) in run {
            Kept { key: Key([key, key]), order, rank: Rank::Once, value: b"\x02value" }.encode(&mut block);
        }
        let crc = end_block(&mut block, run.len() as u32);
        let (at, entries) = (bytes.len() as u64, run.len() as u64);
        table.push(Run { at, bytes: block.len() as u64, entries, sum: sum_on(0, crc) });
        bytes.extend(&block);
    }
    let at = bytes.len() as u64;
    bytes.extend(trailer_to_bytes(&table, &header, at));
    bytes
}

fn loads(bytes: &[u8]) -> Result<usize, String> {
    let world = World::new(1);
    let path = world.folder().path_of(1);
    world.disk.put(&path, bytes);
    let opened =
        Opened::open(world.folder().disk(), &path).and_then(|opened| table_of(opened, &mut |_, _| {}));
    opened.map(|table| table.len()).map_err(|fault| fault.to_string())
}

#[test]
fn what_no_writer_writes_is_refused_though_its_checksums_are_right() {
    assert_eq!(loads(&forged(&[vec![(1, 5), (2, 9)], vec![(3, 1), (4, 7)]])), Ok(4));
    assert_eq!(loads(&forged(&[])), Ok(0));
    let refused = |runs: &[Vec<(u64, u64)>], what: &str| {
        let refusal = loads(&forged(runs)).expect_err(what);
        assert!(refusal.contains(what), "{refusal}");
    };
    refused(&[vec![(1, 5), (2, 4)]], "orders do not ascend");
    refused(&[vec![(1, 5)], vec![(2, 5)]], "orders do not ascend");
    refused(&[vec![(1, u64::MAX)]], "no order is so large");
    refused(&[vec![(1, 5), (1, 6)]], "two entries have one key");
    refused(&[vec![]], "a block");
    let mut bytes = forged(&[vec![(1, 5)]]);
    let entry = HEADER_BYTES + BLOCK_HEADER_BYTES;
    // A rank that there is not, under a checksum that is right.
    bytes[entry + 24] = 3;
    let refusal = loads(&bytes).expect_err("the block");
    assert!(refusal.contains("a block"), "{refusal}");
}
