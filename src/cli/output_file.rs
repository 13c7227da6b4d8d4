//! The file that a command writes, which appears under its name when it is complete.
//!
//! A file without a name ends with the process. A file system that has no such files needs a temporary name. Then the command
//! receives the signals that would end it, removes the file at the next write, and ends as the signal would have ended it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::storage::AtomicFile;

/// The first signal that was received, or 0.
#[derive(Debug, Clone, Default)]
pub(super) struct Interruption(Arc<AtomicUsize>);

impl Interruption {
    /// Receives the signals from now on. The second one ends the process at once.
    pub(super) fn register(&self) -> io::Result<()> {
        let has_received = Arc::new(AtomicBool::new(false));
        // Not SIGHUP, which `nohup` ignores on purpose.
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal does not see its own mark.
            flag::register_conditional_default(signal, Arc::clone(&has_received))?;
            flag::register(signal, Arc::clone(&has_received))?;
            flag::register_usize(signal, Arc::clone(&self.0), signal as usize)?;
        }
        Ok(())
    }

    /// Returns whether a signal was received.
    pub(super) fn is_received(&self) -> bool {
        self.signal().is_some()
    }

    fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed) as i32).filter(|signal| *signal != 0)
    }

    /// Ends the process as the received signal would have ended it, if there is one.
    pub(super) fn end_process_if_received(&self) {
        if let Some(signal) = self.signal() {
            // An error would mean that the signal is unknown.
            let _ = low_level::emulate_default_handler(signal);
        }
    }
}

/// A file that is being written. Dropped before [`commit`](Self::commit), it leaves nothing.
pub(super) struct OutputFile {
    file: AtomicFile,
    interruption: Interruption,
}

impl OutputFile {
    /// Creates the file. Writing fails after `interruption` has received a signal.
    ///
    /// # Errors
    /// The system's error, or `path` cannot be replaced by a file.
    pub(super) fn create(path: &Path, interruption: &Interruption) -> io::Result<Self> {
        let file = AtomicFile::create(path)?;
        if file.has_temporary_name() {
            interruption.register()?;
        }
        Ok(Self { file, interruption: interruption.clone() })
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn commit(self) -> io::Result<()> {
        self.file.commit()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.interruption.signal() {
            Some(signal) => Err(io::Error::other(format!("interrupted by the signal {signal}"))),
            None => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
