//! The rule that decides whether a node is ready. A starting node waits until it has read to the end of the
//! stream. Later a setting can limit the lag.
//!
//! A node that is alone is always ready: the end of the stream is unknown, and the node serves, records and
//! acknowledges.

pub use crate::metrics::cluster::NotReady;

/// Lag with which a start is complete, in ms. The end of a busy stream moves on while the node reads.
pub const JOINED_LAG_MS_MAX: i64 = 1_000;

/// The progress of a node in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// True if the node does not read the stream.
    pub is_alone: bool,
    /// True if the node has read to the end that the stream had at the connection.
    pub is_caught_up: bool,
    /// The time of the last message of the stream minus that of the last processed one, in ms.
    pub lag_ms: i64,
}

/// Decides whether a node is ready.
#[derive(Debug)]
pub struct Readiness {
    join_timeout_ms: i64,
    /// `None`: no lag is too long.
    lag_ms_max: Option<i64>,
    /// The time of the first look, in ms of a monotonic clock.
    begun_ms: Option<i64>,
    /// True after the node has read to the end of the stream once, or after the time limit.
    has_joined: bool,
}

impl Readiness {
    /// Creates the rule of a start. `join_timeout_ms` counts from the first look.
    pub fn new(join_timeout_ms: i64, lag_ms_max: Option<i64>) -> Self {
        Self { join_timeout_ms, lag_ms_max, begun_ms: None, has_joined: false }
    }

    /// Returns why the node is not ready. `None`: it is ready.
    pub fn look(&mut self, progress: Progress, now_ms: i64) -> Option<NotReady> {
        let begun_ms = *self.begun_ms.get_or_insert(now_ms);
        // Also for a node that is alone: the time limit is over only once.
        self.has_joined |= now_ms - begun_ms >= self.join_timeout_ms;
        if progress.is_alone {
            return None;
        }
        self.has_joined |= progress.is_caught_up && progress.lag_ms <= JOINED_LAG_MS_MAX;
        if !self.has_joined {
            return Some(NotReady::Joining);
        }
        self.lag_ms_max.filter(|max| progress.lag_ms > *max).map(|_| NotReady::Lagging)
    }

    /// Returns whether the start is complete.
    pub fn has_joined(&self) -> bool {
        self.has_joined
    }

    /// Returns the end of the time limit, in ms of the same clock. `None` after the start is complete.
    pub fn deadline_ms(&self) -> Option<i64> {
        let begun_ms = self.begun_ms.filter(|_| !self.has_joined)?;
        begun_ms.checked_add(self.join_timeout_ms)
    }
}
