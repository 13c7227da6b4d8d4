//! The thread of the scrub in a server.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Pace, Scrub, ScrubInputs};
use crate::limits::scrub::SCRUB_STOP_MS;
use crate::storage::lower_thread_priority;
use crate::threads;

/// The running thread.
pub(crate) struct ScrubThread {
    stop: Sender<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

/// Pauses that end when the other end of the channel is dropped.
struct StopPace(Mutex<Receiver<()>>);

impl Pace for StopPace {
    fn wait(&self, pause: Duration) -> bool {
        let stopped = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
    }
}

/// Starts the thread.
///
/// # Errors
/// The thread cannot be created.
pub(crate) fn start(inputs: ScrubInputs) -> io::Result<ScrubThread> {
    let (stop, stopped) = channel();
    let (end, ended) = channel();
    let mut scrub = Scrub::new(inputs, Arc::new(StopPace(Mutex::new(stopped))));
    let run = move || {
        lower_thread_priority();
        while scrub.step() {}
        drop::<Sender<()>>(end);
    };
    threads::spawn("scrub", run)?;
    Ok(ScrubThread { stop, ended })
}

impl ScrubThread {
    /// Ends the thread, and waits until it has saved its progress, unless the disk hangs.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // The progress in the file may be a minute old.
        let _ = self.ended.recv_timeout(Duration::from_millis(SCRUB_STOP_MS));
    }
}
