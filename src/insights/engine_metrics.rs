//! The metrics of Insights.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::LatencyHistogram;

/// The metrics of Insights.
#[derive(Debug, Default)]
pub(crate) struct InsightsMetrics {
    pub(super) segments_behind: AtomicU64,
    pub(super) abandoned: AtomicU64,
    pub(super) query_latency: LatencyHistogram,
}

impl InsightsMetrics {
    /// Returns the number of sealed segments that had no column file at the last search, less those built since then.
    pub(crate) fn segments_behind(&self) -> u64 {
        self.segments_behind.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks, questions included, that were dropped because no client waited for them any more.
    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns the durations of questions and of other tasks, from the request to the reply.
    pub(crate) fn query_latency(&self) -> &LatencyHistogram {
        &self.query_latency
    }
}
