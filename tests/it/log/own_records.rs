//! The own log of a node, as it sends it to the stream: records that have left memory are read from the files, in any order.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use parallax::testing::clock::Clock;
use parallax::testing::cluster::follow::OwnLog;
use parallax::testing::cluster::own_log::OwnRecords;
use parallax::testing::visitors::log::{LogItem, LogReader, Options, Record, Request};

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
        let (after, payload) = (self.own.last_seq(), format!("{{\"text\":\"{}\"}}", "x".repeat(4_096)));
        let mut request = Request::new(0);
        for seq in after + 1..=after + count as u64 {
            let record = record(u128::from(seq), self.clock.now_ms(), &payload);
            request.push(&record).expect("the record is within all limits");
        }
        self.log.client.send(request).expect("the queue accepts it");
        self.log.writer.run_once();
        self.log.client.next_completion().expect("one step completes the request");
        let mut reader =
            LogReader::open(Arc::new(self.disk.clone()), Path::new(DIRECTORY), after).expect("the log opens");
        while let Some(LogItem::Records(records)) = reader.read_next().expect("reading succeeds") {
            self.own.push(records, 0);
        }
    }

    /// Loads from `first` on, and compares each record that is then readable.
    fn load(&mut self, first: u64, last: u64) {
        let readable = self.own.load(first, last).expect("reading succeeds");
        assert!(readable >= first, "at least one record");
        for seq in first..=readable.min(self.own.last_seq()) {
            let found = self.own.record(seq).and_then(Record::decode).map(|(record, _)| record.key);
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
        written.write(300);
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
    written.write(400);
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
