//! The follower: notices that the stream, the own log or the own producer ID is not the one that it continues.
//!
//! * The stream can lose its end. The chain check at each connection notices it ([`is_same_stream`]).
//! * A restored backup or a copied machine has other records under the same seqs. The comparison of the returned records notices
//!   it ([`Follower::on_accepted`]), and at a start [`verified_seq`]. The node then takes a new producer ID and sends its records from the
//!   first difference on.
//! * The stream can lose records of an earlier producer ID. [`missing_from`] notices it at the end of the stream.
//!
//! Until all this is checked, the node sends nothing: [`Follower::may_forward`].

use std::collections::VecDeque;

use super::filter::AcceptedRun;
use super::message::RecordIdentity;
use super::message::{RunRecord, StreamMessage, dedup_key, push_record};
use super::producer::{Producer, ProducerId};
use super::state::{ChainPosition, ProducerEntry, SavedState, SeqMark, StreamState, next_chain};
use crate::record::{Record, RecordKind};

/// Notes of a [`ReturnHistory`] in the time that retention keeps records at least: one in 10 minutes of a day.
const RETURN_NOTES: i64 = 144;

/// A record of the own log, or the reason why it cannot be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnRecord<'a> {
    Encoded(&'a [u8]),
    /// The record is damaged, deleted by retention, or after the end of the log.
    Absent,
    /// The record was not read from the log. Sending a void record in its place would lose it.
    NotLoaded,
}

impl<'a> OwnRecord<'a> {
    /// Returns the bytes for a comparison, which passes if there are none.
    pub fn encoded(self) -> Option<&'a [u8]> {
        match self {
            Self::Encoded(bytes) => Some(bytes),
            Self::Absent | Self::NotLoaded => None,
        }
    }
}

/// The own log, as the rules read it.
pub trait OwnLog {
    /// Returns the first seq that retention has kept.
    fn first_seq(&self) -> u64;

    /// Returns the last durable seq.
    fn last_seq(&self) -> u64;

    /// Returns a record.
    fn record(&self, seq: u64) -> OwnRecord<'_>;

    /// Passes the encoded records after `seq` to `visit`, in seq order, until it returns false. `None` is a
    /// record that cannot be read.
    fn visit_after(&self, seq: u64, visit: &mut dyn FnMut(Option<&[u8]>) -> bool) {
        let _ = (seq + 1..=self.last_seq()).all(|seq| visit(self.record(seq).encoded()));
    }
}

/// The identity and the extent of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The creation time in milliseconds. Another time is another stream.
    pub created_ms: i64,
    /// The first position that the stream has.
    pub first: u64,
    /// The last position. One less than `first` if the stream has no message.
    pub last: u64,
}

/// The progress of a node in the stream.
#[derive(Debug)]
pub struct Follower {
    pub producer: Producer,
    /// True after the file `producer` with this ID is durable.
    pub is_saved: bool,
    /// True after the stream passed the chain check on this connection.
    pub is_chain_checked: bool,
    /// True after the node has read to the end that the stream had at the connection.
    pub is_caught_up: bool,
    /// That end.
    end: u64,
}

/// The result of the comparison of accepted records with the own log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// The records are of another node.
    Foreign,
    /// The records are as the own log has them. The own records up to this seq have returned.
    Returned(u64),
    /// The node took a new producer ID. It sends all records after this seq again.
    NewProducer(u64),
}

impl Follower {
    /// Starts without a connection. `is_saved` is true if the file `producer` exists.
    pub fn new(producer: Producer, is_saved: bool) -> Self {
        Self { producer, is_saved, is_chain_checked: false, is_caught_up: false, end: 0 }
    }

    /// Notes a connection, a reconnection or a new consumer. Everything that was known of the stream is open again.
    pub fn on_connected(&mut self, head: &Head) {
        (self.is_chain_checked, self.is_caught_up, self.end) = (false, false, head.last);
    }

    /// Returns the last own seq that the state has accepted.
    pub fn returned(&self, state: &StreamState) -> u64 {
        state.next_of(self.producer.id, self.producer.base_seq) - 1
    }

    /// Returns the last own seq that a state has accepted under any producer ID of this directory. Erased
    /// records up to it can have taken effect after their tombstones. [`returned`](Self::returned) can be
    /// lower, because a loaded state is compared with the own log.
    pub fn last_accepted(&self, state: &StreamState) -> u64 {
        let ids = self.producer.predecessors.iter().map(|one| one.id).chain([self.producer.id]);
        ids.filter_map(|id| state.producers.get(&id)).map(|entry| entry.next - 1).max().unwrap_or(0)
    }

    /// Returns whether records may be sent. Before, the node may lack the erasures of others and may have a
    /// producer ID whose content is another log's.
    pub fn may_forward(&self) -> bool {
        self.is_chain_checked && self.is_caught_up && self.is_saved
    }

    /// Checks the own log against a loaded state: at a start, for a new era, and after the stream has lost
    /// its end. Returns the seq after which all records are sent again, if the node took a new producer ID.
    /// `known_mark` is that of [`verified_seq`], and `new_id` has random bits.
    ///
    /// At a start the caller saves the file `producer` before it writes the first record. Otherwise the next
    /// start could not notice that the log had ended before `returned_seq`.
    pub fn on_loaded(
        &mut self,
        state: &StreamState,
        log: &impl OwnLog,
        known_mark: Option<SeqMark>,
        new_id: ProducerId,
    ) -> Option<u64> {
        (self.is_chain_checked, self.is_caught_up) = (false, false);
        let entry = state.producers.get(&self.producer.id);
        let present = verified_seq(&self.producer, entry, log, known_mark);
        let verified = present.into_iter().chain(refuted_predecessors(&self.producer, state, log)).min();
        if let Some(verified) = verified {
            self.take_new_id(new_id, verified, state.clock_ms);
        }
        verified
    }

    /// Compares accepted records with the own log. Records of a predecessor are compared too: after the
    /// stream has lost its end, or in a new era, a copied machine can send its records in their place. Call
    /// this before the state has changed further. `new_id` has random bits.
    pub fn on_accepted(
        &mut self,
        run: &AcceptedRun,
        state: &StreamState,
        log: &impl OwnLog,
        new_id: ProducerId,
    ) -> Comparison {
        let is_present = run.producer_id() == self.producer.id;
        let Some(own_seqs) = self.producer.seqs_of(run.producer_id()) else { return Comparison::Foreign };
        let mut records = run.records();
        records.retain(|record| own_seqs.contains(&record.seq));
        match difference(&records, log) {
            None if !is_present => Comparison::Foreign,
            Some(verified) => {
                self.take_new_id(new_id, verified, state.clock_ms);
                Comparison::NewProducer(verified)
            }
            None => {
                (self.producer.returned_seq, self.producer.returned_ms) = (run.last(), state.clock_ms);
                Comparison::Returned(run.last())
            }
        }
    }

    /// Checks the own log against the state, if the state has reached the end of the stream. Returns the seq
    /// after which all records are sent again, if the node took a new producer ID. `new_id` has random bits.
    pub fn on_position(&mut self, state: &StreamState, log: &impl OwnLog, new_id: ProducerId) -> Option<u64> {
        if self.is_caught_up || !self.is_chain_checked || state.position < self.end {
            return None;
        }
        let is_ahead = self.returned(state) > log.last_seq();
        let missing =
            missing_from(&self.producer, |id, base_seq| state.next_of(id, base_seq), log.first_seq());
        let verified = [is_ahead.then(|| log.last_seq()), missing.map(|from| from - 1)];
        let verified = verified.into_iter().flatten().min();
        if let Some(verified) = verified {
            self.take_new_id(new_id, verified, state.clock_ms);
        }
        self.is_caught_up = true;
        verified
    }

    /// Takes a new producer ID if another node sends under the present one: this directory is a copy of that node's, or
    /// the node got another name. Returns the seq after which all records are sent again. `new_id` has random bits.
    pub fn on_other_node(
        &mut self,
        state: &StreamState,
        log: &impl OwnLog,
        node_name: &str,
        new_id: ProducerId,
    ) -> Option<u64> {
        state.producers.get(&self.producer.id).filter(|entry| !entry.is_of(node_name))?;
        // Those records are equal that this directory has compared with the stream.
        let compared = self.producer.returned_seq.max(self.producer.base_seq - 1);
        let verified = compared.min(self.returned(state)).min(log.last_seq());
        self.take_new_id(new_id, verified, state.clock_ms);
        Some(verified)
    }

    /// Takes a new producer ID. Nothing is sent until the caller has saved the file `producer` and has set `is_saved`.
    pub fn take_new_id(&mut self, id: ProducerId, verified_seq: u64, clock_ms: i64) {
        self.producer.replace(id, verified_seq, clock_ms);
        self.is_saved = false;
    }
}

/// Returns whether the stream has the message at the position of a state, and so all messages before it.
/// `message` is the one that the stream has there.
///
/// An expired stream has no message. If it ends at the state's position and was not created again, it is accepted.
pub fn is_same_stream(
    position: &ChainPosition,
    head: &Head,
    message: Option<&StreamMessage<impl AsRef<[u8]>>>,
) -> bool {
    match message {
        Some(message) => {
            message.position == position.position
                && next_chain(&position.previous_chain, message) == position.chain
        }
        None => {
            head.first > head.last && head.last == position.position && head.created_ms == position.created_ms
        }
    }
}

/// Returns the last seq before the first record that differs from the own log. `None` if all are the same.
fn difference(records: &[RunRecord<'_>], log: &impl OwnLog) -> Option<u64> {
    let differs = |record: &&RunRecord<'_>| {
        record.seq > log.last_seq()
            || log.record(record.seq).encoded().is_some_and(|own| !is_same_record(own, record))
    };
    records.iter().find(differs).map(|record| record.seq - 1)
}

/// Returns whether a record of the own log is the one that the stream returned. An erasure may have changed
/// either since it was sent.
pub fn is_same_record(own_bytes: &[u8], returned_record: &RunRecord<'_>) -> bool {
    let Some((record, _)) = Record::decode(own_bytes) else { return true };
    if record.received_ms != returned_record.record.received_ms {
        return false;
    }
    if record.is_redacted || returned_record.record.is_redacted {
        return true;
    }
    if record.kind == RecordKind::Void || returned_record.record.kind == RecordKind::Void {
        return own_bytes.len() == returned_record.bytes.len();
    }
    let mut payload = Vec::with_capacity(own_bytes.len());
    push_record(&mut payload, own_bytes) && payload == returned_record.bytes
}

/// Returns the first seq that the stream lacks under a predecessor of the producer. `None` if it lacks none.
/// `next_of` returns the first seq that a state has not accepted of a producer, from its ID and base seq.
///
/// Each predecessor is compared with the lowest base seq of the IDs after it, because those carry the later
/// records. Records that retention has deleted cannot be sent.
pub fn missing_from(
    producer: &Producer,
    next_of: impl Fn(ProducerId, u64) -> u64,
    first_seq: u64,
) -> Option<u64> {
    let (mut missing, mut low) = (producer.base_seq, producer.base_seq);
    for one in producer.predecessors.iter().rev().filter(|one| one.base_seq < producer.base_seq) {
        if one.base_seq < low {
            let next = next_of(one.id, one.base_seq);
            if next < low {
                missing = next;
            }
            low = one.base_seq;
        }
    }
    let missing = missing.max(first_seq);
    (missing < producer.base_seq).then_some(missing)
}

/// Returns the seq up to which the own log certainly equals a state, for [`verified_seq`]: the beginning of
/// the producer. `None` if retention has deleted records, or if this directory has compared all records that
/// the state has. Then the log is not read.
pub fn known_seq(producer: &Producer, state: &StreamState, log: &impl OwnLog) -> Option<SeqMark> {
    let is_compared =
        state.next_of(producer.id, producer.base_seq) <= producer.returned_seq.max(producer.base_seq - 1) + 1;
    let is_readable = log.first_seq() <= producer.base_seq;
    (is_readable && !is_compared).then_some(SeqMark { seq: producer.base_seq - 1, hash: 0 })
}

/// Returns the last seq of the own log that is known to be in the stream, if a later one is not known to be:
/// after a restored backup, on a copy of another machine, or with a state that another node made. `None` if
/// all returned records are known. Called for each state that a node loads, before the next message.
///
/// `entry` is the state's entry of the own producer. `known_mark` is a seq up to which the log certainly equals
/// the state, with the running hash up to it: the beginning of the producer, or the end of an older
/// checkpoint of this directory. The hash of the log is continued from there and compared with the marks of
/// the entry. A hole, an erased record or no `known_mark` ends it. Then only the records count that this directory
/// has compared itself.
pub fn verified_seq(
    producer: &Producer,
    entry: Option<&ProducerEntry>,
    log: &impl OwnLog,
    known_mark: Option<SeqMark>,
) -> Option<u64> {
    if producer.returned_seq.max(producer.base_seq - 1) > log.last_seq() {
        return Some(log.last_seq());
    }
    let entry = entry?;
    let returned = entry.next - 1;
    let agreeing = match known_mark {
        Some(known_mark) => last_agreeing_mark(entry, log, known_mark, u64::MAX),
        None => AgreeingMarks { seq: producer.base_seq - 1, is_refuted: false },
    };
    let is_refuted = agreeing.is_refuted || (returned <= log.last_seq() && !is_end_same(entry, log));
    let compared = if is_refuted && producer.returned_seq >= returned { 0 } else { producer.returned_seq };
    let verified = match agreeing.is_refuted {
        true => agreeing.seq,
        false => agreeing.seq.max(compared).min(returned),
    };
    (is_refuted || verified < returned).then(|| verified.min(log.last_seq()))
}

/// Returns, for each earlier producer ID whose records in a state are certainly not the own ones, the last
/// seq before the first mark that differs. The state of another era can have the records of a copied machine:
/// the era began before the own ones had returned.
fn refuted_predecessors(
    producer: &Producer,
    state: &StreamState,
    log: &impl OwnLog,
) -> impl Iterator<Item = u64> {
    let readable = producer.predecessors.iter().filter(|one| log.first_seq() <= one.base_seq);
    readable.filter_map(|one| {
        let (own_seqs, entry) = (producer.seqs_of(one.id)?, state.producers.get(&one.id)?);
        let known = SeqMark { seq: one.base_seq - 1, hash: 0 };
        let agreeing = last_agreeing_mark(entry, log, known, own_seqs.end);
        agreeing.is_refuted.then_some(agreeing.seq)
    })
}

/// Returns whether the own record that returned last can be the one of the entry.
fn is_end_same(entry: &ProducerEntry, log: &impl OwnLog) -> bool {
    let own = log.record(entry.next - 1).encoded().and_then(identity);
    let (Some(own), Some(last)) = (own, entry.last) else { return true };
    own.received_ms == last.received_ms && own.length == last.length
}

/// The result of comparing marks.
struct AgreeingMarks {
    /// The last mark that agrees, or the known seq.
    seq: u64,
    /// True if a later mark does not agree.
    is_refuted: bool,
}

/// Compares the marks of an entry from `known_mark` on with the hash of the own log. Marks of `end_seq` and later are
/// others' records.
fn last_agreeing_mark(
    entry: &ProducerEntry,
    log: &impl OwnLog,
    known_mark: SeqMark,
    end_seq: u64,
) -> AgreeingMarks {
    let (mut hash, mut at) = (known_mark.hash, known_mark.seq);
    let mut agreeing = AgreeingMarks { seq: known_mark.seq, is_refuted: false };
    let newest = SeqMark { seq: entry.next - 1, hash: entry.running_hash };
    let is_own = |mark: &&SeqMark| mark.seq > known_mark.seq && mark.seq < end_seq;
    let mut marks = entry.marks.iter().chain([&newest]).filter(is_own).peekable();
    log.visit_after(known_mark.seq, &mut |record| {
        // The content of a damaged record is unknown. So is the key of a void one without a key.
        let Some(own) = record.and_then(identity) else { return false };
        (hash, at) = (own.extend(hash), at + 1);
        while let Some(mark) = marks.next_if(|mark| mark.seq == at) {
            agreeing.is_refuted |= hash != mark.hash;
            if !agreeing.is_refuted {
                agreeing.seq = at;
            }
        }
        !agreeing.is_refuted && marks.peek().is_some()
    });
    agreeing
}

/// Returns the identity of an own record. `None` if an erasure may have changed it.
fn identity(bytes: &[u8]) -> Option<RecordIdentity> {
    let (record, _) = Record::decode(bytes)?;
    let key = dedup_key(&record);
    let is_known = !record.is_redacted && (record.kind != RecordKind::Void || key != 0);
    is_known.then_some(RecordIdentity { length: bytes.len() as u32, received_ms: record.received_ms, key })
}

/// The own seqs that had returned at earlier times, for retention.
///
/// The stream can lose its end with a record that is much older than its message, because the node was cut
/// off. All kept checkpoints can have the record, and then none of them is usable any more. So retention
/// counts the age of a record from its return, and only up to the last time at which the node was caught up:
/// a node that is alone does not learn that the stream lost its end. A start forgets the history, and
/// retention waits.
#[derive(Debug)]
pub struct ReturnHistory {
    /// Times in milliseconds, and the seqs that had returned. Both ascend.
    notes: VecDeque<(i64, u64)>,
    retained_ms: i64,
    now_ms: i64,
}

impl ReturnHistory {
    /// Creates an empty history. Retention keeps a record for at least `retained_ms` after its return.
    pub fn new(retained_ms: i64) -> Self {
        Self { notes: VecDeque::new(), retained_ms, now_ms: i64::MIN }
    }

    /// Notes the last own seq that has returned. Call this only while the node is caught up. Times never decrease.
    pub fn note(&mut self, returned_seq: u64, now_ms: i64) {
        self.now_ms = now_ms;
        while self.notes.back().is_some_and(|(_, seq)| *seq > returned_seq) {
            self.notes.pop_back();
        }
        let is_due = |(noted_ms, _): &(i64, u64)| now_ms - noted_ms >= self.retained_ms / RETURN_NOTES;
        if self.notes.back().is_none_or(is_due) {
            self.notes.push_back((now_ms, returned_seq));
        }
    }

    /// Returns the seq up to which records have been returned for long enough. Forgets earlier notes.
    pub fn deletable_seq(&mut self) -> u64 {
        let until_ms = self.now_ms.saturating_sub(self.retained_ms);
        while self.notes.get(1).is_some_and(|(noted_ms, _)| *noted_ms <= until_ms) {
            self.notes.pop_front();
        }
        self.notes.front().filter(|(noted_ms, _)| *noted_ms <= until_ms).map_or(0, |(_, seq)| *seq)
    }
}

/// Returns the seq up to which retention may delete records of the own log, by the kept checkpoints. If the
/// stream loses its end, the node continues from one of them, and sends all records that it lacks again. That
/// includes records that were sent under a predecessor.
pub fn deletable_seq<'a>(producer: &Producer, states: impl IntoIterator<Item = &'a SavedState>) -> u64 {
    let needed_from = |checkpoint: &SavedState| {
        let next_of = |id, base_seq| checkpoint.producers.get(&id).map_or(base_seq, |entry| entry.next);
        let missing = missing_from(producer, next_of, 1);
        missing.unwrap_or(u64::MAX).min(next_of(producer.id, producer.base_seq))
    };
    states.into_iter().map(needed_from).min().map_or(0, |seq| seq - 1)
}
