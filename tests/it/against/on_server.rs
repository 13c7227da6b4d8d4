//! `parallax lint --against --server` and `POST /insights/changes`: a running server compares a snapshot with the served one.

use std::time::Duration;

use serde_json::{Value, json};

use parallax::testing::admin::changes::{
    ChangesReceiver, ChangesRequest, PART_TIMEOUT, Received, SnapshotRules,
};
use parallax::testing::clock;
use parallax::testing::limits::BODY_BYTES_MAX;
use parallax::testing::site::catalog::accepted::AcceptedTrackingIds;
use parallax::testing::site::snapshot::open::SnapshotBudget;

use super::changes;
use super::enrolments::{TestSite, after, before, start_with_enrolments};
use crate::command_line::{CommandResult, Workspace};
use crate::harness::{Client, Response, Server, snapshot};

pub(super) const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");
pub(super) const WITH_TOKEN: [&str; 2] = ["--admin-token", "secret"];
/// Size of the header of a snapshot.
const HEADER_BYTES: usize = 80;
/// Offset of the payload length in the header.
const LENGTH_OFFSET: usize = 16;

/// Posts a part of a snapshot of site `acme`.
fn post(server: &Server, offset: usize, part: &[u8]) -> Response {
    let target = format!("/insights/changes?site=acme&offset={offset}");
    Client::to(server.admin).post(&target, &[TOKEN], part)
}

/// Returns the status and the code of a problem.
pub(super) fn refusal(response: &Response) -> (u16, String) {
    (response.status, response.code())
}

fn lint(workspace: &Workspace, versions: [&str; 2], server: &Server) -> CommandResult {
    let [newer, older] = versions;
    let url = format!("http://{}/", server.admin);
    let arguments = ["lint", newer, "--against", older, "--server", &url];
    workspace.run(&[&arguments[..], &WITH_TOKEN].concat())
}

/// Returns `after` with a text of one and a half request bodies, which hardly shrinks when it is compressed. The snapshot has it twice.
fn large_after() -> TestSite {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (state >> 58) as u8)
    };
    TestSite { text: (0..BODY_BYTES_MAX / 2 * 3).map(|_| letter()).collect(), ..after() }
}

#[test]
fn a_running_server_counts_as_a_data_directory_under_its_token() {
    let workspace = Workspace::new();
    before().write(&workspace, "before");
    large_after().write(&workspace, "after");
    let server = start_with_enrolments(&WITH_TOKEN);
    // More entries than a slice has.
    for batch in 0..3 {
        let event = |number: usize| json!({ "type": "page", "anonId": format!("g{batch}-{number}"), "properties": { "path": "/" }, "experiments": "g:b" });
        let events: Vec<Value> = (0..400).map(event).collect();
        let body = json!({ "trackingId": "track_acme", "batch": events }).to_string();
        let fields = [("Content-Type", "application/json")];
        assert_eq!(server.post("/v1/batch", &fields, body.as_bytes()).status, 200);
    }
    let data = server.data().to_string_lossy().into_owned();
    let folded = workspace.run(&["lint", "after", "--against", "before", "--data", &data]);
    let counted = lint(&workspace, ["after", "before"], &server);
    counted.assert_exit(0, &[]);
    assert_eq!(counted.out, folded.out);
    let lines = changes(&counted.out);
    assert!(lines[0].ends_with("4 enrolled IDs start again"), "{lines:?}");
    assert!(lines[2].ends_with("1,201 enrolled IDs keep their arms"), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.ends_with(" of 1,204 known visitors get another variant")),
        "{lines:?}"
    );
    let url = format!("http://{}", server.admin);
    let arguments = ["lint", "after", "--against", "before", "--server", &url];
    let from_environment = workspace.command(&arguments).env("PARALLAX_ADMIN_TOKEN", "secret").output();
    let printed = String::from_utf8(from_environment.expect("the program runs").stdout).expect("UTF-8");
    assert_eq!(changes(&printed), lines);
    workspace.run(&arguments).assert_exit(1, &["needs 'Authorization: Bearer'", "Use --admin-token"]);
    workspace
        .run(&[&arguments[..], &["--data", "data"]].concat())
        .assert_exit(2, &["--data", "cannot be used with"]);
}

#[test]
fn the_server_must_serve_the_version_of_the_comparison() {
    let workspace = Workspace::new();
    before().write(&workspace, "before");
    after().write(&workspace, "after");
    let server = start_with_enrolments(&WITH_TOKEN);
    lint(&workspace, ["before", "before"], &server).assert_exit(0, &["4 experiments do not change"]);
    lint(&workspace, ["before", "after"], &server).assert_exit(
        1,
        &[
            "serves version 1 of site acme, but --against names a version with other changes",
            "name the served version with --against",
        ],
    );
    drop(server);
    let url = "http://127.0.0.1:9";
    let dead = ["lint", "before", "--against", "before", "--server", url];
    // Also if nothing changes.
    workspace.run(&dead).assert_exit(3, &["does not answer", "name the admin address of a running server"]);
}

#[test]
fn an_address_that_is_no_server_of_the_site_is_named() {
    let workspace = Workspace::new();
    TestSite { id: "new", ..before() }.write(&workspace, "before");
    TestSite { id: "new", ..after() }.write(&workspace, "after");
    let server = start_with_enrolments(&WITH_TOKEN);
    lint(&workspace, ["after", "before"], &server)
        .assert_exit(1, &["Neither a published site nor the log has this site ID."]);
    let edge = format!("http://{}", server.edge);
    workspace
        .run(&["lint", "after", "--against", "before", "--server", &edge])
        .assert_exit(1, &["/insights/changes"]);
    workspace
        .run(&["lint", "after", "--against", "before", "--server", "acme"])
        .assert_exit(3, &["acme does not answer"]);
    // Without a token the server takes no snapshot.
    let open = start_with_enrolments(&[]);
    let url = format!("http://{}", open.admin);
    workspace
        .run(&["lint", "after", "--against", "before", "--server", &url])
        .assert_exit(1, &["No admin token is configured"]);
}

#[test]
fn a_snapshot_in_one_part_gets_the_changes_from_the_served_version() {
    let server = start_with_enrolments(&WITH_TOKEN);
    let file = after().snapshot();
    let target = "/insights/changes?site=acme&at=2026-03-10T00:00:00Z";
    let answer = Client::to(server.admin).post(target, &[TOKEN], &file);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let document = answer.json();
    assert_eq!(document["at"], "2026-03-10T00:00:00Z");
    assert_eq!((&document["site"], &document["version"]), (&json!("acme"), &json!("1")));
    assert_eq!(document["against"], json!({ "version": "1" }));
    assert_eq!(document["experiments"][0]["enrolled"], json!({ "before": 4, "after": 0 }));
    assert_eq!(document["profiles"], 4);
    // The server goes on to serve its own version.
    let sites = Client::to(server.admin).request("GET", "/sites", &[TOKEN]).json();
    assert_eq!((&sites["sites"][0]["site"], &sites["sites"][0]["version"]), (&json!("acme"), &json!("1")));
    assert_eq!(Client::to(server.admin).post(target, &[], &file).status, 401);
    let read = Client::to(server.admin).request("GET", target, &[TOKEN]);
    assert_eq!((read.status, read.field("allow")), (405, Some("POST")));
}

#[test]
fn a_snapshot_that_the_server_would_not_serve_is_refused() {
    let flags = [&WITH_TOKEN[..], &["--tracking-id", "track_acme"]].concat();
    let server = Server::start(&[("acme.snapshot", &before().snapshot())], &flags);
    let file = after().snapshot();
    let changed = |offset: usize| {
        let mut bytes = file.clone();
        bytes[offset] ^= 1;
        bytes
    };
    let of_site = |site: &str, tracking_id: &str| {
        let text = json!({ "site": site, "trackingId": tracking_id, "name": "Acme" }).to_string();
        snapshot(&[("site.json", &text)], 2)
    };
    for (bytes, reason) in [
        (b"{}".to_vec(), "not a snapshot"),
        (file[..HEADER_BYTES - 1].to_vec(), "incomplete: 79 of 80 bytes"),
        (changed(8), "unsupported format version"),
        (changed(file.len() - 1), "damaged: the content does not match the hash in the header"),
        ([&file[..], b"x"].concat(), "damaged: the file is longer than its header says"),
        (of_site("other", "track_acme"), "The snapshot has site other, and the parameter 'site' is acme."),
        (
            of_site("acme", "track_mine"),
            "its tracking ID is track_mine, and this server serves only track_acme",
        ),
    ] {
        let response = post(&server, 0, &bytes);
        assert_eq!(refusal(&response), (400, "invalid_snapshot".to_owned()), "{reason}");
        assert!(response.text().contains(reason), "{reason}: {}", response.text());
    }
    let open = start_with_enrolments(&WITH_TOKEN);
    let taken = post(&open, 0, &of_site("acme", "track_other"));
    assert!(taken.text().contains("The tracking ID track_other belongs to another site"), "{}", taken.text());
    for (query, code) in [
        ("", "missing_site"),
        ("?site=acme&offset=-1", "invalid_param"),
        ("?site=acme&at=today", "invalid_param"),
        ("?site=acme&at=2026-03-10T00:00:00Z&at=2026-03-10T00:00:00Z", "repeated_param"),
    ] {
        let target = format!("/insights/changes{query}");
        let response = Client::to(server.admin).post(&target, &[TOKEN], &file);
        assert_eq!(refusal(&response), (400, code.to_owned()), "{query}");
    }
    assert_eq!(post(&server, 0, &file).status, 200);
}

#[test]
fn the_parts_of_a_snapshot_have_at_most_the_size_of_a_request_body_and_arrive_in_order() {
    let server = start_with_enrolments(&WITH_TOKEN);
    let file = large_after().snapshot();
    for part_bytes in [BODY_BYTES_MAX - 1, BODY_BYTES_MAX] {
        let mut offset = 0;
        for part in file.chunks(part_bytes) {
            let response = post(&server, offset, part);
            offset += part.len();
            let expected = json!({ "received": offset, "bytes": file.len() });
            assert_eq!(response.status, 200, "{}", response.text());
            assert_eq!(response.json() == expected, offset < file.len(), "{}", response.text());
        }
    }
    let over = post(&server, 0, &file[..=BODY_BYTES_MAX]);
    assert_eq!(refusal(&over), (413, "body_too_large".to_owned()));
    let [first, second] = [&file[..BODY_BYTES_MAX], &file[BODY_BYTES_MAX..][..BODY_BYTES_MAX]];
    // The complete file is not kept.
    let lost = (400, "invalid_snapshot".to_owned());
    assert_eq!(refusal(&post(&server, BODY_BYTES_MAX, second)), lost);
    assert_eq!(post(&server, 0, first).status, 200);
    for wrong in [BODY_BYTES_MAX - 1, BODY_BYTES_MAX + 1] {
        let response = post(&server, wrong, second);
        assert_eq!(refusal(&response), lost, "{wrong}");
        assert!(response.text().contains("send the file again from offset 0"), "{}", response.text());
    }
    // A wrong part does not end the file.
    assert_eq!(post(&server, BODY_BYTES_MAX, second).status, 200);
}

#[test]
fn an_incomplete_snapshot_counts_in_the_memory_for_snapshots() {
    let room = 1 << 20;
    let memory = room.to_string();
    let flags = [&WITH_TOKEN[..], &["--snapshots-memory", &memory]].concat();
    let server = start_with_enrolments(&flags);
    let used = snapshots_memory_bytes(&server);
    let free = room - used;
    for (file_bytes, expected) in [(free - 1, 200), (free, 200), (free + 1, 503)] {
        // The file before it is dropped.
        let response = post(&server, 0, &header_of(file_bytes));
        assert_eq!(response.status, expected, "{file_bytes}: {}", response.text());
    }
    assert_eq!(snapshots_memory_bytes(&server), used, "the refused file takes no memory");
    // A file of the snapshots directory is in memory already.
    assert_eq!(post(&server, 0, &header_of(free)).status, 200);
    let listed = "/insights/changes?site=acme&file=acme.snapshot";
    assert_eq!(Client::to(server.admin).post(listed, &[TOKEN], b"").status, 200);
    assert_eq!(snapshots_memory_bytes(&server), room);
}

fn snapshots_memory_bytes(server: &Server) -> usize {
    let metrics = Client::to(server.admin).request("GET", "/metrics", &[TOKEN]);
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("parallax_snapshots_memory_bytes "));
    line.expect("the metric").parse().expect("a number")
}

/// Returns the header of a snapshot file of this size.
fn header_of(file_bytes: usize) -> Vec<u8> {
    let mut header = after().snapshot()[..HEADER_BYTES].to_vec();
    let payload = (file_bytes - HEADER_BYTES) as u64;
    header[LENGTH_OFFSET..LENGTH_OFFSET + 8].copy_from_slice(&payload.to_le_bytes());
    header
}

#[test]
fn an_incomplete_snapshot_waits_60_s_for_its_next_part() {
    let file = before().snapshot();
    let [first, second] = [&file[..HEADER_BYTES], &file[HEADER_BYTES..]];
    let request = |offset: usize| {
        ChangesRequest::parse("acme", &[("offset".to_owned(), offset.to_string())]).expect("a request")
    };
    let tick = Duration::from_nanos(1);
    for (wait, is_kept) in [(PART_TIMEOUT - tick, true), (PART_TIMEOUT, true), (PART_TIMEOUT + tick, false)] {
        let budget = SnapshotBudget::new(1 << 20);
        let rules = SnapshotRules { budget: budget.clone(), accepted: AcceptedTrackingIds::default() };
        let mut receiver = ChangesReceiver::new(rules);
        let began = clock::instant();
        assert!(matches!(receiver.receive(&request(0), first, began), Ok(Received::Part(_))));
        assert_eq!(budget.used_bytes(), file.len() as u64);
        receiver.tick(began + wait);
        assert_eq!(budget.used_bytes() > 0, is_kept, "{wait:?}");
        let received = receiver.receive(&request(HEADER_BYTES), second, began + wait);
        assert_eq!(matches!(received, Ok(Received::Complete(_))), is_kept, "{wait:?}");
        assert_eq!(received.is_err(), !is_kept, "{wait:?}");
    }
}
