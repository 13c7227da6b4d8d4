//! A start on a directory that cannot be written: the records are read, and recovery waits for the disk.
//!
//! The consumer gets all records at the start, so that profiles are complete. The writer rejects events. Each
//! retry first writes and deletes a small file. If that succeeds, recovery reads the log again, delivers only
//! records that the consumer does not have, and changes the directory.

use super::directory::LogDirectory;
use super::recover::{self, RecoverError, RecoveredState};
use super::{LogConsumer, LogError, Options};
use crate::clock::Clock;

/// A recovery that waits until the directory can be written.
pub(super) struct WaitingRecovery {
    /// The last seq that the consumer has.
    pub(super) delivered_seq: u64,
}

impl WaitingRecovery {
    /// Tries to recover the directory again.
    pub(super) fn retry(
        &mut self,
        directory: &mut LogDirectory,
        options: &Options,
        clock: &dyn Clock,
        consumer: &mut dyn LogConsumer,
    ) -> Result<RecoveredState, LogError> {
        directory.lock_if_created()?;
        directory.probe().map_err(|error| LogError::io(&directory.path(""), error))?;
        recover::recover(directory, options, &mut self.delivered_seq, clock, consumer)
            .map_err(RecoverError::into_cause)
    }
}
