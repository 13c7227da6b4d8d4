//! A start on a directory that cannot be written: the records are read, and recovery waits for the disk.
//!
//! The consumer gets all records at the start, so that profiles are complete. The writer rejects events. Each
//! retry first writes and deletes a small file. If that succeeds, recovery reads the log again, delivers only
//! records that the consumer does not have, and changes the directory.

use super::LogError;
use super::recover::{self, RecoverError, RecoveredState, RecoveryReport};
use super::writer::LogWriter;

/// A recovery that waits until the directory can be written.
#[derive(Debug, Default)]
pub(super) struct WaitingRecovery {
    /// The last seq that the consumer has.
    pub(super) delivered_seq: u64,
}

impl LogWriter {
    /// Reports the error for which recovery waits, and plans the first retry.
    pub(super) fn wait_for(&mut self, error: &LogError) {
        self.note_error(error);
        self.plan_retry();
        self.publish_metrics();
    }

    /// Tries to recover the directory again.
    pub(super) fn retry_recovery(&mut self, waiting: WaitingRecovery) {
        let mut delivered_seq = waiting.delivered_seq;
        match self.try_recover(&mut delivered_seq) {
            Ok(recovered) => {
                let next_seq = recovered.report.next_seq;
                tracing::info!(next_seq, "the data directory can be written; opened the event log");
                self.continue_with(recovered);
            }
            Err(error) => {
                self.waiting = Some(WaitingRecovery { delivered_seq });
                self.note_error(&error);
                self.plan_retry();
            }
        }
    }

    fn try_recover(&mut self, delivered_seq: &mut u64) -> Result<RecoveredState, LogError> {
        let Self { directory, options, clock, consumer, .. } = self;
        directory.lock_if_created()?;
        directory.probe().map_err(|error| LogError::io(&directory.path(""), error))?;
        recover::recover(directory, options, delivered_seq, &**clock, &mut **consumer)
            .map_err(RecoverError::into_cause)
    }

    /// Reports the damage that a recovery has found.
    pub(super) fn report_damage(&self, report: &RecoveryReport) {
        report.damage.iter().for_each(|damage| damage.report_to(&self.metrics.damage));
    }

    /// Continues with the results of a recovery.
    pub(super) fn continue_with(&mut self, recovered: RecoveredState) {
        let RecoveredState { active, closed, dedup, log_clock, log_id, report } = recovered;
        self.log_id = log_id;
        (self.active, self.closed, self.dedup, self.log_clock) = (Some(active), closed, dedup, log_clock);
        self.waiting = None;
        self.next_seq = report.next_seq;
        self.durable_seq = report.next_seq - 1;
        self.report_damage(&report);
        self.publish_metrics();
    }
}
