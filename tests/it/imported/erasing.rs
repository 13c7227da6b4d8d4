//! The tombstones of merged directories.

use std::path::Path;

use serde_json::json;

use super::{assert_sound, column, lines, run, send, start, stop, text};
use crate::harness::{Client, Server, temporary_directory};

fn track(server: &Server, anon_id: &str, event: &str) {
    send(server, "/v1/track?site=acme", &[], &json!({ "anonId": anon_id, "event": event }));
}

fn erase(server: &Server, visitor: &str) {
    let target = format!("/visitors?site=acme&{visitor}");
    let erased = Client::to(server.admin).request("DELETE", &target, &[("Authorization", "Bearer open")]);
    assert_eq!(erased.status, 200, "{}", erased.text());
}

/// Asserts that no file of a data directory has a text.
#[track_caller]
fn assert_lacks(directory: &Path, content: &str) {
    run(&["check", text(directory), "--contains", content]).assert(0, &[]);
}

fn sorted_events(data: &Path) -> Vec<String> {
    let mut events = column(data, "event");
    events.sort();
    events
}

#[test]
fn a_tombstone_erases_earlier_records_of_all_inputs_and_spares_later_ones() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let (first, second) = (path("first"), path("second"));
    let (one, two) = (start(&first), start(&second));
    track(&two, "v1", "Early at the second");
    track(&two, "other", "Of another");
    send(
        &two,
        "/v1/identify?site=acme",
        &[],
        &json!({ "anonId": "v3", "userId": "ana@example.com", "traits": { "secret": "Early trait" } }),
    );
    track(&one, "v1", "Early at the first");
    send(&one, "/v1/identify?site=acme", &[], &json!({ "anonId": "v2", "userId": "ana@example.com" }));
    erase(&one, "anonId=v1");
    erase(&one, "userId=ana%40example.com");
    track(&two, "v1", "Later at the second");
    track(&one, "v1", "Later at the first");
    stop(one);
    stop(two);
    let export = path("second.ndjson");
    run(&["export", text(&second), "-o", text(&export)]).assert(0, &[]);
    // Two servers can receive events in the same millisecond, so the order is not compared.
    let kept = ["Later at the first", "Later at the second", "Of another"];

    let inputs: [&[&str]; 3] = [
        &["--merge", text(&first), "--merge", text(&second)],
        // The digests of the first directory get another key.
        &["--merge", text(&second), "--merge", text(&first)],
        &[text(&export), "--merge", text(&first)],
    ];
    for (number, input) in inputs.into_iter().enumerate() {
        let target = path(&format!("data-{number}"));
        let args = [&["import", "-o", text(&target)], input].concat();
        run(&args).assert(0, &["2 tombstones", "carried out the erasures"]);
        assert_eq!(sorted_events(&target), kept, "{args:?}");
        assert_lacks(&target, "Early");
        assert_lacks(&target, "ana@example.com");
        assert_sound(&target);
        let server = start(&target);
        let events = |visitor: &str| {
            let fields = [("Authorization", "Bearer open")];
            let found =
                Client::to(server.admin).request("GET", &format!("/visitors?site=acme&{visitor}"), &fields);
            found.json()["profile"]["visitor"]["events"].as_u64()
        };
        assert_eq!((events("anonId=v1"), events("anonId=other")), (Some(2), Some(1)), "{args:?}");
        assert_eq!((events("userId=ana%40example.com"), events("anonId=v3")), (Some(0), Some(0)), "{args:?}");
        stop(server);
        assert_eq!(sorted_events(&target), kept, "a server has used it");
    }
}

#[test]
fn an_older_backup_and_its_log_have_each_erasure_once() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let (data, backup, target) = (path("data"), path("backup"), path("target"));
    let server = start(&data);
    track(&server, "v1", "Early");
    track(&server, "v2", "Other");
    stop(server);
    run(&["restore", text(&data), text(&backup)]).assert(0, &[]);
    let server = start(&data);
    erase(&server, "anonId=v1");
    track(&server, "v1", "Later");
    stop(server);
    run(&[
        "import",
        "--merge",
        text(&backup),
        "--merge",
        text(&data),
        "--merge",
        text(&target),
        "-o",
        text(&path("x")),
    ])
    .assert(1, &["cannot import", "target"]);
    run(&["import", "--merge", text(&backup), "--merge", text(&data), "-o", text(&target)])
        .assert(0, &["1 tombstone"]);
    assert_eq!(column(&target, "event"), ["Other", "Later"]);
    assert_lacks(&target, "Early");
    // A later import of the result and of its inputs changes nothing.
    let again = path("again");
    run(&[
        "import",
        "--merge",
        text(&target),
        "--merge",
        text(&data),
        "--merge",
        text(&backup),
        "-o",
        text(&again),
    ])
    .assert(0, &["1 tombstone"]);
    assert_eq!(lines(&again), lines(&target));
}
