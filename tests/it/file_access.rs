//! Access to the files of a data directory: for the owner, with `--data-group` for a group, and never for others.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use parallax::testing::cli::demo::compile_demo;

use crate::harness::{Server, copy_program, eventually, temporary_directory};

/// Starts a server with this umask.
fn start(umask: &str, flags: &[&str]) -> Server {
    let script = format!("umask {umask}; exec \"$@\"");
    Server::start_through(&["sh", "-c", &script, "sh"], &[("demo.snapshot", &compile_demo().1)], flags)
}

/// Records events until the data directory has a file of each kind that a server alone writes.
fn fill(server: &Server) {
    let mut sent = 0;
    let endings =
        [".segment", ".checkpoint", ".columns", "secret", "columns-key", "versions", "phases", "clock"];
    eventually("the directory has a file of each kind", || {
        sent += 1;
        let body =
            format!(r#"{{"anonId":"v{sent}","event":"e","properties":{{"pad":"{}"}}}}"#, "p".repeat(20_000));
        assert_eq!(server.post("/v1/track?site=fjell", &[], body.as_bytes()).status, 200);
        let names = names(server.data());
        endings.iter().all(|ending| names.iter().any(|name| name.ends_with(ending))).then_some(())
    });
}

const SMALL: [&str; 4] = ["--segment-bytes", "64KiB", "--checkpoint-bytes", "64KiB"];

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner may change it");
}

/// Asserts the modes of a directory and of its files. A server that runs may delete a checkpoint meanwhile, and it creates a file
/// for its owner alone before it gives access to a group.
#[track_caller]
fn assert_modes(directory: &Path, of_directory: u32, of_files: u32) {
    assert_eq!(mode(directory), of_directory, "{}", directory.display());
    eventually("each file has its mode", || {
        let paths = names(directory).into_iter().map(|name| directory.join(name));
        let audit = directory.join("audit");
        let audit_paths = if audit.exists() { names(&audit) } else { Vec::new() };
        let paths = paths.chain(audit_paths.iter().map(|name| audit.join(name)));
        let modes = paths.filter_map(|path| Some((fs::metadata(&path).ok()?.mode() & 0o7777, path)));
        let expected = |path: &Path| if path == audit { of_directory } else { of_files };
        let others: Vec<(u32, PathBuf)> = modes.filter(|(mode, path)| *mode != expected(path)).collect();
        let is_new = |(mode, _): &(u32, PathBuf)| [0o600, 0o700].contains(mode);
        assert!(others.iter().all(is_new), "expected {of_files:o}: {others:?}");
        others.is_empty().then_some(())
    });
}

/// Returns a group that this user may give to files, and that is not the one of new files if this user is root.
fn group() -> u32 {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() { 64_007 } else { group.as_raw() }
}

#[test]
fn every_file_of_a_data_directory_is_private_whatever_the_umask() {
    for umask in ["000", "022", "777"] {
        let server = start(umask, &SMALL);
        fill(&server);
        assert_modes(server.data(), 0o700, 0o600);
    }
}

#[test]
fn a_data_group_can_read_every_file_and_others_none() {
    let group = group();
    let number = group.to_string();
    let server = start("077", &[&SMALL[..], &["--data-group", &number]].concat());
    fill(&server);
    assert_modes(server.data(), 0o750, 0o640);
    eventually("each file has its group", || {
        let files = names(server.data()).into_iter().map(|name| fs::metadata(server.data().join(name)));
        let others: Vec<fs::Metadata> = files.flatten().filter(|file| file.gid() != group).collect();
        assert!(others.iter().all(|file| file.mode() & 0o077 == 0), "another group has access: {others:?}");
        others.is_empty().then_some(())
    });
    // Without the flag the group loses its access at the next start.
    let server = server.restart(&[]);
    server.wait_for_log("unless --data-group names it");
    assert_modes(server.data(), 0o700, 0o600);
}

#[test]
fn a_directory_that_others_can_read_is_restricted_with_one_warning() {
    let server = start("022", &[]);
    let data = server.data().to_owned();
    let warning = "other users of this machine had access to the data directory";
    let server = server.restart(&[]);
    assert!(!server.log().contains(warning), "{}", server.log());
    set_mode(&data, 0o755);
    set_mode(&data.join("secret"), 0o644);
    set_mode(&data.join("columns-key"), 0o640);
    let server = server.restart(&[]);
    let log = server.log();
    assert!(log.contains("WARN") && log.contains(warning) && log.contains("files=2"), "{log}");
    let of_group = log.lines().find(|line| line.contains("a group had access to the data directory"));
    assert!(of_group.is_some_and(|line| line.contains("INFO") && line.contains("files=3")), "{log}");
    assert_modes(&data, 0o700, 0o600);
    let server = server.restart(&[]);
    assert!(!server.log().contains(warning), "{}", server.log());
}

#[test]
fn access_that_cannot_be_changed_is_a_warning() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give a file to another user");
        return;
    }
    let parent = temporary_directory();
    set_mode(parent.path(), 0o755);
    let data = parent.path().join("data");
    fs::create_dir(&data).expect("created");
    set_mode(&data, 0o777);
    let program = parent.path().join("parallax");
    copy_program(&program);
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = Command::new("timeout")
        .args(["--signal=TERM", "2", "setpriv", "--reuid=64008", "--regid=64008", "--clear-groups"])
        .args([&text(&program), "serve", "--snapshots", &text(&data), "--data", &text(&data)])
        .args(["--listen", "0", "--admin", "0"])
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("WARN cannot restrict the access to the data directory"), "{log}");
    assert!(log.contains("opened the event log"), "{log}");
    assert_eq!(mode(&data.join("secret")), 0o600);
}

#[test]
fn an_unknown_data_group_ends_the_start_with_exit_code_2() {
    let data = temporary_directory();
    let output = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(["serve", "--data-group", "no-such-group", "--data"])
        .arg(data.path().join("data"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("--data-group: this machine has no group \"no-such-group\""), "{text}");
    assert!(!data.path().join("data").exists());
}

#[test]
fn a_restored_directory_is_private_whatever_the_umask_and_its_parents_are_not() {
    let server = start("022", &SMALL);
    fill(&server);
    let parent = temporary_directory();
    let target = parent.path().join("new/data");
    let status = Command::new("sh")
        .args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_parallax"), "restore"])
        .args([server.data(), &target])
        .status();
    assert!(status.expect("it runs").success());
    assert_modes(&target, 0o700, 0o600);
    assert_eq!(mode(&parent.path().join("new")), 0o777);
}
