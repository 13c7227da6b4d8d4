//! The writer's thread. It parks and runs steps until the log is stopped.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use crate::threads;

use super::queue::Queue;
use super::writer::{FinalPosition, LogWriter};

/// A handle to a running writer thread.
#[derive(Debug)]
pub struct WriterThread {
    queue: Queue,
    thread: JoinHandle<FinalPosition>,
}

impl WriterThread {
    /// Spawns the thread of `writer`, which belongs to `queue`. If the writer panics, the process aborts.
    /// Otherwise its clients would wait forever.
    ///
    /// # Errors
    /// The operating system cannot create the thread.
    pub fn spawn(queue: Queue, mut writer: LogWriter) -> io::Result<Self> {
        let write = move || {
            while !writer.is_stopping() {
                writer.park();
                writer.run_once();
            }
            writer.close()
        };
        let work = move || {
            catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
                tracing::error!(
                    "log writer panicked; aborting the process, the next start recovers all acknowledged records"
                );
                std::process::abort()
            })
        };
        let thread = threads::spawn("writer", work)?;
        Ok(Self { queue, thread })
    }

    /// Returns whether the thread has ended. It ends only after the queue was stopped, because a panic aborts
    /// the process.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the log: completes the accepted requests, syncs, seals, and joins the thread.
    ///
    /// # Errors
    /// The payload of a panic of the thread. In practice a panic aborts the process first.
    pub fn stop(self) -> thread::Result<FinalPosition> {
        self.queue.stop();
        self.thread.join()
    }
}
