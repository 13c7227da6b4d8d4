//! The own log of a node, as it sends it to the stream: records that have left memory are read from the
//! files, in any order.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use parallax::testing::clock::Clock;
use parallax::testing::cluster::follow::{OwnLog, OwnRecord};
use parallax::testing::cluster::own_log::{LOADED_BYTES_MAX, OwnRecords};
use parallax::testing::log::{LogItem, LogReader, Options, Request};
use parallax::testing::record::Record;

use super::simulated::SimulatedDisk;
use super::{DIRECTORY, Log, TestClock, options, record};

/// An action on the own log.
#[derive(Debug, Clone)]
enum Action {
    /// Writes this many records. They are in memory.
    Write(usize),
    /// Drops the records in memory, as a long time without NATS servers does.
    LeaveMemory,
    /// The stream returns the records up to a seq, which is given in thousandths of the log.
    Return(u64),
    /// Reads from a seq on, up to this many records further.
    Load(u64, u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => (1..80_usize).prop_map(Action::Write),
        1 => Just(Action::LeaveMemory),
        2 => (0..=1_000_u64).prop_map(Action::Return),
        6 => (0..=1_000_u64, 0..2_000_u64).prop_map(|(place, more)| Action::Load(place, more)),
    ]
}

fn payload(text_bytes: usize) -> String {
    format!("{{\"text\":\"{}\"}}", "x".repeat(text_bytes))
}

/// A log whose records have their seq as their key, and its own records.
struct Written {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    log: Log,
    own: OwnRecords,
}

impl Written {
    fn new(segment_bytes: u64) -> Self {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let options = Options { segment_bytes, ..options() };
        let log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
        let own = OwnRecords::new(Arc::new(disk.clone()), Path::new(DIRECTORY), 0);
        Self { disk, clock, log, own }
    }

    /// Writes records of 4 KiB, so that a load reads a part of them.
    fn write(&mut self, count: usize) {
        self.write_texts(count, 4_096);
    }

    fn write_texts(&mut self, count: usize, text_bytes: usize) {
        let (after, payload) = (self.own.last_seq(), payload(text_bytes));
        let mut request = Request::new(0);
        for seq in after + 1..=after + count as u64 {
            let record = record(u128::from(seq), self.clock.now_ms(), &payload);
            request.push(&record).expect("the record is within all limits");
        }
        self.log.client.send(request).expect("the queue accepts it");
        self.log.writer.run_once();
        self.log.client.next_completion().expect("one step completes the request");
        // The writer states in the file that the records are durable.
        self.clock.pass(100);
        self.log.writer.run_once();
        let mut reader =
            LogReader::open(Arc::new(self.disk.clone()), Path::new(DIRECTORY), after).expect("the log opens");
        while let Some(LogItem::Records(records)) = reader.read_next().expect("reading succeeds") {
            self.own.push(records, 0);
        }
        assert_eq!(self.own.last_seq(), after + count as u64);
    }

    /// Loads from `first` on, and compares each record that is then readable.
    fn load(&mut self, first: u64, last: u64) {
        let readable = self.own.load(first, last).expect("reading succeeds");
        assert!(readable >= first, "at least one record");
        for seq in first..=readable.min(self.own.last_seq()) {
            let found = self.own.record(seq).encoded().and_then(Record::decode).map(|(record, _)| record.key);
            assert_eq!(found, Some(u128::from(seq)), "after a load of {first} to {last}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_loaded_record_is_found_in_whatever_order_a_node_loads(
        segment_bytes in prop_oneof![Just(64_000_u64), Just(64_000_000)],
        actions in proptest::collection::vec(action(), 1..60),
    ) {
        let mut written = Written::new(segment_bytes);
        (0..30).for_each(|_| written.write(10));
        for action in actions {
            let seq_at = |place: u64| 1 + (written.own.last_seq() - 1) * place / 1_000;
            match action {
                Action::Write(count) => written.write(count),
                Action::LeaveMemory => written.own.read_again(),
                Action::Return(place) => {
                    let returned = seq_at(place);
                    written.own.forget_through(returned);
                }
                Action::Load(place, more) => {
                    let first = seq_at(place);
                    written.load(first, first + more);
                }
            }
        }
    }
}

#[test]
fn a_node_that_goes_back_to_a_record_outside_of_memory_sends_it_again() {
    let mut written = Written::new(64_000_000);
    (0..40).for_each(|_| written.write(10));
    written.own.read_again();
    written.load(1, 400);
    // The next message begins after the first one.
    written.load(120, 400);
    // The session ends, and the first message did not reach the stream.
    written.load(1, 400);
}

#[test]
fn a_load_beyond_the_end_of_the_log_does_not_hide_later_records() {
    let mut written = Written::new(64_000_000);
    written.write(10);
    written.own.read_again();
    // The stream has a run of which the disk has lost a part.
    written.load(5, 30);
    written.write(20);
    written.own.read_again();
    written.load(11, 30);
}

#[test]
fn a_record_that_has_left_memory_is_not_taken_for_a_damaged_one() {
    let mut written = Written::new(64_000_000);
    written.write(400);
    written.own.read_again();
    assert_eq!(written.own.record(1), OwnRecord::NotLoaded);
    written.load(200, 200);
    assert_eq!(written.own.record(1), OwnRecord::NotLoaded);
    assert_eq!(written.own.record(401), OwnRecord::Absent, "the log ends before it");
    written.load(1, 400);
    assert!(written.own.record(1).encoded().is_some());
}

#[test]
fn loaded_records_leave_memory_only_above_their_limit() {
    const RECORD_BYTES: usize = 8_192;
    let text_bytes = RECORD_BYTES - (encoded_bytes(RECORD_BYTES) - RECORD_BYTES);
    assert_eq!(encoded_bytes(text_bytes), RECORD_BYTES);
    let records_max = LOADED_BYTES_MAX / RECORD_BYTES;
    for (count, stays) in [(records_max - 1, true), (records_max, true), (records_max + 1, false)] {
        let mut written = Written::new(64_000_000);
        (0..15).for_each(|_| written.write_texts(64, text_bytes));
        written.write_texts(count - 15 * 64, text_bytes);
        written.own.read_again();
        let (mut next, last) = (1, count as u64);
        while next <= last {
            next = written.own.load(next, last).expect("reading succeeds") + 1;
        }
        written.load(last, last);
        assert_eq!(written.own.record(1) != OwnRecord::NotLoaded, stays, "{count} records");
    }
}

fn encoded_bytes(text_bytes: usize) -> usize {
    let mut bytes = Vec::new();
    record(1, 0, &payload(text_bytes)).encode(&mut bytes).expect("the record is within all limits");
    bytes.len()
}

/// Stops the log, and changes the bytes of its only segment. Returns its own records after a restart.
fn after_change(written: Written, change: impl FnOnce(&SimulatedDisk, &Path)) -> OwnRecords {
    let Written { disk, log, own, .. } = written;
    log.stop();
    let names = disk.names();
    let segment = names.iter().find(|name| name.ends_with(".segment")).expect("a segment");
    change(&disk, &Path::new(DIRECTORY).join(segment));
    OwnRecords::new(Arc::new(disk), Path::new(DIRECTORY), own.last_seq())
}

#[test]
fn a_log_whose_end_is_damaged_is_read_to_its_end_once() {
    let mut written = Written::new(64_000_000);
    written.write(10);
    written.write(10);
    let mut own = after_change(written, |disk, segment| {
        let mut bytes = disk.bytes(segment);
        let last = bytes.windows(4).rposition(|four| four == b"xxxx").expect("the text of the last record");
        bytes[last] = b'y';
        disk.put(segment, &bytes);
    });
    assert_eq!(own.load(20, 20).expect("damage is no error"), 20);
    assert_eq!(own.record(20), OwnRecord::Absent);
    assert_eq!(own.load(1, 20).expect("damage is no error"), 20);
    assert!((1..=20).all(|seq| own.record(seq).encoded().is_some() == (seq <= 10)));
}

#[test]
fn a_log_whose_files_are_gone_is_an_error_and_not_damage() {
    let mut written = Written::new(64_000_000);
    written.write(10);
    let mut own = after_change(written, |disk, segment| disk.delete(segment));
    let error = own.load(5, 10).expect_err("the records are missing").to_string();
    assert!(
        error.contains("lacks the record 5, which this server has written; put its files back"),
        "{error}"
    );
}
