//! The metrics of the table of visitors and of its checkpoints.

use super::ServerMetrics;
use crate::admin::metrics_text::MetricsText;

impl ServerMetrics {
    pub(super) fn write_visitors(&self, page: &mut MetricsText) {
        let metrics = self.profiles.metrics();
        for (name, kind, help, value) in [
            (
                "parallax_visitors",
                "gauge",
                "Visitors with a profile, plus anon IDs linked to users",
                metrics.entries(),
            ),
            (
                "parallax_visitors_bytes",
                "gauge",
                "Memory used by visitor profiles, in bytes (limit: --profiles-memory)",
                metrics.bytes(),
            ),
            (
                "parallax_visitors_evicted_total",
                "counter",
                "Visitors evicted at the --profiles-memory limit",
                metrics.evicted(),
            ),
            (
                "parallax_traits_too_large_total",
                "counter",
                "Traits too large for a profile",
                metrics.traits_too_large(),
            ),
            (
                "parallax_operations_skipped_total",
                "counter",
                "Profile operations skipped because the value has another type",
                metrics.type_mismatches(),
            ),
        ] {
            page.metric(name, kind, help, value);
        }
    }

    pub(super) fn write_checkpoints(&self, page: &mut MetricsText) {
        let metrics = &self.checkpoints;
        for (name, kind, help, value) in [
            ("parallax_checkpoints_total", "counter", "Checkpoints written", metrics.written()),
            (
                "parallax_checkpoint_failures_total",
                "counter",
                "Checkpoints, or deletions of old ones, that failed on disk",
                metrics.failed(),
            ),
            (
                "parallax_checkpoints_aborted_total",
                "counter",
                "Checkpoints aborted because visitors changed faster than they were copied",
                metrics.aborted(),
            ),
            ("parallax_checkpoint_seq", "gauge", "Last seq in the newest checkpoint", metrics.seq()),
            (
                "parallax_checkpoint_covered_seq",
                "gauge",
                "Last seq in all kept checkpoints; retention deletes no later record",
                metrics.checkpointed_seq(),
            ),
            (
                "parallax_checkpoint_bytes",
                "gauge",
                "Size of the last checkpoint written since the start, in bytes",
                metrics.bytes(),
            ),
        ] {
            page.metric(name, kind, help, value);
        }
    }
}
