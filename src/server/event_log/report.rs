//! The log lines about the results of recovery.

use std::path::Path;

use super::super::data_directory;
use crate::config::Config;
use crate::events::time;
use crate::log::{InterruptedErasure, LogId, RecoveryReport};
use crate::visitors::checkpoint::directory::checkpoint_name;

/// Logs the results of recovery, and notes the ID of an open log for the next start.
pub(super) fn log_recovery(config: &Config, report: &RecoveryReport, log_id: LogId, is_open: bool) {
    let retention = match (config.retain_days, config.retain_bytes) {
        (None, None) => "unlimited".to_owned(),
        (days, bytes) => {
            let days = days.map(|days| format!("{days} days"));
            let bytes = bytes.map(|size| size.to_string());
            days.into_iter().chain(bytes).collect::<Vec<_>>().join(" and ")
        }
    };
    let directory = config.data.display();
    if is_open {
        tracing::info!(%directory, next_seq = report.next_seq, %retention, "opened the event log");
        data_directory::note_log(&config.data, log_id);
    }
    log_findings(&config.data, report);
}

/// Logs the damage that recovery found in a directory, and an erasure that was not begun.
pub(super) fn log_findings(directory: &Path, report: &RecoveryReport) {
    if report.has_replaced_secret {
        tracing::error!(
            "the file `secret` was missing; the log has a new one and cannot read its earlier tombstones"
        );
    }
    if let Some(InterruptedErasure { seq, requested_ms, is_begun: false }) = report.interrupted_erasure {
        let requested = requested_ms.map_or("at an unknown time".to_owned(), time::to_text);
        tracing::warn!(seq, %requested, "an erasure was interrupted: the erasure was not begun; erase again");
    }
    for finding in &report.damage {
        // The log writer has reported the unexpected ones.
        if !finding.kind.is_unexpected() {
            tracing::warn!(%finding, "found an invalid tail in the log");
        }
    }
    if report.damage_left_out > 0 {
        let directory = directory.display();
        tracing::error!(more = report.damage_left_out, "found more damage; run `parallax check {directory}`");
    }
}

/// Logs the source of the visitor profiles.
pub(super) fn log_profiles(checkpoint_seq: u64, entry_count: usize, record_count: u64) {
    let checkpoint = if checkpoint_seq == 0 { "none".to_owned() } else { checkpoint_name(checkpoint_seq) };
    tracing::info!(records = record_count, %checkpoint, entries = entry_count, "rebuilt visitor profiles");
}
