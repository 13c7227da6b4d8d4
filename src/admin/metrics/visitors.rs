//! The metrics of the table of visitors and of its checkpoints.

use super::ServerMetrics;
use crate::admin::metrics_text::MetricsText;

impl ServerMetrics {
    pub(super) fn write_visitors(&self, text: &mut MetricsText) {
        let metrics = self.profiles.metrics();
        text.gauge(
            "parallax_visitors",
            "Visitors with a profile, plus anon IDs linked to users",
            metrics.entries(),
        );
        text.gauge(
            "parallax_visitors_bytes",
            "Memory used by visitor profiles, in bytes (limit: --profiles-memory)",
            metrics.bytes(),
        );
        text.counter(
            "parallax_visitors_evicted_total",
            "Visitors evicted at the --profiles-memory limit",
            metrics.evicted(),
        );
        text.counter(
            "parallax_traits_too_large_total",
            "Traits too large for a profile",
            metrics.traits_too_large(),
        );
        text.counter(
            "parallax_operations_skipped_total",
            "Profile operations skipped because the value has another type",
            metrics.type_mismatches(),
        );
    }

    pub(super) fn write_checkpoints(&self, text: &mut MetricsText) {
        let metrics = &self.checkpoints;
        text.counter("parallax_checkpoints_total", "Checkpoints written", metrics.written());
        text.counter(
            "parallax_checkpoint_failures_total",
            "Checkpoints, or deletions of old ones, that failed on disk",
            metrics.failed(),
        );
        text.counter(
            "parallax_checkpoints_aborted_total",
            "Checkpoints aborted because visitors changed faster than they were copied",
            metrics.aborted(),
        );
        text.gauge("parallax_checkpoint_seq", "Last seq in the newest checkpoint", metrics.seq());
        text.gauge(
            "parallax_checkpoint_covered_seq",
            "Last seq in all kept checkpoints; retention deletes no later record",
            metrics.checkpointed_seq(),
        );
        text.gauge(
            "parallax_checkpoint_bytes",
            "Size of the last checkpoint written since the start, in bytes",
            metrics.bytes(),
        );
    }
}
