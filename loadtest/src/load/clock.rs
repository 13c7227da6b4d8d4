//! The clock of a run, in nanoseconds since its creation. Every thread has a copy.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

#[derive(Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }

    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Sleeps until the time `at`.
    pub fn sleep_until(&self, at: u64) {
        std::thread::sleep(Duration::from_nanos(at.saturating_sub(self.now())));
    }
}

/// Returns the user and system time of the calling thread.
pub fn thread_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}
