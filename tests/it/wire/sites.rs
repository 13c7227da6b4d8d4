//! `GET /sites` on the admin address: the published sites, and the snapshot files with their states.

use serde_json::{Value, json};

use super::problem;
use crate::harness::{Client, Server, eventually, snapshot};

fn site(id: &str, tracking_id: &str, version: u64) -> Vec<u8> {
    let about =
        json!({"site": id, "trackingId": tracking_id, "name": "Acme, \"Oy\"", "timeZone": "Europe/Berlin"});
    let page = json!({"path": "/", "layout": {"root": {"props": {"version": version}}, "zones": {}}});
    snapshot(&[("site.json", &about.to_string()), ("routes/index.json", &page.to_string())], version)
}

fn acme(version: u64) -> Vec<u8> {
    site("acme", "track_acme", version)
}

fn sites(server: &Server) -> Value {
    let response = server.admin_get("/sites");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

/// Returns name, site, version and state of each file.
fn states(answer: &Value) -> Vec<[String; 4]> {
    let files = answer["files"].as_array().expect("files");
    let text = |file: &Value, name: &str| file[name].as_str().unwrap_or("-").to_owned();
    files.iter().map(|file| ["name", "site", "version", "state"].map(|name| text(file, name))).collect()
}

/// Waits until the files have these states.
fn wait_for_states(server: &Server, expected: &[[&str; 4]]) -> Value {
    eventually("the files have their states", || {
        let answer = sites(server);
        (states(&answer) == expected).then_some(answer)
    })
}

fn reason(answer: &Value, name: &str) -> String {
    let mut files = answer["files"].as_array().expect("files").iter();
    let file = files.find(|file| file["name"] == name).expect("the file");
    file["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_published_site_has_its_names_and_versions() {
    let bytes = acme(42);
    let server = Server::start(&[("acme.snapshot", &bytes)], &[]);
    let first = sites(&server);
    let since = first["sites"][0]["servedSince"].as_str().expect("a time").to_owned();
    let expected = json!([{
        "site": "acme", "trackingId": "track_acme", "name": "Acme, \"Oy\"", "timeZone": "Europe/Berlin",
        "preview": null, "version": "42", "servedSince": since, "versions": ["42"], "routes": 1,
        "goals": [],
        "segments": [], "properties": [], "searchable": [],
    }]);
    assert_eq!(first["sites"], expected);
    let file = json!([{
        "name": "acme.snapshot", "site": "acme", "version": "42", "bytes": bytes.len(), "state": "served",
        "reason": null,
    }]);
    assert_eq!((&first["files"], &first["more"]), (&file, &json!(0)));
    server.publish("other.snapshot", &site("other", "track_other", 1));
    server.publish("acme.snapshot", &acme(43));
    let states = [["acme.snapshot", "acme", "43", "served"], ["other.snapshot", "other", "1", "served"]];
    let second = wait_for_states(&server, &states);
    assert_eq!(second["sites"][0]["versions"], json!(["43", "42"]));
    assert!(second["sites"][0]["servedSince"].as_str() > Some(&since), "a new version has a later time");
    // The publication of another site does not change the time.
    let since_acme = second["sites"][0]["servedSince"].clone();
    server.publish("other.snapshot", &site("other", "track_other", 2));
    let third =
        wait_for_states(&server, &[states[0], ["other.snapshot", "other", "2", "served"]])["sites"].clone();
    assert_eq!(third[0]["servedSince"], since_acme);
    assert_ne!(third[1]["servedSince"], second["sites"][1]["servedSince"]);
}

#[test]
fn a_site_lists_its_goals_and_segments() {
    let about = json!({
        "site": "acme", "trackingId": "track_acme", "name": "Acme",
        "goals": {
            "purchase": { "name": "Purchase", "event": "Order Placed", "value": "properties.revenue" },
            "pricing": { "name": "Saw pricing", "page": "/pricing*" },
        },
        "properties": ["plan", "form"], "searchable": ["email"], "segments": { "north": { "name": "The north", "filters": { "device": ["mobile"], "country": ["NO", "SE"] } } },
    });
    let experiment = json!({
        "key": "tone", "variants": ["default", "red"], "goal": "Lead Sent", "value": "properties.worth",
    });
    let zone = json!({ "default": [], "variants": { "red": [] }, "rules": [{ "experiment": experiment }] });
    let zones = json!({ "main": zone });
    let page = json!({"path": "/", "layout": {"root": {"props": {}}, "zones": zones}});
    let files = [("site.json", &*about.to_string()), ("routes/index.json", &*page.to_string())];
    let server = Server::start(&[("acme.snapshot", &snapshot(&files, 1))], &[]);
    let expected = json!([
        { "key": "pricing", "name": "Saw pricing", "value": null },
        { "key": "purchase", "name": "Purchase", "value": "properties.revenue" },
    ]);
    assert_eq!(sites(&server)["sites"][0]["goals"], expected);
    let expected = json!([{ "key": "north", "name": "The north", "filters": { "country": ["NO", "SE"], "device": ["mobile"] } }]);
    let published = &sites(&server)["sites"][0];
    assert_eq!(published["segments"], expected);
    assert_eq!(
        [&published["properties"], &published["searchable"]],
        [&json!(["form", "plan"]), &json!(["email"])]
    );
}

#[test]
fn a_preview_has_its_name() {
    let about = json!({"site": "acme", "trackingId": "track_acme", "name": "Acme"}).to_string();
    let page = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    let directory = crate::harness::temporary_directory();
    let source = directory.path().join("site");
    std::fs::create_dir_all(source.join("routes")).expect("created");
    std::fs::write(source.join("site.json"), about).expect("written");
    std::fs::write(source.join("routes/index.json"), page).expect("written");
    let file = directory.path().join("acme.snapshot");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parallax"));
    let status = command.arg("compile").arg(&source).args(["--preview", "spring", "-o"]).arg(&file).status();
    assert!(status.expect("the program runs").success());
    let bytes = std::fs::read(&file).expect("the snapshot");
    let server = Server::start(&[("preview.snapshot", &bytes)], &[]);
    assert_eq!(sites(&server)["sites"][0]["preview"], "spring");
}

#[test]
fn each_file_has_its_state_and_a_refused_one_its_reason() {
    let server = Server::start(&[("a-2.snapshot", &acme(2)), ("a-1.snapshot", &acme(1))], &[]);
    server.publish("broken.snapshot", b"no snapshot at all");
    server.publish("thief.snapshot", &site("thief", "track_acme", 1));
    let states = [
        ["broken.snapshot", "-", "-", "refused"],
        ["thief.snapshot", "thief", "1", "refused"],
        ["a-2.snapshot", "acme", "2", "served"],
        ["a-1.snapshot", "acme", "1", "superseded"],
    ];
    let answer = wait_for_states(&server, &states);
    assert!(reason(&answer, "broken.snapshot").starts_with("not a snapshot"), "{answer}");
    let belongs = "site thief has tracking ID track_acme, which belongs to site acme; change one of them";
    assert_eq!(reason(&answer, "thief.snapshot"), belongs);
    assert_eq!(reason(&answer, "a-1.snapshot"), "");
    // A damaged file does not replace the content of its name.
    let mut damaged = acme(3);
    *damaged.last_mut().expect("bytes") ^= 1;
    server.publish("a-2.snapshot", &damaged);
    let answer = eventually("the damage is listed", || {
        Some(sites(&server)).filter(|answer| reason(answer, "a-2.snapshot").starts_with("damaged"))
    });
    assert_eq!(self::states(&answer)[2], states[2]);
    assert_eq!(answer["sites"][0]["version"], "2");
    // Of a file that is refused, the superseded content of its name is not shown.
    server.publish("a-1.snapshot", &damaged);
    wait_for_states(&server, &[["a-1.snapshot", "-", "-", "refused"], states[0], states[1], states[2]]);
}

#[test]
fn of_two_contents_of_one_version_the_refused_one_names_the_other() {
    let contents = [acme(5), site("acme", "track_other", 5)];
    let server = Server::start(&[("a.snapshot", &contents[0]), ("b.snapshot", &contents[1])], &[]);
    let answer = sites(&server);
    let states = states(&answer);
    assert_eq!([&states[0][3], &states[1][3]], ["refused", "served"]);
    let expected = format!("{} has other content for version 5 of site acme and is served", states[1][0]);
    assert!(reason(&answer, &states[0][0]).starts_with(&expected), "{answer}");
}

#[test]
fn an_incomplete_file_is_refused() {
    let server = Server::start(&[("acme.snapshot", &acme(1))], &[]);
    let bytes = acme(2);
    server.publish("b.snapshot", &bytes[..bytes.len() / 2]);
    let states = [["b.snapshot", "-", "-", "refused"], ["acme.snapshot", "acme", "1", "served"]];
    let answer = wait_for_states(&server, &states);
    assert!(reason(&answer, "b.snapshot").contains("incomplete"), "{answer}");
}

#[test]
fn csv_has_one_line_for_each_file_and_no_formulas() {
    let server = Server::start(&[("acme.snapshot", &acme(1)), ("=cmd,1.snapshot", b"x")], &[]);
    let mut admin = Client::to(server.admin);
    let response = admin.request("GET", "/sites", &[("Accept", "text/csv")]);
    assert_eq!(response.field("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!((response.field("cache-control"), response.field("vary")), (Some("no-store"), Some("Accept")));
    let lines: Vec<&str> = response.text().split_terminator("\r\n").collect();
    assert_eq!(lines[0], "name,site,version,bytes,state,reason");
    assert!(lines[1].starts_with("\"'=cmd,1.snapshot\",,,1,refused,"), "{}", lines[1]);
    assert_eq!(lines[2], format!("acme.snapshot,acme,1,{},served,", acme(1).len()));
    assert_eq!(lines.len(), 3);
    let head = admin.request("HEAD", "/sites", &[]);
    let json = admin.request("GET", "/sites", &[]);
    assert_eq!(head.field("content-length"), json.field("content-length"));
    assert_eq!(
        (json.field("content-type"), json.field("cache-control")),
        (Some("application/json"), Some("no-store"))
    );
}

#[test]
fn other_methods_are_refused_and_public_addresses_do_not_answer() {
    let server = Server::start(&[("acme.snapshot", &acme(1))], &["--admin-token", "open-sesame"]);
    let with_token = [("Authorization", "Bearer open-sesame")];
    for (method, fields, expected) in [
        ("POST", &with_token[..], (405, "method_not_allowed")),
        ("DELETE", &with_token[..], (405, "method_not_allowed")),
        ("GET", &[][..], (401, "unauthorized")),
    ] {
        let response = Client::to(server.admin).request(method, "/sites", fields);
        assert_eq!(problem(&response), (expected.0, expected.1.into()), "{method}");
    }
    assert_eq!(Client::to(server.admin).request("GET", "/sites", &with_token).status, 200);
    let at_edge = server.get("/sites");
    assert_eq!((at_edge.status, at_edge.code()), (404, "unknown_endpoint".into()));
}

#[test]
fn a_list_of_files_is_cut_at_its_limit() {
    let server = Server::start(&[("acme.snapshot", &acme(1))], &["--rescan-ms", "20"]);
    for (count, more) in [(999, 0), (1_000, 0), (1_001, 1)] {
        // One file is the snapshot of the site.
        for number in 0..count - 1 {
            std::fs::write(server.path(&format!("{number:04}.snapshot")), b"x").expect("written");
        }
        let answer = eventually("all files are listed", || {
            let answer = sites(&server);
            let listed = answer["files"].as_array().expect("files").len();
            (listed + answer["more"].as_u64().expect("a number") as usize == count).then_some(answer)
        });
        assert_eq!(
            (answer["files"].as_array().map(Vec::len), &answer["more"]),
            (Some(count - more), &json!(more))
        );
    }
}
