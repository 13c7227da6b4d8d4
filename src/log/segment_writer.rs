//! The segments part of the log writer: the active segment, the closed ones, and the batches that are not durable.
//!
//! # Invariants
//!
//! * After a failed append or sync the file is closed in the same call. It is never appended to and never synced
//!   again. Only a new segment accepts batches then.
//! * The unsynced bytes are all batches after the durable seq, in order. A new segment begins with them, under the same
//!   seqs, so it may replace a file whose end nobody knows.
//! * The durable seq is less than the next seq, and neither ever falls, except that a batch that was not persisted gives
//!   its seqs back.
//! * After a failed attempt to begin a segment, the next one is due after a pause that doubles up to half a second.
//!
//! This part knows neither the queue nor the consumer. Each operation returns its error or its duration. After an error
//! of an append or a sync, the caller [begins](SegmentWriter::begin) a segment.

mod loss;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::active_segment::{ActiveSegment, ClosedSegment};
use super::directory::LogDirectory;
use super::format::{BATCH_HEADER_BYTES, Batch, Header, begin_batch, end_batch};
use super::metrics::LogMetrics;
use super::{LogId, Options};
use crate::acknowledgement::Ack;
use crate::clock::Clock;
use crate::limits::{RETRY_MS_MAX, RETRY_MS_MIN, SEGMENT_RECORDS_MAX, UNSYNCED_BYTES_MAX};

/// The writer of the segments of one log.
pub struct SegmentWriter {
    pub(super) directory: LogDirectory,
    clock: Arc<dyn Clock>,
    metrics: Arc<LogMetrics>,
    ack: Ack,
    sync_after: Duration,
    segment_bytes: u64,
    /// The size up to which a segment reserves zeros.
    reserve_until: u64,
    log_id: LogId,
    /// The open segment. `None` while the disk is unavailable.
    active: Option<ActiveSegment>,
    closed: VecDeque<ClosedSegment>,
    /// The bytes of all closed segments.
    closed_bytes: u64,
    next_seq: u64,
    durable_seq: u64,
    /// The consecutive batches after the durable seq, and the time when the first of them was written.
    unsynced: Vec<u8>,
    unsynced_since: Duration,
    /// The offset of the last batch in `unsynced`.
    batch_start: usize,
    retry_at: Duration,
    retry_pause: Duration,
    /// True while segments after the durable seq wait for their deletion, because the log was cut.
    is_cut: bool,
}

impl SegmentWriter {
    /// Creates a writer without an active segment. The seqs up to `durable_seq` are durable.
    pub fn new(
        directory: LogDirectory,
        options: &Options,
        clock: Arc<dyn Clock>,
        metrics: Arc<LogMetrics>,
        durable_seq: u64,
    ) -> Self {
        let now = clock.monotonic();
        Self {
            directory,
            clock,
            metrics,
            ack: options.ack,
            sync_after: options.sync_after,
            segment_bytes: options.segment_bytes,
            reserve_until: options.reserve_until(),
            log_id: options.log_id.unwrap_or_else(LogId::random),
            active: None,
            closed: VecDeque::new(),
            closed_bytes: 0,
            next_seq: durable_seq + 1,
            durable_seq,
            unsynced: Vec::new(),
            unsynced_since: now,
            batch_start: 0,
            retry_at: now,
            retry_pause: Duration::from_millis(RETRY_MS_MIN),
            is_cut: false,
        }
    }

    /// Continues with the segments that recovery has left. All records before `next_seq` are durable.
    pub(super) fn resume(
        &mut self,
        log_id: LogId,
        active_segment: ActiveSegment,
        closed_segments: VecDeque<ClosedSegment>,
        next_seq: u64,
    ) {
        self.log_id = log_id;
        self.active = Some(active_segment);
        self.closed = closed_segments;
        self.count_closed_bytes();
        self.next_seq = next_seq;
        self.durable_seq = next_seq - 1;
    }

    pub(super) fn log_id(&self) -> LogId {
        self.log_id
    }

    pub(super) fn closed(&self) -> &VecDeque<ClosedSegment> {
        &self.closed
    }

    /// Returns whether there is an active segment.
    pub fn is_available(&self) -> bool {
        self.active.is_some()
    }

    /// Returns the seq of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the last seq that survives a power cut.
    pub fn durable_seq(&self) -> u64 {
        self.durable_seq
    }

    /// Returns whether all assigned seqs are durable. If not, a new segment would repeat their batches.
    pub fn is_durable(&self) -> bool {
        self.durable_seq + 1 == self.next_seq
    }

    /// Returns the first seq after the closed segments.
    pub(super) fn first_open_seq(&self) -> u64 {
        self.active.as_ref().map_or(self.durable_seq + 1, ActiveSegment::first_seq)
    }

    /// Returns the length of the active segment.
    pub(super) fn active_bytes(&self) -> u64 {
        self.active.as_ref().map_or(0, ActiveSegment::file_bytes)
    }

    /// Returns whether the active segment has records.
    pub(super) fn has_records(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.records() > 0)
    }

    /// Returns whether the active segment has reached a limit.
    pub fn is_full(&self) -> bool {
        let is_full = |active: &ActiveSegment| {
            active.bytes() >= self.segment_bytes || active.records() >= SEGMENT_RECORDS_MAX
        };
        self.has_records() && self.active.as_ref().is_some_and(is_full)
    }

    /// Gives seqs to a new batch, and adds it to the unsynced ones. `encode` gets the first seq, appends the records, and
    /// returns their number. Returns this number, too. Without records there is no batch.
    ///
    /// # Errors
    /// The error of `encode`. There is no batch then.
    pub fn add_batch(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64) -> io::Result<u32>,
    ) -> io::Result<u32> {
        self.batch_start = begin_batch(&mut self.unsynced);
        let encoded = encode(&mut self.unsynced, self.next_seq);
        let count = *encoded.as_ref().unwrap_or(&0);
        if count == 0 {
            self.unsynced.truncate(self.batch_start);
            return encoded;
        }
        end_batch(&mut self.unsynced, self.batch_start, self.next_seq, count, self.durable_seq);
        if self.batch_start == 0 {
            self.unsynced_since = self.clock.monotonic();
        }
        self.next_seq += u64::from(count);
        encoded
    }

    /// Returns the batch that was added last. It is available until [`clear_synced`](Self::clear_synced).
    pub(super) fn last_batch(&self) -> Batch<'_> {
        Batch::from_trusted(&self.unsynced[self.batch_start..])
    }

    /// Removes the batch that was added last, which is not persisted. The next batch gets its seqs.
    pub fn remove_last_batch(&mut self) {
        self.next_seq = self.last_batch().records.first_seq;
        self.unsynced.truncate(self.batch_start);
    }

    /// Appends the last batch to the active segment, and syncs it if `--ack disk` requires that. Returns the duration
    /// of append and sync, or `None` without a sync. `log_ms` is the log clock, here and in the other operations.
    ///
    /// # Errors
    /// The disk fails, or there is no active segment. There is none afterwards.
    pub fn persist(&mut self, log_ms: i64) -> io::Result<Option<Duration>> {
        let began = self.clock.monotonic();
        let Some(active) = &mut self.active else { return Err(unavailable()) };
        let appended = active.append(&self.unsynced[self.batch_start..]);
        self.close_after_error(appended, log_ms)?;
        match self.ack {
            Ack::Disk => self.sync_since(began, log_ms),
            Ack::Written => Ok(None),
        }
    }

    /// Syncs the active segment. Returns the duration.
    ///
    /// # Errors
    /// As for [`persist`](Self::persist).
    pub fn sync(&mut self, log_ms: i64) -> io::Result<Option<Duration>> {
        self.sync_since(self.clock.monotonic(), log_ms)
    }

    fn sync_since(&mut self, start: Duration, log_ms: i64) -> io::Result<Option<Duration>> {
        let Some(active) = &mut self.active else { return Err(unavailable()) };
        let synced = active.sync();
        self.close_after_error(synced, log_ms)?;
        self.durable_seq = self.next_seq - 1;
        Ok(Some(self.clock.monotonic() - start))
    }

    fn close_after_error(&mut self, result: io::Result<()>, log_ms: i64) -> io::Result<()> {
        if result.is_err() {
            self.close(log_ms);
        }
        result
    }

    /// Moves the active segment to the closed ones. Nothing is written to it after this, except its footer.
    fn close(&mut self, log_ms: i64) -> Option<ActiveSegment> {
        let active = self.active.take()?;
        self.closed.push_back(ClosedSegment {
            first_seq: active.first_seq(),
            bytes: active.file_bytes(),
            closed_ms: log_ms,
        });
        self.count_closed_bytes();
        Some(active)
    }

    /// Counts the bytes of the closed segments after a change of them.
    fn count_closed_bytes(&mut self) {
        self.closed_bytes = self.closed.iter().map(|closed| closed.bytes).sum();
    }

    /// Closes the active segment without its footer. A new one is begun after the pause.
    pub(super) fn abandon(&mut self, log_ms: i64) {
        self.close(log_ms);
        self.plan_retry();
    }

    /// Begins a segment after a failure, with all batches that are not durable. All assigned seqs are then durable. The
    /// segment reserves no zeros, because reserving may be the operation that failed. Returns the duration.
    ///
    /// # Errors
    /// The disk fails, or the directory is not in its place.
    pub fn begin(&mut self, log_ms: i64) -> io::Result<Option<Duration>> {
        self.begin_reserving(0, log_ms)
    }

    /// Begins a segment after the one that was sealed, as [`begin`](Self::begin) does, and reserves zeros in it.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub fn begin_next(&mut self, log_ms: i64) -> io::Result<Option<Duration>> {
        self.begin_reserving(self.reserve_until, log_ms)
    }

    fn begin_reserving(&mut self, reserve_until_offset: u64, log_ms: i64) -> io::Result<Option<Duration>> {
        let began = self.clock.monotonic();
        let header = Header { first_seq: self.durable_seq + 1, created_ms: log_ms, log_id: self.log_id };
        let checked = self.directory.check_identity().and_then(|()| self.finish_cut());
        let created = checked.and_then(|()| {
            ActiveSegment::create(&self.directory, header, &self.unsynced, reserve_until_offset)
        });
        let active = created.inspect_err(|_| self.plan_retry())?;
        self.closed.retain(|closed| closed.first_seq != active.first_seq());
        self.count_closed_bytes();
        self.active = Some(active);
        self.durable_seq = self.next_seq - 1;
        self.retry_pause = Duration::from_millis(RETRY_MS_MIN);
        Ok(Some(self.clock.monotonic() - began))
    }

    /// Sets the time of the next attempt to begin a segment.
    pub(super) fn plan_retry(&mut self) {
        self.retry_at = self.clock.monotonic() + self.retry_pause;
        self.retry_pause = (self.retry_pause * 2).min(Duration::from_millis(RETRY_MS_MAX));
    }

    /// Returns whether the next attempt to begin a segment is due.
    pub fn is_retry_due(&self) -> bool {
        self.active.is_none() && self.clock.monotonic() >= self.retry_at
    }

    /// Forgets the batches that are durable and were passed to the consumer.
    pub fn clear_synced(&mut self) {
        if self.is_durable() {
            self.unsynced.clear();
        }
    }

    /// Returns whether the active segment must be synced now.
    pub(super) fn is_sync_due(&self) -> bool {
        let is_due =
            self.unsynced.len() >= UNSYNCED_BYTES_MAX / 2 || self.clock.monotonic() >= self.sync_due();
        self.is_available() && !self.unsynced.is_empty() && is_due
    }

    fn sync_due(&self) -> Duration {
        self.unsynced_since + self.sync_after
    }

    /// Returns the time at which the next sync, or the next attempt to begin a segment, is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        match self.active {
            Some(_) => (!self.unsynced.is_empty()).then(|| self.sync_due()),
            None => Some(self.retry_at),
        }
    }

    /// Closes the active segment, all of which is durable, with its footer. The caller then begins another one.
    ///
    /// # Errors
    /// The disk fails. That loses nothing: readers scan a segment without a footer.
    pub fn seal(&mut self, log_ms: i64) -> io::Result<()> {
        let Some(active) = self.close(log_ms) else { return Ok(()) };
        let bytes = active.seal()?;
        if let Some(closed) = self.closed.back_mut() {
            closed.bytes = bytes;
        }
        self.count_closed_bytes();
        Ok(())
    }

    /// Ends the log: writes the footer of the active segment if it has records and all of them are durable.
    ///
    /// # Errors
    /// As for [`seal`](Self::seal).
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.active.take() {
            Some(active) if active.records() > 0 && self.is_durable() => active.seal().map(drop),
            _ => Ok(()),
        }
    }

    /// Returns whether the active segment does not state the durable seq yet.
    pub fn needs_mark(&self) -> bool {
        let is_behind = |active: &ActiveSegment| active.durable_watermark() < self.durable_seq;
        self.unsynced.is_empty() && self.active.as_ref().is_some_and(is_behind)
    }

    /// Appends a mark, an empty batch that states the durable seq, so that readers see the last records.
    ///
    /// # Errors
    /// As for [`persist`](Self::persist).
    pub fn append_mark(&mut self, log_ms: i64) -> io::Result<()> {
        let mut mark = Vec::with_capacity(BATCH_HEADER_BYTES);
        let start = begin_batch(&mut mark);
        end_batch(&mut mark, start, self.next_seq, 0, self.durable_seq);
        let Some(active) = &mut self.active else { return Err(unavailable()) };
        let appended = active.append(&mark);
        self.close_after_error(appended, log_ms)
    }

    /// Removes the records after `seq`, all of which other records replace. The segments that begin later are deleted, the
    /// newest first, and a new segment voids the rest of the one that contains `seq`.
    ///
    /// # Errors
    /// The disk fails. There is no active segment then, and the caller begins one, which finishes the removal.
    #[cfg(feature = "cluster")]
    pub(super) fn cut_after(&mut self, seq: u64, log_ms: i64) -> io::Result<()> {
        self.close(log_ms);
        self.unsynced.clear();
        self.next_seq = seq + 1;
        self.durable_seq = seq;
        self.is_cut = true;
        self.begin_next(log_ms).map(drop)
    }

    /// Deletes the segments after the durable seq, if the log was cut there, and the column file of the one before, which can
    /// have records that the next segment voids.
    fn finish_cut(&mut self) -> io::Result<()> {
        while let Some(last) = self.closed.back().filter(|_| self.is_cut) {
            if last.first_seq <= self.durable_seq {
                self.directory.delete_column_file(last.first_seq)?;
                break;
            }
            self.directory.delete_segment(last.first_seq)?;
            // A crash must not leave a hole.
            self.directory.sync()?;
            self.closed.pop_back();
        }
        self.is_cut = false;
        Ok(())
    }

    /// Returns how many closed segments could be deleted. While the disk is unavailable, the last one may hold batches
    /// that the next segment must repeat.
    pub(super) fn deletable_count(&self) -> usize {
        self.closed.len() - usize::from(!self.is_available() && !self.closed.is_empty())
    }

    /// Returns how many of the oldest closed segments hold no record after `checkpointed_seq`. The consumer needs only
    /// later records.
    pub(super) fn unneeded_count(&self, checkpointed_seq: u64) -> usize {
        let nexts = self.closed.iter().skip(1).map(|closed| closed.first_seq).chain([self.first_open_seq()]);
        nexts.take_while(|next| next.saturating_sub(1) <= checkpointed_seq).count()
    }

    /// Deletes the first `count` closed segments. The file `oldest` records the deletion durably before any segment is
    /// deleted.
    ///
    /// # Errors
    /// The directory is not in its place, or an I/O error occurs.
    pub(super) fn delete_first(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let first_seq = self.closed[0].first_seq;
        let oldest = self.closed.get(count).map_or(self.first_open_seq(), |closed| closed.first_seq);
        self.directory.check_identity()?;
        self.directory.set_oldest(oldest)?;
        let bytes: u64 = self.closed.iter().take(count).map(|closed| closed.bytes).sum();
        let expired = self.closed.drain(..count);
        let removed: Vec<io::Result<()>> =
            expired.map(|closed| self.directory.delete_segment(closed.first_seq)).collect();
        self.count_closed_bytes();
        self.metrics.deleted_segments.fetch_add(count as u64, Ordering::Relaxed);
        tracing::info!(
            segments = count,
            first_seq,
            last_seq = oldest - 1,
            bytes,
            "retention deleted segments"
        );
        removed.into_iter().collect()
    }

    /// Publishes the number and the bytes of the segments and the seqs in the metrics.
    pub(super) fn publish_metrics(&self) {
        let LogMetrics { segments, segment_bytes, last_seq, durable_seq, .. } = &*self.metrics;
        self.metrics.set_available(self.is_available());
        segments.store(self.closed.len() as u64 + u64::from(self.is_available()), Ordering::Relaxed);
        segment_bytes.store(self.closed_bytes + self.active_bytes(), Ordering::Relaxed);
        last_seq.store(self.next_seq - 1, Ordering::Relaxed);
        durable_seq.store(self.durable_seq, Ordering::Release);
    }
}

pub(super) fn unavailable() -> io::Error {
    io::Error::other("the disk does not accept events")
}
