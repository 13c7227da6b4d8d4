//! The metrics of a node of a cluster, and its members of `/readyz`.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::metrics_text::MetricsText;
use crate::metrics::cluster::{ClusterMetrics, ClusterState};
use crate::visitors::events::time;

/// Age of an event that the stream has not returned from which the profiles count as stale, in ms.
const STALE_MS: u64 = 50;

/// Writes the metrics of a node.
pub(super) fn write_metrics(node: &ClusterMetrics, page: &mut MetricsText) {
    let is_connected = node.state().0 != ClusterState::Alone;
    let read = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
    for (name, kind, help, value) in [
        ("parallax_cluster_connected", "gauge", "1 while the node reads the stream", u64::from(is_connected)),
        (
            "parallax_cluster_position",
            "gauge",
            "Last position of the stream that the profiles contain",
            read(&node.position),
        ),
        (
            "parallax_cluster_head_position",
            "gauge",
            "Last known position of the stream",
            read(&node.head_position),
        ),
        (
            "parallax_cluster_unreturned_records",
            "gauge",
            "Own events that the stream has not returned",
            read(&node.unreturned_records),
        ),
        (
            "parallax_cluster_unreturned_bytes",
            "gauge",
            "Bytes of these events in memory",
            read(&node.unreturned_bytes),
        ),
        (
            "parallax_cluster_invisible_acknowledgements_total",
            "counter",
            "Batches of events acknowledged with \"visible\":false",
            read(&node.invisible_acknowledgements),
        ),
        (
            "parallax_cluster_gap_skips_total",
            "counter",
            "Messages skipped because earlier ones of their node are missing",
            read(&node.gap_skips),
        ),
        (
            "parallax_cluster_duplicate_skips_total",
            "counter",
            "Messages that had arrived before",
            read(&node.duplicate_skips),
        ),
        (
            "parallax_cluster_malformed_messages_total",
            "counter",
            "Messages without effect because they are not valid here",
            read(&node.malformed_messages),
        ),
        ("parallax_cluster_resends_total", "counter", "Messages sent again", read(&node.resends)),
        (
            "parallax_cluster_publish_errors_total",
            "counter",
            "Messages that the servers did not acknowledge",
            read(&node.publish_errors),
        ),
        (
            "parallax_cluster_new_producer_ids_total",
            "counter",
            "Differences between the own log and the stream",
            read(&node.new_producer_ids),
        ),
        (
            "parallax_cluster_chain_mismatches_total",
            "counter",
            "Losses of the end of the stream",
            read(&node.chain_mismatches),
        ),
    ] {
        page.begin_family(name, kind, help);
        page.sample(&[], value);
    }
    for (name, help, milliseconds) in [
        (
            "parallax_cluster_lag_seconds",
            "Age of the last processed message while there are later ones",
            read(&node.lag_ms),
        ),
        (
            "parallax_cluster_unreturned_seconds",
            "Age of the oldest event that the stream has not returned",
            read(&node.unreturned_ms),
        ),
    ] {
        page.begin_family(name, "gauge", help);
        page.sample(&[], milliseconds as f64 / 1_000.0);
    }
    page.begin_family("parallax_cluster_era_info", "gauge", "The era of the stream");
    page.sample(&[("era", &node.era())], 1);
}

/// Adds the state of a node to the body of `/readyz`.
pub(super) fn add_readiness(node: &ClusterMetrics, body: &mut Value) {
    let (state, since_ms, reason) = node.state();
    let since = || {
        let mut text = Vec::new();
        time::write(&mut text, since_ms);
        String::from_utf8_lossy(&text).into_owned()
    };
    body["cluster"] = match state {
        ClusterState::Joining => json!("joining"),
        ClusterState::Connected => json!("connected"),
        ClusterState::Alone => json!(format!("alone since {}", since())),
    };
    if !reason.is_empty() {
        body["clusterReason"] = json!(reason);
    }
    body["profiles"] = match state {
        ClusterState::Connected if node.stale_ms() <= STALE_MS => json!("current"),
        _ => json!(format!("stale since {}", since())),
    };
    body["position"] = json!(node.position.load(Ordering::Relaxed).to_string());
}
