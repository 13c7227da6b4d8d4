//! The erasures of a directory, and the own records that are under way while they are erased.
//!
//! A node erases its own records when it processes a tombstone. A record that it has sent and that has not
//! returned can take effect after the tombstone, with its content. The visitor would be back. The node does
//! not know the seqs that it has sent: after going back and after a start it has forgotten them, and a
//! restored file `producer` hides the producer IDs. So it decides when it sees the effect.
//!
//! * It keeps the dedup keys of the erased records that have not returned. A record with such a key that takes effect with its content
//!   needs a second tombstone ([`NotedErasures::on_accepted`]).
//! * It cannot read a damaged record of its own log, so it does not know the key or the owner. The stream returns the content, which
//!   names the owner. If an own record that the log cannot read takes effect, and it is not later than the last record that an erasure covers,
//!   its owner is compared with the erased one ([`NotedErasures::candidates`]).
//! * A restored disk has lost records that were under way. The log does not have them, so their seqs tell nothing. If such a record takes
//!   effect after a tombstone, and it was received before it, its owner is compared too. A copied machine keeps the IDs of its original,
//!   and its later records are not compared.
//! * A replaced disk has lost records that were under way too. The new instance does not have their producer ID. The state says that the ID
//!   belongs to its name, so it compares their owners in the same way.
//!
//! A note is durable before the first record of its erasure becomes void, and it has the extent of the
//! erasure. So a start repeats an erasure that a crash has interrupted for the same records, and not for
//! those of a new visitor. It does not repeat one that is done.

use std::collections::BTreeMap;

use super::follow::{OwnLog, is_same_record};
use super::message::RunRecord;
use super::producer::{Producer, ProducerId};
use crate::record::RecordKind;

/// Maximum number of noted erasures. At the limit the oldest note is dropped. Its erasure has left the state,
/// unless a node is away.
pub const NOTES_MAX: usize = 10_000;
/// Erased records under way that are noted, over all erasures. They take 0.5 MB of a file that each erasure
/// writes. An erasure with more keeps none of its records and gets its second tombstone at once. That one
/// also erases the events of a new visitor with the same IDs.
pub const UNDER_WAY_MAX: usize = 10_000;

/// Time after a tombstone, in ms of the state's clock, in which messages from before it can arrive: a
/// publication fails after 2 s, and a server that was stopped is given up within seconds. A later one is not
/// compared any more.
pub const ARRIVAL_MS: i64 = 60_000;

/// An erasure that the directory has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureNote<O> {
    /// The erasure ID.
    pub id: u128,
    /// The last own record that can be the erased visitor's. Later ones belong to a new visitor.
    pub last_seq: u64,
    /// The last own record that had returned at the tombstone. Later ones count as received before it.
    pub returned: u64,
    /// When the tombstone was recorded, or its time in the state that the node loaded.
    pub tombstone_ms: i64,
    /// True after all its records are void.
    pub is_done: bool,
    /// True if too many records were under way.
    pub has_too_many_records: bool,
    /// The erased visitor. `None` after the own records up to `last_seq` have returned, and [`ARRIVAL_MS`] have passed.
    pub owner: Option<O>,
}

/// An erased own record that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasedRecord {
    pub seq: u64,
    /// The dedup key. The record can be void already.
    pub key: u128,
}

/// The erasures that a directory has begun, with their records under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedErasures<O> {
    /// The oldest first.
    notes: Vec<ErasureNote<O>>,
    /// The seqs and the erasure IDs of erased records that have not returned, by their dedup keys.
    records: BTreeMap<u128, (u64, u128)>,
}

impl<O> Default for NotedErasures<O> {
    fn default() -> Self {
        Self { notes: Vec::new(), records: BTreeMap::new() }
    }
}

impl<O: Clone> NotedErasures<O> {
    /// Adds the note of an erasure, or replaces it. Sets `has_too_many_records` if there are too many
    /// records. A record without a key is never found again and needs no entry.
    pub fn add(&mut self, mut note: ErasureNote<O>, records: &[ErasedRecord]) {
        self.notes.retain(|one| one.id != note.id);
        if self.notes.len() >= NOTES_MAX {
            let dropped = self.notes.remove(0).id;
            self.records.retain(|_, (_, id)| *id != dropped);
        }
        note.has_too_many_records |= self.records.len() + records.len() > UNDER_WAY_MAX;
        let kept = records.iter().filter(|record| record.key != 0 && !note.has_too_many_records);
        self.records.extend(kept.map(|record| (record.key, (record.seq, note.id))));
        self.notes.push(note);
    }

    /// Returns all notes, the oldest first.
    pub fn notes(&self) -> &[ErasureNote<O>] {
        &self.notes
    }

    /// Returns the records under way of an erasure.
    pub fn records_of(&self, id: u128) -> impl Iterator<Item = ErasedRecord> + '_ {
        let own = self.records.iter().filter(move |(_, (_, erasure))| *erasure == id);
        own.map(|(key, (seq, _))| ErasedRecord { seq: *seq, key: *key })
    }

    /// Returns the records under way, with the IDs of their erasures.
    pub fn records(&self) -> impl Iterator<Item = (u128, ErasedRecord)> + '_ {
        self.records.iter().map(|(key, (seq, id))| (*id, ErasedRecord { seq: *seq, key: *key }))
    }

    /// Returns the note of an erasure.
    pub fn get(&self, id: u128) -> Option<&ErasureNote<O>> {
        self.notes.iter().find(|note| note.id == id)
    }

    /// Returns whether no own record of an erasure can be under way.
    pub fn is_settled(&self) -> bool {
        self.notes.iter().all(|note| note.owner.is_none())
    }

    /// Returns whether an own record of this erasure can be under way.
    pub fn is_open(&self, id: u128) -> bool {
        self.get(id).is_some_and(|note| note.owner.is_some())
    }

    /// Notes that a tombstone was accepted again: the stream had lost its end, or a start reads it again.
    pub fn reopen(&mut self, id: u128, owner: &O) {
        if let Some(note) = self.notes.iter_mut().find(|note| note.id == id) {
            note.owner = Some(owner.clone());
        }
    }

    /// Notes that the records of an erasure are void.
    pub fn finish(&mut self, id: u128) {
        if let Some(note) = self.notes.iter_mut().find(|note| note.id == id) {
            note.is_done = true;
        }
    }

    /// Notes an accepted record of any producer. Returns the owner that needs a second tombstone, if the
    /// record is an erased own one that took effect with its content after the tombstone. `is_erased` returns
    /// true for an owner with a tombstone in the state. After a start, a node reads messages from
    /// before it again.
    ///
    /// Another form does not remove the entry, and neither does a record before the tombstone: its key can
    /// leave the window before the own record arrives.
    pub fn on_accepted(
        &mut self,
        record: &RunRecord<'_>,
        is_effective: bool,
        is_erased: impl Fn(&O) -> bool,
    ) -> Option<O> {
        if !is_effective || record.record.kind == RecordKind::Void {
            return None;
        }
        let (_, id) = *self.records.get(&record.key)?;
        let owner = self.owner_of(id).filter(|owner| is_erased(owner))?.clone();
        self.records.remove(&record.key);
        Some(owner)
    }

    /// Removes records whose visitor has got its second tombstone.
    pub fn remove(&mut self, keys: &[u128]) {
        for key in keys {
            self.records.remove(key);
        }
    }

    /// Returns the owners whose erasure covers an own record. One of them can be the owner of a record that
    /// the log cannot read or has lost.
    pub fn candidates(&self, record: &RunRecord<'_>, absence: Absence) -> impl Iterator<Item = &O> {
        let (seq, received_ms) = (record.seq, record.record.received_ms);
        let is_covered = move |note: &&ErasureNote<O>| match absence {
            Absence::Unreadable => seq <= note.last_seq,
            Absence::Lost => received_ms <= note.tombstone_ms,
        };
        self.notes.iter().filter(is_covered).filter_map(|note| note.owner.as_ref())
    }

    /// Forgets the records that have returned: no form of them is under way any more. Before an erasure, they
    /// took effect before its tombstone. `clock_ms` is that of the state. Returns whether a note has changed.
    pub fn forget_returned(&mut self, returned_seq: u64, clock_ms: i64) -> bool {
        let before = self.records.len();
        self.records.retain(|_, (seq, _)| *seq > returned_seq);
        let mut is_changed = self.records.len() != before;
        for note in self.notes.iter_mut().filter(|note| note.owner.is_some()) {
            let is_past = clock_ms.saturating_sub(note.tombstone_ms) >= ARRIVAL_MS;
            if note.is_done && note.last_seq <= returned_seq && is_past {
                (note.owner, is_changed) = (None, true);
            }
        }
        is_changed
    }

    /// Removes the records that a loaded state has accepted already and whose tombstone it has, by
    /// `is_erased`. The state hides the order of their effect and of the tombstone, so each erasure with such
    /// records needs a second one. Returns their owners, with the keys.
    pub fn take_unseen(
        &mut self,
        last_accepted_seq: u64,
        is_erased: impl Fn(&O) -> bool,
    ) -> Vec<(O, Vec<u128>)> {
        let mut unseen = Vec::new();
        for note in &self.notes {
            let Some(owner) = note.owner.as_ref().filter(|owner| is_erased(owner)) else { continue };
            let is_own = |(seq, id): &(u64, u128)| *id == note.id && *seq <= last_accepted_seq;
            let keys: Vec<u128> =
                self.records.extract_if(.., |_, record| is_own(record)).map(|(key, _)| key).collect();
            if !keys.is_empty() {
                unseen.push((owner.clone(), keys));
            }
        }
        unseen
    }

    fn owner_of(&self, id: u128) -> Option<&O> {
        self.get(id)?.owner.as_ref()
    }
}

/// The reason why the own log does not show an own record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The log cannot read it.
    Unreadable,
    /// The log has another record in its place, or ends before it.
    Lost,
}

/// Returns why the own log does not have an accepted record. `None` if it has it, or if the record was sent
/// under no ID of this directory, and by no earlier disk of this node: `node_name` is the own name, and `sender_name` that
/// of the node to which the ID belongs.
pub fn absence(
    producer: &Producer,
    id: ProducerId,
    sender_name: &str,
    record: &RunRecord<'_>,
    log: &impl OwnLog,
    node_name: &str,
) -> Option<Absence> {
    let Some(own_seqs) = producer.seqs_of(id) else {
        return (sender_name == node_name).then_some(Absence::Lost);
    };
    if !own_seqs.contains(&record.seq) || record.seq > log.last_seq() {
        return Some(Absence::Lost);
    }
    match log.record(record.seq).encoded() {
        None => Some(Absence::Unreadable),
        Some(own) => (!is_same_record(own, record)).then_some(Absence::Lost),
    }
}
