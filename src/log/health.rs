//! The health of the log's disk: log lines and metrics of failures and of recoveries.
//!
//! Failures that follow each other closely are one *episode*. An episode begins with the first failed
//! operation, and ends when the writer has a segment and no operation has failed for a second. A disk that is
//! nearly full accepts a small batch and refuses the next large one, so a shorter time would report each of
//! these changes.

use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::active_segment::SegmentLoss;
use super::directory::segment_name;
use super::metrics::LogMetrics;
use super::verify::{SegmentEntry, SegmentItem, SegmentReader};
use super::writer::LogWriter;
use crate::limits::RETRY_MS_MAX;

/// Time without a failed disk operation after which the log reports that its disk works again, in ms. A nearly
/// full disk accepts some batches and refuses others, and a shorter time would report each change. Together
/// with `RETRY_MS_MAX` it is below the two seconds within which a recovery must be visible.
pub const DISK_RECOVERED_MS: u64 = 1_000;
/// Time between two checks of the log writer that the data directory and the active segment are in their place, and
/// that the segment is whole, in ms. It is half of the two seconds within which a removed directory must be noticed.
pub const PLACE_CHECK_MS: u64 = 1_000;
const _: () = assert!(RETRY_MS_MAX + DISK_RECOVERED_MS < 2_000);

/// The health of the disk, as the writer has seen it so far.
#[derive(Debug, Default)]
pub(super) struct DiskHealth {
    /// The present episode of failures.
    episode: Option<Episode>,
    /// True if the ERROR line of this episode is logged: events cannot be recorded.
    is_reported: bool,
}

#[derive(Debug)]
struct Episode {
    began: Duration,
    last_failure: Duration,
    failures: u64,
    error: String,
}

impl DiskHealth {
    /// Notes a failed operation.
    pub(super) fn add_failure(&mut self, error: &dyn Display, now: Duration) {
        let error = error.to_string();
        let Some(episode) = &mut self.episode else {
            tracing::warn!(%error, "a disk operation of the log failed");
            self.episode = Some(Episode { began: now, last_failure: now, failures: 1, error });
            return;
        };
        (episode.last_failure, episode.error) = (now, error);
        episode.failures += 1;
    }

    /// Reports the present state. `is_available` says whether the writer has a segment. Returns whether
    /// events can be recorded.
    pub(super) fn report(&mut self, is_available: bool, now: Duration) -> bool {
        let Some(episode) = &self.episode else { return is_available };
        if !is_available && !self.is_reported {
            self.is_reported = true;
            let error = &episode.error;
            tracing::error!(%error, "cannot write the log; events get 503 disk_unavailable until the disk works");
        }
        if is_available && now >= episode.end() {
            let failing_ms = (now - episode.began).as_millis() as u64;
            tracing::info!(failures = episode.failures, failing_ms, "the disk of the log works again");
            *self = Self::default();
        }
        is_available && !self.is_reported
    }

    /// Returns the time at which the episode ends if no operation fails until then.
    pub(super) fn recovery_due(&self) -> Option<Duration> {
        self.episode.as_ref().map(Episode::end)
    }
}

impl Episode {
    fn end(&self) -> Duration {
        self.last_failure + Duration::from_millis(DISK_RECOVERED_MS)
    }
}

impl LogWriter {
    /// Counts and logs the error of an operation, if it failed.
    pub(super) fn note_result<T>(&mut self, result: &io::Result<T>) {
        if let Err(error) = result {
            self.note_error(error);
        }
    }

    /// Counts and logs an error of the disk.
    pub(super) fn note_error(&mut self, error: &dyn Display) {
        self.metrics.write_errors.fetch_add(1, Ordering::Relaxed);
        self.health.add_failure(error, self.clock.monotonic());
    }

    /// Checks once a second that directory and segment are in their place, and saves the log clock if it is
    /// due.
    pub(super) fn check_place_if_due(&mut self) {
        let now = self.clock.monotonic();
        if now >= self.place_check_at {
            self.place_check_at = now + Duration::from_millis(PLACE_CHECK_MS);
            self.check_place();
            self.save_log_clock_if_due();
        }
    }

    /// Checks that the paths still lead to the locked directory and to the open segment, and that the segment is
    /// whole. If not, the writer abandons the segment, and acknowledges nothing until it can begin another one in the
    /// locked directory.
    pub(super) fn check_place(&mut self) {
        let Some(active) = &mut self.active else { return };
        let first_seq = active.first_seq();
        let found = self.directory.check_identity().and_then(|()| active.find_loss(&self.directory));
        match found {
            Ok(None) => return,
            Ok(Some(SegmentLoss::Gone)) => {
                self.report_lost_segment(first_seq);
                self.note_error(&"the active segment was deleted, moved or replaced");
            }
            Ok(Some(SegmentLoss::Truncated)) => {
                self.report_truncated_segment(first_seq);
                self.note_error(&"another program has truncated the active segment");
            }
            Err(error) => self.note_error(&error),
        }
        self.close_segment();
        self.plan_retry();
    }

    /// Counts and logs the durable records that the open segment does not have any more. If it cannot be read, these
    /// are all of them.
    fn report_truncated_segment(&mut self, first_seq: u64) {
        let lost = self.lost_records(first_seq);
        self.note_result(&lost);
        let file = segment_name(first_seq);
        let all = first_seq..self.durable_seq + 1;
        let whole = || if all.is_empty() { Vec::new() } else { vec![(0, all)] };
        for (offset, seqs) in lost.unwrap_or_else(|_| whole()) {
            let (first_seq, last_seq) = (seqs.start, seqs.end - 1);
            if self.metrics.damage.note(&file, offset) {
                tracing::error!(
                    %file, first_seq, last_seq,
                    "another program has truncated the active segment; these durable records are lost"
                );
            }
        }
    }

    /// Returns the durable seqs that a segment has lost, as the next start finds them, with the offsets of the damage.
    fn lost_records(&self, first_seq: u64) -> io::Result<Vec<(u64, Range<u64>)>> {
        let place = SegmentEntry {
            named_seq: first_seq,
            first_seq,
            created_ms: None,
            void_from_seq: self.durable_seq + 1,
            log_id: Some(self.log_id),
        };
        let mut reader = SegmentReader::new(&self.directory, &place, self.durable_seq)?;
        let mut lost = Vec::new();
        while let Some(item) = reader.next()? {
            if let SegmentItem::Damage(damage) = item
                && !damage.lost_seqs.is_empty()
            {
                lost.push((damage.offset, damage.lost_seqs));
            }
        }
        Ok(lost)
    }

    /// Counts and logs the durable records of the open segment as lost.
    fn report_lost_segment(&self, first_seq: u64) {
        let (file, last_seq) = (segment_name(first_seq), self.durable_seq);
        if self.metrics.damage.note(&file, 0) {
            tracing::error!(%file, first_seq, last_seq, "the active segment is gone; its durable records are lost");
        }
    }

    /// Publishes the present state in the metrics.
    pub(super) fn publish_metrics(&mut self) {
        let is_available = self.active.is_some();
        let is_recording = self.health.report(is_available, self.clock.monotonic());
        let LogMetrics { available, recording, segments, last_seq, durable_seq, evicted_early, .. } =
            &*self.metrics;
        available.store(is_available, Ordering::Relaxed);
        recording.store(is_recording, Ordering::Relaxed);
        segments.store(self.closed.len() as u64 + u64::from(is_available), Ordering::Relaxed);
        last_seq.store(self.next_seq - 1, Ordering::Relaxed);
        durable_seq.store(self.durable_seq, Ordering::Release);
        evicted_early.store(self.dedup.evicted_early(), Ordering::Relaxed);
    }
}
