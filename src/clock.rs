//! The only place that asks what time it is. Times are Unix milliseconds; durations are monotonic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What the log asks for time; a test brings its own.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    since: Instant,
}

impl SystemClock {
    /// Its monotonic time begins now.
    pub fn new() -> Self {
        Self { since: instant() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        now_ms()
    }

    fn monotonic(&self) -> Duration {
        instant() - self.since
    }
}

/// Milliseconds since 1970, UTC; 0 on a machine whose clock stands before that.
pub fn now_ms() -> i64 {
    since_epoch().as_millis() as i64
}

/// Seconds since 1970, UTC.
pub fn now_s() -> u64 {
    since_epoch().as_secs()
}

/// A moment to measure durations from.
pub fn instant() -> Instant {
    Instant::now()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
