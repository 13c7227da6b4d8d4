//! The members of a cluster: names with one live instance each. And the standing of a node among them.
//!
//! A heartbeat makes its sender the member of its name, by these rules:
//!
//! * **M1.** The heartbeat of another instance has no effect while the present one was heard within 30 s. Then it replaces
//!   it. So a replaced disk takes its name over, and two machines with one name do not alternate.
//! * **M2.** The heartbeat of another session of the same instance replaces the present one at once: the process was
//!   started again.
//! * **M3.** A heartbeat of another session or instance has no effect unless its sender has read the heartbeat with which
//!   the present session began. So a late heartbeat of a process that was replaced changes nothing.
//!
//! A removed member becomes one again with its next heartbeat: the removal bans nothing.
//!
//! Erasures wait for members, and ties are kept for their records. A log whose node is gone keeps nothing.

use std::collections::BTreeMap;

use super::filter::NoEffect;
use super::identity::{Identity, InstanceId, SessionId};
use super::payloads::Heartbeat;
use super::producer::ProducerId;

/// Age of the newest heartbeat up to which a member counts as reachable, in ms: two lost heartbeats. Beyond it
/// an erasure is refused, and another instance can take the name.
pub const REACHABLE_MS: i64 = 30_000;
/// Members of a cluster. At the limit the heartbeat of another name has no effect. With all of them, a
/// heartbeat has about 25 KB before compression.
pub const MEMBERS_MAX: usize = 256;

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub instance: InstanceId,
    pub session: SessionId,
    /// The position of the heartbeat with which the session began.
    pub since: u64,
    /// The state's clock at the newest heartbeat.
    pub heard_ms: i64,
    /// The ID under which the member sends.
    pub producer: ProducerId,
    /// The position up to which the member has done all erasures.
    pub erased_to: u64,
    /// The order below which the member has no records.
    pub oldest: u64,
}

/// The members of a cluster, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(pub BTreeMap<String, Member>);

impl Members {
    /// Notes a heartbeat. `position` and `order` are those of its message.
    ///
    /// # Errors
    /// The reason for which it has no effect.
    pub(super) fn on_heartbeat(
        &mut self,
        producer: ProducerId,
        heartbeat: &Heartbeat,
        position: u64,
        order: u64,
        clock_ms: i64,
    ) -> Result<(), NoEffect> {
        let instance = InstanceId(heartbeat.instance.0);
        let session = SessionId(heartbeat.session.0);
        let present = self.0.get(&heartbeat.node);
        if let Some(present) = present.filter(|present| present.session != session) {
            if heartbeat.position < present.since {
                return Err(NoEffect::EarlierSession);
            }
            if present.instance != instance && present.is_reachable(clock_ms) {
                return Err(NoEffect::NameInUse);
            }
        }
        if present.is_none() && self.0.len() >= MEMBERS_MAX {
            return Err(NoEffect::TooManyMembers);
        }
        let same = present.filter(|present| present.instance == instance);
        let oldest = heartbeat.oldest.min(order);
        let member = Member {
            instance,
            session,
            since: same.filter(|same| same.session == session).map_or(position, |same| same.since),
            heard_ms: clock_ms,
            producer,
            erased_to: same.map_or(0, |same| same.erased_to).max(heartbeat.erased_to),
            oldest: same.map_or(0, |same| same.oldest).max(oldest),
        };
        self.0.insert(heartbeat.node.clone(), member);
        Ok(())
    }

    /// Returns the names of the members that are not reachable: an erasure would wait for them.
    pub fn unreachable(&self, clock_ms: i64) -> Vec<&str> {
        let silent = self.0.iter().filter(|(_, member)| !member.is_reachable(clock_ms));
        silent.map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the members at the message of another era. Positions and orders of the era before mean nothing
    /// in it, because its stream can be a new one.
    pub(super) fn founded(&self, position: u64) -> Self {
        let mut members = self.clone();
        for member in members.0.values_mut() {
            *member = Member { since: position, erased_to: 0, oldest: 0, ..member.clone() };
        }
        members
    }
}

impl Member {
    /// Returns whether a heartbeat is recent at a time of the state's clock.
    pub fn is_reachable(&self, clock_ms: i64) -> bool {
        clock_ms.saturating_sub(self.heard_ms) < REACHABLE_MS
    }
}

/// The standing of a process among the members. Its records take effect with each standing, because they are under its own
/// producer ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The process is no member yet, or was removed.
    Applicant,
    /// Another instance has the name, and was heard within 30 s. The process acknowledges no event, and sends those that it
    /// has acknowledged before.
    NameInUse,
    /// The process is the member of its name.
    Member,
    /// Another process has become the member of the name after this one.
    Replaced,
}

/// The rule that decides about the standing of a process.
#[derive(Debug)]
pub struct Membership {
    pub identity: Identity,
    /// True after a state had this session.
    was_member: bool,
}

impl Membership {
    /// Creates the rule of a process that is no member yet.
    pub fn new(identity: Identity) -> Self {
        Self { identity, was_member: false }
    }

    /// Notes that another state was loaded. Its members can be earlier ones.
    pub fn on_loaded(&mut self) {
        self.was_member = false;
    }

    /// Returns the standing in a state.
    pub fn standing(&mut self, members: &Members, clock_ms: i64) -> Standing {
        let Identity { name, instance, session, .. } = &self.identity;
        match members.0.get(name) {
            Some(member) if member.session == *session => {
                self.was_member = true;
                Standing::Member
            }
            Some(_) if self.was_member => Standing::Replaced,
            Some(member) if member.instance != *instance && member.is_reachable(clock_ms) => {
                Standing::NameInUse
            }
            _ => Standing::Applicant,
        }
    }
}
