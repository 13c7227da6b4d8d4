//! The members and logs that a cluster knows, and the list of its erasures: the part of a state that heartbeats change.
//!
//! # Logs
//!
//! A producer ID has an entry from its first run or heartbeat on. It leaves after 30 days of silence, unless a member sends
//! under it. [`super::members`] has the rules of members.
//!
//! # Erasures
//!
//! A tombstone stays in the list for 90 days, and until each member has confirmed it with `erasedTo`, the
//! position up to which the member has done all erasures. Confirmations are heartbeats, so the list is equal on
//! all nodes.
//!
//! # Dropping ties
//!
//! `oldest` is the order of the oldest own record that a member still has. It never falls (rule T1). The floor
//! is the least `oldest` of the members (T2). [`super::order::droppable`] is rule T3.

use std::collections::BTreeMap;

use super::filter::NoEffect;
use super::members::Members;
use super::payloads::Heartbeat;
use super::producer::ProducerId;

/// Silence after which a producer ID leaves the state, in ms: 30 days. A node that was away for longer, and that is no
/// member any more, stays alone ([`super::audit::was_away_too_long`]).
pub const SILENCE_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000;
/// Time for which a state keeps an erasure that all nodes have confirmed, in ms: 90 days. A backup has the
/// visitors that were erased after it, and a node that is restored from it carries out the erasures of the
/// list. An older backup must not be restored.
pub const ERASURE_KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1_000;
/// Confirmed erasures that a state keeps, about half a KiB each. At the limit the oldest leaves the list
/// before its time. A directory remembers a thousand more, so it does not repeat those that it has done.
pub const ERASURES_KEPT_MAX: usize = 9_000;

/// The facts of a state about one producer ID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// The state's clock at the newest heartbeat, or at the first run.
    pub heard_ms: i64,
    /// The seq below which the log of the producer has no records.
    pub first_seq: u64,
}

/// A tombstone that a member has not confirmed, or that a restored backup may need.
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
    pub members: Members,
    pub logs: BTreeMap<ProducerId, LogEntry>,
    /// Ascending by position.
    pub erasures: Vec<Erasure>,
}

impl Nodes {
    /// Returns the order below which no member has a record (rule T2). 0 while there is no member.
    pub fn floor(&self) -> u64 {
        self.members.0.values().map(|member| member.oldest).min().unwrap_or(0)
    }

    /// Returns the nodes at the message of another era.
    pub(super) fn founded(&self, position: u64) -> Self {
        let mut erasures = self.erasures.clone();
        erasures.iter_mut().for_each(|erasure| erasure.position = position);
        Self { members: self.members.founded(position), logs: self.logs.clone(), erasures }
    }

    /// Makes an entry for a producer ID, unless it has one.
    pub(super) fn on_run(&mut self, id: ProducerId, clock_ms: i64) {
        self.logs.entry(id).or_insert(LogEntry { heard_ms: clock_ms, first_seq: 0 });
    }

    /// Notes a heartbeat. `position` and `order` are those of its message.
    ///
    /// # Errors
    /// The reason for which it has no effect.
    pub(super) fn on_heartbeat(
        &mut self,
        id: ProducerId,
        heartbeat: &Heartbeat,
        position: u64,
        order: u64,
        clock_ms: i64,
    ) -> Result<(), NoEffect> {
        self.members.on_heartbeat(id, heartbeat, position, order, clock_ms)?;
        let entry = self.logs.entry(id).or_default();
        entry.heard_ms = clock_ms;
        entry.first_seq = entry.first_seq.max(heartbeat.first_seq);
        self.drop_confirmed(clock_ms);
        Ok(())
    }

    /// Removes a member. Its log keeps its entry.
    pub(super) fn on_forget(&mut self, name: &str, clock_ms: i64) {
        self.members.0.remove(name);
        self.drop_confirmed(clock_ms);
    }

    /// Adds the erasure of a tombstone that took effect.
    pub(super) fn on_tombstone(&mut self, erasure: Erasure) {
        self.erasures.push(erasure);
    }

    /// Returns the names of the members that have not confirmed an erasure.
    pub fn unconfirmed(&self, erasure: &Erasure) -> Vec<String> {
        let late = self.members.0.iter().filter(|(_, member)| member.erased_to < erasure.position);
        late.map(|(name, _)| name.clone()).collect()
    }

    /// Drops the erasures that each member has confirmed and that no backup needs any more. Called by
    /// heartbeats and removals only, so that all nodes drop at the same position.
    fn drop_confirmed(&mut self, clock_ms: i64) {
        let confirmed = self.members.0.values().map(|member| member.erased_to).min().unwrap_or(0);
        let is_recent = |erasure: &Erasure| clock_ms.saturating_sub(erasure.erased_ms) < ERASURE_KEPT_MS;
        self.erasures.retain(|erasure| erasure.position > confirmed || is_recent(erasure));
        let kept = self.erasures.partition_point(|erasure| erasure.position <= confirmed);
        self.erasures.drain(..kept.saturating_sub(ERASURES_KEPT_MAX));
    }

    /// Returns the producer IDs that have been silent for 30 days and under which no member sends, and removes them.
    pub(super) fn remove_silent(&mut self, clock_ms: i64) -> Vec<ProducerId> {
        let used: Vec<ProducerId> = self.members.0.values().map(|member| member.producer).collect();
        let is_gone = |id: &ProducerId, entry: &LogEntry| {
            clock_ms.saturating_sub(entry.heard_ms) >= SILENCE_MS_MAX && !used.contains(id)
        };
        self.logs.extract_if(.., |id, entry| is_gone(id, entry)).map(|(id, _)| id).collect()
    }
}
