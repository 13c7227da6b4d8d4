//! The standing of a node among the members, and the mutants of these rules.

use parallax::testing::cluster::join::Progress;
use parallax::testing::cluster::members::Member;
use parallax::testing::cluster::message::{Kind, Sender};
use parallax::testing::cluster::payloads::Heartbeat;

use super::{
    Around, Follower, Forwarder, Identity, InTransit, Membership, Message, Mutant, Node, OwnLog, Running,
    Standing,
};

/// Time between two heartbeats of a member, and between two attempts to become one.
const HEARTBEAT_MS: i64 = 10_000;
const ATTEMPT_MS: i64 = 1_000;
/// Time for which a member counts as heard.
const REACHABLE_MS: i64 = parallax::testing::cluster::members::REACHABLE_MS;

impl Running {
    fn member(&mut self, name: &str) -> Option<&mut Member> {
        self.state.nodes.members.0.get_mut(name)
    }

    /// Returns a message as a mutant sees it, and changes the state as a mutant would have it.
    pub(super) fn as_seen_by(&mut self, world: &mut Around<'_>, message: &Message) -> Message {
        let mut seen = message.clone();
        let Ok(decoded) = world.codec.decoder.decode(&message.bytes) else { return seen };
        let name = message.sender.subject_end().trim_start_matches("log.").to_owned();
        match (world.mutant, decoded.header.kind) {
            (Mutant::TakesNameAtOnce, Kind::Heartbeat) => {
                self.member(&name).into_iter().for_each(|member| member.heard_ms = i64::MIN / 2);
            }
            (Mutant::AcceptsEarlierSession, Kind::Heartbeat) => {
                self.member(&name).into_iter().for_each(|member| member.since = 0);
            }
            (Mutant::TrustsEverySender, Kind::Era | Kind::Forget) => seen.sender = Sender::Control,
            (Mutant::AcceptsForeignProducers, Kind::Run) => {
                if let Some(entry) = self.state.producers.get_mut(&decoded.header.producer_id) {
                    entry.node.clear();
                }
            }
            _ => {}
        }
        seen
    }
}

impl Node {
    pub(super) fn node_name(&self) -> String {
        format!("n{}", self.name)
    }

    pub fn sender(&self) -> Sender {
        Sender::Node(self.node_name())
    }

    /// Returns the identity of a start, and writes the file `node`.
    pub(super) fn identify(&mut self, world: &mut Around<'_>) -> Membership {
        let random = [world.new_bits(), world.new_bits()];
        let identity = Identity::of_start(self.disk.node_file.as_deref(), &self.node_name(), random);
        self.disk.node_file = Some(identity.to_text());
        Membership::new(identity)
    }

    /// Returns whether the node acknowledges events.
    pub fn accepts_events(&self, mutant: Mutant) -> bool {
        self.running.as_ref().is_some_and(|running| match running.standing {
            _ if mutant == Mutant::AcknowledgesUnjoined => true,
            Standing::Member | Standing::Applicant => running.membership.identity.has_joined,
            Standing::NameInUse | Standing::Replaced => false,
        })
    }

    /// Returns a heartbeat, if one is due.
    pub(super) fn due_heartbeat(&mut self, world: &mut Around<'_>) -> Option<InTransit> {
        let running = self.running.as_ref()?;
        let is_banned = world.is(Mutant::BansRemovedMembers) && running.standing == Standing::NameInUse;
        let is_due =
            world.now_ms >= running.heartbeat_due_ms && running.standing != Standing::Replaced && !is_banned;
        let bytes = if is_due { self.heartbeat(world)? } else { return None };
        let running = self.running.as_mut()?;
        let is_member = running.standing == Standing::Member;
        running.heartbeat_due_ms = world.now_ms + if is_member { HEARTBEAT_MS } else { ATTEMPT_MS };
        // No node waits for its acknowledgement.
        Some(InTransit { bytes, sender: self.sender(), node: usize::MAX, connection: u32::MAX, last: 0 })
    }

    pub(super) fn on_own_heartbeat(&mut self, heartbeat: &Heartbeat, world: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        if heartbeat.session.0 == running.membership.identity.session.0 {
            running.heard_ms = running.state.clock_ms;
        }
        self.look_at_standing(world);
    }

    pub(super) fn look_at_standing(&mut self, world: &mut Around<'_>) {
        let name = self.node_name();
        let Some(running) = &mut self.running else { return };
        let (members, clock_ms) = (&running.state.nodes.members, running.state.clock_ms);
        let was_member = running.standing == Standing::Member;
        let standing = running.membership.standing(members, clock_ms);
        running.standing = match standing {
            Standing::NameInUse if !running.follower.is_caught_up => Standing::Applicant,
            Standing::Replaced if world.is(Mutant::IgnoresReplacement) => Standing::Member,
            Standing::Applicant if was_member && world.is(Mutant::BansRemovedMembers) => Standing::NameInUse,
            standing => standing,
        };
        if running.standing == Standing::Replaced && was_member {
            let other = &members.0[&name];
            let is_other_machine = other.instance != running.membership.identity.instance;
            let was_heard = clock_ms.saturating_sub(running.heard_ms) < REACHABLE_MS;
            world.facts.usurped += u32::from(is_other_machine && was_heard);
        }
        if running.standing == Standing::Applicant {
            running.heartbeat_due_ms = 0;
        }
        let identity = &mut running.membership.identity;
        if running.standing == Standing::Member && !identity.has_joined {
            identity.has_joined = true;
            self.disk.node_file = Some(identity.to_text());
        }
    }

    /// Ends a process that was replaced and whose records have returned.
    pub(super) fn end_if_replaced(&mut self, world: &mut Around<'_>) {
        let Some(running) = self.running.as_ref().filter(|_| self.is_connected) else { return };
        let has_returned = running.follower.returned(&running.state) >= self.disk.last_seq();
        if running.standing == Standing::Replaced && running.follower.is_caught_up && has_returned {
            trace!("{}: was replaced, and ends", self.name);
            world.facts.replaced += 1;
            (self.running, self.disk.is_replaced) = (None, true);
        }
    }

    pub(super) fn leave_producer_of_other_node(&mut self, world: &mut Around<'_>) {
        let (name, new_id) = (self.node_name(), world.new_id(self.name));
        let Some(running) = &mut self.running else { return };
        if world.is(Mutant::KeepsForeignProducer) {
            return;
        }
        let Running { follower, state, .. } = running;
        if let Some(verified) = Follower::on_other_node(follower, state, &self.disk, &name, new_id) {
            trace!("{}: another node sends under its producer ID, sends again after {verified}", self.name);
            world.facts.new_ids += 1;
            running.forwarder = Forwarder::new(verified);
        }
    }

    /// Answers a visitor, if the node is ready. Notes an answer from a table that lacks messages from before the start.
    pub fn answer(&mut self, world: &mut Around<'_>) {
        let is_connected = self.is_connected;
        let Some(running) = &mut self.running else { return };
        let progress = Progress {
            standing: running.standing,
            is_reachable: is_connected,
            is_following: is_connected,
            is_caught_up: running.follower.is_caught_up || world.is(Mutant::ReadyBeforeCaughtUp),
            lag_ms: 0,
        };
        let is_ready = running.readiness.look(progress, world.now_ms).is_none();
        let is_old = running.state.position < running.end_at_start.min(world.stream.head().last);
        world.facts.answered_early += u32::from(is_ready && is_old);
    }
}

impl Around<'_> {
    fn new_bits(&mut self) -> [u8; 16] {
        self.random = self.random.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        u128::from(self.random).to_le_bytes()
    }
}
