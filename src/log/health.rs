//! The health of the log's disk: log lines of failures and of recoveries.
//!
//! Failures that follow each other closely are one *episode*. An episode begins with the first failed
//! operation, and ends when the writer has a segment and no operation has failed for a second. A disk that is
//! nearly full accepts a small batch and refuses the next large one, so a shorter time would report each of
//! these changes.

use std::fmt::Display;
use std::time::Duration;

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
        episode.last_failure = now;
        episode.error = error;
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
