//! Checks of the harness itself: loads of known cost, and comparisons with other load generators.
//!
//! Prints a line for each check with its figures and bounds. Each check except `stall` runs several windows,
//! by turns if there are two sides, and evaluates the median. A window with too many late requests, in which
//! the machine had no time for the generator, is discarded. A check that needs a missing program is skipped,
//! with a message.

mod checks;
mod others;
mod stall;

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use loadtest::load::{Load, Pace, run};
use loadtest::outcome::Outcome;
use loadtest::process::{Process, Server};
use loadtest::request::{Expected, ExpectedBody, Template};
use loadtest::turns::{ROUNDS_MIN, RunError};
use tempfile::TempDir;

use crate::programs::{MissingProgramError, find_program, parse_program};

/// Bytes of the bare server's body: the page size in the performance goals.
const BODY_BYTES: usize = 8 * 1024;
const WARM_UP: Duration = Duration::from_millis(500);
/// Timeout of starting the bare server, which takes milliseconds.
const START_MAX: Duration = Duration::from_secs(10);
/// Attempts to get an open-loop window that is not void. On a shared machine most windows are void.
const WINDOW_ATTEMPTS: usize = 12;

/// The options of `prove`.
#[derive(Args, Clone, Debug)]
pub struct ProveArgs {
    /// Windows per side, by turns.
    #[arg(long, value_name = "N", default_value_t = ROUNDS_MIN)]
    pub rounds: usize,
    /// Length of a window, in whole seconds, because wrk accepts no fractions.
    #[arg(long, value_name = "S", default_value_t = 3)]
    pub seconds: u16,
    /// CPU for the servers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub server_cpu: usize,
    /// CPU for the load generators.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub load_cpu: usize,
    /// Run only these checks.
    #[arg(value_name = "CHECK", value_parser = checks::NAMES)]
    pub only: Vec<String>,
    /// Path of a program that is not in PATH, as in oha=/opt/oha.
    #[arg(long = "program", value_name = "NAME=FILE", value_parser = parse_program)]
    pub programs: Vec<(String, PathBuf)>,
}

/// The verdict of a check.
pub enum CheckVerdict {
    Holds,
    Fails,
    /// Skipped, with the reason.
    Skipped(String),
}

/// The result of a check.
pub struct CheckResult {
    /// Figures with their expected values.
    pub text: String,
    pub verdict: CheckVerdict,
}

impl CheckResult {
    /// Creates a result that holds or fails.
    fn of(holds: bool, text: String) -> Self {
        Self { text, verdict: if holds { CheckVerdict::Holds } else { CheckVerdict::Fails } }
    }

    fn skipped(reason: &dyn std::fmt::Display) -> Self {
        Self { text: String::new(), verdict: CheckVerdict::Skipped(reason.to_string()) }
    }
}

/// Runs the checks and prints their results. Fails if a check fails.
pub fn prove(options: &ProveArgs) -> Result<ExitCode, RunError> {
    let (context, mut out) = (CheckContext::new(options)?, std::io::stdout());
    let mut holds = true;
    for (name, check) in checks::NAMES.into_iter().zip(checks::ALL) {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        let CheckResult { text, verdict } = check(&context)?;
        let line = match verdict {
            CheckVerdict::Holds => format!("{name:<10} holds    {text}"),
            CheckVerdict::Fails => format!("{name:<10} FAILS    {text}"),
            CheckVerdict::Skipped(ref reason) => format!("{name:<10} skipped  {reason}"),
        };
        writeln!(out, "{line}")?;
        out.flush()?;
        holds &= !matches!(verdict, CheckVerdict::Fails);
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The options, directory and requests that the checks share.
struct CheckContext<'a> {
    options: &'a ProveArgs,
    directory: TempDir,
    templates: Vec<Template>,
}

impl<'a> CheckContext<'a> {
    fn new(options: &'a ProveArgs) -> Result<Self, RunError> {
        let directory = tempfile::tempdir()?;
        let body = "x".repeat(BODY_BYTES);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
        std::fs::write(
            directory.path().join("answer"),
            format!("{head}Content-Length: {BODY_BYTES}\r\n\r\n{body}"),
        )?;
        // The same request that wrk sends, because the header fields are part of its cost.
        let bytes = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        let expected = Expected { status: 200, body: ExpectedBody::Exact(body.into_bytes()) };
        let templates = vec![Template { bytes, counters: Vec::new(), expected }];
        Ok(Self { options, directory, templates })
    }

    /// Returns the path of another load generator.
    fn find(&self, program: &str, install: &'static str) -> Result<PathBuf, MissingProgramError> {
        find_program(&self.options.programs, program, install)
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.options.seconds.into())
    }

    /// Starts the bare server with these additional flags.
    fn start_floor(&self, flags: &[&str]) -> Result<Server, RunError> {
        let mut arguments: Vec<OsString> =
            ["floor", "--listen", "127.0.0.1:0", "--response", "answer"].map(OsString::from).to_vec();
        arguments.extend(flags.iter().map(OsString::from));
        let program = std::env::current_exe()?;
        let mut process =
            Process::start("floor", &program, &arguments, self.directory.path(), self.options.server_cpu)?;
        let log = process.wait_for_log("listening on", START_MAX)?;
        let address = log.split("http://").nth(1).and_then(|rest| rest.trim().parse().ok());
        let address = address.ok_or_else(|| format!("no address in the bare server's output: {log:?}"))?;
        Ok(Server { name: "floor", version: String::new(), address, processes: vec![process] })
    }

    /// Returns a load of one window.
    fn load(&self, address: SocketAddr, connections: usize, pace: Pace) -> Load<'_> {
        let (processors, templates) = (std::slice::from_ref(&self.options.load_cpu), &self.templates[..]);
        let window = self.window();
        Load {
            address,
            connections,
            depth: 1,
            pace,
            warm_up: WARM_UP,
            window,
            check_every: 100,
            processors,
            templates,
        }
    }

    /// Measures a load. An unexpected response ends the run. A void window is repeated a few times.
    fn measure(&self, server: &Server, load: &Load<'_>) -> Result<Outcome, RunError> {
        for _ in 0..WINDOW_ATTEMPTS {
            let outcome = run(load, &|| server.cpu())?;
            if let Some(failure) = &outcome.failure {
                return Err(
                    format!("{} requests to {} failed: {failure}", outcome.failed, server.name).into()
                );
            }
            if !outcome.is_void() {
                return Ok(outcome);
            }
        }
        Err(format!(
            "the machine is too busy: too many requests were sent late in all {} windows",
            WINDOW_ATTEMPTS
        )
        .into())
    }
}

/// Returns the median, which for an even count is the greater of the middle two.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns whether `figure` differs from `truth` by at most this share of it.
fn is_near(figure: f64, truth: f64, tolerance: f64) -> bool {
    (figure - truth).abs() <= truth * tolerance
}

fn milliseconds(outcome: &Outcome, quantile: f64) -> f64 {
    outcome.latency_ns.value_at_quantile(quantile) as f64 / 1e6
}
