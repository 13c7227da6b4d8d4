//! The nodes that a cluster knows, and the list of its erasures: the part of a state that heartbeats change.
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

use std::collections::BTreeMap;

use super::payloads::{Forget, Heartbeat};
use super::producer::ProducerId;

/// Age of the newest heartbeat up to which a node counts as reachable, in ms: two lost heartbeats. Beyond it
/// an erasure is refused.
pub const REACHABLE_MS: i64 = 30_000;
/// Silence after which a superseded producer ID is no known node any more, in ms. A shorter time would ignore a
/// copied machine whose heartbeats are late.
pub const SUPERSEDED_MS: i64 = 60_000;
/// Silence after which a superseded or forgotten producer ID leaves the state, in ms: 30 days. A node that
/// was away for longer stays alone ([`super::audit::is_forgotten`]).
pub const SILENCE_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Time for which a state keeps an erasure that all nodes have confirmed, in ms: 90 days. A backup has the
/// visitors that were erased after it, and a node that is restored from it carries out the erasures of the
/// list. An older backup must not be restored.
pub const ERASURE_KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1_000;
/// Confirmed erasures that a state keeps, about half a KiB each. At the limit the oldest leaves the list
/// before its time. A directory remembers a thousand more, so it does not repeat those that it has done.
pub const ERASURES_KEPT_MAX: usize = 9_000;

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
    pub(super) fn on_heartbeat(&mut self, id: ProducerId, heartbeat: &Heartbeat, order: u64, clock_ms: i64) {
        for predecessor in &heartbeat.predecessors {
            if let Some(entry) =
                self.entries.get_mut(&ProducerId(predecessor.0)).filter(|_| predecessor.0 != id.0)
            {
                entry.is_superseded = true;
            }
        }
        let entry = self.entries.entry(id).or_default();
        entry.name.clone_from(&heartbeat.node);
        entry.heard_ms = clock_ms;
        entry.erased_to = entry.erased_to.max(heartbeat.erased_to);
        entry.oldest = entry.oldest.max(heartbeat.oldest.min(order));
        entry.first_seq = entry.first_seq.max(heartbeat.first_seq);
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
