//! A node whose NATS servers do not answer. If it has joined before, it serves, records and acknowledges.
//! `tests/cluster/events` has nodes with servers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use parallax::testing::cli::demo::compile_demo;
use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, eventually, temporary_directory};
use crate::openapi::Description;
use crate::starting::{block_start, unblock_start};

const EVENT: &[u8] = br#"{"anonId":"v1","event":"Seen"}"#;

/// Calls `act` with the flags of a node. No server listens on port 1.
fn with_flags(act: impl FnOnce(&[&str])) {
    let directory = temporary_directory();
    let secret = directory.path().join("secret");
    fs::write(&secret, [7; 32]).expect("written");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("changed");
    let secret = secret.to_str().expect("UTF-8");
    act(&["--cluster", "nats://127.0.0.1:1", "--node", "a", "--cluster-secret", secret]);
}

/// Starts a node that has joined before. It has no checkpoint.
fn with_node(act: impl FnOnce(&Server)) {
    with_flags(|flags| {
        let data = temporary_directory();
        let text =
            r#"{"format":1,"name":"a","instance":"00112233445566778899aabbccddeeff","hasJoined":true}"#;
        fs::write(data.path().join("node"), text).expect("written");
        act(&Server::start_with_data(data.path(), &[("demo.snapshot", &compile_demo().1)], flags));
    });
}

/// Starts a node that has never joined.
fn with_new_node(act: impl FnOnce(&Server)) {
    with_flags(|flags| act(&Server::start(&[("demo.snapshot", &compile_demo().1)], flags)));
}

#[test]
fn a_node_that_is_alone_acknowledges_from_its_own_disk_and_says_so() {
    with_node(|server| {
        let description = Description::of(server);
        for prefer in ["return=representation", "return=minimal"] {
            let receipt = server.post("/v1/track?site=fjell", &[("Prefer", prefer)], EVENT);
            assert_eq!(receipt.status, 200, "a receipt of invisible events is never shortened");
            description.assert_described("POST", "/v1/track", &receipt);
            assert_eq!(receipt.json()["visible"], false);
            assert_eq!(receipt.json()["durable"], "disk");
        }
        assert_eq!(server.get("/v1/resolve?site=fjell&route=/&anonId=v1").status, 200);
    });
}

#[test]
fn a_node_without_profiles_is_not_ready_and_has_the_reason() {
    with_node(|server| {
        server.post("/v1/track?site=fjell", &[], EVENT);
        let body = eventually("the first connection has failed", || {
            let ready = server.admin_get("/readyz");
            let body = ready.json();
            let is_joining = body["cluster"] == "joining";
            assert_eq!((ready.status, &body["status"]), (503, &"joining".into()), "{body}");
            assert!(!body["profiles"].as_str().unwrap_or_default().contains("1970"), "{body}");
            (!is_joining).then_some(body)
        });
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        assert!(text("cluster").starts_with("alone since 20"), "{body}");
        assert!(text("profiles").starts_with("stale since 20"), "{body}");
        assert!(text("clusterReason").contains("nats://127.0.0.1:1"), "{body}");
        assert_eq!(text("position"), "0");
        let metrics = server.admin_get("/metrics");
        for line in [
            "parallax_cluster_connected 0",
            "parallax_cluster_unreturned_records 1",
            "parallax_cluster_invisible_acknowledgements_total 1",
            "parallax_cluster_era_info{era=\"\",fold_version=\"2\"} 1",
        ] {
            assert!(metrics.text().lines().any(|found| found == line), "{line} is missing");
        }
    });
}

#[test]
fn a_node_that_has_never_joined_acknowledges_nothing_and_decides_for_nobody() {
    with_new_node(|server| {
        let description = Description::of(server);
        let refused = server.post("/v1/track?site=fjell", &[], EVENT);
        assert_eq!((refused.status, &*refused.code()), (503, "not_joined"));
        assert!(refused.field("retry-after").is_some());
        description.assert_described("POST", "/v1/track", &refused);
        assert_eq!(server.admin_get("/readyz").json()["status"], "joining");
        assert_eq!(server.get("/v1/health").status, 503);
        let records = server.admin_get("/visitors/records?site=fjell&anonId=v1").json();
        assert_eq!(records["records"], json!([]), "{records}");
    });
}

#[test]
fn a_node_that_lacks_events_gives_known_visitors_the_default_variants() {
    const STALE: &str = "parallax-stale";
    let experiments = |response: &Response| response.json()["experiments"].clone();
    let alone = Server::demo();
    let description = Description::of(&alone);
    with_node(|server| {
        for path in ["/v1/resolve?site=fjell&route=/", "/v1/variants?site=fjell&route=/"] {
            let decided = alone.get(&format!("{path}&anonId=v7"));
            assert_eq!((decided.status, decided.field(STALE)), (200, None), "{path}");
            assert_ne!(experiments(&decided), "", "the visitor is in an experiment: {path}");
            for _ in 0..2 {
                let stale = server.get(&format!("{path}&anonId=v7"));
                assert_eq!((stale.status, stale.field(STALE)), (200, Some("1")), "{path}");
                assert_eq!(experiments(&stale), "", "{path}");
                assert_eq!(stale.field("cache-control"), Some("private, no-store"));
                let selected = stale.json()["selected"].clone();
                let selected = selected.as_object().expect("zones");
                assert!(selected.values().all(|key| key == "default" || key.is_null()), "{selected:?}");
                description.assert_described("GET", path.split('?').next().expect("a path"), &stale);
            }
            let unknown = server.get(path);
            assert_eq!((unknown.status, unknown.field(STALE)), (200, None), "without an ID: {path}");
            let explained = server.admin_get(&format!("{path}&anonId=v7&explain=1")).json();
            let sources = explained["decisions"].as_array().expect("decisions").iter();
            assert!(sources.clone().count() > 0);
            assert!(sources.clone().all(|zone| zone["source"] == "stale"), "{explained}");
        }
        let strict = [("Prefer", "respond-async, handling=strict")];
        for (target, status) in [
            ("/v1/resolve?site=fjell&route=/&anonId=v7", 503),
            ("/v1/variants?site=fjell&route=/&anonId=v7", 503),
            ("/v1/variants?site=fjell&route=/", 200),
            ("/v1/resolve?site=fjell&route=/&variants=&anonId=v7", 200),
        ] {
            let response = server.get_with(target, &strict);
            assert_eq!(response.status, status, "{target}");
            if status == 503 {
                assert_eq!((&*response.code(), response.field("retry-after").is_some()), ("joining", true));
                description.assert_described("GET", target.split('?').next().expect("a path"), &response);
            }
            assert_eq!(alone.get_with(target, &strict).status, 200, "{target}");
        }
        let forced = server.get("/v1/resolve?site=fjell&route=/&variants=&anonId=v7");
        assert_eq!((forced.status, forced.field(STALE)), (200, None));
        assert_eq!(server.get("/v1/routes?site=fjell").field(STALE), None);
    });
}

#[test]
fn the_profile_of_a_node_has_the_position_in_the_stream() {
    with_node(|server| {
        let body = server.admin_get("/visitors?site=fjell&anonId=v1").json();
        assert_eq!((&body["position"], &body["seq"]), (&"0".into(), &"0".into()), "{body}");
    });
    let alone = Server::demo();
    let body = alone.admin_get("/visitors?site=fjell&anonId=v1").json();
    assert!(body.get("position").is_none() && body["seq"] == "0", "{body}");
    let ready = alone.admin_get("/readyz").json();
    assert!(ready.get("cluster").is_none() && ready.get("nodes").is_none(), "{ready}");
}

/// The targets of the admin address whose answers name their place in the stream.
const OF_LOG: [&str; 12] = [
    "/insights/overview?site=fjell",
    "/insights/overview?site=fjell&of=page&of=source",
    "/insights/top?site=fjell&of=page",
    "/insights/live?site=fjell",
    "/insights/zones?site=fjell&page=/",
    "/insights/funnel?site=fjell&step=page:/&step=screen",
    "/insights/retention?site=fjell",
    "/insights/paths?site=fjell&page=/",
    "/insights/engagement?site=fjell",
    "/insights/experiments?site=fjell",
    "/insights/experiment?site=fjell&key=slow-front",
    "/visitors/records?site=fjell&anonId=v1",
];
const PAGE: &[u8] = br#"{"anonId":"v1","properties":{"path":"/"}}"#;

#[test]
fn an_event_is_in_the_log_of_the_cluster_when_the_stream_has_returned_it() {
    with_node(|server| {
        let receipt = server.post("/v1/page?site=fjell", &[], PAGE).json();
        assert_eq!((&receipt["visible"], &receipt["seq"]), (&json!(false), &Value::Null), "{receipt}");
        for target in OF_LOG {
            let body = server.admin_get(target).json();
            // An answer with several lists has the place in each of them.
            let answer = body["lists"].get(0).unwrap_or(&body);
            let mark = ["chain", "erasedTo"].map(|name| answer[name].clone());
            assert_eq!(mark, [json!("00000000"), json!("0")], "{target}: {body}");
        }
        let records = server.admin_get("/visitors/records?site=fjell&anonId=v1").json();
        assert_eq!(records["records"], json!([]), "{records}");
        assert_eq!(server.admin_get("/visitors/export?site=fjell&anonId=v1").text(), "");
    });
}

#[test]
fn the_answers_of_a_server_that_is_alone_name_no_place_in_a_stream() {
    let server = Server::demo();
    assert_eq!(server.post("/v1/page?site=fjell", &[], PAGE).json()["seq"], "1");
    for target in OF_LOG {
        let body = server.admin_get(target).json();
        let answer = body["lists"].get(0).unwrap_or(&body);
        assert!(answer.get("chain").is_none() && answer.get("erasedTo").is_none(), "{target}: {body}");
    }
}

#[test]
fn a_node_that_reads_its_checkpoint_is_loading() {
    with_flags(|flags| {
        let data = temporary_directory();
        let fifo = block_start(data.path());
        let starting = Server::begin_with_data(data.path(), &[("demo.snapshot", &compile_demo().1)], flags);
        let mut client = Client::to(starting.admin);
        let body = eventually("the snapshots are read", || {
            let ready = client.request("GET", "/readyz", &[]);
            assert_eq!(ready.status, 503);
            let body = ready.json();
            (body["scanned"] == true).then_some(body)
        });
        assert_eq!((&body["status"], &body["cluster"]), (&"starting".into(), &"loading".into()), "{body}");
        let refused = client.request("GET", "/visitors?site=fjell&anonId=v1", &[]);
        assert_eq!((refused.status, &*refused.code()), (503, "starting"));
        // A node opens the file more than once.
        let _writer = unblock_start(&fifo);
        let server = starting.wait_until_serving();
        assert_ne!(server.admin_get("/readyz").json()["cluster"], "loading");
    });
}
