//! The only place that asks what time it is. Times are Unix milliseconds; durations are monotonic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
