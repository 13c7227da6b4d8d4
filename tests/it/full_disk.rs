//! A full disk (R13): the server refuses events at once and keeps serving pages. Once there is room, it
//! accepts events again.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Client, Server, eventually, temporary_directory};
use crate::logged;

/// A mounted disk of 16 MiB, unmounted on drop.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Returns `None` and prints a notice if this user may not mount a disk.
    pub fn new() -> Option<Self> {
        let directory = temporary_directory();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "none"])
            .arg(directory.path())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: cannot test a full disk, because mounting a tmpfs needs root");
            return None;
        }
        Some(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that is ending may use it for a moment longer.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

const REFUSAL_TIME_MAX: Duration = Duration::from_millis(100);
const RECOVERY_TIME_MAX: Duration = Duration::from_secs(1);
/// Time within which a failure or a recovery is in the log, in `/readyz` and in the metrics (R21).
const REPORT_TIME_MAX: Duration = Duration::from_secs(2);

/// Returns a batch of about 450 KB. Its message IDs follow from `n`.
fn batch(n: usize) -> String {
    let event = |i: usize| json!({ "anonId": "v1", "event": "e", "messageId": format!("m{n}-{i}"), "properties": { "pad": "p".repeat(30_000) } });
    json!({ "batch": (0..15).map(event).collect::<Vec<_>>() }).to_string()
}

/// Asserts that `/readyz` and the metrics say within two seconds whether events can be recorded.
fn assert_reported(server: &Server, is_recording: bool) {
    let start = Instant::now();
    let ready = eventually("the state of the disk is reported", || {
        let ready = server.admin_get("/readyz");
        (ready.json()["recording"] == is_recording).then_some(ready)
    });
    assert!(start.elapsed() < REPORT_TIME_MAX, "it took {:?}", start.elapsed());
    assert_eq!(ready.status, 200, "pages are served");
    let ready = server.admin_get("/readyz?events=1");
    let expected = if is_recording { (200, "ready") } else { (503, "not_recording") };
    assert_eq!((ready.status, ready.json()["status"].as_str()), (expected.0, Some(expected.1)));
    let line = format!("parallax_log_available {}\n", u8::from(is_recording));
    assert!(server.admin_get("/metrics").text().contains(&line));
}

#[test]
fn a_full_disk_refuses_events_at_once_until_there_is_room() {
    let Some(disk) = SmallDisk::new() else { return };
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 6 << 20]).expect("there is room");
    let data = disk.path().join("data");
    let snapshots = [("demo.snapshot", &*parallax::testing::cli::demo::compile_demo().1)];
    let server = Server::start_with_data(&data, &snapshots, &["--segment-bytes", "4194304"]);
    let mut client = Client::to(server.edge);
    let mut post = |n: usize| client.post("/v1/batch?site=fjell", &[], batch(n).as_bytes());
    let mut acknowledged: Vec<usize> = Vec::new();
    let refused = (0..100).find(|n| {
        let response = post(*n);
        if response.status == 200 {
            acknowledged.push(*n);
        } else {
            assert_eq!((response.status, response.code()), (503, "disk_unavailable".into()));
            assert_eq!(response.field("retry-after"), Some("1"));
        }
        response.status != 200
    });
    let refused = refused.expect("a disk of 16 MiB gets full");
    assert!(acknowledged.len() > 5, "{acknowledged:?}");
    assert_reported(&server, false);
    server.wait_for_log("ERROR cannot write the log; events get 503");
    let mut visitor = Client::to(server.edge);
    let mut slowest = Duration::ZERO;
    for _ in 0..200 {
        let start = Instant::now();
        let response = post(refused);
        slowest = slowest.max(start.elapsed());
        assert_eq!(response.code(), "disk_unavailable");
        assert_eq!(visitor.request("GET", "/v1/resolve?site=fjell&route=/", &[]).status, 200);
    }
    assert!(slowest < REFUSAL_TIME_MAX, "a refusal took {slowest:?}");
    std::fs::remove_file(&filler).expect("the file exists");
    let start = Instant::now();
    eventually("events are accepted again", || (post(refused).status == 200).then_some(()));
    assert!(start.elapsed() < RECOVERY_TIME_MAX, "it took {:?}", start.elapsed());
    eprintln!(
        "full disk: a refusal took {slowest:?} at most, free space was used after {:?}",
        start.elapsed()
    );
    assert_reported(&server, true);
    server.wait_for_log(" INFO the disk of the log works again");
    acknowledged.push(refused);
    let server = server.restart(&[]);
    let records = logged::records_after_start(&server, 0);
    for n in acknowledged {
        for i in 0..15 {
            let id = format!("m{n}-{i}");
            assert_eq!(records.iter().filter(|record| record["messageId"] == id).count(), 1, "{id}");
        }
    }
}
