//! The metrics of the scrub.

use super::ServerMetrics;
use crate::admin::metrics_text::MetricsText;

impl ServerMetrics {
    pub(super) fn write_scrub(&self, text: &mut MetricsText) {
        let metrics = &self.scrub;
        text.counter(
            "parallax_scrub_read_bytes_total",
            "Bytes that the scrub has read from the data directory",
            metrics.read_bytes(),
        );
        text.gauge(
            "parallax_scrub_files_left",
            "Files that the present pass of the scrub has not read yet, 0 between two passes",
            metrics.files_left(),
        );
        text.gauge("parallax_scrub_completed_timestamp_seconds", "Time of the end of the last complete pass of the scrub, in seconds since 1970, 0 before the first one", metrics.completed_ms() / 1_000);
    }
}
