//! The time that the host gives, in place of the system clock.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

static NOW_MS: AtomicI64 = AtomicI64::new(0);

/// Sets the time, in milliseconds since 1970, UTC.
pub fn set_now_ms(now_ms: i64) {
    NOW_MS.store(now_ms.max(0), Ordering::Relaxed);
}

/// Returns the milliseconds since 1970, UTC, that the host gave last.
pub fn now_ms() -> i64 {
    NOW_MS.load(Ordering::Relaxed)
}

/// Returns the seconds since 1970, UTC.
pub(crate) fn now_s() -> u64 {
    now_ms() as u64 / 1_000
}

/// A moment, to measure durations from. It has the milliseconds of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// Returns the time since `earlier`, zero if it is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Returns the current instant.
pub fn instant() -> Instant {
    Instant(Duration::from_millis(now_ms() as u64))
}
