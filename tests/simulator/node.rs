//! A node: drives the rules in the order in which the server will, over a simulated disk and stream.

mod duties;
mod sending;
mod standing;

use parallax::testing::cluster::acknowledge::WaitingRequests;
use parallax::testing::cluster::audit::Marks;
use parallax::testing::cluster::erase::{NotedErasures, absence};
use parallax::testing::cluster::filter::{AcceptedRun, NoEffect, Step, step};
use parallax::testing::cluster::follow::{
    Comparison, Follower, OwnLog, ReturnHistory, is_same_stream, known_seq,
};
use parallax::testing::cluster::forward::Forwarder;
use parallax::testing::cluster::identity::Identity;
use parallax::testing::cluster::join::Readiness;
use parallax::testing::cluster::members::{Membership, Standing};
use parallax::testing::cluster::producer::{Producer, ProducerId};
use parallax::testing::cluster::state::{ChainPosition, StreamState, next_chain};

use parallax::testing::log::{DedupWindow, LogId};

use crate::base::Base;
use crate::disk::{Checkpoint, Disk};
use crate::event::{Action, Event};
use crate::mutant::Mutant;
use crate::stream::{InTransit, Message, Stream};
use crate::world::{Codec, Facts};
use duties::{accept_gap, is_changed};

/// Time for which an acknowledgement waits: 30 steps.
const RETURN_TIMEOUT_MS: i64 = 3_000;
/// Time after which a lost publication fails, as the client of the engine does.
const PUBLISH_TIMEOUT_MS: i64 = 2_000;
/// Time for which retention keeps a record after its return, and no message that is older is lost: 80 steps.
/// It stands for a day.
pub const RETAINED_MS: i64 = 8_000;

/// A node of the cluster. A copied machine is another node, with the same name or with another one.
pub struct Node {
    pub name: usize,
    pub disk: Disk,
    pub running: Option<Running>,
    pub is_connected: bool,
    /// Counts connections, so that an acknowledgement of an earlier one is ignored.
    pub connection: u32,
}

/// The memory of a running node.
pub struct Running {
    pub state: StreamState,
    pub base: Base,
    pub follower: Follower,
    forwarder: Forwarder,
    waiting: WaitingRequests<u32>,
    pub returned: ReturnHistory,
    marks: Marks,
    membership: Membership,
    pub standing: Standing,
    readiness: Readiness,
    /// The time of the newest own heartbeat that took effect, by the clock of the state.
    heard_ms: i64,
    /// When the next heartbeat is due.
    heartbeat_due_ms: i64,
    /// The end of the stream when the process started.
    end_at_start: u64,
    /// The mutant that stops at a message in an unknown format.
    is_stopped: bool,
    /// When each message under way fails if it is not acknowledged, with its connection.
    deadlines: Vec<i64>,
    /// The mutant A11: the last seq that the engine acknowledged.
    acknowledged: u64,
}

/// The parts of the world that a node reads and changes.
pub struct Around<'w> {
    pub stream: &'w mut Stream,
    pub facts: &'w mut Facts,
    pub codec: &'w mut Codec,
    /// The checkpoint with which the present era begins.
    pub founding: &'w Checkpoint,
    pub now_ms: i64,
    pub mutant: Mutant,
    pub profiles_max: usize,
    /// Random bits.
    pub random: u64,
    /// True if a node can crash during an erasure.
    pub may_interrupt: bool,
}

impl Around<'_> {
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == mutant
    }

    fn new_id(&mut self, node: usize) -> ProducerId {
        // An odd factor: no two numbers become the same.
        self.random = self.random.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        let bits = if self.is(Mutant::NamesProducerByNode) { node as u64 } else { self.random };
        ProducerId(u128::from(bits).to_le_bytes())
    }
}

impl Node {
    pub fn new(name: usize, disk: Disk) -> Self {
        Self { name, disk, running: None, is_connected: true, connection: 0 }
    }

    /// Starts the node from its newest checkpoint, or from the beginning of the era.
    pub fn boot(&mut self, world: &mut Around<'_>) {
        if self.disk.is_replaced {
            return;
        }
        self.disk.durable = self.disk.end();
        if world.is(Mutant::ForgetsErasures) {
            self.disk.erased = NotedErasures::default();
        }
        let stored = self.disk.producer();
        let is_saved = stored.is_some();
        let producer = stored.unwrap_or_else(|| Producer::first(self.disk.log_id));
        let membership = self.identify(world);
        if self.load(Follower::new(producer, is_saved), membership, world) {
            let running = self.running.as_mut().expect("it was started");
            self.disk.save_producer(&running.follower.producer);
            running.follower.is_saved = true;
        }
    }

    /// Loads the newest checkpoint, or the one with which the era begins. Returns whether the follower took a
    /// new producer ID.
    fn load(&mut self, mut follower: Follower, mut membership: Membership, world: &mut Around<'_>) -> bool {
        let newest = self.disk.checkpoints.last().unwrap_or(world.founding);
        let (state, base) = (newest.state.restore(0), newest.base.clone());
        let new_id = world.new_id(self.name);
        if world.is(Mutant::TrustsLoadedState) {
            follower.producer.returned_seq = follower.returned(&state).min(self.disk.last_seq());
        }
        let known = known_seq(&follower.producer, &state, &self.disk);
        let verified = match world.is(Mutant::SkipsBootComparison) {
            true => None,
            false => follower.on_loaded(&state, &self.disk, known, new_id),
        };
        world.facts.new_ids += u32::from(verified.is_some());
        let (returned, last_accepted) = (follower.returned(&state), follower.last_accepted(&state));
        trace!(
            "{}: starts at {}, returned {returned}, log {}..={}, verified {verified:?}, {:?}",
            self.name,
            state.position,
            self.disk.first_seq,
            self.disk.end(),
            follower.producer
        );
        membership.on_loaded();
        self.running = Some(Running {
            membership,
            standing: Standing::Applicant,
            readiness: Readiness::new(false, None),
            heard_ms: i64::MIN,
            heartbeat_due_ms: 0,
            end_at_start: world.stream.head().last,
            is_stopped: false,
            forwarder: Forwarder::new(returned),
            waiting: WaitingRequests::new(RETURN_TIMEOUT_MS),
            returned: ReturnHistory::new(RETAINED_MS),
            marks: Marks::default(),
            deadlines: Vec::new(),
            acknowledged: 0,
            state,
            base,
            follower,
        });
        if self.is_connected {
            self.connect(world);
        }
        self.erase_unread(last_accepted, world);
        verified.is_some()
    }

    /// Connects, or connects again.
    pub fn connect(&mut self, world: &mut Around<'_>) {
        self.is_connected = true;
        self.connection += 1;
        let Some(running) = &mut self.running else { return };
        let returned = running.follower.returned(&running.state);
        running.deadlines.drain(..).for_each(|_| running.forwarder.on_failed(returned));
        let was_caught_up = running.follower.is_caught_up;
        running.follower.on_connected(&world.stream.head());
        running.end_at_start = running.end_at_start.min(world.stream.head().last);
        running.follower.is_caught_up = was_caught_up && world.is(Mutant::StaysCaughtUp);
        running.follower.is_chain_checked = world.is(Mutant::SkipsChainCheck);
    }

    /// Replaces the disk by an empty one. Returns the events of the records that can be lost: those that had not returned
    /// for as long as the stream can lose its end.
    pub fn lose_disk(&mut self, log_id: LogId) -> Vec<u32> {
        let kept = self.running.take().map_or(0, |mut running| running.returned.deletable_seq());
        let lost = self.disk.log.iter().skip(kept as usize).map(|entry| entry.event).collect();
        self.disk = Disk::new(log_id);
        lost
    }

    pub fn disconnect(&mut self) {
        self.is_connected = false;
    }

    fn returned(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.follower.returned(&running.state))
    }

    /// Processes the next message of the stream, after the chain check if it is due. Returns whether there was one.
    pub fn follow(&mut self, world: &mut Around<'_>) -> bool {
        let Some(running) = self.running.as_mut().filter(|_| self.is_connected) else { return false };
        if !running.follower.is_chain_checked && !self.check_chain(world) {
            return true;
        }
        let running = self.running.as_mut().expect("it runs");
        let next = world.stream.at(running.state.position + 1).filter(|_| !running.is_stopped).cloned();
        let is_message = next.is_some();
        if let Some(message) = next {
            self.process(&message, world);
        }
        self.check_position(world);
        is_message
    }

    /// Checks that the stream is the one of the state. If not, loads the newest checkpoint that passes the same check.
    fn check_chain(&mut self, world: &mut Around<'_>) -> bool {
        let (head, omits_time) = (world.stream.head(), world.is(Mutant::ChainOmitsTime));
        let is_same = |at: ChainPosition| {
            let message = world.stream.at(at.position).cloned();
            let timeless = message.clone().map(|message| Message { stream_ms: 0, ..message });
            is_same_stream(&at, &head, message.as_ref())
                || (omits_time && is_same_stream(&at, &head, timeless.as_ref()))
        };
        let running = self.running.as_mut().expect("it runs");
        if is_same(running.state.chain_position()) {
            running.follower.is_chain_checked = true;
            return true;
        }
        trace!("{}: the stream is another one at {}", self.name, running.state.position);
        self.disk.checkpoints.retain(|checkpoint| is_same(checkpoint.state.chain_position()));
        world.facts.chain_mismatches += 1;
        self.reload(world);
        false
    }

    /// Loads another state. The producer ID remains, whether it is saved or not. Requests that wait keep waiting.
    fn reload(&mut self, world: &mut Around<'_>) {
        let before = self.running.take().expect("it runs");
        self.load(before.follower, before.membership, world);
        self.running.as_mut().expect("it was started").waiting = before.waiting;
    }

    fn process(&mut self, message: &Message, world: &mut Around<'_>) {
        let running = self.running.as_mut().expect("it runs");
        let (chain, previous_chain) = (running.state.chain, running.state.previous_chain);
        if world.is(Mutant::AcceptsGaps) {
            accept_gap(&mut running.state, message, world.codec);
        }
        if world.is(Mutant::HasNoWindow) {
            running.state.window = DedupWindow::new(1, 0);
        }
        let seen = running.as_seen_by(world, message);
        let stepped = step(&mut running.state, &mut world.codec.decoder, &seen);
        trace!("{}: reads {}: {stepped:?}", self.name, message.position);
        if world.is(Mutant::ChainOmitsTime) && running.state.position == message.position {
            let timeless = Message { stream_ms: 0, ..message.clone() };
            running.state.chain = next_chain(&chain, &timeless);
        }
        if world.is(Mutant::UsesLocalClock) {
            running.state.clock_ms += self.name as i64;
        }
        match stepped {
            Step::Accepted(run) => self.accept(run, world),
            Step::NoEffect(reason) => {
                if world.is(Mutant::SkipsChain) {
                    (running.state.chain, running.state.previous_chain) = (chain, previous_chain);
                }
                assert_ne!(reason, NoEffect::Malformed, "the simulation sends no malformed message");
                running.is_stopped |= world.is(Mutant::StopsAtUnknownFormat)
                    && matches!(reason, NoEffect::UnsupportedFormat(_));
                if message.sender == self.sender() {
                    self.leave_producer_of_other_node(world);
                    self.look_at_standing(world);
                }
            }
            Step::Heartbeat(_, heartbeat) => {
                let difference = running.marks.first_difference(&heartbeat.marks);
                world.facts.note_difference(difference);
                running.marks.push(message.position, running.state.chain, running.base.digest());
                if message.sender == self.sender() {
                    self.on_own_heartbeat(&heartbeat, world);
                }
            }
            Step::Forget(_) => self.look_at_standing(world),
            Step::StatusRequest => panic!("no operator asks"),
            Step::NewEra(era) => {
                let newest = world.founding.state.era.id;
                assert!(era.id.0 <= newest.0, "an era that no operator has begun");
                self.disk.checkpoints.clear();
                self.reload(world);
            }
            Step::WrongPosition => panic!("{stepped:?}"),
        }
    }

    fn accept(&mut self, mut run: AcceptedRun, world: &mut Around<'_>) {
        let node_name = self.node_name();
        let running = self.running.as_mut().expect("it runs");
        let profiles_max = match world.is(Mutant::EvictsByOwnBound) {
            true => world.profiles_max - self.name % 2,
            false => world.profiles_max,
        };
        let producer = &running.follower.producer;
        let producer_id = run.producer_id();
        let is_own = producer_id == producer.id;
        let (mut tombstones, mut returned_erased) = (Vec::new(), Vec::new());
        while let Some((record, mut is_effective)) = run.next_record(&mut running.state) {
            let event = Event::from_record(&record.record);
            is_effective &= !(is_own && world.is(Mutant::FoldsOwnOnArrival));
            is_effective |= event.is_some_and(|event| match event.action {
                Action::Tombstone => world.is(Mutant::HasNoTombstoneKeys),
                _ => event.has_generated_id && world.is(Mutant::HasNoGeneratedKeys),
            });
            trace!("{}: accepts seq {}, {is_effective}, {event:?}", self.name, record.seq);
            if is_effective {
                running.base.fold(&record.record, record.bytes, profiles_max);
            }
            let is_erased = |anon: &u8| running.base.is_erased(*anon);
            returned_erased.extend(self.disk.erased.on_accepted(&record, is_effective, is_erased));
            let (own, sender) = (&running.follower.producer, running.state.node_of(producer_id));
            let absence = absence(own, producer_id, sender, &record, &self.disk, &node_name);
            let is_of_earlier_disk = running.follower.producer.seqs_of(producer_id).is_none();
            let is_ignored = is_of_earlier_disk && world.is(Mutant::IgnoresEarlierDisk);
            let absence = absence.filter(|absence| is_effective && !is_ignored && !world.ignores(*absence));
            let content = event.filter(|event| event.action != Action::Tombstone);
            if let (Some(absence), Some(event)) = (absence, content) {
                let mut owners = self.disk.erased.candidates(&record, absence);
                returned_erased.extend(owners.find(|anon| event.anon == Some(**anon) && is_erased(anon)));
            }
            if let Some(event) = event.filter(|event| event.action == Action::Tombstone) {
                tombstones.push((event, record.seq, record.record.received_ms));
            }
        }
        let last_own = self.compare(&run, world);
        let clock_ms = self.running.as_ref().expect("it runs").state.clock_ms;
        self.disk.erased.forget_returned(last_own, clock_ms);
        for anon in returned_erased {
            self.erase_again(anon, world);
        }
        for (tombstone, seq, tombstone_ms) in tombstones {
            // Records after an own tombstone are not its records. That of a copied machine is not an own one,
            // although it has the own ID.
            let last = if seq <= last_own { seq - 1 } else { self.disk.end() };
            let interruption = world.interruption();
            let extent = (last, self.returned(), tombstone_ms);
            self.erase(&tombstone, extent, interruption, world);
            if interruption.is_some() {
                return self.crash();
            }
        }
    }

    /// Compares a run with the own log. Returns the last seq that is the own log's, or 0.
    fn compare(&mut self, run: &AcceptedRun, world: &mut Around<'_>) -> u64 {
        let new_id = world.new_id(self.name);
        let running = self.running.as_mut().expect("it runs");
        if world.is(Mutant::SendsVolatileRecords) {
            self.disk.durable = self.disk.durable.max(run.last().min(self.disk.end()));
        }
        let is_own = run.producer_id() == running.follower.producer.id;
        let compared = match world.mutant {
            Mutant::SkipsComparison if is_own => Comparison::Returned(run.last()),
            Mutant::ComparesErasedRecords if is_own && is_changed(run, &self.disk) => {
                running.follower.take_new_id(new_id, run.first - 1, running.state.clock_ms);
                Comparison::NewProducer(run.first - 1)
            }
            _ => running.follower.on_accepted(run, &running.state, &self.disk, new_id),
        };
        trace!("{}: compares: {compared:?}", self.name);
        match compared {
            Comparison::Foreign => 0,
            Comparison::Returned(last) => {
                running.forwarder.on_returned(last, world.now_ms);
                while let Some(event) = running.waiting.next_returned(last) {
                    world.facts.acknowledge_visible(event, &running.base);
                }
                last
            }
            Comparison::NewProducer(verified) => {
                world.facts.new_ids += 1;
                running.forwarder = Forwarder::new(verified);
                if is_own { verified } else { 0 }
            }
        }
    }

    fn check_position(&mut self, world: &mut Around<'_>) {
        let new_id = world.new_id(self.name);
        let Some(running) = &mut self.running else { return };
        let producer = &mut running.follower.producer;
        let hidden =
            world.is(Mutant::ForgetsPredecessors).then(|| std::mem::take(&mut producer.predecessors));
        let verified = running.follower.on_position(&running.state, &self.disk, new_id);
        if let Some(hidden) = hidden {
            running.follower.producer.predecessors.splice(0..0, hidden);
        }
        if let Some(verified) = verified {
            trace!("{}: at the end of the stream: sends again after {verified}", self.name);
            world.facts.new_ids += 1;
            running.forwarder = Forwarder::new(verified);
        }
        if running.follower.is_caught_up && running.standing == Standing::Applicant {
            self.leave_producer_of_other_node(world);
            self.look_at_standing(world);
        }
    }

    /// Returns whether the node has read the whole stream and all its records have returned.
    pub fn is_settled(&self, stream: &Stream) -> bool {
        self.running.as_ref().is_some_and(|running| {
            let follower = &running.follower;
            let has_read = running.state.position == stream.head().last && follower.is_caught_up;
            match running.standing {
                Standing::Member | Standing::NameInUse => {
                    has_read && follower.returned(&running.state) == self.disk.end()
                }
                Standing::Applicant | Standing::Replaced => false,
            }
        })
    }
}
