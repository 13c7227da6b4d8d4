//! A server that was stopped or killed knows its visitors again, and does not read records that a checkpoint
//! covers.

use serde_json::json;

use crate::harness::{Client, Server, eventually, snapshot};

/// Starts a server whose page shows the variant `pinged` to visitors who sent a ping.
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

/// Asserts that the visitors below this number have pinged, and that the next one has not.
fn assert_pinged(server: &Server, visitors: usize) {
    let mut client = Client::to(server.edge);
    for visitor in 0..=visitors {
        let target = format!("/v1/resolve?site=acme&route=/&anonId=visitor-{visitor}");
        let hero = client.request("GET", &target, &[]).json()["selected"]["hero"].clone();
        assert_eq!(hero == "pinged", visitor < visitors, "visitor {visitor}: {hero}");
    }
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = server.admin_get("/metrics").text().to_owned();
    let line = page.lines().find(|line| line.starts_with(&format!("{name} "))).expect("the metric is there");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_restart_after_a_stop_knows_visitors_without_reading_the_log() {
    let mut server = server();
    server.wait_for_log("rebuilt visitor profiles records=0 checkpoint=none");
    ping(&server, 0..30);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    server.wait_for_log("wrote checkpoint seq=30 ");
    let mut server = server.restart(&[]);
    let expected = "rebuilt visitor profiles records=0 checkpoint=00000000000000000030.checkpoint entries=30";
    server.wait_for_log(expected);
    assert_pinged(&server, 30);
    assert_eq!(metric(&server, "parallax_checkpoint_seq"), 30);
    ping(&server, 30..40);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let server = server.restart(&["--profiles-memory", "1"]);
    assert_pinged(&server, 0);
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn a_restart_after_a_kill_reads_the_records_after_the_checkpoint() {
    let server = server().restart(&["--checkpoint-bytes", "1"]);
    ping(&server, 0..20);
    eventually("a checkpoint is made", || (metric(&server, "parallax_checkpoints_total") > 0).then_some(()));
    let seq = metric(&server, "parallax_checkpoint_seq");
    server.signal("KILL");
    let server = server.restart(&["--checkpoint-bytes", "100000000"]);
    let log = server.log();
    assert!(log.contains("checkpoint=000000000000000000"), "after seq {seq}: {log}");
    assert_pinged(&server, 20);
    ping(&server, 20..25);
    server.signal("KILL");
    assert_pinged(&server.restart(&[]), 25);
}
