//! The world: three nodes, clients and the stream. Each step of a history is one number, so that a history can be shortened.

pub mod script;

use std::rc::Rc;

use crate::audit;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::facts::{Counts, Fact, Facts};
use crate::node::{Around, Node};
use crate::record::{KEYS_MAX, Kind, Record, VISITORS};
use crate::rules::{Rule, Rules};
use crate::stream::Stream;

const NODES: usize = 3;
/// Steps after which a node that follows has failed to catch up. A history has fewer than 500 messages.
const FOLLOWED_MAX: usize = 5_000;
/// Actions of one kind that a node does in a row.
const WORK_MAX: usize = 30;
/// Rounds of healing after which a run has failed.
const ROUNDS_MAX: usize = 200;

/// The number of actions, and their usual weights.
const ACTIONS: usize = 18;
const WEIGHTS: [usize; ACTIONS] = [130, 100, 160, 140, 230, 50, 30, 40, 30, 25, 15, 28, 12, 2, 8, 6, 2, 1];

/// The frequencies of a history.
#[derive(Debug, Clone)]
pub struct Mix {
    weights: [usize; ACTIONS],
    /// One of so many appends is a DELETE.
    erased: usize,
    visitors: usize,
    /// How often each node acts. A node that acts seldom reads other prefixes of the stream than the others.
    nodes: [usize; NODES],
    /// In percent: how many messages in transit are lost, and how many arrive again later.
    /// The least number of messages that the stream keeps. The first three are the first heartbeats of all nodes.
    kept: usize,
    missing: usize,
    doubled: usize,
    /// The most messages that one fault of the stream loses.
    lost: usize,
}

impl Mix {
    fn new(dice: &mut Dice) -> Self {
        Self {
            weights: WEIGHTS.map(|weight| weight * [1, 2, 4, 8][dice.below(4)]),
            erased: *dice.pick(&[4, 9, 20]),
            visitors: 1 + dice.below(VISITORS),
            nodes: [0; NODES].map(|_| *dice.pick(&[1, 3, 9])),
            kept: *dice.pick(&[0, NODES]),
            missing: *dice.pick(&[0, 10, 30]),
            doubled: *dice.pick(&[0, 5, 30]),
            lost: *dice.pick(&[4, 12, 40]),
        }
    }

    /// Returns the next node and the number of its action.
    fn draw(&self, dice: &mut Dice) -> (usize, usize) {
        (draw_weighted(&self.nodes, dice), draw_weighted(&self.weights, dice))
    }
}

/// Returns an index, each one as often as its weight says.
fn draw_weighted(weights: &[usize], dice: &mut Dice) -> usize {
    let mut x = dice.below(weights.iter().sum());
    let is_drawn = |weight: &usize| {
        let is_below = x < *weight;
        x = x.saturating_sub(*weight);
        is_below
    };
    weights.iter().position(is_drawn).unwrap_or(0)
}

/// A seed, with its parameters and steps.
#[derive(Debug, Clone)]
pub struct History {
    pub rules: Rules,
    pub mix: Mix,
    pub steps: Vec<u64>,
}

impl History {
    pub fn new(seed: u64, broken: Rule) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let rules = Rules {
            broken,
            window_max: if seed % 3 == 1 { 3 } else { KEYS_MAX },
            checkpoints_max: 2 + (seed % 5) as usize,
            rewrites_checkpoints: seed.is_multiple_of(2),
        };
        let mix = Mix::new(&mut dice);
        let length = 60 + dice.below(240);
        Self { rules, mix, steps: (0..length).map(|_| dice.next_u64()).collect() }
    }

    /// Runs the history.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn run(&self) -> Result<Counts, String> {
        let mut world = World::new(&self.rules, &self.mix);
        world.found();
        for step in &self.steps {
            world.step(*step);
            if let Some(error) = world.facts.error.take() {
                return Err(error);
            }
        }
        world.heal()?;
        audit::check_end(&world)?;
        let mut counts = world.facts.counts;
        if audit::has_ended(&world) {
            counts.ended_rewritten += u64::from(self.rules.rewrites_checkpoints);
            counts.ended_deleted += u64::from(!self.rules.rewrites_checkpoints);
        }
        Ok(counts)
    }

    /// Returns the history without the steps that its failure does not need.
    pub fn shortened(&self) -> Self {
        let mut shortest = self.clone();
        let mut length = shortest.steps.len() / 2;
        while length > 0 {
            let mut start = 0;
            while start < shortest.steps.len() {
                let mut shorter = shortest.clone();
                shorter.steps.drain(start..(start + length).min(shortest.steps.len()));
                if shorter.run().is_err() {
                    shortest = shorter;
                } else {
                    start += length;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
        shortest
    }
}

/// Calls an action until it has nothing to do.
fn repeat(mut act: impl FnMut() -> bool) {
    for _ in 0..WORK_MAX {
        if !act() {
            return;
        }
    }
}

pub struct World<'r> {
    pub rules: &'r Rules,
    mix: &'r Mix,
    pub stream: Stream,
    pub nodes: Vec<Node>,
    pub facts: Facts,
    /// A copy of an earlier content of each directory.
    backups: [Option<Disk>; NODES],
    pub audited: audit::Audited,
    dice: Dice,
}

impl<'r> World<'r> {
    fn new(rules: &'r Rules, mix: &'r Mix) -> Self {
        let mut facts = Facts::default();
        let node = |name| Node { name, disk: Disk::new(facts.instance()), running: None };
        let nodes = (0..NODES).map(node).collect();
        Self {
            rules,
            mix,
            stream: Stream::default(),
            nodes,
            facts,
            backups: Default::default(),
            audited: audit::Audited::new(NODES),
            dice: Dice(0),
        }
    }

    fn with_node<T>(&mut self, node: usize, act: impl FnOnce(&mut Node, &mut Around<'_>) -> T) -> T {
        let (stream, facts, dice, rules) = (&mut self.stream, &mut self.facts, &mut self.dice, self.rules);
        let mut around = Around { stream, facts, dice, rules };
        act(&mut self.nodes[node], &mut around)
    }

    /// Starts all nodes and makes them members.
    fn found(&mut self) {
        for node in 0..NODES {
            self.with_node(node, Node::start);
            self.follow_all(node);
            self.with_node(node, |node, around| node.send_heartbeat(around));
            self.deliver_all();
        }
        for node in 0..NODES {
            self.follow_all(node);
        }
    }

    fn follow_all(&mut self, node: usize) {
        for _ in 0..FOLLOWED_MAX {
            if self.facts.error.is_some() || !self.with_node(node, Node::follow) {
                return self.note_joined(node);
            }
        }
        self.facts.fail(format!("node {node}: never catches up"));
    }

    /// Notes that the first heartbeat of a node has returned.
    fn note_joined(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let Some(running) = &node.running else { return };
        let member = running.state.members.get(&node.name);
        node.disk.has_joined |= member.is_some_and(|member| member.instance == node.disk.instance);
    }

    fn step(&mut self, step: u64) {
        self.facts.step += 1;
        self.dice = Dice(step);
        let (node, action) = self.mix.draw(&mut self.dice);
        // A cut is short, so a crash in it needs its own chance.
        let is_interrupted = self.nodes[node].is_cutting() && self.dice.below(6) == 0;
        let action = if is_interrupted { 11 } else { action };
        match action {
            0 => self.receive(node),
            1 => _ = self.with_node(node, |node, around| node.sync_outbox(around)),
            2 => _ = self.with_node(node, |node, around| node.send(around)),
            3 => self.deliver(),
            4 => self.follow(node),
            5 => _ = self.with_node(node, |node, _| node.sync_log()),
            6 => _ = self.with_node(node, |node, around| node.make_checkpoint(around)),
            7 => _ = self.with_node(node, |node, around| node.erase(around)),
            8 => _ = self.with_node(node, |node, around| node.send_heartbeat(around)),
            9 => _ = self.with_node(node, |node, around| node.delete_outbox(around)),
            10 => _ = self.with_node(node, |node, around| node.delete_lost(around)),
            11 => self.crash_or_start(node),
            12 => self.lose_end(),
            13 => self.destroy(node),
            16 => self.back_up(node),
            17 => self.restore(node),
            14 => self.settle(),
            _ => self.work(node),
        }
        self.note_joined(node);
        audit::check_step(self);
    }

    /// A client sends an event, an event again, or a DELETE.
    fn receive(&mut self, node: usize) {
        let count = self.facts.facts.len();
        let has_lost_answer = self.dice.below(4) == 0;
        let is_open = |fact: &&Fact| has_lost_answer || !fact.is_acknowledged;
        let open: Vec<Record> = self.facts.facts.iter().filter(is_open).map(|fact| fact.record).collect();
        if self.dice.below(4) == 0 && !open.is_empty() {
            let record = *self.dice.pick(&open);
            self.with_node(node, |node, around| node.receive(record, around));
            return;
        }
        if count == KEYS_MAX - 1 {
            return;
        }
        let kind = if self.dice.below(self.mix.erased) == 0 { Kind::Tombstone } else { Kind::Event };
        let record = Record { key: count as u8, visitor: self.dice.below(self.mix.visitors) as u8, kind };
        self.facts.facts.push(Fact::new(record));
        if !self.with_node(node, |node, around| node.receive(record, around)) {
            self.facts.facts.pop();
        }
    }

    /// One message in transit arrives, in any order. It can be lost, or stay in transit.
    fn deliver(&mut self) {
        let count = self.stream.in_transit.len();
        if count == 0 {
            return;
        }
        let index = self.dice.below(count);
        let message = Rc::clone(&self.stream.in_transit[index]);
        if self.dice.below(100) >= self.mix.doubled {
            self.stream.in_transit.remove(index);
        }
        if self.dice.below(100) >= self.mix.missing {
            trace!("message {} is {message:?}", self.stream.len() + 1);
            self.stream.append(message, self.rules);
        }
    }

    fn deliver_all(&mut self) {
        for message in std::mem::take(&mut self.stream.in_transit) {
            trace!("message {} is {message:?}", self.stream.len() + 1);
            self.stream.append(message, self.rules);
        }
    }

    fn follow(&mut self, node: usize) {
        for _ in 0..1 + self.dice.below(6) {
            self.with_node(node, Node::follow);
        }
    }

    /// A node does everything that it can do.
    fn work(&mut self, node: usize) {
        self.follow_all(node);
        let first = self.stream.in_transit.len();
        self.with_node(node, |node, around| {
            node.sync_outbox(around);
            node.sync_log();
            repeat(|| node.erase(around));
            repeat(|| node.delete_outbox(around));
            node.delete_lost(around);
            node.send_heartbeat(around);
            repeat(|| node.send(around));
        });
        // Each message once.
        for index in (first..self.stream.in_transit.len()).rev() {
            if self.stream.in_transit[..index].contains(&self.stream.in_transit[index]) {
                self.stream.in_transit.remove(index);
            }
        }
    }

    /// All running nodes do everything that they can do, and all messages arrive.
    fn settle(&mut self) {
        for node in 0..NODES {
            self.work(node);
            self.deliver_all();
        }
        (0..NODES).for_each(|node| self.follow_all(node));
    }

    fn crash_or_start(&mut self, node: usize) {
        if self.nodes[node].running.is_some() {
            trace!("{node}: crashes");
            let dice = &mut self.dice;
            self.nodes[node].crash(dice);
        } else {
            self.start(node);
        }
    }

    /// Starts a node. An empty directory first becomes a copy of a peer's.
    fn start(&mut self, node: usize) {
        if self.nodes[node].running.is_some() {
            return;
        }
        if self.nodes[node].disk.checkpoints.is_empty() {
            let peers = (0..NODES).filter(|peer| *peer != node);
            let copied: Vec<Disk> =
                peers.filter_map(|peer| self.with_node(peer, |peer, around| peer.copyable(around))).collect();
            if copied.is_empty() {
                return;
            }
            let instance = self.nodes[node].disk.instance;
            self.facts.counts.copies += 1;
            self.nodes[node].disk = Disk { instance, ..self.dice.pick(&copied).clone() };
        }
        trace!("{node}: starts with {:?}", self.nodes[node].disk.log.last());
        self.with_node(node, Node::start);
    }

    fn lose_end(&mut self) {
        let count = (self.stream.len() as usize).saturating_sub(self.mix.kept);
        let lost = self.dice.below(count.min(self.mix.lost)) + 1;
        if count == 0 {
            return;
        }
        self.lose(lost.min(count));
    }

    /// The stream loses its last messages.
    fn lose(&mut self, count: usize) {
        let before = self.stream.keys();
        self.stream.lose_end(count, self.rules);
        self.facts.counts.losses += 1;
        let gone = before & !self.stream.keys();
        trace!("the stream loses all after {}, with keys {gone:x}", self.stream.len());
        for fact in &mut self.facts.facts {
            fact.is_lost |= gone >> fact.record.key & 1 == 1;
        }
        audit::note_destroyed(self);
    }

    /// A disk is destroyed, and an empty one has the name of the node. At least one complete directory remains.
    fn destroy(&mut self, node: usize) {
        let has_other =
            (0..NODES).any(|other| other != node && !self.nodes[other].disk.checkpoints.is_empty());
        if !has_other {
            return;
        }
        trace!("{node}: its disk is destroyed");
        self.nodes[node].running = None;
        self.nodes[node].disk = Disk::empty(self.facts.instance());
        self.audited.forget(node);
        audit::note_destroyed(self);
    }

    /// Copies a directory, as a crash at this moment would leave it.
    fn back_up(&mut self, node: usize) {
        let mut disk = self.nodes[node].disk.clone();
        if disk.has_joined {
            disk.crash(&mut self.dice);
            self.backups[node] = Some(disk);
        }
    }

    /// A directory gets an earlier content. It is a new instance.
    fn restore(&mut self, node: usize) {
        let Some(backup) = self.backups[node].clone() else { return };
        trace!("{node}: restored from a backup, which ends with {:?}", backup.log.last());
        self.nodes[node].running = None;
        self.nodes[node].disk =
            Disk { instance: self.facts.instance(), has_joined: false, is_restored: true, ..backup };
        self.audited.forget(node);
        audit::note_destroyed(self);
    }

    /// Ends all faults, until nothing changes any more.
    fn heal(&mut self) -> Result<(), String> {
        self.facts.step += 1;
        for round in 0..ROUNDS_MAX {
            self.dice = Dice(round as u64);
            (0..NODES).for_each(|node| self.start(node));
            self.settle();
            audit::check_step(self);
            if let Some(error) = self.facts.error.take() {
                return Err(error);
            }
            if round > 4 && audit::is_quiet(self) {
                return Ok(());
            }
        }
        Err(format!("no progress: {}", audit::obstacles(self)))
    }
}
