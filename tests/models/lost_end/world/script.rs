//! Actions of fixed histories.

use std::rc::Rc;

use super::{Mix, World, repeat};
use crate::audit;
use crate::dice::Dice;
use crate::facts::Fact;
use crate::node::Node;
use crate::record::{Key, Kind, Message, Record};
use crate::rules::{Rule, Rules};

/// Runs a fixed history.
///
/// # Errors
/// The first broken promise.
pub fn run_script(broken: Rule, window_max: usize, script: fn(&mut World<'_>)) -> Result<(), String> {
    let rules = Rules { broken, window_max, checkpoints_max: 3, rewrites_checkpoints: true };
    let mix = Mix::new(&mut Dice(1));
    let mut world = World::new(&rules, &mix);
    world.found();
    script(&mut world);
    if let Some(error) = world.facts.error.take() {
        return Err(error);
    }
    world.heal()?;
    audit::check_end(&world)
}

impl World<'_> {
    fn check(&mut self) {
        self.facts.step += 1;
        audit::check_step(self);
    }

    /// A node records an event or a tombstone and syncs its outbox. Returns the key.
    pub fn record(&mut self, node: usize, kind: Kind, visitor: u8) -> Key {
        self.facts.step += 1;
        let key = self.facts.facts.len() as Key;
        let record = Record { key, visitor, kind };
        self.facts.facts.push(Fact::new(record));
        self.record_again(node, key);
        key
    }

    /// A client sends an event again, to another node.
    pub fn record_again(&mut self, node: usize, key: Key) {
        let record = self.facts.facts[usize::from(key)].record;
        self.with_node(node, |node, around| node.receive(record, around) && node.sync_outbox(around));
        self.check();
    }

    /// Takes the messages that a node would send, each one once.
    pub fn take_messages(&mut self, node: usize) -> Vec<Rc<Message>> {
        let others = std::mem::take(&mut self.stream.in_transit);
        self.with_node(node, |node, around| repeat(|| node.send(around)));
        let sent = std::mem::replace(&mut self.stream.in_transit, others);
        let mut messages: Vec<Rc<Message>> = Vec::new();
        for message in sent {
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        messages
    }

    pub fn arrive(&mut self, message: Rc<Message>) {
        trace!("message {} is {message:?}", self.stream.len() + 1);
        self.stream.append(message, self.rules);
        self.check();
    }

    /// A node sends all that it has, and reads it back.
    pub fn publish(&mut self, node: usize) {
        for _ in 0..4 {
            self.read(node);
            for message in self.take_messages(node) {
                self.arrive(message);
            }
        }
        self.read(node);
    }

    pub fn read(&mut self, node: usize) {
        self.follow_all(node);
        self.check();
    }

    /// A node reads the stream, and deletes the outbox records that its log has on disk.
    pub fn tidy(&mut self, node: usize) {
        self.read(node);
        self.with_node(node, |node, around| {
            node.sync_log();
            repeat(|| node.delete_outbox(around));
            node.delete_lost(around);
        });
        self.check();
    }

    /// A node does one step of a cut, or reads one message.
    pub fn read_one(&mut self, node: usize) {
        self.with_node(node, Node::follow);
        self.check();
    }

    pub fn heartbeat(&mut self, node: usize) {
        self.with_node(node, |node, around| node.send_heartbeat(around));
        self.deliver_all();
        self.check();
    }

    /// All nodes do everything, until erasures are confirmed.
    pub fn settle_all(&mut self) {
        for _ in 0..4 {
            self.settle();
            self.check();
        }
    }

    pub fn end(&self) -> u32 {
        self.stream.len()
    }

    /// The stream loses all after a position.
    pub fn lose_after(&mut self, position: u32) {
        self.lose((self.stream.len() - position) as usize);
        self.check();
    }

    /// Crashes a node. Everything that is not synced is lost, except for `R.new`.
    pub fn crash(&mut self, node: usize) {
        let unfinished = self.nodes[node].disk.lost_new.clone();
        let keeps_nothing = |seed: &u64| {
            let mut dice = Dice(*seed);
            [3, 5, 7, 2].iter().all(|end| dice.below(*end) == 0)
        };
        let mut dice = Dice((0..).find(keeps_nothing).unwrap_or(0));
        self.nodes[node].crash(&mut dice);
        self.nodes[node].disk.lost_new = unfinished;
        self.check();
    }

    pub fn checkpoint(&mut self, node: usize) {
        self.with_node(node, |node, around| node.make_checkpoint(around));
        self.check();
    }

    /// A node carries out all erasures.
    pub fn erase_all(&mut self, node: usize) {
        self.with_node(node, |node, around| repeat(|| node.erase(around)));
        self.check();
    }

    pub fn start_node(&mut self, node: usize) {
        self.start(node);
        self.check();
    }

    pub fn destroy_disk(&mut self, node: usize) {
        self.destroy(node);
        self.check();
    }
}
