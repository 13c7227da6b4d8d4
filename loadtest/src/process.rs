//! A server under load: its processes on one processor, what they take of it, and their end.
//!
//! In go a program, its arguments and where its log goes; out come its processor time and memory, with those of every process
//! that it started. Its processes end when it is dropped, by their ids; should the harness itself be killed, the kernel asks the
//! server to stop.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, Signal, kill_process};

/// How often a server that starts is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Lines of a log that an error shows.
const LINES_SHOWN: usize = 15;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("{program} does not start: {source}")]
    Spawn { program: String, source: io::Error },
    #[error("{name} ended while it started. Its log:\n{log}")]
    Ended { name: String, log: String },
    #[error("{name} is not there after {seconds} s. Its log:\n{log}")]
    Slow { name: String, seconds: u64, log: String },
    #[error("no free port: {0}")]
    Port(io::Error),
}

/// A child process on one processor, and all that it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` on `processor`, called `name`, what it says goes to `NAME.log` in `folder`, which it works in.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[OsString],
        folder: &Path,
        processor: usize,
    ) -> Result<Self, ProcessError> {
        let log = folder.join(format!("{name}.log"));
        // Both are of util-linux and become the program, so that it keeps the id of this child.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "taskset", "--cpu-list", &processor.to_string()]);
        command.arg(program).args(arguments).current_dir(folder).stdin(Stdio::null());
        let mut start = || {
            let file = File::create(&log)?;
            command.stdout(file.try_clone()?).stderr(file).spawn()
        };
        let child = start()
            .map_err(|source| ProcessError::Spawn { program: program.display().to_string(), source })?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until it takes connections, at most so long.
    pub fn listens(&mut self, address: SocketAddr, within: Duration) -> Result<(), ProcessError> {
        self.becomes(within, |_| TcpStream::connect(address).ok().map(drop))
    }

    /// Waits until a line of its log contains `mark`, at most so long, and gives the whole log.
    pub fn says(&mut self, mark: &str, within: Duration) -> Result<String, ProcessError> {
        self.becomes(within, |process| {
            let log = process.log();
            // The last line may be half written.
            let whole = log.rfind('\n').map_or("", |end| &log[..end]);
            whole.contains(mark).then(|| log.clone())
        })
    }

    fn becomes<T>(&mut self, within: Duration, look: impl Fn(&Self) -> Option<T>) -> Result<T, ProcessError> {
        let began = Instant::now();
        loop {
            if let Some(seen) = look(self) {
                return Ok(seen);
            }
            let name = self.name.clone();
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Err(ProcessError::Ended { name, log: self.end_of_log() });
            }
            if began.elapsed() > within {
                return Err(ProcessError::Slow { name, seconds: within.as_secs(), log: self.end_of_log() });
            }
            sleep(LOOK_EVERY);
        }
    }

    /// All that it said.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }

    /// Sends it a signal: it alone, not those that it started.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(id.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }

    /// User and system time, of those that it started too.
    pub fn cpu(&self) -> Duration {
        let ticks: u64 = self.family().iter().map(|stat| stat.ticks).sum();
        Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
    }

    /// Memory that it holds, with that of those that it started; pages that they share count for each.
    pub fn resident_bytes(&self) -> u64 {
        self.family().iter().map(|stat| stat.resident_pages).sum::<u64>() * page_size() as u64
    }

    /// The process itself, its children, theirs.
    fn family(&self) -> Vec<Stat> {
        let all = all();
        let mut family: Vec<Stat> = all.iter().filter(|stat| stat.id == self.child.id()).copied().collect();
        let mut seen = 0;
        while seen < family.len() {
            let parent = family[seen].id;
            family.extend(all.iter().filter(|stat| stat.parent == parent));
            seen += 1;
        }
        family
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let family = self.family();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its children are orphans now.
        for stat in family.iter().filter(|stat| stat.id != self.child.id()) {
            if let Some(id) = i32::try_from(stat.id).ok().and_then(Pid::from_raw) {
                let _ = kill_process(id, Signal::KILL);
            }
        }
    }
}

/// What `/proc/ID/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    id: u32,
    parent: u32,
    /// User and system time.
    ticks: u64,
    resident_pages: u64,
}

fn all() -> Vec<Stat> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    // Who has ended meanwhile is left out.
    folders
        .filter(|folder| folder.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|folder| stat(&fs::read_to_string(folder.path().join("stat")).ok()?))
        .collect()
}

fn stat(line: &str) -> Option<Stat> {
    // The name stands in brackets and may hold anything, brackets too. Behind it: state, parent; user and system time are the 14th
    // and 15th field of the line, resident pages the 24th.
    let (front, behind) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = behind.split(' ').collect();
    let number = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
    Some(Stat {
        id: front.split(' ').next()?.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        resident_pages: number(21)?,
    })
}

/// An address of this machine that nobody listens on now, for servers that cannot choose one themselves.
pub fn free_address() -> Result<SocketAddr, ProcessError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ProcessError::Port)?;
    listener.local_addr().map_err(ProcessError::Port)
}

/// A server and where it answers.
#[derive(Debug)]
pub struct Server {
    pub name: &'static str,
    pub version: String,
    pub address: SocketAddr,
    /// A front and what stands behind it are one server.
    pub processes: Vec<Process>,
}

impl Server {
    /// User and system time of all its processes and threads.
    pub fn cpu(&self) -> Duration {
        self.processes.iter().map(Process::cpu).sum()
    }

    /// Has its processes stand still.
    pub fn stop(&self) -> io::Result<()> {
        self.processes.iter().try_for_each(|process| process.signal(Signal::STOP))
    }

    /// Has its processes go on.
    pub fn go_on(&self) -> io::Result<()> {
        self.processes.iter().try_for_each(|process| process.signal(Signal::CONT))
    }

    /// Memory that it holds.
    pub fn resident_bytes(&self) -> u64 {
        self.processes.iter().map(Process::resident_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str, folder: &Path) -> Process {
        let arguments = ["-c".into(), script.into()];
        Process::start("shell", Path::new("/bin/sh"), &arguments, folder, 0).expect("a shell")
    }

    fn is_there(id: u32) -> bool {
        // A child of another process that has ended stays as a zombie until that one asks for it.
        let line = fs::read_to_string(format!("/proc/{id}/stat"));
        line.is_ok_and(|line| !line.contains(") Z "))
    }

    #[test]
    fn the_time_of_its_children_counts_and_they_end_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; sleep 600' & wait";
        let mut process = shell(script, folder.path());
        process.says("done", LONG).expect("it counts");
        assert!(process.cpu() >= Duration::from_millis(10), "{:?}", process.cpu());
        assert!(process.resident_bytes() > 100_000);
        let ids: Vec<u32> = process.family().iter().map(|stat| stat.id).collect();
        assert_eq!(ids.len(), 3, "the shell, its child, and sleep");
        assert!(ids.iter().all(|&id| is_there(id)));
        drop(process);
        let began = Instant::now();
        while ids.iter().any(|&id| is_there(id)) {
            assert!(began.elapsed() < LONG);
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_ends_while_it_starts_is_told_with_its_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut process = shell("echo 'no such option' >&2; exit 1", folder.path());
        let said = process.says("serving", LONG).expect_err("it ended").to_string();
        assert_eq!(said, "shell ended while it started. Its log:\nno such option");
    }

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let line =
            "7 (a) b) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 0 0 20 0 1 0 100 9999 12 18446744073709551615 1\n";
        assert_eq!(stat(line), Some(Stat { id: 7, parent: 3, ticks: 110, resident_pages: 12 }));
        assert_eq!(stat("7 (a"), None);
    }
}
