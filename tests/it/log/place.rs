//! A directory or a segment that is removed, moved or replaced under a running log (R23).

use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::visitors::log::format::HEADER_BYTES;
use parallax::testing::visitors::log::{
    Ack, DISK_RECOVERED_MS, DamageKind, Options, PLACE_CHECK_MS, WriteOutcome, segment_name,
};

use super::simulated::SimulatedDisk;
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
        assert_eq!(log.queue.metrics().damage_count(), 1);
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
