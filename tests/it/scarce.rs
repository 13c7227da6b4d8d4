//! A start with too few threads or too little memory ends with exit code 3 and a sentence.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{copy_program, eventually};

/// A user without other processes, so that a limit on processes counts those of the test only.
const USER: &str = "64009";

/// Starts a server through a program that sets limits. Stops it when it serves. Returns its exit code and its log.
fn start(limits: &[&str], directory: &Path) -> (i32, String) {
    let (log, data) = (directory.join("log"), directory.join("data"));
    let program = directory.join("parallax");
    let mut server = Command::new(limits[0])
        .args(&limits[1..])
        .arg(&program)
        .args(["serve", "--listen", "0", "--admin", "0", "--workers", "2", "--snapshots"])
        .arg(directory.join("snapshots"))
        .arg("--data")
        .arg(&data)
        .stderr(File::create(&log).expect("a file"))
        .spawn()
        .expect("it starts");
    let text = || fs::read_to_string(&log).expect("UTF-8");
    let status = eventually("the server serves or ends", || {
        if text().contains(" serving ") {
            let _ = Command::new("kill").arg(server.id().to_string()).status();
        }
        server.try_wait().expect("its status is readable")
    });
    let _ = fs::remove_dir_all(data);
    (status.code().or(status.signal().map(|signal| 128 + signal)).expect("a code"), text())
}

/// Returns a directory that every user can use, with the program and an empty directory of snapshots.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("permissions are set");
    copy_program(&directory.path().join("parallax"));
    fs::create_dir(directory.path().join("snapshots")).expect("created");
    directory
}

#[test]
fn a_start_without_enough_threads_ends_with_exit_code_3() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can start a process of a user without others");
        return;
    }
    let directory = directory();
    let user = [&format!("--reuid={USER}"), &format!("--regid={USER}")];
    let mut refused = 0;
    for threads in 1.. {
        let limit = format!("--nproc={threads}");
        let limits = ["setpriv", user[0], user[1], "--clear-groups", "prlimit", &limit];
        let (code, log) = start(&limits, directory.path());
        if code == 0 {
            break;
        }
        let line = log.lines().last().expect("a line");
        assert!(
            code == 3 && line.starts_with("parallax: cannot start a thread: "),
            "{threads}: {code} {log}"
        );
        assert!(!log.contains("panicked"), "{threads}: {log}");
        refused += 1;
    }
    assert!(refused >= 7, "the threads of a server: {refused}");
}

#[test]
fn a_start_without_enough_memory_ends_with_exit_code_3() {
    let directory = directory();
    let mut codes = Vec::new();
    for mib in (40..1_000).step_by(40) {
        let limit = format!("--as={}", mib << 20);
        let (code, log) = start(&["prlimit", &limit], directory.path());
        // With some of these limits the server serves, and ends in the same way later. glibc itself aborts the process with a
        // sentence of its own if another thread takes the last memory while one starts.
        let is_told = code == 3 && log.contains("parallax: cannot ");
        let is_aborted = code == 134 && log.contains("Fatal glibc error");
        assert!(code == 0 || is_told || is_aborted, "{mib} MiB: {code} {log}");
        assert!(!log.contains("panicked"), "{mib} MiB: {log}");
        codes.push(code);
    }
    assert!(codes.contains(&3), "some limits are too low");
}
