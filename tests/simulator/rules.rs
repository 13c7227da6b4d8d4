//! The rules one by one, at their bounds.

use parallax::testing::cluster::acknowledge::WaitingRequests;
use parallax::testing::cluster::era::{Era, EraId};
use parallax::testing::cluster::filter::{NoEffect, STREAM_AHEAD_MS_MAX, Step, step};
use parallax::testing::cluster::follow::{
    Head, OwnLog, OwnRecord, deletable_seq, is_same_record, is_same_stream, known_seq, missing_from,
    verified_seq,
};
use parallax::testing::cluster::forward::{Forwarder, IN_FLIGHT_MAX, RETURN_TIMEOUT_MS, fill_run};
use parallax::testing::cluster::message::RecordIdentity;
use parallax::testing::cluster::message::{
    Decoder, Encoder, Header, Kind, RUN_BYTES_MAX, RunRecord, Sender, StreamMessage, dedup_key, push_record,
};
use parallax::testing::cluster::producer::{Predecessor, Producer, ProducerId};
use parallax::testing::cluster::state::{
    PRODUCERS_MAX, ProducerEntry, SEQ_MARK_INTERVAL_MS, SEQ_MARKS_MAX, SeqMark, StreamState,
};
use parallax::testing::record::{Record, RecordKind};

use crate::event::void;

pub const NOW_MS: i64 = 1_767_607_200_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

pub fn id(number: u8) -> ProducerId {
    ProducerId([number; 16])
}

pub fn node(name: &str) -> Sender {
    Sender::Node(name.to_owned())
}

pub fn producer(own: u64, predecessors: &[(u8, u64)]) -> Producer {
    let predecessor =
        |(number, base_seq): &(u8, u64)| Predecessor { id: id(*number), base_seq: *base_seq, changed_ms: 0 };
    Producer {
        id: id(99),
        base_seq: own,
        returned_seq: 0,
        returned_ms: 0,
        predecessors: predecessors.iter().map(predecessor).collect(),
    }
}

/// Returns a page event with this number, with zeros up to a length.
pub fn record(number: u64, bytes: usize) -> Vec<u8> {
    let (message_id, payload) = (format!("m{number}"), " ".repeat(bytes));
    let record = Record {
        received_ms: NOW_MS + number as i64,
        site: Some("acme"),
        message_id: Some(&message_id),
        anon_id: Some("v1"),
        payload: &payload,
        ..Record::new(RecordKind::Page)
    };
    let mut encoded = Vec::new();
    Record { key: dedup_key(&record), ..record }.encode(&mut encoded).expect("a small record");
    encoded
}

/// A log from seq 1 on. `None` is a damaged record.
pub struct Log(pub Vec<Option<Vec<u8>>>);

impl Log {
    pub fn new(numbers: impl Iterator<Item = u64>) -> Self {
        Self(numbers.map(|number| Some(record(number, 2))).collect())
    }
}

impl OwnLog for Log {
    fn first_seq(&self) -> u64 {
        1
    }

    fn last_seq(&self) -> u64 {
        self.0.len() as u64
    }

    fn record(&self, seq: u64) -> OwnRecord<'_> {
        let record = self.0.get(seq as usize - 1).and_then(Option::as_deref);
        record.map_or(OwnRecord::Absent, OwnRecord::Encoded)
    }
}

pub struct Cluster {
    pub state: StreamState,
    pub encoder: Encoder,
    decoder: Decoder,
}

impl Cluster {
    pub fn new() -> Self {
        let era = Era {
            id: EraId([1; 16]),
            created_ms: NOW_MS,
            checkpoint: None,
            cost_max: 1 << 20,
            fold_version: 1,
            duplicates_max: 1_000,
            base_position: 0,
            secret_check: EraId([2; 16]),
        };
        let founded =
            StreamMessage { position: 1, stream_ms: NOW_MS, sender: Sender::Control, bytes: [0; 0] };
        Self {
            state: StreamState::founded(era, &founded, 0),
            encoder: Encoder::new().expect("memory"),
            decoder: Decoder::new().expect("memory"),
        }
    }

    pub fn message(
        &mut self,
        producer_id: ProducerId,
        base_seq: u64,
        first: u64,
        records: &[Vec<u8>],
    ) -> Vec<u8> {
        let mut payload = Vec::new();
        records.iter().for_each(|record| assert!(push_record(&mut payload, record)));
        let header = Header {
            kind: Kind::Run,
            era: self.state.era.id,
            producer_id,
            base_seq,
            first,
            sent_ms: NOW_MS,
            count: records.len() as u32,
        };
        self.encoder.encode(&header, &payload).expect("memory")
    }

    /// Processes a message of the node `a`.
    pub fn step(&mut self, bytes: Vec<u8>, stream_ms: i64) -> Step {
        self.step_from(node("a"), bytes, stream_ms)
    }

    pub fn step_from(&mut self, sender: Sender, bytes: Vec<u8>, stream_ms: i64) -> Step {
        let message = StreamMessage { position: self.state.position + 1, stream_ms, sender, bytes };
        step(&mut self.state, &mut self.decoder, &message)
    }

    /// Sends a run and folds it. Returns the seqs that take effect.
    pub fn fold(
        &mut self,
        producer_id: ProducerId,
        first: u64,
        records: &[Vec<u8>],
        stream_ms: i64,
    ) -> Vec<u64> {
        let bytes = self.message(producer_id, 1, first, records);
        let Step::Accepted(mut run) = self.step(bytes, stream_ms) else { return Vec::new() };
        let mut effective = Vec::new();
        while let Some((record, is_effective)) = run.next_record(&mut self.state) {
            effective.extend(is_effective.then_some(record.seq));
        }
        effective
    }
}

#[test]
fn the_filter_accepts_the_next_records_of_a_producer_once() {
    let mut cluster = Cluster::new();
    let records: Vec<Vec<u8>> = (1..=6).map(|number| record(number, 2)).collect();
    let none: [u64; 0] = [];
    assert_eq!(cluster.fold(id(1), 2, &records[1..3], NOW_MS), none, "seq 1 is missing");
    assert!(cluster.state.producers.is_empty(), "a gap makes no entry");
    assert_eq!(cluster.fold(id(1), 1, &records[..3], NOW_MS), [1, 2, 3]);
    assert_eq!(cluster.fold(id(1), 1, &records[..3], NOW_MS), none, "repeated");
    assert_eq!(cluster.fold(id(1), 2, &records[1..5], NOW_MS), [4, 5], "the new part of a run");
    assert_eq!(cluster.fold(id(2), 1, &records[3..6], NOW_MS), [3], "two of them under another producer");
    assert_eq!((cluster.state.next_of(id(1), 1), cluster.state.next_of(id(2), 1)), (6, 4));
    let other_base = cluster.message(id(1), 2, 6, &records[5..]);
    assert!(matches!(cluster.step(other_base, NOW_MS), Step::NoEffect(NoEffect::OtherBaseSeq)));
}

#[test]
fn a_producer_beyond_the_limit_has_no_effect() {
    let mut cluster = Cluster::new();
    for number in 0..PRODUCERS_MAX as u128 {
        cluster.state.producers.insert(ProducerId(number.to_be_bytes()), ProducerEntry::new(1));
    }
    let first = cluster.message(id(77), 1, 1, &[record(1, 2)]);
    assert!(matches!(cluster.step(first, NOW_MS), Step::NoEffect(NoEffect::TooManyProducers)));
    let known = ProducerId(5u128.to_be_bytes());
    assert_eq!(cluster.fold(known, 1, &[record(1, 2)], NOW_MS), [1]);
}

#[test]
fn a_fast_clock_of_the_stream_does_not_empty_the_window() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.fold(id(1), 1, &[record(1, 2)], NOW_MS + 40 * DAY_MS), [1]);
    assert_eq!(cluster.state.clock_ms, NOW_MS + STREAM_AHEAD_MS_MAX);
    assert_eq!(cluster.fold(id(2), 1, &[record(1, 2)], NOW_MS), [0; 0], "the key is in the window");
}

#[test]
fn a_state_survives_its_checkpoint() {
    let mut cluster = Cluster::new();
    cluster.fold(id(1), 1, &[record(1, 2), record(2, 2)], NOW_MS);
    let saved = cluster.state.save();
    assert_eq!(saved.window.len(), 2);
    assert_eq!(saved.restore(5).save(), saved, "the seed of the window changes nothing");
    cluster.state = saved.restore(7);
    assert_eq!(cluster.fold(id(2), 1, &[record(2, 2), record(3, 2)], NOW_MS), [2]);
}

#[test]
fn the_chain_differs_if_a_message_is_appended_again() {
    let mut cluster = Cluster::new();
    let bytes = cluster.message(id(1), 1, 1, &[record(1, 2)]);
    let before = cluster.state.chain_position();
    cluster.step(bytes.clone(), NOW_MS);
    let after = cluster.state.chain_position();
    let head = Head { created_ms: NOW_MS, first: 1, last: 2 };
    let message = StreamMessage { position: 2, stream_ms: NOW_MS, sender: node("a"), bytes };
    assert!(is_same_stream(&after, &head, Some(&message)));
    assert!(!is_same_stream(&before, &head, Some(&message)));
    let again = StreamMessage { stream_ms: NOW_MS + 1, ..message.clone() };
    assert!(!is_same_stream(&after, &head, Some(&again)));
    let other = StreamMessage { sender: node("b"), ..message };
    assert!(!is_same_stream(&after, &head, Some(&other)), "of another sender");
    let none = None::<&StreamMessage<Vec<u8>>>;
    assert!(!is_same_stream(&after, &head, none), "the stream has other messages");
    let expired = Head { first: 3, ..head };
    assert!(is_same_stream(&after, &expired, none), "all messages have expired");
    assert!(!is_same_stream(&after, &Head { created_ms: NOW_MS + 1, ..expired }, none), "another stream");
    assert!(!is_same_stream(&after, &Head { last: 1, first: 2, ..head }, none), "the stream ends before");
}

#[test]
fn a_gap_under_the_oldest_of_three_predecessors_is_found() {
    let own = producer(41, &[(1, 1), (2, 11), (3, 31)]);
    let missing = |next: [u64; 3]| {
        missing_from(&own, |id, base_seq| next.get(usize::from(id.0[0]) - 1).copied().unwrap_or(base_seq), 1)
    };
    assert_eq!(missing([11, 31, 41]), None);
    assert_eq!(missing([15, 40, 50]), None, "later records of a predecessor have no effect on this");
    assert_eq!(missing([7, 31, 41]), Some(7));
    assert_eq!(missing([11, 12, 41]), Some(12));
    assert_eq!(missing([11, 31, 33]), Some(33));
    assert_eq!(missing([7, 12, 33]), Some(7), "the oldest gap");
    let lower = producer(5, &[(1, 1), (2, 11), (3, 31)]);
    assert_eq!(
        missing_from(&lower, |_, base_seq| base_seq, 1),
        Some(1),
        "without an entry nothing was accepted"
    );
    assert_eq!(missing_from(&lower, |_, base_seq| base_seq, 3), Some(3), "retention has deleted two");
    assert_eq!(missing_from(&lower, |_, base_seq| base_seq, 9), None, "retention has deleted all");
}

/// Returns the entry of a producer that sent these records, with marks after some seqs.
fn entry_of(log: &Log, marked: &[u64]) -> ProducerEntry {
    let mut entry = ProducerEntry::new(1);
    for seq in 1..=log.last_seq() {
        let bytes = log.record(seq).encoded().expect("a record");
        let (record, _) = Record::decode(bytes).expect("a record");
        let identity =
            RecordIdentity { length: bytes.len() as u32, received_ms: record.received_ms, key: record.key };
        entry.running_hash = identity.extend(entry.running_hash);
        (entry.last, entry.next) = (Some(identity), seq + 1);
        if marked.contains(&seq) {
            entry.marks.push(SeqMark { seq, hash: entry.running_hash });
        }
    }
    entry
}

#[test]
fn a_log_that_is_not_the_one_of_the_state_is_found_at_a_start() {
    let sent = Log::new(1..=30);
    let entry = entry_of(&sent, &[10, 20, 30]);
    let beginning = Some(SeqMark { seq: 0, hash: 0 });
    let own = |returned_seq| Producer { returned_seq, ..producer(1, &[]) };
    let verify = |log: &Log, known, returned_seq| verified_seq(&own(returned_seq), Some(&entry), log, known);
    assert_eq!(verify(&sent, beginning, 0), None);
    assert_eq!(verify(&Log::new(1..=40), beginning, 0), None, "later records have not been sent");
    assert_eq!(verify(&Log::new(1..=25), beginning, 0), Some(20), "restored: after the last mark");
    assert_eq!(verify(&Log::new(1..=25), beginning, 23), Some(23), "the directory has compared more");
    assert_eq!(verify(&Log::new(1..=25), None, 12), Some(12));
    assert_eq!(verify(&Log::new(1..=25), None, 90), Some(25), "not beyond the log");
    let others = Log::new((1..=15).chain(101..=140));
    assert_eq!(verify(&others, beginning, 0), Some(10), "other records from seq 16 on");
    assert_eq!(verify(&others, None, 0), Some(0), "without a known seq everything is sent again");
    let only_end = Log::new((1..=29).chain([200]));
    assert_eq!(verify(&only_end, beginning, 0), Some(20), "the last returned record differs");
    let mut damaged = Log::new((1..=15).chain(101..=114).chain([30]));
    assert_eq!(verify(&damaged, beginning, 0), Some(10));
    damaged.0[4] = None;
    assert_eq!(verify(&damaged, beginning, 0), Some(0), "the hash ends at the damage");
    assert_eq!(verify(&damaged, beginning, 29), Some(29), "the directory has compared that much");
    assert_eq!(verify(&damaged, beginning, 30), None);
    assert_eq!(verify(&Log::new(1..=40), None, 12), Some(12), "no hash, and not compared");
    assert_eq!(verify(&Log::new(1..=40), None, 30), None);
    let regrown = Log::new((1..=29).chain([200]));
    assert_eq!(verify(&regrown, beginning, 30), Some(20), "the returned seq is of another log");
    assert_eq!(verify(&Log::new(1..=35), beginning, 36), Some(35), "the log ends before the returned seq");
}

#[test]
fn the_log_is_read_only_for_records_that_the_directory_has_not_compared() {
    let mut cluster = Cluster::new();
    let mut own = producer(1, &[]);
    let log = Log::new(1..=3);
    assert_eq!(known_seq(&own, &cluster.state, &log), None, "the state has no record");
    cluster.fold(own.id, 1, &[record(1, 2), record(2, 2), record(3, 2)], NOW_MS);
    for (returned_seq, known) in
        [(0, Some(SeqMark { seq: 0, hash: 0 })), (2, Some(SeqMark { seq: 0, hash: 0 })), (3, None)]
    {
        own.returned_seq = returned_seq;
        assert_eq!(known_seq(&own, &cluster.state, &log), known, "{returned_seq} are compared");
    }
}

#[test]
fn an_erased_record_equals_the_record_that_was_sent() {
    let sent = record(1, 2);
    let mut payload = Vec::new();
    assert!(push_record(&mut payload, &sent));
    let (record_of_payload, _) = Record::decode(&payload).expect("a record");
    let returned = |bytes| RunRecord { seq: 1, bytes, record: record_of_payload, key: 0 };
    assert!(is_same_record(&sent, &returned(&payload)));
    assert!(!is_same_record(&record(2, 2), &returned(&payload)));
    assert!(is_same_record(&void(&sent), &returned(&payload)));
    assert!(!is_same_record(&void(&record(1, 90)), &returned(&payload)), "another length");
    assert!(!is_same_record(&void(&record(2, 2)), &returned(&payload)), "another time");
    let redacted = Record { is_redacted: true, anon_id: None, payload: "{}", ..record_of_payload };
    let mut bytes = Vec::new();
    redacted.encode(&mut bytes).expect("a small record");
    assert!(is_same_record(&bytes, &returned(&payload)));
    let voided = void(&sent);
    let (void_record, _) = Record::decode(&voided).expect("a record");
    let void_returned = RunRecord { seq: 1, bytes: &voided, record: void_record, key: 0 };
    assert!(is_same_record(&sent, &void_returned), "the erased form was sent again");
}

#[test]
fn retention_keeps_the_records_that_any_checkpoint_lacks() {
    let mut cluster = Cluster::new();
    let empty = cluster.state.save();
    let mut own = producer(1, &[]);
    cluster.fold(own.id, 1, &[record(1, 2), record(2, 2), record(3, 2)], NOW_MS);
    let full = cluster.state.save();
    assert_eq!(deletable_seq(&own, [&full]), 3);
    assert_eq!(deletable_seq(&own, [&empty, &full]), 0);
    assert_eq!(deletable_seq(&own, []), 0, "without a checkpoint nothing may be deleted");
    own.replace(id(5), 3, NOW_MS);
    assert_eq!(deletable_seq(&own, [&full]), 3);
    assert_eq!(deletable_seq(&own, [&empty]), 0, "records of a predecessor are missing there");
}

#[test]
fn the_forwarder_goes_back_if_nothing_returns() {
    let mut forwarder = Forwarder::new(10);
    assert_eq!(forwarder.next(10, 10, 0), None, "nothing is durable");
    assert_eq!(forwarder.next(20, 10, 0), Some(11));
    forwarder.on_sent(14, 10, 0);
    assert_eq!(forwarder.next(20, 10, RETURN_TIMEOUT_MS - 1), Some(15));
    assert_eq!(forwarder.next(20, 10, RETURN_TIMEOUT_MS), Some(11), "nothing returned");
    forwarder.on_sent(14, 10, RETURN_TIMEOUT_MS);
    forwarder.on_acknowledged();
    assert_eq!(forwarder.next(20, 10, RETURN_TIMEOUT_MS), Some(15), "the engine's word moves nothing");
    forwarder.on_failed(10);
    assert_eq!(forwarder.next(20, 10, RETURN_TIMEOUT_MS), Some(11), "a publication failed");
    forwarder.on_returned(17, RETURN_TIMEOUT_MS);
    assert_eq!(forwarder.next(20, 17, RETURN_TIMEOUT_MS), Some(18), "an earlier publication returned");
    (0..IN_FLIGHT_MAX).for_each(|_| forwarder.on_sent(18, 17, 0));
    assert_eq!(forwarder.next(20, 18, 0), None, "too many messages are under way");
}

#[test]
fn a_run_has_a_bounded_size_and_at_least_one_record() {
    let large = |number| Some(record(number, RUN_BYTES_MAX / 3));
    let log = Log(vec![large(1), large(2), large(3), Some(record(4, 2)), None]);
    let mut payload = Vec::new();
    assert_eq!(fill_run(&log, 1, 5, &mut payload), 2);
    assert!(payload.len() <= RUN_BYTES_MAX);
    assert_eq!(fill_run(&log, 4, 5, &mut payload), 2, "a damaged record is sent as a void one");
    let second = &payload[record(4, 2).len()..];
    assert_eq!(Record::decode(second).expect("a record").0.kind, RecordKind::Void);
    let longest = Log(vec![Some(record(1, RUN_BYTES_MAX + 1))]);
    assert_eq!(fill_run(&longest, 1, 1, &mut payload), 1);
}

/// A log of which the records up to a seq were read.
struct LoadedTo(u64, Log);

impl OwnLog for LoadedTo {
    fn first_seq(&self) -> u64 {
        1
    }

    fn last_seq(&self) -> u64 {
        self.1.last_seq()
    }

    fn record(&self, seq: u64) -> OwnRecord<'_> {
        if seq <= self.0 { self.1.record(seq) } else { OwnRecord::NotLoaded }
    }
}

#[test]
fn a_run_ends_before_a_record_that_is_not_loaded() {
    let log = LoadedTo(2, Log::new(1..=3));
    let mut payload = Vec::new();
    assert_eq!(fill_run(&log, 1, 3, &mut payload), 2);
    assert_eq!(payload.len(), record(1, 2).len() + record(2, 2).len());
    assert_eq!(fill_run(&log, 3, 3, &mut payload), 0);
    assert!(payload.is_empty());
}

#[test]
fn marks_get_further_apart_at_their_limit() {
    let mut cluster = Cluster::new();
    let marks = SEQ_MARKS_MAX as u64 + 1;
    for seq in 1..=marks {
        let message = cluster.message(id(1), 1, seq, &[record(seq, 2)]);
        cluster.state.clock_ms = NOW_MS + seq as i64 * SEQ_MARK_INTERVAL_MS;
        let Step::Accepted(mut run) = cluster.step(message, NOW_MS) else { panic!("the next record") };
        while run.next_record(&mut cluster.state).is_some() {}
    }
    let entry = &cluster.state.producers[&id(1)];
    let seqs: Vec<u64> = entry.marks.iter().map(|mark| mark.seq).collect();
    assert_eq!(seqs.len(), SEQ_MARKS_MAX * 3 / 4 + 1);
    assert_eq!((&seqs[..3], seqs.last()), (&[2, 4, 6][..], Some(&marks)));
}

#[test]
fn an_acknowledgement_waits_for_a_short_time_and_only_if_the_stream_is_quick() {
    let mut waiting = WaitingRequests::new(50);
    assert_eq!(waiting.push("a", 1, false, 0, 0), Some("a"), "not connected");
    assert_eq!(waiting.push("b", 2, true, 0, 50), Some("b"), "an older record has not returned");
    assert_eq!(waiting.push("c", 3, true, 20, 50), None);
    assert_eq!(waiting.push("d", 5, true, 20, 60), None);
    assert_eq!(waiting.next_returned(2), None);
    assert_eq!(waiting.next_returned(4), Some("c"));
    assert_eq!(waiting.next_returned(4), None);
    assert_eq!(waiting.next_expired(109), None);
    assert_eq!(waiting.next_expired(110), Some("d"));
    assert_eq!(waiting.next_expired(110), None);
}

#[test]
fn a_predecessor_carries_the_seqs_before_the_base_seqs_of_all_later_ids() {
    let producer = producer(7, &[(1, 1), (2, 9), (3, 4)]);
    assert_eq!(producer.seqs_of(id(99)), Some(7..u64::MAX));
    assert_eq!(producer.seqs_of(id(1)), Some(1..4));
    let second = producer.seqs_of(id(2));
    assert!(second.is_some_and(|seqs| seqs.is_empty()), "the next ID carries all of them again");
    assert_eq!(producer.seqs_of(id(3)), Some(4..7));
    assert_eq!(producer.seqs_of(id(4)), None);
}
