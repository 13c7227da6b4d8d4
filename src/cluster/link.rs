//! The two channels between the log writer, which owns the table, and the thread `cluster`, which talks to the stream.
//!
//! The writer never waits: it sends commands, and takes the events that have arrived. Each connection has a
//! number, so that an event of an earlier one is ignored.

use std::sync::Arc;
use std::sync::mpsc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc as commands};

use super::era::Era;
use super::follow::Head;
use super::message::StreamMessage;

/// Bytes of received messages that the writer has not processed. At the limit the thread reads no further.
pub(crate) const RECEIVED_BYTES_MAX: usize = 8 << 20;

/// The bytes of a received message.
pub(crate) type MessageBytes = bytes::Bytes;

/// The era of a stream, and the position of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishedEra {
    pub(crate) era: Era,
    pub(crate) position: u64,
}

/// The end of a stream at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamEnd {
    /// The last position.
    pub(crate) last: u64,
    /// The time of its message, in milliseconds since 1970.
    pub(crate) last_ms: i64,
    /// The own clock minus that of the servers, in ms.
    pub(crate) skew_ms: i64,
}

/// A command of the writer for the present connection.
#[derive(Debug)]
pub(crate) enum Command {
    /// Reads the message at a position. The answer is [`EventKind::At`].
    ReadAt(u64),
    /// Reads all messages from a position on.
    ReadFrom(u64),
    /// Appends a message. The answer is [`EventKind::Appended`] or [`EventKind::AppendFailed`].
    Append(Vec<u8>),
    /// Appends a heartbeat. A lost one is not sent again, and there is no answer.
    AppendHeartbeat(Vec<u8>),
}

/// An event of a connection.
pub(crate) struct Event {
    pub(crate) connection: u64,
    pub(crate) kind: EventKind,
}

pub(crate) enum EventKind {
    /// The present end of the stream: before [`Connected`](Self::Connected), then every 2 s.
    End(StreamEnd),
    /// The stream can be read. It has no era before the operator has founded the cluster.
    Connected(Head, Option<PublishedEra>),
    /// The message at a position. `None`: the stream does not have it.
    At(u64, Option<StreamMessage<MessageBytes>>),
    /// The next message. The permit keeps its share of [`RECEIVED_BYTES_MAX`].
    Message(StreamMessage<MessageBytes>, OwnedSemaphorePermit),
    Appended,
    AppendFailed,
    /// The connection is lost, or the servers do not fit.
    Disconnected(String),
}

/// The writer's end.
pub(crate) struct WriterLink {
    commands: commands::UnboundedSender<(u64, Command)>,
    events: mpsc::Receiver<Event>,
}

impl WriterLink {
    /// Sends a command. If the thread has ended, the process is ending.
    pub(crate) fn send(&self, connection_number: u64, command: Command) {
        let _ = self.commands.send((connection_number, command));
    }

    /// Returns the next event that has arrived.
    pub(crate) fn next_event(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }
}

/// The thread's end.
pub(crate) struct ThreadLink {
    pub(crate) commands: commands::UnboundedReceiver<(u64, Command)>,
    events: mpsc::Sender<Event>,
    pub(crate) room: Arc<Semaphore>,
    wake_writer: Box<dyn Fn() + Send>,
}

impl ThreadLink {
    /// Sends an event and wakes the writer.
    pub(crate) fn send(&self, connection_number: u64, kind: EventKind) {
        let _ = self.events.send(Event { connection: connection_number, kind });
        (self.wake_writer)();
    }
}

/// The thread's end before the writer exists.
pub(crate) struct UnboundThreadLink {
    commands: commands::UnboundedReceiver<(u64, Command)>,
    events: mpsc::Sender<Event>,
}

impl UnboundThreadLink {
    /// Completes the end. `wake_writer` makes the writer run a step.
    pub(crate) fn bind(self, wake_writer: Box<dyn Fn() + Send>) -> ThreadLink {
        let Self { commands, events } = self;
        ThreadLink { commands, events, room: Arc::new(Semaphore::new(RECEIVED_BYTES_MAX)), wake_writer }
    }
}

/// Creates both ends.
pub(crate) fn link() -> (WriterLink, UnboundThreadLink) {
    let (command_sender, command_receiver) = commands::unbounded_channel();
    let (event_sender, event_receiver) = mpsc::channel();
    (
        WriterLink { commands: command_sender, events: event_receiver },
        UnboundThreadLink { commands: command_receiver, events: event_sender },
    )
}
