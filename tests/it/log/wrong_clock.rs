//! Wrong wall clocks and their jumps (R30). Retention deletes no young record, and no record counts twice.

use std::io::{Read, pipe};
use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::{Clock, LogClock};
use parallax::testing::limits::RETENTION_INTERVAL_MS;
use parallax::testing::log::format::{HEADER_BYTES, Header};
use parallax::testing::log::{
    DamageKind, LOG_CLOCK_SAVE_MS, Options, RecordResult, check_directory, segment_name,
};
use proptest::prelude::*;

use super::erasing::send;
use super::naming::erase;
use super::simulated::SimulatedDisk;
use super::{DIRECTORY, Log, START_MS, TestClock, options};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>, retain_days: i64) -> Log {
    let options = Options { segment_bytes: 1, retain_ms: Some(retain_days * DAY_MS), ..options() };
    Log::open(Arc::new(disk.clone()), clock, options).expect("the disk works")
}

/// Returns the segments of the disk that are not the active one.
fn closed_segments(disk: &SimulatedDisk) -> usize {
    disk.names().iter().filter(|name| name.ends_with(".segment")).count() - 1
}

/// Lets time pass in steps of a second.
fn run_for(log: &mut Log, clock: &TestClock, seconds: u64) {
    for _ in 0..seconds {
        clock.pass(1_000);
        log.writer.run_once();
    }
}

fn is_duplicate(log: &mut Log, clock: &TestClock, key: u128) -> bool {
    log.record(&[key], clock.now_ms()).request.results() == [RecordResult::Duplicate]
}

#[test]
fn a_clock_that_is_40_days_ahead_for_130_s_deletes_no_record() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock, 30);
    (1..=30).for_each(|key| drop(log.record(&[key], clock.now_ms())));
    clock.set_wrong(40 * DAY_MS);
    log.record(&[31], clock.now_ms());
    run_for(&mut log, &clock, 130);
    assert_eq!(closed_segments(&disk), 31);
    drop(log);
    let mut log = open(&disk, &clock, 30);
    run_for(&mut log, &clock, 130);
    clock.set_wrong(0);
    run_for(&mut log, &clock, 130);
    assert_eq!((closed_segments(&disk), log.consumed().len()), (31, 31), "also after a start meanwhile");
}

#[test]
fn no_record_counts_twice_under_a_wrong_clock() {
    for wrong_ms in [25 * HOUR_MS, -25 * HOUR_MS, 40 * DAY_MS] {
        for restarts in [false, true] {
            let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
            let mut log = open(&disk, &clock, 30);
            log.record(&[1], clock.now_ms());
            clock.set_wrong(wrong_ms);
            run_for(&mut log, &clock, 130);
            log.record(&[2], clock.now_ms());
            if restarts {
                drop(log);
                log = open(&disk, &clock, 30);
            }
            assert!(is_duplicate(&mut log, &clock, 1), "{wrong_ms} {restarts}");
            clock.set_wrong(0);
            run_for(&mut log, &clock, 130);
            if restarts {
                drop(log);
                log = open(&disk, &clock, 30);
            }
            for key in [1, 2] {
                assert!(is_duplicate(&mut log, &clock, key), "{key} {wrong_ms} {restarts}");
            }
        }
    }
}

#[test]
fn an_erasure_under_a_wrong_clock_keeps_the_keys_of_the_window() {
    for wrong_ms in [-25 * HOUR_MS, 25 * HOUR_MS] {
        for is_late in [false, true] {
            let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
            let mut log = open(&disk, &clock, 30);
            clock.set_wrong(wrong_ms);
            run_for(&mut log, &clock, 130);
            assert_eq!(send(&mut log, clock.now_ms(), &[(1, "ana-1")]).len(), 1);
            clock.set_wrong(0);
            clock.pass(if is_late { DAY_MS as u64 - 200_000 } else { 1_000 });
            erase(&mut log, &["ana-1"]).expect("the disk works");
            drop(log);
            let mut log = open(&disk, &clock, 30);
            assert!(is_duplicate(&mut log, &clock, 1), "{wrong_ms} {is_late}");
        }
    }
}

#[test]
fn the_log_clock_catches_up_with_a_downtime_of_40_days_in_16_hours() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock, 39);
    log.record(&[1], clock.now_ms());
    log.stop();
    clock.set_wrong(40 * DAY_MS);
    let mut log = open(&disk, &clock, 39);
    assert!(is_duplicate(&mut log, &clock, 1), "the ID is kept although the wall clock moved by 40 days");
    clock.pass(15 * HOUR_MS as u64);
    log.writer.run_once();
    assert_eq!(closed_segments(&disk), 1);
    clock.pass(HOUR_MS as u64 + RETENTION_INTERVAL_MS);
    log.writer.run_once();
    assert_eq!(closed_segments(&disk), 0, "the log stays bounded");
}

#[test]
fn the_log_clock_survives_a_kill() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock, 30);
    for _ in 0..50 {
        clock.pass(HOUR_MS as u64);
        log.writer.run_once();
    }
    drop(log);
    disk.cut_power();
    clock.set_wrong(-40 * DAY_MS);
    drop(open(&disk, &clock, 30));
    let bytes = disk.bytes(&Path::new(DIRECTORY).join(segment_name(1)));
    let header = Header::from_bytes(&bytes[..HEADER_BYTES]).expect("a header");
    let late_ms = START_MS + 50 * HOUR_MS - header.created_ms;
    assert!((0..=LOG_CLOCK_SAVE_MS).contains(&late_ms), "{late_ms}");
}

#[test]
fn a_damaged_clock_file_is_reported_until_it_is_written_again() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let kinds = |log: &Log| log.report.damage.iter().map(|damage| damage.kind).collect::<Vec<_>>();
    open(&disk, &clock, 30).stop();
    let path = Path::new(DIRECTORY).join("clock");
    let intact = disk.bytes(&path);
    for damaged in [&[][..], &intact[..intact.len() - 1], &[&intact[..], b"x"].concat(), &[0; 24]] {
        disk.put(&path, damaged);
        let checked =
            check_directory(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("the disk works");
        assert_eq!(checked.damage.iter().map(|damage| damage.kind).collect::<Vec<_>>(), [DamageKind::Clock]);
        let mut log = open(&disk, &clock, 30);
        assert_eq!(kinds(&log), [DamageKind::Clock], "{damaged:?}");
        clock.pass(LOG_CLOCK_SAVE_MS as u64);
        log.writer.run_once();
        drop(log);
        assert_eq!(kinds(&open(&disk, &clock, 30)), []);
    }
}

/// Returns the log lines of a writer whose wall clock jumps by this much.
fn lines_of_a_jump(jump_ms: i64) -> String {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock, 30);
    let (mut lines, writer) = pipe().expect("a pipe");
    let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(writer)).with_ansi(false).finish();
    tracing::subscriber::with_default(subscriber, || {
        clock.set_wrong(jump_ms);
        log.writer.run_once();
        log.writer.run_once();
    });
    let mut text = String::new();
    lines.read_to_string(&mut text).expect("the subscriber is gone");
    text
}

#[test]
fn a_jump_of_the_wall_clock_over_an_hour_is_one_warning() {
    for jump_ms in [HOUR_MS - 1, HOUR_MS, -HOUR_MS] {
        assert_eq!(lines_of_a_jump(jump_ms), "", "{jump_ms}");
    }
    for jump_ms in [HOUR_MS + 1, -HOUR_MS - 1] {
        let lines = lines_of_a_jump(jump_ms);
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains("WARN") && lines.contains("the wall clock jumped"), "{lines}");
    }
}

proptest! {
    #[test]
    fn the_log_clock_never_moves_back_and_at_most_an_hour_in_a_minute(
        steps in proptest::collection::vec((0..200_000_u64, -50 * DAY_MS..50 * DAY_MS, 0..4), 1..60),
    ) {
        let clock = TestClock::default();
        let mut log_clock = LogClock::new(None, &clock);
        let mut expected = log_clock.now_ms();
        for (ms, wrong_ms, jumps) in steps {
            clock.pass(ms);
            if jumps == 0 {
                clock.set_wrong(wrong_ms);
            }
            log_clock.advance(&clock);
            expected = expected.max(clock.now_ms().min(expected + 60 * ms as i64));
            prop_assert_eq!(log_clock.now_ms(), expected);
        }
    }
}
