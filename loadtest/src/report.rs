//! What a run found, as it is kept: a table on the terminal, a JSON file, one HTML page.

use serde::Serialize;

/// A run of the program.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked, as one would type it.
    pub command: String,
    /// RFC 3339.
    pub date: String,
    pub machine: Machine,
    pub comparisons: Vec<Comparison>,
}

/// The machine in words: what a reader needs to know to doubt the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    pub processors: usize,
    pub kernel: String,
    pub memory_gib: f64,
    /// Load average of a minute when the run began.
    pub load: f64,
}

/// Servers under the same load, by turns; of one server where there is nothing to compare it with.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the plan.
    pub plan: String,
    /// What is asked, in a sentence.
    pub about: String,
    /// The first is what the others are compared with.
    pub sides: Vec<Side>,
    /// What must be said beside the figures.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Side {
    pub server: String,
    pub version: String,
    pub windows: Vec<Window>,
    /// Of all windows together.
    pub latency_us: Latency,
}

/// What one window came to.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    pub seconds: f64,
    pub completed: u64,
    pub checked: u64,
    pub failed: u64,
    pub failure: Option<String>,
    pub per_second: f64,
    pub received_bytes: u64,
    pub server_us_per_request: f64,
    pub generator_us_per_request: f64,
    pub due: u64,
    pub late: u64,
    pub is_void: bool,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub max: f64,
    /// Quantile (0 to 1) and microseconds, ascending, to 0.9999 and 1.
    pub quantiles: Vec<(f64, f64)>,
}
