//! The standing of a node among the members: it joins, gives way to another process of its name, and reports messages
//! that their senders may not send.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::{Node, Phase, monotonic_ms};
use crate::clock::Clock;
use crate::cluster::audit::was_away_too_long;
use crate::cluster::filter::NoEffect;
use crate::cluster::follow::OwnLog;
use crate::cluster::link::MessageBytes;
use crate::cluster::members::{MEMBERS_MAX, Standing};
use crate::cluster::message::StreamMessage;
use crate::cluster::replaced::{ReplacedFile, stop_process};
use crate::cluster::state::StreamState;
use crate::node_gate::EventRefusal;
use crate::visitors::live::ProfileTable;
use crate::visitors::ties::known::OrderRules;

/// Time between two log lines about the messages of one sender, in ms. So a sender cannot fill the log.
const REPORT_INTERVAL_MS: i64 = 60_000;

/// The times of the last reports about messages without a right to be sent.
#[derive(Default)]
pub(super) struct ForbiddenMessages(BTreeMap<String, i64>);

impl ForbiddenMessages {
    /// Returns whether a message of a sender is reported now.
    fn is_due(&mut self, sender: &str, now_ms: i64) -> bool {
        let reported_ms = self.0.get(sender);
        if reported_ms.is_some_and(|reported_ms| now_ms - reported_ms < REPORT_INTERVAL_MS) {
            return false;
        }
        if self.0.len() >= MEMBERS_MAX {
            self.0.clear();
        }
        self.0.insert(sender.to_owned(), now_ms);
        true
    }
}

impl Node {
    /// Decides again about the standing, and logs a change.
    pub(super) fn look_at_standing(&mut self, clock: &dyn Clock) {
        let Some(state) = &self.state else { return };
        let before = self.standing;
        // The members of an earlier position say nothing about the present ones.
        self.standing = match self.membership.standing(&state.nodes.members, state.clock_ms) {
            Standing::NameInUse if !self.follower.is_caught_up => Standing::Applicant,
            standing => standing,
        };
        let name = self.membership.identity.name.as_str();
        match self.standing {
            standing if standing == before => {}
            Standing::Applicant => {}
            Standing::Member => tracing::info!(node = name, "this node is a member of the cluster"),
            Standing::NameInUse => tracing::warn!(
                node = name,
                "another machine or an earlier disk has the name of this node, and sent a heartbeat within 30 s; this node takes the name \
                 over after 30 s of silence. If both machines run, give one of them another --node"
            ),
            Standing::Replaced => tracing::error!(
                node = name,
                "another process has taken the name of this node over; sending the events that the stream lacks, then stopping"
            ),
        }
        if self.standing == Standing::Member && !self.membership.identity.has_joined {
            self.save_joined();
        }
        self.publish_refusal();
        self.publish_readiness(clock);
    }

    /// Notes durably that this directory belongs to a member. After that it may acknowledge events without the stream.
    fn save_joined(&mut self) {
        self.membership.identity.has_joined = true;
        if let Err(error) = self.membership.identity.save(&self.directory) {
            self.membership.identity.has_joined = false;
            tracing::error!(%error, "cannot write the file `node`; no event is acknowledged until it is written");
        }
    }

    /// Publishes whether the node acknowledges events.
    pub(super) fn publish_refusal(&self) {
        self.metrics.set_event_refusal(match self.standing {
            Standing::NameInUse | Standing::Replaced => Some(EventRefusal::NameInUse),
            _ if !self.membership.identity.has_joined => Some(EventRefusal::NotJoined),
            Standing::Member | Standing::Applicant => None,
        });
    }

    /// Handles the removal of a member. If it is this node, it becomes a member again with its next heartbeat.
    pub(super) fn on_forget(&mut self, name: &str, profiles: &ProfileTable, clock: &dyn Clock) {
        tracing::info!(node = name, "the operator has removed a member");
        self.publish_nodes(clock.now_ms());
        self.publish_erasures(profiles);
        if name == self.membership.identity.name {
            self.look_at_standing(clock);
            self.hasten_heartbeat();
        }
    }

    /// Ends the process after another one has taken its name over, as soon as the stream has all records of this one.
    pub(super) fn end_if_replaced(&mut self) {
        let is_delivered = self.is_caught_up() && self.returned() >= self.log.last_seq();
        let is_over = self.standing == Standing::Replaced && is_delivered;
        if !is_over || self.metrics.is_replaced.swap(true, Ordering::Relaxed) {
            return;
        }
        let file = ReplacedFile { position: self.position(), name: self.membership.identity.name.clone() };
        if let Err(error) = file.write(&self.directory) {
            tracing::error!(%error, "cannot write the file `replaced`; the next start takes the name over");
        }
        stop_process();
    }

    /// Takes a new producer ID if another node sends under the present one.
    pub(super) fn leave_producer_of_other_node(&mut self) {
        let Some(state) = &self.state else { return };
        let name = &self.membership.identity.name;
        let verified = self.follower.on_other_node(state, &self.log, name, Self::random_id());
        if let Some(verified) = verified {
            self.positions.delete_after(verified);
            self.on_new_producer(verified);
        }
    }

    /// Notes whether the loaded state has lost this directory as a member. Ties of its old records can be dropped then.
    pub(super) fn note_removal(&mut self) {
        let Some(state) = &self.state else { return };
        let identity = &self.membership.identity;
        let member = state.nodes.members.0.get(&identity.name);
        let is_known = state.nodes.logs.contains_key(&self.follower.producer.id);
        self.was_removed = is_known && member.is_none_or(|member| member.instance != identity.instance);
    }

    /// Returns the rules for the ties of the table. A node that is no member keeps the ties of its own records.
    pub(super) fn order_rules(&self, state: &StreamState) -> OrderRules {
        let own = self.oldest_order(state);
        OrderRules { base_position: state.era.base_position, floor: state.nodes.floor().min(own) }
    }

    /// Returns the order below which this node has no record, in its own log and in that of the cluster.
    pub(super) fn oldest_order(&self, state: &StreamState) -> u64 {
        let own = self.positions.orders().oldest(self.log.first_seq(), state.last_order());
        own.min(self.shared.oldest(state.last_order()))
    }

    /// Stops the node if it was away for so long that the state does not know its log any more.
    pub(super) fn stop_if_away_too_long(&mut self, clock: &dyn Clock) {
        let is_gone =
            self.state.as_ref().is_some_and(|state| was_away_too_long(&self.follower.producer, state));
        if is_gone && self.phase == Phase::Following {
            self.stop(
                "this node was away for more than 30 days, and visitors may have been erased meanwhile; start it with an empty data directory",
                clock,
            );
        }
    }

    /// Reports a message that its sender may not send, once a minute for each sender.
    pub(super) fn report_forbidden(
        &mut self,
        reason: NoEffect,
        message: &StreamMessage<MessageBytes>,
        clock: &dyn Clock,
    ) {
        let sender = message.sender.subject_end();
        if !self.forbidden.is_due(&sender, monotonic_ms(clock)) {
            return;
        }
        let position = message.position;
        let count = self.metrics.forbidden_messages.load(Ordering::Relaxed) + 1;
        match reason {
            NoEffect::Forbidden(kind) => {
                tracing::warn!(
                    sender,
                    position,
                    ?kind,
                    count,
                    "ignored a message of a kind that its sender may not send"
                );
            }
            NoEffect::UnsupportedFormat(format) => {
                tracing::warn!(
                    sender,
                    position,
                    format,
                    count,
                    "ignored a message in a format that the era does not have"
                );
            }
            _ => tracing::warn!(sender, position, count, "ignored a message in the name of another node"),
        }
    }
}
