//! What is cut or changed is found, and costs no more than what it hit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::checksum::castagnoli;
use parallax::clock::Clock;
use parallax::limits::SEQ_MAX;
use parallax::visitors::log::format::{
    HEADER_BYTES, Header, batch_length, oldest_from_bytes, oldest_to_bytes,
};
use parallax::visitors::log::{
    Flaw, Item, LogError, Reader, check_file, check_folder, read_footer, segment_name, seq_of,
};

use super::simulated::SimulatedDisk;
use super::{FOLDER, Log, START_MS, TestClock, hex, options, record};
use crate::harness::times;

fn path(first_seq: u64) -> PathBuf {
    Path::new(FOLDER).join(segment_name(first_seq))
}

/// A segment of batches of one to three records until they have so many bytes; without the zeros behind them.
fn segment(bytes: usize, seals: bool) -> Vec<u8> {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk is well");
    let mut key = 0;
    while log.queue.figures().bytes() < bytes as u64 {
        let keys: Vec<u128> = (0..1 + key % 3).map(|more| key + more + 1).collect();
        key += keys.len() as u128;
        log.record(&keys, clock.now_ms());
    }
    if seals {
        log.stop();
        return disk.bytes(&path(1));
    }
    let mut written = disk.bytes(&path(1));
    written.truncate(batches(&written).last().expect("there are some").1);
    written
}

/// Begin, end, first seq and next seq of each batch.
fn batches(bytes: &[u8]) -> Vec<(usize, usize, u64, u64)> {
    let (mut at, mut seq, mut batches) = (HEADER_BYTES, 1, Vec::new());
    while let Some(length) = bytes.get(at..).and_then(batch_length) {
        let count = u64::from(bytes[at + 24]);
        batches.push((at, at + length, seq, seq + count));
        (at, seq) = (at + length, seq + count);
    }
    batches
}

fn disk_with(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    disk.put(&path(1), bytes);
    disk
}

/// The seqs that a reader gives, and whether it complains.
fn read(disk: &SimulatedDisk) -> (Vec<u64>, bool) {
    let mut reader = Reader::open(Arc::new(disk.clone()), Path::new(FOLDER), 0).expect("it opens");
    let (mut seqs, mut complains) = (Vec::new(), false);
    while let Some(item) = reader.read_next().expect("it reads") {
        match item {
            Item::Records(records) => seqs.extend(records.iter().map(|(seq, _)| seq)),
            Item::Finding(_) => complains = true,
        }
    }
    (seqs, complains)
}

#[test]
fn a_segment_cut_at_any_byte_of_its_last_two_batches_is_an_exact_prefix() {
    let whole = segment(4_000, false);
    let batches = batches(&whole);
    let last_two = batches[batches.len() - 2].0;
    for (length, zeros) in (last_two..=whole.len()).flat_map(|length| [(length, 0), (length, 3_000)]) {
        let disk = disk_with(&[&whole[..length], &vec![0; zeros]].concat());
        // Where what was cut is zeros as well, it is there again.
        let length = length + whole[length..].iter().take(zeros).take_while(|byte| **byte == 0).count();
        let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("it opens");
        let next_seq = batches.iter().rev().find(|batch| batch.1 <= length).map_or(1, |batch| batch.3);
        let expected: Vec<u64> = (1..next_seq).collect();
        let folded: Vec<u64> = log.folded().iter().map(|(seq, _)| *seq).collect();
        assert_eq!(folded, expected, "cut at {length}");
        let is_clean = length == last_two || batches.iter().any(|batch| batch.1 == length);
        let flaws: Vec<Flaw> = log.report.findings.iter().map(|finding| finding.flaw).collect();
        assert_eq!(flaws, if is_clean { vec![] } else { vec![Flaw::Torn] }, "cut at {length}");
        assert_eq!(log.report.kept_aside.len(), flaws.len());
        drop(log);
        let again = Log::open(Arc::new(disk), &Arc::default(), options()).expect("it opens");
        assert_eq!(again.report.findings, [], "said once; cut at {length}");
        assert_eq!(again.folded().len(), expected.len());
    }
}

#[test]
fn every_changed_bit_is_found_and_costs_its_batch_at_most() {
    let whole = segment(57_000, true);
    let batches = batches(&whole);
    let all: Vec<u64> = (1..batches[batches.len() - 1].3).collect();
    assert_eq!(read(&disk_with(&whole)), (all.clone(), false));
    for bit in (0..whole.len() * 8).step_by(times(397, 1)) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let disk = disk_with(&bytes);
        let checked = check_folder(Arc::new(disk.clone()), Path::new(FOLDER)).expect("it reads");
        assert_eq!(checked.findings.len(), 1, "bit {bit}: {:?}", checked.findings);
        let hit = batches.iter().find(|batch| (batch.0..batch.1).contains(&(bit / 8)));
        let lost = hit.map_or(0..0, |batch| batch.2..batch.3);
        assert_eq!(checked.findings[0].lost, lost, "bit {bit}");
        // Without its footer a segment is as a crash left it: a reader cannot tell its last batch to be durable.
        let footer_is_hit = bit / 8 >= batches[batches.len() - 1].1;
        let unproven = if footer_is_hit { batches[batches.len() - 1].2.. } else { u64::MAX.. };
        let left = all.iter().filter(|seq| !lost.contains(seq) && !unproven.contains(seq));
        let (seqs, complains) = read(&disk);
        assert!(seqs.iter().eq(left), "bit {bit}");
        assert_eq!(complains, !footer_is_hit, "bit {bit}");
    }
}

#[test]
fn loud_damage_costs_its_batch_and_does_not_stop_recovery() {
    let mut bytes = segment(4_000, false);
    let batches = batches(&bytes);
    let hit = batches[2];
    bytes[hit.0 + 60] ^= 1;
    let log = Log::open(Arc::new(disk_with(&bytes)), &Arc::default(), options()).expect("it opens");
    assert!(log.report.is_loud());
    let finding = &log.report.findings[0];
    assert_eq!((finding.at, finding.bytes), (hit.0 as u64, (hit.1 - hit.0) as u64));
    assert_eq!(finding.lost, hit.2..hit.3);
    assert!(finding.to_string().starts_with("00000000000000000001.segment at "), "{finding}");
    let next_seq = batches[batches.len() - 1].3;
    let folded: Vec<u64> = log.folded().iter().map(|(seq, _)| *seq).collect();
    assert!(folded.into_iter().eq((1..next_seq).filter(|seq| !finding.lost.contains(seq))));
}

#[test]
fn a_segment_whose_header_is_damaged_is_read_by_its_name() {
    let mut bytes = segment(2_000, true);
    bytes[17] ^= 1;
    let checked = check_file(Arc::new(disk_with(&bytes)), &path(1)).expect("it reads");
    assert_eq!(checked.findings.iter().map(|finding| finding.flaw).collect::<Vec<_>>(), [Flaw::Header]);
    assert_eq!(checked.records, batches(&bytes).last().expect("there are some").3 - 1);
}

#[test]
fn a_missing_segment_is_a_loss_that_is_named() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = parallax::visitors::log::Options { segment_bytes: 1, ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options.clone()).expect("the disk is well");
    for key in 1..=4 {
        log.record(&[key], clock.now_ms());
    }
    log.stop();
    for (missing, lost) in [(1, 1..2), (2, 2..3)] {
        let disk_without = SimulatedDisk::new(1);
        for seq in (1..=4).filter(|seq| *seq != missing) {
            disk_without.put(&path(seq), &disk.bytes(&path(seq)));
        }
        let log = Log::open(Arc::new(disk_without), &clock, options.clone()).expect("it opens");
        assert_eq!(log.report.findings.len(), 1);
        assert_eq!((log.report.findings[0].flaw, log.report.findings[0].lost.clone()), (Flaw::Missing, lost));
        assert_eq!((log.folded().len(), log.report.next_seq), (3, 5));
    }
}

#[test]
fn no_payload_forges_a_batch() {
    let forged = segment(300, false);
    let text: String = forged[HEADER_BYTES..].iter().map(|&byte| char::from(byte)).collect();
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk is well");
    let magic = u128::from_le_bytes(*b"\xFFPLXBATC\xFFPLXBATC");
    let evil = record(magic, i64::from_le_bytes(*b"\xFFPLXBATC"), &text);
    let mut request = parallax::visitors::log::Request::new(0);
    request.push(&evil).expect("it is within all bounds");
    log.port.send(request).expect("the queue takes it");
    log.writer.step();
    log.record(&[1], START_MS);
    let bytes = disk.bytes(&path(1));
    let begins = bytes.chunks_exact(8).filter(|word| word[0] == 0xFF && word[1..4] == *b"PLX");
    assert_eq!(begins.count(), 3, "header and two batches");
}

#[test]
fn the_smallest_segment_is_as_it_was() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk is well");
    let key = 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100;
    let mut request = parallax::visitors::log::Request::new(0);
    request.push(&record(key, START_MS, "{}")).expect("it is within all bounds");
    log.port.send(request).expect("the queue takes it");
    log.writer.step();
    log.stop();
    let golden = include_str!("../../golden/smallest.segment.hex");
    assert_eq!(hex(&disk.bytes(&path(1))), golden, "a change of the format needs a new format version");
    assert_eq!(batches(&disk.bytes(&path(1))).len(), 1);
}

#[test]
fn what_recovery_moves_from_under_a_name_stays_whatever_the_header_there_says() {
    let mut whole = segment(300, false);
    let batches = batches(&whole);
    // The first batch is above the watermark, and is written anew under the same name.
    whole.truncate(batches[0].1);
    whole[..HEADER_BYTES].copy_from_slice(&Header { first_seq: 0, created_ms: START_MS }.to_bytes());
    let disk = disk_with(&whole);
    for _ in 0..2 {
        let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("it opens");
        let seqs: Vec<u64> = log.folded().iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs, (1..batches[0].3).collect::<Vec<_>>());
    }
}

#[test]
fn a_segment_that_was_renamed_to_the_next_seq_gets_its_name_back_and_loses_nothing() {
    for seals in [true, false] {
        let whole = segment(2_000, seals);
        let disk = SimulatedDisk::new(1);
        let all = batches(&whole);
        // What recovery begins has the seq behind the last that is proven: here of the last batch, or of that before it.
        let next_seq = if seals { all[all.len() - 1].3 } else { all[all.len() - 1].2 };
        disk.put(&path(next_seq), &whole);
        for flaws in [&[Flaw::Name][..], &[]] {
            let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("it opens");
            let found: Vec<Flaw> = log.report.findings.iter().map(|finding| finding.flaw).collect();
            assert_eq!(found, flaws, "said once");
            let seqs: Vec<u64> = log.folded().iter().map(|(seq, _)| *seq).collect();
            assert_eq!(seqs, (1..all[all.len() - 1].3).collect::<Vec<_>>());
            drop(log);
        }
        assert!(disk.names().contains(&segment_name(1)));
    }
}

#[test]
fn a_segment_whose_name_another_has_is_refused_by_name() {
    let whole = segment(2_000, true);
    let disk = disk_with(&whole);
    disk.put(&path(9), &whole);
    let opened = Log::open(Arc::new(disk.clone()), &Arc::default(), options());
    assert!(matches!(opened.err(), Some(LogError::Misnamed { file, first_seq: 1 }) if file == path(9)));
    assert_eq!((disk.bytes(&path(1)), disk.bytes(&path(9))), (whole.clone(), whole));
}

#[test]
fn what_recovery_puts_a_new_segment_in_the_place_of_is_kept_aside() {
    let mut whole = segment(2_000, true);
    let all = batches(&whole);
    let next_seq = all[all.len() - 1].3;
    // Renamed, and nothing tells what its name was.
    whole[0] ^= 1;
    let disk = SimulatedDisk::new(1);
    disk.put(&path(next_seq), &whole);
    let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("it opens");
    assert!(log.report.is_loud());
    let [aside] = &log.report.kept_aside[..] else { panic!("{:?}", log.report) };
    assert_eq!(disk.bytes(&Path::new(FOLDER).join(aside)), whole[HEADER_BYTES..]);
}

/// The sealed segment with another last seq in its footer, and a checksum that is right.
fn with_last_seq(whole: &[u8], last_seq: u64) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let trailer = bytes.len() - 24;
    let footer = u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().expect("8 bytes")) as usize;
    bytes[footer + 16..footer + 24].copy_from_slice(&last_seq.to_le_bytes());
    let crc = castagnoli(&[&bytes[footer..trailer + 12], &bytes[trailer + 16..]]);
    bytes[trailer + 12..trailer + 16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn no_file_brings_a_seq_to_overflow() {
    let whole = segment(2_000, true);
    for (last_seq, is_footer) in
        [(SEQ_MAX - 2, true), (SEQ_MAX - 1, true), (SEQ_MAX, false), (u64::MAX, false)]
    {
        let disk = disk_with(&with_last_seq(&whole, last_seq));
        assert_eq!(read_footer(&disk, &path(1)).expect("it reads").is_some(), is_footer, "{last_seq}");
        let mut log = Log::open(Arc::new(disk), &Arc::default(), options()).expect("it opens");
        let next_seq = if is_footer { last_seq + 1 } else { batches(&whole)[batches(&whole).len() - 1].3 };
        assert_eq!((log.report.next_seq, log.report.is_loud()), (next_seq, is_footer));
        log.record(&[99], START_MS);
    }
    for (seq, is_known) in [(0, false), (1, true), (SEQ_MAX - 1, true), (SEQ_MAX, true), (SEQ_MAX + 1, false)]
    {
        let header = Header { first_seq: seq, created_ms: 0 }.to_bytes();
        assert_eq!(Header::from_bytes(&header).is_ok(), is_known, "{seq}");
        assert_eq!(oldest_from_bytes(&oldest_to_bytes(seq)).is_some(), seq <= SEQ_MAX);
        assert_eq!(seq_of(&segment_name(seq)).is_some(), seq <= SEQ_MAX);
    }
    let folded = parallax::visitors::log::Options { folded_seq: SEQ_MAX, ..options() };
    let opened = Log::open(Arc::new(SimulatedDisk::new(1)), &Arc::default(), folded);
    assert!(matches!(opened.err(), Some(LogError::NoSeqLeft { seq: SEQ_MAX, .. })));
}
