//! The writer's thread: rest, step, and again.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use super::queue::Queue;
use super::writer::Writer;

/// How a writer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// The last seq that was acknowledged.
    pub last_seq: u64,
    /// The last that survives a power cut; less only where the disk failed to the end.
    pub durable_seq: u64,
}

/// A writer at work.
#[derive(Debug)]
pub struct WriterThread {
    queue: Queue,
    thread: JoinHandle<Stopped>,
}

impl WriterThread {
    /// Sets `writer`, the one of `queue`, to work. Where it panics the process ends: what waits for it would wait for ever.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn spawn(queue: Queue, mut writer: Writer) -> io::Result<Self> {
        let write = move || {
            while !writer.is_stopping() {
                writer.rest();
                writer.step();
            }
            writer.close()
        };
        let work = move || {
            catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
                tracing::error!(
                    "the writer of the log panicked: the process ends, a start recovers what was acknowledged"
                );
                std::process::abort()
            })
        };
        let thread = thread::Builder::new().name("writer".to_owned()).spawn(work)?;
        Ok(Self { queue, thread })
    }

    /// Whether it has ended: without a stop, it panicked.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Answers what was taken, syncs, seals, and ends.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn stop(self) -> thread::Result<Stopped> {
        self.queue.stop();
        self.thread.join()
    }
}
