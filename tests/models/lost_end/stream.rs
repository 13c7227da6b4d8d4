//! The stream, which loses, doubles, delays and reorders messages, and loses its end.

use std::rc::Rc;

use crate::disk::content;
use crate::record::{Keys, Message};
use crate::rules::Rules;
use crate::state::State;

/// The stream and the messages on their way to it.
#[derive(Default)]
pub struct Stream {
    /// Each message with the chain after it.
    messages: Vec<(Rc<Message>, u64)>,
    /// The number of messages so far, lost ones included. It is the time of a message, so no chain appears twice.
    appended: u64,
    pub in_transit: Vec<Rc<Message>>,
    /// The messages of the last lost end.
    pub lost: Vec<Rc<Message>>,
    /// The state at the end, and the effective records of each message.
    state: State,
    effective: Vec<Keys>,
}

impl Stream {
    pub fn len(&self) -> u32 {
        self.messages.len() as u32
    }

    pub fn append(&mut self, message: Rc<Message>, rules: &Rules) {
        self.appended += 1;
        let chain = self.appended << 20 | u64::from(self.len() + 1);
        let batch = self.state.apply(&message, chain, rules);
        self.effective.push(batch.as_ref().map_or(0, content));
        self.messages.push((message, chain));
    }

    /// Returns the message after a position, and the chain after it.
    pub fn after(&self, position: u32) -> Option<(Rc<Message>, u64)> {
        self.messages.get(position as usize).cloned()
    }

    /// A16: true if the stream has the history with this position and chain. Equal chains have equal histories.
    pub fn continues(&self, position: u32, chain: u64) -> bool {
        match position.checked_sub(1) {
            None => true,
            Some(index) => self.messages.get(index as usize).is_some_and(|(_, other)| *other == chain),
        }
    }

    pub fn lose_end(&mut self, messages: usize, rules: &Rules) {
        let lost = self.messages.drain(self.messages.len() - messages..);
        self.lost = lost.map(|(message, _)| message).collect();
        self.effective.truncate(self.messages.len());
        self.state = State::default();
        for (message, chain) in &self.messages {
            self.state.apply(message, *chain, rules);
        }
    }

    /// Returns the keys of the effective records.
    pub fn keys(&self) -> Keys {
        self.effective.iter().fold(0, |keys, more| keys | more)
    }
}
