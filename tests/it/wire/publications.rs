//! `GET /insights/publications`: the versions that a server began to serve, with their changes.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use parallax::testing::site::catalog::versions::{Serving, Versions};
use parallax::testing::site::catalog::versions_file::encode;
use serde_json::{Value, json};

use super::{compile_site, page, problem, site_file, zone};
use crate::harness::{Client, Server, eventually, snapshot, temporary_directory};

/// The most publications of an answer.
const LISTED_MAX: usize = 50;
/// The most changes of a list.
const CHANGES_MAX: usize = 5;
const MINUTE_MS: i64 = 60_000;

fn ask(server: &Server, query: &str) -> Value {
    let response = server.admin_get(&format!("/insights/publications?{query}"));
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response.json()
}

/// Waits until the server serves this version of the site.
fn wait_for_version(server: &Server, site: &str, version: u64) {
    let version = version.to_string();
    eventually("the version is served", || {
        let sites = server.admin_get("/sites").json();
        let mut sites = sites["sites"].as_array()?.iter();
        sites.any(|one| one["site"] == site && one["version"] == version).then_some(())
    });
}

/// Returns the versions of an answer.
fn versions(answer: &Value) -> Vec<&str> {
    let publications = answer["publications"].as_array().expect("publications");
    publications.iter().map(|one| one["version"].as_str().expect("a version")).collect()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis() as i64
}

/// Returns version 1 of a site.
fn first() -> Vec<u8> {
    let site = site_file("acme", json!({ "goals": { "lead": { "name": "Lead", "event": "Lead Sent" } } }));
    let rules = json!([{ "when": { "device.type": "mobile" }, "variant": "b" }]);
    compile_site(&site, &[page("/", json!({ "hero": zone(&["b"], rules) })), page("/old", json!({}))], 1)
}

/// Returns version 2: other rules of a zone, an experiment, a goal, a page and an audience are new, and a page is removed.
fn second() -> Vec<u8> {
    let goals = json!({ "lead": { "name": "Lead", "event": "Lead Sent" }, "order": { "name": "Order", "event": "Order Placed" } });
    let site = site_file("acme", json!({ "goals": goals, "holdout": { "share": 0.1 } }));
    let rules = json!([{ "when": { "device.type": "tablet" }, "variant": "b" }]);
    let test = json!([{ "experiment": { "key": "colour", "variants": ["default", "c"] } }]);
    let front = page("/", json!({ "hero": zone(&["b"], rules), "teaser": zone(&["c"], test) }));
    let added = page("/new", json!({}));
    let audiences = json!({ "phones": { "when": { "device.type": "mobile" } } }).to_string();
    snapshot(
        &[
            ("site.json", &site),
            ("audiences.json", &audiences),
            ("routes/0.json", &front),
            ("routes/1.json", &added),
        ],
        2,
    )
}

fn start_with_both() -> Server {
    let server = Server::start(&[("acme-1.snapshot", &first())], &[]);
    server.publish("acme-2.snapshot", &second());
    wait_for_version(&server, "acme", 2);
    server
}

#[test]
fn a_publication_has_its_time_and_its_changes() {
    let server = start_with_both();
    let answer = ask(&server, "site=acme");
    assert_eq!(versions(&answer), ["2", "1"]);
    assert_eq!(
        (&answer["site"], &answer["timeZone"], &answer["more"]),
        (&json!("acme"), &json!("UTC"), &json!(0))
    );
    let [newer, older] = [&answer["publications"][0], &answer["publications"][1]];
    let since = server.admin_get("/sites").json()["sites"][0]["servedSince"].clone();
    assert!(newer["servedFrom"].as_str() <= since.as_str(), "{newer} {since}");
    assert!(newer["servedFrom"].as_str() > older["servedFrom"].as_str(), "{answer}");
    assert_eq!(answer["knownSince"], older["servedFrom"]);
    assert_eq!((&newer["against"], &newer["missing"]), (&json!({ "version": "1" }), &json!([])));
    let one = |name: &str, change: &str| json!({ "name": name, "changes": [change] });
    let mut changes = newer["changes"].clone();
    let experiment = changes["experiments"]["first"][0].as_object_mut().expect("an experiment");
    assert_eq!(experiment.remove("text"), Some(json!("new (`coverage` 1)")));
    assert_eq!(
        changes["holdout"].as_object().map(|holdout| holdout["change"].clone()),
        Some(json!("new")),
        "{changes}"
    );
    changes["holdout"].take();
    let on_front = |name: &str, change: &str| json!({ "name": name, "changes": [change], "paths": ["/"] });
    let expected = json!({
        "experiments": { "total": 1, "byChange": { "new": 1 }, "first": [one("colour", "new")] },
        "zones": { "total": 2, "byChange": { "changed": 1, "new": 1 },
            "first": [on_front("hero", "changed"), on_front("teaser", "new")] },
        "audiences": { "total": 1, "byChange": { "new": 1 }, "first": [one("phones", "new")] },
        "goals": { "total": 1, "byChange": { "new": 1 }, "first": [one("order", "new")] },
        "routes": { "total": 3, "byChange": { "new": 1, "removed": 1, "changed": 1 },
            "first": [one("/new", "new"), one("/old", "removed"), one("/", "changed")] },
        "holdout": null,
    });
    assert_eq!(changes, expected);
    assert_eq!((&older["against"], &older["changes"]), (&Value::Null, &Value::Null));
    let reason =
        json!([{ "code": "version", "detail": "The server does not know which version it served before." }]);
    assert_eq!(older["missing"], reason);
}

#[test]
fn a_publication_has_the_same_changes_after_a_restart_and_a_rollback() {
    let server = start_with_both();
    let before = ask(&server, "site=acme");
    assert_eq!(ask(&server, "site=acme"), before, "a second answer");
    let server = server.restart(&["--insights-memory", "0"]);
    assert_eq!(ask(&server, "site=acme")["publications"], before["publications"]);
    std::fs::rename(server.path("acme-2.snapshot"), server.path("acme-2.gone")).expect("renamed");
    wait_for_version(&server, "acme", 1);
    let answer = ask(&server, "site=acme");
    assert_eq!(versions(&answer), ["1", "2", "1"]);
    // The changes of version 2 were compared while its file was there.
    assert_eq!(answer["publications"][1], before["publications"][0]);
    let missing = json!([{ "code": "snapshot", "detail": "The snapshot of version 2 is not in the snapshots directory." }]);
    let back = &answer["publications"][0];
    assert_eq!((&back["changes"], &back["missing"]), (&Value::Null, &missing));
    assert_eq!(back["against"], json!({ "version": "2" }));
    std::fs::rename(server.path("acme-2.gone"), server.path("acme-2.snapshot")).expect("renamed");
    wait_for_version(&server, "acme", 2);
    let answer = ask(&server, "site=acme");
    let routes = &answer["publications"][1]["changes"]["routes"]["byChange"];
    assert_eq!(routes, &json!({ "new": 1, "removed": 1, "changed": 1 }), "back and forth");
    assert_eq!(answer["publications"][1]["changes"]["experiments"]["byChange"], json!({ "removed": 1 }));
}

#[test]
fn a_missing_and_an_unreadable_file_leave_the_publication_without_changes() {
    let server = start_with_both();
    let path = server.path("acme-1.snapshot");
    std::fs::write(&path, b"no snapshot").expect("written");
    let server = server.restart(&[]);
    let missing = |answer: &Value| answer["publications"][0]["missing"][0]["detail"].clone();
    let answer = ask(&server, "site=acme");
    assert_eq!(versions(&answer), ["2", "1"]);
    assert_eq!(answer["publications"][0]["changes"], Value::Null);
    assert_eq!(
        missing(&answer),
        "The snapshot of version 1 is not in the snapshots directory, or it is in a file that the server cannot read, such as acme-1.snapshot."
    );
    std::fs::remove_file(&path).expect("removed");
    let server = server.restart(&[]);
    let answer = ask(&server, "site=acme");
    assert_eq!(missing(&answer), "The snapshot of version 1 is not in the snapshots directory.");
    let csv = Client::to(server.admin).request(
        "GET",
        "/insights/publications?site=acme",
        &[("Accept", "text/csv")],
    );
    let [newer, older] = [0, 1].map(|at| answer["publications"][at]["servedFrom"].as_str().expect("a time"));
    let expected = format!(
        "version,servedFrom,against,experiments,zones,audiences,goals,routes,missing\r\n\
         2,{newer},1,,,,,,The snapshot of version 1 is not in the snapshots directory.\r\n\
         1,{older},,,,,,,The server does not know which version it served before.\r\n"
    );
    assert_eq!(csv.text(), expected);
}

/// Starts a server that served `count` versions of `acme`, the present one included, each a minute after the one before it.
fn start_with_servings(count: usize) -> Server {
    let start_ms = now_ms() / MINUTE_MS * MINUTE_MS - 100 * MINUTE_MS;
    let serving = |number: u64| Serving {
        from_ms: start_ms + number as i64 * MINUTE_MS,
        version: number,
        hash: [number as u8; 32],
    };
    let versions = Versions::default().with_servings((1..count as u64).map(serving).collect());
    let data = temporary_directory();
    let file = encode(&BTreeMap::from([("acme".to_owned(), versions)]));
    std::fs::write(data.path().join("versions"), file).expect("written");
    let snapshot = compile_site(&site_file("acme", json!({})), &[page("/", json!({}))], 1_000);
    Server::start_with_data(data.path(), &[("acme.snapshot", &snapshot)], &[])
}

#[test]
fn an_answer_has_a_limited_number_of_publications() {
    for count in [LISTED_MAX - 1, LISTED_MAX, LISTED_MAX + 1] {
        let server = start_with_servings(count);
        let answer = ask(&server, "site=acme");
        let listed = versions(&answer);
        assert_eq!(listed.len(), count.min(LISTED_MAX));
        assert_eq!((listed[0], listed[1]), ("1000", &*(count - 1).to_string()));
        assert_eq!(answer["more"], count - listed.len());
    }
}

#[test]
fn the_range_selects_publications_by_their_time() {
    let server = start_with_servings(10);
    let all = ask(&server, "site=acme");
    let time_of = |version: &str| {
        let mut publications = all["publications"].as_array().expect("publications").iter();
        let publication = publications.find(|one| one["version"] == version).expect("the version");
        publication["servedFrom"].as_str().expect("a time").to_owned()
    };
    // The end is not part of the range.
    let some = ask(&server, &format!("site=acme&from={}&to={}", time_of("3"), time_of("5")));
    assert_eq!((versions(&some), &some["more"]), (vec!["4", "3"], &json!(0)));
    assert_eq!((&some["from"], &some["to"]), (&json!(time_of("3")), &json!(time_of("5"))));
    let empty = ask(&server, "site=acme&from=2020-01-01&to=2020-02-01");
    assert_eq!((versions(&empty), &empty["more"]), (vec![], &json!(0)));
    assert_eq!(empty["knownSince"], json!(time_of("1")));
}

#[test]
fn a_list_has_a_limited_number_of_changes() {
    for count in [CHANGES_MAX - 1, CHANGES_MAX, CHANGES_MAX + 1] {
        let routes: Vec<String> = (0..count).map(|number| page(&format!("/{number}"), json!({}))).collect();
        let site = site_file("acme", json!({}));
        let server = Server::start(&[("acme-1.snapshot", &compile_site(&site, &[], 1))], &[]);
        server.publish("acme-2.snapshot", &compile_site(&site, &routes, 2));
        wait_for_version(&server, "acme", 2);
        let answer = ask(&server, "site=acme");
        let listed = &answer["publications"][0]["changes"]["routes"];
        assert_eq!((&listed["total"], &listed["byChange"]), (&json!(count), &json!({ "new": count })));
        let first = listed["first"].as_array().expect("changes");
        assert_eq!((first.len(), &first[0]["name"]), (count.min(CHANGES_MAX), &json!("/0")));
    }
}

#[test]
fn the_publications_of_another_site_are_not_listed() {
    let server = start_with_both();
    let other = compile_site(&site_file("other", json!({})), &[page("/", json!({}))], 7);
    server.publish("other.snapshot", &other);
    wait_for_version(&server, "other", 7);
    assert_eq!(versions(&ask(&server, "site=other")), ["7"]);
    assert_eq!(versions(&ask(&server, "site=acme")), ["2", "1"]);
    let unknown = server.admin_get("/insights/publications?site=nobody");
    assert_eq!(problem(&unknown), (404, "site_not_found".to_owned()));
}

#[test]
fn wrong_parameters_get_the_errors_of_the_other_questions() {
    let server = start_with_both();
    for query in [
        "",
        "site=acme&site=acme",
        "site=acme&from=x",
        "site=acme&to=yesterday",
        "site=acme&from=2026-02-01&to=2026-02-01",
        "site=acme&from=2026-01-01&from=2026-01-02",
    ] {
        let [own, other] = ["publications", "top"].map(|topic| {
            let of = if topic == "top" { "&of=page" } else { "" };
            server.admin_get(&format!("/insights/{topic}?{query}{of}"))
        });
        assert!(own.status >= 400, "{query}: {}", own.text());
        assert_eq!(problem(&own), problem(&other), "{query}");
        let [own, other] = [own, other].map(|response| response.json());
        assert_eq!((&own["detail"], &own["param"]), (&other["detail"], &other["param"]), "{query}");
    }
    let response = Client::to(server.admin).post("/insights/publications?site=acme", &[], b"");
    assert!(matches!(response.status, 401 | 405), "{}", response.text());
    let target = "/insights/publications?site=acme";
    let etag = server.admin_get(target).field("etag").expect("an ETag").to_owned();
    let unchanged = Client::to(server.admin).request("GET", target, &[("If-None-Match", &etag)]);
    assert_eq!(unchanged.status, 304);
}

#[test]
fn a_server_with_a_token_asks_for_it() {
    let server = Server::start(&[("acme-1.snapshot", &first())], &["--admin-token", "open"]);
    let target = "/insights/publications?site=acme";
    assert_eq!(server.admin_get(target).status, 401);
    let token = ("Authorization", "Bearer open");
    assert_eq!(Client::to(server.admin).request("GET", target, &[token]).status, 200);
    let posted = Client::to(server.admin).post(target, &[token], b"");
    assert_eq!((posted.status, posted.field("allow")), (405, Some("GET, HEAD")));
}
