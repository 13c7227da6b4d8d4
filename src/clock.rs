//! The only module that reads the clock. Times are Unix milliseconds; durations are monotonic.

use std::time::Duration;
pub(crate) use std::time::Instant;

use nix::sys::time::TimeSpec;
use nix::time::ClockId;

/// A source of time for the log. Tests provide their own.
pub trait Clock: Send + Sync {
    /// Returns the milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Returns the time since a fixed moment. It never decreases.
    fn monotonic(&self) -> Duration;
}

/// Largest rate of the log clock: one hour in a minute. 40 days of downtime are caught up in 16 hours, and a wall
/// clock that is wrong for 130 s moves the log clock by about two hours.
const LOG_CLOCK_RATE_MAX: i64 = 60;

/// The clock of the log, by which retention and the dedup window measure age. It follows the wall clock, but
/// moves at most one hour in a minute of monotonic time, and never back. So a wall clock that is wrong for a
/// while deletes little, and expires no message ID early.
#[derive(Debug)]
pub struct LogClock {
    now_ms: i64,
    wall_ms: i64,
    monotonic: Duration,
}

impl LogClock {
    /// Creates a clock that continues at `saved_ms`. Without a saved value it begins at the wall clock.
    pub fn new(saved_ms: Option<i64>, clock: &dyn Clock) -> Self {
        let wall_ms = clock.now_ms();
        Self { now_ms: saved_ms.unwrap_or(wall_ms), wall_ms, monotonic: clock.monotonic() }
    }

    /// Returns the value at the last advance, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Returns how far the wall clock is ahead of this one, in milliseconds. A negative number: it is late.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.wall_ms.saturating_sub(self.now_ms)
    }

    /// Moves toward the wall clock. Returns the jump of the wall clock since the last call, in milliseconds:
    /// the difference of its move and the monotonic time.
    pub fn advance(&mut self, clock: &dyn Clock) -> i64 {
        let passed_ms = (clock.monotonic() - self.monotonic).as_millis() as i64;
        // A part of a millisecond counts at the next call.
        self.monotonic += Duration::from_millis(passed_ms as u64);
        let wall_ms = clock.now_ms();
        let jump_ms = wall_ms.saturating_sub(self.wall_ms).saturating_sub(passed_ms);
        self.wall_ms = wall_ms;
        self.now_ms += self.wall_ahead_ms().clamp(0, passed_ms.saturating_mul(LOG_CLOCK_RATE_MAX));
        jump_ms
    }
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
    let now = since_epoch();
    (now.tv_sec() * 1_000 + now.tv_nsec() / 1_000_000).max(0)
}

/// Returns the seconds since 1970, UTC.
pub(crate) fn now_s() -> u64 {
    since_epoch().tv_sec().max(0) as u64
}

/// Reads the wall clock. This runs for each request, and `SystemTime` checks each reading and each subtraction. It calls the
/// C library, so that a library that is loaded before it can set another time, as the tests of nodes do.
fn since_epoch() -> TimeSpec {
    ClockId::CLOCK_REALTIME.now().unwrap_or(TimeSpec::new(0, 0))
}

/// Returns the CPU time that all threads of the process have taken, in user mode and in the kernel.
pub(crate) fn process_cpu_time() -> Duration {
    // Linux has had this clock since 2.6.12, so the call cannot fail.
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

/// Returns the current instant, to measure durations from.
pub fn instant() -> Instant {
    Instant::now()
}
