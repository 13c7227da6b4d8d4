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
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::active_segment::ActiveSegment;
use super::dedup::DedupWindow;
use super::directory::LogDirectory;
use super::erase::secret::{TombstoneKey, tombstone_payloads};
use super::erase::{ErasureStarted, VisitorIds};
use super::format::{BATCH_HEADER_BYTES, Batch, Header, begin_batch, end_batch};
use super::health::DiskHealth;
use super::metrics::LogMetrics;
use super::queue::{Completion, CompletionQueue, QueueReceiver, QueuedRequest, RecordResult, WriteOutcome};
use super::record::{Record, key_and_time};
use super::recover::{ClosedSegment, RecoveredState};
use super::{Ack, FinalPosition, LogConsumer, LogError, LogId, Options};
use crate::clock::Clock;
use crate::limits::{
    BATCH_BYTES_TARGET, RETRY_MS_MAX, RETRY_MS_MIN, SEGMENT_RECORDS_MAX, SYNC_AFTER_MS, UNSYNCED_BYTES_MAX,
    WATERMARK_AFTER_MS,
};

/// The writer of one log.
pub struct LogWriter {
    pub(super) directory: LogDirectory,
    log_id: LogId,
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) consumer: Box<dyn LogConsumer>,
    receiver: QueueReceiver,
    pub(super) metrics: Arc<LogMetrics>,
    pub(super) health: DiskHealth,
    pub(super) dedup: DedupWindow,
    /// The open segment. `None` while the disk is unavailable.
    pub(super) active: Option<ActiveSegment>,
    pub(super) closed: VecDeque<ClosedSegment>,
    pub(super) next_seq: u64,
    pub(super) durable_seq: u64,
    /// The consecutive batches after the durable seq, and the time when the first of them was written.
    unsynced: Vec<u8>,
    unsynced_since: Duration,
    /// The requests of the current batch, and the completion queues to wake after it.
    requests: Vec<QueuedRequest>,
    queues_to_wake: Vec<Arc<CompletionQueue>>,
    batch_number: u64,
    written_at: Duration,
    retry_at: Duration,
    retry_pause: Duration,
    pub(super) retention_at: Duration,
    /// The time at which the consumer wants its next call.
    consumer_due: Option<Duration>,
}

impl LogWriter {
    pub(super) fn new(
        directory: LogDirectory,
        options: Options,
        clock: Arc<dyn Clock>,
        follower: Box<dyn LogConsumer>,
        recovered: RecoveredState,
        intake: QueueReceiver,
        figures: Arc<LogMetrics>,
    ) -> Self {
        let now = clock.monotonic();
        let next_seq = recovered.report.next_seq;
        figures.damage_count.store(recovered.report.unexpected_damage, Ordering::Relaxed);
        let mut writer = Self {
            directory,
            log_id: recovered.log_id,
            options,
            clock,
            consumer: follower,
            receiver: intake,
            metrics: figures,
            health: DiskHealth::default(),
            dedup: recovered.dedup,
            active: Some(recovered.active),
            closed: recovered.closed,
            next_seq,
            durable_seq: next_seq - 1,
            unsynced: Vec::new(),
            unsynced_since: now,
            requests: Vec::new(),
            queues_to_wake: Vec::new(),
            batch_number: 0,
            written_at: now,
            retry_at: now,
            retry_pause: Duration::from_millis(RETRY_MS_MIN),
            retention_at: now,
            consumer_due: None,
        };
        writer.publish_metrics();
        writer
    }

    /// Runs one step: writes one batch of queued requests, then does all timed work that is due.
    pub fn run_once(&mut self) {
        self.retry_if_due();
        self.drain();
        if !self.requests.is_empty() {
            self.write_batch();
        }
        self.begin_erasure_if_requested();
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
        let recovery = self.active.as_ref().and_then(|_| self.health.recovery_due());
        let retention = self.has_retention().then_some(self.retention_at);
        [retry, sync, mark, recovery, retention, self.consumer_due].into_iter().flatten().min()
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
        if self.active.is_none() {
            self.begin_segment(0);
        }
        if !self.unsynced.is_empty() {
            self.sync();
        }
        if let Some(active) = self.active.take().filter(|active| active.records() > 0)
            && self.durable_seq + 1 == self.next_seq
        {
            let sealed = active.seal();
            self.note_result(&sealed);
        }
        self.publish_metrics();
        self.consumer.on_closed(&*self.clock, self.fully_durable_seq());
        FinalPosition { last_seq: self.next_seq - 1, durable_seq: self.durable_seq }
    }

    /// Returns the last seq if all assigned seqs are durable.
    fn fully_durable_seq(&self) -> Option<u64> {
        (self.durable_seq + 1 == self.next_seq).then_some(self.durable_seq)
    }

    fn notify_idle(&mut self) {
        let wait = self.consumer.on_idle(&*self.clock, self.fully_durable_seq());
        self.consumer_due = wait.map(|wait| self.clock.monotonic() + wait);
    }

    fn drain(&mut self) {
        let mut bytes = 0;
        while bytes < BATCH_BYTES_TARGET {
            let Some(parcel) = self.receiver.take() else { break };
            bytes += parcel.request.byte_len();
            self.requests.push(parcel);
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
            return self.complete_requests(WriteOutcome::of(self.options.ack));
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
        self.complete_requests(WriteOutcome::of(self.options.ack));
        self.clear_synced();
    }

    /// Decides the result of each record. Appends the accepted records to `unsynced` and gives them seqs.
    fn assign_seqs(&mut self) {
        let Self { requests: parcels, dedup: duplicates, unsynced, next_seq, metrics: figures, .. } = self;
        let records = parcels.iter().flat_map(|parcel| parcel.request.iter_encoded());
        duplicates.prefetch(records.map(|record| key_and_time(record).0));
        for parcel in parcels {
            parcel.request.set_results(|record| {
                let (key, received_ms) = key_and_time(record);
                if duplicates.check_and_insert(key, received_ms) {
                    figures.duplicates.fetch_add(1, Ordering::Relaxed);
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
    fn persist(&mut self, start: usize) -> bool {
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
    fn roll(&mut self) -> bool {
        self.close_segment();
        self.begin_segment(0)
    }

    /// Moves the open segment to the closed ones. Nothing is written to it after this, except its footer.
    fn close_segment(&mut self) -> Option<ActiveSegment> {
        let active = self.active.take()?;
        let (first_seq, newest_ms) = (active.first_seq(), active.newest_ms());
        self.closed.push_back(ClosedSegment { first_seq, bytes: active.file_bytes(), newest_ms });
        Some(active)
    }

    /// Begins a segment and reserves zeros in it up to `reserve_until`. After a failure the caller passes 0,
    /// because reserving may be the operation that failed.
    fn begin_segment(&mut self, reserve_until: u64) -> bool {
        let (first_seq, began) = (self.durable_seq + 1, self.clock.monotonic());
        let header = Header { first_seq, created_ms: self.clock.now_ms(), log_id: self.log_id };
        let begun = ActiveSegment::create(&self.directory, header, &self.unsynced, reserve_until);
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
                self.retry_at = self.clock.monotonic() + self.retry_pause;
                self.retry_pause = (self.retry_pause * 2).min(Duration::from_millis(RETRY_MS_MAX));
                false
            }
        }
    }

    fn retry_if_due(&mut self) {
        if self.active.is_none() && self.clock.monotonic() >= self.retry_at && self.begin_segment(0) {
            self.clear_synced();
        }
    }

    /// Counts the batch at `start` of `unsynced` and passes it to the consumer.
    fn deliver_batch(&mut self, start: usize, count: u32) {
        let batch = &self.unsynced[start..];
        self.metrics.batches.fetch_add(1, Ordering::Relaxed);
        self.metrics.records.fetch_add(u64::from(count), Ordering::Relaxed);
        self.metrics.bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.written_at = self.clock.monotonic();
        for batch in Batch::iter_trusted(batch) {
            self.consumer.consume(batch.records);
        }
    }

    /// Completes the requests of the current batch, and wakes each worker that sent one of them.
    fn complete_requests(&mut self, outcome: WriteOutcome) {
        // Publish the state before completing requests, so that a client whose request failed also sees it in
        // /readyz.
        self.publish_metrics();
        self.batch_number += 1;
        for QueuedRequest { request, completion_queue: mailbox } in self.requests.drain(..) {
            if outcome == WriteOutcome::DiskUnavailable {
                self.metrics.rejected_requests.fetch_add(1, Ordering::Relaxed);
            }
            if mailbox.push(Completion { outcome, request }, self.batch_number) {
                self.queues_to_wake.push(mailbox);
            }
        }
        self.queues_to_wake.drain(..).for_each(|mailbox| mailbox.wake());
    }

    fn clear_synced(&mut self) {
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

    fn sync(&mut self) {
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

    /// Seals the open segment, all of which is durable, and begins another one.
    fn seal(&mut self) {
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

    fn needs_mark(&self) -> bool {
        self.unsynced.is_empty()
            && self.active.as_ref().is_some_and(|active| active.durable_watermark() < self.durable_seq)
    }

    fn mark_due(&self) -> Duration {
        self.written_at + Duration::from_millis(WATERMARK_AFTER_MS)
    }

    /// Writes a mark, which states the durable seq, if no request has arrived for a while.
    fn write_mark_if_idle(&mut self) {
        if !self.needs_mark()
            || self.clock.monotonic() < self.mark_due()
            || self.receiver.queued_requests() > 0
        {
            return;
        }
        let mut mark = Vec::with_capacity(BATCH_HEADER_BYTES);
        let start = begin_batch(&mut mark);
        end_batch(&mut mark, start, self.next_seq, 0, self.durable_seq);
        let Some(active) = &mut self.active else { return };
        let marked = active.append(&mark);
        self.note_result(&marked);
        if marked.is_err() {
            self.roll();
        }
    }

    fn begin_erasure_if_requested(&mut self) {
        if let Some(order) = self.receiver.take_erase_command() {
            let begun = match &order.visitor {
                Some(visitor) => self.begin_erasure(visitor),
                None => Ok(self.erasure_started(self.first_open_seq())),
            };
            self.note_result(&begun);
            order.reply(begun.map_err(|error| LogError::io(&self.directory.path(""), error)));
        }
    }

    /// Returns the state of an erasure in the closed segments, which are before `next_seq`.
    fn erasure_started(&self, next_seq: u64) -> ErasureStarted {
        let keep_keys_after_ms = self.dedup.live_after_ms();
        let directory = self.directory.clone();
        ErasureStarted::new(directory, next_seq, &self.closed, keep_keys_after_ms, self.log_id)
    }

    /// Returns the first seq after the closed segments.
    fn first_open_seq(&self) -> u64 {
        self.active.as_ref().map_or(self.durable_seq + 1, ActiveSegment::first_seq)
    }

    /// Seals the open segment, then makes the tombstone durable and passes it to the consumer.
    fn begin_erasure(&mut self, visitor: &VisitorIds) -> io::Result<ErasureStarted> {
        // Without the key nobody could tell which IDs the tombstone names.
        TombstoneKey::load_or_create(&self.directory)?;
        self.directory.begin_erasure(self.next_seq)?;
        if !self.unsynced.is_empty() {
            self.sync();
        }
        if self.unsynced.is_empty() && self.active.as_ref().is_some_and(|active| active.records() > 0) {
            self.seal();
        }
        let seqs = self.append_tombstones(visitor, &tombstone_payloads(visitor))?;
        Ok(self.erasure_started(seqs.0))
    }

    /// Appends a visitor's tombstones as the first records of their segment. Returns the seqs of the first and
    /// the last one when they are durable.
    fn append_tombstones(&mut self, visitor: &VisitorIds, payloads: &[String]) -> io::Result<(u64, u64)> {
        let unavailable = || io::Error::other("the disk does not accept events");
        if self.active.is_none() || !self.unsynced.is_empty() {
            return Err(unavailable());
        }
        let (start, first) = (begin_batch(&mut self.unsynced), self.next_seq);
        for payload in payloads {
            let tombstone = Record::tombstone(&visitor.site, payload, self.clock.now_ms());
            tombstone.encode(&mut self.unsynced).map_err(io::Error::other)?;
        }
        let count = payloads.len() as u32;
        let last = first + u64::from(count) - 1;
        end_batch(&mut self.unsynced, start, first, count, self.durable_seq);
        self.unsynced_since = self.clock.monotonic();
        self.next_seq = last + 1;
        if !self.persist(start) {
            self.unsynced.truncate(start);
            self.next_seq = first;
            return Err(unavailable());
        }
        self.consumer.on_erase(visitor, last);
        self.deliver_batch(start, count);
        if self.durable_seq < last {
            self.sync();
        }
        self.clear_synced();
        if self.durable_seq < last { Err(unavailable()) } else { Ok((first, last)) }
    }
}
