//! A start that takes its time: what the operator is told until a server serves.

use std::fs::OpenOptions;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use parallax::visitors::checkpoint::directory::checkpoint_name;
use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, Starting, eventually, temporary_folder};

/// Keeps a start from going on: the checkpoint that it opens is a FIFO without a writer.
fn held_back(data: &Path) -> std::path::PathBuf {
    let fifo = data.join(checkpoint_name(1));
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    fifo
}

/// Lets it go on: there is a writer, but nothing to be read at an offset, so the checkpoint is not used.
fn let_go(fifo: &Path) {
    OpenOptions::new().read(true).write(true).open(fifo).expect("opened");
}

fn ask(starting: &Starting, target: &str) -> Response {
    Client::to(starting.admin).request("GET", target, &[])
}

fn pinged(server: &Server) -> Value {
    server.admin_get("/visitors?site=fjell&anonId=v1").json()["profile"]["visitor"]["events"].clone()
}

#[test]
fn while_the_log_is_read_the_operator_is_told_how_far_it_is_and_nobody_else_is_answered() {
    let data = temporary_folder();
    let demo = parallax::cli::demo::snapshot().1;
    let snapshots: &[(&str, &[u8])] = &[("demo.snapshot", &demo)];
    let server = Server::recording_to(data.path(), snapshots, &[]);
    for _ in 0..3 {
        let ping = br#"{"trackingId":"track_demo","anonId":"v1","event":"ping"}"#;
        assert_eq!(server.post("/v1/track", &[], ping).status, 200);
    }
    assert_eq!(pinged(&server), 3);
    let edge = server.edge;
    drop(server);

    let fifo = held_back(data.path());
    let starting = Server::starting_over(data.path(), snapshots);
    let told = eventually("the end of the log is known", || {
        let told = ask(&starting, "/readyz");
        (told.json()["reading"]["log"]["of"] == 3).then_some(told)
    });
    let expected = json!({ "ready": false, "status": "starting", "scanned": true, "listening": false, "sites": 1,
        "draining": false, "reading": { "visitors": { "done": 0, "of": 0 }, "log": { "done": 0, "of": 3 } } });
    assert_eq!((told.status, told.json()), (503, expected));
    assert_eq!(ask(&starting, "/healthz").status, 200);
    let metrics = ask(&starting, "/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("parallax_site_version{site=\"fjell\"} "), "{}", metrics.text());
    for target in
        ["/visitors?site=fjell&anonId=v1", "/visitors/export", "/v1/resolve?site=fjell&route=/", "/nothing"]
    {
        let refused = ask(&starting, target);
        assert_eq!((refused.status, &*refused.code()), (503, "starting"), "{target}");
        assert_eq!(refused.field("retry-after"), Some("1"), "{target}");
    }
    let stranger = Client::to(starting.admin).request("DELETE", "/visitors?site=fjell&anonId=v1", &[]);
    assert_eq!(stranger.code(), "unauthorized", "who is not admitted is told nothing");
    assert!(TcpStream::connect(edge).is_err(), "the public address of before is gone");

    let mut kept = Client::to(starting.admin);
    assert_eq!(kept.request("GET", "/readyz", &[]).json()["status"], "starting");
    let_go(&fifo);
    let server = starting.serving();
    let ready = kept.request("GET", "/readyz", &[]);
    let expected = json!({ "ready": true, "status": "ready", "scanned": true, "listening": true, "sites": 1,
        "draining": false });
    assert_eq!((ready.status, ready.json()), (200, expected), "on the connection that was open before");
    assert_eq!(pinged(&server), 3);
    assert!(server.admin_get("/metrics").text().contains("parallax_log_seq 3\n"));
    assert_eq!(server.get("/v1/resolve?site=fjell&route=/").status, 200);
}

#[test]
fn a_start_that_fails_ends_and_leaves_the_operators_address() {
    let data = temporary_folder();
    let server = Server::recording_to(data.path(), &[], &[]);
    let mut second = Server::starting_over(data.path(), &[]);
    assert_eq!(second.exit_code(), 3);
    assert!(TcpStream::connect(second.admin).is_err());
    assert_eq!(server.admin_get("/healthz").status, 200);
}
