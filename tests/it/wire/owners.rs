//! Ownership on the wire: exports and erasures of shared devices, evicted profiles, users of many devices, and
//! IDs in alias records.

use std::process::Command;

use serde_json::{Value, json};

use super::{acme_snapshot, page};
use crate::dice::Dice;
use crate::harness::{Client, Response, Server, eventually, times};

const TOKEN: [&str; 2] = ["--admin-token", "open"];

fn start(flags: &[&str]) -> Server {
    let snapshot = acme_snapshot(&[page("/", json!({}))]);
    Server::start(&[("acme.snapshot", &snapshot)], &[&TOKEN[..], flags].concat())
}

fn admin(server: &Server, method: &str, target: &str) -> Response {
    Client::to(server.admin).request(method, target, &[("Authorization", "Bearer open")])
}

/// Sends an event and returns its receipt.
fn send(server: &Server, event: Value) -> Value {
    let response =
        server.post("/v1/batch?site=acme", &[], json!({ "batch": [event] }).to_string().as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

fn identify(server: &Server, anon: &str, user: &str) {
    let traits = json!({ "email": format!("{user}@example.com") });
    send(server, json!({ "type": "identify", "anonId": anon, "userId": user, "traits": traits }));
}

/// Sends a track event whose content names its owner.
fn track(server: &Server, ids: Value, owner: &str) {
    let mut event =
        json!({ "type": "track", "event": "Viewed", "properties": { "note": format!("note-of-{owner}") } });
    let members = ids.as_object().expect("an object").clone();
    event.as_object_mut().expect("an object").extend(members);
    send(server, event);
}

/// Sends events of new visitors until `is_done`, so that the server evicts others.
pub(super) fn flood_until(client: &mut Client, is_done: impl Fn() -> bool) {
    for round in 0.. {
        let events: Vec<Value> = (0..1_000)
            .map(|n| json!({ "type": "track", "event": "e", "anonId": format!("flood-{round}-{n}") }))
            .collect();
        let body = json!({ "batch": events }).to_string();
        assert_eq!(client.post("/v1/batch?site=acme", &[], body.as_bytes()).status, 200);
        if is_done() {
            break;
        }
    }
}

fn export(server: &Server, id: &str) -> Vec<Value> {
    let response = admin(server, "GET", &format!("/visitors/export?site=acme&{id}"));
    assert_eq!(response.status, 200, "{}", response.text());
    response.text().lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

fn erase(server: &Server, id: &str) -> Value {
    let response = admin(server, "DELETE", &format!("/visitors?site=acme&{id}"));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["erased"].clone()
}

/// Runs `check` on the data directory. Returns its exit code and its output.
fn check(server: &Server, contains: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.arg("check").arg(server.data());
    if let Some(text) = contains {
        command.arg("--contains").arg(text);
    }
    let output = command.output().expect("the command runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[track_caller]
fn assert_gone(server: &Server, text: &str) {
    let (code, output) = check(server, Some(text));
    assert_eq!(code, Some(0), "{text}: {output}");
}

#[track_caller]
fn assert_same_table(server: &Server) {
    // The log writer marks the end of the log as durable after 100 ms.
    eventually("check compares the checkpoint with the log alone", || {
        let (code, output) = check(server, None);
        assert_eq!(code, Some(0), "{output}");
        output.contains("matches the log alone").then_some(())
    });
}

/// Returns a server where ana and then ben used the device v1. Each has 3 records.
fn shared_device() -> Server {
    let server = start(&[]);
    track(&server, json!({ "anonId": "v1" }), "ana");
    identify(&server, "v1", "ana");
    track(&server, json!({ "anonId": "v1" }), "ana");
    identify(&server, "v1", "ben");
    track(&server, json!({ "anonId": "v1" }), "ben");
    track(&server, json!({ "anonId": "v1", "userId": "ben" }), "ben");
    server
}

#[test]
fn each_user_of_a_shared_device_is_exported_alone() {
    let server = shared_device();
    for (user, other) in [("ana", "ben"), ("ben", "ana")] {
        let records = export(&server, &format!("userId={user}"));
        assert_eq!(records.len(), 3, "{records:?}");
        let text = serde_json::to_string(&records).expect("JSON");
        assert!(
            !text.contains(&format!("{other}@")) && !text.contains(&format!("note-of-{other}")),
            "{text}"
        );
    }
    assert_eq!(export(&server, "anonId=v1"), export(&server, "userId=ben"), "the device is with ben now");
}

#[test]
fn each_user_of_a_shared_device_is_erased_alone() {
    for (user, other) in [("ana", "ben"), ("ben", "ana")] {
        let server = shared_device();
        let before = export(&server, &format!("userId={other}"));
        let erased = erase(&server, &format!("userId={user}"));
        assert_eq!((&erased["records"], &erased["redacted"]), (&json!(3), &json!(0)), "{erased}");
        assert_gone(&server, &format!("{user}@example.com"));
        assert_gone(&server, &format!("note-of-{user}"));
        assert_eq!(export(&server, &format!("userId={other}")), before);
        assert_same_table(&server);
        track(&server, json!({ "anonId": "v1" }), "next");
        let owner = if user == "ana" { "ben" } else { "nobody" };
        let profile = admin(&server, "GET", "/visitors?site=acme&anonId=v1").json();
        let user_id = profile["profile"]["visitor"]["userId"].as_str();
        assert_eq!(user_id.unwrap_or("nobody"), owner, "{profile}");
        erase(&server, &format!("userId={other}"));
        assert_gone(&server, &format!("note-of-{other}"));
    }
}

/// Returns the lines of `parallax export` that name a tie: type, anonymous ID and user ID.
fn ties_of_export(server: &Server) -> Vec<[Value; 3]> {
    let output = Command::new(env!("CARGO_BIN_EXE_parallax")).arg("export").arg(server.data()).output();
    let lines = String::from_utf8(output.expect("the command runs").stdout).expect("UTF-8");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let named = lines.filter(|line| !line["tied"].is_null());
    named.map(|line| ["type", "tied", "userId"].map(|name| line[name].clone())).collect()
}

#[test]
fn a_device_does_not_return_to_an_earlier_user_after_the_erasure_of_a_later_one() {
    let mut server = start(&[]);
    let url = "https://acme.example/?utm_campaign=winter";
    send(&server, json!({ "type": "page", "anonId": "shared", "properties": { "path": "/", "url": url } }));
    identify(&server, "shared", "ana");
    identify(&server, "shared", "ben");
    let erased = erase(&server, "userId=ben");
    assert_eq!((&erased["records"], &erased["redacted"]), (&json!(1), &json!(0)), "{erased}");
    assert_gone(&server, "ben");
    track(&server, json!({ "userId": "ana" }), "ana");
    for _ in 0..2 {
        let profile = admin(&server, "GET", "/visitors?site=acme&userId=ana").json();
        assert_eq!(profile["aliases"], json!([]), "{profile}");
        let target = "/insights/top?site=acme&of=campaign";
        let rows = admin(&server, "GET", target).json()["rows"].clone();
        let events = |row: &Value| (row["value"].clone(), row["events"].clone());
        let found: Vec<_> = rows.as_array().expect("rows").iter().map(events).collect();
        assert_eq!(
            found,
            [(json!("winter"), json!(0)), (Value::Null, json!(1))],
            "the event is no event of the visit"
        );
        let (identify, shared) = (json!("identify"), json!("shared"));
        let ties = [[identify.clone(), shared.clone(), json!("ana")], [identify, shared, Value::Null]];
        eventually("the log has no later record to export", || {
            (ties_of_export(&server) == ties).then_some(())
        });
        assert_eq!(export(&server, "userId=ana").len(), 3, "the end of the tie is no record of ana");
        assert_same_table(&server);
        server = server.restart(&TOKEN);
    }
    let erased = erase(&server, "userId=ana");
    assert_eq!(erased["records"], 4, "{erased}");
    assert_gone(&server, "shared");
    assert_gone(&server, "ana");
    assert_same_table(&server);
}

#[test]
fn a_record_of_another_user_loses_only_the_erased_id() {
    let server = start(&[]);
    identify(&server, "device-of-ana", "ana");
    track(&server, json!({ "anonId": "device-of-ana", "userId": "ben" }), "ben");
    send(&server, json!({ "type": "alias", "userId": "ben", "previousId": "device-of-ana" }));
    let profile = admin(&server, "GET", "/visitors?site=acme&userId=ben").json()["profile"].clone();
    let erased = erase(&server, "userId=ana");
    assert_eq!((&erased["records"], &erased["redacted"]), (&json!(1), &json!(2)), "{erased}");
    assert_gone(&server, "device-of-ana");
    assert_gone(&server, "ana@example.com");
    let records = export(&server, "userId=ben");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!((&record["anonId"], &record["userId"]), (&Value::Null, &json!("ben")), "{record}");
        assert_eq!(record["payload"], json!({}));
    }
    assert_eq!(records[0]["event"], "Viewed", "the other members stay");
    assert_eq!(admin(&server, "GET", "/visitors?site=acme&userId=ben").json()["profile"], profile);
    assert_same_table(&server);
}

#[test]
fn an_export_contains_the_aliases_that_name_the_visitor() {
    let server = start(&[]);
    identify(&server, "device-of-ana", "ana");
    send(&server, json!({ "type": "alias", "userId": "ben", "previousId": "device-of-ana" }));
    let kinds =
        |id: &str| export(&server, id).iter().map(|record| record["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds("userId=ana"), [json!("identify"), json!("alias")]);
    assert_eq!(kinds("userId=ben"), [json!("alias")]);
}

#[test]
fn a_user_of_70_devices_is_exported_and_erased_whole() {
    let server = start(&["--segment-bytes", "65536"]);
    for device in 0..70 {
        track(&server, json!({ "anonId": format!("device-{device}-of-ana") }), "ana");
        identify(&server, &format!("device-{device}-of-ana"), "ana");
    }
    // The first devices are not in the profile any more.
    track(&server, json!({ "anonId": "device-0-of-ana" }), "ana");
    track(&server, json!({ "anonId": "stranger" }), "stranger");
    assert_eq!(export(&server, "userId=ana").len(), 141);
    let erased = erase(&server, "userId=ana");
    assert_eq!(erased["records"], 141, "{erased}");
    assert_gone(&server, "of-ana");
    assert_gone(&server, "ana@example.com");
    assert_eq!(export(&server, "anonId=stranger").len(), 1);
    let first = admin(&server, "GET", "/visitors?site=acme&anonId=device-0-of-ana").json();
    assert_eq!(first["known"], false);
    assert_same_table(&server);
}

#[test]
fn an_export_reads_no_segment_whose_filter_lacks_the_visitor() {
    let server = start(&["--segment-bytes", "65536"]);
    let filler = "x".repeat(30_000);
    for number in 0..4 {
        track(&server, json!({ "anonId": format!("stranger-{number}") }), &filler);
    }
    track(&server, json!({ "anonId": "device-of-ana" }), "ana");
    // The first segment is sealed by now. Damage in it is not the visitor's, because its filter is intact.
    let path = server.data().join("00000000000000000001.segment");
    let mut bytes = std::fs::read(&path).expect("the segment exists");
    bytes[200] ^= 1;
    std::fs::write(&path, &bytes).expect("the segment is written");
    let damaged = |id: &str| {
        let response = admin(&server, "GET", &format!("/visitors/export?site=acme&{id}"));
        assert_eq!(response.status, 200, "{}", response.text());
        (response.field("x-damaged").map(str::to_owned), response.text().lines().count())
    };
    assert_eq!(damaged("anonId=device-of-ana"), (None, 1));
    assert_eq!(damaged("anonId=stranger-0").0.as_deref(), Some("1"), "the filter has this visitor");
}

#[test]
fn a_site_id_that_is_longer_than_any_is_refused() {
    let server = start(&[]);
    for (length, status, code) in [(64, 404, "site_not_found"), (65, 400, "invalid_param")] {
        let target = format!("/visitors?site={}&anonId=v1", "x".repeat(length));
        let response = admin(&server, "DELETE", &target);
        assert_eq!((response.status, &*response.code()), (status, code), "{length}");
    }
}

#[test]
fn an_evicted_visitor_is_exported_and_erased_whole() {
    let server = start(&["--profiles-memory", "1MiB"]);
    identify(&server, "device-of-ana", "ana");
    let mut client = Client::to(server.edge);
    let is_known = || admin(&server, "GET", "/visitors?site=acme&userId=ana").json()["known"] == json!(true);
    assert!(is_known());
    flood_until(&mut client, || !is_known());
    track(&server, json!({ "anonId": "device-of-ana" }), "ana");
    track(&server, json!({ "anonId": "device-of-ana", "userId": "ben" }), "ben");
    assert_eq!(export(&server, "userId=ana").len(), 2);
    let erased = erase(&server, "userId=ana");
    assert_eq!((&erased["records"], &erased["redacted"]), (&json!(2), &json!(1)), "{erased}");
    for text in ["of-ana", "ana@example.com"] {
        assert_gone(&server, text);
    }
    assert_eq!(export(&server, "userId=ben").len(), 1);
    let (code, output) = check(&server, None);
    assert!(code == Some(0) && output.contains("not compared with the log alone: "), "{output}");
}

#[test]
fn a_retry_of_an_erased_event_is_a_duplicate() {
    let server = start(&[]);
    let event = json!({ "type": "track", "event": "e", "anonId": "v1", "messageId": "m1" });
    assert_eq!(send(&server, event.clone())["accepted"], 1);
    assert_eq!(erase(&server, "anonId=v1")["records"], 1);
    assert_eq!(send(&server, event.clone())["duplicates"], 1);
    let server = server.restart(&TOKEN);
    assert_eq!(send(&server, event)["duplicates"], 1, "also after a restart");
}

#[test]
fn a_site_that_neither_catalog_nor_log_knows_is_404() {
    let server = start(&[]);
    track(&server, json!({ "anonId": "v1" }), "v1");
    std::fs::remove_file(server.path("acme.snapshot")).expect("the snapshot is removed");
    eventually("the site is not published", || {
        (server.get("/v1/resolve?site=acme&route=/").status == 404).then_some(())
    });
    for (method, path) in [("GET", "/visitors"), ("GET", "/visitors/export"), ("DELETE", "/visitors")] {
        let response = admin(&server, method, &format!("{path}?site=acne&anonId=v1"));
        assert_eq!((response.status, &*response.code()), (404, "site_not_found"), "{method} {path}");
        let response = admin(&server, method, &format!("{path}?site=acme&anonId=v1"));
        assert_eq!(response.status, 200, "the log knows the site: {}", response.text());
    }
    let server = server.restart(&TOKEN);
    assert_eq!(admin(&server, "GET", "/visitors?site=acme&anonId=v1").status, 200);
    assert_eq!(admin(&server, "GET", "/visitors?site=acne&anonId=v1").status, 404);
}

#[test]
fn a_server_that_is_killed_during_an_erasure_finishes_it_after_the_next_start() {
    let mut dice = Dice(7);
    for round in 0..times(6, 200) {
        let mut server = start(&["--segment-bytes", "65536"]);
        let filler = "x".repeat(4_000);
        for number in 0..60 {
            let note = format!("{filler}-of-ana-{number}");
            identify(&server, &format!("device-{}-of-ana", number % 3), "ana");
            track(&server, json!({ "anonId": format!("device-{}-of-ana", number % 3) }), &note);
            track(&server, json!({ "anonId": "device-0-of-ana", "userId": "ben" }), "ben");
        }
        let before = export(&server, "userId=ben").len();
        let mut client = Client::to(server.admin);
        client.send(
            b"DELETE /visitors?site=acme&userId=ana HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open\r\n\r\n",
        );
        // The kill comes after a random number of other requests, so at another step of the erasure in each round.
        (0..dice.below(150)).for_each(|_| assert_eq!(server.admin_get("/healthz").status, 200));
        server = server.restart(&TOKEN);
        let context = format!("round {round}");
        eventually("the erasure is finished", || (!server.data().join("erasing").exists()).then_some(()));
        if export(&server, "userId=ana").is_empty() {
            assert_gone(&server, "of-ana");
        }
        erase(&server, "userId=ana");
        assert_gone(&server, "of-ana");
        assert_gone(&server, "ana@example.com");
        assert_eq!(export(&server, "userId=ben").len(), before, "{context}");
        assert_same_table(&server);
    }
}

#[test]
fn an_unknown_id_is_not_erased_and_an_erased_one_is_known() {
    let server = start(&[]);
    let delete = |server: &Server, id: &str| admin(server, "DELETE", &format!("/visitors?site=acme&{id}"));
    let not_found = |server: &Server, id: &str, decoded: &str| {
        let response = delete(server, id);
        let problem = response.json();
        assert_eq!((response.status, &problem["code"]), (404, &json!("visitor_not_found")), "{id}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(decoded)), "{problem}");
    };
    track(&server, json!({ "userId": "ana+shop@example.com" }), "ana");
    let before = export(&server, "userId=ana%2Bshop%40example.com").len();
    // In a query string, a plus sign is a blank.
    not_found(&server, "userId=ana+shop@example.com", "'ana shop@example.com'");
    not_found(&server, "anonId=nobody", "'nobody'");
    assert_eq!(export(&server, "userId=ana%2Bshop%40example.com").len(), before);
    assert_eq!(erase(&server, "userId=ana%2Bshop%40example.com")["records"], 1);
    assert_eq!(erase(&server, "userId=ana%2Bshop%40example.com")["records"], 0);
    let server = server.restart(&TOKEN);
    assert_eq!(erase(&server, "userId=ana%2Bshop%40example.com")["records"], 0);
    not_found(&server, "userId=ana+shop@example.com", "'ana shop@example.com'");
    // An alias of another user names the ID, and ties it.
    send(&server, json!({ "type": "alias", "previousId": "device", "userId": "ben" }));
    assert_eq!(delete(&server, "anonId=device").status, 200);
}
