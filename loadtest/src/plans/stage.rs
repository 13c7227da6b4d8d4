//! What every plan runs on: its folder, the servers, loads with the options that were given, and the report in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::Common;
use crate::load::{self, Load, Pace};
use crate::outcome::Outcome;
use crate::process::Server;
use crate::progress::Progress;
use crate::report::{Comparison, Report};
use crate::request::Template;
use crate::servers::parallax::{self, Options, Parallax};
use crate::servers::{Place, floor};
use crate::turns::Failure;

/// Of a window's load before it counts; a whole window of each side is let go before that.
pub const WARM: Duration = Duration::from_millis(500);
/// Of so many answers to a template one is looked at whole.
const CHECK_EVERY: u32 = 100;
/// At so much of what a closed loop reaches a server is busy, and not full.
const HALF: f64 = 0.5;

/// Where a plan runs.
pub struct Stage<'a> {
    pub common: &'a Common,
    pub progress: Progress,
    /// The server's.
    pub program: PathBuf,
    report: Report,
    /// Where the report goes.
    out: PathBuf,
    /// Site, snapshots and log; goes away with the run.
    work: TempDir,
    processors: [usize; 1],
}

impl<'a> Stage<'a> {
    /// Makes the folders, and the server where it is not given.
    pub fn begin(plan: &str, common: &'a Common) -> Result<Self, Failure> {
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

    fn place(&self) -> Place {
        let folder = self.work.path().to_owned();
        Place { scratch: folder.clone(), folder, processor: self.common.server_cpu, programs: Vec::new() }
    }

    /// For servers whose configuration is kept beside the report, in the folder `name`.
    pub fn place_kept(&self, name: &str, programs: Vec<(String, PathBuf)>) -> Result<Place, Failure> {
        let folder = self.out.join(name);
        fs::create_dir_all(&folder)?;
        let scratch = self.path(name);
        fs::create_dir_all(&scratch)?;
        Ok(Place { folder, scratch, processor: self.common.server_cpu, programs })
    }

    /// A path in the folder that goes away with the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// Writes a site as its author keeps it: gives its folder.
    pub fn author(&self, site: &[(String, Value)]) -> Result<PathBuf, Failure> {
        let folder = self.path("site");
        for (path, json) in site {
            let path = folder.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, json.to_string())?;
        }
        Ok(folder)
    }

    /// Parallax with a site and a log, and `more` of its own flags.
    pub fn parallax(
        &self,
        site: &[(String, Value)],
        data: &Path,
        more: &[&str],
    ) -> Result<Parallax, Failure> {
        let common = self.common;
        let driver = common.driver.iter().flat_map(|driver| ["--driver".to_owned(), driver.clone()]);
        let spin = common.spin_us.iter().flat_map(|us| ["--spin-us".to_owned(), us.to_string()]);
        let more: Vec<String> = more.iter().map(|&word| word.to_owned()).chain(driver).chain(spin).collect();
        let site = self.author(site)?;
        Ok(parallax::start(
            &self.place(),
            &Options { program: &self.program, site: &site, data, more: &more },
        )?)
    }

    /// The bare server, sending these bytes.
    pub fn floor(&self, answer: &[u8]) -> Result<Server, Failure> {
        Ok(floor::start(&self.place(), answer)?)
    }

    /// The load that the command line says, where it does so.
    pub fn load<'l>(&'l self, server: &Server, connections: usize, templates: &'l [Template]) -> Load<'l> {
        Load {
            address: server.address,
            connections: self.common.connections.map_or(connections, usize::from),
            depth: self.common.depth.map_or(1, usize::from),
            pace: self.common.rate.map_or(Pace::Closed, |per_second| Pace::Open { per_second }),
            warm: WARM,
            window: Duration::from_secs_f64(self.common.seconds),
            check_every: CHECK_EVERY,
            processors: &self.processors,
            templates,
        }
    }

    /// The pace that the command line says, else half of what the server can.
    pub fn half(&self, load: &Load<'_>, server: &Server) -> Result<Pace, Failure> {
        if self.common.rate.is_some() {
            return Ok(load.pace);
        }
        self.progress.begin("how much it can", 1);
        let full = run(&Load { pace: Pace::Closed, ..load.clone() }, server)?;
        if let Some(failure) = full.failure {
            return Err(failure.into());
        }
        let per_second = (full.per_second() * HALF).round();
        self.progress.say(&format!("open loop at {per_second} requests a second, half of what it can"));
        Ok(Pace::Open { per_second })
    }

    /// Writes the report and gives it.
    pub fn finish(mut self, comparisons: Vec<Comparison>) -> Result<Report, Failure> {
        self.report.comparisons = comparisons;
        for file in self.report.write(&self.out)? {
            self.progress.say(&format!("written: {}", file.display()));
        }
        Ok(self.report)
    }
}

/// A window of a load on a server.
pub fn run(load: &Load<'_>, server: &Server) -> Result<Outcome, Failure> {
    Ok(load::run(load, &|| server.cpu())?)
}
