//! A server under load: its processes on one CPU, their CPU time and memory, and their termination.
//!
//! CPU time and memory include every process that the server started. Dropping the value kills these
//! processes by their IDs. If the harness itself is killed, the kernel sends SIGTERM to the server.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, Signal, kill_process};

/// Interval of the checks whether a server has started.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Last lines of the log that an error shows.
const LINES_SHOWN: usize = 15;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start {program}: {source}")]
    Spawn { program: String, source: io::Error },
    #[error("{name} exited during startup. Its log:\n{log}")]
    Ended { name: String, log: String },
    #[error("{name} did not start within {seconds} s. Its log:\n{log}")]
    Timeout { name: String, seconds: u64, log: String },
}

/// A child process on one CPU, with its descendants.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` on `processor`, in this working directory. Its output goes to `NAME.log` there.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[OsString],
        directory: &Path,
        processor: usize,
    ) -> Result<Self, ProcessError> {
        let log = directory.join(format!("{name}.log"));
        // Both are in util-linux. They exec the program, so it keeps the PID of this child.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "taskset", "--cpu-list", &processor.to_string()]);
        command.arg(program).args(arguments).current_dir(directory).stdin(Stdio::null());
        let mut start = || {
            let file = File::create(&log)?;
            command.stdout(file.try_clone()?).stderr(file).spawn()
        };
        let child = start()
            .map_err(|source| ProcessError::Spawn { program: program.display().to_string(), source })?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until a line of the log contains `mark`, and returns the whole log. Fails after `timeout`.
    pub fn wait_for_log(&mut self, mark: &str, timeout: Duration) -> Result<String, ProcessError> {
        self.wait_until(timeout, |process| {
            let log = process.log();
            // The last line may be incomplete.
            let whole = log.rfind('\n').map_or("", |end| &log[..end]);
            whole.contains(mark).then(|| log.clone())
        })
    }

    /// Waits until `probe` returns a value, and returns it. Fails after `timeout`, or if the process exits.
    pub fn wait_until<T>(
        &mut self,
        timeout: Duration,
        probe: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, ProcessError> {
        let started_at = Instant::now();
        loop {
            if let Some(value) = probe(self) {
                return Ok(value);
            }
            let name = self.name.clone();
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Err(ProcessError::Ended { name, log: self.log_tail() });
            }
            if started_at.elapsed() > timeout {
                return Err(ProcessError::Timeout { name, seconds: timeout.as_secs(), log: self.log_tail() });
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Returns the output so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }

    /// Returns the ID of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the user and system time, including descendants.
    pub fn cpu(&self) -> Duration {
        let ticks: u64 = self.process_tree().iter().map(|stat| stat.ticks).sum();
        Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
    }

    /// Returns the resident memory, including descendants. Shared pages count for each process.
    pub fn resident_bytes(&self) -> u64 {
        self.process_tree().iter().map(|stat| stat.resident_pages).sum::<u64>() * page_size() as u64
    }

    /// Returns the process and its descendants.
    fn process_tree(&self) -> Vec<ProcessStat> {
        let all = all_processes();
        let mut family: Vec<ProcessStat> = all.iter().filter(|stat| stat.id == self.id()).copied().collect();
        let mut value = 0;
        while value < family.len() {
            let parent = family[value].id;
            family.extend(all.iter().filter(|stat| stat.parent == parent));
            value += 1;
        }
        family
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let family = self.process_tree();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its children are orphans now.
        for stat in family.iter().filter(|stat| stat.id != self.id()) {
            let _ = send_signal(stat.id, Signal::KILL);
        }
    }
}

/// Sends a signal to a process, but not to its descendants.
pub fn send_signal(id: u32, signal: Signal) -> io::Result<()> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    Ok(kill_process(id.ok_or(io::ErrorKind::NotFound)?, signal)?)
}

/// The values of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessStat {
    id: u32,
    parent: u32,
    /// User and system time.
    ticks: u64,
    resident_pages: u64,
}

fn all_processes() -> Vec<ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    // Processes that end meanwhile are left out.
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|entry| parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect()
}

fn parse_stat(line: &str) -> Option<ProcessStat> {
    // The name is in parentheses and may contain anything, parentheses too. State and parent follow it. User
    // and system time are the 14th and 15th field of the line, resident pages the 24th.
    let (front, after) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = after.split(' ').collect();
    let number = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
    Some(ProcessStat {
        id: front.split(' ').next()?.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        resident_pages: number(21)?,
    })
}

/// A server and its address.
#[derive(Debug)]
pub struct Server {
    pub name: &'static str,
    pub version: String,
    pub address: SocketAddr,
    /// Processes of the server. A front end and its backend count as one server.
    pub processes: Vec<Process>,
}

impl Server {
    /// Returns the user and system time of all processes and threads.
    pub fn cpu(&self) -> Duration {
        self.processes.iter().map(Process::cpu).sum()
    }

    /// Returns the resident memory of all processes.
    pub fn resident_bytes(&self) -> u64 {
        self.processes.iter().map(Process::resident_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str, directory: &Path) -> Process {
        let arguments = ["-c".into(), script.into()];
        Process::start("shell", Path::new("/bin/sh"), &arguments, directory, 0).expect("a shell")
    }

    fn is_running(id: u32) -> bool {
        // An ended child of another process stays a zombie until its parent waits for it.
        let line = fs::read_to_string(format!("/proc/{id}/stat"));
        line.is_ok_and(|line| !line.contains(") Z "))
    }

    #[test]
    fn children_count_and_end_with_their_process() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; sleep 600' & wait";
        let mut process = shell(script, directory.path());
        process.wait_for_log("done", LONG).expect("it counts");
        assert!(process.cpu() >= Duration::from_millis(10), "{:?}", process.cpu());
        assert!(process.resident_bytes() > 100_000);
        let ids: Vec<u32> = process.process_tree().iter().map(|stat| stat.id).collect();
        assert_eq!(ids.len(), 3, "the shell, its child, and sleep");
        assert!(ids.iter().all(|&id| is_running(id)));
        drop(process);
        let started_at = Instant::now();
        while ids.iter().any(|&id| is_running(id)) {
            assert!(started_at.elapsed() < LONG);
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_exit_during_startup_is_an_error_with_the_log() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut process = shell("echo 'no such option' >&2; exit 1", directory.path());
        let message = process.wait_for_log("serving", LONG).expect_err("it ended").to_string();
        assert_eq!(message, "shell exited during startup. Its log:\nno such option");
    }

    #[test]
    fn a_process_name_may_contain_parentheses_and_spaces() {
        let line =
            "7 (a) b) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 0 0 20 0 1 0 100 9999 12 18446744073709551615 1\n";
        assert_eq!(parse_stat(line), Some(ProcessStat { id: 7, parent: 3, ticks: 110, resident_pages: 12 }));
        assert_eq!(parse_stat("7 (a"), None);
    }
}
