//! The heartbeats of a node: it sends its own, keeps a mark of its table at each one that it reads, and
//! compares the marks of the others.

use std::sync::atomic::Ordering;

use super::{Node, Phase, monotonic_ms};
use crate::clock::Clock;
use crate::cluster::audit::{Difference, HEARTBEAT_INTERVAL_MS, Marks};
use crate::cluster::follow::OwnLog;
use crate::cluster::link::{Command, StreamEnd};
use crate::cluster::members::Standing;
use crate::cluster::payloads::{Heartbeat, Hex, MemberSummary};
use crate::cluster::skew::is_skewed;
use crate::visitors::live::ProfileTable;

/// The heartbeats of this process.
#[derive(Default)]
pub(super) struct Heartbeats {
    marks: Marks,
    /// When the next heartbeat is due, in ms of a monotonic clock.
    due_ms: i64,
    /// The last position at which a difference was reported. Marks repeat in some heartbeats.
    reported: u64,
    is_skewed: bool,
}

impl Node {
    /// Sends a heartbeat if one is due.
    pub(super) fn send_heartbeat_if_due(&mut self, clock: &dyn Clock) {
        let Some(state) = self.state.as_ref().filter(|_| self.phase == Phase::Following) else { return };
        let now_ms = monotonic_ms(clock);
        if !self.may_send_heartbeat() || now_ms < self.heartbeats.due_ms {
            return;
        }
        self.heartbeats.due_ms = now_ms + HEARTBEAT_INTERVAL_MS;
        let producer = &self.follower.producer;
        let identity = &self.membership.identity;
        let members = state.nodes.members.0.iter();
        let heartbeat = Heartbeat {
            node: identity.name.clone(),
            instance: Hex(identity.instance.0),
            session: Hex(identity.session.0),
            position: state.position,
            marks: self.heartbeats.marks.newest(),
            erased_to: self.erasures.erased_to(state.position),
            oldest: self.oldest_order(state),
            first_seq: self.log.first_seq(),
            unreturned: self.log.last_seq().saturating_sub(self.follower.returned(state)),
            members: members
                .map(|(name, member)| MemberSummary {
                    name: name.clone(),
                    instance: Hex(member.instance.0),
                    heard_ms: member.heard_ms,
                })
                .collect(),
        };
        let (header, payload) = heartbeat.to_message(state.era.id, producer, clock.now_ms());
        match self.encoder.encode(&header, &payload) {
            Ok(bytes) => self.link.send(self.connection, Command::AppendHeartbeat(bytes)),
            Err(error) => {
                tracing::error!(%error, "cannot compress a heartbeat; the next one follows in 10 s")
            }
        }
    }

    /// Returns when the next heartbeat is due, in ms of a monotonic clock. `None` while none may be sent.
    pub(super) fn heartbeat_due_ms(&self) -> Option<i64> {
        self.may_send_heartbeat().then_some(self.heartbeats.due_ms)
    }

    fn may_send_heartbeat(&self) -> bool {
        let is_following = self.phase == Phase::Following && self.standing != Standing::Replaced;
        is_following && self.follower.may_forward() && self.erasures.old_records.is_idle()
    }

    /// Sends the next heartbeat at once, for example because the node has reached the end of the stream.
    pub(super) fn hasten_heartbeat(&mut self) {
        self.heartbeats.due_ms = 0;
    }

    /// Handles a heartbeat that the state has noted.
    pub(super) fn on_heartbeat(&mut self, heartbeat: &Heartbeat, profiles: &ProfileTable, clock: &dyn Clock) {
        if let Some(difference) = self.heartbeats.marks.first_difference(&heartbeat.marks) {
            self.report_difference(&heartbeat.node, difference);
        }
        let Some(state) = &self.state else { return };
        self.heartbeats.marks.push(state.position, state.chain, profiles.digest());
        self.publish_nodes(clock.now_ms());
        self.publish_erasures(profiles);
        if heartbeat.node == self.membership.identity.name {
            self.look_at_standing(clock);
        }
    }

    fn report_difference(&mut self, node_name: &str, difference: Difference) {
        let (Difference::Chain(position) | Difference::Digest(position)) = difference;
        if position <= self.heartbeats.reported {
            return;
        }
        self.heartbeats.reported = position;
        match difference {
            Difference::Digest(_) => {
                self.metrics.digest_mismatches.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    node = node_name,
                    position,
                    "the profiles of this node differ from those of another node; compare all nodes with `parallax cluster status`, and \
                     start the one that differs with a copy of the data directory of another one"
                );
            }
            // A mark from before the stream lost its end has another chain too.
            Difference::Chain(_) => {
                tracing::warn!(
                    node = node_name,
                    position,
                    "another node has read other messages at this position"
                );
            }
        }
    }

    /// Notes the present end of the stream, and the difference of the clocks.
    pub(super) fn on_end(&mut self, end: StreamEnd) {
        self.end = end;
        let skew_ms = end.skew_ms;
        self.metrics.clock_skew_ms.store(skew_ms, Ordering::Relaxed);
        let was_skewed = std::mem::replace(&mut self.heartbeats.is_skewed, is_skewed(skew_ms));
        if self.heartbeats.is_skewed && !was_skewed {
            tracing::warn!(
                ahead_ms = skew_ms,
                "the clock of this machine differs from that of the NATS servers; check its time service"
            );
        }
    }

    /// Publishes the members. Called with each heartbeat, because the clock of the state moves with messages only.
    pub(super) fn publish_nodes(&self, now_ms: i64) {
        let Some(state) = &self.state else { return };
        let members = &state.nodes.members;
        let unreachable = members.unreachable(state.clock_ms);
        self.metrics.known_nodes.store(members.0.len() as u64, Ordering::Relaxed);
        self.metrics.set_unreachable(unreachable.into_iter().map(str::to_owned).collect(), now_ms);
    }
}
