//! What a window of a load came to: counts, CPU time, latencies. Windows of the same thing add up.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longest latency that is told from longer ones.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Digits that hold of a latency.
pub const DIGITS: u8 = 3;

/// What a window came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it was.
    pub seconds: f64,
    /// Requests that were answered in it as expected.
    pub completed: u64,
    /// Answers that were looked at whole.
    pub checked: u64,
    /// Requests whose answer was not as expected, or did not come.
    pub failed: u64,
    /// What was wrong with the first of them.
    pub failure: Option<String>,
    /// Bytes received.
    pub received_bytes: u64,
    /// In nanoseconds. Closed loop: from when it was sent. Open loop: from when it should have been sent.
    pub latency_ns: Histogram<u64>,
    /// Open loop: requests that were due.
    pub due: u64,
    /// Open loop: of these, requests that left over [`LATE_AFTER`] late.
    pub late: u64,
    /// User and system time of the server's process, all its threads.
    pub server_cpu: Duration,
    /// The same of the generator.
    pub generator_cpu: Duration,
}

/// A request that leaves so much later than it should makes the generator part of the measurement.
pub const LATE_AFTER: Duration = Duration::from_micros(50);
/// Part of all requests that may be late; more and the run is void.
pub const LATE_MAX: f64 = 0.01;

impl Outcome {
    pub fn server_us_per_request(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.completed as f64
    }

    pub fn generator_us_per_request(&self) -> f64 {
        self.generator_cpu.as_secs_f64() * 1e6 / self.completed as f64
    }

    pub fn per_second(&self) -> f64 {
        self.completed as f64 / self.seconds
    }

    /// Whether so many requests left late that its latencies are the generator's.
    pub fn is_void(&self) -> bool {
        self.late as f64 > self.due as f64 * LATE_MAX
    }
}

/// A window of a second with so many requests that were answered after a millisecond, at so many microseconds of CPU time.
#[cfg(test)]
pub fn sample(completed: u64, server_us: f64) -> Outcome {
    let mut latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("bounds that hold");
    latency_ns.record_n(1_000_000, completed).expect("within the bounds");
    Outcome {
        seconds: 1.0,
        completed,
        checked: completed,
        failed: 0,
        failure: None,
        received_bytes: completed * 100,
        latency_ns,
        due: completed,
        late: 0,
        server_cpu: Duration::from_secs_f64(completed as f64 * server_us / 1e6),
        generator_cpu: Duration::from_micros(completed),
    }
}
