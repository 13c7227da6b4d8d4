//! The only module that reads the clock. Times are Unix milliseconds; durations are monotonic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time for the log. Tests provide their own.
pub trait Clock: Send + Sync {
    /// Returns the milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Returns the time since a fixed moment. It never decreases.
    fn monotonic(&self) -> Duration;
}

/// The system clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { start: instant() }
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
        instant() - self.start
    }
}

/// Returns the milliseconds since 1970, UTC; 0 if the system clock is set before 1970.
pub fn now_ms() -> i64 {
    since_epoch().as_millis() as i64
}

/// Returns the seconds since 1970, UTC.
pub(crate) fn now_s() -> u64 {
    since_epoch().as_secs()
}

/// Returns the current instant, to measure durations from.
pub fn instant() -> Instant {
    Instant::now()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
