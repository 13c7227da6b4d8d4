//! Parallax itself, built from this workspace unless its program is given, with one site.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{LaunchContext, StartError, address, arguments, version};
use crate::exchange::{Response, ask};
use crate::process::Server;
use crate::progress::Progress;

const NAME: &str = "parallax";
/// Timeout of the start. It is enough to replay a log of many millions of events.
const REPLAY_MAX: Duration = Duration::from_secs(600);
const SNAPSHOTS: &str = "snapshots";

/// The program, its inputs and its flags.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub program: &'a Path,
    /// Site directory, with the authored files.
    pub site: &'a Path,
    /// Data directory. An existing log is replayed first.
    pub data: &'a Path,
    /// Flags in addition to those of every run.
    pub more: &'a [String],
}

/// A running server and its admin address.
#[derive(Debug)]
pub struct Parallax {
    pub server: Server,
    admin_address: SocketAddr,
    /// Directory of snapshots. The server publishes every file in it.
    pub snapshots: PathBuf,
}

/// Builds the program from the workspace's present state.
pub fn build(progress: &Progress) -> Result<PathBuf, StartError> {
    let failed = |reason: String| StartError::Failed { name: "cargo build", reason };
    progress.print("building parallax: cargo build --profile dist --locked --bin parallax");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", "dist", "--locked", "--package", NAME, "--bin", NAME]);
    command.arg("--message-format=json-render-diagnostics");
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = parsed.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs.next().ok_or_else(|| failed("its output names no program".to_owned()))
}

/// Compiles a site directory to a snapshot of this version.
pub fn compile(program: &Path, site: &Path, snapshot: &Path, version: u64) -> Result<(), StartError> {
    let failed = |reason: String| StartError::Failed { name: "parallax compile", reason };
    let mut command = Command::new(program);
    command.arg("compile").arg(site).arg("--output").arg(snapshot).args(["--version", &version.to_string()]);
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// Compiles the site and serves it with one worker.
pub fn start(context: &LaunchContext, options: &Options<'_>) -> Result<Parallax, StartError> {
    let snapshots = context.scratch_dir.join(SNAPSHOTS);
    let failed = |source: io::Error| StartError::File { name: NAME, source };
    std::fs::create_dir_all(&snapshots).map_err(failed)?;
    compile(options.program, options.site, &snapshots.join("site.snapshot"), 1)?;
    let any_port = "127.0.0.1:0";
    let mut words =
        arguments(&["serve", "--listen", any_port, "--admin", any_port, "--workers", "1", "--data"]);
    words.extend([options.data.into(), "--snapshots".into(), snapshots.clone().into()]);
    words.extend(options.more.iter().map(Into::into));
    let mut process = context.start(NAME, options.program, &words)?;
    let (serving_mark, admin_mark) = (" INFO serving ", " listening on the admin address ");
    let log = process.wait_for_log(serving_mark, REPLAY_MAX)?;
    let (Some(address), Some(admin)) = (address(&log, serving_mark), address(&log, admin_mark)) else {
        return Err(StartError::Failed { name: NAME, reason: format!("no addresses in its log: {log}") });
    };
    let version = version(options.program, &["--version"]);
    Ok(Parallax {
        server: Server { name: NAME, version, address, processes: vec![process] },
        admin_address: admin,
        snapshots,
    })
}

impl Parallax {
    /// Returns the value of the metric `name`, which includes the labels if it has any.
    pub fn metric(&self, name: &str) -> io::Result<f64> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin_address);
        let response = ask(self.admin_address, request.as_bytes()).and_then(Response::require_ok)?;
        let text = String::from_utf8_lossy(response.body());
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.ok_or_else(|| io::Error::other(format!("/metrics has no {name}")))
    }
}
