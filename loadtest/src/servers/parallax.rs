//! Parallax itself: built from this workspace unless its program is given, with one site, and visitors that are known.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Place, StartError, address, arguments, version};
use crate::exchange::{Answer, ask};
use crate::process::Server;
use crate::progress::Progress;

const NAME: &str = "parallax";
/// A log of many millions of events is read within it.
const READ_MAX: Duration = Duration::from_secs(600);
const SNAPSHOTS: &str = "snapshots";

/// What is served, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub program: &'a Path,
    /// Authored files.
    pub site: &'a Path,
    /// The log; what is there is read first.
    pub data: &'a Path,
    /// Behind those that every run has.
    pub more: &'a [String],
}

/// A server, and where its operator asks.
#[derive(Debug)]
pub struct Parallax {
    pub server: Server,
    operator: SocketAddr,
    /// What is put here is published.
    pub snapshots: PathBuf,
}

/// Builds the program as the workspace is now.
pub fn build(progress: &Progress) -> Result<PathBuf, StartError> {
    let failed = |why: String| StartError::Answer { name: "cargo build", why };
    progress.say("building parallax: cargo build --release --locked --bin parallax");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked", "--package", NAME, "--bin", NAME]);
    command.arg("--message-format=json-render-diagnostics");
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = parsed.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs.next().ok_or_else(|| failed("it names no program".to_owned()))
}

/// Compiles a site's folder to a snapshot of this version.
pub fn compile(program: &Path, site: &Path, snapshot: &Path, version: u64) -> Result<(), StartError> {
    let failed = |why: String| StartError::Answer { name: "parallax compile", why };
    let mut command = Command::new(program);
    command.arg("compile").arg(site).arg("--output").arg(snapshot).args(["--version", &version.to_string()]);
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// Compiles the site and serves it by one worker.
pub fn start(place: &Place, options: &Options<'_>) -> Result<Parallax, StartError> {
    let snapshots = place.scratch.join(SNAPSHOTS);
    let failed = |source: io::Error| StartError::File { name: NAME, source };
    std::fs::create_dir_all(&snapshots).map_err(failed)?;
    compile(options.program, options.site, &snapshots.join("site.snapshot"), 1)?;
    let any_port = "127.0.0.1:0";
    let mut words =
        arguments(&["serve", "--listen", any_port, "--admin", any_port, "--workers", "1", "--data"]);
    words.extend([options.data.into(), "--snapshots".into(), snapshots.clone().into()]);
    words.extend(options.more.iter().map(Into::into));
    let mut process = place.start(NAME, options.program, &words)?;
    let (serving, operators) = (" INFO serving ", "the operator's address is ");
    let said = process.says(serving, READ_MAX)?;
    let (Some(address), Some(operator)) = (address(&said, serving), address(&said, operators)) else {
        return Err(StartError::Answer { name: NAME, why: format!("it does not say its addresses: {said}") });
    };
    let version = version(options.program, &["--version"]);
    Ok(Parallax {
        server: Server { name: NAME, version, address, processes: vec![process] },
        operator,
        snapshots,
    })
}

impl Parallax {
    /// What it counts under `name`, a metric without labels.
    pub fn metric(&self, name: &str) -> io::Result<f64> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.operator);
        let answer = ask(self.operator, request.as_bytes()).and_then(Answer::good)?;
        let text = String::from_utf8_lossy(answer.body());
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.ok_or_else(|| io::Error::other(format!("there is no metric {name}")))
    }
}

/// Whether this program has such a flag of `serve`.
pub fn has_flag(program: &Path, flag: &str) -> bool {
    let output = Command::new(program).args(["serve", "--help"]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == flag)
    })
}
