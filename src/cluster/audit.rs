//! The audit of a cluster: heartbeats, the comparison of digests, known nodes, and the list of erasures.
//!
//! # Heartbeats
//!
//! Each node sends a heartbeat every 10 s. It is a message of the stream, so its position is the same for all
//! nodes. When a node processes one, it keeps a *mark*: position, chain, and the digest of its table. Its
//! next heartbeats carry its newest marks. So nodes compare their tables at equal positions
//! ([`Marks::first_difference`]).
//!
//! # Known nodes
//!
//! A producer ID is a *known node* from its first run or heartbeat on. It is none any more after `forget`
//! names it, or while it is superseded: another producer ID names it as its predecessor, and it has been
//! silent for 60 s of the state's clock. So the copy of a machine does not confirm an erasure for the
//! original.
//!
//! # Erasures
//!
//! A tombstone stays in the list for 90 days, and until each known node has confirmed it with `erasedTo`, the
//! position up to which the node has done all erasures. Confirmations are heartbeats, so the list is equal on
//! all nodes.
//!
//! # Dropping ties
//!
//! `oldest` is the order of the oldest own record that a node still has. It never falls (rule T1). The floor
//! is the least `oldest` of the known nodes (T2). [`super::order::droppable`] is rule T3.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::era::{EraId, text};
use super::message::{Header, Kind};
use super::producer::{Producer, ProducerId};
use super::state::{Chain, StreamState};

/// Time between two heartbeats of a node, in ms. A difference of tables is noticed within two of them.
pub const HEARTBEAT_INTERVAL_MS: i64 = 10_000;
/// Age of the newest heartbeat up to which a node counts as reachable, in ms: two lost heartbeats. Beyond it
/// an erasure is refused.
pub const REACHABLE_MS: i64 = 30_000;
/// Silence after which a superseded producer ID is no known node any more, in ms. A shorter time would ignore a
/// copied machine whose heartbeats are late.
pub const SUPERSEDED_MS: i64 = 60_000;
/// Silence after which a superseded or forgotten producer ID leaves the state, in ms: 30 days. A node that
/// was away for longer stays alone ([`is_forgotten`]).
pub const SILENCE_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Time for which a state keeps an erasure that all nodes have confirmed, in ms: 90 days. A backup has the
/// visitors that were erased after it, and a node that is restored from it carries out the erasures of the
/// list. An older backup must not be restored.
pub const ERASURE_KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1_000;
/// Confirmed erasures that a state keeps, about half a KiB each. At the limit the oldest leaves the list
/// before its time. A directory remembers a thousand more, so it does not repeat those that it has done.
pub const ERASURES_KEPT_MAX: usize = 9_000;
/// Marks that a node keeps. With a heartbeat each second from ten nodes they reach back for a minute. An
/// older one is not compared.
pub const MARKS_KEPT: usize = 64;
/// Marks that a heartbeat carries. More would make heartbeats longer than a batch of events.
pub const MARKS_SENT: usize = 8;

/// 128 bits, as 32 hex digits in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex(pub [u8; 16]);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", u128::from_be_bytes(self.0)))
    }
}

impl<'d> Deserialize<'d> for Hex {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        let value = value.ok_or_else(|| serde::de::Error::custom("expected 32 hex digits"))?;
        Ok(Self(value.to_be_bytes()))
    }
}

/// The payload of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// The name of the node.
    pub node: String,
    /// The position of the sender's state.
    #[serde(with = "text")]
    pub position: u64,
    /// The newest marks of the sender, ascending.
    pub marks: Vec<Mark>,
    /// The producer IDs that the directory of the sender used before.
    pub predecessors: Vec<Hex>,
    /// The position up to which the sender has done all erasures.
    #[serde(with = "text")]
    pub erased_to: u64,
    /// The order below which the sender has no own record.
    #[serde(with = "text")]
    pub oldest: u64,
    /// The first seq of the log of the sender.
    #[serde(with = "text")]
    pub first_seq: u64,
}

impl Heartbeat {
    /// Returns the header and the payload of the message.
    ///
    /// # Panics
    /// Never: a heartbeat has no value that JSON cannot express.
    pub fn to_message(&self, era: EraId, producer: &Producer, sent_ms: i64) -> (Header, Vec<u8>) {
        let (producer_id, base_seq) = (producer.id, producer.base_seq);
        let header =
            Header { kind: Kind::Heartbeat, era, producer_id, base_seq, first: 0, sent_ms, count: 0 };
        (header, serde_json::to_vec(self).expect("numbers and texts are JSON"))
    }
}

/// The table of a node at the position of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mark {
    #[serde(with = "text")]
    pub position: u64,
    pub chain: Hex,
    pub digest: Hex,
}

/// The payload of a message that forgets nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forget {
    /// The producer IDs that will not return.
    pub producers: Vec<Hex>,
}

impl Forget {
    /// Returns the header and the payload of the message.
    ///
    /// # Panics
    /// Never: the IDs are texts.
    pub fn to_message(&self, era: EraId, sent_ms: i64) -> (Header, Vec<u8>) {
        let producer_id = ProducerId([0; 16]);
        let header =
            Header { kind: Kind::Forget, era, producer_id, base_seq: 0, first: 0, sent_ms, count: 0 };
        (header, serde_json::to_vec(self).expect("texts are JSON"))
    }
}

/// The facts of a state about one producer ID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeEntry {
    /// The name of the node. Empty before its first heartbeat.
    pub name: String,
    /// The state's clock at the newest heartbeat, or at the first run.
    pub heard_ms: i64,
    /// The position up to which the node has done all erasures.
    pub erased_to: u64,
    /// The order below which the node has no records.
    pub oldest: u64,
    /// The seq below which the log of the producer has no records.
    pub first_seq: u64,
    /// True after another producer ID has named this one as its predecessor.
    pub is_superseded: bool,
    /// True after a message has forgotten the producer ID.
    pub is_forgotten: bool,
}

/// A tombstone that a known node has not confirmed, or that a restored backup may need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// The random key of the tombstone.
    pub id: u128,
    /// The position of its message.
    pub position: u64,
    /// The order of the tombstone.
    pub order: u64,
    /// The state's clock at its message.
    pub erased_ms: i64,
    /// The ID of the site.
    pub site: String,
    /// The payload of the tombstone, with the digests of the erased IDs.
    pub payload: String,
}

/// The part of a state that heartbeats change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    pub entries: BTreeMap<ProducerId, NodeEntry>,
    /// Ascending by position.
    pub erasures: Vec<Erasure>,
}

impl Nodes {
    /// Returns whether a producer ID was forgotten. Its messages have no effect.
    pub fn is_forgotten(&self, id: ProducerId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.is_forgotten)
    }

    /// Returns the known nodes at a time of the state's clock.
    pub fn known(&self, clock_ms: i64) -> impl Iterator<Item = (&ProducerId, &NodeEntry)> {
        self.entries.iter().filter(move |(_, entry)| {
            let is_silent = clock_ms.saturating_sub(entry.heard_ms) >= SUPERSEDED_MS;
            !(entry.is_forgotten || (entry.is_superseded && is_silent))
        })
    }

    /// Returns the names of the known nodes that are not reachable: an erasure would wait for them.
    pub fn unreachable(&self, clock_ms: i64) -> Vec<&str> {
        let is_late = |entry: &NodeEntry| clock_ms.saturating_sub(entry.heard_ms) >= REACHABLE_MS;
        self.known(clock_ms)
            .filter(|(_, entry)| is_late(entry))
            .map(|(_, entry)| entry.name.as_str())
            .collect()
    }

    /// Returns the order below which no known node has a record (rule T2). 0 while a known node has sent no heartbeat.
    pub fn floor(&self, clock_ms: i64) -> u64 {
        self.known(clock_ms).map(|(_, entry)| entry.oldest).min().unwrap_or(0)
    }

    /// Returns the nodes at the message of another era. Positions and orders of the era before mean nothing
    /// in it, because its stream can be a new one.
    pub(super) fn founded(&self, position: u64) -> Self {
        let mut nodes = self.clone();
        nodes.entries.values_mut().for_each(|entry| (entry.erased_to, entry.oldest) = (0, 0));
        nodes.erasures.iter_mut().for_each(|erasure| erasure.position = position);
        nodes
    }

    /// Makes an entry for a producer ID, unless it has one.
    pub(super) fn on_run(&mut self, id: ProducerId, clock_ms: i64) {
        let new = || NodeEntry { heard_ms: clock_ms, ..NodeEntry::default() };
        self.entries.entry(id).or_insert_with(new);
    }

    /// Notes a heartbeat. `order` is the order of its message.
    pub(super) fn on_heartbeat(&mut self, id: ProducerId, beat: &Heartbeat, order: u64, clock_ms: i64) {
        for predecessor in &beat.predecessors {
            if let Some(entry) =
                self.entries.get_mut(&ProducerId(predecessor.0)).filter(|_| predecessor.0 != id.0)
            {
                entry.is_superseded = true;
            }
        }
        let entry = self.entries.entry(id).or_default();
        entry.name.clone_from(&beat.node);
        entry.heard_ms = clock_ms;
        entry.erased_to = entry.erased_to.max(beat.erased_to);
        entry.oldest = entry.oldest.max(beat.oldest.min(order));
        entry.first_seq = entry.first_seq.max(beat.first_seq);
        self.drop_confirmed(clock_ms);
    }

    /// Forgets nodes.
    pub(super) fn on_forget(&mut self, forget: &Forget, clock_ms: i64) {
        for id in &forget.producers {
            self.on_run(ProducerId(id.0), clock_ms);
            self.entries.entry(ProducerId(id.0)).or_default().is_forgotten = true;
        }
        self.drop_confirmed(clock_ms);
    }

    /// Adds the erasure of a tombstone that took effect.
    pub(super) fn on_tombstone(&mut self, erasure: Erasure) {
        self.erasures.push(erasure);
    }

    /// Returns the names of the known nodes that have not confirmed an erasure.
    pub fn unconfirmed(&self, erasure: &Erasure, clock_ms: i64) -> Vec<String> {
        let late = self.known(clock_ms).filter(|(_, entry)| entry.erased_to < erasure.position);
        late.map(|(_, entry)| entry.name.clone()).collect()
    }

    /// Drops the erasures that each known node has confirmed and that no backup needs any more. Called by
    /// heartbeats only, so that all nodes drop at the same position.
    fn drop_confirmed(&mut self, clock_ms: i64) {
        let confirmed = self.known(clock_ms).map(|(_, entry)| entry.erased_to).min().unwrap_or(0);
        let is_recent = |erasure: &Erasure| clock_ms.saturating_sub(erasure.erased_ms) < ERASURE_KEPT_MS;
        self.erasures.retain(|erasure| erasure.position > confirmed || is_recent(erasure));
        let kept = self.erasures.partition_point(|erasure| erasure.position <= confirmed);
        self.erasures.drain(..kept.saturating_sub(ERASURES_KEPT_MAX));
    }

    /// Returns the superseded or forgotten producer IDs that have been silent for 30 days, and removes them.
    pub(super) fn remove_silent(&mut self, clock_ms: i64) -> Vec<ProducerId> {
        let is_gone = |entry: &NodeEntry| {
            let is_silent = clock_ms.saturating_sub(entry.heard_ms) >= SILENCE_MS_MAX;
            is_silent && (entry.is_superseded || entry.is_forgotten)
        };
        self.entries.extract_if(.., |_, entry| is_gone(entry)).map(|(id, _)| id).collect()
    }
}

/// Returns whether the cluster has forgotten this directory: its producer ID or a predecessor was forgotten,
/// or it has been away for so long that its entry has left the state. It stays alone, because it may have
/// erased visitors.
pub fn is_forgotten(producer: &Producer, state: &StreamState) -> bool {
    let predecessors = producer.predecessors.iter().map(|one| one.id);
    let is_named = predecessors.chain([producer.id]).any(|id| state.nodes.is_forgotten(id));
    let is_missing =
        producer.returned_seq >= producer.base_seq && !state.producers.contains_key(&producer.id);
    is_named || (is_missing && state.clock_ms.saturating_sub(producer.returned_ms) > SILENCE_MS_MAX)
}

/// A position at which two nodes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The nodes have read other messages: the servers of the stream diverge, or the mark is from before the
    /// stream lost its end.
    Chain(u64),
    /// The nodes have folded the same messages into other tables.
    Digest(u64),
}

/// The newest marks of a node.
#[derive(Debug, Default)]
pub struct Marks(VecDeque<Mark>);

impl Marks {
    /// Keeps the mark of a heartbeat. Positions ascend. After another state was loaded, marks from its
    /// position on are replaced.
    pub fn push(&mut self, position: u64, chain: Chain, digest: u128) {
        while self.0.back().is_some_and(|mark| mark.position >= position) {
            self.0.pop_back();
        }
        if self.0.len() == MARKS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Mark { position, chain: Hex(chain), digest: Hex(digest.to_be_bytes()) });
    }

    /// Returns the newest marks, for the next heartbeat.
    pub fn newest(&self) -> Vec<Mark> {
        self.0.iter().skip(self.0.len().saturating_sub(MARKS_SENT)).copied().collect()
    }

    /// Returns the first difference from the marks of another node. `None` if all common positions are equal.
    pub fn first_difference(&self, others: &[Mark]) -> Option<Difference> {
        let compare = |other: &Mark| {
            let own = self.0.iter().find(|own| own.position == other.position)?;
            match (own.chain == other.chain, own.digest == other.digest) {
                (false, _) => Some(Difference::Chain(own.position)),
                (true, false) => Some(Difference::Digest(own.position)),
                (true, true) => None,
            }
        };
        others.iter().find_map(compare)
    }
}
