//! The servers of the plans: Parallax and the bare server, each started on one CPU as a separate process.

pub mod floor;
pub mod parallax;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Process, ProcessError};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{name}: {source}")]
    File { name: &'static str, source: io::Error },
    #[error("{name} failed: {reason}")]
    Failed { name: &'static str, reason: String },
}

/// The directories and the CPU with which servers are started.
#[derive(Clone, Debug)]
pub struct LaunchContext {
    /// Directory for configuration files and logs.
    pub config_dir: PathBuf,
    /// Temporary directory for files that the servers write. It is deleted when the run ends.
    pub scratch_dir: PathBuf,
    pub processor: usize,
}

impl LaunchContext {
    /// Writes a configuration file.
    pub fn write(
        &self,
        server: &'static str,
        file: &str,
        text: impl AsRef<[u8]>,
    ) -> Result<PathBuf, StartError> {
        let path = self.config_dir.join(file);
        let result = std::fs::write(&path, text).map(|()| path);
        result.map_err(|source| StartError::File { name: server, source })
    }

    /// Starts a program in the directory of configuration files.
    pub fn start(&self, name: &str, program: &Path, arguments: &[OsString]) -> Result<Process, ProcessError> {
        Process::start(name, program, arguments, &self.config_dir, self.processor)
    }
}

/// Returns a program's version: the first number with a dot or a dash in its output with these arguments.
pub fn version(program: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return "unknown".to_owned() };
    let log = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&log);
    let mut words =
        text.split_whitespace().map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()));
    words.find(|word| word.contains(['.', '-'])).unwrap_or("unknown").to_owned()
}

/// Returns the address after the first `http://` that follows `mark`.
fn address(log: &str, mark: &str) -> Option<SocketAddr> {
    let (_, after) = log.split_once(mark)?.1.split_once("http://")?;
    after.split(|character: char| character.is_whitespace()).next()?.parse().ok()
}

pub fn arguments(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}
