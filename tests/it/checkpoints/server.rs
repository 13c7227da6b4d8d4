//! A server that is stopped or killed knows its visitors again, and does not read what a checkpoint stands for.

use serde_json::json;

use crate::harness::{Client, Server, eventually, snapshot};

/// A page that tells whoever pinged from whoever did not.
fn server() -> Server {
    let layout = json!({ "root": { "props": {} }, "zones": { "hero": { "default": [], "variants": { "pinged": [] },
        "rules": [{ "when": { "events.ping.count": { "$gte": 1 } }, "variant": "pinged" }] } } });
    let page = json!({ "path": "/", "layout": layout }).to_string();
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" }).to_string();
    Server::start(
        &[("acme.snapshot", &snapshot(&[("site.json", &site), ("routes/index.json", &page)], 1))],
        &[],
    )
}

fn ping(server: &Server, visitors: std::ops::Range<usize>) {
    let mut client = Client::to(server.edge);
    for visitor in visitors {
        let event = json!({ "anonId": format!("visitor-{visitor}"), "event": "ping" }).to_string();
        let response = client.post("/v1/track?site=acme", &[], event.as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }
}

/// The visitors of these numbers, and no other, have pinged.
fn knows(server: &Server, visitors: usize) {
    let mut client = Client::to(server.edge);
    for visitor in 0..=visitors {
        let target = format!("/v1/resolve?site=acme&route=/&anonId=visitor-{visitor}");
        let hero = client.request("GET", &target, &[]).json()["selected"]["hero"].clone();
        assert_eq!(hero == "pinged", visitor < visitors, "visitor {visitor}: {hero}");
    }
}

fn figure(server: &Server, name: &str) -> u64 {
    let page = server.admin_get("/metrics").text().to_owned();
    let line = page.lines().find(|line| line.starts_with(&format!("{name} "))).expect("the figure is there");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn stopped_and_started_again_it_knows_its_visitors_without_reading_the_log() {
    let mut server = server();
    assert!(server.log().contains("visitors comes from the 0 records of the log"), "{}", server.log());
    ping(&server, 0..30);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    assert!(server.log().contains("visitors up to seq 30 are kept in"), "{}", server.log());
    let mut server = server.restart(&[]);
    let expected = "comes from 00000000000000000030.checkpoint, 30 entries, and the 0 records behind it";
    assert!(server.log().contains(expected), "{}", server.log());
    knows(&server, 30);
    assert_eq!(figure(&server, "parallax_checkpoint_seq"), 30);
    ping(&server, 30..40);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let server = server.restart(&["--profiles-memory", "1"]);
    knows(&server, 0);
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn killed_and_started_again_it_reads_what_came_behind_the_checkpoint() {
    let server = server().restart(&["--checkpoint-bytes", "1"]);
    ping(&server, 0..20);
    eventually("a checkpoint is made", || (figure(&server, "parallax_checkpoints_total") > 0).then_some(()));
    let seq = figure(&server, "parallax_checkpoint_seq");
    server.signal("KILL");
    let server = server.restart(&["--checkpoint-bytes", "100000000"]);
    let log = server.log();
    assert!(
        log.contains("what is known of visitors comes from 000000000000000000"),
        "after seq {seq}: {log}"
    );
    knows(&server, 20);
    ping(&server, 20..25);
    server.signal("KILL");
    knows(&server.restart(&[]), 25);
}
