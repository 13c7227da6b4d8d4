//! The acknowledgement of events.

/// The point at which an event is acknowledged.
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// After the sync to disk: the event survives a power failure.
    Disk,
    /// After the write: the event survives a killed process, and is synced within 100 ms.
    Written,
}

/// The result of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordResult {
    /// The record was accepted with this seq.
    Accepted(u64),
    /// The record's key was already in the dedup window.
    Duplicate,
}
