//! The erasure of a visitor with records in every segment, beside events and GETs (R16). The long form erases in
//! 10 GB of records on a disk.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::cli::demo::compile_demo;
use serde_json::json;

use crate::harness::{Client, Server, times, under_load};

/// Events of a batch: 400 KB with their texts.
const EVENTS: u64 = 1_000;
/// Bytes that a record has beside its event: fields, texts, and the key in the footer of its segment.
const RECORD_EXTRA_BYTES: u64 = 130;
/// Clients that fill the log, each with its own visitors.
const FILLERS: u64 = 4;
/// Clients of the load during the erasure. Each sends a GET, then an event.
const LOAD_CLIENTS: usize = 8;
/// A text in each event of the visitor, and in no other one.
const CONTENT: &str = "content-of-the-erased-visitor";

/// Returns a batch whose first event is one of the visitor, and the others of 100,000 visitors.
fn batch(number: u64) -> Vec<u8> {
    let event = |at: u64| {
        let n = number * EVENTS + at;
        let (visitor, note) = match at {
            0 => ("erased".to_owned(), CONTENT.to_owned()),
            _ => (format!("v{}", n % 100_000), format!("note-{n:0200}")),
        };
        json!({ "type": "track", "event": "Viewed", "anonId": visitor, "messageId": format!("m{n}"), "properties": { "note": note } })
    };
    json!({ "batch": (0..EVENTS).map(event).collect::<Vec<_>>() }).to_string().into_bytes()
}

/// Sends batches until the log has `bytes`. Returns the number of batches.
fn fill(server: &Server, bytes: u64) -> u64 {
    let next = AtomicU64::new(0);
    let batches = bytes / (batch(0).len() as u64 + EVENTS * RECORD_EXTRA_BYTES);
    let send = || {
        let mut client = Client::to(server.edge);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= batches {
                break;
            }
            let response = client.post("/v1/batch?site=fjell", &[], &batch(number));
            assert_eq!(response.status, 200, "{}", response.text());
        }
    };
    thread::scope(|scope| (0..FILLERS).for_each(|_| drop(scope.spawn(send))));
    batches
}

fn send_get_and_event(client: &mut Client) {
    let get = client.request("GET", "/v1/resolve?site=fjell&route=/&anonId=v7", &[]);
    assert_eq!(get.status, 200, "{}", get.text());
    let event = br#"{"type":"track","event":"Clicked","anonId":"v7"}"#;
    let post = client.post("/v1/track?site=fjell", &[], event);
    assert_eq!(post.status, 200, "{}", post.text());
}

#[test]
fn a_visitor_in_every_segment_is_erased_under_load() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let megabytes = times(24, 10_000) as u64;
    let segment_bytes = (times(2, 64) << 20).to_string();
    let flags = ["--segment-bytes", &segment_bytes, "--admin-token", "open", "--connections", "100"];
    let server = Server::start_with_data(data.path(), &[("demo.snapshot", &compile_demo().1)], &flags);
    let records = fill(&server, megabytes * 1_000_000);
    let mut admin = Client::to(server.admin);
    admin.set_read_timeout(Duration::from_secs(600));
    let target = "/visitors?site=fjell&anonId=erased";
    let (seconds, calls) = under_load(server.edge, LOAD_CLIENTS, send_get_and_event, || {
        let begun = Instant::now();
        let response = admin.request("DELETE", target, &[("Authorization", "Bearer open")]);
        let erased = response.json()["erased"].clone();
        assert_eq!(
            (response.status, erased["records"].as_u64()),
            (200, Some(records)),
            "{}",
            response.text()
        );
        assert!(erased["segments"].as_u64().is_some_and(|segments| segments > 4), "{erased}");
        begun.elapsed().as_secs_f64()
    });
    eprintln!(
        "{megabytes} MB erased in {seconds:.1} s, beside {:.0} GETs and as many events a second",
        calls as f64 / seconds
    );
    let check = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .arg("check")
        .arg(server.data())
        .args(["--contains", CONTENT])
        .output()
        .expect("the command runs");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
