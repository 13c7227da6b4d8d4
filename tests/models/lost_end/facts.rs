//! The facts that no node knows: when each event was recorded, and its acknowledgements.

use std::collections::BTreeMap;

use crate::record::{Batch, Key, Keys, Kind, Record};

/// An event or a tombstone.
#[derive(Debug, Clone)]
pub struct Fact {
    pub record: Record,
    /// The steps of its first and its last append to an outbox.
    pub first: u32,
    pub last: u32,
    /// True if a client has sent it twice.
    pub is_retried: bool,
    pub is_acknowledged: bool,
    pub is_replicated: bool,
    /// True after the stream has lost it.
    pub is_lost: bool,
    /// True if faults have destroyed all copies.
    pub is_destroyed: bool,
    /// The step at which its DELETE was answered with 200. The erasure counts as done from then on.
    pub answered: Option<u32>,
}

/// A finished erasure, with the position and the chain of its tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub key: Key,
    pub position: u32,
    pub chain: u64,
}

impl Fact {
    pub fn new(record: Record) -> Self {
        Self {
            record,
            first: 0,
            last: 0,
            is_retried: false,
            is_acknowledged: false,
            is_replicated: false,
            is_lost: false,
            is_destroyed: false,
            answered: None,
        }
    }
}

#[derive(Default)]
pub struct Facts {
    pub step: u32,
    pub facts: Vec<Fact>,
    pub answers: Vec<Answer>,
    /// The batch of each message, by its chain.
    pub batches: BTreeMap<u64, Batch>,
    pub sessions: u32,
    pub instances: u32,
    /// The first broken promise.
    pub error: Option<String>,
    pub counts: Counts,
}

/// The counts of a run. They show which cases the seeds reach.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub acknowledged: u64,
    /// Records of which faults have destroyed all copies.
    pub destroyed: u64,
    pub void: u64,
    /// DELETEs with status 200.
    pub answered: u64,
    /// Lost ends of the stream.
    pub losses: u64,
    /// Cuts of a log: all, those that a start continued, those beside an earlier lost file, those with a tombstone, and those with a
    /// tombstone that the node had carried out.
    pub cuts: u64,
    pub cuts_continued: u64,
    pub cuts_beside: u64,
    pub cuts_of_tombstone: u64,
    pub cuts_of_erasure: u64,
    /// Messages of kind `recover`.
    pub recovered: u64,
    pub copies: u64,
    /// Nodes without a checkpoint that continues the stream (X5), and clusters with such nodes only: if erasures rewrite older checkpoints,
    /// and if they delete them.
    pub stopped: u64,
    pub ended_rewritten: u64,
    pub ended_deleted: u64,
}

impl Facts {
    pub fn fail(&mut self, error: String) {
        let step = self.step;
        self.error.get_or_insert_with(|| format!("step {step}: {error}"));
    }

    pub fn check(&mut self, holds: bool, error: impl FnOnce() -> String) {
        if !holds {
            self.fail(error());
        }
    }

    pub fn session(&mut self) -> u32 {
        self.sessions += 1;
        self.sessions
    }

    pub fn instance(&mut self) -> u32 {
        self.instances += 1;
        self.instances
    }

    /// Notes a batch that a node has computed. All nodes compute the same.
    pub fn note_batch(&mut self, batch: &Batch) {
        let first = self.batches.entry(batch.chain).or_insert_with(|| batch.clone());
        if first != batch {
            let error = format!("two nodes read a message differently: {first:?}, {batch:?}");
            self.fail(error);
        }
    }

    /// Returns the tombstones of the visitor of an event.
    fn tombstones(&self, visitor: u8) -> impl Iterator<Item = &Fact> {
        self.facts
            .iter()
            .filter(move |fact| fact.record.kind == Kind::Tombstone && fact.record.visitor == visitor)
    }

    /// True if an erasure may have removed the event: it was recorded before the DELETE was answered.
    pub fn may_be_erased(&self, key: Key) -> bool {
        let event = &self.facts[usize::from(key)];
        let covers = |fact: &Fact| fact.answered.is_none_or(|answered| event.first < answered);
        event.record.kind == Kind::Event && self.tombstones(event.record.visitor).any(covers)
    }

    /// True if an erasure must have removed the event: it was recorded before the DELETE.
    pub fn must_be_erased(&self, key: Key, tombstones: Keys) -> bool {
        let event = &self.facts[usize::from(key)];
        let covers = |fact: &Fact| tombstones >> fact.record.key & 1 == 1 && event.last < fact.first;
        event.record.kind == Kind::Event && self.tombstones(event.record.visitor).any(covers)
    }

    /// Returns the keys of the events that were recorded before a tombstone.
    pub fn earlier(&self, tombstone: Key) -> Keys {
        let erasure = &self.facts[usize::from(tombstone)];
        let is_earlier = |fact: &&Fact| {
            fact.record.kind == Kind::Event
                && fact.record.visitor == erasure.record.visitor
                && fact.last < erasure.first
        };
        self.facts.iter().filter(is_earlier).fold(0, |keys, fact| keys | 1 << fact.record.key)
    }

    pub fn acknowledge(&mut self, key: Key) {
        let fact = &mut self.facts[usize::from(key)];
        self.counts.acknowledged += u64::from(!fact.is_acknowledged);
        fact.is_acknowledged = true;
    }
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.destroyed += other.destroyed;
        self.void += other.void;
        self.answered += other.answered;
        self.losses += other.losses;
        self.cuts += other.cuts;
        self.cuts_continued += other.cuts_continued;
        self.cuts_beside += other.cuts_beside;
        self.cuts_of_tombstone += other.cuts_of_tombstone;
        self.cuts_of_erasure += other.cuts_of_erasure;
        self.recovered += other.recovered;
        self.copies += other.copies;
        self.stopped += other.stopped;
        self.ended_rewritten += other.ended_rewritten;
        self.ended_deleted += other.ended_deleted;
    }
}
