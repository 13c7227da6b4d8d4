//! Opening a log directory: its lock, its version, and the batches that a later segment voids.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::testing::checksum::crc32c;
use parallax::testing::clock::Clock;
use parallax::testing::storage::disk::{Disk, RealDisk};
use parallax::testing::visitors::log::{DamageKind, LogError, segment_name};

use super::simulated::SimulatedDisk;
use super::{DIRECTORY, Log, TestClock, options};
use crate::harness::temporary_directory;

fn path(first_seq: u64) -> PathBuf {
    Path::new(DIRECTORY).join(segment_name(first_seq))
}

fn assert_one_server(directory: &Path, disk: Arc<dyn Disk>) {
    let clock = Arc::<TestClock>::default();
    let first = Log::open_at(directory, Arc::clone(&disk), &clock, options()).expect("the log opens");
    let second = Log::open_at(directory, Arc::clone(&disk), &clock, options());
    assert!(matches!(second.err(), Some(LogError::Locked { dir: held }) if held == directory));
    drop(first);
    assert!(Log::open_at(directory, disk, &clock, options()).is_ok());
}

#[test]
fn a_directory_has_one_server() {
    assert_one_server(Path::new(DIRECTORY), Arc::new(SimulatedDisk::new(1)));
    let directory = temporary_directory();
    assert_one_server(&directory.path().join("a/b"), Arc::new(RealDisk));
}

#[test]
fn a_segment_of_a_later_format_version_is_an_error_with_its_file() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    drop(Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens"));
    let mut bytes = disk.bytes(&path(1));
    bytes[8] = 2;
    let crc = crc32c(&[&bytes[..36]]).to_le_bytes();
    bytes[36..40].copy_from_slice(&crc);
    disk.put(&path(1), &bytes);
    let opened = Log::open(Arc::new(disk), &clock, options());
    assert!(
        matches!(opened.err(), Some(LogError::UnsupportedVersion { file, version: 2 }) if file == path(1))
    );
}

#[test]
fn a_later_segment_voids_records_of_an_earlier_one_from_its_first_seq() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
    (1..=4).for_each(|key| drop(log.record(&[key], clock.now_ms())));
    let first = disk.bytes(&path(1));

    // The files after a failed sync of the batches with seqs 3 and 4, whose pages reached the disk all the
    // same. The next segment assigned seq 3 again.
    let other = SimulatedDisk::new(1);
    let mut log = Log::open(Arc::new(other.clone()), &clock, options()).expect("the log opens");
    (1..=2).for_each(|key| drop(log.record(&[key], clock.now_ms())));
    log.stop();
    let mut log = Log::open(Arc::new(other.clone()), &clock, options()).expect("the log opens");
    log.record(&[13], clock.now_ms());
    log.stop();

    let disk = SimulatedDisk::new(1);
    disk.put(&path(1), &first);
    disk.put(&path(3), &other.bytes(&path(3)));
    let log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
    assert_eq!(log.consumed(), [(1, 1), (2, 2), (3, 13)]);
    let [damage] = &log.report.damage[..] else { panic!("{:?}", log.report.damage) };
    assert_eq!((damage.kind, &*damage.file), (DamageKind::Void, &*segment_name(1)));
    assert_eq!(log.report.quarantined, ["00000000000000000001.torn-1"]);
    let quarantined = disk.bytes(&Path::new(DIRECTORY).join("00000000000000000001.torn-1"));
    let written = first.iter().rposition(|byte| *byte != 0).expect("something was written") + 1;
    let rest = &first[damage.offset as usize..written.next_multiple_of(8)];
    assert_eq!(quarantined, rest, "quarantined byte by byte, without the reserved zeros");
    assert_eq!(disk.bytes(&path(1)), first[..damage.offset as usize], "and removed from the segment");
}

#[test]
fn restarts_without_events_leave_one_segment() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    for _ in 0..5 {
        let log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
        assert_eq!(log.report.damage, []);
        log.stop();
    }
    assert_eq!(disk.names(), [segment_name(1), "lock".to_owned()][..1], "the simulated lock creates no file");
}
