//! Zeros stand ahead of the batches of a segment, so that a sync has no length to write. They are no damage, and go in the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::limits::{MARK_AFTER_MS, RESERVED_BYTES_MAX};
use parallax::storage::disk::{Disk, RealDisk};
use parallax::visitors::log::format::{HEADER_BYTES, batch_length};
use parallax::visitors::log::{
    Ack, Flaw, Options, Outcome, Request, check_folder, read_footer, segment_name,
};

use super::meanwhile::Meanwhile;
use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{FOLDER, Log, START_MS, TestClock, options, record};
use crate::harness::temporary_folder;

fn path(first_seq: u64) -> PathBuf {
    Path::new(FOLDER).join(segment_name(first_seq))
}

fn open(disk: &SimulatedDisk, options: Options) -> Log {
    Log::open(Arc::new(disk.clone()), &Arc::default(), options).expect("the disk is well")
}

/// Bytes of the first segment, and how many of them its header and batches are; the others are zeros.
fn length_and_written(disk: &SimulatedDisk) -> (usize, usize) {
    length_and_written_of(disk, 1)
}

fn length_and_written_of(disk: &SimulatedDisk, first_seq: u64) -> (usize, usize) {
    let (bytes, mut end) = (disk.bytes(&path(first_seq)), HEADER_BYTES);
    while let Some(length) = bytes.get(end..).and_then(batch_length) {
        end += length;
    }
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    (bytes.len(), end)
}

#[test]
fn a_segment_grows_by_zeros_and_the_batches_go_over_them() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1], START_MS);
    let (length, first_end) = length_and_written(&disk);
    assert!(length > first_end);
    let mut key = 2;
    while length_and_written(&disk).1 < length {
        assert_eq!(length_and_written(&disk).0, length, "until they are used up");
        log.record(&[key, key + 1, key + 2], START_MS);
        key += 3;
    }
    let (longer, written) = length_and_written(&disk);
    assert_eq!(longer - written, length - first_end, "as many again");
    let checked = check_folder(Arc::new(disk), Path::new(FOLDER)).expect("it reads");
    assert_eq!((checked.records, checked.findings), (key as u64 - 1, vec![]));
}

#[test]
fn no_zeros_are_laid_past_the_size_of_a_segment() {
    for segment_bytes in [400, 1_000, 5_000] {
        let disk = SimulatedDisk::new(1);
        let mut log = open(&disk, Options { segment_bytes, ..options() });
        log.record(&[1], START_MS);
        let (length, written) = length_and_written(&disk);
        assert_eq!(length, written.max(segment_bytes as usize));
    }
}

#[test]
fn where_a_batch_is_not_synced_before_its_answer_there_are_no_zeros() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, Options { ack: Ack::Written, ..options() });
    log.record(&[1], START_MS);
    let (length, written) = length_and_written(&disk);
    assert_eq!(length, written);
}

#[test]
fn a_sealed_segment_ends_with_its_footer() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1], START_MS);
    let (_, written) = length_and_written(&disk);
    log.stop();
    let footer = read_footer(&disk, &path(1)).expect("it reads").expect("it is sealed");
    assert_eq!(footer.at, written as u64);
}

#[test]
fn the_zeros_that_a_crash_leaves_are_no_damage_and_are_cut() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk is well");
    log.record(&[1, 2], START_MS);
    clock.pass(MARK_AFTER_MS);
    log.writer.step();
    drop(log);
    let (length, written) = length_and_written(&disk);
    assert!(length > written);
    let log = open(&disk, options());
    assert_eq!((log.report.findings.len(), log.report.kept_aside.len(), log.report.moved), (0, 0, 0));
    assert_eq!(log.folded().len(), 2);
    assert_eq!(length_and_written(&disk), (written, written));
}

#[test]
fn a_disk_that_has_no_room_for_zeros_takes_events() {
    for fault in [Fault::Enospc, Fault::Short, Fault::Eio, Fault::Eintr] {
        let disk = SimulatedDisk::new(1);
        let mut log = open(&disk, options());
        // The first call is that of the batch, the second lays zeros.
        disk.plan(Plan::Nth(2, fault));
        assert_eq!(log.record(&[1], START_MS).outcome, Outcome::Durable);
        assert!(disk.calls() > 2);
        disk.plan(Plan::Never);
        assert_eq!(log.record(&[2], START_MS).outcome, Outcome::Durable);
        assert_eq!((log.queue.figures().write_failures(), log.queue.figures().segments()), (0, 1));
        log.stop();
        assert!(read_footer(&disk, &path(1)).expect("it reads").is_some(), "{fault:?}");
        assert_eq!(open(&disk, options()).folded().len(), 2);
    }
}

#[test]
fn a_file_of_the_machine_is_appended_to_over_its_zeros_and_cut_behind_them() {
    let folder = temporary_folder();
    let path = folder.path().join("file");
    let mut file = RealDisk.create(&path).expect("made");
    assert_eq!(file.append(b"one").expect("appended"), 3);
    let zeros = file.reserve(3..13).expect("reserved") as usize;
    assert!((1..=10).contains(&zeros));
    assert_eq!(std::fs::read(&path).expect("read"), [b"one", &vec![0; zeros][..]].concat());
    assert_eq!(file.append(b" two").expect("appended"), 4);
    assert_eq!(file.length().expect("it has one"), 7.max(3 + zeros as u64));
    let more = file.reserve(20..30).expect("reserved");
    assert_eq!(file.length().expect("it has one"), 20 + more);
    file.trim().expect("cut");
    assert_eq!(std::fs::read(&path).expect("read"), b"one two");
    assert_eq!(file.append(b" three").expect("appended"), 6);
    assert_eq!(std::fs::read(&path).expect("read"), b"one two three");
}

#[test]
fn more_zeros_than_are_ever_laid_are_damage() {
    for (zeros, is_damage) in
        [(RESERVED_BYTES_MAX - 1, false), (RESERVED_BYTES_MAX, false), (RESERVED_BYTES_MAX + 1, true)]
    {
        let disk = SimulatedDisk::new(1);
        open(&disk, Options { ack: Ack::Written, ..options() }).record(&[1], START_MS);
        let written = disk.bytes(&path(1));
        let disk = SimulatedDisk::new(1);
        disk.put(&path(1), &[&written[..], &vec![0; zeros as usize]].concat());
        let checked = check_folder(Arc::new(disk), Path::new(FOLDER)).expect("it reads");
        let found: Vec<(Flaw, u64, u64)> =
            checked.findings.iter().map(|finding| (finding.flaw, finding.at, finding.bytes)).collect();
        let expected = (Flaw::Torn, written.len() as u64, zeros);
        assert_eq!(found, if is_damage { vec![expected] } else { vec![] });
    }
}

#[test]
fn a_batch_of_more_than_half_of_the_zeros_lays_none() {
    let batch_with = |payload: usize| {
        let disk = SimulatedDisk::new(1);
        send(&mut open(&disk, options()), 1, payload);
        let (length, written) = length_and_written(&disk);
        (written - HEADER_BYTES, length > written)
    };
    // Records are of a multiple of 8.
    let (other, half) = (batch_with(8).0 - 8, RESERVED_BYTES_MAX as usize / 2);
    assert_eq!(batch_with(half - other - 8), (half - 8, true));
    assert_eq!(batch_with(half - other), (half, true));
    assert_eq!(batch_with(half - other + 8), (half + 8, false));
}

#[test]
fn a_footer_behind_which_the_zeros_were_not_cut_is_kept_aside_without_them() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1, 2], START_MS);
    let (_, written) = length_and_written(&disk);
    // Behind that of the footer.
    disk.plan(Plan::From(2));
    log.stop();
    disk.plan(Plan::Never);
    assert!(read_footer(&disk, &path(1)).expect("it reads").is_none());
    let log = open(&disk, options());
    assert_eq!(log.folded().len(), 2);
    let [finding] = &log.report.findings[..] else { panic!("{:?}", log.report.findings) };
    assert_eq!((finding.flaw, finding.at), (Flaw::Torn, written as u64));
    assert!(finding.bytes < 1_000, "{finding}");
    let aside = disk.bytes(&Path::new(FOLDER).join(&log.report.kept_aside[0]));
    assert_eq!(aside.len() as u64, finding.bytes);
}

#[test]
fn what_is_kept_aside_has_none_of_the_zeros() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1], START_MS);
    let (_, first_end) = length_and_written(&disk);
    // The call behind that of the batch is its sync.
    disk.plan(Plan::Nth(2, Fault::Eio));
    assert_eq!(log.record(&[2], START_MS).outcome, Outcome::Durable);
    disk.plan(Plan::Never);
    log.record(&[3], START_MS);
    let (_, written) = length_and_written(&disk);
    assert_eq!(length_and_written_of(&disk, 2).0, length_and_written_of(&disk, 2).1, "none behind a failure");
    drop(log);
    let log = open(&disk, options());
    let [finding] = &log.report.findings[..] else { panic!("{:?}", log.report.findings) };
    assert_eq!((finding.flaw, finding.bytes), (Flaw::Void, (written - first_end) as u64));
    let aside = disk.bytes(&Path::new(FOLDER).join(&log.report.kept_aside[0]));
    assert_eq!(aside.len(), written - first_end);
}

/// Sends a record with a payload of so many bytes.
fn send(log: &mut Log, key: u128, bytes: usize) {
    let mut request = Request::new(0);
    request.push(&record(key, START_MS, &"x".repeat(bytes))).expect("it is within all bounds");
    log.port.send(request).expect("the queue takes it");
    log.writer.step();
    log.port.take().expect("a step answers what was sent");
}

#[test]
fn who_checks_while_batches_go_over_the_zeros_finds_nothing_wrong() {
    for (first, later) in [(100, 100), (12_000, 90_000), (200_000, 40_000)] {
        for call in 0.. {
            let disk = SimulatedDisk::new(1);
            let mut log = open(&disk, options());
            send(&mut log, 1, first);
            send(&mut log, 2, first);
            let goes_on = move || (3..10).for_each(|key| send(&mut log, key, later));
            let meanwhile = Meanwhile::happens_at(&disk, call, goes_on);
            let checked = check_folder(Arc::clone(&meanwhile) as Arc<dyn Disk>, Path::new(FOLDER));
            assert_eq!(checked.expect("it reads").findings, [], "{first} {later} call {call}");
            if !meanwhile.has_happened() {
                assert!(call > 8, "{call} calls are too few");
                break;
            }
        }
    }
}
