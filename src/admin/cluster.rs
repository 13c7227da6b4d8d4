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

/// Writes the metrics of a node.
pub(super) fn write_metrics(metrics: &ClusterMetrics, text: &mut MetricsText) {
    text.gauge(
        "parallax_cluster_connected",
        "1 while the node reads the stream",
        u64::from(metrics.state() != ClusterState::Alone),
    );
    write_positions(metrics, text);
    write_counters(metrics, text);
    write_nodes_and_times(metrics, text);
    text.begin_family("parallax_cluster_era_info", "gauge", "The era of the stream");
    text.sample(&[("era", &metrics.era()), ("fold_version", &FOLD_VERSION.to_string())], 1);
}

fn number(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

fn write_positions(metrics: &ClusterMetrics, text: &mut MetricsText) {
    text.gauge(
        "parallax_cluster_position",
        "Last position of the stream that the profiles contain",
        number(&metrics.position),
    );
    text.gauge(
        "parallax_cluster_head_position",
        "Last known position of the stream",
        number(&metrics.head_position),
    );
    text.gauge(
        "parallax_cluster_unreturned_records",
        "Own events that the stream has not returned",
        number(&metrics.unreturned_records),
    );
    text.gauge(
        "parallax_cluster_unreturned_bytes",
        "Bytes of these events in memory",
        number(&metrics.unreturned_bytes),
    );
}

fn write_counters(metrics: &ClusterMetrics, text: &mut MetricsText) {
    text.counter(
        "parallax_cluster_invisible_acknowledgements_total",
        "Batches of events acknowledged with \"visible\":false",
        number(&metrics.invisible_acknowledgements),
    );
    text.counter(
        "parallax_cluster_gap_skips_total",
        "Messages skipped because earlier ones of their node are missing",
        number(&metrics.gap_skips),
    );
    text.counter(
        "parallax_cluster_duplicate_skips_total",
        "Messages that had arrived before",
        number(&metrics.duplicate_skips),
    );
    text.counter(
        "parallax_cluster_malformed_messages_total",
        "Messages without effect because they are not valid here",
        number(&metrics.malformed_messages),
    );
    text.counter(
        "parallax_cluster_forbidden_messages_total",
        "Messages without effect because their sender may not send them",
        number(&metrics.forbidden_messages),
    );
    text.counter("parallax_cluster_resends_total", "Messages sent again", number(&metrics.resends));
    text.counter(
        "parallax_cluster_publish_errors_total",
        "Messages that the servers did not acknowledge",
        number(&metrics.publish_errors),
    );
    text.counter(
        "parallax_cluster_new_producer_ids_total",
        "Differences between the own log and the stream",
        number(&metrics.new_producer_ids),
    );
    text.counter(
        "parallax_cluster_chain_mismatches_total",
        "Losses of the end of the stream",
        number(&metrics.chain_mismatches),
    );
    text.counter(
        "parallax_cluster_digest_mismatches_total",
        "Positions at which the profiles differed from those of another node",
        number(&metrics.digest_mismatches),
    );
}

fn write_nodes_and_times(metrics: &ClusterMetrics, text: &mut MetricsText) {
    let seconds = |ms: &AtomicU64| number(ms) as f64 / 1_000.0;
    text.gauge(
        "parallax_cluster_erasures_pending",
        "Erasures that a member has not confirmed",
        number(&metrics.erasures_pending),
    );
    text.gauge("parallax_cluster_known_nodes", "Members of the cluster", number(&metrics.known_nodes));
    text.gauge(
        "parallax_cluster_lag_seconds",
        "Age of the last processed message while there are later ones",
        seconds(&metrics.lag_ms),
    );
    text.gauge(
        "parallax_cluster_unreturned_seconds",
        "Age of the oldest event that the stream has not returned",
        seconds(&metrics.unreturned_ms),
    );
    text.gauge(
        "parallax_cluster_unreachable_nodes",
        "Members without a heartbeat for 30 seconds",
        metrics.unreachable().0.len() as u64,
    );
    text.gauge(
        "parallax_cluster_clock_skew_seconds",
        "Own clock minus that of the NATS servers",
        metrics.clock_skew_ms.load(Ordering::Relaxed) as f64 / 1_000.0,
    );
}

/// Adds the state of a node to the body of `/readyz`. Returns the status of a node that serves a site and is not
/// ready.
pub(super) fn add_readiness(metrics: &ClusterMetrics, body: &mut Value) -> Option<&'static str> {
    let NodeStatus { state, since_ms, reason, not_ready } = metrics.status();
    let stale_ms = metrics.stale_ms();
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
    body["position"] = json!(metrics.position.load(Ordering::Relaxed).to_string());
    let nodes = Some(number(&metrics.known_nodes)).filter(|nodes| *nodes > 0);
    body["nodes"] = json!(nodes);
    Some(match not_ready? {
        NotReady::Joining => "joining",
        NotReady::NameInUse => "name_in_use",
        NotReady::Replaced => "replaced",
        NotReady::Lagging => "lagging",
    })
}
