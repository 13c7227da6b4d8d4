//! The end of a run: everything heals, and the tables are checked.

use super::facts::Info;
use super::{HEALING_ROUNDS_MAX, STEP_MS, Summary, World};
use parallax::testing::cluster::members::Standing;

use crate::base::Base;
use crate::event::{ANON_IDS, Action};
use crate::node::Node;

impl World<'_> {
    /// Starts and connects all nodes, and lets them read and send until nothing is left.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.may_interrupt = false;
        for node in 0..self.nodes.len() {
            if self.nodes[node].running.is_none() {
                self.with_node(node, |node, around| node.boot(around));
            }
            if !self.nodes[node].is_connected {
                self.with_node(node, |node, around| node.connect(around));
            }
        }
        for _ in 0..HEALING_ROUNDS_MAX {
            self.now_ms += STEP_MS;
            let node = self.dice.below(self.nodes.len());
            self.with_node(node, |node, around| node.tick(around));
            self.sync(node);
            if let Some(mut message) = self.with_node(node, |node, around| node.forward(4, around)) {
                message.node = node;
                self.stream.in_transit.push(message);
            }
            while !self.stream.in_transit.is_empty() {
                self.deliver_at(0);
            }
            while self.with_node(node, Node::follow) {}
            let is_done = |node: &Node| match node.disk.is_replaced {
                true => true,
                false => node.is_settled(&self.stream) && self.has_member(node.name),
            };
            if self.nodes.iter().all(is_done) {
                return Ok(());
            }
        }
        Err("records have not returned, or a node has not read to the end".to_owned())
    }

    /// Returns whether a process is the member of a name.
    fn has_member(&self, name: usize) -> bool {
        let mut same = self.nodes.iter().filter(|node| node.name == name);
        same.any(|node| node.running.as_ref().is_some_and(|running| running.standing == Standing::Member))
    }

    pub(super) fn check(&self) -> Result<Summary, String> {
        for node in &self.nodes {
            let same = self.nodes.iter().filter(|other| other.name == node.name);
            let standings: Vec<_> = same.filter_map(|other| Some(other.running.as_ref()?.standing)).collect();
            if standings.is_empty() {
                return Err(format!("no process of the name n{} is left", node.name));
            }
            if standings.iter().filter(|standing| **standing == Standing::Member).count() != 1 {
                return Err(format!("the name n{} has not one member: {standings:?}", node.name));
            }
        }
        let tables: Vec<_> = self.nodes.iter().filter_map(|node| node.running.as_ref()).collect();
        let first = tables[0];
        for other in &tables[1..] {
            if other.state.save() != first.state.save() || other.base != first.base {
                return Err("two nodes differ at the same position".to_owned());
            }
            let cost_max = 9 * 250;
            if other.base.real_table(cost_max) != first.base.real_table(cost_max) {
                return Err("two real tables differ".to_owned());
            }
        }
        for info in &self.facts.events {
            let (number, times) = (info.event.number, first.base.times_applied(info.event.number));
            if info.is_acknowledged && !info.is_exempt && times == 0 {
                return Err(format!("the acknowledged event {number} is in no table: {:?}", info.event));
            }
            if times > 1 && !self.is_window_small {
                return Err(format!("the event {number} counts {times} times: {:?}", info.event));
            }
        }
        if self.facts.differences > 0 {
            return Err("heartbeats show two tables at one position".to_owned());
        }
        self.check_erasures(&first.base)?;
        if !self.facts.is_disturbed && (self.facts.new_ids > 0 || self.facts.chain_mismatches > 0) {
            return Err("a node took a new producer ID, or another checkpoint, without a reason".to_owned());
        }
        Ok(Summary {
            acknowledged: self.facts.events.iter().filter(|info| info.is_acknowledged).count(),
            messages: self.stream.messages().len(),
            new_ids: self.facts.new_ids,
            chain_mismatches: self.facts.chain_mismatches,
        })
    }

    /// Checks that a tombstone follows each event that was recorded before the erasure of its visitor.
    fn check_erasures(&self, base: &Base) -> Result<(), String> {
        let mut last_tombstone = [None; ANON_IDS];
        for (index, event) in base.effects.iter().enumerate() {
            if event.action == Action::Tombstone {
                last_tombstone[usize::from(event.anon.expect("an ID"))] = Some(index);
            }
        }
        for (index, event) in base.effects.iter().enumerate() {
            let Some(anon) = event.anon.filter(|_| event.action != Action::Tombstone) else { continue };
            let appended = self.facts.events[event.number as usize].appended;
            let is_erased = |info: &Info| {
                info.event.action == Action::Tombstone
                    && info.event.anon == Some(anon)
                    && info.is_acknowledged
                    && !info.is_exempt
                    && info.appended > appended
            };
            let is_back = last_tombstone[usize::from(anon)].is_none_or(|tombstone| tombstone < index);
            let is_lost = self.facts.lost_tombstones.contains(&anon);
            if is_back && !is_lost && self.facts.events.iter().any(is_erased) {
                return Err(format!("an erased visitor is back: {event:?}"));
            }
        }
        Ok(())
    }
}
