//! `parallax publish` into a directory and into a bucket.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::web::Web;
use super::{names, publish, pull_flags, refused, wait_for_version};
use crate::harness::{Server, temporary_directory};
use crate::publishing::{acme, site};

/// A directory with snapshot files to publish.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(temporary_directory())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, bytes).expect("written");
        path.into_os_string().into_string().expect("UTF-8")
    }
}

/// A target of `publish`, with its variables.
struct Target {
    url: String,
    environment: Vec<(String, String)>,
}

impl Target {
    fn environment(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn publish(&self, arguments: &[&str]) -> String {
        publish(&[arguments, &["--to", &self.url]].concat(), &self.environment())
    }

    fn refused(&self, arguments: &[&str]) -> (i32, String) {
        refused(&[arguments, &["--to", &self.url]].concat(), &self.environment())
    }
}

/// Publishes, lists, refuses and rolls back.
fn check_target(target: &Target) {
    let files = Files::new();
    let (one, two, three) = (
        files.write("1", &acme(1, "one")),
        files.write("2", &acme(2, "two")),
        files.write("3", &acme(3, "three")),
    );
    let other = files.write("b", &site("b", "track_b", 9, "b"));
    assert!(target.publish(&[&one]).contains("published version 1 of site acme"));
    target.publish(&[&other]);
    target.publish(&[&two]);
    target.publish(&[&two]);
    assert_eq!(target.publish(&["--list"]).lines().count(), 3);
    target.publish(&[&three]);
    let listed = target.publish(&["--list"]);
    let listed: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(listed, ["b-9.snapshot", "acme-2.snapshot", "acme-3.snapshot"]);
    let (code, error) = target.refused(&[&one]);
    assert_eq!(code, 1);
    assert!(error.contains("version 3 of the site already"), "{error}");
    let (code, error) = target.refused(&[&files.write("other", &acme(3, "other"))]);
    assert!(code == 1 && error.contains("acme-3.snapshot"), "{error}");
    let (code, error) = target.refused(&["--remove", "c.snapshot"]);
    assert!(code == 1 && error.contains("b-9.snapshot, acme-2.snapshot, acme-3.snapshot"), "{error}");
    target.publish(&["--remove", "acme-3.snapshot"]);
    target.publish(&["--remove", "b-9.snapshot"]);
    let (code, error) = target.refused(&["--remove", "acme-2.snapshot"]);
    assert!(code == 1 && error.contains("only snapshot"), "{error}");
    target.publish(&["--keep", "1", &three]);
    assert_eq!(target.publish(&["--list"]).lines().count(), 1);
}

#[test]
fn publishing_into_a_directory_lists_keeps_refuses_and_rolls_back() {
    let directory = temporary_directory();
    check_target(&Target { url: format!("file://{}", directory.path().display()), environment: Vec::new() });
    // The old snapshots stay beside the list.
    let left = names(directory.path());
    assert!(
        left.contains(&"acme-1.snapshot".to_owned()) && left.contains(&"current.json".to_owned()),
        "{left:?}"
    );
}

#[test]
fn publishing_into_a_bucket_lists_keeps_refuses_and_rolls_back() {
    let web = Web::start();
    let target = Target { url: "s3://snapshots".to_owned(), environment: web.bucket_environment() };
    check_target(&target);
    assert!(web.all_are_signed());
    assert!(web.content("acme-1.snapshot").is_some());
}

#[test]
fn a_publication_that_loses_a_race_reads_the_list_again() {
    let (web, files) = (Web::start(), Files::new());
    let target = Target { url: "s3://snapshots".to_owned(), environment: web.bucket_environment() };
    web.set_conflicts(3);
    target.publish(&[&files.write("1", &acme(1, "one"))]);
    assert!(web.take_requests("current.json") >= 8, "4 reads and 4 writes");
    assert_eq!(web.take_requests("acme-1.snapshot"), 1, "the snapshot is sent once");
    web.set_conflicts(1_000);
    let (code, error) = target.refused(&[&files.write("2", &acme(2, "two"))]);
    assert!(code == 3 && error.contains("try again"), "{error}");
}

#[test]
fn concurrent_publications_into_a_directory_lose_nothing() {
    let (directory, files) = (temporary_directory(), Files::new());
    let target = Target { url: format!("file://{}", directory.path().display()), environment: Vec::new() };
    let paths: Vec<_> = (0..8)
        .map(|i| files.write(&format!("{i}"), &site(&format!("site{i}"), &format!("track_{i}"), 1, "x")))
        .collect();
    std::thread::scope(|scope| {
        for path in &paths {
            scope.spawn(|| target.publish(&[path]));
        }
    });
    assert_eq!(target.publish(&["--list"]).lines().count(), paths.len());
}

#[test]
fn a_published_snapshot_reaches_a_node_and_a_rollback_too() {
    let (directory, files) = (temporary_directory(), Files::new());
    let target = Target { url: format!("file://{}", directory.path().display()), environment: Vec::new() };
    target.publish(&[&files.write("1", &acme(1, "one"))]);
    let server = Server::start(&[], &pull_flags(&target.url));
    wait_for_version(&server, "acme", Some("1"));
    target.publish(&[&files.write("2", &acme(2, "two"))]);
    wait_for_version(&server, "acme", Some("2"));
    target.publish(&["--remove", "acme-2.snapshot"]);
    wait_for_version(&server, "acme", Some("1"));
}

#[test]
fn a_damaged_snapshot_a_web_server_and_a_password_are_refused() {
    let (directory, files) = (temporary_directory(), Files::new());
    let target = Target { url: format!("file://{}", directory.path().display()), environment: Vec::new() };
    let mut damaged = acme(1, "one");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let (code, error) = target.refused(&[&files.write("1", &damaged)]);
    assert!(code == 1 && error.contains("does not match the hash"), "{error}");
    assert!(!directory.path().join("current.json").exists());
    let good = files.write("2", &acme(1, "one"));
    let (code, error) = refused(&[&good, "--to", "https://web.example/snapshots/"], &[]);
    assert!(code == 3 && error.contains("--to file:///DIR/"), "{error}");
    for url in ["nats://user:hunter2@127.0.0.1:1/b", "https://user:hunter2@a.example/"] {
        let (code, error) = refused(&[&good, "--to", url], &[]);
        assert!(
            code == 2 && error.contains("--to has a user or a password") && !error.contains("hunter2"),
            "{error}"
        );
    }
    let (code, error) = refused(&[&good, "--to", "ftp://a.example/"], &[]);
    assert!(code == 2 && error.contains("s3://BUCKET/PREFIX"), "{error}");
    let (code, _) = refused(&["--to", "file:///tmp/"], &[]);
    assert_eq!(code, 2);
    fs::write(directory.path().join("current.json"), "{").expect("written");
    let (code, error) = target.refused(&[&good]);
    assert!(code == 1 && error.contains("current.json is not valid"), "{error}");
}
