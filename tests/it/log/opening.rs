//! Opening a log directory: its lock, its version, and the batches that a later segment voids.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::testing::checksum::crc32c;
use parallax::testing::clock::Clock;
use parallax::testing::log::format::{HEADER_BYTES, Header};
use parallax::testing::log::{DamageKind, LogError, LogId, Options, segment_name};
use parallax::testing::storage::disk::{Disk, RealDisk};

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
fn a_segment_of_another_format_version_is_an_error_with_its_file() {
    // Headers of all versions have version and length in the same places, and end with their checksum.
    for (version, length) in [(1, 40), (5, 56), (5, 64)] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        drop(Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens"));
        let mut bytes = disk.bytes(&path(1));
        bytes.resize(length, 0);
        bytes[8] = version;
        bytes[12] = length as u8;
        let crc = crc32c(&[&bytes[..length - 4]]).to_le_bytes();
        bytes[length - 4..].copy_from_slice(&crc);
        disk.put(&path(1), &bytes);
        let error = Log::open(Arc::new(disk), &clock, options()).err().expect("the log does not open");
        let advises_export = error.to_string().contains("parallax export");
        assert_eq!(advises_export, version == 1, "{error}");
        let LogError::UnsupportedVersion { file, version: found } = error else { panic!("{error}") };
        assert_eq!((file, found), (path(1), u32::from(version)));
    }
}

#[test]
fn all_segments_of_a_log_have_the_id_that_was_made_with_its_directory() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let open = || Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
    let id_of =
        |disk: &SimulatedDisk, seq| Header::from_bytes(&disk.bytes(&path(seq))).expect("a header").log_id;
    let mut log = open();
    let first = id_of(&disk, 1);
    log.record(&[1], clock.now_ms());
    log.stop();
    open().stop();
    assert_eq!(id_of(&disk, 2), first);
    let other = SimulatedDisk::new(1);
    drop(Log::open(Arc::new(other.clone()), &clock, options()).expect("the log opens"));
    assert_ne!(id_of(&other, 1), first, "another directory has another ID");
}

#[test]
fn a_segment_of_another_log_is_unexpected_damage() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
    log.record(&[1], clock.now_ms());
    log.stop();
    Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens").stop();
    let mut bytes = disk.bytes(&path(1));
    let header = Header::from_bytes(&bytes).expect("a header");
    bytes[..HEADER_BYTES].copy_from_slice(&Header { log_id: LogId([7; 16]), ..header }.to_bytes());
    disk.put(&path(1), &bytes);
    let log = Log::open(Arc::new(disk), &clock, options()).expect("the log opens");
    assert!(log.report.has_unexpected_damage());
    assert_eq!(log.report.damage[0].kind, DamageKind::Foreign);
}

#[test]
fn a_later_segment_voids_records_of_an_earlier_one_from_its_first_seq() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = || Options { log_id: Some(LogId([7; 16])), ..options() };
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
    assert_eq!(disk.names(), [segment_name(1), "clock".to_owned(), "secret".to_owned()]);
}
