//! `GET /metrics`: what the server does and holds, in the text format of Prometheus (version 0.0.4). Without a token: it names
//! sites and their versions, and nothing of a visitor.

use std::fmt::{Display, Write};
use std::sync::Arc;

use crate::api::{Desk, Endpoint};
use crate::http::request::{Method, Request};
use crate::limits::memory_sum::Term;
use crate::metrics::{Counters, Happening, Histogram, JobCounts, Publishing, Recorded, Syncs, Totals};
use crate::site::snapshot::open::Budget;
use crate::storage;
use crate::visitors::checkpoint;
use crate::visitors::live::Looks;
use crate::visitors::log::Queue;
use crate::worker::Stopping;

/// Where the figures come from.
pub struct Metrics {
    /// What the workers tell.
    pub totals: Totals,
    /// What became of the files in the snapshots folder.
    pub publishing: Publishing,
    /// What snapshots hold.
    pub budget: Budget,
    /// Seconds since 1970.
    pub started_s: u64,
    /// What there is once the log is read.
    pub read: Option<Read>,
}

/// The figures that there are once the log is read.
pub struct Read {
    /// Who may hold how much.
    pub memory: Vec<Term>,
    /// How many connections of the public address are open, of how many.
    pub connections: (Stopping, usize),
    /// The log.
    pub log: Queue,
    /// How long its syncs take.
    pub syncs: Syncs,
    /// What became of checkpoints.
    pub checkpoints: Arc<checkpoint::Figures>,
    /// What became of events before they came to the log.
    pub recorded: Recorded,
    /// What is known of visitors.
    pub visitors: Looks,
    /// What became of their exports and erasures.
    pub jobs: JobCounts,
}

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the histogram's buckets, in nanoseconds: from a microsecond, three to a power of ten, to ten seconds.
const BUCKETS_NS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

impl Metrics {
    /// Answers if the request is for the metrics; whether it was.
    pub(super) fn answer(&self, desk: &mut Desk, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let asked = request.path == "/metrics" && matches!(request.method, Method::Get | Method::Head);
        if asked {
            let text = self.text(desk);
            desk.plain(request, 200, KIND, &text, out);
        }
        asked
    }

    fn text(&self, desk: &mut Desk) -> String {
        let mut page = Page::default();
        let counters = self.totals.told();
        page.family("parallax_build_info", "gauge", "The release that runs");
        page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        requests(&mut page, &counters);
        page.family("parallax_refusals_total", "counter", "Problems sent, by code");
        for (kind, count) in counters.refusals() {
            page.sample(&[("code", kind.code)], count);
        }
        page.family("parallax_sent_bytes_total", "counter", "Bytes of all answers");
        page.sample(&[], counters.sent_bytes());
        page.family("parallax_connections_total", "counter", "What happened to connections");
        for (happening, name) in Happening::ALL {
            page.sample(&[("happening", name)], counters.happenings(happening));
        }
        self.snapshots(&mut page, desk);
        self.process(&mut page);
        if let Some(read) = &self.read {
            read.write(&mut page);
        }
        page.text
    }

    fn snapshots(&self, page: &mut Page, desk: &mut Desk) {
        let [published, refused, refusing] = self.publishing.told();
        page.family("parallax_publications_total", "counter", "Contents of sites that took effect");
        page.sample(&[], published);
        page.family(
            "parallax_snapshots_refused_total",
            "counter",
            "Complaints about files in the snapshots folder",
        );
        page.sample(&[], refused);
        page.family("parallax_snapshots_refused", "gauge", "Complaints that stand now");
        page.sample(&[], refusing);
        page.family("parallax_site_version", "gauge", "The version of each site that is served");
        for site in desk.catalog().sites() {
            page.sample(&[("site", &site.site().site)], site.version());
        }
        page.family("parallax_site_routes", "gauge", "Routes of each site that is served");
        for site in desk.catalog().sites() {
            page.sample(&[("site", &site.site().site)], site.site().routes.len());
        }
    }

    fn process(&self, page: &mut Page) {
        page.family(
            "parallax_snapshots_memory_bytes",
            "gauge",
            "What snapshots take, old ones in use included",
        );
        page.sample(&[], self.budget.used());
        if let Ok(usage) = storage::usage() {
            page.family("process_resident_memory_bytes", "gauge", "Memory that is resident");
            page.sample(&[], usage.resident_bytes);
            page.family("process_open_fds", "gauge", "Descriptors that are open");
            page.sample(&[], usage.descriptors);
        }
        page.family("process_start_time_seconds", "gauge", "When the process began");
        page.sample(&[], self.started_s);
    }
}

impl Read {
    fn write(&self, page: &mut Page) {
        self.connections(page);
        self.events(page);
        self.log(page);
        self.visitors(page);
        self.jobs(page);
        self.checkpoints(page);
        page.family(
            "parallax_memory_max_bytes",
            "gauge",
            "What each holder may take; the sum is never passed",
        );
        for Term { holder, bytes } in &self.memory {
            page.sample(&[("holder", holder)], bytes);
        }
    }

    fn connections(&self, page: &mut Page) {
        let (stopping, max) = &self.connections;
        page.family("parallax_connections", "gauge", "Connections that are open");
        page.sample(&[], stopping.open());
        page.family("parallax_connections_max", "gauge", "Connections that may be open");
        page.sample(&[], max);
    }

    fn events(&self, page: &mut Page) {
        page.family("parallax_events_dropped_total", "counter", "Valid events that were dropped on purpose");
        for (reason, dropped) in
            ["preview", "no_consent", "bot"].into_iter().zip(self.recorded.told_dropped())
        {
            page.sample(&[("reason", reason)], dropped);
        }
        page.family("parallax_events_rejected_total", "counter", "Events that were rejected, by code");
        for (kind, rejected) in self.recorded.told_rejected().filter(|(_, rejected)| *rejected > 0) {
            page.sample(&[("code", kind.code)], rejected);
        }
        page.family(
            "parallax_surrogates_mended_total",
            "counter",
            "Halves of surrogate pairs that became U+FFFD",
        );
        page.sample(&[], self.recorded.told_surrogates());
    }

    fn log(&self, page: &mut Page) {
        let figures = self.log.figures();
        for (name, kind, help, value) in [
            ("parallax_events_accepted_total", "counter", "Events that were recorded", figures.records()),
            (
                "parallax_events_duplicate_total",
                "counter",
                "Events that had been recorded before",
                figures.duplicates(),
            ),
            (
                "parallax_duplicates_evicted_total",
                "counter",
                "Ids forgotten within 24 hours, for want of room",
                figures.evicted_early(),
            ),
            ("parallax_log_batches_total", "counter", "Batches that were written", figures.batches()),
            ("parallax_log_bytes_total", "counter", "Bytes that were written", figures.bytes()),
            (
                "parallax_log_failures_total",
                "counter",
                "Appends and syncs that failed",
                figures.write_failures(),
            ),
            (
                "parallax_log_refused_total",
                "counter",
                "Requests that failed because of the disk",
                figures.refused(),
            ),
            (
                "parallax_log_damaged",
                "gauge",
                "Places found damaged when the log was read",
                figures.damaged(),
            ),
            ("parallax_log_segments", "gauge", "Segments in the data folder", figures.segments()),
            ("parallax_log_seq", "gauge", "The last seq", figures.last_seq()),
            ("parallax_log_durable_seq", "gauge", "The last seq that is on disk", figures.durable_seq()),
            (
                "parallax_log_available",
                "gauge",
                "Whether the disk takes events",
                u64::from(figures.is_available()),
            ),
            (
                "parallax_queue_requests",
                "gauge",
                "Requests that wait for the writer",
                figures.queued_requests() as u64,
            ),
            (
                "parallax_queue_bytes",
                "gauge",
                "Bytes that wait for the writer",
                figures.queued_bytes() as u64,
            ),
        ] {
            page.family(name, kind, help);
            page.sample(&[], value);
        }
        page.family("parallax_sync_seconds", "histogram", "An append with its sync, or a sync that followed");
        page.histogram(&[], &self.syncs.told());
    }

    fn visitors(&self, page: &mut Page) {
        let figures = self.visitors.figures();
        for (name, kind, help, value) in [
            (
                "parallax_visitors",
                "gauge",
                "Visitors that are known, and ids that are tied to users",
                figures.entries(),
            ),
            ("parallax_visitors_bytes", "gauge", "What they cost, of --profiles-memory", figures.bytes()),
            (
                "parallax_visitors_evicted_total",
                "counter",
                "Visitors that went for --profiles-memory",
                figures.evicted(),
            ),
            (
                "parallax_traits_too_large_total",
                "counter",
                "Traits that profiles do not keep for their size",
                figures.traits_too_large(),
            ),
            (
                "parallax_operations_skipped_total",
                "counter",
                "Profile operations on a value of another type",
                figures.operations_of_another_type(),
            ),
        ] {
            page.family(name, kind, help);
            page.sample(&[], value);
        }
    }

    fn jobs(&self, page: &mut Page) {
        let [panicked, damaged] = self.jobs.told();
        page.family(
            "parallax_jobs_panicked_total",
            "counter",
            "Exports and erasures of visitors that ended in a panic",
        );
        page.sample(&[], panicked);
        page.family(
            "parallax_export_damaged_total",
            "counter",
            "Damaged places of the log that exports of visitors passed over",
        );
        page.sample(&[], damaged);
    }

    fn checkpoints(&self, page: &mut Page) {
        let figures = &self.checkpoints;
        for (name, kind, help, value) in [
            (
                "parallax_checkpoints_total",
                "counter",
                "Checkpoints of visitors that were made",
                figures.made(),
            ),
            (
                "parallax_checkpoint_failures_total",
                "counter",
                "Checkpoints, or deletions of old ones, that the disk failed",
                figures.failed(),
            ),
            (
                "parallax_checkpoints_given_up_total",
                "counter",
                "Checkpoints given up since visitors changed faster than they were copied",
                figures.given_up(),
            ),
            (
                "parallax_checkpoint_seq",
                "gauge",
                "The last seq that the newest checkpoint holds",
                figures.seq(),
            ),
            (
                "parallax_checkpoint_covered_seq",
                "gauge",
                "The last seq that both kept checkpoints hold: retention stops there",
                figures.covered(),
            ),
            (
                "parallax_checkpoint_bytes",
                "gauge",
                "Bytes of the checkpoint that was made last, since the start",
                figures.bytes(),
            ),
        ] {
            page.family(name, kind, help);
            page.sample(&[], value);
        }
    }
}

fn requests(page: &mut Page, counters: &Counters) {
    let names = Endpoint::ALL.into_iter().map(Endpoint::path).chain(["other"]);
    page.family("parallax_request_seconds", "histogram", "From the receipt of a request to its whole answer");
    for (endpoint, name) in names.enumerate() {
        for (class, status) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
            let taken = counters.answers(endpoint, class);
            if taken.is_empty() {
                continue;
            }
            page.histogram(&[("endpoint", name), ("status", status)], taken);
        }
    }
}

/// A page that is being written.
#[derive(Default)]
struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    /// What the samples behind this belong to.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    fn histogram(&mut self, labels: &[(&str, &str)], taken: &Histogram<u64>) {
        let bounds = BUCKETS_NS.map(|ns| ((ns as f64 / 1e9).to_string(), taken.count_between(0, ns)));
        for (bound, count) in bounds.into_iter().chain([("+Inf".to_owned(), taken.len())]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.part("_bucket", &labels, count);
        }
        self.part("_sum", labels, taken.mean() * taken.len() as f64 / 1e9);
        self.part("_count", labels, taken.len());
    }

    /// Label values are ours, or names of sites: letters, digits, '_' and '-', which need no escapes.
    fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (at, (name, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{text}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}
