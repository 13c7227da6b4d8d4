//! What one generator thread counts, and what the counts of all come to.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::outcome::{DIGITS, LATENCY_NS_MAX, Outcome};

/// The counts of one thread; latencies and requests of the window only, failures of the whole run.
pub struct Tally {
    pub completed: u64,
    pub checked: u64,
    pub failed: u64,
    /// What was wrong first.
    pub failure: Option<String>,
    pub received_bytes: u64,
    pub latency_ns: Histogram<u64>,
    pub due: u64,
    pub late: u64,
    /// Of the thread, in the window.
    pub cpu: Duration,
}

impl Tally {
    pub fn new() -> Self {
        let latency_ns = Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("its bounds are in order");
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

    /// Counts requests without an answer as it should be.
    pub fn fail(&mut self, requests: u64, what: impl FnOnce() -> String) {
        if requests > 0 {
            self.failed += requests;
            self.failure.get_or_insert_with(what);
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

    /// What the threads counted, and what the server took in the same window.
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
