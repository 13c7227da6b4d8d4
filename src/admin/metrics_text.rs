//! A writer of the text format of Prometheus (version 0.0.4).

use std::fmt::{Display, Write};

use crate::metrics::Histogram;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the histogram buckets, in nanoseconds: 1 us to 10 s, three for each power of ten.
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

/// A writer of the Prometheus text format.
#[derive(Default)]
pub(super) struct MetricsText {
    pub(super) text: String,
    family: &'static str,
}

impl MetricsText {
    /// Starts a metric family. The samples that follow belong to it.
    pub(super) fn begin_family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    /// Adds a counter without labels.
    pub(super) fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.begin_family(name, "counter", help);
        self.sample(&[], value);
    }

    /// Adds a gauge without labels.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.begin_family(name, "gauge", help);
        self.sample(&[], value);
    }

    /// Adds a sample.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.write_sample("", labels, value);
    }

    /// Adds the samples of a histogram of nanoseconds, as seconds.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram<u64>) {
        let bounds = BUCKETS_NS.map(|ns| ((ns as f64 / 1e9).to_string(), histogram.count_between(0, ns)));
        for (bound, count) in bounds.into_iter().chain([("+Inf".to_owned(), histogram.len())]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.write_sample("_bucket", &labels, count);
        }
        self.write_sample("_sum", labels, histogram.mean() * histogram.len() as f64 / 1e9);
        self.write_sample("_count", labels, histogram.len());
    }

    /// Writes a sample. Label values need no escapes: they are our own words or names of sites, which consist
    /// of letters, digits, '_' and '-'.
    fn write_sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (i, (name, text)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{text}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}
