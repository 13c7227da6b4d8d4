//! The counts of one generator thread, and their sum over all threads.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::outcome::{LATENCY_DIGITS, LATENCY_NS_MAX, Outcome};

/// The counts of one thread. Latencies and requests are those of the window, failures those of the whole run.
pub struct Tally {
    pub completed: u64,
    pub checked: u64,
    pub failed: u64,
    /// Description of the first failure.
    pub failure: Option<String>,
    pub received_bytes: u64,
    pub latency_ns: Histogram<u64>,
    pub due: u64,
    pub late: u64,
    /// CPU time of the thread in the window.
    pub cpu: Duration,
}

impl Tally {
    pub fn new() -> Self {
        let latency_ns =
            Histogram::new_with_max(LATENCY_NS_MAX, LATENCY_DIGITS).expect("its bounds are in order");
        Self {
            completed: 0,
            checked: 0,
            failed: 0,
            failure: None,
            received_bytes: 0,
            latency_ns,
            due: 0,
            late: 0,
            cpu: Duration::ZERO,
        }
    }

    /// Counts failed requests. Keeps the description of the first failure.
    pub fn fail(&mut self, requests: u64, describe: impl FnOnce() -> String) {
        if requests > 0 {
            self.failed += requests;
            self.failure.get_or_insert_with(describe);
        }
    }

    fn add(&mut self, other: Self) {
        self.completed += other.completed;
        self.checked += other.checked;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.received_bytes += other.received_bytes;
        self.latency_ns.add(&other.latency_ns).expect("both have the same bounds");
        self.due += other.due;
        self.late += other.late;
        self.cpu += other.cpu;
    }

    /// Sums up the threads' counts and adds the server's CPU time in the same window.
    pub fn outcome(all: impl IntoIterator<Item = Self>, window: Duration, server_cpu: Duration) -> Outcome {
        let mut sum = Self::new();
        all.into_iter().for_each(|tally| sum.add(tally));
        Outcome {
            seconds: window.as_secs_f64(),
            completed: sum.completed,
            checked: sum.checked,
            failed: sum.failed,
            failure: sum.failure,
            received_bytes: sum.received_bytes,
            latency_ns: sum.latency_ns,
            due: sum.due,
            late: sum.late,
            server_cpu,
            generator_cpu: sum.cpu,
        }
    }
}
