//! The simulated stream: loses, delays, doubles and reorders messages, loses its end, disappears.

use std::rc::Rc;

use parallax::testing::cluster::follow::Head;
use parallax::testing::cluster::message::{Sender, StreamMessage};

pub type Message = StreamMessage<Rc<[u8]>>;

/// A published message on its way to the stream.
pub struct InTransit {
    pub bytes: Rc<[u8]>,
    pub sender: Sender,
    /// The sender, and the connection on which it waits for the acknowledgement.
    pub node: usize,
    pub connection: u32,
    /// The last seq of the message.
    pub last: u64,
}

/// The stream.
pub struct Stream {
    pub created_ms: i64,
    messages: Vec<Message>,
    /// When each message was appended, by the clock of the nodes.
    appended_ms: Vec<i64>,
    /// How far the clock of the stream is ahead of that of the nodes, in milliseconds.
    pub ahead_ms: i64,
    pub in_transit: Vec<InTransit>,
}

impl Stream {
    pub fn new(created_ms: i64) -> Self {
        Self {
            created_ms,
            messages: Vec::new(),
            appended_ms: Vec::new(),
            ahead_ms: 0,
            in_transit: Vec::new(),
        }
    }

    /// Appends a message and returns it.
    pub fn append(&mut self, sender: Sender, bytes: Rc<[u8]>, now_ms: i64) -> &Message {
        let position = self.messages.len() as u64 + 1;
        self.messages.push(Message { position, stream_ms: now_ms + self.ahead_ms, sender, bytes });
        self.appended_ms.push(now_ms);
        self.messages.last().expect("it was appended")
    }

    pub fn at(&self, position: u64) -> Option<&Message> {
        self.messages.get(usize::try_from(position).ok()?.checked_sub(1)?)
    }

    /// Returns when the message was appended, by the clock of the nodes.
    pub fn appended_ms(&self, position: u64) -> Option<i64> {
        self.appended_ms.get(usize::try_from(position).ok()?.checked_sub(1)?).copied()
    }

    pub fn head(&self) -> Head {
        Head { created_ms: self.created_ms, first: 1, last: self.messages.len() as u64 }
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Replaces the stream by an empty one. Messages in transit arrive there.
    pub fn replace(&mut self, created_ms: i64) {
        self.messages.clear();
        self.appended_ms.clear();
        self.created_ms = created_ms;
    }

    /// Loses the messages after a position.
    pub fn truncate(&mut self, last: u64) {
        self.messages.truncate(last as usize);
        self.appended_ms.truncate(last as usize);
    }
}
