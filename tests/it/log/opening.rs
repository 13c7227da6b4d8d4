//! Opening a folder: its lock, its version, what a later segment voids.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::checksum::castagnoli;
use parallax::clock::Clock;
use parallax::storage::disk::{Disk, RealDisk};
use parallax::visitors::log::{Flaw, LogError, segment_name};

use super::simulated::SimulatedDisk;
use super::{FOLDER, Log, TestClock, options};
use crate::harness::temporary_folder;

fn path(first_seq: u64) -> PathBuf {
    Path::new(FOLDER).join(segment_name(first_seq))
}

fn a_second_server_is_told(folder: &Path, disk: Arc<dyn Disk>) {
    let clock = Arc::<TestClock>::default();
    let first = Log::open_at(folder, Arc::clone(&disk), &clock, options()).expect("it opens");
    let second = Log::open_at(folder, Arc::clone(&disk), &clock, options());
    assert!(matches!(second.err(), Some(LogError::Held { folder: held }) if held == folder));
    drop(first);
    assert!(Log::open_at(folder, disk, &clock, options()).is_ok());
}

#[test]
fn a_folder_has_one_server() {
    a_second_server_is_told(Path::new(FOLDER), Arc::new(SimulatedDisk::new(1)));
    let folder = temporary_folder();
    a_second_server_is_told(&folder.path().join("a/b"), Arc::new(RealDisk));
}

#[test]
fn a_segment_of_a_later_release_is_refused_by_name() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    drop(Log::open(Arc::new(disk.clone()), &clock, options()).expect("it opens"));
    let mut bytes = disk.bytes(&path(1));
    bytes[8] = 2;
    let crc = castagnoli(&[&bytes[..36]]).to_le_bytes();
    bytes[36..40].copy_from_slice(&crc);
    disk.put(&path(1), &bytes);
    let opened = Log::open(Arc::new(disk), &clock, options());
    assert!(matches!(opened.err(), Some(LogError::Version { file, version: 2 }) if file == path(1)));
}

#[test]
fn a_later_segment_voids_what_an_earlier_one_holds_from_its_first_seq_on() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("it opens");
    (1..=4).for_each(|key| drop(log.record(&[key], clock.now_ms())));
    let first = disk.bytes(&path(1));

    // As after a failed sync of the batches 3 and 4 whose pages persist: 3 and 4 were given anew.
    let other = SimulatedDisk::new(1);
    let mut log = Log::open(Arc::new(other.clone()), &clock, options()).expect("it opens");
    (1..=2).for_each(|key| drop(log.record(&[key], clock.now_ms())));
    log.stop();
    let mut log = Log::open(Arc::new(other.clone()), &clock, options()).expect("it opens");
    log.record(&[13], clock.now_ms());
    log.stop();

    let disk = SimulatedDisk::new(1);
    disk.put(&path(1), &first);
    disk.put(&path(3), &other.bytes(&path(3)));
    let log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("it opens");
    assert_eq!(log.folded(), [(1, 1), (2, 2), (3, 13)]);
    let [finding] = &log.report.findings[..] else { panic!("{:?}", log.report.findings) };
    assert_eq!((finding.flaw, &*finding.file), (Flaw::Void, &*segment_name(1)));
    assert_eq!(log.report.kept_aside, ["00000000000000000001.torn-1"]);
    let aside = disk.bytes(&Path::new(FOLDER).join("00000000000000000001.torn-1"));
    let written = first.iter().rposition(|byte| *byte != 0).expect("something was written") + 1;
    let rest = &first[finding.at as usize..written.next_multiple_of(8)];
    assert_eq!(aside, rest, "kept aside, byte by byte, but for what is reserved");
    assert_eq!(disk.bytes(&path(1)), first[..finding.at as usize], "and cut");
}

#[test]
fn starts_without_events_leave_one_segment() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    for _ in 0..5 {
        let log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("it opens");
        assert_eq!(log.report.findings, []);
        log.stop();
    }
    assert_eq!(disk.names(), [segment_name(1), "lock".to_owned()][..1], "the simulated lock is no file");
}
