//! A directory or a segment that is removed, moved, replaced or truncated under a running log (R23).

use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::format::{HEADER_BYTES, TRAILER_MAGIC, batch_length};
use parallax::testing::log::{
    Ack, DISK_RECOVERED_MS, DamageKind, Options, PLACE_CHECK_MS, WriteOutcome, segment_name,
};

use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{DIRECTORY, Log, TestClock, options, request};

fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>, ack: Ack) -> Log {
    Log::open(Arc::new(disk.clone()), clock, Options { ack, ..options() }).expect("the disk works")
}

fn run_after(log: &mut Log, clock: &TestClock, ms: u64) {
    clock.pass(ms);
    log.writer.run_once();
}

fn is_recording(log: &Log) -> bool {
    log.queue.metrics().is_recording()
}

#[test]
fn a_replaced_directory_is_noticed_within_a_second_and_nothing_is_written_into_it() {
    for ack in [Ack::Disk, Ack::Written] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let mut log = open(&disk, &clock, ack);
        log.record(&[1], clock.now_ms());
        run_after(&mut log, &clock, 100);
        let moved = disk.directory_names();
        disk.replace_directory();
        assert!(
            log.writer.next_due().is_some_and(
                |due| due <= clock.monotonic() + std::time::Duration::from_millis(PLACE_CHECK_MS)
            )
        );
        run_after(&mut log, &clock, PLACE_CHECK_MS);
        assert!(!is_recording(&log));
        assert!(log.client.send(request(0, &[2], clock.now_ms())).is_err(), "nothing is acknowledged");
        (0..20).for_each(|_| run_after(&mut log, &clock, 500));
        assert_eq!(disk.names(), [""; 0], "the other directory stays empty");
        assert!(Log::open(Arc::new(disk.clone()), &clock, options()).is_ok(), "another server may use it");

        disk.restore_directory(&moved);
        (0..4).for_each(|_| run_after(&mut log, &clock, 500));
        assert!(is_recording(&log), "the directory is back");
        log.record(&[2], clock.now_ms());
        drop(log);
        let log = open(&disk, &clock, ack);
        assert_eq!((log.consumed(), log.report.has_unexpected_damage()), (vec![(1, 1), (2, 2)], false));
    }
}

#[test]
fn a_log_that_stops_without_its_directory_writes_nothing() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock, Ack::Disk);
    log.record(&[1], clock.now_ms());
    disk.replace_directory();
    log.stop();
    assert_eq!(disk.names(), [""; 0]);
}

#[test]
fn a_deleted_segment_is_damage_and_later_records_go_to_a_new_one() {
    for is_replaced in [false, true] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let mut log = open(&disk, &clock, Ack::Disk);
        log.record(&[1, 2], clock.now_ms());
        let path = Path::new(DIRECTORY).join(segment_name(1));
        let bytes = disk.bytes(&path);
        disk.delete(&path);
        if is_replaced {
            disk.put(&path, &bytes[..HEADER_BYTES]);
        }
        run_after(&mut log, &clock, PLACE_CHECK_MS);
        assert!(!is_recording(&log));
        assert_eq!(log.queue.metrics().damage().count(), 1);
        run_after(&mut log, &clock, DISK_RECOVERED_MS);
        run_after(&mut log, &clock, DISK_RECOVERED_MS);
        assert!(is_recording(&log));
        let completion = log.record(&[3], clock.now_ms());
        assert_eq!(completion.outcome, WriteOutcome::Durable);
        drop(log);
        let log = open(&disk, &clock, Ack::Disk);
        assert_eq!(log.consumed(), [(3, 3)]);
        let [damage] = &log.report.damage[..] else { panic!("{:?}", log.report.damage) };
        assert_eq!((damage.kind, damage.lost_seqs.clone()), (DamageKind::Missing, 1..3));
    }
}

/// A truncation of the active segment, and the records around it.
#[derive(Debug, Clone, Copy)]
struct Truncation {
    ack: Ack,
    /// The length that is left.
    length: usize,
    /// True if the writer has checked the segment since its last record.
    is_checked: bool,
    /// True if a record is appended after the truncation and before the check.
    is_appended: bool,
}

/// Records 1 to 4, truncates their segment, and records more. Returns the lost seqs that the start after it reports.
fn lost_by(truncation: Truncation) -> Vec<std::ops::Range<u64>> {
    let Truncation { ack, length, is_checked, is_appended } = truncation;
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock, ack);
    log.record(&[1, 2], clock.now_ms());
    log.record(&[3, 4], clock.now_ms());
    run_after(&mut log, &clock, 100);
    if is_checked {
        run_after(&mut log, &clock, PLACE_CHECK_MS);
    }
    assert!(is_recording(&log) && log.queue.metrics().durable_seq() == 4, "{truncation:?}");
    disk.truncate_as_another(&Path::new(DIRECTORY).join(segment_name(1)), length);
    let mut kept = Vec::new();
    if is_appended {
        let completion = log.record(&[5], clock.now_ms());
        assert_ne!(completion.outcome, WriteOutcome::DiskUnavailable, "{truncation:?}");
        kept.push((5, 5));
    }
    run_after(&mut log, &clock, PLACE_CHECK_MS);
    assert!(!is_recording(&log), "{truncation:?}");
    assert_eq!(log.queue.metrics().damage().count(), 1, "{truncation:?}");
    run_after(&mut log, &clock, DISK_RECOVERED_MS);
    run_after(&mut log, &clock, DISK_RECOVERED_MS);
    assert!(is_recording(&log), "{truncation:?}");
    let next_seq = 5 + u64::from(is_appended);
    log.record(&[6], clock.now_ms());
    kept.push((next_seq, 6));
    run_after(&mut log, &clock, 100);
    drop(log);
    let log = open(&disk, &clock, ack);
    let found: Vec<_> = log.consumed().into_iter().filter(|(seq, _)| *seq > 4).collect();
    assert_eq!(found, kept, "{truncation:?}");
    assert!(log.report.has_unexpected_damage());
    let lost = log.report.damage.iter().map(|damage| damage.lost_seqs.clone());
    lost.filter(|seqs| !seqs.is_empty()).collect()
}

#[test]
fn a_truncated_segment_is_noticed_within_a_second_and_its_lost_seqs_are_reported() {
    let batch = {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        open(&disk, &clock, Ack::Disk).record(&[1, 2], clock.now_ms());
        let bytes = disk.bytes(&Path::new(DIRECTORY).join(segment_name(1)));
        batch_length(&bytes[HEADER_BYTES..]).expect("a batch")
    };
    let second = HEADER_BYTES + batch;
    let lengths = [(0, 1..5), (HEADER_BYTES - 1, 1..5), (HEADER_BYTES, 1..5), (HEADER_BYTES + 60, 1..5)];
    let lengths = lengths.into_iter().chain([(second - 8, 1..5), (second, 3..5), (second + batch - 8, 3..5)]);
    for (length, lost) in lengths {
        for (ack, is_checked, is_appended) in [Ack::Disk, Ack::Written]
            .into_iter()
            .flat_map(|ack| [(ack, false), (ack, true)])
            .flat_map(|(ack, is_checked)| [(ack, is_checked, false), (ack, is_checked, true)])
        {
            // A cut inside the batches since the last check, and an append after it, are found when the log is read.
            if length <= HEADER_BYTES || is_checked || !is_appended {
                let truncation = Truncation { ack, length, is_checked, is_appended };
                assert_eq!(lost_by(truncation), std::slice::from_ref(&lost), "{truncation:?}");
            }
        }
    }
}

#[test]
fn a_truncated_segment_is_not_sealed() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 700, ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
    log.record(&[1], clock.now_ms());
    let path = Path::new(DIRECTORY).join(segment_name(1));
    disk.truncate_as_another(&path, 0);
    let mut key = 1;
    while log.queue.metrics().damage().count() == 0 {
        key += 1;
        log.record(&[key], clock.now_ms());
    }
    assert!(disk.bytes(&path).len() < 2_000, "noticed before the check that is due after a second");
    assert!(!disk.bytes(&path).ends_with(&TRAILER_MAGIC), "a trailer would say that the segment is whole");
}

#[test]
fn zeros_that_a_failed_call_has_reserved_are_no_truncation() {
    for n in 1..20 {
        let (disk, clock) = (SimulatedDisk::new(n), Arc::<TestClock>::default());
        let mut log = open(&disk, &clock, Ack::Disk);
        log.record(&[1], clock.now_ms());
        disk.plan(Plan::Nth(n, Fault::Enospc));
        (2..9).for_each(|key| drop(log.record(&[key], clock.now_ms())));
        disk.plan(Plan::Never);
        (0..3).for_each(|_| run_after(&mut log, &clock, PLACE_CHECK_MS));
        assert_eq!((is_recording(&log), log.queue.metrics().damage().count()), (true, 0), "n = {n}");
    }
}
