//! The log writer. Each step drains the queue, appends and syncs one batch, and completes its requests.
//!
//! Batching uses no timer: requests that arrive during a sync form the next batch. So a lone request waits
//! for one sync, and a thousand requests share one.
//!
//! The writer composes three parts. [`RequestBatch`] has the requests, [`SegmentWriter`] the files, and [`Upkeep`] the
//! clock and the health of the disk. They do not know each other. The writer keeps the order: append, sync, pass to the
//! consumer, complete.
//!
//! Batches that are written but not synced stay in memory, including the current one. When an append or a
//! sync fails, the file is closed. The writer begins a new segment with all of these batches, under the same
//! seqs, before it acknowledges anything else. If that fails too, it rejects the current batch and every
//! further request until it can begin a segment.

mod erasing;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::dedup::DedupWindow;
use super::directory::LogDirectory;
use super::metrics::LogMetrics;
use super::queue::{QueueReceiver, WriteOutcome};
use super::recover::{self, RecoverError, RecoveredState, RecoveryReport};
use super::request_batch::RequestBatch;
use super::segment_writer::SegmentWriter;
use super::upkeep::Upkeep;
use super::{LogConsumer, LogError, Options};
use crate::clock::Clock;

/// The last seqs of a log whose writer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalPosition {
    /// The last acknowledged seq.
    pub last_seq: u64,
    /// The last seq that survives a power cut. Less than `last_seq` only if the disk was still failing at the
    /// end.
    pub durable_seq: u64,
}

/// The writer of one log.
pub struct LogWriter {
    pub(super) receiver: QueueReceiver,
    pub(super) batch: RequestBatch,
    pub(super) segments: SegmentWriter,
    pub(super) upkeep: Upkeep,
    options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) consumer: Box<dyn LogConsumer>,
    /// The time at which the consumer wants its next call.
    consumer_due: Option<Duration>,
    /// The last seq that the consumer has while the recovery waits until the directory can be written. `None` after the
    /// recovery.
    recovery_after_seq: Option<u64>,
    pub(super) metrics: Arc<LogMetrics>,
}

impl LogWriter {
    /// Creates a writer that waits for its recovery. The consumer has the records up to `delivered_seq`.
    pub(super) fn new(
        directory: LogDirectory,
        options: Options,
        clock: Arc<dyn Clock>,
        consumer: Box<dyn LogConsumer>,
        delivered_seq: u64,
        receiver: QueueReceiver,
        metrics: Arc<LogMetrics>,
    ) -> Self {
        let segments =
            SegmentWriter::new(directory, &options, Arc::clone(&clock), Arc::clone(&metrics), delivered_seq);
        Self {
            receiver,
            batch: RequestBatch::new(DedupWindow::new(1, 0), Arc::clone(&metrics)),
            segments,
            upkeep: Upkeep::new(&options, Arc::clone(&clock), Arc::clone(&metrics)),
            options,
            clock,
            consumer,
            consumer_due: None,
            recovery_after_seq: Some(delivered_seq),
            metrics,
        }
    }

    /// Continues with the results of a recovery.
    pub(super) fn resume(&mut self, state: RecoveredState) {
        let RecoveredState { active, closed, dedup, log_clock, log_id, report } = state;
        self.segments.resume(log_id, active, closed, report.next_seq);
        self.batch.dedup = dedup;
        self.upkeep.log_clock = log_clock;
        self.recovery_after_seq = None;
        self.report_damage(&report);
        self.publish_metrics();
    }

    /// Reports the error for which recovery waits, and plans the first retry.
    pub(super) fn wait_for(&mut self, error: &LogError) {
        self.upkeep.note_error(error);
        self.segments.plan_retry();
        self.publish_metrics();
    }

    /// Reports the damage that a recovery has found.
    pub(super) fn report_damage(&self, report: &RecoveryReport) {
        report.damage.iter().for_each(|damage| damage.report_to(&self.metrics.damage));
    }

    /// Runs one step: writes one batch of queued requests, then does all timed work that is due.
    pub fn run_once(&mut self) {
        self.upkeep.advance_log_clock();
        self.retry_if_due();
        if self.batch.drain(&mut self.receiver) {
            self.write_batch();
        }
        self.begin_erasure_if_requested();
        self.check_place_if_due();
        if self.segments.is_sync_due() {
            self.sync();
        }
        self.seal_if_full();
        self.write_mark_if_idle();
        self.apply_retention_if_due();
        self.publish_metrics();
        self.notify_idle();
    }

    /// Waits until a request arrives or timed work is due.
    pub fn park(&mut self) {
        let now = self.clock.monotonic();
        self.receiver.wait(self.next_due().map(|due| due.saturating_sub(now)));
    }

    /// Returns the monotonic time at which the next timed work is due. `None`: only a request needs a step.
    pub fn next_due(&self) -> Option<Duration> {
        let mark = self.segments.needs_mark().then(|| self.upkeep.mark_due());
        let upkeep = self.upkeep.next_due(self.segments.is_available());
        [self.segments.next_due(), mark, upkeep, self.consumer_due].into_iter().flatten().min()
    }

    /// Returns whether the caller should [`close`](Self::close) the writer.
    pub fn is_stopping(&self) -> bool {
        self.receiver.is_stopping()
    }

    /// Completes the accepted requests, syncs, and seals the segment. Called after the queue has been
    /// stopped.
    pub fn close(mut self) -> FinalPosition {
        while self.receiver.queued_requests() > 0 {
            self.run_once();
        }
        self.check_place();
        if !self.segments.is_available() && !self.is_waiting() {
            self.begin_segment();
        }
        if !self.segments.is_durable() {
            self.sync();
        }
        self.save_log_clock();
        let durable = self.fully_durable_seq();
        let ended = self.segments.end();
        self.upkeep.note_result(&ended);
        self.publish_metrics();
        self.consumer.on_closed(&*self.clock, durable);
        FinalPosition { last_seq: self.segments.next_seq() - 1, durable_seq: self.segments.durable_seq() }
    }

    /// Returns whether a recovery waits until the directory can be written.
    pub(super) fn is_waiting(&self) -> bool {
        self.recovery_after_seq.is_some()
    }

    /// Returns the last seq if all assigned seqs are durable. Without a segment it returns `None`, because the
    /// directory at the path may be another one.
    fn fully_durable_seq(&self) -> Option<u64> {
        let is_durable = self.segments.is_available() && self.segments.is_durable();
        is_durable.then_some(self.segments.durable_seq())
    }

    fn notify_idle(&mut self) {
        let wait = self.consumer.on_idle(&*self.clock, self.fully_durable_seq());
        self.consumer_due = wait.map(|wait| self.clock.monotonic() + wait);
    }

    /// Writes the drained requests as one batch and completes them.
    fn write_batch(&mut self) {
        if !self.segments.is_available() {
            return self.complete_requests(WriteOutcome::DiskUnavailable);
        }
        let log_ms = self.upkeep.log_ms();
        let added = self
            .segments
            .add_batch(|records, first_seq| Ok(self.batch.assign_seqs(records, first_seq, log_ms)));
        if added.is_ok_and(|count| count == 0) {
            return self.acknowledge();
        }
        if !self.persist() {
            return self.complete_requests(WriteOutcome::DiskUnavailable);
        }
        self.deliver_batch();
        self.acknowledge();
        self.segments.clear_synced();
    }

    /// Persists encoded records that no client has sent, as one batch. Returns whether they are persisted.
    #[cfg(feature = "cluster")]
    pub(super) fn append_batch(&mut self, encoded_records: &[u8], record_count: u32) -> bool {
        self.upkeep.advance_log_clock();
        let added = self.segments.add_batch(|batch, _| {
            batch.extend_from_slice(encoded_records);
            Ok(record_count)
        });
        let is_persisted = added.is_ok() && self.persist();
        if is_persisted {
            self.deliver_batch();
            self.segments.clear_synced();
        }
        self.publish_metrics();
        is_persisted
    }

    /// Removes the records after a seq. Returns whether they are gone durably.
    #[cfg(feature = "cluster")]
    pub(super) fn cut_after(&mut self, seq: u64) -> bool {
        if !self.segments.is_durable() {
            self.sync();
        }
        // The next segment says that all records before it are durable. The rename of a rewritten segment would restore a
        // deleted one.
        let is_erasing = self.metrics.is_erasing();
        if is_erasing || !self.segments.is_available() || !self.segments.is_durable() {
            return false;
        }
        // No column file of the removed records gets its name after this.
        self.metrics.generation.advance();
        let cut = self.segments.cut_after(seq, self.upkeep.log_ms());
        self.metrics.generation.advance();
        self.upkeep.note_result(&cut);
        self.publish_metrics();
        cut.is_ok()
    }

    /// Persists the last batch: in the active segment, or in a new one if that fails. Removes the batch if both fail.
    /// Returns whether it was persisted.
    pub(super) fn persist(&mut self) -> bool {
        let is_persisted = self.segments.is_available() && {
            let persisted = self.segments.persist(self.upkeep.log_ms());
            self.note_sync(persisted) || self.begin_segment()
        };
        if !is_persisted {
            self.segments.remove_last_batch();
        }
        is_persisted
    }

    /// Syncs the active segment. If that fails, begins another one.
    pub(super) fn sync(&mut self) {
        let is_synced = self.segments.is_available() && {
            let synced = self.segments.sync(self.upkeep.log_ms());
            self.note_sync(synced)
        };
        if is_synced || self.begin_segment() {
            self.segments.clear_synced();
        }
    }

    /// Begins a segment after a failure. Returns whether that succeeded.
    fn begin_segment(&mut self) -> bool {
        let begun = self.segments.begin(self.upkeep.log_ms());
        self.note_sync(begun)
    }

    /// Reports the duration of a sync, or the error. Returns whether there was no error.
    fn note_sync(&mut self, result: io::Result<Option<Duration>>) -> bool {
        self.upkeep.note_result(&result);
        let is_ok = result.is_ok();
        result.ok().flatten().into_iter().for_each(|duration| self.consumer.on_sync(duration));
        is_ok
    }

    fn retry_if_due(&mut self) {
        if !self.segments.is_retry_due() {
            return;
        }
        match self.recovery_after_seq.take() {
            Some(delivered_seq) => self.retry_recovery(delivered_seq),
            None if self.begin_segment() => self.segments.clear_synced(),
            None => {}
        }
    }

    fn retry_recovery(&mut self, mut delivered_seq: u64) {
        match self.recover(&mut delivered_seq) {
            Ok(recovered) => {
                let next_seq = recovered.report.next_seq;
                tracing::info!(next_seq, "the data directory can be written; opened the event log");
                self.resume(recovered);
            }
            Err(error) => {
                self.recovery_after_seq = Some(delivered_seq);
                self.upkeep.note_error(&error);
                self.segments.plan_retry();
            }
        }
    }

    /// Writes and deletes a small file. If that succeeds, reads the log again, delivers only records that the consumer
    /// does not have, and changes the directory.
    fn recover(&mut self, delivered_seq: &mut u64) -> Result<RecoveredState, LogError> {
        let directory = &mut self.segments.directory;
        directory.lock_if_created()?;
        directory.probe().map_err(|error| LogError::io(&directory.path(""), error))?;
        recover::recover(directory, &self.options, delivered_seq, &*self.clock, &mut *self.consumer)
            .map_err(RecoverError::into_cause)
    }

    /// Counts the last batch and passes it to the consumer.
    pub(super) fn deliver_batch(&mut self) {
        let batch = self.segments.last_batch();
        self.upkeep.note_batch(&batch);
        self.consumer.consume(batch.records);
    }

    /// Acknowledges the requests of the current batch, or passes them to the consumer, which acknowledges them.
    fn acknowledge(&mut self) {
        let outcome = WriteOutcome::of(self.options.ack);
        if !self.options.holds_acknowledgements {
            return self.complete_requests(outcome);
        }
        self.publish_metrics();
        let batch = self.batch.take_durable(outcome, self.segments.next_seq() - 1);
        self.consumer.hold(batch, &*self.clock);
    }

    fn complete_requests(&mut self, outcome: WriteOutcome) {
        // Publish the state before completing requests, so that a client whose request failed also sees it in
        // /readyz.
        self.publish_metrics();
        self.batch.complete(outcome);
    }

    /// Checks once a second that directory and segment are in their place, and saves the log clock if it is
    /// due.
    fn check_place_if_due(&mut self) {
        if self.upkeep.begin_place_check() {
            self.check_place();
            if self.upkeep.is_clock_save_due() {
                self.save_log_clock();
            }
        }
    }

    /// Checks that the active segment is in its place and whole. If not, the writer abandons it, and acknowledges
    /// nothing until it can begin another one in the locked directory.
    fn check_place(&mut self) {
        match self.segments.find_loss() {
            Ok(None) => return,
            Ok(Some(loss)) => {
                let reported = self.segments.report_loss(loss);
                reported.unwrap_or_else(|error| self.upkeep.note_error(&error));
                self.upkeep.note_error(&loss);
            }
            Err(error) => self.upkeep.note_error(&error),
        }
        self.segments.abandon(self.upkeep.log_ms());
    }

    fn save_log_clock(&mut self) {
        if self.segments.is_available() {
            let saved = self.upkeep.save_log_clock(&self.segments.directory);
            self.upkeep.note_result(&saved);
        }
    }

    fn seal_if_full(&mut self) {
        if self.segments.is_full() && !self.segments.is_durable() {
            self.sync();
        }
        if self.segments.is_full() && self.segments.is_durable() {
            self.seal();
        }
    }

    /// Seals the active segment, all of which is durable, and begins another one. A segment that is not in its place,
    /// or that another program has truncated, is abandoned instead.
    pub(super) fn seal(&mut self) {
        self.check_place();
        if self.segments.is_available() {
            let log_ms = self.upkeep.log_ms();
            let sealed = self.segments.seal(log_ms);
            self.upkeep.note_result(&sealed);
            let begun = self.segments.begin_next(log_ms);
            self.note_sync(begun);
        }
    }

    /// Writes a mark, which states the durable seq, if no request has arrived for a while.
    fn write_mark_if_idle(&mut self) {
        let is_due = self.segments.needs_mark() && self.clock.monotonic() >= self.upkeep.mark_due();
        if is_due && self.receiver.queued_requests() == 0 {
            let marked = self.segments.append_mark(self.upkeep.log_ms());
            self.upkeep.note_result(&marked);
            if marked.is_err() {
                self.begin_segment();
            }
        }
    }

    fn apply_retention_if_due(&mut self) {
        if !self.upkeep.begin_retention() {
            return;
        }
        let expired = self.upkeep.expired_count(self.segments.closed(), self.segments.active_bytes());
        let deletable = expired.min(self.segments.deletable_count());
        let count = deletable.min(self.segments.unneeded_count(self.consumer.checkpointed_seq()));
        if count < deletable {
            self.consumer.on_retention_blocked();
        }
        let deleted = self.segments.delete_first(count);
        self.upkeep.note_result(&deleted);
    }

    /// Publishes the present state in the metrics.
    fn publish_metrics(&mut self) {
        self.upkeep.report_health(self.segments.is_available());
        self.batch.publish_metrics();
        self.segments.publish_metrics();
    }
}
