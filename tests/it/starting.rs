//! A slow start: the responses of the admin address until the server serves.

use std::fs::{File, OpenOptions};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use parallax::testing::visitors::checkpoint::directory::checkpoint_name;
use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, StartingServer, eventually, temporary_directory};

/// Blocks a start: the checkpoint that it opens is a FIFO without a writer.
pub(crate) fn block_start(data: &Path) -> std::path::PathBuf {
    let fifo = data.join(checkpoint_name(1));
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    fifo
}

/// Unblocks the start. The FIFO has a writer until the result is dropped, but cannot be read at an offset, so
/// the checkpoint is not used.
pub(crate) fn unblock_start(fifo: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(fifo).expect("opened")
}

fn admin_get(starting: &StartingServer, target: &str) -> Response {
    Client::to(starting.admin).request("GET", target, &[])
}

fn ping_count(server: &Server) -> Value {
    server.admin_get("/visitors?site=fjell&anonId=v1").json()["profile"]["visitor"]["events"].clone()
}

#[test]
fn the_admin_address_reports_progress_while_the_log_is_read() {
    let data = temporary_directory();
    let demo = parallax::testing::cli::demo::compile_demo().1;
    let snapshots: &[(&str, &[u8])] = &[("demo.snapshot", &demo)];
    let server = Server::start_with_data(data.path(), snapshots, &[]);
    for _ in 0..3 {
        let ping = br#"{"trackingId":"track_demo","anonId":"v1","event":"ping"}"#;
        assert_eq!(server.post("/v1/track", &[], ping).status, 200);
    }
    assert_eq!(ping_count(&server), 3);
    let edge = server.edge;
    drop(server);

    let fifo = block_start(data.path());
    let starting = Server::begin_with_data(data.path(), snapshots, &[]);
    let response = eventually("the end of the log is known", || {
        let response = admin_get(&starting, "/readyz");
        (response.json()["reading"]["log"]["of"] == 3).then_some(response)
    });
    let expected = json!({ "ready": false, "status": "starting", "scanned": true, "listening": false, "sites": 1,
        "draining": false, "recording": false, "reading": { "visitors": { "done": 0, "of": 0 }, "log": { "done": 0, "of": 3 } } });
    assert_eq!((response.status, response.json()), (503, expected));
    assert_eq!(admin_get(&starting, "/healthz").status, 200);
    let metrics = admin_get(&starting, "/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("parallax_site_version{site=\"fjell\"} "), "{}", metrics.text());
    for target in
        ["/visitors?site=fjell&anonId=v1", "/visitors/export", "/v1/resolve?site=fjell&route=/", "/nothing"]
    {
        let refused = admin_get(&starting, target);
        assert_eq!((refused.status, &*refused.code()), (503, "starting"), "{target}");
        assert_eq!(refused.field("retry-after"), Some("1"), "{target}");
    }
    let stranger = Client::to(starting.admin).request("DELETE", "/visitors?site=fjell&anonId=v1", &[]);
    assert_eq!(stranger.code(), "unauthorized", "an unauthorized client learns nothing");
    assert!(TcpStream::connect(edge).is_err(), "the previous public address is closed");

    let mut client = Client::to(starting.admin);
    assert_eq!(client.request("GET", "/readyz", &[]).json()["status"], "starting");
    drop(unblock_start(&fifo));
    let server = starting.wait_until_serving();
    let ready = client.request("GET", "/readyz", &[]);
    let expected = json!({ "ready": true, "status": "ready", "scanned": true, "listening": true, "sites": 1,
        "draining": false, "recording": true });
    assert_eq!((ready.status, ready.json()), (200, expected), "on the connection from before");
    assert_eq!(ping_count(&server), 3);
    assert!(server.admin_get("/metrics").text().contains("parallax_log_seq 3\n"));
    assert_eq!(server.get("/v1/resolve?site=fjell&route=/").status, 200);
}

#[test]
fn a_failed_start_exits_and_closes_the_admin_address() {
    let data = temporary_directory();
    let server = Server::start_with_data(data.path(), &[], &[]);
    let mut second = Server::begin_with_data(data.path(), &[], &[]);
    assert_eq!(second.exit_code(), 3);
    // io_uring releases the listeners of a dead process some milliseconds late.
    eventually("the admin address is closed", || TcpStream::connect(second.admin).is_err().then_some(()));
    assert_eq!(server.admin_get("/healthz").status, 200);
}
