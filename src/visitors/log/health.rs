//! The health of the log's disk: log lines and metrics of failures and of recoveries.
//!
//! Failures that follow each other closely are one *episode*. An episode begins with the first failed
//! operation, and ends when the writer has a segment and no operation has failed for a second. A disk that is
//! nearly full accepts a small batch and refuses the next large one, so a shorter time would report each of
//! these changes.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::metrics::LogMetrics;
use super::writer::LogWriter;
use crate::limits::DISK_RECOVERED_MS;

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
    pub(super) fn add_failure(&mut self, error: &io::Error, now: Duration) {
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
            self.metrics.write_errors.fetch_add(1, Ordering::Relaxed);
            self.health.add_failure(error, self.clock.monotonic());
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
