//! The segments of the log writer on the simulated disk, without a queue.

use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::{Ack, LogDirectory, LogMetrics, Options, SegmentWriter};

use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{DIRECTORY, Log, START_MS, TestClock, options, record};

/// Segments in an empty directory, the first of which is active.
struct Segments {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    writer: SegmentWriter,
}

impl Segments {
    fn new(ack: Ack) -> Self {
        let disk = SimulatedDisk::new(1);
        let clock = Arc::<TestClock>::default();
        let directory =
            LogDirectory::lock(Arc::new(disk.clone()), Path::new(DIRECTORY)).expect("the disk works");
        let writer = SegmentWriter::new(
            directory,
            &Options { ack, ..options() },
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(LogMetrics::default()),
            0,
        );
        let mut segments = Self { disk, clock, writer };
        segments.writer.begin(START_MS).expect("the disk works");
        segments
    }

    /// Adds a batch with one record. Returns whether the active segment has persisted it.
    fn append(&mut self, key: u128) -> bool {
        let record = record(key, START_MS, "{}");
        let added = self.writer.add_batch(|batch, _| {
            record.encode(batch).expect("the record is within all limits");
            Ok(1)
        });
        assert_eq!(added.expect("it is encoded"), 1);
        self.writer.persist(START_MS).is_ok()
    }

    /// Returns the seqs and keys that the next start finds.
    fn recovered(self) -> Vec<(u64, u128)> {
        let Self { disk, clock, writer } = self;
        drop(writer);
        disk.cut_power();
        let log = Log::open(Arc::new(disk), &clock, options()).expect("the disk works");
        assert!(!log.report.has_unexpected_damage(), "{:?}", log.report.damage);
        log.consumed()
    }
}

#[test]
fn after_a_failed_append_or_sync_a_new_segment_repeats_the_batches_under_the_same_seqs() {
    for n in [1, 2] {
        let mut segments = Segments::new(Ack::Disk);
        assert!(segments.append(1));
        segments.writer.clear_synced();
        segments.disk.plan(Plan::Nth(n, Fault::Eio));
        assert!(!segments.append(2), "call {n} fails");
        assert!(!segments.writer.is_available(), "the file is closed in the same call");
        assert!(segments.writer.sync(START_MS).is_err(), "no other file accepts a sync");
        segments.writer.begin(START_MS).expect("only one call fails");
        assert_eq!((segments.writer.next_seq(), segments.writer.durable_seq()), (3, 2));
        assert_eq!(segments.recovered(), [(1, 1), (2, 2)]);
    }
}

#[test]
fn the_next_batch_gets_the_seqs_of_a_batch_that_was_not_persisted() {
    let mut segments = Segments::new(Ack::Disk);
    segments.disk.plan(Plan::Full);
    assert!(!segments.append(1));
    assert!(segments.writer.begin(START_MS).is_err());
    segments.writer.remove_last_batch();
    assert_eq!(segments.writer.next_seq(), 1);
    segments.disk.plan(Plan::Never);
    segments.writer.begin(START_MS).expect("the disk works");
    assert!(segments.append(2));
    assert_eq!(segments.recovered(), [(1, 2)]);
}

#[test]
fn a_batch_that_is_written_and_not_synced_stays_in_memory_until_the_sync() {
    let mut segments = Segments::new(Ack::Written);
    assert!(segments.append(1));
    segments.writer.clear_synced();
    assert!(!segments.writer.is_durable());
    segments.writer.sync(START_MS).expect("the disk works");
    segments.writer.clear_synced();
    assert!(segments.writer.is_durable());
    assert_eq!(segments.recovered(), [(1, 1)]);
}

#[test]
fn the_pause_between_attempts_to_begin_a_segment_doubles_up_to_half_a_second() {
    let mut segments = Segments::new(Ack::Disk);
    segments.disk.plan(Plan::Full);
    assert!(!segments.append(1));
    let mut pauses_ms = Vec::new();
    for _ in 0..8 {
        assert!(segments.writer.begin(START_MS).is_err());
        let mut pause_ms = 0;
        while !segments.writer.is_retry_due() {
            segments.clock.pass(1);
            pause_ms += 1;
        }
        pauses_ms.push(pause_ms);
    }
    assert!(pauses_ms.windows(2).all(|two| two[1] == (two[0] * 2).min(500)), "{pauses_ms:?}");
    assert_eq!(pauses_ms[7], 500);
}

#[test]
fn one_mark_states_the_durable_seq_of_an_idle_segment() {
    let mut segments = Segments::new(Ack::Disk);
    assert!(!segments.writer.needs_mark());
    assert!(segments.append(1));
    segments.writer.clear_synced();
    assert!(segments.writer.needs_mark());
    segments.writer.append_mark(START_MS).expect("the disk works");
    assert!(!segments.writer.needs_mark());
    segments.writer.seal(START_MS).expect("the disk works");
    assert!(!segments.writer.is_available());
    segments.writer.begin_next(START_MS).expect("the disk works");
    assert_eq!(segments.recovered(), [(1, 1)]);
}
