//! An erasure that ends at any call, by a killed process or a power cut. The visitor is gone, or whole and the log says
//! that the erasure was not begun.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use parallax::testing::clock::Clock;
use parallax::testing::log::{InterruptedErasure, LogItem, LogReader, check_directory};
use parallax::testing::record::{IdKind, Record, RecordKind};
use parallax::testing::storage::disk::Disk;
use parallax::testing::visitors::verify;

use super::erasing::{eraser, files_with, record, run_until_end, try_erase};
use super::{DIRECTORY, RunningLog, World};
use crate::harness::times;
use crate::log::simulated::SimulatedDisk;

/// The texts of the visitor that is erased, and of another one.
const ANA: &str = "of-ana";
const BOB: &str = "of-bob";
/// The records of each, and all of them. The tombstone is the next record.
const RECORDS_EACH: usize = 3;
const RECORDS: usize = 2 * RECORDS_EACH;

/// Returns a running log with the records of both visitors, in several segments, and with a checkpoint.
fn running() -> (World, RunningLog) {
    let mut world = World::new(1);
    world.options.segment_bytes = 600;
    let mut running = world.open();
    for kind in [RecordKind::Track, RecordKind::Identify, RecordKind::Track] {
        let is_signed_in = kind == RecordKind::Identify;
        let user = |id| is_signed_in.then_some(id);
        record(&mut running, kind, &[(Some(ANA), user("user-of-ana")), (Some(BOB), user("user-of-bob"))]);
    }
    running.settle();
    (world, running)
}

/// Returns the number of records that name this anonymous ID.
fn records_of(world: &World, id: &str) -> usize {
    let disk = Arc::new(world.disk.clone());
    let mut reader = LogReader::open(disk, Path::new(DIRECTORY), 0).expect("the log opens");
    let mut count = 0;
    while let Some(item) = reader.read_next().expect("reading succeeds") {
        let LogItem::Records(records) = item else { panic!("{item:?}") };
        let is_of_visitor = |(_, record): &(u64, Record<'_>)| record.anon_id == Some(id);
        count += records.iter().filter(is_of_visitor).count();
    }
    count
}

/// The result of a start after an erasure was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// There is no marker, and the visitor is whole.
    NotRequested,
    /// The start says that the erasure was not begun, and the visitor is whole.
    NotBegun,
    /// The start finishes the erasure.
    Finished,
    /// There is no marker, and the visitor is gone.
    Gone,
}

/// Starts on a disk after a crash, finishes the erasure if it has begun, and checks both visitors.
fn start(disk: SimulatedDisk, clock: &World, context: &str) -> Outcome {
    let options = clock.options.clone();
    let world = World { disk, options, clock: Arc::clone(&clock.clock), ..World::new(1) };
    let has_marker = world.disk.names().contains(&"erasing".to_owned());
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let checked = check_directory(Arc::clone(&disk), Path::new(DIRECTORY), 0).expect("the disk works");
    let mut running = world.open();
    assert!(!running.report.has_unexpected_damage(), "{context}: {:?}", running.report.damage);
    let found = running.report.interrupted_erasure;
    assert_eq!((found.is_some(), found), (has_marker, checked.interrupted_erasure), "{context}");
    if has_marker {
        let eraser = eraser(&world, &running);
        let resumed = thread::scope(|scope| {
            let job = scope.spawn(|| eraser.resume());
            run_until_end(&world, &mut running, job, 1)
        });
        let resumed = resumed.expect("the disk works");
        assert_eq!(resumed.is_some(), found.is_some_and(|erasure| erasure.is_begun), "{context}");
    }
    world.clock.pass(200);
    running.settle();
    assert_eq!(records_of(&world, BOB), RECORDS_EACH, "{context}: the other visitor stays");
    let is_gone = match records_of(&world, ANA) {
        0 => true,
        RECORDS_EACH => false,
        some => panic!("{context}: {some} records are left"),
    };
    if is_gone {
        assert_eq!(files_with(&world, ANA), [""; 0], "{context}");
    }
    assert!(!world.disk.names().contains(&"erasing".to_owned()), "{context}");
    let report = verify::check_directory(&disk, Path::new(DIRECTORY)).expect("the disk works");
    assert_eq!(report.failures, 0, "{context}: {:?}", report.lines);
    match (found, is_gone) {
        (None, false) => Outcome::NotRequested,
        (None, true) => Outcome::Gone,
        (Some(InterruptedErasure { seq, requested_ms: Some(_), is_begun: false }), false) => {
            assert_eq!(seq, RECORDS as u64 + 1, "{context}");
            Outcome::NotBegun
        }
        (Some(InterruptedErasure { is_begun: true, .. }), true) => Outcome::Finished,
        other => panic!("{context}: {other:?}"),
    }
}

#[test]
fn an_erasure_that_is_cut_off_at_any_call_was_not_begun_and_says_so_or_is_finished() {
    let (world, mut running) = running();
    let requested_ms = world.clock.now_ms();
    world.disk.begin_copies();
    let erased = try_erase(&world, &mut running, (IdKind::User, "user-of-ana"), Vec::new(), 1);
    assert_eq!(erased.expect("the disk works").records, RECORDS_EACH as u64);
    let copies = world.disk.take_copies();
    drop(running);
    let mut outcomes = Vec::new();
    for (call, copy) in copies.iter().enumerate() {
        outcomes.push(start(copy.copied(), &world, &format!("killed at call {call}")));
        for seed in 0..times(1, 20) as u64 {
            let copy = copy.copied();
            copy.set_seed(seed);
            copy.cut_power();
            start(copy, &world, &format!("power cut at call {call}, seed {seed}"));
        }
    }
    let in_order = [Outcome::NotRequested, Outcome::NotBegun, Outcome::Finished, Outcome::Gone];
    outcomes.dedup();
    assert_eq!(outcomes, in_order, "one after the other, as the calls of the erasure");
    assert_eq!(start(world.disk.copied(), &world, "after the erasure"), Outcome::Gone);
    assert!(world.clock.now_ms() > requested_ms);
}
