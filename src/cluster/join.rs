//! The rule that decides whether a node is ready. A starting node waits until it has read to the end of the stream and is
//! the member of its name: no time limit ends this. Later a setting can limit the lag.
//!
//! The exception: if no NATS server can be reached for 10 s, a node that has joined before is ready with the profiles that
//! it has, unless they are too old (`--start-alone`). A ready node that loses the stream stays ready.

use super::members::Standing;
pub use crate::metrics::cluster::NotReady;

/// Lag with which a start is complete, in ms. The end of a busy stream moves on while the node reads.
pub const JOINED_LAG_MS_MAX: i64 = 1_000;
/// Time without a NATS server after which a node can be ready alone, in ms. A change of the leader takes 4 to 9 s.
pub const UNREACHABLE_MS: i64 = 10_000;

/// The progress of a node in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub standing: Standing,
    /// True if a NATS server has answered on the present connection.
    pub is_reachable: bool,
    /// True if the node reads the stream.
    pub is_following: bool,
    /// True if the node has read to the end that the stream had at the connection.
    pub is_caught_up: bool,
    /// The time of the last message of the stream minus that of the last processed one, in ms.
    pub lag_ms: i64,
}

/// Decides whether a node is ready.
#[derive(Debug)]
pub struct Readiness {
    /// True if the profiles of the start are recent, and of a node that has joined before.
    may_start_alone: bool,
    /// `None`: no lag is too long.
    lag_ms_max: Option<i64>,
    /// The time of the first look without a reachable server, in ms of a monotonic clock.
    unreachable_since_ms: Option<i64>,
    /// True after the node has read to the end of the stream with the present profiles.
    has_joined: bool,
}

impl Readiness {
    /// Creates the rule of a start.
    pub fn new(may_start_alone: bool, lag_ms_max: Option<i64>) -> Self {
        Self { may_start_alone, lag_ms_max, unreachable_since_ms: None, has_joined: false }
    }

    /// Returns why the node is not ready. `None`: it is ready.
    pub fn look(&mut self, progress: Progress, now_ms: i64) -> Option<NotReady> {
        self.unreachable_since_ms = match progress.is_reachable {
            true => None,
            false => self.unreachable_since_ms.or(Some(now_ms)),
        };
        match progress.standing {
            Standing::Replaced => return Some(NotReady::Replaced),
            Standing::NameInUse => return Some(NotReady::NameInUse),
            Standing::Member => {
                self.has_joined |= progress.is_caught_up && progress.lag_ms <= JOINED_LAG_MS_MAX;
            }
            Standing::Applicant => {}
        }
        if !self.has_joined {
            return (!self.is_alone_for_long(now_ms)).then_some(NotReady::Joining);
        }
        let is_late = |max: &i64| progress.is_following && progress.lag_ms > *max;
        self.lag_ms_max.filter(is_late).map(|_| NotReady::Lagging)
    }

    fn is_alone_for_long(&self, now_ms: i64) -> bool {
        let since_ms = self.unreachable_since_ms.filter(|_| self.may_start_alone);
        since_ms.is_some_and(|since_ms| now_ms - since_ms >= UNREACHABLE_MS)
    }

    /// Notes that the profiles were replaced by earlier ones.
    pub fn on_loaded(&mut self) {
        self.has_joined = false;
    }

    /// Returns when the node is ready alone at the earliest, in ms of the same clock. `None` if it will not be.
    pub fn deadline_ms(&self) -> Option<i64> {
        let since_ms = self.unreachable_since_ms.filter(|_| self.may_start_alone && !self.has_joined)?;
        Some(since_ms + UNREACHABLE_MS)
    }
}
