//! The report of a run: a table for the terminal and a JSON file.

pub mod gather;
mod machine;
pub mod sample;
pub mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::table::{group_digits, table};

/// The report of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The command line.
    pub command: String,
    /// Start time, in RFC 3339.
    pub date: String,
    pub machine: Machine,
    pub comparisons: Vec<Comparison>,
}

impl Report {
    /// Creates the report of this run with the machine's present state. The comparisons are added later.
    pub fn begin() -> Self {
        let mut words: Vec<String> = std::env::args().collect();
        if let Some(program) = words.first_mut() {
            *program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        let date = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { command: words.join(" "), date, machine: Machine::detect(), comparisons: Vec::new() }
    }

    /// Writes `report.json` into an existing directory and returns its path.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let path = directory.join("report.json");
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        fs::write(&path, json).map(|()| path)
    }

    /// Returns whether any window is void.
    pub fn is_void(&self) -> bool {
        self.comparisons.iter().flat_map(|comparison| &comparison.sides).any(|side| side.void_windows() > 0)
    }
}

/// A description of the machine, so that readers can judge the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    pub processors: usize,
    pub kernel: String,
    pub memory_gib: f64,
    /// One-minute load average at the start of the run.
    pub load: f64,
}

/// A set of sides under the same load, by turns. It has one side if there is nothing to compare with.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the plan.
    pub plan: String,
    /// One-sentence description of the requests.
    pub about: String,
    /// Sides. The others are compared with the first.
    pub sides: Vec<Side>,
    /// Notes to the figures.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Side {
    pub server: String,
    pub version: String,
    pub windows: Vec<Window>,
    /// Latency over all windows.
    pub latency_us: Latency,
}

/// The figures of one window.
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

#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub max: f64,
    /// Quantiles (0 to 1) with microseconds, ascending up to 0.9999, then 1.
    pub quantiles: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::sample::sample;
    use super::*;

    #[test]
    fn the_report_is_written_as_json() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = sample().write(directory.path()).expect("written");
        assert_eq!(file, directory.path().join("report.json"));
        let json: serde_json::Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
        let side = &json["comparisons"][0]["sides"][1];
        assert_eq!((&side["server"], side["windows"].as_array().map(Vec::len)), (&"floor".into(), Some(3)));
        assert_eq!(side["windows"][2]["server_us_per_request"], 5.0);
        assert_eq!(json["machine"]["processors"], 2);
    }
}
