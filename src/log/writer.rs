//! The log writer. Each step drains the queue, appends and syncs one batch, and completes its requests.
//!
//! Batching uses no timer: requests that arrive during a sync form the next batch. So a lone request waits
//! for one sync, and a thousand requests share one.
//!
//! Batches that are written but not synced stay in memory, including the current one. When an append or a
//! sync fails, the writer drops the file. It begins a new segment with all of these batches, under the same
//! seqs, before it acknowledges anything else. If that fails too, it rejects the current batch and every
//! further request until it can begin a segment. It retries after a pause that doubles up to half a second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::active_segment::ActiveSegment;
use super::dedup::DedupWindow;
use super::directory::LogDirectory;
use super::durable_batch::DurableBatch;
use super::format::{Batch, Header, begin_batch, end_batch};
use super::health::{DiskHealth, PLACE_CHECK_MS};
use super::metrics::LogMetrics;
use super::queue::{Completion, CompletionQueue, QueueReceiver, QueuedRequest, RecordResult, WriteOutcome};
use super::recover::ClosedSegment;
use super::waiting::WaitingRecovery;
use super::{Ack, FinalPosition, LogConsumer, LogId, Options};
use crate::clock::{Clock, LogClock};
use crate::limits::{
    BATCH_BYTES_TARGET, RETRY_MS_MAX, RETRY_MS_MIN, SEGMENT_RECORDS_MAX, SYNC_AFTER_MS, UNSYNCED_BYTES_MAX,
};
use crate::record::key_and_time;

/// The writer of one log.
pub struct LogWriter {
    pub(super) directory: LogDirectory,
    pub(super) log_id: LogId,
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) consumer: Box<dyn LogConsumer>,
    pub(super) receiver: QueueReceiver,
    pub(super) metrics: Arc<LogMetrics>,
    pub(super) health: DiskHealth,
    pub(super) log_clock: LogClock,
    /// The log clock when it was saved last, in milliseconds.
    pub(super) clock_saved_ms: i64,
    pub(super) dedup: DedupWindow,
    /// The open segment. `None` while the disk is unavailable.
    pub(super) active: Option<ActiveSegment>,
    pub(super) closed: VecDeque<ClosedSegment>,
    /// The recovery that waits until the directory can be written. `None` after it.
    pub(super) waiting: Option<WaitingRecovery>,
    pub(super) next_seq: u64,
    pub(super) durable_seq: u64,
    /// The consecutive batches after the durable seq, and the time when the first of them was written.
    pub(super) unsynced: Vec<u8>,
    pub(super) unsynced_since: Duration,
    /// The requests of the current batch, and the completion queues to wake after it.
    requests: Vec<QueuedRequest>,
    queues_to_wake: Vec<Arc<CompletionQueue>>,
    batch_number: u64,
    pub(super) written_at: Duration,
    retry_at: Duration,
    retry_pause: Duration,
    pub(super) retention_at: Duration,
    /// The time of the next check that directory and segment are in their place.
    pub(super) place_check_at: Duration,
    /// The time at which the consumer wants its next call.
    consumer_due: Option<Duration>,
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
        let now = clock.monotonic();
        let log_clock = LogClock::new(None, &*clock);
        Self {
            directory,
            log_id: options.log_id.unwrap_or_else(LogId::random),
            options,
            clock,
            consumer,
            receiver,
            metrics,
            health: DiskHealth::default(),
            log_clock,
            clock_saved_ms: i64::MIN,
            dedup: DedupWindow::new(1, 0),
            active: None,
            closed: VecDeque::new(),
            waiting: Some(WaitingRecovery { delivered_seq }),
            next_seq: delivered_seq + 1,
            durable_seq: delivered_seq,
            unsynced: Vec::new(),
            unsynced_since: now,
            requests: Vec::new(),
            queues_to_wake: Vec::new(),
            batch_number: 0,
            written_at: now,
            retry_at: now,
            retry_pause: Duration::from_millis(RETRY_MS_MIN),
            retention_at: now,
            place_check_at: now + Duration::from_millis(PLACE_CHECK_MS),
            consumer_due: None,
        }
    }

    /// Runs one step: writes one batch of queued requests, then does all timed work that is due.
    pub fn run_once(&mut self) {
        self.advance_log_clock();
        self.retry_if_due();
        self.drain();
        if !self.requests.is_empty() {
            self.write_batch();
        }
        self.begin_erasure_if_requested();
        self.check_place_if_due();
        self.sync_if_due();
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
        let retry = self.active.is_none().then_some(self.retry_at);
        let sync = (self.active.is_some() && !self.unsynced.is_empty()).then(|| self.sync_due());
        let mark = self.needs_mark().then(|| self.mark_due());
        let place = self.active.as_ref().map(|_| self.place_check_at);
        let recovery = self.active.as_ref().and_then(|_| self.health.recovery_due());
        let retention = self.has_retention().then_some(self.retention_at);
        [retry, sync, mark, place, recovery, retention, self.consumer_due].into_iter().flatten().min()
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
        if self.active.is_none() && self.waiting.is_none() {
            self.begin_segment(0);
        }
        if !self.unsynced.is_empty() {
            self.sync();
        }
        self.save_log_clock();
        let durable = self.fully_durable_seq();
        if let Some(active) = self.active.take().filter(|active| active.records() > 0)
            && self.durable_seq + 1 == self.next_seq
        {
            let sealed = active.seal();
            self.note_result(&sealed);
        }
        self.publish_metrics();
        self.consumer.on_closed(&*self.clock, durable);
        FinalPosition { last_seq: self.next_seq - 1, durable_seq: self.durable_seq }
    }

    /// Returns the last seq if all assigned seqs are durable. Without a segment it returns `None`, because the
    /// directory at the path may be another one.
    fn fully_durable_seq(&self) -> Option<u64> {
        (self.active.is_some() && self.durable_seq + 1 == self.next_seq).then_some(self.durable_seq)
    }

    fn notify_idle(&mut self) {
        let wait = self.consumer.on_idle(&*self.clock, self.fully_durable_seq());
        self.consumer_due = wait.map(|wait| self.clock.monotonic() + wait);
    }

    fn drain(&mut self) {
        let mut bytes = 0;
        while bytes < BATCH_BYTES_TARGET {
            let Some(queued) = self.receiver.take() else { break };
            bytes += queued.request.byte_len();
            self.requests.push(queued);
        }
    }

    /// Writes the drained requests as one batch and completes them.
    fn write_batch(&mut self) {
        if self.active.is_none() {
            return self.complete_requests(WriteOutcome::DiskUnavailable);
        }
        let (start, first_seq) = (begin_batch(&mut self.unsynced), self.next_seq);
        self.assign_seqs();
        let count = (self.next_seq - first_seq) as u32;
        if count == 0 {
            self.unsynced.truncate(start);
            return self.acknowledge();
        }
        end_batch(&mut self.unsynced, start, first_seq, count, self.durable_seq);
        if start == 0 {
            self.unsynced_since = self.clock.monotonic();
        }
        if !self.persist(start) {
            self.dedup.rollback();
            self.unsynced.truncate(start);
            self.next_seq = first_seq;
            return self.complete_requests(WriteOutcome::DiskUnavailable);
        }
        self.dedup.commit();
        self.deliver_batch(start, count);
        self.acknowledge();
        self.clear_synced();
    }

    /// Decides the result of each record. Appends the accepted records to `unsynced` and gives them seqs.
    fn assign_seqs(&mut self) {
        let now_ms = self.log_clock.now_ms();
        let Self { requests, dedup, unsynced, next_seq, metrics, .. } = self;
        let records = requests.iter().flat_map(|queued| queued.request.iter_encoded());
        dedup.prefetch(records.map(|record| key_and_time(record).0));
        for queued in requests {
            queued.request.set_results(|record| {
                let (key, _) = key_and_time(record);
                if dedup.check_and_insert(key, now_ms) {
                    metrics.duplicates.fetch_add(1, Ordering::Relaxed);
                    return RecordResult::Duplicate;
                }
                unsynced.extend_from_slice(record);
                *next_seq += 1;
                RecordResult::Accepted(*next_seq - 1)
            });
        }
    }

    /// Appends the batch that begins at `start` of `unsynced`, and syncs it if `--ack disk` requires that.
    /// Uses the open segment, or a new one if that fails. Returns whether the batch was persisted.
    pub(super) fn persist(&mut self, start: usize) -> bool {
        let Some(active) = &mut self.active else { return false };
        let began = self.clock.monotonic();
        let appended = active.append(&self.unsynced[start..]);
        self.note_result(&appended);
        let kept = match (appended, self.options.ack) {
            (Ok(()), Ack::Disk) => self.sync_active(began),
            (Ok(()), Ack::Written) => true,
            (Err(_), _) => false,
        };
        kept || self.roll()
    }

    /// Syncs the open segment. All assigned seqs are then durable.
    fn sync_active(&mut self, began: Duration) -> bool {
        let Some(active) = &mut self.active else { return false };
        let synced = active.sync();
        self.note_result(&synced);
        if synced.is_err() {
            return false;
        }
        self.durable_seq = self.next_seq - 1;
        self.consumer.on_sync(self.clock.monotonic() - began);
        true
    }

    /// Abandons the open segment and begins another one with all batches that are not durable.
    pub(super) fn roll(&mut self) -> bool {
        self.close_segment();
        self.begin_segment(0)
    }

    /// Moves the open segment to the closed ones. Nothing is written to it after this, except its footer.
    pub(super) fn close_segment(&mut self) -> Option<ActiveSegment> {
        let active = self.active.take()?;
        let (first_seq, bytes) = (active.first_seq(), active.file_bytes());
        self.closed.push_back(ClosedSegment { first_seq, bytes, closed_ms: self.log_clock.now_ms() });
        Some(active)
    }

    /// Begins a segment and reserves zeros in it up to `reserve_until`. After a failure the caller passes 0,
    /// because reserving may be the operation that failed.
    fn begin_segment(&mut self, reserve_until: u64) -> bool {
        let (first_seq, began) = (self.durable_seq + 1, self.clock.monotonic());
        let header = Header { first_seq, created_ms: self.log_clock.now_ms(), log_id: self.log_id };
        let begun = self
            .directory
            .check_identity()
            .and_then(|()| ActiveSegment::create(&self.directory, header, &self.unsynced, reserve_until));
        self.note_result(&begun);
        match begun {
            Ok(active) => {
                self.closed.retain(|closed| closed.first_seq != first_seq);
                self.active = Some(active);
                self.durable_seq = self.next_seq - 1;
                self.retry_pause = Duration::from_millis(RETRY_MS_MIN);
                self.consumer.on_sync(self.clock.monotonic() - began);
                true
            }
            Err(_) => {
                self.plan_retry();
                false
            }
        }
    }

    /// Sets the time of the next attempt to begin a segment.
    pub(super) fn plan_retry(&mut self) {
        self.retry_at = self.clock.monotonic() + self.retry_pause;
        self.retry_pause = (self.retry_pause * 2).min(Duration::from_millis(RETRY_MS_MAX));
    }

    fn retry_if_due(&mut self) {
        if self.active.is_some() || self.clock.monotonic() < self.retry_at {
            return;
        }
        match self.waiting.take() {
            Some(waiting) => self.retry_recovery(waiting),
            None if self.begin_segment(0) => self.clear_synced(),
            None => {}
        }
    }

    /// Counts the batch at `start` of `unsynced` and passes it to the consumer.
    pub(super) fn deliver_batch(&mut self, start: usize, count: u32) {
        let batch = &self.unsynced[start..];
        self.metrics.batches.fetch_add(1, Ordering::Relaxed);
        self.metrics.records.fetch_add(u64::from(count), Ordering::Relaxed);
        self.metrics.bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.written_at = self.clock.monotonic();
        for batch in Batch::iter_trusted(batch) {
            self.consumer.consume(batch.records);
        }
    }

    /// Acknowledges the requests of the current batch, or passes them to the consumer, which acknowledges them.
    fn acknowledge(&mut self) {
        let outcome = WriteOutcome::of(self.options.ack);
        if !self.options.holds_acknowledgements {
            return self.complete_requests(outcome);
        }
        self.publish_metrics();
        self.batch_number += 1;
        let requests = std::mem::take(&mut self.requests);
        let (last_seq, number) = (self.next_seq - 1, self.batch_number);
        self.consumer.hold(DurableBatch { requests, outcome, last_seq, number }, &*self.clock);
    }

    /// Completes the requests of the current batch, and wakes each worker that sent one of them.
    fn complete_requests(&mut self, outcome: WriteOutcome) {
        // Publish the state before completing requests, so that a client whose request failed also sees it in
        // /readyz.
        self.publish_metrics();
        self.batch_number += 1;
        for QueuedRequest { request, completion_queue } in self.requests.drain(..) {
            if outcome == WriteOutcome::DiskUnavailable {
                self.metrics.rejected_requests.fetch_add(1, Ordering::Relaxed);
            }
            if completion_queue.push(Completion { outcome, visible: None, request }, self.batch_number) {
                self.queues_to_wake.push(completion_queue);
            }
        }
        self.queues_to_wake.drain(..).for_each(|completion_queue| completion_queue.wake());
    }

    pub(super) fn clear_synced(&mut self) {
        if self.durable_seq + 1 == self.next_seq {
            self.unsynced.clear();
        }
    }

    fn sync_due(&self) -> Duration {
        self.unsynced_since + Duration::from_millis(SYNC_AFTER_MS)
    }

    fn sync_if_due(&mut self) {
        let is_due =
            self.unsynced.len() >= UNSYNCED_BYTES_MAX / 2 || self.clock.monotonic() >= self.sync_due();
        if self.active.is_some() && !self.unsynced.is_empty() && is_due {
            self.sync();
        }
    }

    pub(super) fn sync(&mut self) {
        if self.sync_active(self.clock.monotonic()) || self.roll() {
            self.clear_synced();
        }
    }

    fn seal_if_full(&mut self) {
        if self.is_full() && !self.unsynced.is_empty() {
            self.sync();
        }
        if !self.is_full() || !self.unsynced.is_empty() {
            return;
        }
        self.seal();
    }

    /// Seals the open segment, all of which is durable, and begins another one. A segment that is not in its place, or
    /// that another program has truncated, is abandoned instead.
    pub(super) fn seal(&mut self) {
        self.check_place();
        if let Some(active) = self.close_segment() {
            // A failure loses nothing: readers scan a segment without a footer.
            let sealed = active.seal();
            self.note_result(&sealed);
            if let (Ok(bytes), Some(closed)) = (sealed, self.closed.back_mut()) {
                closed.bytes = bytes;
            }
            self.begin_segment(self.options.reserve_until());
        }
    }

    fn is_full(&self) -> bool {
        self.active.as_ref().is_some_and(|active| {
            active.records() > 0
                && (active.bytes() >= self.options.segment_bytes || active.records() >= SEGMENT_RECORDS_MAX)
        })
    }
}
