//! `GET /v1/rules`: the rules file, which has only the listed members of a site.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use parallax::testing::site::snapshot::rules_format::snapshot_in;

use super::{SharedServer, compile_site, page, problem, site_file};
use crate::harness::{Server, snapshot, temporary_directory};

/// The beginning of each text that the test searches.
const CANARY: &str = "canary-";

/// The endings of the texts that a decision needs, and those of its explanation. `origin` is a host of the site too.
const PUBLISHED: [&str; 22] = [
    "audience",
    "audience-value",
    "cookie",
    "event",
    "experiment",
    "group",
    "group-name",
    "holdout-seed",
    "host",
    "ignored",
    "namespace",
    "origin",
    "page-path",
    "pattern",
    "rule-value",
    "seed",
    "site",
    "target",
    "tracking",
    "trait",
    "variant",
    "zone",
];

static SERVER: SharedServer = SharedServer::new(|| {
    let routes: Vec<_> = (0..60).map(|i| page(&format!("/page-{i}"), json!({}))).collect();
    let open = compile_site(&site_file("open", json!({ "localDecisions": true })), &routes, 5);
    let closed = compile_site(&site_file("closed", json!({})), &routes, 6);
    Server::start(&[("open.snapshot", &open), ("closed.snapshot", &closed)], &[])
});

/// Returns the files of a site with a canary in every text that its members allow.
fn canary_site() -> Vec<(&'static str, Value)> {
    let site = json!({
        "site": "canary-site0", "trackingId": "track_canary-tracking0", "name": "canary-name0", "localDecisions": true,
        "origins": ["https://canary-origin0.example"], "hosts": ["canary-host0.example"],
        "ignoredReferrers": ["canary-ignored0.example"], "cookie": "canary-cookie0",
        "holdout": { "share": 0.1, "seed": "canary-holdout-seed0" },
        "goals": { "canary-goal0": { "name": "canary-goal-name0", "event": "canary-goal-event0",
            "where": { "properties.canary-goal-property0": { "$eq": "canary-goal-value0" } },
            "value": "properties.canary-goal-amount0", "currency": "properties.canary-goal-currency0" } },
        "segments": { "canary-segment0": { "name": "canary-segment-name0", "filters": { "event": ["canary-segment-event0"] } } },
        "properties": ["canary-property0"], "searchable": ["canary-searchable0"], "private": ["canary-private0"],
        "privacy": { "consentCategories": { "measure": "canary-measure0", "personalize": ["canary-personalize0"] } },
    });
    let audiences = json!({ "canary-audience0": { "name": "canary-audience-name0",
        "when": { "traits.canary-trait0": "canary-audience-value0", "device.browser": { "$inGroup": "canary-group-name0" } } } });
    let experiment = json!({ "key": "canary-experiment0", "variants": ["default", "canary-variant0"], "seed": "canary-seed0",
        "namespace": ["canary-namespace0", 0, 0.5], "goal": "canary-metric0", "value": "properties.canary-metric-value0",
        "currency": "properties.canary-metric-currency0", "guardrails": [{ "goal": "canary-guardrail0", "margin": 0.1 }] });
    let zone = json!({ "default": [{ "id": "canary-node0", "type": "canary-type0", "props": { "canary-prop0": "canary-prop-value0" },
            "query": { "id": "canary-query0", "params": { "canary-param0": "canary-argument0" } } }],
        "variants": { "canary-variant0": [{ "id": "canary-other0", "type": "canary-type0", "props": { "text": "canary-content0" } }] },
        "rules": [{ "audience": "canary-audience0", "variant": "canary-variant0" }, { "experiment": experiment },
            { "when": { "locale": { "$regex": "canary-pattern0" }, "url.query.id": "canary-rule-value0",
                "events.canary-event0.count": { "$gte": 1 } }, "variant": "canary-variant0" }] });
    vec![
        ("site.json", site),
        ("audiences.json", audiences),
        ("groups.json", json!({ "canary-group-name0": ["canary-group0"] })),
        (
            "queries.json",
            json!({ "canary-query0": { "collection": "canary-collection0",
            "params": { "canary-param0": { "type": "string", "default": "canary-default0" } },
            "where": { "title": { "$param": "canary-param0" }, "other": { "$ne": "canary-condition0" } }, "orderBy": ["title"] } }),
        ),
        (
            "content/canary-collection0.json",
            json!([{ "id": "canary-item0", "type": "canary-item-type0",
            "fields": { "title": "canary-default0", "canary-field0": "canary-field-value0" } }]),
        ),
        (
            "routes/page.json",
            json!({ "path": "/canary-page-path0", "layout": { "root": { "props": { "title": "canary-title0" } },
            "zones": { "canary-zone0": zone } } }),
        ),
        (
            "routes/old.json",
            json!({ "path": "/old", "redirect": { "to": "/canary-target0", "status": 301 } }),
        ),
    ]
}

#[test]
fn the_rules_file_has_only_the_listed_texts_of_a_site() {
    let files: Vec<(&str, String)> =
        canary_site().into_iter().map(|(path, content)| (path, content.to_string())).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let directory = temporary_directory();
    let path = directory.path().join("canary.snapshot");
    fs::write(&path, snapshot(&files, 5)).expect("written");
    let whole = Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).expect("the snapshot opens");
    let rules = whole.site().rules.as_ref().expect("the site publishes its rules");
    let canaries: BTreeSet<&str> = files.iter().flat_map(|(_, text)| canaries_in(text)).collect();
    let found: Vec<&str> = canaries.iter().copied().filter(|canary| has(rules, canary)).collect();
    assert_eq!(found, PUBLISHED);
    assert!(canaries.len() > 2 * PUBLISHED.len(), "{canaries:?}");
    fs::write(&path, snapshot_in(rules).expect("a rules file")).expect("written");
    let opened = Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).expect("the rules open");
    assert_eq!((opened.version(), opened.site().site.get()), (5, "canary-site0"));
}

/// Iterates over the endings of the canaries in a text. Each ends with `0`, so that none is the beginning of another one.
fn canaries_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(CANARY).skip(1).map(|rest| rest.split('0').next().expect("the text before the end"))
}

fn has(bytes: &[u8], ending: &str) -> bool {
    let canary = format!("{CANARY}{ending}0");
    bytes.windows(canary.len()).any(|window| window == canary.as_bytes())
}

#[test]
fn a_site_publishes_its_rules_only_if_it_says_so() {
    let server = SERVER.get();
    let response = server.get("/v1/rules?trackingId=track_open");
    assert_eq!((response.status, response.field("content-type")), (200, Some("application/octet-stream")));
    assert_eq!(response.field("x-version"), Some("5"));
    assert!(snapshot_in(&response.body).is_ok());
    let closed = server.get("/v1/rules?site=closed");
    assert_eq!(problem(&closed), (404, "rules_not_published".into()));
    assert_eq!(problem(&server.get("/v1/rules")), (400, "missing_site".into()));
    assert_eq!(problem(&server.get("/v1/rules?site=none")), (404, "site_not_found".into()));
    assert_eq!(problem(&server.post("/v1/rules?site=open", &[], b"")), (405, "method_not_allowed".into()));
}

#[test]
fn a_preview_publishes_no_rules() {
    let directory = temporary_directory();
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "A", "localDecisions": true })
        .to_string();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": {} } }).to_string();
    let source = directory.path().join("site");
    fs::create_dir_all(source.join("routes")).expect("created");
    fs::write(source.join("site.json"), site).expect("written");
    fs::write(source.join("routes/index.json"), page).expect("written");
    let out = directory.path().join("draft.snapshot");
    let words = ["--preview", "draft", "-o"];
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_parallax"))
        .arg("compile")
        .arg(&source)
        .args(words)
        .arg(&out)
        .output()
        .expect("the program runs");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let opened = Snapshot::open(&out, &SnapshotBudget::new(u64::MAX)).expect("the snapshot opens");
    assert!(opened.site().rules.is_none());
}

#[test]
fn an_unchanged_rules_file_is_304_until_the_next_publication() {
    let server = SERVER.get();
    let target = "/v1/rules?site=open";
    let response = server.get_with(target, &[("Accept-Encoding", "gzip")]);
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert!(
        response.field("cache-control").is_some_and(|value| value.starts_with("public, ")),
        "{response:?}"
    );
    let etag = response.field("etag").expect("a validator");
    let packed = [("Accept-Encoding", "gzip"), ("If-None-Match", etag)];
    assert_eq!(server.get_with(target, &packed).status, 304);
    let routes = [page("/", json!({}))];
    let next = compile_site(&site_file("open", json!({ "localDecisions": true })), &routes, 7);
    let other = Server::start(&[("open.snapshot", &next)], &[]);
    assert_eq!(other.get_with(target, &packed).status, 200);
}

#[test]
fn a_file_that_is_no_rules_file_is_refused() {
    let response = SERVER.get().get("/v1/rules?site=open");
    let rules = &response.body;
    let refusal = |bytes: &[u8]| snapshot_in(bytes).err().map(|error| error.to_string());
    let not_rules = "not a rules file: the first bytes are not its magic number";
    let other_version = "unsupported format version 2 of the rules file; use the release of the server";
    for end in 0..16 {
        assert_eq!(refusal(&rules[..end]).as_deref(), Some(not_rules));
    }
    assert_eq!(refusal(&rules[16..]).as_deref(), Some(not_rules));
    let other = [&rules[..8], &2_u32.to_le_bytes(), &rules[12..]].concat();
    assert_eq!(refusal(&other).as_deref(), Some(other_version));
}
