//! The state of a node beside its table: everything that the messages of the stream determine.
//!
//! The state at a position is a pure function of the messages up to it. At equal positions it is equal on all nodes.

use std::collections::BTreeMap;

use super::era::Era;
use super::message::{RecordIdentity, StreamMessage};
use super::nodes::Nodes;
use super::order::order;
use super::producer::ProducerId;
use crate::checksum::digest;
use crate::little_endian::array_at;
use crate::log::DedupWindow;

/// Producer IDs in a state. Each has up to 24 KiB of seq marks, so all have at most 100 MB. At the limit
/// messages of a new producer have no effect, on every node alike.
pub const PRODUCERS_MAX: usize = 4_096;
/// Seq marks of a producer. At the limit every second mark of the older half is dropped, so old marks get
/// further apart.
pub const SEQ_MARKS_MAX: usize = 1_024;
/// Time between two marks of a producer, in ms. A restored directory sends at most the records of this time twice.
pub const SEQ_MARK_INTERVAL_MS: i64 = 10_000;

/// A hash over all messages up to a position.
pub type Chain = [u8; 16];

/// A seq, and the hash over the accepted records of the producer up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqMark {
    pub seq: u64,
    pub hash: u128,
}

/// The progress of one producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerEntry {
    /// The name of the node that sends under the ID. Empty before its first accepted run: a server that was alone
    /// wrote the log.
    pub node: String,
    pub base_seq: u64,
    /// The first seq that is not accepted yet.
    pub next: u64,
    /// The last accepted record. `None` if no record was accepted.
    pub last: Option<RecordIdentity>,
    /// The hash over all accepted records.
    pub running_hash: u128,
    /// The time of the state at the newest mark, in milliseconds.
    pub marked_ms: i64,
    /// In the order of their seqs.
    pub marks: Vec<SeqMark>,
}

impl ProducerEntry {
    /// Creates the entry of a producer without an accepted record.
    pub fn new(base_seq: u64) -> Self {
        Self {
            node: String::new(),
            base_seq,
            next: base_seq,
            last: None,
            running_hash: 0,
            marked_ms: i64::MIN,
            marks: Vec::new(),
        }
    }

    /// Returns whether a node may send under the ID.
    pub fn is_of(&self, node_name: &str) -> bool {
        self.node.is_empty() || self.node == node_name
    }

    /// Adds an accepted record to the hash.
    pub(super) fn add(&mut self, identity: RecordIdentity) {
        self.running_hash = identity.extend(self.running_hash);
        self.last = Some(identity);
    }

    /// Makes a mark of the last accepted record, unless the newest mark is younger than 10 s of `clock_ms`.
    pub(super) fn mark(&mut self, clock_ms: i64) {
        if clock_ms.saturating_sub(self.marked_ms) < SEQ_MARK_INTERVAL_MS {
            return;
        }
        self.marked_ms = clock_ms;
        if self.marks.len() == SEQ_MARKS_MAX {
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number > SEQ_MARKS_MAX / 2 || number % 2 == 0
            });
        }
        self.marks.push(SeqMark { seq: self.next - 1, hash: self.running_hash });
    }
}

/// The position of a state, with the hashes that identify the stream up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPosition {
    pub position: u64,
    pub chain: Chain,
    pub previous_chain: Chain,
    /// The creation time of the stream, in milliseconds.
    pub created_ms: i64,
}

/// The state of a node beside its table.
#[derive(Debug)]
pub struct StreamState {
    /// Messages 1 to this are processed.
    pub position: u64,
    /// The seq of the last record that took effect, counted over all eras.
    pub seq: u64,
    /// The hash over these messages.
    pub chain: Chain,
    /// The hash over these messages without the last one.
    pub previous_chain: Chain,
    pub era: Era,
    /// The greatest message time so far, in milliseconds since 1970.
    pub clock_ms: i64,
    pub producers: BTreeMap<ProducerId, ProducerEntry>,
    pub nodes: Nodes,
    /// The keys of the records that took effect. Its time is `clock_ms`.
    pub window: DedupWindow,
}

impl StreamState {
    /// Returns the state right after the message of an era. `hash_seed` is the random seed of the window's
    /// hash table, which changes no result.
    pub fn founded(era: Era, message: &StreamMessage<impl AsRef<[u8]>>, hash_seed: u64) -> Self {
        let previous_chain = [0; 16];
        Self {
            position: message.position,
            seq: 0,
            chain: next_chain(&previous_chain, message),
            previous_chain,
            clock_ms: message.stream_ms,
            producers: BTreeMap::new(),
            nodes: Nodes::default(),
            window: window_of(&era, hash_seed),
            era,
        }
    }

    /// Returns the position of the last message, counted over all eras.
    pub fn global_position(&self) -> u64 {
        self.era.base_position + self.position
    }

    /// Returns the order of a record of the last message, by its index among the accepted ones.
    pub fn order(&self, index: u64) -> u64 {
        order(self.global_position(), index)
    }

    /// Returns the last order that a record of the last message can have.
    pub fn last_order(&self) -> u64 {
        self.order(u64::MAX)
    }

    /// Returns the first seq of a producer that is not accepted yet.
    pub fn next_of(&self, id: ProducerId, base_seq: u64) -> u64 {
        self.producers.get(&id).map_or(base_seq, |entry| entry.next)
    }

    /// Returns the name of the node that sends under a producer ID. Empty if none has.
    pub fn node_of(&self, id: ProducerId) -> &str {
        self.producers.get(&id).map_or("", |entry| &entry.node)
    }

    /// Moves the clock of the state and of its window. A window has a time before its first key only after this.
    pub(super) fn advance_clock(&mut self, time_ms: i64) {
        self.clock_ms = self.clock_ms.max(time_ms);
        self.window.check_and_insert(0, self.clock_ms);
        self.window.commit();
    }

    /// Returns the position, for the check that the stream is still the same.
    pub fn chain_position(&self) -> ChainPosition {
        let Self { position, chain, previous_chain, .. } = *self;
        ChainPosition { position, chain, previous_chain, created_ms: self.era.created_ms }
    }

    /// Returns a copy, for a checkpoint.
    pub fn save(&self) -> SavedState {
        SavedState {
            position: self.position,
            seq: self.seq,
            chain: self.chain,
            previous_chain: self.previous_chain,
            era: self.era.clone(),
            clock_ms: self.clock_ms,
            producers: self.producers.clone(),
            nodes: self.nodes.clone(),
            window: self.window.entries().collect(),
        }
    }
}

/// A copy of a state, as a checkpoint has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    pub position: u64,
    pub seq: u64,
    pub chain: Chain,
    pub previous_chain: Chain,
    pub era: Era,
    pub clock_ms: i64,
    pub producers: BTreeMap<ProducerId, ProducerEntry>,
    pub nodes: Nodes,
    /// Keys and message times, oldest first.
    pub window: Vec<(u128, i64)>,
}

impl SavedState {
    /// Returns the position, for the check that the stream is still the same.
    pub fn chain_position(&self) -> ChainPosition {
        let Self { position, chain, previous_chain, .. } = *self;
        ChainPosition { position, chain, previous_chain, created_ms: self.era.created_ms }
    }

    /// Returns the state. `hash_seed` is the random seed of the window's hash table, which changes no result.
    pub fn restore(&self, hash_seed: u64) -> StreamState {
        let mut window = window_of(&self.era, hash_seed);
        for (key, seen_ms) in &self.window {
            window.check_and_insert(*key, *seen_ms);
            window.commit();
        }
        StreamState {
            position: self.position,
            seq: self.seq,
            chain: self.chain,
            previous_chain: self.previous_chain,
            era: self.era.clone(),
            clock_ms: self.clock_ms,
            producers: self.producers.clone(),
            nodes: self.nodes.clone(),
            window,
        }
    }

    /// Returns the state with which another era begins: that of its message, with the producers and the
    /// window of this one.
    pub fn founded(&self, era: Era, message: &StreamMessage<impl AsRef<[u8]>>) -> Self {
        let previous_chain = [0; 16];
        Self {
            position: message.position,
            seq: self.seq,
            chain: next_chain(&previous_chain, message),
            previous_chain,
            era,
            clock_ms: self.clock_ms,
            producers: self.producers.clone(),
            nodes: self.nodes.founded(message.position),
            window: self.window.clone(),
        }
    }
}

fn window_of(era: &Era, hash_seed: u64) -> DedupWindow {
    DedupWindow::new(usize::try_from(era.duplicates_max).unwrap_or(usize::MAX), hash_seed)
}

/// Returns the chain after a message. It covers the sender, because a kind has an effect from its sender only. It
/// covers the stream time: a message that is appended again after the stream lost its end has another one, so a node
/// needs to read one message only to find that it follows another stream.
pub fn next_chain(chain: &Chain, message: &StreamMessage<impl AsRef<[u8]>>) -> Chain {
    let (position, time) = (message.position.to_le_bytes(), message.stream_ms.to_le_bytes());
    let sender = message.sender.subject_end();
    array_at(&digest(&[chain, &position, &time, sender.as_bytes(), &[0], message.bytes.as_ref()]), 0)
}
