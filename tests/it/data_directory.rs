//! The data directory of a running server is removed, moved or replaced, or its active segment truncated (R23), or the
//! directory cannot be written at the start (R21).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::cli::demo::compile_demo;

use crate::harness::{Client, MountedDisk, Server, eventually, temporary_directory};
use crate::logged;
use crate::publishing::acme;

/// Time within which a server notices that its directory is gone, or that it can be written again.
const NOTICE_TIME_MAX: Duration = Duration::from_secs(2);

fn start(data: &Path, flags: &[&str]) -> Server {
    Server::start_with_data(data, &[("demo.snapshot", &compile_demo().1)], flags)
}

/// Sends one event and returns the status of the response.
fn post(server: &Server, id: &str) -> u16 {
    let body = format!(r#"{{"anonId":"v1","event":"e","messageId":"{id}"}}"#);
    server.post("/v1/track?site=fjell", &[], body.as_bytes()).status
}

/// Waits until `/readyz` says whether events are recorded. Returns the time that it took.
fn wait_for_recording(server: &Server, is_recording: bool) -> Duration {
    let start = Instant::now();
    eventually("/readyz shows it", || {
        (server.admin_get("/readyz").json()["recording"] == is_recording).then_some(())
    });
    start.elapsed()
}

fn assert_serves_pages(server: &Server) {
    assert_eq!(server.get("/v1/resolve?site=fjell&route=/").status, 200);
    assert_eq!(server.admin_get("/readyz").status, 200);
    assert_eq!(server.admin_get("/readyz?events=1").status, 503);
    assert_eq!(post(server, "refused"), 503);
}

#[test]
fn a_removed_or_replaced_directory_stops_acknowledgements_within_two_seconds() {
    for replaces in [false, true] {
        let parent = temporary_directory();
        let data = parent.path().join("data");
        let server = start(&data, &[]);
        assert_eq!(post(&server, "first"), 200);
        // The server can create a file meanwhile.
        eventually("the directory is removed", || fs::remove_dir_all(&data).ok());
        if replaces {
            fs::create_dir(&data).expect("it is created");
        }
        let took = wait_for_recording(&server, false);
        assert!(took < NOTICE_TIME_MAX, "{took:?}");
        server.wait_for_log("was removed, moved or replaced");
        assert!(server.admin_get("/metrics").text().contains("parallax_log_available 0\n"));
        assert_serves_pages(&server);
        server.publish("acme.snapshot", &acme(1, "one"));
        server.wait_for_log("cannot save the served versions");
        assert!(!replaces || data.read_dir().expect("a directory").next().is_none(), "it stays empty");
    }
}

#[test]
fn a_moved_directory_that_comes_back_is_used_again() {
    let parent = temporary_directory();
    let (data, elsewhere) = (parent.path().join("data"), parent.path().join("elsewhere"));
    let server = start(&data, &[]);
    assert_eq!(post(&server, "first"), 200);
    fs::rename(&data, &elsewhere).expect("it is moved");
    wait_for_recording(&server, false);
    assert_serves_pages(&server);
    fs::rename(&elsewhere, &data).expect("it is moved back");
    let took = wait_for_recording(&server, true);
    assert!(took < NOTICE_TIME_MAX, "{took:?}");
    assert_eq!((post(&server, "second"), post(&server, "first")), (200, 200));
    let server = server.restart(&[]);
    let records = logged::records_after_start(&server, 0);
    let ids: Vec<&str> = records.iter().filter_map(|record| record["messageId"].as_str()).collect();
    assert_eq!(ids, ["first", "second"]);
}

#[test]
fn deleting_every_file_of_the_directory_admits_no_second_server() {
    let data = temporary_directory();
    let server = start(data.path(), &[]);
    assert_eq!(post(&server, "first"), 200);
    for entry in data.path().read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        let _ = fs::remove_file(path);
    }
    let began = Instant::now();
    let mut second = Server::begin_with_data(data.path(), &[], &[]);
    assert_eq!(second.exit_code(), 3);
    assert!(began.elapsed() >= NOTICE_TIME_MAX, "the lock is retried for two seconds");
    server.wait_for_log("the active segment is gone; its durable records are lost");
    assert!(server.admin_get("/metrics").text().contains("parallax_log_damaged 1\n"));
}

#[test]
fn a_start_waits_for_the_lock_of_a_server_that_is_ending() {
    let data = temporary_directory();
    let mut first = start(data.path(), &[]);
    for n in 0..5 {
        first = first.restart(&[]);
        assert_eq!(post(&first, &n.to_string()), 200);
    }
    let second = Server::begin_with_data(data.path(), &[("demo.snapshot", &compile_demo().1)], &[]);
    first.signal("TERM");
    let second = second.wait_until_serving();
    assert_eq!(post(&second, "first"), 200);
}

/// Runs a server with `--ack written` whose writes fail from some moment until its stop. Returns its exit code.
fn exit_code_after_failed_writes() -> i32 {
    let starter = ["env", "PARALLAX_ACK=written", "sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    let mut server = Server::start_through(&starter, &[("demo.snapshot", &compile_demo().1)], &[]);
    let mut client = Client::to(server.edge);
    let posting = thread::spawn(move || {
        (0..1_000_000).any(|n| {
            let body = format!(r#"{{"anonId":"v1","event":"e","messageId":"{n}"}}"#);
            client.post("/v1/track?site=fjell", &[], body.as_bytes()).status == 503
        })
    });
    let pid = server.id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--fsize=1"]).status();
    assert!(limited.expect("prlimit is there").success());
    assert!(posting.join().expect("no panic"), "events are refused");
    server.signal("TERM");
    server.exit_code()
}

#[test]
fn writes_that_fail_until_the_stop_end_the_server_with_exit_code_3() {
    // A run in which the last acknowledged event was just synced ends with 0.
    assert!((0..30).any(|_| exit_code_after_failed_writes() == 3));
}

/// Returns the segment that the server writes.
fn active_segment(data: &Path) -> PathBuf {
    let names = fs::read_dir(data).expect("a directory").map(|entry| entry.expect("an entry").path());
    names.filter(|path| path.extension().is_some_and(|end| end == "segment")).max().expect("a segment")
}

#[test]
fn a_truncated_segment_is_noticed_within_two_seconds_and_the_next_start_says_it_too() {
    for (ack, is_under_load) in [("disk", false), ("disk", true), ("written", false), ("written", true)] {
        let data = temporary_directory();
        let server = start(data.path(), &["--ack", ack]);
        assert_eq!([post(&server, "first"), post(&server, "second")], [200, 200]);
        // As `logrotate` does with `copytruncate`.
        fs::File::options()
            .write(true)
            .open(active_segment(data.path()))
            .expect("opened")
            .set_len(0)
            .expect("cut");
        let begun = Instant::now();
        let mut sent = 0;
        eventually("the truncation is noticed", || {
            if is_under_load {
                sent += 1;
                post(&server, &format!("later-{sent}"));
            }
            server.log().contains("another program has truncated the active segment").then_some(())
        });
        assert!(begun.elapsed() < NOTICE_TIME_MAX, "{:?}", begun.elapsed());
        server.wait_for_log("first_seq=1 last_seq=2");
        assert!(server.admin_get("/metrics").text().contains("parallax_log_damaged 1\n"));
        eventually("events are accepted", || (post(&server, "after") == 200).then_some(()));
        server.signal("KILL");
        let server = server.restart(&[]);
        let log = server.log();
        assert!(
            log.contains("found damage in the data directory") && log.contains("lost seqs 1..=2"),
            "{ack}: {log}"
        );
        let body = br#"{"anonId":"v1","event":"e","messageId":"after"}"#;
        let receipt = server.post("/v1/track?site=fjell", &[], body).json();
        assert_eq!(receipt["duplicates"], 1, "{ack}: the record is in the log: {receipt}");
    }
}

#[test]
fn a_data_directory_without_the_log_of_the_last_start_is_a_warning() {
    let parent = temporary_directory();
    let (data, elsewhere) = (parent.path().join("data"), parent.path().join("elsewhere"));
    let server = start(&data, &[]);
    assert_eq!(post(&server, "first"), 200);
    let server = server.restart(&[]);
    assert!(!server.log().contains("at the last start"), "{}", server.log());
    // As if the disk of the directory were not mounted.
    fs::rename(&data, &elsewhere).expect("it is moved");
    fs::create_dir(&data).expect("it is created");
    let server = server.restart(&[]);
    let log = server.log();
    assert!(log.contains("WARN the data directory has no log, but had one at the last start"), "{log}");
    let server = server.restart(&[]);
    assert!(!server.log().contains("at the last start"), "{}", server.log());
    // The disk is mounted again.
    fs::remove_dir_all(&data).expect("it is removed");
    fs::rename(&elsewhere, &data).expect("it is moved back");
    let server = server.restart(&[]);
    let log = server.log();
    assert!(log.contains("WARN the data directory has another log than at the last start"), "{log}");
    let note = fs::read_to_string(parent.path().join(".data.log-id")).expect("a note");
    assert!(log.contains(&format!("found={}", note.trim())), "{log}");
    let server = server.restart(&[]);
    assert!(!server.log().contains("at the last start"), "{}", server.log());
}

/// Starts a server on a directory that cannot be written, makes it writable, and compares the records.
fn start_without_room(data: &Path, make_writable: impl FnOnce()) {
    let server = start(data, &[]);
    assert_serves_pages(&server);
    server.wait_for_log("ERROR cannot write the log");
    // No visitor is shown without a line in the audit log.
    server.wait_for_log("ERROR cannot write the audit log");
    let show = || Client::to(server.admin).request("GET", "/visitors?site=fjell&anonId=v1", &[]);
    let refused = show();
    assert_eq!((refused.status, refused.code()), (503, "audit_unavailable".into()));
    make_writable();
    let known = eventually("the visitor is shown", || Some(show()).filter(|shown| shown.status == 200));
    assert_eq!(known.json()["profile"]["visitor"]["events"], 3, "the log was read");
    let took = wait_for_recording(&server, true);
    assert!(took < NOTICE_TIME_MAX + Duration::from_millis(500), "{took:?}");
    assert_eq!((post(&server, "new"), post(&server, "m2")), (200, 200));
    let server = server.restart(&[]);
    let records = logged::records_after_start(&server, 0);
    let ids: Vec<&str> = records.iter().filter_map(|record| record["messageId"].as_str()).collect();
    assert_eq!(ids, ["m0", "m1", "m2", "new"]);
}

/// Writes three events to the directory and kills the server.
fn write_events(data: &Path) {
    let server = start(data, &[]);
    (0..3).for_each(|n| assert_eq!(post(&server, &format!("m{n}")), 200));
}

#[test]
fn a_start_on_a_read_only_disk_serves_pages_until_it_can_be_written() {
    let Some(disk) = MountedDisk::new("8m") else { return };
    let data = disk.path().join("data");
    write_events(&data);
    disk.remount("ro");
    start_without_room(&data, || disk.remount("rw"));
}

#[test]
fn a_start_on_a_full_disk_serves_pages_until_there_is_room() {
    let Some(disk) = MountedDisk::new("8m") else { return };
    let data = disk.path().join("data");
    write_events(&data);
    let filler = disk.path().join("filler");
    // The disk is full before all of these bytes are written.
    let _ = fs::write(&filler, vec![0; 9 << 20]);
    start_without_room(&data, || fs::remove_file(&filler).expect("it exists"));
}

#[test]
fn a_missing_directory_that_cannot_be_created_is_created_later() {
    let Some(disk) = MountedDisk::new("8m") else { return };
    disk.remount("ro");
    let data = disk.path().join("data");
    let server = start(&data, &[]);
    assert_serves_pages(&server);
    disk.remount("rw");
    wait_for_recording(&server, true);
    assert_eq!(post(&server, "first"), 200);
    assert_eq!(logged::records_after_start(&server.restart(&[]), 0).len(), 1);
}
