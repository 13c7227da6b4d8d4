//! The metrics of a node of a cluster, and its members of `/readyz`.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::metrics_text::MetricsText;
use crate::clock;
use crate::cluster::era::FOLD_VERSION;
use crate::events::time;
use crate::metrics::cluster::{ClusterMetrics, ClusterState, NodeStatus, NotReady};

/// Age of an event that the stream has not returned from which the profiles count as stale, in ms.
const STALE_MS: u64 = 50;

/// The state of a node that reads a checkpoint: at its start, or after the stream has lost its end.
pub(super) const LOADING: &str = "loading";

/// The number of a metric.
type Number = fn(&ClusterMetrics) -> &AtomicU64;
/// A metric: name, kind, help and value.
type Metric = (&'static str, &'static str, &'static str, Number);

/// The metrics that are numbers.
const METRICS: [Metric; 15] = [
    ("parallax_cluster_position", "gauge", "Last position of the stream that the profiles contain", |node| {
        &node.position
    }),
    ("parallax_cluster_head_position", "gauge", "Last known position of the stream", |node| {
        &node.head_position
    }),
    ("parallax_cluster_unreturned_records", "gauge", "Own events that the stream has not returned", |node| {
        &node.unreturned_records
    }),
    ("parallax_cluster_unreturned_bytes", "gauge", "Bytes of these events in memory", |node| {
        &node.unreturned_bytes
    }),
    (
        "parallax_cluster_invisible_acknowledgements_total",
        "counter",
        "Batches of events acknowledged with \"visible\":false",
        |node| &node.invisible_acknowledgements,
    ),
    (
        "parallax_cluster_gap_skips_total",
        "counter",
        "Messages skipped because earlier ones of their node are missing",
        |node| &node.gap_skips,
    ),
    ("parallax_cluster_duplicate_skips_total", "counter", "Messages that had arrived before", |node| {
        &node.duplicate_skips
    }),
    (
        "parallax_cluster_malformed_messages_total",
        "counter",
        "Messages without effect because they are not valid here",
        |node| &node.malformed_messages,
    ),
    ("parallax_cluster_resends_total", "counter", "Messages sent again", |node| &node.resends),
    (
        "parallax_cluster_publish_errors_total",
        "counter",
        "Messages that the servers did not acknowledge",
        |node| &node.publish_errors,
    ),
    (
        "parallax_cluster_new_producer_ids_total",
        "counter",
        "Differences between the own log and the stream",
        |node| &node.new_producer_ids,
    ),
    ("parallax_cluster_chain_mismatches_total", "counter", "Losses of the end of the stream", |node| {
        &node.chain_mismatches
    }),
    (
        "parallax_cluster_digest_mismatches_total",
        "counter",
        "Positions at which the profiles differed from those of another node",
        |node| &node.digest_mismatches,
    ),
    ("parallax_cluster_erasures_pending", "gauge", "Erasures that a known node has not confirmed", |node| {
        &node.erasures_pending
    }),
    ("parallax_cluster_known_nodes", "gauge", "Nodes that the cluster has not forgotten", |node| {
        &node.known_nodes
    }),
];

/// The times: name, help and value in milliseconds.
const TIMES: [(&str, &str, Number); 2] = [
    (
        "parallax_cluster_lag_seconds",
        "Age of the last processed message while there are later ones",
        |node| &node.lag_ms,
    ),
    (
        "parallax_cluster_unreturned_seconds",
        "Age of the oldest event that the stream has not returned",
        |node| &node.unreturned_ms,
    ),
];

/// Writes the metrics of a node.
pub(super) fn write_metrics(node: &ClusterMetrics, page: &mut MetricsText) {
    page.begin_family("parallax_cluster_connected", "gauge", "1 while the node reads the stream");
    page.sample(&[], u64::from(node.state() != ClusterState::Alone));
    for (name, kind, help, value) in METRICS {
        page.begin_family(name, kind, help);
        page.sample(&[], value(node).load(Ordering::Relaxed));
    }
    for (name, help, value) in TIMES {
        page.begin_family(name, "gauge", help);
        page.sample(&[], value(node).load(Ordering::Relaxed) as f64 / 1_000.0);
    }
    let unreachable = node.unreachable().0.len() as u64;
    page.begin_family(
        "parallax_cluster_unreachable_nodes",
        "gauge",
        "Known nodes without a heartbeat for 30 seconds",
    );
    page.sample(&[], unreachable);
    page.begin_family(
        "parallax_cluster_clock_skew_seconds",
        "gauge",
        "Own clock minus that of the NATS servers",
    );
    page.sample(&[], node.clock_skew_ms.load(Ordering::Relaxed) as f64 / 1_000.0);
    page.begin_family("parallax_cluster_era_info", "gauge", "The era of the stream");
    page.sample(&[("era", &node.era()), ("fold_version", &FOLD_VERSION.to_string())], 1);
}

/// Adds the state of a node to the body of `/readyz`. Returns the status of a node that serves a site and is not
/// ready.
pub(super) fn add_readiness(node: &ClusterMetrics, body: &mut Value) -> Option<&'static str> {
    let NodeStatus { state, since_ms, reason, not_ready } = node.status();
    let stale_ms = node.stale_ms();
    body["cluster"] = match state {
        ClusterState::Joining => json!("joining"),
        ClusterState::Loading => json!(LOADING),
        ClusterState::Connected => json!("connected"),
        ClusterState::Alone => json!(format!("alone since {}", time::to_text(since_ms))),
    };
    if !reason.is_empty() {
        body["clusterReason"] = json!(reason);
    }
    body["profiles"] = match state {
        ClusterState::Connected if stale_ms <= STALE_MS => json!("current"),
        // The oldest event that the stream has not returned.
        ClusterState::Connected => {
            json!(format!("stale since {}", time::to_text(clock::now_ms() - stale_ms as i64)))
        }
        ClusterState::Joining | ClusterState::Loading | ClusterState::Alone => {
            json!(format!("stale since {}", time::to_text(since_ms)))
        }
    };
    body["position"] = json!(node.position.load(Ordering::Relaxed).to_string());
    Some(match not_ready? {
        NotReady::Joining => "joining",
        NotReady::Lagging => "lagging",
    })
}
