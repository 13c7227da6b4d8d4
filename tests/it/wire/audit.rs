//! The lines of a server: each look at a visitor, export and erasure has one, and none has an ID in plain form.

use std::fs;
use std::path::Path;

use parallax::testing::audit::{AuditLine, Subject, directory_of, read_audit_log};
use parallax::testing::record::{IdKind, TombstoneKey, VisitorId};
use parallax::testing::storage::disk::RealDisk;
use serde_json::json;

use super::{acme_snapshot, compile_site, page, site_file};
use crate::harness::{Client, Response, Server, eventually, temporary_directory};

const TOKEN: [&str; 2] = ["--admin-token", "open"];
const ANON: &str = "deviceofzebra";
const USER: &str = "userzebra";

fn start(data: &Path, flags: &[&str]) -> Server {
    Server::start_with_data(data, &[("acme.snapshot", &acme_snapshot(&[page("/", json!({}))]))], flags)
}

fn admin(server: &Server, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    let fields = [&[("Authorization", "Bearer open")][..], fields].concat();
    Client::to(server.admin).request(method, target, &fields)
}

fn record_visitor(server: &Server) {
    let event =
        json!({ "type": "identify", "anonId": ANON, "userId": USER, "traits": { "email": "z@a.example" } });
    let page = json!({ "type": "page", "anonId": ANON, "url": "https://a.example/", "messageId": "m1" });
    let body = json!({ "batch": [event, page] }).to_string();
    assert_eq!(server.post("/v1/batch?site=acme", &[], body.as_bytes()).status, 200);
}

fn lines(data: &Path) -> Vec<AuditLine> {
    let mut lines = Vec::new();
    let report = read_audit_log(&RealDisk, data, &mut |record| {
        lines.push(record.line.clone());
        true
    });
    let report = report.expect("the log is read");
    assert!(report.damage.is_empty(), "{report:?}");
    lines
}

/// Returns the lines without those of the server itself, as soon as there are so many.
fn lines_of_clients(data: &Path, count: usize) -> Vec<AuditLine> {
    eventually("the lines are written", || {
        let mut found = lines(data);
        found.retain(|line| line.actor.kind != "server");
        (found.len() >= count).then_some(found)
    })
}

/// Asserts that no audit file has this text.
fn assert_absent(data: &Path, text: &str) {
    for entry in fs::read_dir(directory_of(data)).expect("the log exists") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a file");
        assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }
}

#[test]
fn each_look_export_and_erasure_has_a_line_without_the_id() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let server = start(&data, &TOKEN);
    record_visitor(&server);
    let visitor = format!("site=acme&anonId={ANON}");
    let by_user = format!("site=acme&userId={USER}");
    let requests = [
        ("GET", format!("/visitors?{visitor}"), ("view", "done", "profile")),
        ("HEAD", format!("/visitors?{by_user}"), ("view", "done", "profile")),
        ("GET", format!("/visitors/records?{visitor}"), ("view", "done", "records")),
        (
            "GET",
            format!("/v1/resolve?site=acme&route=/&anonId={ANON}&explain=1"),
            ("view", "done", "decision"),
        ),
        ("GET", format!("/visitors/export?{visitor}"), ("export", "done", "records=2")),
    ];
    for (number, (method, target, expected)) in requests.iter().enumerate() {
        let response = admin(&server, method, target, &[]);
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        let line = lines_of_clients(&data, number + 1).pop().expect("a line");
        assert_eq!((&*line.action, &*line.outcome, &*line.detail), *expected, "{target}");
        assert_eq!(
            (&*line.actor.kind, line.site.as_deref(), line.from.as_deref()),
            ("operator", Some("acme"), Some("127.0.0.1"))
        );
        let key = TombstoneKey::read(std::sync::Arc::new(RealDisk), &data)
            .expect("the key is read")
            .expect("a key");
        let id = |id_kind, id| Subject::of(&key, VisitorId { site: "acme", id_kind, id }).to_string();
        let subject = if target.contains(USER) { id(IdKind::User, USER) } else { id(IdKind::Anon, ANON) };
        assert_eq!(line.subject, Some(subject), "{target}");
    }
    let count = requests.len();
    let explained = admin(&server, "GET", &format!("/visitors/explain?{visitor}&seq=2"), &[]);
    assert_eq!(explained.status, 200, "{}", explained.text());
    assert_eq!(lines_of_clients(&data, count + 1)[count].detail, "explain");
    let erased = admin(&server, "DELETE", &format!("/visitors?{visitor}"), &[]);
    assert_eq!(erased.status, 200, "{}", erased.text());
    // Both lines are durable before the answer, so nothing waits for them.
    let found = lines(&data);
    let erasures: Vec<_> = found.iter().filter(|line| line.action == "erase").collect();
    let [started, done] = erasures[..] else { panic!("{erasures:?}") };
    assert_eq!((&*started.outcome, &*done.outcome, &started.subject), ("started", "done", &done.subject));
    assert!(done.detail.contains("records=2"), "{}", done.detail);
    for text in [ANON, USER, "z@a.example"] {
        assert_absent(&data, text);
    }
}

#[test]
fn a_search_by_a_trait_has_a_line_without_its_text() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let site = site_file("acme", json!({ "searchable": ["email"] }));
    let snapshot = compile_site(&site, &[page("/", json!({}))], 1);
    let server = Server::start_with_data(&data, &[("acme.snapshot", &snapshot)], &TOKEN);
    record_visitor(&server);
    let search = [("X-Visitor", "email=z%40a.example")];
    let found = admin(&server, "GET", "/insights/visitors?site=acme", &search);
    assert_eq!(found.status, 200, "{}", found.text());
    let line = lines_of_clients(&data, 1).pop().expect("a line");
    assert_eq!((&*line.action, line.site.as_deref(), line.subject), ("find", Some("acme"), None));
    assert_absent(&data, "a.example");
    // The list of visitors has a line of its own.
    assert_eq!(admin(&server, "GET", "/insights/visitors?site=acme", &[]).status, 200);
    assert_eq!(admin(&server, "GET", &format!("/visitors?site=acme&anonId={ANON}"), &[]).status, 200);
    let details: Vec<_> = lines_of_clients(&data, 3).into_iter().map(|line| line.detail).collect();
    assert_eq!(details, ["search", "list", "profile"]);
}

#[test]
fn an_erasure_of_an_unknown_visitor_has_failed_and_a_refused_request_has_no_line() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let server = start(&data, &TOKEN);
    assert_eq!(admin(&server, "DELETE", "/visitors?site=acme&anonId=nobody", &[]).status, 404);
    let outcomes: Vec<_> = lines(&data)
        .into_iter()
        .filter(|line| line.action == "erase")
        .map(|line| (line.outcome, line.detail))
        .collect();
    let expected =
        [("started", ""), ("failed", "visitor_not_found")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(outcomes, expected);
    for target in
        ["/visitors?site=nosuch&anonId=a", "/visitors?site=acme", "/visitors?site=acme&anonId=a&anonId=b"]
    {
        assert!(admin(&server, "GET", target, &[]).status >= 400, "{target}");
    }
    assert_eq!(lines_of_clients(&data, 2).len(), 2);
}

#[test]
fn without_a_token_the_actor_is_a_client_of_this_machine() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let server = start(&data, &[]);
    assert_eq!(server.admin_get("/visitors?site=acme&anonId=a").status, 200);
    assert_eq!(lines_of_clients(&data, 1)[0].actor.kind, "loopback");
}

#[test]
fn nothing_is_shown_exported_or_erased_while_the_log_cannot_be_written() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("the directory is created");
    // The directory of the audit log cannot be created.
    fs::write(data.join("audit"), "").expect("the file is written");
    let server = start(&data, &TOKEN);
    record_visitor(&server);
    server.wait_for_log("cannot write the audit log");
    let visitor = format!("site=acme&anonId={ANON}");
    for (method, target) in [
        ("GET", format!("/visitors?{visitor}")),
        ("GET", format!("/visitors/export?{visitor}")),
        ("GET", format!("/visitors/records?{visitor}")),
        ("GET", format!("/visitors/explain?{visitor}&seq=2")),
        ("GET", format!("/v1/resolve?site=acme&route=/&anonId={ANON}&explain=1")),
        ("DELETE", format!("/visitors?{visitor}")),
    ] {
        let response = admin(&server, method, &target, &[]);
        assert_eq!(
            (response.status, response.code()),
            (503, "audit_unavailable".into()),
            "{method} {target}"
        );
        assert!(!response.text().contains(USER), "{target}");
    }
    let metrics = server.admin_get("/metrics");
    assert!(metrics.text().contains("parallax_audit_failures_total 6\n"), "{}", metrics.text());
    assert!(metrics.text().contains("parallax_audit_records_total 0\n"));
    assert!(!metrics.text().contains("parallax_audit_head_info{"), "there is no head");
    fs::remove_file(data.join("audit")).expect("the file is removed");
    let shown = eventually("the log is written again", || {
        Some(admin(&server, "GET", &format!("/visitors?{visitor}"), &[])).filter(|shown| shown.status == 200)
    });
    assert_eq!(shown.json()["known"], true, "nothing was erased");
    let found = eventually("the lines that have waited are written", || {
        Some(lines(&data)).filter(|found| !found.is_empty())
    });
    assert_eq!(found.first().map(|line| &*line.action), Some("start"), "the line about the start has waited");
    assert!(found.iter().all(|line| line.action != "erase" && line.action != "export"), "{found:?}");
    assert_eq!(admin(&server, "DELETE", &format!("/visitors?{visitor}"), &[]).status, 200);
}

#[test]
fn a_deleted_audit_directory_is_noticed_at_the_next_line() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let server = start(&data, &TOKEN);
    assert_eq!(admin(&server, "GET", "/visitors/export?site=acme&anonId=a", &[]).status, 200);
    let before = lines(&data).len() as u64;
    fs::rename(directory_of(&data), directory.path().join("moved")).expect("the directory is moved");
    assert_eq!(admin(&server, "GET", "/visitors/export?site=acme&anonId=a", &[]).status, 200);
    let report = read_audit_log(&RealDisk, &data, &mut |_| true).expect("the log is read");
    assert_eq!((report.base.number, report.records), (before, 1), "the new file continues the chain");
    server.wait_for_log("the audit file was moved or deleted");
}

#[test]
fn starts_stops_publications_and_rollbacks_have_lines() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let mut server = start(&data, &TOKEN);
    let actions = |count: usize| {
        eventually("the lines are written", || {
            let found = lines(&data);
            let found: Vec<_> = found
                .into_iter()
                .map(|line| (line.action, line.actor.kind, line.site, line.detail))
                .collect();
            (found.len() >= count).then_some(found)
        })
    };
    let first = actions(1);
    assert_eq!(first.len(), 1, "the versions of a start are no publications: {first:?}");
    assert!(first[0].0 == "start" && first[0].3.starts_with("version="), "{first:?}");
    let second = compile_site(&site_file("acme", json!({})), &[page("/", json!({}))], 2);
    server.publish("acme-2.snapshot", &second);
    let detail = |lines: &[(String, String, Option<String>, String)], index: usize| {
        let (action, kind, site, detail) = &lines[index];
        assert_eq!((&**kind, site.as_deref()), ("server", Some("acme")), "{lines:?}");
        (action.clone(), detail.clone())
    };
    assert_eq!(detail(&actions(2), 1), ("publish".into(), "version=2 before=1".into()));
    fs::remove_file(server.path("acme-2.snapshot")).expect("the snapshot is removed");
    assert_eq!(detail(&actions(3), 2), ("rollback".into(), "version=1 before=2".into()));
    fs::remove_file(server.path("acme.snapshot")).expect("the snapshot is removed");
    assert_eq!(detail(&actions(4), 3), ("rollback".into(), "version=none before=1".into()));
    server.signal("HUP");
    assert_eq!(actions(5)[4].0, "access");
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    assert_eq!(actions(6)[5].0, "stop");
}

#[test]
fn the_settings_digest_differs_if_a_setting_does_but_not_for_a_secret() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let digest = |count: usize| {
        let starts = eventually("the line is written", || {
            let mut found = lines(&data);
            found.retain(|line| line.action == "start");
            (found.len() >= count).then_some(found)
        });
        let digest = starts[count - 1].detail.split("settings=").nth(1).map(str::to_owned).expect("a digest");
        assert_eq!(digest.len(), 16, "{digest}");
        digest
    };
    let server = start(&data, &TOKEN);
    let first = digest(1);
    let server = server.restart(&["--admin-token", "another-secret"]);
    assert_eq!(digest(2), first);
    let server = server.restart(&["--admin-token", "open", "--audit-retain-days", "30"]);
    assert_ne!(digest(3), first);
    drop(server);
}

#[test]
fn the_metrics_have_the_head_of_the_log() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    let server = start(&data, &TOKEN);
    assert_eq!(admin(&server, "GET", "/visitors/export?site=acme&anonId=a", &[]).status, 200);
    let report = read_audit_log(&RealDisk, &data, &mut |_| true).expect("the log is read");
    let metrics = server.admin_get("/metrics");
    let head = format!(
        "parallax_audit_head_info{{number=\"{}\",hash=\"{}\"}} 1\n",
        report.head.number,
        report.head.hash_text()
    );
    assert!(metrics.text().contains(&head), "{}", metrics.text());
    assert!(metrics.text().contains(&format!("parallax_audit_records_total {}\n", report.records)));
    assert!(metrics.text().contains("parallax_audit_failures_total 0\n"));
}
