//! `GET /metrics` in the text format of Prometheus (version 0.0.4). It needs no token: the labels name sites
//! and their versions, but never a visitor.

mod audit;
mod identity;
mod scrub;
mod visitors;

use std::path::PathBuf;
use std::sync::Arc;

use super::metrics_text::{CONTENT_TYPE, MetricsText};
use crate::api::{Endpoint, Handler};
use crate::audit::AuditMetrics;
use crate::clock;
use crate::http::request::Request;
use crate::insights::engine::InsightsMetrics;
use crate::limits::memory_sum::Term;
use crate::log::Queue;
use crate::log_lines;
#[cfg(feature = "cluster")]
use crate::metrics::PullCounters;
#[cfg(feature = "cluster")]
use crate::metrics::cluster::ClusterMetrics;
use crate::metrics::{
    ConnectionEvent, Counters, EventCounters, JobCounters, LatencyHistogram, PublishCounters, Totals,
    WebhookCounters,
};
use crate::scrub::ScrubMetrics;
use crate::site::snapshot::open::SnapshotBudget;
use crate::storage;
use crate::visitors::checkpoint;
use crate::visitors::live::ProfileReaders;
use crate::worker::Lifecycle;

/// The sources of the metrics.
pub struct Metrics {
    /// The counters of the workers.
    pub totals: Totals,
    /// The counters of the snapshots directory.
    pub publishing: PublishCounters,
    pub webhook: WebhookCounters,
    /// The counters of the puller; `None` without `--snapshots-from`.
    #[cfg(feature = "cluster")]
    pub pulling: Option<PullCounters>,
    /// True if the server is a node of a cluster.
    #[cfg(feature = "cluster")]
    pub(super) is_node: bool,
    /// The memory budget of the snapshots.
    pub budget: SnapshotBudget,
    /// Start of the process, in seconds since 1970.
    pub started_s: u64,
    /// The sources that exist only after the log is read.
    pub server: Option<ServerMetrics>,
}

/// The sources of the metrics that exist only after the log is read.
pub struct ServerMetrics {
    /// The memory limit of each holder.
    pub memory: Vec<Term>,
    /// Counts the open connections of the public address.
    pub lifecycle: Lifecycle,
    /// The limit of these connections.
    pub connections_max: usize,
    /// The directory of the log.
    pub data_directory: PathBuf,
    /// The log.
    pub log: Queue,
    /// The sync times of the log.
    pub sync_latency: LatencyHistogram,
    /// The metrics of the checkpointer.
    pub checkpoints: Arc<checkpoint::CheckpointMetrics>,
    /// The counters of dropped and rejected events.
    pub event_counters: EventCounters,
    /// The visitor profiles.
    pub profiles: ProfileReaders,
    /// The counters of exports and erasures.
    pub jobs: JobCounters,
    /// The metrics of Insights.
    pub(crate) insights: Arc<InsightsMetrics>,
    /// The metrics of the scrub.
    pub(crate) scrub: Arc<ScrubMetrics>,
    /// The metrics of the audit log.
    pub audit: AuditMetrics,
    /// The metrics of a node; `None` if the server is alone.
    #[cfg(feature = "cluster")]
    pub(crate) cluster: Option<Arc<ClusterMetrics>>,
}

pub(super) const PATH: &str = "/metrics";

impl Metrics {
    /// Returns the sources that exist before the log is read.
    pub fn at_startup(
        totals: &Totals,
        publish_counters: PublishCounters,
        webhook_counters: &WebhookCounters,
        budget: SnapshotBudget,
    ) -> Self {
        Self {
            totals: totals.clone(),
            publishing: publish_counters,
            webhook: webhook_counters.clone(),
            #[cfg(feature = "cluster")]
            pulling: None,
            #[cfg(feature = "cluster")]
            is_node: false,
            budget,
            started_s: clock::now_s(),
            server: None,
        }
    }

    /// Adds the counters of the puller.
    #[cfg(feature = "cluster")]
    pub(crate) fn with_puller(self, counters: PullCounters) -> Self {
        Self { pulling: Some(counters), ..self }
    }

    /// Answers a request for `/metrics`. Returns whether it did.
    pub(super) fn handle(&self, handler: &mut Handler, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let is_metrics = request.path == PATH;
        if is_metrics {
            let text = self.text(handler);
            handler.write_text(request, 200, CONTENT_TYPE, &text, out);
        }
        is_metrics
    }

    /// Returns whether events can be recorded now. They cannot before the log is read.
    pub(super) fn is_recording(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.log.metrics().is_recording())
    }

    fn text(&self, handler: &mut Handler) -> String {
        let mut page = MetricsText::default();
        let counters = self.totals.snapshot();
        page.begin_family("parallax_build_info", "gauge", "Version of the running release");
        page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        write_requests(&mut page, &counters);
        page.begin_family("parallax_http_problems_total", "counter", "Problem responses sent, by code");
        for (kind, count) in counters.problems() {
            page.sample(&[("code", kind.code)], count);
        }
        page.counter("parallax_http_response_bytes_total", "Bytes of all responses", counters.sent_bytes());
        page.begin_family("parallax_connections_total", "counter", "Events of connections, by kind");
        for (event, name) in ConnectionEvent::ALL {
            page.sample(&[("event", name)], counters.connection_events(event));
        }
        self.write_snapshots(&mut page, handler);
        identity::write(handler, &mut page);
        self.write_process(&mut page);
        if let Some(server) = &self.server {
            server.write(&mut page);
        }
        page.text
    }

    fn write_snapshots(&self, text: &mut MetricsText, handler: &mut Handler) {
        let [activated, rejections, rejected_now, superseded] = self.publishing.snapshot();
        text.counter("parallax_snapshots_activated_total", "Snapshots activated", activated);
        text.counter("parallax_snapshots_refused_total", "Rejections of snapshot files", rejections);
        text.gauge("parallax_snapshots_refused", "Snapshot files currently rejected", rejected_now);
        text.gauge(
            "parallax_snapshots_superseded",
            "Snapshot files not served because of their lower version",
            superseded,
        );
        #[cfg(feature = "cluster")]
        self.write_pulling(text);
        let [delivered, failed, pending] = self.webhook.snapshot();
        text.counter(
            "parallax_webhook_deliveries_total",
            "Messages of --on-publish that the receiver accepted",
            delivered,
        );
        text.counter(
            "parallax_webhook_failures_total",
            "Failed attempts to send a message of --on-publish",
            failed,
        );
        text.gauge(
            "parallax_webhook_pending",
            "Sites whose served version the receiver of --on-publish has not accepted yet",
            pending,
        );
        text.begin_family("parallax_site_version", "gauge", "Version of each served site");
        for site in handler.catalog().sites() {
            text.sample(&[("site", &site.site().site)], site.version());
        }
        text.begin_family("parallax_site_routes", "gauge", "Routes of each served site");
        for site in handler.catalog().sites() {
            text.sample(&[("site", &site.site().site)], site.site().routes.len());
        }
    }

    #[cfg(feature = "cluster")]
    fn write_pulling(&self, text: &mut MetricsText) {
        let Some(counters) = &self.pulling else { return };
        let [pulled, errors] = counters.snapshot();
        text.counter(
            "parallax_cluster_snapshots_pulled_total",
            "Snapshots that --snapshots-from has delivered",
            pulled,
        );
        text.counter(
            "parallax_cluster_snapshot_pull_errors_total",
            "Failed attempts to read the source of --snapshots-from, or to fetch or remove a snapshot",
            errors,
        );
    }

    fn write_process(&self, text: &mut MetricsText) {
        text.gauge(
            "parallax_snapshots_memory_bytes",
            "Memory used by snapshots, in bytes, including old ones that are still in use",
            self.budget.used_bytes(),
        );
        if let Ok(usage) = storage::process_usage() {
            text.gauge(
                "process_resident_memory_bytes",
                "Resident memory size, in bytes",
                usage.resident_bytes,
            );
            text.gauge("process_open_fds", "Open file descriptors", usage.descriptors);
        }
        text.counter(
            "process_cpu_seconds_total",
            "User and system CPU time of the process, in seconds",
            clock::process_cpu_time().as_secs_f64(),
        );
        text.gauge(
            "process_start_time_seconds",
            "Start time of the process, in seconds since 1970",
            self.started_s,
        );
        text.counter(
            "parallax_log_lines_dropped_total",
            "Log lines dropped because nobody read standard error in time",
            log_lines::dropped(),
        );
    }
}

impl ServerMetrics {
    fn write(&self, text: &mut MetricsText) {
        self.write_connections(text);
        self.write_events(text);
        self.write_log(text);
        self.write_queue(text);
        self.write_visitors(text);
        self.write_jobs(text);
        self.write_checkpoints(text);
        self.write_insights(text);
        self.write_scrub(text);
        self.write_audit(text);
        #[cfg(feature = "cluster")]
        if let Some(node) = &self.cluster {
            super::cluster::write_metrics(node, text);
        }
        text.begin_family("parallax_memory_max_bytes", "gauge", "Memory limit of each holder, in bytes");
        for Term { holder, bytes } in &self.memory {
            text.sample(&[("holder", holder)], bytes);
        }
    }

    fn write_connections(&self, text: &mut MetricsText) {
        text.gauge(
            "parallax_connections",
            "Open connections of the public address",
            self.lifecycle.open_connections(),
        );
        text.gauge(
            "parallax_connections_max",
            "Limit of open connections of the public address",
            self.connections_max,
        );
    }

    fn write_events(&self, text: &mut MetricsText) {
        text.begin_family(
            "parallax_events_dropped_total",
            "counter",
            "Valid events dropped on purpose, by reason",
        );
        for (reason, dropped) in
            ["preview", "no_consent", "bot"].into_iter().zip(self.event_counters.dropped_counts())
        {
            text.sample(&[("reason", reason)], dropped);
        }
        text.begin_family("parallax_events_rejected_total", "counter", "Events rejected, by code");
        for (kind, rejected) in self.event_counters.rejected_counts().filter(|(_, rejected)| *rejected > 0) {
            text.sample(&[("code", kind.code)], rejected);
        }
        text.counter(
            "parallax_event_values_ignored_total",
            "Optional values of events that were not usable; the events were recorded without them",
            self.event_counters.ignored_values_count(),
        );
        text.counter(
            "parallax_invalid_surrogates_replaced_total",
            "Lone surrogates replaced by U+FFFD",
            self.event_counters.replaced_surrogates_count(),
        );
    }

    fn write_log(&self, text: &mut MetricsText) {
        let metrics = self.log.metrics();
        text.counter("parallax_events_accepted_total", "Events recorded", metrics.records());
        text.counter(
            "parallax_events_duplicate_total",
            "Events that were already recorded",
            metrics.duplicates(),
        );
        text.counter(
            "parallax_duplicates_evicted_total",
            "Message IDs evicted from the full dedup window before 24 hours",
            metrics.evicted_early(),
        );
        text.counter("parallax_log_batches_total", "Batches written to the log", metrics.batches());
        text.counter("parallax_log_bytes_total", "Bytes written to the log", metrics.bytes());
        text.counter(
            "parallax_log_write_errors_total",
            "Failed disk operations of the log",
            metrics.write_errors(),
        );
        text.counter(
            "parallax_log_requests_rejected_total",
            "Event requests rejected because the log could not write to its disk",
            metrics.rejected_requests(),
        );
        text.gauge(
            "parallax_log_damaged",
            "Known damaged places of the data directory, at most 1000",
            metrics.damage().count(),
        );
        text.counter(
            "parallax_log_segments_deleted_total",
            "Segments that retention has deleted",
            metrics.deleted_segments(),
        );
        text.gauge("parallax_log_segments", "Segments in the data directory", metrics.segments());
        text.gauge(
            "parallax_log_bytes",
            "Size of all segments in the data directory, in bytes",
            metrics.segment_bytes(),
        );
        self.write_disk(text);
        text.gauge("parallax_log_seq", "Last assigned seq", metrics.last_seq());
        text.gauge("parallax_log_durable_seq", "Last durable seq", metrics.durable_seq());
        text.gauge(
            "parallax_log_available",
            "Whether events can be recorded: 1, or 0 while the log cannot write to its disk",
            u64::from(metrics.is_recording()),
        );

        text.begin_family(
            "parallax_sync_seconds",
            "histogram",
            "Duration of an append with its sync, or of a later sync, in seconds",
        );
        text.histogram(&[], &self.sync_latency.snapshot());
    }

    /// Writes the space of the file system. A missing data directory has none.
    fn write_disk(&self, text: &mut MetricsText) {
        let Ok(space) = storage::disk_space(&self.data_directory) else { return };
        text.gauge(
            "parallax_disk_free_bytes",
            "Bytes that the server may still write to the file system of the data directory",
            space.free_bytes,
        );
        text.gauge(
            "parallax_disk_size_bytes",
            "Size of the file system of the data directory, in bytes",
            space.size_bytes,
        );
    }

    fn write_queue(&self, text: &mut MetricsText) {
        let metrics = self.log.metrics();
        text.gauge(
            "parallax_queue_requests",
            "Event requests waiting for the log writer",
            metrics.queued_requests(),
        );
        text.gauge(
            "parallax_queue_bytes",
            "Bytes of event requests waiting for the log writer",
            metrics.queued_bytes(),
        );
    }

    fn write_jobs(&self, text: &mut MetricsText) {
        let [panicked, damaged] = self.jobs.snapshot();
        text.counter(
            "parallax_jobs_panicked_total",
            "Exports and erasures of visitors that panicked",
            panicked,
        );
        text.counter(
            "parallax_export_damaged_total",
            "Damaged places of the log that visitor exports skipped",
            damaged,
        );
    }

    fn write_insights(&self, text: &mut MetricsText) {
        text.gauge(
            "parallax_insights_segments_behind",
            "Sealed segments of the log without a column file",
            self.insights.segments_behind(),
        );
        text.begin_family(
            "parallax_insights_query_seconds",
            "histogram",
            "Duration of a question of Insights, from its request to its answer, in seconds",
        );
        text.histogram(&[], &self.insights.query_latency().snapshot());
        text.counter(
            "parallax_insights_abandoned_total",
            "Questions of Insights that were dropped because their client had gone",
            self.insights.abandoned(),
        );
    }
}

fn write_requests(text: &mut MetricsText, counters: &Counters) {
    let names = Endpoint::ALL.into_iter().map(Endpoint::path).chain(["other"]);
    text.begin_family(
        "parallax_http_request_duration_seconds",
        "histogram",
        "Time from the receipt of a request to the end of its response, in seconds",
    );
    for (endpoint, name) in names.enumerate() {
        for (class, status) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
            let latency = counters.latency(endpoint, class);
            if latency.is_empty() {
                continue;
            }
            text.histogram(&[("endpoint", name), ("status", status)], latency);
        }
    }
}
