//! The counters of the serving threads and of publishing, for `/metrics`.
//!
//! Each thread counts in its own [`Counters`], without a lock or an atomic, and adds them to the shared
//! [`Totals`] once a second. Counting costs a request a few plain additions, and `/metrics` is at most a
//! second old.

#[cfg(feature = "cluster")]
pub(crate) mod cluster;
mod event_counters;
mod readings;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use event_counters::EventCounters;
pub(crate) use hdrhistogram::Histogram;
pub(crate) use readings::readings;

use crate::problem::{self, ProblemKind};

/// Status classes: 1xx to 5xx, as indexes 0 to 4.
pub(crate) const STATUS_CLASSES: usize = 5;
/// Returns the status class of a response, 0 to 4 for 1xx to 5xx. The first digit follows "HTTP/1.1 ".
pub(crate) fn status_class(response: &[u8]) -> usize {
    response.get(9).map_or(4, |digit| usize::from(digit.saturating_sub(b'1')).min(4))
}

/// Significant decimal digits of a histogram: a quantile is exact to 1 %.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Lower bound of the histograms, in nanoseconds. No request is read and answered in less time.
const LATENCY_MIN_NS: u64 = 64;
/// Upper bound of the histograms, in nanoseconds: 60 s. A longer response counts as 60 s. No request waits
/// longer: the bound covers the longest wait of an event for its disk.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// An event in the life of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// The connection was accepted and served.
    Accepted,
    /// The connection exceeded the limit of open connections.
    Refused,
    /// The connection could not be accepted, because descriptors or memory ran out.
    Failed,
    /// A timeout closed the connection.
    TimedOut,
    /// A panic in the handler closed the connection.
    Panicked,
}

impl ConnectionEvent {
    /// All events with their label values. The position of each is its discriminant.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Accepted, "accepted"),
        (Self::Refused, "refused"),
        (Self::Failed, "failed"),
        (Self::TimedOut, "timed_out"),
        (Self::Panicked, "panicked"),
    ];
}

/// The counters of one thread, or the sum over all threads.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Time from the receipt of a request to the end of its response, in nanoseconds, by endpoint and class.
    latencies: Vec<[Histogram<u64>; STATUS_CLASSES]>,
    /// Problems sent, in the order of `problem::ALL`.
    problem_counts: Vec<u64>,
    connection_event_counts: [u64; ConnectionEvent::ALL.len()],
    sent_bytes: u64,
}

impl Counters {
    /// Creates counters at zero for `endpoint_count` endpoints. Allocates all memory that counting needs.
    pub fn new(endpoint_count: usize) -> Self {
        let classes: [_; STATUS_CLASSES] = std::array::from_fn(|_| new_histogram());
        Self {
            latencies: vec![classes; endpoint_count],
            problem_counts: vec![0; problem::ALL.len()],
            connection_event_counts: Default::default(),
            sent_bytes: 0,
        }
    }

    /// Counts a response of the endpoint with this index: its status class, latency and size.
    pub fn record_response(
        &mut self,
        endpoint_index: usize,
        status_class: usize,
        duration: Duration,
        bytes: usize,
    ) {
        self.latencies[endpoint_index][status_class].saturating_record(duration.as_nanos() as u64);
        self.sent_bytes += bytes as u64;
    }

    /// Counts a problem that was sent.
    pub fn record_problem(&mut self, kind: &'static ProblemKind) {
        if let Some(index) = problem::ALL.iter().position(|known| *known == kind) {
            self.problem_counts[index] += 1;
        }
    }

    /// Counts an event of a connection.
    pub fn record_connection_event(&mut self, event: ConnectionEvent) {
        self.connection_event_counts[event as usize] += 1;
    }

    /// Returns the latencies of an endpoint and status class, in nanoseconds.
    pub fn latency(&self, endpoint_index: usize, status_class: usize) -> &Histogram<u64> {
        &self.latencies[endpoint_index][status_class]
    }

    /// Returns the number of problems sent, by kind.
    pub fn problems(&self) -> impl Iterator<Item = (&'static ProblemKind, u64)> {
        problem::ALL.iter().copied().zip(self.problem_counts.iter().copied())
    }

    /// Returns how often the event occurred.
    pub fn connection_events(&self, event: ConnectionEvent) -> u64 {
        self.connection_event_counts[event as usize]
    }

    /// Returns the bytes of all responses.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Adds the counts of `other` and resets `other` to zero. Allocates nothing.
    fn drain_from(&mut self, other: &mut Self) {
        let ours = self.latencies.as_flattened_mut();
        let theirs = other.latencies.as_flattened_mut();
        for (ours, theirs) in ours.iter_mut().zip(theirs).filter(|(_, theirs)| !theirs.is_empty()) {
            ours.add(&*theirs).expect("both have the same bounds");
            theirs.reset();
        }
        drain_counts(&mut self.problem_counts, &mut other.problem_counts);
        drain_counts(&mut self.connection_event_counts, &mut other.connection_event_counts);
        self.sent_bytes += std::mem::take(&mut other.sent_bytes);
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_MIN_NS, LATENCY_MAX_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants")
}

fn drain_counts(totals: &mut [u64], counts: &mut [u64]) {
    for (totals, counts) in totals.iter_mut().zip(counts) {
        *totals += std::mem::take(counts);
    }
}

/// The sum of the counters that the threads have reported. Clones share it.
#[derive(Debug, Clone)]
pub struct Totals(Arc<Mutex<Counters>>);

impl Totals {
    /// Creates totals at zero.
    pub fn new(endpoint_count: usize) -> Self {
        Self(Arc::new(Mutex::new(Counters::new(endpoint_count))))
    }

    /// Adds the counts of a thread and resets them.
    pub fn drain_from(&self, counters: &mut Counters) {
        self.lock().drain_from(counters);
    }

    /// Returns a copy of the sums.
    pub fn snapshot(&self) -> Counters {
        self.lock().clone()
    }

    /// Locks the sums. A poisoned lock is fine: a panic elsewhere cannot leave them half updated.
    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A histogram of durations, in nanoseconds. Clones share it.
#[derive(Debug, Clone)]
pub struct LatencyHistogram(Arc<Mutex<Histogram<u64>>>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(new_histogram())))
    }
}

impl LatencyHistogram {
    /// Records a duration.
    pub fn record(&self, duration: Duration) {
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.saturating_record(duration.as_nanos() as u64);
    }

    /// Returns a copy of the histogram.
    pub fn snapshot(&self) -> Histogram<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counters of the files in `snapshots/`. Clones share them: publishing is rare.
#[derive(Debug, Clone, Default)]
pub struct PublishCounters(Arc<[AtomicU64; 4]>);

impl PublishCounters {
    /// Counts an activated snapshot.
    pub fn record_activation(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `new_count` rejections, and sets the number of present ones to `current_count`.
    pub fn record_rejections(&self, new_count: usize, current_count: usize) {
        self.0[1].fetch_add(new_count as u64, Ordering::Relaxed);
        self.0[2].store(current_count as u64, Ordering::Relaxed);
    }

    /// Sets the number of files that are not served because of their lower version.
    pub fn set_superseded(&self, count: usize) {
        self.0[3].store(count as u64, Ordering::Relaxed);
    }

    /// Returns the activated snapshots, all rejections, the present rejections, and the superseded files.
    pub fn snapshot(&self) -> [u64; 4] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}

/// Counters of the messages about publications. Clones share them: publishing is rare.
#[derive(Debug, Clone, Default)]
pub struct WebhookCounters(Arc<[AtomicU64; 3]>);

impl WebhookCounters {
    /// Counts an acknowledged message.
    pub fn record_delivery(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed attempt.
    pub fn record_failure(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the number of sites whose served version is not acknowledged.
    pub fn set_pending(&self, site_count: usize) {
        self.0[2].store(site_count as u64, Ordering::Relaxed);
    }

    /// Returns the acknowledged messages, the failed attempts, and the pending messages.
    pub fn snapshot(&self) -> [u64; 3] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}

/// Counters of the snapshots that `--snapshots-from` has delivered. Clones share them: publishing is rare.
#[cfg(feature = "cluster")]
#[derive(Debug, Clone, Default)]
pub struct PullCounters(Arc<[AtomicU64; 2]>);

#[cfg(feature = "cluster")]
impl PullCounters {
    /// Counts a snapshot that was written to the snapshots directory.
    pub fn record_pulled(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed attempt to read the source, or to fetch or remove a file.
    pub fn record_error(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the pulled snapshots and the failed attempts.
    pub fn snapshot(&self) -> [u64; 2] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}

/// Counters of exports and erasures of visitors. Clones share them: these jobs are rare.
#[derive(Debug, Clone, Default)]
pub struct JobCounters(Arc<[AtomicU64; 2]>);

impl JobCounters {
    /// Counts a job that panicked.
    pub fn record_panic(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts damaged places that an export skipped.
    pub fn record_damage(&self, count: u64) {
        self.0[1].fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number of panics and the number of skipped damaged places.
    pub fn snapshot(&self) -> [u64; 2] {
        std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}
