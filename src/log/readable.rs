//! A log as Insights and the jobs of the admin address read it: up to an end, all records before which are acknowledged.

use std::sync::{Arc, Mutex, PoisonError};

use super::Queue;
use crate::acknowledgement::Ack;

/// A log that can be read up to an end.
#[derive(Clone)]
pub struct ReadableLog {
    queue: Queue,
    end: EndSource,
}

#[derive(Clone)]
enum EndSource {
    /// The log of a server that is alone, with the condition under which it acknowledges a record.
    Alone(Ack),
    /// The log of a cluster.
    Shared(SharedEnd),
}

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    pub seq: u64,
    /// The place in the stream. `None` for a server that is alone.
    pub mark: Option<StreamMark>,
}

/// A place in the stream of a cluster. Nodes with the same seq and the same mark give the same answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamMark {
    /// The beginning of the hash over all messages up to this place.
    pub chain: u32,
    /// The position up to which the node has done all erasures.
    pub erased_to: u64,
}

impl StreamMark {
    /// Returns the members of an answer that is an object.
    pub fn members(self) -> [(&'static str, String); 2] {
        [("chain", format!("{:08x}", self.chain)), ("erasedTo", self.erased_to.to_string())]
    }
}

/// The end of the log of a cluster, which the log writer moves with each message.
#[derive(Debug, Clone, Default)]
pub struct SharedEnd(Arc<Mutex<(u64, StreamMark)>>);

impl SharedEnd {
    /// Moves the end.
    pub fn set(&self, seq: u64, mark: StreamMark) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (seq, mark);
    }

    fn get(&self) -> LogEnd {
        let (seq, mark) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        LogEnd { seq, mark: Some(mark) }
    }
}

impl ReadableLog {
    /// Creates the log of a server that is alone.
    pub fn alone(queue: Queue, ack: Ack) -> Self {
        Self { queue, end: EndSource::Alone(ack) }
    }

    /// Creates the log of a cluster.
    pub fn shared(queue: Queue, end: SharedEnd) -> Self {
        Self { queue, end: EndSource::Shared(end) }
    }

    /// Returns the queue of the log's writer.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the end as of now.
    pub fn end(&self) -> LogEnd {
        let metrics = self.queue.metrics();
        let seq = match &self.end {
            EndSource::Alone(Ack::Disk) => metrics.durable_seq(),
            EndSource::Alone(Ack::Written) => metrics.last_seq(),
            EndSource::Shared(end) => return end.get(),
        };
        LogEnd { seq, mark: None }
    }
}
