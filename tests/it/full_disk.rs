//! A disk that is full (R13): events are refused at once, pages are served, and once there is room events are taken again.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Client, Server, eventually, temporary_folder};
use crate::logged;

/// A disk of 16 MB, as long as it lives.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// None, and said so, where this user may not mount one.
    fn new() -> Option<Self> {
        let folder = temporary_folder();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "none"]).arg(folder.path()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!(
                "SKIPPED: a full disk is not tried, since no tmpfs can be mounted here (it needs root)"
            );
            return None;
        }
        Some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that is ending may hold it for a moment.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

const AT_ONCE: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_secs(1);

/// 450 KiB of events under one message ID and what follows from it.
fn batch(n: usize) -> String {
    let event = |i: usize| json!({ "anonId": "v1", "event": "e", "messageId": format!("m{n}-{i}"), "properties": { "pad": "p".repeat(30_000) } });
    json!({ "batch": (0..15).map(event).collect::<Vec<_>>() }).to_string()
}

#[test]
fn a_full_disk_refuses_events_at_once_and_takes_them_again_once_there_is_room() {
    let Some(disk) = SmallDisk::new() else { return };
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![0; 6 << 20]).expect("there is room");
    let data = disk.path().join("data");
    let snapshots = [("demo.snapshot", &*parallax::cli::demo::snapshot().1)];
    let server = Server::recording_to(&data, &snapshots, &["--segment-bytes", "4194304"]);
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
    let refused = refused.expect("16 MB are full");
    assert!(acknowledged.len() > 5, "{acknowledged:?}");
    let mut visitor = Client::to(server.edge);
    let mut slowest = Duration::ZERO;
    for _ in 0..200 {
        let begun = Instant::now();
        let response = post(refused);
        slowest = slowest.max(begun.elapsed());
        assert_eq!(response.code(), "disk_unavailable");
        assert_eq!(visitor.request("GET", "/v1/resolve?site=fjell&route=/", &[]).status, 200);
    }
    assert!(slowest < AT_ONCE, "a refusal took {slowest:?}");
    std::fs::remove_file(&filler).expect("it is there");
    let begun = Instant::now();
    eventually("events are taken again", || (post(refused).status == 200).then_some(()));
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    eprintln!("full disk: a refusal took {slowest:?} at most, room was seen after {:?}", begun.elapsed());
    acknowledged.push(refused);
    let server = server.restart(&[]);
    let records = logged::recovered(&server, 0);
    for n in acknowledged {
        for i in 0..15 {
            let id = format!("m{n}-{i}");
            assert_eq!(records.iter().filter(|record| record["messageId"] == id).count(), 1, "{id}");
        }
    }
}
