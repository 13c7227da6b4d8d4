//! Publication, rollback and every fault, from each kind of source.

use std::fs;

use super::web::{Answer, Web, list};
use super::{counter, names, pull_flags, wait_for_version};
use crate::harness::{Server, eventually, temporary_directory};
use crate::publishing::{acme, site};

const PULLED: &str = "parallax_cluster_snapshots_pulled_total";
const ERRORS: &str = "parallax_cluster_snapshot_pull_errors_total";

/// Returns the starter of a server with the variables of the bucket.
fn bucket_starter(web: &Web) -> Vec<String> {
    let variables = web.bucket_environment().into_iter().map(|(name, value)| format!("{name}={value}"));
    ["env".to_owned()].into_iter().chain(variables).collect()
}

/// Starts a server that pulls from the web server, or from the bucket on it.
fn start(web: &Web, is_bucket: bool) -> Server {
    if is_bucket {
        let starter = bucket_starter(web);
        let starter: Vec<_> = starter.iter().map(String::as_str).collect();
        return Server::start_through(&starter, &[], &pull_flags("s3://snapshots"));
    }
    Server::start(&[], &pull_flags(&web.url()))
}

#[test]
fn two_sites_are_published_replaced_and_rolled_back() {
    for is_bucket in [false, true] {
        let web = Web::start();
        let (one, two, other) = (acme(1, "one"), acme(2, "two"), site("b", "track_b", 7, "b"));
        web.set_files(&[("acme-1.snapshot", &one), ("b-7.snapshot", &other)]);
        let server = start(&web, is_bucket);
        wait_for_version(&server, "acme", Some("1"));
        wait_for_version(&server, "b", Some("7"));
        web.set_files(&[("acme-1.snapshot", &one), ("acme-2.snapshot", &two), ("b-7.snapshot", &other)]);
        wait_for_version(&server, "acme", Some("2"));
        web.set_list(&[("acme-1.snapshot", &one), ("b-7.snapshot", &other)]);
        wait_for_version(&server, "acme", Some("1"));
        web.set_list(&[("acme-1.snapshot", &one)]);
        wait_for_version(&server, "b", None);
        assert_eq!(names(server.snapshots_directory()), [".pulled", "acme-1.snapshot"]);
        assert_eq!((counter(&server, PULLED), counter(&server, ERRORS)), (3, 0), "{}", server.log());
        assert_eq!(web.all_are_signed(), is_bucket);
    }
}

#[test]
fn an_empty_broken_or_missing_list_removes_nothing() {
    for is_bucket in [false, true] {
        let web = Web::start();
        let snapshot = acme(1, "one");
        web.set_files(&[("acme-1.snapshot", &snapshot)]);
        let server = start(&web, is_bucket);
        wait_for_version(&server, "acme", Some("1"));
        let good = list(&[("acme-1.snapshot", &snapshot)]);
        let broken = [
            (Answer::Content(b"{\"files\":[]}".to_vec()), "has no files"),
            (Answer::Content(good.as_bytes()[..good.len() - 3].to_vec()), "is not valid"),
            (Answer::Content(Vec::new()), "is not valid"),
            (Answer::Content(vec![b' '; (512 << 10) + 1]), "more than"),
            (Answer::Status(404), "404"),
            (Answer::Status(403), "403"),
            (Answer::Status(500), "500"),
        ];
        for (answer, text) in broken {
            web.set("current.json", answer);
            let text = match (is_bucket, text) {
                (true, "404") => "not found",
                (true, "403" | "500") => "current.json",
                (_, text) => text,
            };
            server.wait_for_log(text);
            assert_eq!(names(server.snapshots_directory()), [".pulled", "acme-1.snapshot"]);
        }
        assert!(counter(&server, ERRORS) > 0);
        // The source is back with a new version.
        let two = acme(2, "two");
        web.set_files(&[("acme-2.snapshot", &two)]);
        wait_for_version(&server, "acme", Some("2"));
        eventually("the old file is removed", || {
            (names(server.snapshots_directory()) == [".pulled", "acme-2.snapshot"]).then_some(())
        });
    }
}

#[test]
fn a_file_that_is_damaged_truncated_longer_or_missing_does_not_arrive_and_removes_nothing() {
    for is_bucket in [false, true] {
        let web = Web::start();
        let (one, two) = (acme(1, "one"), acme(2, "two"));
        web.set_files(&[("acme-1.snapshot", &one)]);
        let server = start(&web, is_bucket);
        wait_for_version(&server, "acme", Some("1"));
        let mut wrong = two.clone();
        wrong[100] ^= 1;
        let longer = [&two[..], b"x"].concat();
        for (version, answer) in [
            (2, Answer::Content(wrong)),
            (3, Answer::Content(two[..two.len() - 1].to_vec())),
            (4, Answer::Cut(two.clone(), two.len() / 2)),
            (5, Answer::Status(404)),
        ] {
            let name = format!("acme-{version}.snapshot");
            web.set(&name, answer);
            web.set_list(&[(&name, &two)]);
            server.wait_for_log(&format!("{name}: not fetched"));
            assert_eq!(
                names(server.snapshots_directory()).last().map(String::as_str),
                Some("acme-1.snapshot")
            );
        }
        // A web server's longer file is refused. Of a bucket only the listed bytes are read, and their hash counts.
        web.set_content("acme-6.snapshot", &longer);
        web.set_list(&[("acme-6.snapshot", &two)]);
        if is_bucket {
            wait_for_version(&server, "acme", Some("2"));
        } else {
            server.wait_for_log("acme-6.snapshot has more bytes");
            // The file is repaired, and fetched at the next attempt.
            web.set_content("acme-6.snapshot", &two);
            wait_for_version(&server, "acme", Some("2"));
        }
        eventually("no temporary file is left", || {
            let entries = fs::read_dir(server.snapshots_directory()).expect("a directory");
            (entries.count() == 2).then_some(())
        });
    }
}

#[test]
fn a_source_that_hangs_is_given_up_and_read_again() {
    let web = Web::start();
    let (one, two) = (acme(1, "one"), acme(2, "two"));
    web.set_files(&[("acme-1.snapshot", &one)]);
    let server = start(&web, false);
    wait_for_version(&server, "acme", Some("1"));
    web.set("acme-2.snapshot", Answer::Begin(two.clone(), 50));
    web.set_list(&[("acme-2.snapshot", &two)]);
    server.wait_for_log("acme-2.snapshot: not fetched");
    web.set("current.json", Answer::Nothing);
    server.wait_for_log("current.json: timeout");
    assert_eq!(server.get("/v1/routes?site=acme").field("x-version"), Some("1"));
    web.set_files(&[("acme-2.snapshot", &two)]);
    wait_for_version(&server, "acme", Some("2"));
}

#[test]
fn a_damaged_snapshot_with_the_right_hash_does_not_end_its_site() {
    let web = Web::start();
    let one = acme(1, "one");
    web.set_files(&[("acme-1.snapshot", &one)]);
    let server = start(&web, false);
    wait_for_version(&server, "acme", Some("1"));
    web.set_files(&[("acme-2.snapshot", b"no snapshot")]);
    server.wait_for_log("acme-2.snapshot: not a snapshot");
    let two = acme(2, "two");
    let other = site("b", "track_b", 1, "b");
    web.set_files(&[("acme-2.snapshot", b"no snapshot"), ("b-1.snapshot", &other)]);
    wait_for_version(&server, "b", Some("1"));
    assert_eq!(server.get("/v1/routes?site=acme").field("x-version"), Some("1"));
    web.set_files(&[("acme-3.snapshot", &two)]);
    wait_for_version(&server, "acme", Some("2"));
    eventually("all other files are removed", || {
        (names(server.snapshots_directory()) == [".pulled", "acme-3.snapshot"]).then_some(())
    });
}

#[test]
fn redirects_are_followed_and_a_circle_is_an_error() {
    let web = Web::start();
    let one = acme(1, "one");
    let moved = format!("{}moved.json", web.url());
    web.set("current.json", Answer::RedirectTo(moved.clone()));
    web.set("moved.json", Answer::RedirectTo(moved));
    web.set("acme-1.snapshot", Answer::RedirectTo(format!("{}files/acme", web.url())));
    web.set_content("files/acme", &one);
    let server = start(&web, false);
    server.wait_for_log("current.json: too many redirects");
    web.set_content("moved.json", list(&[("acme-1.snapshot", &one)]).as_bytes());
    wait_for_version(&server, "acme", Some("1"));
}

#[test]
fn a_list_without_changes_is_not_fetched_again() {
    for sends_tags in [true, false] {
        let web = Web::start();
        if !sends_tags {
            web.send_no_tags();
        }
        let one = acme(1, "one");
        web.set_files(&[("acme-1.snapshot", &one)]);
        let server = start(&web, false);
        wait_for_version(&server, "acme", Some("1"));
        let mut read = 0;
        eventually("the list is read again", || {
            read += web.take_requests("current.json");
            (read >= 3).then_some(())
        });
        assert_eq!(web.take_requests("acme-1.snapshot"), 1);
    }
}

#[test]
fn a_restart_keeps_the_pulled_files_without_the_source_and_fetches_nothing_twice() {
    let web = Web::start();
    let (one, two) = (acme(1, "one"), acme(2, "two"));
    web.set_files(&[("acme-1.snapshot", &one), ("acme-2.snapshot", &two)]);
    let server = start(&web, false);
    wait_for_version(&server, "acme", Some("2"));
    eventually("both are there", || (counter(&server, PULLED) == 2).then_some(()));
    web.set("current.json", Answer::Status(503));
    fs::write(server.path(".acme-1.snapshot.tmp"), "an interrupted download").expect("written");
    fs::write(server.path("acme-2.snapshot"), "damaged on disk").expect("written");
    let url = web.url();
    let server = server.restart(&pull_flags(&url));
    wait_for_version(&server, "acme", Some("1"));
    server.wait_for_log("503");
    assert!(!server.path(".acme-1.snapshot.tmp").exists());
    web.take_requests("acme-1.snapshot");
    web.set_list(&[("acme-1.snapshot", &one), ("acme-2.snapshot", &two)]);
    wait_for_version(&server, "acme", Some("2"));
    assert_eq!(web.take_requests("acme-1.snapshot"), 0);
    // A file that left the source while the server was away is removed.
    web.set_list(&[("acme-1.snapshot", &one)]);
    let server = server.restart(&pull_flags(&url));
    wait_for_version(&server, "acme", Some("1"));
}

#[test]
fn files_that_were_not_pulled_are_never_touched() {
    let web = Web::start();
    let (one, two, own) = (acme(1, "one"), acme(2, "two"), site("b", "track_b", 1, "own"));
    web.set_files(&[("acme-1.snapshot", &one), ("b-1.snapshot", &two)]);
    let url = web.url();
    let server = Server::start(&[("b-1.snapshot", &own)], &pull_flags(&url));
    wait_for_version(&server, "acme", Some("1"));
    server.wait_for_log("b-1.snapshot: the snapshots directory has another file of this name");
    web.set_list(&[("acme-1.snapshot", &one)]);
    server.wait_for_log("the snapshots are those of the source again");
    assert_eq!(fs::read(server.path("b-1.snapshot")).expect("it is there"), own);
}

#[test]
fn a_directory_of_this_machine_is_a_source() {
    let directory = temporary_directory();
    let (one, two) = (acme(1, "one"), acme(2, "two"));
    let url = format!("file://{}", directory.path().display());
    let server = Server::start(&[], &pull_flags(&url));
    server.wait_for_log("cannot read");
    let put = |files: &[(&str, &[u8])]| {
        files
            .iter()
            .for_each(|(name, bytes)| fs::write(directory.path().join(name), bytes).expect("written"));
        let path = directory.path().join("current.json");
        parallax::testing::storage::write_atomic(&path, list(files).as_bytes()).expect("written");
    };
    put(&[("acme-1.snapshot", &one), ("acme-2.snapshot", &two)]);
    wait_for_version(&server, "acme", Some("2"));
    put(&[("acme-1.snapshot", &one)]);
    wait_for_version(&server, "acme", Some("1"));
    fs::remove_dir_all(directory.path()).expect("removed");
    eventually("the loss is counted", || (counter(&server, ERRORS) >= 2).then_some(()));
    assert_eq!(names(server.snapshots_directory()), [".pulled", "acme-1.snapshot"]);
}

#[test]
fn without_a_source_there_is_no_thread_and_no_counter() {
    let threads = |server: &Server| {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.id())).expect("it runs");
        let names = tasks
            .map(|task| fs::read_to_string(task.expect("a task").path().join("comm")).unwrap_or_default());
        names
            .map(|name| name.trim().to_owned())
            .filter(|name| name.starts_with("cluster"))
            .collect::<Vec<_>>()
    };
    let server = Server::demo();
    assert_eq!(threads(&server), Vec::<String>::new());
    assert!(!server.admin_get("/metrics").body_contains("parallax_cluster"));
    let web = Web::start();
    web.set_files(&[("acme-1.snapshot", &acme(1, "one"))]);
    let server = start(&web, false);
    wait_for_version(&server, "acme", Some("1"));
    assert!(threads(&server).contains(&"cluster".to_owned()), "this test would see a thread");
}
