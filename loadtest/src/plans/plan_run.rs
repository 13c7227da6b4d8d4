//! The environment of a plan: its directories, its servers, its loads with the options of the command line,
//! and its report.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::CommonArgs;
use crate::load::{self, Load, Pace};
use crate::outcome::Outcome;
use crate::process::Server;
use crate::progress::Progress;
use crate::report::{Comparison, Report};
use crate::request::Template;
use crate::servers::parallax::{self, Options, Parallax};
use crate::servers::{LaunchContext, floor};
use crate::turns::RunError;

/// Warm-up of each window, not measured. Before that, one whole window of each side is discarded.
pub const WARM_UP: Duration = Duration::from_millis(500);
/// One of this many responses to a template is checked completely.
const CHECK_EVERY: u32 = 100;
/// Share of the maximum rate at which a server is busy but not overloaded.
const HALF_LOAD: f64 = 0.5;

/// A run of a plan.
pub struct PlanRun<'a> {
    pub common: &'a CommonArgs,
    pub progress: Progress,
    /// Path of the parallax program.
    pub program: PathBuf,
    report: Report,
    /// Directory of the report.
    pub out: PathBuf,
    /// Temporary directory for site, snapshots and log. It is deleted when the run ends.
    work: TempDir,
    processors: [usize; 1],
}

impl<'a> PlanRun<'a> {
    /// Creates the directories, and builds the server unless its program is given.
    pub fn begin(plan: &str, common: &'a CommonArgs) -> Result<Self, RunError> {
        let (report, progress) = (Report::begin(), Progress::new());
        let program = match &common.parallax {
            Some(program) => {
                fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))?
            }
            None => parallax::build(&progress)?,
        };
        let date = report.date.replace([':', '-'], "");
        let out =
            common.out.clone().unwrap_or_else(|| Path::new("target/loadtest").join(format!("{date}-{plan}")));
        fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        let out = fs::canonicalize(out)?;
        let work = tempfile::tempdir_in(&out)?;
        Ok(Self { common, progress, program, report, out, work, processors: [common.load_cpu] })
    }

    fn launch_context(&self) -> LaunchContext {
        let directory = self.work.path().to_owned();
        LaunchContext {
            scratch_dir: directory.clone(),
            config_dir: directory,
            processor: self.common.server_cpu,
        }
    }

    /// Returns a path in the temporary directory.
    pub fn work_path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// Writes the files of a site and returns their directory.
    pub fn write_site(&self, site: &[(String, Value)]) -> Result<PathBuf, RunError> {
        let directory = self.work_path("site");
        for (path, json) in site {
            let path = directory.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, json.to_string())?;
        }
        Ok(directory)
    }

    /// Starts Parallax with a site, a log, and `more` flags.
    pub fn start_parallax(
        &self,
        site: &[(String, Value)],
        data: &Path,
        more: &[&str],
    ) -> Result<Parallax, RunError> {
        let common = self.common;
        let driver = common.driver.iter().flat_map(|driver| ["--driver".to_owned(), driver.clone()]);
        let busy_poll =
            common.busy_poll_us.iter().flat_map(|us| ["--busy-poll-us".to_owned(), us.to_string()]);
        let more: Vec<String> =
            more.iter().map(|&word| word.to_owned()).chain(driver).chain(busy_poll).collect();
        let site = self.write_site(site)?;
        Ok(parallax::start(
            &self.launch_context(),
            &Options { program: &self.program, site: &site, data, more: &more },
        )?)
    }

    /// Starts the bare server with these response bytes.
    pub fn start_floor(&self, response: &[u8]) -> Result<Server, RunError> {
        Ok(floor::start(&self.launch_context(), response)?)
    }

    /// Returns a load. Options of the command line take precedence over the parameters.
    pub fn load<'l>(&'l self, server: &Server, connections: usize, templates: &'l [Template]) -> Load<'l> {
        Load {
            address: server.address,
            connections: self.common.connections.map_or(connections, usize::from),
            depth: self.common.depth.map_or(1, usize::from),
            pace: self.common.rate.map_or(Pace::Closed, |per_second| Pace::Open { per_second }),
            warm_up: WARM_UP,
            window: Duration::from_secs_f64(self.common.seconds),
            check_every: CHECK_EVERY,
            processors: &self.processors,
            templates,
        }
    }

    /// Returns the pace of the command line, or else half of the server's measured maximum rate.
    pub fn half_load_pace(&self, load: &Load<'_>, server: &Server) -> Result<Pace, RunError> {
        if self.common.rate.is_some() {
            return Ok(load.pace);
        }
        self.progress.begin("measuring the maximum rate", 1);
        let full = run(&Load { pace: Pace::Closed, ..load.clone() }, server)?;
        if let Some(failure) = full.failure {
            return Err(failure.into());
        }
        let per_second = (full.per_second() * HALF_LOAD).round();
        self.progress
            .print(&format!("open loop at {per_second} requests per second, half of the maximum rate"));
        Ok(Pace::Open { per_second })
    }

    /// Writes the report and returns it.
    pub fn finish(mut self, comparisons: Vec<Comparison>) -> Result<Report, RunError> {
        self.report.comparisons = comparisons;
        let file = self.report.write(&self.out)?;
        self.progress.print(&format!("wrote {}", file.display()));
        Ok(self.report)
    }
}

/// Runs a window of a load on a server.
pub fn run(load: &Load<'_>, server: &Server) -> Result<Outcome, RunError> {
    Ok(load::run(load, &|| server.cpu())?)
}
