//! The world: nodes, clients and the stream, with a random action in each step, and the checks after
//! everything has healed.

mod attacks;
mod checks;
mod facts;
mod script;

use parallax::testing::cluster::era::{Era, EraId};
use parallax::testing::cluster::follow::{deletable_seq, is_same_stream};
use parallax::testing::cluster::message::{Decoder, Encoder, Sender};
use parallax::testing::log::LogId;

use crate::dice::Dice;
use crate::disk::{Checkpoint, Disk};
use crate::event::{ANON_IDS, Action, Event, USER_IDS};
use crate::fold_inputs::{FoldInputs, VALUES};
use crate::mutant::Mutant;
use crate::node::{Around, Node, RETAINED_MS};
use crate::stream::{InTransit, Message, Stream};
pub use facts::Facts;
use facts::Info;

/// The time of the first step, and the time of a step.
const START_MS: i64 = 1_767_607_200_000;
const STEP_MS: i64 = 100;
/// Steps of a run before everything heals, and the rounds of healing after which the run has failed. The clock of a state
/// can be 10 minutes ahead, and a name is free 30 s after that.
const STEPS: usize = 400;
const HEALING_ROUNDS_MAX: usize = 7_000;
const NODES: usize = 3;

/// The encoders of records and messages, made once per thread.
pub struct Codec {
    pub encoder: Encoder,
    pub decoder: Decoder,
    inputs: FoldInputs,
}

impl Codec {
    pub fn new() -> Self {
        Self {
            encoder: Encoder::new().expect("memory"),
            decoder: Decoder::new().expect("memory"),
            inputs: FoldInputs::new(),
        }
    }

    /// Encodes a record. `random` becomes the key of a tombstone.
    pub fn record(&self, event: Event, received_ms: i64, random: u64) -> Vec<u8> {
        self.record_with_key(event, received_ms, u128::from(random) << 1 | 1)
    }

    fn record_with_key(&self, event: Event, received_ms: i64, key: u128) -> Vec<u8> {
        event.to_record(&self.inputs, received_ms, key)
    }
}

/// A run of the simulator.
pub struct World<'c> {
    dice: Dice,
    mutant: Mutant,
    codec: &'c mut Codec,
    stream: Stream,
    nodes: Vec<Node>,
    facts: Facts,
    founding: Checkpoint,
    now_ms: i64,
    profiles_max: usize,
    is_window_small: bool,
    has_real: bool,
    eras: u32,
    has_copy: bool,
    /// True after a disk was replaced. A jump of the clock then shortens the time in which its messages are expected.
    has_lost_disk: bool,
    may_interrupt: bool,
}

/// The counts of a run that passed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Summary {
    pub acknowledged: usize,
    pub messages: usize,
    pub new_ids: u32,
    pub chain_mismatches: u32,
}

fn era(number: u32, created_ms: i64, is_window_small: bool) -> Era {
    Era {
        id: EraId(u128::from(number).to_be_bytes()),
        created_ms,
        checkpoint: None,
        cost_max: 4 << 20,
        fold_version: parallax::testing::cluster::era::FOLD_VERSION,
        duplicates_max: if is_window_small { 12 } else { 10_000 },
        base_position: 0,
        secret_check: EraId([7; 16]),
    }
}

impl<'c> World<'c> {
    pub fn new(seed: u64, mutant: Mutant, codec: &'c mut Codec) -> Self {
        let is_window_small = seed % 11 == 5;
        let has_real = seed.is_multiple_of(25);
        let mut stream = Stream::new(START_MS);
        let founding = found(&mut stream, 1, is_window_small, START_MS, codec, None, has_real);
        let mut world = Self {
            dice: Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            mutant,
            codec,
            stream,
            nodes: Vec::new(),
            facts: Facts::default(),
            founding,
            now_ms: START_MS,
            profiles_max: if seed % 7 == 3 { 5 } else { 9 },
            is_window_small,
            has_real,
            eras: 1,
            has_copy: false,
            has_lost_disk: false,
            may_interrupt: seed % 4 == 3,
        };
        for name in 0..NODES {
            let bits =
                if mutant == Mutant::NamesProducerByNode { name as u64 } else { world.dice.next_u64() };
            let disk = Disk::new(LogId(u128::from(bits).to_le_bytes()));
            world.nodes.push(Node::new(name, disk));
            world.with_node(name, |node, around| node.boot(around));
        }
        world
    }

    /// Calls `act` with a node and the world around it.
    fn with_node<T>(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Around<'_>) -> T) -> T {
        let mut around = Around {
            stream: &mut self.stream,
            facts: &mut self.facts,
            codec: self.codec,
            founding: &self.founding,
            now_ms: self.now_ms,
            mutant: self.mutant,
            profiles_max: self.profiles_max,
            random: self.dice.next_u64() | 1 << 63,
            may_interrupt: self.may_interrupt,
        };
        act(&mut self.nodes[node], &mut around)
    }

    /// Runs all steps, heals everything and checks the result.
    ///
    /// # Errors
    /// The broken promise.
    pub fn run(mut self) -> Result<Summary, String> {
        for _ in 0..STEPS {
            self.now_ms += STEP_MS;
            self.act();
            let node = self.dice.below(self.nodes.len());
            self.with_node(node, |node, around| node.answer(around));
            if self.facts.invisible > 0 {
                return Err("a receipt says visible, and the table has no such event".to_owned());
            }
            if self.facts.sent_early > 0 {
                return Err("a message was sent before the node had caught up".to_owned());
            }
            if self.facts.usurped > 0 {
                return Err("a machine took the name of another one that was heard".to_owned());
            }
            if self.facts.answered_early > 0 {
                return Err("a node answered a visitor from an old table".to_owned());
            }
            if self.facts.sent_under_volatile_id > 0 {
                return Err("a message was sent under a producer ID that is not durable".to_owned());
            }
        }
        self.heal()?;
        self.check()
    }

    fn act(&mut self) {
        type Act<'c> = fn(&mut World<'c>, usize) -> bool;
        let actions: [(u64, Act<'c>); 18] = [
            (3_000, Self::send_event),
            (3_600, Self::sync),
            (5_200, Self::forward),
            (6_600, Self::deliver),
            (9_000, Self::follow),
            (9_200, Self::make_checkpoint),
            (9_400, Self::toggle_connection),
            (9_600, Self::crash_or_start),
            (9_620, Self::lose_end),
            (9_630, Self::copy_machine),
            (9_655, Self::restore_backup),
            (9_665, Self::damage),
            (9_675, Self::begin_era),
            (9_800, Self::send_heartbeat),
            (9_805, Self::move_stream_clock),
            (9_815, Self::replace_disk),
            (9_835, Self::forget_member),
            (9_865, Self::forge),
        ];
        let (node, x) = (self.dice.below(self.nodes.len()), self.dice.next_u64() % 10_000);
        self.with_node(node, |node, around| node.tick(around));
        let due = actions.iter().skip_while(|(below, _)| x >= *below);
        for (_, act) in due {
            if act(self, node) {
                return;
            }
        }
    }

    fn send_event(&mut self, node: usize) -> bool {
        if !self.nodes[node].accepts_events(self.mutant) {
            return false;
        }
        let event = self.retried(node).unwrap_or_else(|| self.draw_event());
        self.facts.note_append(event);
        trace!("{node}: receives {event:?}");
        let (mutant, now_ms, key) = (self.mutant, self.now_ms, u128::from(self.dice.next_u64()) | 1);
        let key = if mutant == Mutant::HasNoTombstoneKeys { 0 } else { key };
        let bytes = self.codec.record_with_key(event, now_ms, key);
        self.with_node(node, |node, around| node.append(event, bytes, around));
        if self.dice.below(10) < 7 {
            self.sync(node);
        }
        true
    }

    /// Returns an event that no node has acknowledged and that this one does not have, in 30 % of the calls.
    fn retried(&mut self, node: usize) -> Option<Event> {
        if self.dice.below(10) >= 3 {
            return None;
        }
        let disk = &self.nodes[node].disk;
        let is_open = |info: &&Info| {
            let is_sent_again = info.event.action != Action::Tombstone && !info.event.has_generated_id;
            is_sent_again && !info.is_acknowledged && !disk.has_event(info.event.number)
        };
        let open: Vec<Event> = self.facts.events.iter().filter(is_open).map(|info| info.event).collect();
        (!open.is_empty()).then(|| *self.dice.pick(&open))
    }

    fn draw_event(&mut self) -> Event {
        let anon = Some(self.dice.below(ANON_IDS) as u8);
        let user = Some(self.dice.below(USER_IDS) as u8);
        let time_ms = self.now_ms - self.dice.below(16) as i64 * STEP_MS;
        if self.dice.below(50) == 0 {
            return self.facts.add(Action::Tombstone, anon, None, time_ms, false);
        }
        let value = 1 + self.dice.below(usize::from(VALUES)) as u8;
        let (action, anon, user) = match self.dice.below(8) {
            0..3 => (Action::Page, anon, None),
            3 => (Action::SetOnce(value), anon, None),
            4 => (Action::Set(value), anon, None),
            5 => (Action::Increment(value), anon, None),
            6 => (Action::Identify, anon, user),
            _ => (Action::Page, None, user),
        };
        let has_generated_id = self.dice.below(4) == 0;
        self.facts.add(action, anon, user, time_ms, has_generated_id)
    }

    fn sync(&mut self, node: usize) -> bool {
        let is_due =
            self.nodes[node].running.is_some() && self.nodes[node].disk.durable < self.nodes[node].disk.end();
        if is_due {
            self.with_node(node, |node, around| node.sync(around));
        }
        is_due
    }

    fn forward(&mut self, node: usize) -> bool {
        let records_max = 1 + self.dice.below(4) as u64;
        let Some(mut message) = self.with_node(node, |node, around| node.forward(records_max, around)) else {
            return false;
        };
        message.node = node;
        let x = self.dice.below(100);
        if x >= 15 {
            self.stream.in_transit.push(message);
        } else if x >= 8 {
            let (bytes, sender) = (message.bytes.clone(), message.sender.clone());
            let doubled = InTransit { bytes, sender, ..message };
            self.stream.in_transit.extend([message, doubled]);
        }
        true
    }

    fn send_heartbeat(&mut self, node: usize) -> bool {
        let Some(bytes) = self.with_node(node, |node, around| node.heartbeat(around)) else { return false };
        // No node waits for its acknowledgement.
        let sender = self.nodes[node].sender();
        self.stream.in_transit.push(InTransit { bytes, sender, node, connection: u32::MAX, last: 0 });
        true
    }

    fn deliver(&mut self, _: usize) -> bool {
        if self.stream.in_transit.is_empty() {
            return false;
        }
        let index = self.dice.below(self.stream.in_transit.len().min(3));
        self.deliver_at(index);
        true
    }

    fn deliver_at(&mut self, index: usize) {
        let message = self.stream.in_transit.remove(index);
        trace!("{}: delivered at {}, last {}", message.node, self.stream.head().last + 1, message.last);
        self.stream.append(message.sender.clone(), message.bytes.clone(), self.now_ms);
        if self.nodes[message.node].is_connected {
            self.with_node(message.node, |node, around| node.on_acknowledged(&message, around));
        }
    }

    fn follow(&mut self, node: usize) -> bool {
        self.with_node(node, Node::follow) || self.nodes[node].running.is_some()
    }

    fn make_checkpoint(&mut self, node: usize) -> bool {
        let is_early = self.mutant == Mutant::DeletesEarly;
        let node = &mut self.nodes[node];
        let Some(running) = &mut node.running else { return false };
        // The file has the returned seq of the checkpoint before the checkpoint gets its name.
        node.disk.save_producer(&running.follower.producer);
        running.follower.is_saved = true;
        node.disk.add_checkpoint(Checkpoint { state: running.state.save(), base: running.base.clone() });
        let kept = node.disk.checkpoints.iter().map(|checkpoint| &checkpoint.state);
        let deletable = deletable_seq(&running.follower.producer, kept);
        let deletable = deletable.min(running.returned.deletable_seq());
        trace!("{}: checkpoint at {}, deletes to {deletable}", node.name, running.state.position);
        node.disk.delete(if is_early { node.disk.durable } else { deletable });
        true
    }

    fn toggle_connection(&mut self, node: usize) -> bool {
        if self.nodes[node].running.is_none() {
            return false;
        }
        trace!("{node}: toggles connection from {}", self.nodes[node].is_connected);
        if self.nodes[node].is_connected {
            self.nodes[node].disconnect();
        } else {
            self.with_node(node, |node, around| node.connect(around));
        }
        true
    }

    fn crash_or_start(&mut self, node: usize) -> bool {
        if self.nodes[node].running.take().is_none() {
            self.with_node(node, |node, around| node.boot(around));
            return true;
        }
        let disk = &mut self.nodes[node].disk;
        let last = disk.durable + self.dice.below((disk.end() - disk.durable) as usize + 1) as u64;
        trace!("{node}: crashes, log ends at {last}");
        disk.cut(last);
        true
    }

    fn lose_end(&mut self, _: usize) -> bool {
        let (head, oldest) = (self.stream.head().last, self.now_ms - RETAINED_MS);
        let wanted = head.saturating_sub(1 + self.dice.below(4) as u64).max(self.founding.state.position);
        let is_young =
            |position: u64| self.stream.appended_ms(position).is_some_and(|lost_ms| lost_ms > oldest);
        let Some(last) = (wanted..head).find(|last| is_young(last + 1)) else { return false };
        trace!("the stream loses all after {last}");
        self.stream.truncate(last);
        self.facts.is_disturbed = true;
        self.reconnect_all();
        true
    }

    fn reconnect_all(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_connected {
                self.with_node(node, |node, around| node.connect(around));
            }
        }
    }

    fn copy_machine(&mut self, node: usize) -> bool {
        if std::mem::replace(&mut self.has_copy, true) {
            return false;
        }
        let mut disk = self.nodes[node].disk.clone();
        disk.cut(disk.durable);
        let name = if self.dice.below(2) == 0 { self.nodes[node].name } else { self.nodes.len() };
        trace!("{node}: copied as {} with the name n{name}", self.nodes.len());
        self.facts.is_disturbed = true;
        self.nodes.push(Node::new(name, disk));
        self.with_node(self.nodes.len() - 1, |node, around| node.boot(around));
        true
    }

    fn restore_backup(&mut self, node: usize) -> bool {
        let (lost, keeps_newest, is_producer_old) =
            (1 + self.dice.below(3) as u64, self.dice.below(3) == 0, self.dice.below(3) == 0);
        self.nodes[node].running = None;
        let disk = &mut self.nodes[node].disk;
        let last = disk.end().saturating_sub(lost).max(disk.first_seq - 1);
        let lost = disk.cut(last);
        if keeps_newest {
            let oldest = disk.checkpoints.len().saturating_sub(1);
            disk.checkpoints.drain(..oldest);
        } else {
            disk.checkpoints.truncate(1);
        }
        if is_producer_old {
            disk.restore_producer();
        }
        trace!("{node}: restored to {last}, loses {lost:?}, old producer: {is_producer_old}");
        lost.into_iter().for_each(|event| self.facts.lose(event));
        self.facts.is_disturbed = true;
        self.with_node(node, |node, around| node.boot(around));
        true
    }

    /// Damages a random durable record of the log. Returns false if there is none.
    fn damage(&mut self, node: usize) -> bool {
        let disk = &mut self.nodes[node].disk;
        let (first, end) = (disk.first_seq, disk.durable);
        if first > end {
            return false;
        }
        let seq = first + self.dice.below((end - first) as usize + 1) as u64;
        self.damage_record(node, seq);
        true
    }

    /// Damages a record of the log.
    pub fn damage_record(&mut self, node: usize, seq: u64) {
        let entry = &mut self.nodes[node].disk.log[seq as usize - 1];
        entry.bytes = None;
        let event = entry.event;
        trace!("{node}: seq {seq} is damaged, event {event}");
        self.facts.lose(event);
    }

    /// Begins another era with the table of the node that has read most: in a new stream, or in the present one.
    fn begin_era(&mut self, _: usize) -> bool {
        let running = self.nodes.iter().filter_map(|node| node.running.as_ref());
        let Some(best) = running.max_by_key(|running| running.state.position) else { return false };
        let checkpoint = Checkpoint { state: best.state.save(), base: best.base.clone() };
        // The operator takes a node that lags less than the logs reach back. One that has not noticed a lost
        // end of the stream can lack all messages since the beginning of the era.
        let (oldest, at) = (self.now_ms - RETAINED_MS, best.state.chain_position());
        let is_same = is_same_stream(&at, &self.stream.head(), self.stream.at(at.position));
        let last_known = if is_same { at.position } else { self.founding.state.position };
        let next_ms = self.stream.appended_ms(last_known + 1);
        let lags = next_ms.is_some_and(|next_ms| next_ms <= oldest);
        if lags || checkpoint.state.era.id != self.founding.state.era.id {
            return false;
        }
        self.eras += 1;
        if self.dice.below(2) == 0 {
            self.stream.replace(self.now_ms);
        }
        self.founding = found(
            &mut self.stream,
            self.eras,
            self.is_window_small,
            self.now_ms,
            self.codec,
            Some(checkpoint),
            self.has_real,
        );
        trace!("era {} at {}", self.eras, self.founding.state.position);
        self.facts.is_disturbed = true;
        self.reconnect_all();
        true
    }
}

/// Appends the message of an era, and returns the checkpoint with which it begins.
fn found(
    stream: &mut Stream,
    number: u32,
    is_window_small: bool,
    now_ms: i64,
    codec: &mut Codec,
    from: Option<Checkpoint>,
    has_real: bool,
) -> Checkpoint {
    let era = era(number, stream.created_ms, is_window_small);
    let (header, payload) = era.to_message(now_ms);
    let bytes = codec.encoder.encode(&header, &payload).expect("memory");
    let message: Message = stream.append(Sender::Control, bytes.into(), now_ms).clone();
    match from {
        None => Checkpoint::founding(era, &message, has_real),
        Some(Checkpoint { state, base }) => Checkpoint { state: state.founded(era, &message), base },
    }
}
