//! `parallax lint --against --data`: the numbers of enrolled IDs.

use std::fs;

use serde_json::{Value, json};

use super::changes;
use crate::command_line::Workspace;
use crate::harness::{Server, snapshot};

/// A site with the arms `default` and `b` of each experiment, in a zone of its own.
pub(super) struct TestSite {
    pub(super) id: &'static str,
    pub(super) experiments: Vec<Value>,
    /// A text of its page.
    pub(super) text: String,
}

impl TestSite {
    pub(super) fn files(&self) -> [(&'static str, String); 2] {
        let zone = |experiment: &Value| json!({ "default": [], "variants": { "b": [] }, "rules": [{ "experiment": experiment }] });
        let zones = self.experiments.iter().enumerate().map(|(index, one)| (format!("z{index}"), zone(one)));
        let zones: serde_json::Map<String, Value> = zones.collect();
        let page =
            json!({ "path": "/", "layout": { "root": { "props": { "text": self.text } }, "zones": zones } });
        let site = json!({ "site": self.id, "trackingId": format!("track_{}", self.id), "name": self.id });
        [("site.json", site.to_string()), ("routes/index.json", page.to_string())]
    }

    pub(super) fn snapshot(&self) -> Vec<u8> {
        self.snapshot_of_version(1)
    }

    pub(super) fn snapshot_of_version(&self, version: u64) -> Vec<u8> {
        let files = self.files();
        snapshot(&files.each_ref().map(|(path, text)| (*path, text.as_str())), version)
    }

    pub(super) fn write(&self, workspace: &Workspace, directory: &str) {
        self.files().iter().for_each(|(path, text)| workspace.write(&format!("{directory}/{path}"), text));
    }
}

fn experiment(key: &str, more: Value) -> Value {
    let mut experiment = json!({ "key": key, "variants": ["default", "b"] });
    experiment.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    experiment
}

pub(super) fn before() -> TestSite {
    let experiments = ["e", "f", "g", "h"].map(|key| experiment(key, json!({})));
    TestSite { id: "acme", experiments: experiments.to_vec(), text: String::new() }
}

pub(super) fn after() -> TestSite {
    let experiments = vec![
        experiment("e", json!({ "weights": [0.4, 0.6] })),
        experiment("g", json!({ "coverage": 0.5 })),
        experiment("h", json!({ "to": "2026-01-01T00:00:00Z" })),
    ];
    TestSite { id: "acme", experiments, text: String::new() }
}

/// Records a page view of an ID that was exposed to these experiments.
fn expose(server: &Server, site: &str, id: &Value, experiments: &str) {
    let mut event = json!({ "properties": { "path": "/" }, "experiments": experiments });
    event.as_object_mut().expect("an object").extend(id.as_object().expect("an object").clone());
    let target = format!("/v1/page?site={site}");
    let response =
        server.post(&target, &[("Content-Type", "application/json")], event.to_string().as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Starts a server of `acme` and of a site with equal experiments, and enrols IDs of both.
pub(super) fn start_with_enrolments(flags: &[&str]) -> Server {
    let other = TestSite { id: "other", ..before() };
    let snapshots = [("acme.snapshot", &before().snapshot()[..]), ("other.snapshot", &other.snapshot())];
    let server = Server::start(&snapshots, flags);
    for number in 0..3 {
        expose(&server, "acme", &json!({ "anonId": format!("v{number}") }), "e:b,f:b");
    }
    expose(&server, "acme", &json!({ "userId": "cy" }), "e:default,g:b");
    expose(&server, "other", &json!({ "anonId": "v0" }), "e:b,f:b,g:b,h:b");
    // An ID of a user is an alias, which does not name its site.
    for site in ["acme", "other"] {
        let tie = json!({ "trackingId": format!("track_{site}"), "anonId": "v0", "userId": "ana" });
        let fields = [("Content-Type", "application/json")];
        let response = server.post("/v1/identify", &fields, tie.to_string().as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }
    server
}

/// Returns the lines about experiments of a comparison of two directories of a workspace.
pub(super) fn compare(workspace: &Workspace, [newer, older]: [&str; 2], server: &Server) -> Vec<String> {
    let data = server.data().to_string_lossy().into_owned();
    let compared = workspace.run(&["lint", newer, "--against", older, "--data", &data]);
    compared.assert_exit(0, &[]);
    let lines = changes(&compared.out).into_iter().filter(|line| !line.starts_with("zone "));
    lines.map(str::to_owned).collect()
}

fn file_names(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.data()).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_enrolled_ids_of_a_site_are_counted_in_a_running_a_killed_and_a_stopped_data_directory() {
    let workspace = Workspace::new();
    before().write(&workspace, "before");
    after().write(&workspace, "after");
    let mut server = start_with_enrolments(&[]);
    let expected = [
        "e: new phase (`weights` [0.5, 0.5] -> [0.4, 0.6]); 4 enrolled IDs start again",
        "f: removed; 3 enrolled IDs get no arm",
        "g: ramped (`coverage` 1 -> 0.5); 1 enrolled ID keeps its arm",
        "h: rescheduled (`to` none -> 2026-01-01T00:00:00Z), ended; 0 enrolled IDs get no arm",
        "0 experiments do not change",
    ];
    // The log alone.
    assert_eq!(compare(&workspace, ["after", "before"], &server), expected);
    server.signal("TERM");
    server.exit_code();
    // The checkpoint alone.
    let names = file_names(&server);
    assert!(names.iter().any(|name| name.ends_with(".checkpoint")), "{names:?}");
    assert_eq!(compare(&workspace, ["after", "before"], &server), expected);
    assert_eq!(file_names(&server), names, "nothing is written");
    // The checkpoint and the log.
    let server = server.restart(&[]);
    expose(&server, "acme", &json!({ "anonId": "v9" }), "f:b");
    let compared = compare(&workspace, ["after", "before"], &server);
    assert_eq!(compared[1], "f: removed; 4 enrolled IDs get no arm");
    // The enrolments of an earlier publication count again.
    let returned = compare(&workspace, ["before", "after"], &server);
    assert_eq!(
        returned[..2],
        [
            "e: new phase (`weights` [0.4, 0.6] -> [0.5, 0.5]); 0 enrolled IDs start again; enrolled in this phase by an earlier publication: 4",
            "f: new (`coverage` 1); 4 enrolled IDs get their arms again",
        ]
    );
}

#[test]
fn the_json_document_has_the_numbers_of_both_versions() {
    let workspace = Workspace::new();
    before().write(&workspace, "before");
    after().write(&workspace, "after");
    let server = start_with_enrolments(&[]);
    let data = server.data().to_string_lossy().into_owned();
    let arguments = ["lint", "after", "--against", "before", "--data", &data, "--format", "json"];
    let document: Value = serde_json::from_str(&workspace.run(&arguments).out).expect("JSON");
    let experiments = document["experiments"].as_array().expect("experiments").iter();
    let enrolled: Vec<Value> = experiments.map(|one| json!([one["key"], one["enrolled"]])).collect();
    assert_eq!(
        enrolled,
        [
            json!(["e", { "before": 4, "after": 0 }]),
            json!(["f", { "before": 3, "after": null }]),
            json!(["g", { "before": 1, "after": 1 }]),
            json!(["h", { "before": 0, "after": 0 }]),
        ]
    );
}

#[test]
fn a_directory_without_profiles_is_refused() {
    let workspace = Workspace::new();
    before().write(&workspace, "before");
    after().write(&workspace, "after");
    let lint = |data: &str| workspace.run(&["lint", "after", "--against", "before", "--data", data]);
    workspace.write("empty/readme.txt", "");
    lint("empty").assert_exit(1, &["empty contains no segment of a log. Use the directory of serve --data"]);
    let server = start_with_enrolments(&[]);
    fs::write(server.data().join("node"), "").expect("written");
    let data = server.data().to_string_lossy().into_owned();
    lint(&data).assert_exit(1, &["is the directory of a node of a cluster", "ask it with --server"]);
    workspace.run(&["lint", "after", "--data", &data]).assert_exit(2, &["--against <FILE|DIR>"]);
}
