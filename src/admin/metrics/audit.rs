//! The metrics of the audit log.

use super::ServerMetrics;
use crate::admin::metrics_text::MetricsText;

impl ServerMetrics {
    pub(super) fn write_audit(&self, text: &mut MetricsText) {
        let metrics = &self.audit;
        text.counter(
            "parallax_audit_records_total",
            "Lines of the audit log that this process has written and synced",
            metrics.records(),
        );
        text.counter(
            "parallax_audit_failures_total",
            "Lines of the audit log that could not be written, or not in time",
            metrics.failures(),
        );
        let Some(head) = metrics.head() else { return };
        text.begin_family(
            "parallax_audit_head_info",
            "gauge",
            "Number and hash of the last line of the audit log, which prove all lines before it",
        );
        text.sample(&[("number", &head.number.to_string()), ("hash", &head.hash_text())], 1);
    }
}
