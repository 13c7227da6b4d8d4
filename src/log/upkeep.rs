//! The upkeep part of the log writer: the log clock, the health of the disk, and the times of all work that no request
//! causes.
//!
//! # Invariants
//!
//! * The log clock never moves back. It moves once in a step, so all decisions of a step see one time.
//! * Each check returns true at most once in its interval: the next one is due an interval after it.
//! * A failed operation is counted and belongs to an episode, which ends after a time without a failure.
//!
//! This part changes no segment and touches no file except `clock`. It says when work is due, and the writer does it.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::active_segment::ClosedSegment;
use super::directory::LogDirectory;
use super::format::Batch;
use super::health::{DiskHealth, PLACE_CHECK_MS};
use super::metrics::LogMetrics;
use super::{Options, log_clock};
use crate::clock::{Clock, LogClock};
use crate::limits::{RETAIN_MS_MIN, RETENTION_INTERVAL_MS, WATERMARK_AFTER_MS};

/// The timed work of one log writer.
pub struct Upkeep {
    clock: Arc<dyn Clock>,
    metrics: Arc<LogMetrics>,
    health: DiskHealth,
    pub(super) log_clock: LogClock,
    /// The log clock when it was saved last, in milliseconds.
    clock_saved_ms: i64,
    retain_ms: Option<i64>,
    retain_bytes: Option<u64>,
    /// The time of the last batch.
    written_at: Duration,
    retention_at: Duration,
    /// The time of the next check that directory and segment are in their place.
    place_check_at: Duration,
}

impl Upkeep {
    /// Creates the state at the start of a log. The log clock begins at the wall clock.
    pub fn new(options: &Options, clock: Arc<dyn Clock>, metrics: Arc<LogMetrics>) -> Self {
        let now = clock.monotonic();
        Self {
            metrics,
            health: DiskHealth::default(),
            log_clock: LogClock::new(None, &*clock),
            clock_saved_ms: i64::MIN,
            retain_ms: options.retain_ms,
            retain_bytes: options.retain_bytes,
            written_at: now,
            retention_at: now,
            place_check_at: now + Duration::from_millis(PLACE_CHECK_MS),
            clock,
        }
    }

    /// Moves the log clock, and logs a jump of the wall clock.
    pub fn advance_log_clock(&mut self) {
        log_clock::warn_if_jumped(self.log_clock.advance(&*self.clock));
    }

    /// Returns the log clock, in milliseconds.
    pub fn log_ms(&self) -> i64 {
        self.log_clock.now_ms()
    }

    /// Saves the log clock in the directory.
    ///
    /// # Errors
    /// An I/O error. The next attempt is made when the clock has moved by some minutes.
    pub(super) fn save_log_clock(&mut self, directory: &LogDirectory) -> io::Result<()> {
        self.clock_saved_ms = self.log_ms();
        log_clock::save(directory, self.clock_saved_ms)
    }

    /// Returns whether the log clock has moved by some minutes since it was saved.
    pub(super) fn is_clock_save_due(&self) -> bool {
        self.log_ms().saturating_sub(self.clock_saved_ms) >= log_clock::LOG_CLOCK_SAVE_MS
    }

    /// Counts and logs the error of an operation, if it failed.
    pub(super) fn note_result<T>(&mut self, result: &io::Result<T>) {
        if let Err(error) = result {
            self.note_error(error);
        }
    }

    /// Counts and logs an error of the disk.
    pub fn note_error(&mut self, error: &dyn Display) {
        self.metrics.write_errors.fetch_add(1, Ordering::Relaxed);
        self.health.add_failure(error, self.clock.monotonic());
    }

    /// Publishes and logs whether events can be recorded. `is_available` says whether the writer has a segment.
    pub fn report_health(&mut self, is_available: bool) {
        let is_recording = self.health.report(is_available, self.clock.monotonic());
        self.metrics.recording.store(is_recording, Ordering::Relaxed);
    }

    /// Counts a persisted batch. The mark of an idle writer is due some time after the last one.
    pub(super) fn note_batch(&mut self, batch: &Batch<'_>) {
        self.metrics.batches.fetch_add(1, Ordering::Relaxed);
        self.metrics.records.fetch_add(u64::from(batch.records.count), Ordering::Relaxed);
        self.metrics.bytes.fetch_add(batch.bytes.len() as u64, Ordering::Relaxed);
        self.written_at = self.clock.monotonic();
    }

    /// Returns the time at which the mark of an idle writer is due.
    pub(super) fn mark_due(&self) -> Duration {
        self.written_at + Duration::from_millis(WATERMARK_AFTER_MS)
    }

    /// Returns whether a check of the place of directory and segment is due, which is once a second.
    pub fn begin_place_check(&mut self) -> bool {
        is_due(&mut self.place_check_at, self.clock.monotonic(), PLACE_CHECK_MS)
    }

    /// Returns whether retention is due.
    pub fn begin_retention(&mut self) -> bool {
        // Delete nothing during an erasure: the rename of a rewritten segment would restore a deleted one.
        self.has_retention()
            && is_due(&mut self.retention_at, self.clock.monotonic(), RETENTION_INTERVAL_MS)
            && !self.metrics.erasing.load(Ordering::SeqCst)
    }

    fn has_retention(&self) -> bool {
        self.retain_ms.is_some() || self.retain_bytes.is_some()
    }

    /// Returns how many of the oldest closed segments have expired, by age or by the size of all segments. The size
    /// includes `active_bytes`.
    pub fn expired_count(&self, closed_segments: &VecDeque<ClosedSegment>, active_bytes: u64) -> usize {
        let mut bytes = active_bytes + closed_segments.iter().map(|closed| closed.bytes).sum::<u64>();
        let is_expired = |closed: &&ClosedSegment| {
            let age_ms = self.log_ms().saturating_sub(closed.closed_ms);
            let is_old = self.retain_ms.is_some_and(|retain_ms| age_ms > retain_ms);
            let is_over = self.retain_bytes.is_some_and(|retain_bytes| bytes > retain_bytes);
            bytes -= closed.bytes;
            is_old || (is_over && age_ms > RETAIN_MS_MIN)
        };
        closed_segments.iter().take_while(is_expired).count()
    }

    /// Returns the time at which the next work is due, except the mark. `is_available` says whether the writer has a
    /// segment.
    pub fn next_due(&self, is_available: bool) -> Option<Duration> {
        let place = is_available.then_some(self.place_check_at);
        let recovery = self.health.recovery_due().filter(|_| is_available);
        let retention = self.has_retention().then_some(self.retention_at);
        [place, recovery, retention].into_iter().flatten().min()
    }
}

/// Returns whether work is due at `due_at`. If so, it is due again after the interval.
fn is_due(due_at: &mut Duration, now: Duration, interval_ms: u64) -> bool {
    if now < *due_at {
        return false;
    }
    *due_at = now + Duration::from_millis(interval_ms);
    true
}
