//! What a run found, as it is kept: a table on the terminal, a JSON file, one HTML page, a picture of each comparison.

mod escape;
mod gather;
mod machine;
mod page;
mod picture;
mod scale;
mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::table::{grouped, table};

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

impl Report {
    /// Of this run of the program, on the machine as it is now; its comparisons come later.
    pub fn begin() -> Self {
        let words = std::env::args().skip(1);
        let command = std::iter::once("loadtest".to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        let date = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { command, date, machine: Machine::here(), comparisons: Vec::new() }
    }

    /// Writes what is kept into a folder that is there: gives the files.
    pub fn write(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        let files = [("report.json".to_owned(), json), ("report.html".to_owned(), page::page(self))];
        let pictures = self.comparisons.iter().map(|comparison| {
            (format!("{}.svg", comparison.plan.replace(' ', "-")), picture::bars_alone(comparison))
        });
        files
            .into_iter()
            .chain(pictures)
            .map(|(name, text)| {
                let path = folder.join(name);
                fs::write(&path, text).map(|()| path)
            })
            .collect()
    }

    /// Whether a window's latencies are the generator's.
    pub fn is_void(&self) -> bool {
        self.comparisons.iter().flat_map(|comparison| &comparison.sides).any(|side| side.voids() > 0)
    }
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

#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub max: f64,
    /// Quantile (0 to 1) and microseconds, ascending, to 0.9999 and 1.
    pub quantiles: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome;

    #[test]
    fn what_is_kept_can_be_read_by_a_program_and_by_a_browser() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = sample().write(folder.path()).expect("written");
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, ["report.json", "report.html", "resolve-forced.svg"]);
        let picture = fs::read_to_string(&files[2]).expect("a file");
        assert!(
            picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && picture.contains("<style>")
        );
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(&files[0]).expect("a file")).expect("JSON");
        let side = &json["comparisons"][0]["sides"][1];
        assert_eq!((&side["server"], side["windows"].as_array().map(Vec::len)), (&"floor".into(), Some(3)));
        assert_eq!(side["windows"][2]["server_us_per_request"], 5.0);
        assert_eq!(json["machine"]["processors"], 2);
    }

    /// Two servers that answer after a millisecond.
    pub fn sample() -> Report {
        let side =
            |name: &str, costs: [f64; 3]| Side::new(name, "1.0", &costs.map(|us| outcome::sample(1_000, us)));
        Report {
            command: "loadtest resolve-forced".to_owned(),
            date: "2026-11-22T00:00:00Z".to_owned(),
            machine: Machine {
                processor: "A processor".to_owned(),
                processors: 2,
                kernel: "6.18".to_owned(),
                memory_gib: 8.0,
                load: 0.5,
            },
            comparisons: vec![Comparison {
                plan: "resolve-forced".to_owned(),
                about: "GET of a page".to_owned(),
                sides: vec![side("parallax", [5.0, 6.0, 7.0]), side("floor", [4.0, 4.0, 5.0])],
                notes: vec!["8,412 bytes an answer".to_owned()],
            }],
        }
    }
}
