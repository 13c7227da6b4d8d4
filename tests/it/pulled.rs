//! `--snapshots-from` and `parallax publish`, with a directory, a web server and a bucket as the source.
//! `tests/cluster/run` does the same with a real NATS server.

mod lists;
mod publishing;
mod sources;
mod web;

use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{Server, eventually};

/// Flags of a server with two workers that pulls from `url`.
fn pull_flags(url: &str) -> [&str; 2] {
    ["--snapshots-from", url]
}

/// Runs `parallax publish` with these arguments and variables.
fn run_publish(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.arg("publish").args(arguments).envs(environment.iter().copied());
    command.output().expect("the command runs")
}

/// Runs `parallax publish` and expects success. Returns its output.
fn publish(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run_publish(arguments, environment);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs `parallax publish` and expects a refusal. Returns its exit code and error.
fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let output = run_publish(arguments, environment);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().expect("a code"), String::from_utf8(output.stderr).expect("UTF-8"))
}

/// Waits until the site has this version, as `X-Version` says; `None`: until it is not published.
fn wait_for_version(server: &Server, site: &str, version: Option<&str>) {
    eventually(&format!("{site} has the version {version:?}"), || {
        let response = server.get(&format!("/v1/routes?site={site}"));
        let served =
            (response.status == 200).then(|| response.field("x-version").expect("a version").to_owned());
        (served.as_deref() == version).then_some(())
    });
}

/// Returns the sorted names in a directory. Names of files that are being written are left out.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<_> = names.filter(|name| !name.ends_with(".tmp")).collect();
    names.sort();
    names
}

/// Returns the value of a counter in `/metrics`.
fn counter(server: &Server, name: &str) -> u64 {
    let page = server.admin_get("/metrics");
    let line = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing")).parse().expect("digits")
}
