//! Retention deletes the oldest segments. The file `oldest` is durable before a segment is deleted.

use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::limits::{RETAIN_MS_MIN, RETENTION_INTERVAL_MS};
use parallax::testing::log::{DamageKind, LogItem, LogReader, Options, check_directory};

use super::meanwhile::InterleavedDisk;
use super::simulated::{Plan, SimulatedDisk};
use super::{DIRECTORY, Log, TestClock, options};

const DAY_MS: u64 = RETAIN_MS_MIN as u64;

fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>, options: &Options) -> Log {
    Log::open(Arc::new(disk.clone()), clock, options.clone()).expect("the disk works")
}

/// Returns a log of five records, each in its own segment. The first three are a day older than the others.
fn five_segments(disk: &SimulatedDisk, clock: &Arc<TestClock>, options: &Options) -> Log {
    let mut log = open(disk, clock, options);
    for key in 1..=5 {
        if key == 4 {
            clock.pass(DAY_MS);
        }
        log.record(&[key], clock.now_ms());
    }
    log
}

fn segments(disk: &SimulatedDisk) -> Vec<u64> {
    let number = |name: String| name.strip_suffix(".segment")?.parse().ok();
    disk.names().into_iter().filter_map(number).collect()
}

fn run_retention(log: &mut Log, clock: &TestClock, ms: u64) {
    clock.pass(ms.max(RETENTION_INTERVAL_MS));
    log.writer.run_once();
}

#[test]
fn segments_expire_by_the_age_of_their_newest_record() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(2 * DAY_MS as i64), ..options() };
    let mut log = five_segments(&disk, &clock, &options);
    let torn = "00000000000000000002.torn-1".to_owned();
    disk.put(&Path::new(DIRECTORY).join(&torn), b"what recovery cut from a segment");
    run_retention(&mut log, &clock, DAY_MS);
    assert_eq!(segments(&disk), [1, 2, 3, 4, 5, 6], "a segment of exactly two days remains");
    run_retention(&mut log, &clock, 1);
    assert_eq!(segments(&disk), [4, 5, 6]);
    assert!(!disk.names().contains(&torn), "a torn tail is deleted with its segment");
    assert_eq!((log.queue.metrics().segments(), log.queue.metrics().deleted_segments()), (3, 3));
    run_retention(&mut log, &clock, 9 * DAY_MS);
    assert_eq!(segments(&disk), [6], "the active segment remains");
    drop(log);
    let log = open(&disk, &clock, &options);
    assert_eq!((log.report.next_seq, &log.report.damage[..]), (6, &[][..]));
}

#[test]
fn segments_expire_by_size_but_never_under_a_day_old() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_bytes: Some(1), ..options() };
    let mut log = five_segments(&disk, &clock, &options);
    run_retention(&mut log, &clock, 1);
    assert_eq!(segments(&disk), [4, 5, 6], "segments that are a day old are deleted");
    run_retention(&mut log, &clock, DAY_MS - RETENTION_INTERVAL_MS - 1);
    assert_eq!(segments(&disk), [4, 5, 6]);
    run_retention(&mut log, &clock, RETENTION_INTERVAL_MS + 1);
    assert_eq!(segments(&disk), [6]);
}

#[test]
fn the_size_of_a_segment_is_the_size_of_its_whole_file() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, ..options() };
    let _log = five_segments(&disk, &clock, &options);
    let files = disk.names().into_iter().filter(|name| name.ends_with(".segment"));
    let all: usize = files.map(|name| disk.bytes(&Path::new(DIRECTORY).join(name)).len()).sum();
    for (retain_bytes, first) in [(all, 1), (all - 1, 2)] {
        for restarts in [false, true] {
            let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
            let options = Options { retain_bytes: Some(retain_bytes as u64), ..options.clone() };
            let mut log = five_segments(&disk, &clock, &options);
            if restarts {
                log.stop();
                log = open(&disk, &clock, &options);
            }
            run_retention(&mut log, &clock, 2 * DAY_MS);
            assert_eq!(segments(&disk).first(), Some(&first), "{restarts}");
        }
    }
}

#[test]
fn readers_find_no_damage_while_segments_expire() {
    let read: [fn(Arc<InterleavedDisk>); 2] = [
        |disk| {
            let checked =
                check_directory(disk, Path::new(DIRECTORY), 0).expect("expired segments are no error");
            assert_eq!(checked.damage, []);
        },
        |disk| {
            let mut reader = LogReader::open(disk, Path::new(DIRECTORY), 0).expect("the log can be read");
            while let Some(item) = reader.read_next().expect("expired segments are no error") {
                assert!(matches!(item, LogItem::Records(_)), "{item:?}");
            }
        },
    ];
    for read in read {
        for call in 0.. {
            let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
            let options = Options { segment_bytes: 1, retain_ms: Some(DAY_MS as i64), ..options() };
            let mut log = five_segments(&disk, &clock, &options);
            let interleaved =
                InterleavedDisk::with_event_at(&disk, call, move || run_retention(&mut log, &clock, 1));
            read(Arc::clone(&interleaved));
            if !interleaved.has_event_run() {
                assert!(call > 8, "{call} calls are too few");
                break;
            }
            assert_eq!(segments(&disk), [4, 5, 6]);
        }
    }
}

#[test]
fn the_oldest_seq_is_durable_before_a_file_is_deleted() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(2 * DAY_MS as i64), ..options() };
    let mut log = five_segments(&disk, &clock, &options);
    disk.take_log();
    run_retention(&mut log, &clock, 3 * DAY_MS);
    let segment = |seq: u64| format!("unlink /data/{seq:020}.segment");
    let mut expected = vec!["sync /data/.new".to_owned(), "rename /data/oldest".to_owned()];
    expected.push("sync /data".to_owned());
    expected.extend((1..=5).map(segment));
    let log = disk.take_log();
    let at = log.iter().position(|line| line.ends_with("/oldest")).expect("the file is replaced");
    assert_eq!(log[at - 1..at - 1 + expected.len()], expected);
}

#[test]
fn a_crash_during_retention_loses_only_expired_segments() {
    for n in 1.. {
        let (disk, clock) = (SimulatedDisk::new(n), Arc::<TestClock>::default());
        let options = Options { segment_bytes: 1, retain_ms: Some(DAY_MS as i64), ..options() };
        let mut log = five_segments(&disk, &clock, &options);
        disk.plan(Plan::From(n));
        run_retention(&mut log, &clock, 1);
        let is_through = disk.calls() < n;
        drop(log);
        disk.plan(Plan::Never);
        disk.cut_power();
        let log = open(&disk, &clock, &options);
        assert_eq!(log.report.damage, [], "n = {n}");
        let consumed: Vec<u64> = log.consumed().iter().map(|(seq, _)| *seq).collect();
        assert!(consumed == [1, 2, 3, 4, 5] || consumed == [4, 5], "n = {n}: {consumed:?}");
        assert_eq!(segments(&disk).first(), consumed.first(), "expired segments are deleted by now");
        if is_through {
            assert!(n > 5, "{n} calls are too few");
            return;
        }
    }
}

#[test]
fn a_damaged_oldest_file_is_reported_and_deletes_nothing() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(DAY_MS as i64), ..options() };
    let mut log = five_segments(&disk, &clock, &options);
    run_retention(&mut log, &clock, 1);
    drop(log);
    let path = Path::new(DIRECTORY).join("oldest");
    let mut bytes = disk.bytes(&path);
    bytes[8] = 6;
    disk.put(&path, &bytes);
    let log = open(&disk, &clock, &options);
    let kinds: Vec<DamageKind> = log.report.damage.iter().map(|damage| damage.kind).collect();
    assert_eq!((kinds, log.consumed()), (vec![DamageKind::Oldest], vec![(4, 4), (5, 5)]));
}

#[test]
fn a_segment_is_deleted_before_its_column_file() {
    // A thread that installs a column file looks for the segment afterwards. In the other order it could find the
    // segment, and the file would stay.
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(2 * DAY_MS as i64), ..options() };
    let mut log = five_segments(&disk, &clock, &options);
    disk.put(&Path::new(DIRECTORY).join("00000000000000000001.columns"), b"columns");
    disk.take_log();
    run_retention(&mut log, &clock, DAY_MS + 1);
    let unlinked: Vec<String> =
        disk.take_log().into_iter().filter(|line| line.starts_with("unlink")).collect();
    let first: Vec<&str> = unlinked.iter().filter_map(|line| line.split("00001.").nth(1)).collect();
    assert_eq!(first, ["segment", "columns"], "{unlinked:?}");
}
