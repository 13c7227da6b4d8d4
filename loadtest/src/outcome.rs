//! The result of a window of a load: counts, CPU time and latencies.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Greatest latency in the histogram, in nanoseconds: a minute. Longer ones are recorded as this one.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Significant decimal digits of a latency.
pub const LATENCY_DIGITS: u8 = 3;

/// The result of one window.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Length of the window.
    pub seconds: f64,
    /// Requests with the expected response in the window.
    pub completed: u64,
    /// Responses that were checked completely.
    pub checked: u64,
    /// Requests with a wrong response or none.
    pub failed: u64,
    /// Description of the first failure.
    pub failure: Option<String>,
    /// Bytes received.
    pub received_bytes: u64,
    /// Latency in nanoseconds. Closed loop: since the request was sent. Open loop: since it was due.
    pub latency_ns: Histogram<u64>,
    /// Open loop: requests that were due.
    pub due: u64,
    /// Open loop: due requests that were sent over [`LATE_AFTER`] late.
    pub late: u64,
    /// User and system time of the server's processes, all threads.
    pub server_cpu: Duration,
    /// User and system time of the generator.
    pub generator_cpu: Duration,
}

/// A request sent later than this after its due time is late: its latency includes a delay of the generator.
pub const LATE_AFTER: Duration = Duration::from_micros(50);
/// Greatest share of late requests. With more, the run is void.
pub const LATE_SHARE_MAX: f64 = 0.01;

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

    /// Returns whether so many requests were late that the latencies measure the generator.
    pub fn is_void(&self) -> bool {
        self.late as f64 > self.due as f64 * LATE_SHARE_MAX
    }
}

/// Returns a window of one second with `completed` requests, each with a latency of 1 ms and `server_us` of
/// CPU time. Only tests use it.
pub fn sample(completed: u64, server_us: f64) -> Outcome {
    let mut latency_ns =
        Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS).expect("bounds that hold");
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
