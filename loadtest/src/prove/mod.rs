//! The harness measures itself: loads whose figures are known, and other generators' figures of the same load.
//!
//! In go the options, out come a line for each check, with its figures and bounds, and whether all hold. Every check but the one of
//! stalls takes several windows, by turns where there are sides, and judges the median; of a window in which too many requests
//! left late (the machine had no time for the generator) nothing is believed. What needs a program that is missing is left out, and
//! says so.

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
use tempfile::TempDir;

use crate::load::{Load, Pace, run};
use crate::outcome::Outcome;
use crate::process::{Process, Server};
use crate::request::{Body, Expected, Template};
use crate::servers::Place;
use crate::turns::{Failure, ROUNDS_MIN};

/// Bytes of the bare server's body: of the goals' page.
const BODY_BYTES: usize = 8 * 1024;
const WARM: Duration = Duration::from_millis(500);
/// The bare server starts in milliseconds.
const START_MAX: Duration = Duration::from_secs(10);
/// Windows of an open loop that are tried before one that is not void: on a machine that others share most are.
const TRIES: usize = 12;

/// Loads whose figures are known, to see whether the harness finds them.
#[derive(Args, Clone, Debug)]
pub struct Prove {
    /// Windows of each side, by turns.
    #[arg(long, value_name = "N", default_value_t = ROUNDS_MIN)]
    pub rounds: usize,
    /// Length of a window, in whole seconds, as wrk takes no others.
    #[arg(long, value_name = "S", default_value_t = 3)]
    pub seconds: u16,
    /// The processor of the servers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub server_cpu: usize,
    /// The processor of the generators.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub load_cpu: usize,
    /// Checks by their names, instead of all.
    #[arg(value_name = "CHECK", value_parser = checks::NAMES)]
    pub only: Vec<String>,
    /// A program that is elsewhere than PATH says, as in oha=/opt/oha.
    #[arg(long = "program", value_name = "NAME=FILE", value_parser = program)]
    pub programs: Vec<(String, PathBuf)>,
}

fn program(text: &str) -> Result<(String, PathBuf), String> {
    let named = text.split_once('=').map(|(name, file)| (name.to_owned(), PathBuf::from(file)));
    named.ok_or_else(|| "not NAME=FILE".to_owned())
}

/// What became of a check.
pub enum Verdict {
    Holds,
    Fails,
    /// Why it was left out.
    Skipped(String),
}

/// A check with its result.
pub struct Finding {
    /// Figures, with what they should be.
    pub said: String,
    pub verdict: Verdict,
}

impl Finding {
    /// Of figures that are as they should be, or not.
    fn of(holds: bool, said: String) -> Self {
        Self { said, verdict: if holds { Verdict::Holds } else { Verdict::Fails } }
    }

    fn skipped(why: &dyn std::fmt::Display) -> Self {
        Self { said: String::new(), verdict: Verdict::Skipped(why.to_string()) }
    }
}

/// Runs the checks and prints what each found; a failure where one fails.
pub fn prove(options: &Prove) -> Result<ExitCode, Failure> {
    let (trial, mut out) = (Trial::new(options)?, std::io::stdout());
    let mut holds = true;
    for (name, check) in checks::NAMES.into_iter().zip(checks::ALL) {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        let Finding { said, verdict } = check(&trial)?;
        let line = match verdict {
            Verdict::Holds => format!("{name:<10} holds    {said}"),
            Verdict::Fails => format!("{name:<10} FAILS    {said}"),
            Verdict::Skipped(ref why) => format!("{name:<10} skipped  {why}"),
        };
        writeln!(out, "{line}")?;
        out.flush()?;
        holds &= !matches!(verdict, Verdict::Fails);
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the checks are made, and what they share.
struct Trial<'a> {
    options: &'a Prove,
    folder: TempDir,
    templates: Vec<Template>,
}

impl<'a> Trial<'a> {
    fn new(options: &'a Prove) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let body = "x".repeat(BODY_BYTES);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
        std::fs::write(
            folder.path().join("answer"),
            format!("{head}Content-Length: {BODY_BYTES}\r\n\r\n{body}"),
        )?;
        // As wrk asks: the fields of a request are part of what it costs.
        let bytes = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        let expected = Expected { status: 200, body: Body::Same(body.into_bytes()) };
        let templates = vec![Template { bytes, counters: Vec::new(), expected }];
        Ok(Self { options, folder, templates })
    }

    fn place(&self) -> Place {
        let (folder, programs) = (self.folder.path().to_owned(), self.options.programs.clone());
        Place { scratch: folder.clone(), folder, processor: self.options.server_cpu, programs }
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.options.seconds.into())
    }

    /// The bare server with these options.
    fn bare(&self, burden: &[&str]) -> Result<Server, Failure> {
        let mut arguments: Vec<OsString> =
            ["floor", "--listen", "127.0.0.1:0", "--answer", "answer"].map(OsString::from).to_vec();
        arguments.extend(burden.iter().map(OsString::from));
        let program = std::env::current_exe()?;
        let mut process =
            Process::start("floor", &program, &arguments, self.folder.path(), self.options.server_cpu)?;
        let said = process.says("listening on", START_MAX)?;
        let address = said.split("http://").nth(1).and_then(|rest| rest.trim().parse().ok());
        let address = address.ok_or_else(|| format!("the bare server says {said:?}"))?;
        Ok(Server { name: "floor", version: String::new(), address, processes: vec![process] })
    }

    /// A load of so many connections for one window.
    fn load(&self, address: SocketAddr, connections: usize, pace: Pace) -> Load<'_> {
        let (processors, templates) = (std::slice::from_ref(&self.options.load_cpu), &self.templates[..]);
        let window = self.window();
        Load {
            address,
            connections,
            depth: 1,
            pace,
            warm: WARM,
            window,
            check_every: 100,
            processors,
            templates,
        }
    }

    /// Measures a load; one whose answers were not as expected is the end of the run. In an open loop a few times, until one window
    /// is not void.
    fn measure(&self, server: &Server, load: &Load<'_>) -> Result<Outcome, Failure> {
        for _ in 0..TRIES {
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
        Err(format!("the machine is too busy: in {TRIES} windows too many requests left late").into())
    }
}

/// The middle one; of an even number the greater of the two.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Whether a figure is as it should be, give or take this part of it.
fn is_near(figure: f64, truth: f64, tolerance: f64) -> bool {
    (figure - truth).abs() <= truth * tolerance
}

fn milliseconds(outcome: &Outcome, quantile: f64) -> f64 {
    outcome.latency_ns.value_at_quantile(quantile) as f64 / 1e6
}
