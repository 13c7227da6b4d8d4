//! A server whose disk changes a byte below the checkpoint, where its start does not read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Client, Server, eventually, temporary_directory};

const FLAGS: [&str; 4] = ["--segment-bytes", "65536", "--checkpoint-bytes", "100000"];

fn start(data: &Path, flags: &[&str]) -> Server {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    Server::start_with_data(data, &[("demo.snapshot", &demo)], &[&FLAGS[..], flags].concat())
}

/// Records some segments of a visitor, and stops the server, which writes a checkpoint.
fn record(data: &Path) {
    let mut server = start(data, &[]);
    let mut client = Client::to(server.edge);
    for _ in 0..60 {
        let event =
            format!(r#"{{"anonId":"v1","event":"e","properties":{{"note":"{}"}}}}"#, "x".repeat(4_000));
        assert_eq!(client.post("/v1/track?site=fjell", &[], event.as_bytes()).status, 200);
    }
    eventually("the first segments have column files", || (files(data, ".columns").len() > 1).then_some(()));
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

/// Returns the files whose names have this end, in the order of their names.
fn files(data: &Path, end: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(data).expect("a directory").flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    paths.sort();
    paths
}

fn parallax(command: &str) -> Command {
    let mut parallax = Command::new(env!("CARGO_BIN_EXE_parallax"));
    parallax.arg(command);
    parallax
}

fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("written");
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = server.admin_get("/metrics").text().to_owned();
    let line = page.lines().find(|line| line.starts_with(&format!("{name} "))).expect("the metric is there");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

fn wait_for_pass(server: &Server) {
    eventually("the scrub has read all files", || {
        (metric(server, "parallax_scrub_completed_timestamp_seconds") > 0).then_some(())
    });
}

fn damage_lines(server: &Server) -> usize {
    server.log().lines().filter(|line| line.contains("ERROR") && line.contains("found damage")).count()
}

/// Asserts the metric, and waits until that many places are logged. A line can be later than a response.
fn assert_damage(server: &Server, places: u64, lines: usize) {
    assert_eq!(metric(server, "parallax_log_damaged"), places, "{}", server.log());
    eventually("the damage is logged", || (damage_lines(server) >= lines).then_some(()));
    assert_eq!(damage_lines(server), lines, "{}", server.log());
}

fn export(server: &Server) {
    let response = server.admin_get("/visitors/export?site=fjell&anonId=v1");
    assert_eq!((response.status, response.field("x-damaged")), (200, Some("1")));
}

#[test]
fn damage_below_the_checkpoint_raises_the_metric_and_is_logged_once_per_start() {
    let data = temporary_directory();
    record(data.path());
    fs::remove_file(data.path().join("scrub")).expect("a pass was begun");
    damage(&files(data.path(), ".segment")[0], 10_000);
    let server = start(data.path(), &["--scrub-rate", "0"]);
    assert_damage(&server, 0, 0);
    assert_eq!(metric(&server, "parallax_scrub_read_bytes_total"), 0);
    export(&server);
    assert_damage(&server, 1, 1);
    drop(server);

    let server = start(data.path(), &[]);
    wait_for_pass(&server);
    assert_damage(&server, 1, 1);
    assert_eq!(metric(&server, "parallax_scrub_files_left"), 0);
    let read_bytes = metric(&server, "parallax_scrub_read_bytes_total");
    assert!(read_bytes > 100_000, "{read_bytes}");
    (0..2).for_each(|_| export(&server));
    assert_eq!(server.admin_get("/visitors/records?site=fjell&anonId=v1&limit=500").status, 200);
    let question = "/insights/overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month";
    for path in files(data.path(), ".columns") {
        fs::remove_file(path).expect("removed");
    }
    assert_eq!(server.admin_get(question).status, 200);
    assert_damage(&server, 1, 1);

    let server = server.restart(&FLAGS);
    assert_eq!(metric(&server, "parallax_log_damaged"), 1, "the metric is there at once");
    eventually("the scrub tells it again", || (damage_lines(&server) > 0).then_some(()));
    export(&server);
    assert_damage(&server, 1, 1);
    let read_again = metric(&server, "parallax_scrub_read_bytes_total");
    assert!(read_again < read_bytes, "a restart does not begin again: {read_again} of {read_bytes}");
}

#[test]
fn records_and_insights_report_the_damage_that_they_meet() {
    let data = temporary_directory();
    record(data.path());
    damage(&files(data.path(), ".segment")[0], 10_000);
    let columns = files(data.path(), ".columns");
    columns.iter().for_each(|path| fs::remove_file(path).expect("removed"));
    for target in [
        "/visitors/records?site=fjell&anonId=v1&limit=500",
        "/insights/overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month",
    ] {
        let server = start(data.path(), &["--scrub-rate", "0"]);
        assert_eq!(server.admin_get(target).status, 200);
        assert_damage(&server, 1, 1);
    }
}

#[test]
fn an_erasure_reports_the_damage_of_the_segments_that_it_rewrites() {
    let data = temporary_directory();
    record(data.path());
    damage(&files(data.path(), ".segment")[0], 10_000);
    let server = start(data.path(), &["--scrub-rate", "0", "--admin-token", "a-token-of-the-test"]);
    assert_eq!(metric(&server, "parallax_log_damaged"), 0);
    let token = [("Authorization", "Bearer a-token-of-the-test")];
    let erased = Client::to(server.admin).request("DELETE", "/visitors?site=fjell&anonId=v1", &token);
    assert_eq!(erased.status, 200, "{}", erased.text());
    assert_damage(&server, 1, 1);
    let known = fs::read(&files(data.path(), ".segment")[0]).expect("a file");
    assert!(
        known[10_000 - 100..10_000 + 100].iter().all(|byte| *byte == 0),
        "zeros have replaced the damage"
    );
    // The place is still damaged, so a reader that meets it says nothing new.
    let export = Client::to(server.admin).request("GET", "/visitors/export?site=fjell&anonId=v2", &token);
    assert_eq!(export.status, 200);
    assert_damage(&server, 1, 1);
}

#[test]
fn a_damaged_column_file_is_logged_and_counts_until_it_is_built_again() {
    let data = temporary_directory();
    record(data.path());
    let columns = files(data.path(), ".columns").remove(0);
    let length = fs::metadata(&columns).expect("a file").len() as usize;
    damage(&columns, length - 1);
    let checked = parallax("check").arg(data.path()).output().expect("the command runs");
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.code() == Some(1) && text.contains(".columns: damaged: "), "{text}");
    fs::remove_file(data.path().join("scrub")).expect("a pass was begun");
    let server = start(data.path(), &[]);
    wait_for_pass(&server);
    eventually("the file is built again", || (metric(&server, "parallax_log_damaged") == 0).then_some(()));
    assert_damage(&server, 0, 1);
    let checked = parallax("check").arg(data.path()).output().expect("the command runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_restored_backup_begins_its_own_scrub() {
    let (data, to) = (temporary_directory(), temporary_directory());
    record(data.path());
    assert!(data.path().join("scrub").exists());
    let target = to.path().join("restored");
    let restored = parallax("restore").args([data.path(), &target]).output().expect("the command runs");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert!(target.join("secret").exists() && !target.join("scrub").exists());
}
