//! The parts of the log that a log in memory consists of, in place of the log on disk.

#[path = "../log/dedup.rs"]
mod dedup;
#[path = "../log/durable_batch.rs"]
mod durable_batch;
#[path = "../log/generation.rs"]
mod generation;
#[path = "../log/memory_log.rs"]
mod memory_log;
#[path = "../log/metrics.rs"]
mod metrics;
#[path = "../log/queue.rs"]
pub mod queue;
#[path = "../log/records.rs"]
mod records;
#[path = "../log/request_batch.rs"]
mod request_batch;

pub(crate) use memory_log::MemoryLog;
pub use queue::{Completion, LogClient, Queue, Request, SendError};
pub use records::Records;

mod erase {
    /// The command of an erasure. There is none, because a log in memory keeps no record.
    #[derive(Debug)]
    pub(super) enum EraseCommand {}
}
