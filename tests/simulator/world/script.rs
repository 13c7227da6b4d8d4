//! The actions of a fixed history.

use parallax::testing::log::LogId;

use super::{STEP_MS, Summary, World};
use crate::event::Action;
use crate::node::Node;
use crate::stream::InTransit;

impl World<'_> {
    /// Makes all nodes members.
    pub fn join(&mut self) {
        for node in 0..self.nodes.len() {
            self.read(node);
            // The file `producer` is written first.
            (0..2).for_each(|_| assert!(self.publish(node, 1)));
        }
        (0..self.nodes.len()).for_each(|node| self.read(node));
    }

    /// Returns the last position of the stream.
    pub fn end(&self) -> u64 {
        self.stream.head().last
    }

    /// Records an event of an anonymous ID, and syncs it.
    pub fn record(&mut self, node: usize, action: Action, anon: u8) {
        self.now_ms += STEP_MS;
        let event = self.facts.add(action, Some(anon), None, self.now_ms, false);
        let bytes = self.codec.record(event, self.now_ms, u64::from(event.number));
        self.with_node(node, |node, around| {
            node.append(event, bytes, around);
            node.sync(around);
        });
    }

    /// Sends the next records, which do not arrive yet. A heartbeat that is due arrives before them.
    pub fn send(&mut self, node: usize, records_max: u64) -> Option<InTransit> {
        loop {
            let message = self.with_node(node, |node, around| node.forward(records_max, around))?;
            let message = InTransit { node, ..message };
            if message.last > 0 {
                return Some(message);
            }
            self.arrive(message);
        }
    }

    /// Appends a message to the stream.
    pub fn arrive(&mut self, message: InTransit) {
        self.stream.in_transit.push(message);
        self.deliver_at(self.stream.in_transit.len() - 1);
    }

    /// Sends the next message, or saves the file `producer` before the first one. Returns whether the node is
    /// connected.
    pub fn publish(&mut self, node: usize, records_max: u64) -> bool {
        self.now_ms += STEP_MS;
        let sent = self.send(node, records_max);
        sent.into_iter().for_each(|message| self.arrive(message));
        self.nodes[node].is_connected
    }

    /// Reads to the end of the stream.
    pub fn read(&mut self, node: usize) {
        while self.with_node(node, Node::follow) {}
    }

    /// Lets all waiting acknowledgements expire.
    pub fn wait(&mut self, node: usize) {
        self.now_ms += 100 * STEP_MS;
        self.with_node(node, |node, around| node.tick(around));
    }

    pub fn checkpoint(&mut self, node: usize) {
        self.make_checkpoint(node);
    }

    pub fn connect(&mut self, node: usize) {
        self.with_node(node, |node, around| node.connect(around));
    }

    pub fn disconnect(&mut self, node: usize) {
        self.nodes[node].disconnect();
    }

    /// Restores a disk from a backup whose log ends at `last`, and starts the node.
    pub fn restore(&mut self, node: usize, last: u64) {
        self.nodes[node].running = None;
        let lost = self.nodes[node].disk.cut(last);
        lost.into_iter().for_each(|event| self.facts.lose(event));
        self.facts.is_disturbed = true;
        self.with_node(node, |node, around| node.boot(around));
    }

    /// Kills the process and starts it again. All records are durable.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].running = None;
        self.with_node(node, |node, around| node.boot(around));
    }

    /// Replaces the disk of a node by an empty one, and starts it.
    pub fn replace(&mut self, node: usize) {
        let lost = self.nodes[node].lose_disk(LogId([99; 16]));
        lost.into_iter().for_each(|event| self.facts.lose(event));
        self.with_node(node, |node, around| node.boot(around));
    }

    /// Removes the member of a node.
    pub fn forget(&mut self, node: usize) {
        self.append_forget(&format!("n{}", self.nodes[node].name));
    }

    /// Copies a machine. Returns the copy.
    pub fn copy(&mut self, node: usize) -> usize {
        self.copy_machine(node);
        self.nodes.len() - 1
    }

    /// Loses the messages after a position.
    pub fn lose_after(&mut self, last: u64) {
        self.stream.truncate(last);
        self.facts.is_disturbed = true;
        self.reconnect_all();
    }

    /// Heals everything and checks the result.
    ///
    /// # Errors
    /// The broken promise.
    pub fn finish(mut self) -> Result<Summary, String> {
        self.heal()?;
        self.check()
    }
}
