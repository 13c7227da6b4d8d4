//! A segment reserves zeros after its batches, so that a sync writes no new file length. The zeros are no
//! damage, and sealing and recovery remove them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::testing::limits::{RESERVED_BYTES_MAX, WATERMARK_AFTER_MS};
use parallax::testing::log::format::{HEADER_BYTES, batch_length};
use parallax::testing::log::{
    Ack, DamageKind, Options, Request, WriteOutcome, check_directory, read_footer, segment_name,
};
use parallax::testing::storage::disk::{Disk, RealDisk};

use super::meanwhile::InterleavedDisk;
use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{DIRECTORY, Log, START_MS, TestClock, options, record};
use crate::harness::temporary_directory;

fn path(first_seq: u64) -> PathBuf {
    Path::new(DIRECTORY).join(segment_name(first_seq))
}

fn open(disk: &SimulatedDisk, options: Options) -> Log {
    Log::open(Arc::new(disk.clone()), &Arc::default(), options).expect("the disk works")
}

/// Returns the length of the first segment, and the length of its header and batches. The rest is zeros.
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
fn a_segment_reserves_zeros_and_batches_overwrite_them() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1], START_MS);
    let (length, first_end) = length_and_written(&disk);
    assert!(length > first_end);
    let mut key = 2;
    while length_and_written(&disk).1 < length {
        assert_eq!(length_and_written(&disk).0, length, "until the zeros are used up");
        log.record(&[key, key + 1, key + 2], START_MS);
        key += 3;
    }
    let (longer, written) = length_and_written(&disk);
    assert_eq!(longer - written, length - first_end, "the same number of zeros again");
    let checked = check_directory(Arc::new(disk), Path::new(DIRECTORY), 0).expect("reading succeeds");
    assert_eq!((checked.records, checked.damage), (key as u64 - 1, vec![]));
}

#[test]
fn no_zeros_are_reserved_beyond_the_segment_size() {
    for segment_bytes in [400, 1_000, 5_000] {
        let disk = SimulatedDisk::new(1);
        let mut log = open(&disk, Options { segment_bytes, ..options() });
        log.record(&[1], START_MS);
        let (length, written) = length_and_written(&disk);
        assert_eq!(length, written.max(segment_bytes as usize));
    }
}

#[test]
fn segments_reserve_no_zeros_with_ack_written() {
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
    let footer = read_footer(&disk, &path(1)).expect("reading succeeds").expect("the segment is sealed");
    assert_eq!(footer.offset, written as u64);
}

#[test]
fn zeros_left_by_a_crash_are_no_damage_and_are_removed() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    log.record(&[1, 2], START_MS);
    clock.pass(WATERMARK_AFTER_MS);
    log.writer.run_once();
    drop(log);
    let (length, written) = length_and_written(&disk);
    assert!(length > written);
    let log = open(&disk, options());
    assert_eq!((log.report.damage.len(), log.report.quarantined.len(), log.report.moved_records), (0, 0, 0));
    assert_eq!(log.consumed().len(), 2);
    assert_eq!(length_and_written(&disk), (written, written));
}

#[test]
fn events_are_accepted_when_reserving_zeros_fails() {
    for fault in [Fault::Enospc, Fault::Short, Fault::Eio, Fault::Eintr] {
        let disk = SimulatedDisk::new(1);
        let mut log = open(&disk, options());
        // The first call appends the batch, the second reserves zeros.
        disk.plan(Plan::Nth(2, fault));
        assert_eq!(log.record(&[1], START_MS).outcome, WriteOutcome::Durable);
        assert!(disk.calls() > 2);
        disk.plan(Plan::Never);
        assert_eq!(log.record(&[2], START_MS).outcome, WriteOutcome::Durable);
        assert_eq!((log.queue.metrics().write_errors(), log.queue.metrics().segments()), (0, 1));
        log.stop();
        assert!(read_footer(&disk, &path(1)).expect("reading succeeds").is_some(), "{fault:?}");
        assert_eq!(open(&disk, options()).consumed().len(), 2);
    }
}

#[test]
fn a_real_file_appends_over_its_zeros_and_trims_the_rest() {
    let directory = temporary_directory();
    let path = directory.path().join("file");
    let mut file = RealDisk.create(&path).expect("created");
    assert_eq!(file.append(b"one").expect("appended"), 3);
    let zeros = file.reserve(3..13).expect("reserved") as usize;
    assert!((1..=10).contains(&zeros));
    assert_eq!(std::fs::read(&path).expect("read"), [b"one", &vec![0; zeros][..]].concat());
    assert_eq!(file.append(b" two").expect("appended"), 4);
    assert_eq!(file.length().expect("the file has a length"), 7.max(3 + zeros as u64));
    let more = file.reserve(20..30).expect("reserved");
    assert_eq!(file.length().expect("the file has a length"), 20 + more);
    file.trim().expect("cut");
    assert_eq!(std::fs::read(&path).expect("read"), b"one two");
    assert_eq!(file.append(b" three").expect("appended"), 6);
    assert_eq!(std::fs::read(&path).expect("read"), b"one two three");
}

#[test]
fn more_zeros_than_the_reserve_are_damage() {
    for (zeros, is_damage) in
        [(RESERVED_BYTES_MAX - 1, false), (RESERVED_BYTES_MAX, false), (RESERVED_BYTES_MAX + 1, true)]
    {
        let disk = SimulatedDisk::new(1);
        open(&disk, Options { ack: Ack::Written, ..options() }).record(&[1], START_MS);
        let written = disk.bytes(&path(1));
        disk.put(&path(1), &[&written[..], &vec![0; zeros as usize]].concat());
        let checked = check_directory(Arc::new(disk), Path::new(DIRECTORY), 0).expect("reading succeeds");
        let found: Vec<(DamageKind, u64, u64)> =
            checked.damage.iter().map(|damage| (damage.kind, damage.offset, damage.bytes)).collect();
        let expected = (DamageKind::Torn, written.len() as u64, zeros);
        assert_eq!(found, if is_damage { vec![expected] } else { vec![] });
    }
}

#[test]
fn a_batch_over_half_the_reserve_reserves_no_zeros() {
    let batch_with = |payload: usize| {
        let disk = SimulatedDisk::new(1);
        send(&mut open(&disk, options()), 1, payload);
        let (length, written) = length_and_written(&disk);
        (written - HEADER_BYTES, length > written)
    };
    // The size of a record is a multiple of 8.
    let (other, half) = (batch_with(8).0 - 8, RESERVED_BYTES_MAX as usize / 2);
    assert_eq!(batch_with(half - other - 8), (half - 8, true));
    assert_eq!(batch_with(half - other), (half, true));
    assert_eq!(batch_with(half - other + 8), (half + 8, false));
}

/// Number of calls of a stop up to the append of the footer.
const CALLS_UNTIL_FOOTER: u64 = 11;

#[test]
fn a_footer_before_untrimmed_zeros_is_quarantined_without_them() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1, 2], START_MS);
    let (_, written) = length_and_written(&disk);
    // The first calls check the directory and the segment, save the clock and append the footer. All later
    // calls fail.
    disk.plan(Plan::From(CALLS_UNTIL_FOOTER + 1));
    log.stop();
    disk.plan(Plan::Never);
    assert!(read_footer(&disk, &path(1)).expect("reading succeeds").is_none());
    let log = open(&disk, options());
    assert_eq!(log.consumed().len(), 2);
    let [damage] = &log.report.damage[..] else { panic!("{:?}", log.report.damage) };
    assert_eq!((damage.kind, damage.offset), (DamageKind::Torn, written as u64));
    assert!(damage.bytes < 1_000, "{damage}");
    let quarantined = disk.bytes(&Path::new(DIRECTORY).join(&log.report.quarantined[0]));
    assert_eq!(quarantined.len() as u64, damage.bytes);
}

#[test]
fn a_quarantined_tail_contains_no_reserved_zeros() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, options());
    log.record(&[1], START_MS);
    let (_, first_end) = length_and_written(&disk);
    // The first call appends the batch, the second syncs it.
    disk.plan(Plan::Nth(2, Fault::Eio));
    assert_eq!(log.record(&[2], START_MS).outcome, WriteOutcome::Durable);
    disk.plan(Plan::Never);
    log.record(&[3], START_MS);
    let (_, written) = length_and_written(&disk);
    assert_eq!(
        length_and_written_of(&disk, 2).0,
        length_and_written_of(&disk, 2).1,
        "no zeros after a failure"
    );
    drop(log);
    let log = open(&disk, options());
    let [damage] = &log.report.damage[..] else { panic!("{:?}", log.report.damage) };
    assert_eq!((damage.kind, damage.bytes), (DamageKind::Void, (written - first_end) as u64));
    let quarantined = disk.bytes(&Path::new(DIRECTORY).join(&log.report.quarantined[0]));
    assert_eq!(quarantined.len(), written - first_end);
}

/// Sends a record with a payload of `bytes` bytes.
fn send(log: &mut Log, key: u128, bytes: usize) {
    let mut request = Request::new(0);
    request.push(&record(key, START_MS, &"x".repeat(bytes))).expect("the record is within all limits");
    log.client.send(request).expect("the queue accepts it");
    log.writer.run_once();
    log.client.next_completion().expect("one step completes the request");
}

#[test]
fn a_check_during_appends_finds_no_damage() {
    for (first, later) in [(100, 100), (12_000, 90_000), (200_000, 40_000)] {
        for call in 0.. {
            let disk = SimulatedDisk::new(1);
            let mut log = open(&disk, options());
            send(&mut log, 1, first);
            send(&mut log, 2, first);
            let goes_on = move || (3..10).for_each(|key| send(&mut log, key, later));
            let interleaved = InterleavedDisk::with_event_at(&disk, call, goes_on);
            let checked = check_directory(Arc::clone(&interleaved) as Arc<dyn Disk>, Path::new(DIRECTORY), 0);
            assert_eq!(checked.expect("reading succeeds").damage, [], "{first} {later} call {call}");
            if !interleaved.has_event_run() {
                assert!(call > 8, "{call} calls are too few");
                break;
            }
        }
    }
}
