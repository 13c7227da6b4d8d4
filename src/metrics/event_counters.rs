//! The counters of events that are not in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::problem::{self, ProblemKind};

/// Counters of events that did not reach the log, and of replaced and ignored values. Clones share them: an event
/// costs more than an atomic addition.
#[derive(Debug, Clone)]
pub struct EventCounters(Arc<EventCounts>);

#[derive(Debug)]
struct EventCounts {
    /// Dropped events by reason: preview, no consent, bot.
    dropped: [AtomicU64; 3],
    /// Rejected events, in the order of `problem::ALL`.
    rejected: Vec<AtomicU64>,
    replaced_surrogates: AtomicU64,
    ignored_values: AtomicU64,
}

impl Default for EventCounters {
    fn default() -> Self {
        let rejected = problem::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(EventCounts {
            dropped: Default::default(),
            rejected,
            replaced_surrogates: AtomicU64::new(0),
            ignored_values: AtomicU64::new(0),
        }))
    }
}

impl EventCounters {
    /// Counts valid events that were dropped. `reason_index` is an index: preview, no consent, bot.
    pub fn record_dropped(&self, reason_index: usize, count: usize) {
        self.0.dropped[reason_index].fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts a rejected event.
    pub fn record_rejected(&self, kind: &'static ProblemKind) {
        if let Some(index) = problem::ALL.iter().position(|known| *known == kind) {
            self.0.rejected[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts lone surrogates that were replaced by U+FFFD.
    pub fn record_replaced_surrogates(&self, count: usize) {
        self.0.replaced_surrogates.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts optional values of events that were ignored.
    pub fn record_ignored_values(&self, count: usize) {
        self.0.ignored_values.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the number of ignored values.
    pub fn ignored_values_count(&self) -> u64 {
        self.0.ignored_values.load(Ordering::Relaxed)
    }

    /// Returns the number of dropped events, by reason.
    pub fn dropped_counts(&self) -> [u64; 3] {
        std::array::from_fn(|reason| self.0.dropped[reason].load(Ordering::Relaxed))
    }

    /// Returns the number of rejected events, by problem kind.
    pub fn rejected_counts(&self) -> impl Iterator<Item = (&'static ProblemKind, u64)> {
        let counts = self.0.rejected.iter().map(|count| count.load(Ordering::Relaxed));
        problem::ALL.iter().copied().zip(counts)
    }

    /// Returns the number of replaced surrogates.
    pub fn replaced_surrogates_count(&self) -> u64 {
        self.0.replaced_surrogates.load(Ordering::Relaxed)
    }
}
