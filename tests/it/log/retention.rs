//! Retention lets the oldest go: the word is durable before a file is deleted.

use std::path::Path;
use std::sync::Arc;

use parallax::clock::Clock;
use parallax::limits::{RETAIN_MS_MIN, RETENTION_EVERY_MS};
use parallax::visitors::log::{Flaw, Item, Options, Reader, check_folder};

use super::meanwhile::Meanwhile;
use super::simulated::{Plan, SimulatedDisk};
use super::{FOLDER, Log, TestClock, options};

const DAY_MS: u64 = RETAIN_MS_MIN as u64;

fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>, options: &Options) -> Log {
    Log::open(Arc::new(disk.clone()), clock, options.clone()).expect("the disk is well")
}

/// A segment for each of five records, the first three a day older than the others.
fn five(disk: &SimulatedDisk, clock: &Arc<TestClock>, options: &Options) -> Log {
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

fn look(log: &mut Log, clock: &TestClock, ms: u64) {
    clock.pass(ms.max(RETENTION_EVERY_MS));
    log.writer.step();
}

#[test]
fn segments_go_by_the_age_of_their_newest_record() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(2 * DAY_MS as i64), ..options() };
    let mut log = five(&disk, &clock, &options);
    let torn = "00000000000000000002.torn-1".to_owned();
    disk.put(&Path::new(FOLDER).join(&torn), b"what recovery cut from a segment");
    look(&mut log, &clock, DAY_MS);
    assert_eq!(segments(&disk), [1, 2, 3, 4, 5, 6], "two days, not more");
    look(&mut log, &clock, 1);
    assert_eq!(segments(&disk), [4, 5, 6]);
    assert!(!disk.names().contains(&torn), "it goes with its segment");
    assert_eq!(log.queue.figures().segments(), 3);
    look(&mut log, &clock, 9 * DAY_MS);
    assert_eq!(segments(&disk), [6], "the active one stays");
    drop(log);
    let log = open(&disk, &clock, &options);
    assert_eq!((log.report.next_seq, &log.report.findings[..]), (6, &[][..]));
}

#[test]
fn segments_go_by_size_but_never_under_a_day_old() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_bytes: Some(1), ..options() };
    let mut log = five(&disk, &clock, &options);
    look(&mut log, &clock, 1);
    assert_eq!(segments(&disk), [4, 5, 6], "what is a day old");
    look(&mut log, &clock, DAY_MS - RETENTION_EVERY_MS - 1);
    assert_eq!(segments(&disk), [4, 5, 6]);
    look(&mut log, &clock, RETENTION_EVERY_MS + 1);
    assert_eq!(segments(&disk), [6]);
}

#[test]
fn what_a_segment_takes_is_all_of_its_file() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, ..options() };
    let _log = five(&disk, &clock, &options);
    let files = disk.names().into_iter().filter(|name| name.ends_with(".segment"));
    let all: usize = files.map(|name| disk.bytes(&Path::new(FOLDER).join(name)).len()).sum();
    for (retain_bytes, first) in [(all, 1), (all - 1, 2)] {
        for restarts in [false, true] {
            let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
            let options = Options { retain_bytes: Some(retain_bytes as u64), ..options.clone() };
            let mut log = five(&disk, &clock, &options);
            if restarts {
                log.stop();
                log = open(&disk, &clock, &options);
            }
            look(&mut log, &clock, 2 * DAY_MS);
            assert_eq!(segments(&disk).first(), Some(&first), "{restarts}");
        }
    }
}

#[test]
fn who_reads_while_segments_go_finds_nothing_wrong() {
    let read: [fn(Arc<Meanwhile>); 2] = [
        |disk| {
            let checked = check_folder(disk, Path::new(FOLDER)).expect("what is gone is not missed");
            assert_eq!(checked.findings, []);
        },
        |disk| {
            let mut reader = Reader::open(disk, Path::new(FOLDER), 0).expect("it can be read");
            while let Some(item) = reader.read_next().expect("what is gone is not missed") {
                assert!(matches!(item, Item::Records(_)), "{item:?}");
            }
        },
    ];
    for read in read {
        for call in 0.. {
            let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
            let options = Options { segment_bytes: 1, retain_ms: Some(DAY_MS as i64), ..options() };
            let mut log = five(&disk, &clock, &options);
            let meanwhile = Meanwhile::happens_at(&disk, call, move || look(&mut log, &clock, 1));
            read(Arc::clone(&meanwhile));
            if !meanwhile.has_happened() {
                assert!(call > 8, "{call} calls are too few");
                break;
            }
            assert_eq!(segments(&disk), [4, 5, 6]);
        }
    }
}

#[test]
fn the_word_is_durable_before_a_file_is_deleted() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(2 * DAY_MS as i64), ..options() };
    let mut log = five(&disk, &clock, &options);
    disk.take_log();
    look(&mut log, &clock, 3 * DAY_MS);
    let segment = |seq: u64| format!("unlink /data/{seq:020}.segment");
    let mut expected = vec!["sync /data/.new".to_owned(), "rename /data/oldest".to_owned()];
    expected.push("sync /data".to_owned());
    expected.extend((1..=5).map(segment));
    assert_eq!(disk.take_log(), expected);
}

#[test]
fn a_crash_anywhere_in_retention_loses_only_what_was_let_go() {
    for n in 1.. {
        let (disk, clock) = (SimulatedDisk::new(n), Arc::<TestClock>::default());
        let options = Options { segment_bytes: 1, retain_ms: Some(DAY_MS as i64), ..options() };
        let mut log = five(&disk, &clock, &options);
        disk.plan(Plan::From(n));
        look(&mut log, &clock, 1);
        let is_through = disk.calls() < n;
        drop(log);
        disk.plan(Plan::Never);
        disk.cut_power();
        let log = open(&disk, &clock, &options);
        assert_eq!(log.report.findings, [], "n = {n}");
        let folded: Vec<u64> = log.folded().iter().map(|(seq, _)| *seq).collect();
        assert!(folded == [1, 2, 3, 4, 5] || folded == [4, 5], "n = {n}: {folded:?}");
        assert_eq!(segments(&disk).first(), folded.first(), "what was let go is gone by now");
        if is_through {
            assert!(n > 5, "{n} calls are too few");
            return;
        }
    }
}

#[test]
fn a_damaged_word_is_said_and_deletes_nothing() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { segment_bytes: 1, retain_ms: Some(DAY_MS as i64), ..options() };
    let mut log = five(&disk, &clock, &options);
    look(&mut log, &clock, 1);
    drop(log);
    let path = Path::new(FOLDER).join("oldest");
    let mut bytes = disk.bytes(&path);
    bytes[8] = 6;
    disk.put(&path, &bytes);
    let log = open(&disk, &clock, &options);
    let flaws: Vec<Flaw> = log.report.findings.iter().map(|finding| finding.flaw).collect();
    assert_eq!((flaws, log.folded()), (vec![Flaw::Oldest], vec![(4, 4), (5, 5)]));
}
