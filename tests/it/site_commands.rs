//! The commands of authors: `init`, `lint`, `compile` with its warnings, and `compile --preview`.

use std::fs;

use parallax::testing::limits::PREVIEW_NAME_CHARS_MAX;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use serde_json::Value;

use crate::command_line::Workspace;
use crate::harness::Server;

#[test]
fn init_writes_a_site_that_compiles_without_warnings() {
    let workspace = Workspace::new();
    let written = workspace.run(&["init", "my-shop"]);
    written.assert_exit(0, &["parallax dev my-shop", "parallax compile my-shop", "my-shop/README.md"]);
    let lint = workspace.run(&["lint", "my-shop"]);
    lint.assert_exit(0, &["site my-shop: 3 routes, 0 errors, 0 warnings"]);
    assert_eq!(lint.err, "");
    let about = fs::read_to_string(workspace.path("my-shop/site.json")).expect("site.json");
    assert!(about.contains("\"track_my-shop\""), "{about}");
}

#[test]
fn the_files_of_init_name_schemas_that_exist() {
    let workspace = Workspace::new();
    workspace.run(&["init", "shop"]).assert_exit(0, &[]);
    let files = ["site.json", "audiences.json", "queries.json", "routes/index.json", "routes/post.json"];
    for file in files.into_iter().chain(["tests/index.json"]) {
        let path = workspace.path("shop").join(file);
        let json: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
        let schema = json["$schema"].as_str().expect("a schema");
        let target = path.parent().expect("a directory").join(schema);
        let schema: Value = serde_json::from_slice(&fs::read(&target).expect("a schema")).expect("JSON");
        assert!(schema["title"].is_string(), "{file}");
    }
}

#[test]
fn init_refuses_a_directory_that_is_not_empty() {
    let workspace = Workspace::new();
    workspace
        .run(&["init", "site"])
        .assert_exit(1, &["site is not empty; choose a new or an empty directory"]);
    fs::create_dir(workspace.path("empty site")).expect("created");
    // The name cannot be a site ID.
    workspace.run(&["init", "empty site"]).assert_exit(0, &["wrote the site my-site"]);
}

#[test]
fn lint_writes_nothing_and_its_exit_code_is_the_result() {
    let workspace = Workspace::new();
    workspace.run(&["lint", "site"]).assert_exit(0, &["site acme: 1 route, 0 errors, 0 warnings"]);
    workspace.write("site/audiences.json", r#"{"a":{"when":{"country":"de"}}}"#);
    let warned = workspace.run(&["lint", "site"]);
    warned.assert_exit(0, &["0 errors, 1 warning"]);
    for text in
        ["warning: `country` is never \"de\"", "help: did you mean `DE`?", "warning: 1 warning emitted"]
    {
        assert!(warned.err.contains(text), "{}", warned.err);
    }
    workspace.write("site/audiences.json", r#"{"a":{"whn":{}}}"#);
    workspace
        .run(&["lint", "site"])
        .assert_exit(1, &["unknown member `whn`", "compilation failed with 1 error"]);
    assert_eq!(workspace.files("."), ["site"]);
    workspace.run(&["lint", "missing"]).assert_exit(1, &["missing"]);
}

#[test]
fn lint_compares_windows_with_the_time_of_source_date_epoch() {
    let workspace = Workspace::new();
    workspace.write("site/audiences.json", r#"{"a":{"when":{"now.date":{"$lt":"2026-12-25"}}}}"#);
    // 2026-12-25T00:00:00Z, and a second before.
    for (epoch, warnings) in [("1798156799", "0 warnings"), ("1798156800", "1 warning")] {
        let output = workspace.command(&["lint", "site"]).env("SOURCE_DATE_EPOCH", epoch).output();
        let printed = String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8");
        assert!(printed.contains(&format!("0 errors, {warnings}")), "{printed}");
    }
}

#[test]
fn compile_warns_about_an_equal_or_higher_version_in_the_output_directory() {
    let workspace = Workspace::new();
    let compile = |site: &str, version: &str, output: &str| {
        let result = workspace.run(&["compile", site, "--version", version, "-o", output]);
        result.assert_exit(0, &[output]);
        result.err
    };
    assert_eq!(compile("site", "5", "out-5.snapshot"), "");
    assert_eq!(compile("site", "6", "out-6.snapshot"), "");
    let lower = compile("site", "5", "out-x.snapshot");
    assert!(
        lower.contains("this file has version 6 of site acme, so version 5 may not be served"),
        "{lower}"
    );
    assert!(lower.contains("--> out-6.snapshot") && lower.contains("2 warnings emitted"), "{lower}");
    // The written file itself, a file of another site and a file of another kind do not count.
    fs::remove_file(workspace.path("out-x.snapshot")).expect("removed");
    assert_eq!(compile("site", "6", "out-6.snapshot"), "");
    workspace.write("other/site.json", r#"{"site":"other","trackingId":"track_other","name":"Other"}"#);
    workspace.write("other/routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#);
    workspace.write("broken.snapshot", "broken");
    assert_eq!(compile("other", "1", "other.snapshot"), "");
}

#[test]
fn a_preview_is_a_site_of_its_own() {
    let workspace = Workspace::new();
    let compiled = workspace.run(&["compile", "site", "--preview", "Draft_1-b", "--version", "7"]);
    compiled.assert_exit(0, &["snapshots/acme--Draft_1-b-7.snapshot: site acme--Draft_1-b, version 7"]);
    let path = workspace.path("snapshots/acme--Draft_1-b-7.snapshot");
    let snapshot = Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).expect("a valid snapshot");
    assert_eq!(snapshot.site().tracking_id, "track_acme--Draft_1-b");
    assert_eq!(snapshot.site().preview.as_deref(), Some("Draft_1-b"));
    workspace.run(&["inspect", &path.to_string_lossy()]).assert_exit(0, &["preview      Draft_1-b"]);
}

#[test]
fn the_name_of_a_preview_has_1_to_32_characters() {
    let workspace = Workspace::new();
    let preview = |name: &str| workspace.run(&["compile", "site", "-o", "x", "--preview", name]);
    for length in [1, PREVIEW_NAME_CHARS_MAX - 1, PREVIEW_NAME_CHARS_MAX] {
        preview(&"x".repeat(length)).assert_exit(0, &[]);
    }
    for wrong in [&"x".repeat(PREVIEW_NAME_CHARS_MAX + 1), "", "a b", "é", "a.b"] {
        preview(wrong).assert_exit(2, &["--preview", "1 to 32 of A-Z a-z 0-9 _ -"]);
    }
}

#[test]
fn a_preview_whose_ids_are_too_long_is_refused() {
    let workspace = Workspace::new();
    let site = |site: usize, tracking: usize| {
        let (site, tracking) = ("s".repeat(site), "t".repeat(tracking));
        let about = format!(r#"{{"site":"{site}","trackingId":"track_{tracking}","name":"Acme"}}"#);
        workspace.write("site/site.json", &about);
        workspace.run(&["compile", "site", "-o", "x", "--preview", "abc"])
    };
    site(58, 58).assert_exit(0, &[]);
    site(59, 59).assert_exit(0, &[]);
    site(60, 59)
        .assert_exit(1, &["`site` is too long for the preview `abc`", "expected at most 59 characters"]);
    site(59, 60).assert_exit(1, &["`trackingId` is too long", "expected at most 65 characters", "found 66"]);
}

#[test]
fn a_flag_as_the_first_argument_is_a_flag_of_serve() {
    let workspace = Workspace::new();
    workspace.run(&["--listen", ":8099", "--print-config"]).assert_exit(0, &["listen = \":8099\""]);
    workspace.run(&["--workers", "0"]).assert_exit(2, &["--workers", "1..=256"]);
    workspace.run(&["-h"]).assert_exit(0, &["compile", "lint"]);
    workspace.run(&["-V"]).assert_exit(0, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn with_snapshots_the_demo_site_is_not_compiled() {
    let server = Server::start(&[], &[]);
    assert_eq!(fs::read_dir(server.snapshots_directory()).expect("a directory").count(), 0);
    assert_eq!(server.get("/v1/resolve?trackingId=track_demo&route=/").status, 404);
}

#[test]
fn a_share_that_is_written_as_a_percentage_has_the_fraction_as_help() {
    let workspace = Workspace::new();
    let holdout = |share: &str| {
        format!(r#"{{"site":"a","trackingId":"track_a","name":"A","holdout":{{"share":{share}}}}}"#)
    };
    workspace.write("a/site.json", &holdout("50"));
    workspace.write("a/routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#);
    let expected =
        ["expected 0 to 1, found the number 50", "help: write a share as a fraction: 50 percent is 0.5"];
    workspace.run(&["lint", "a"]).assert_exit(1, &expected);
    workspace.write("a/site.json", &holdout("0.5"));
    workspace.run(&["lint", "a"]).assert_exit(0, &[]);
}

#[test]
fn inspect_shows_the_holdout_of_the_site() {
    let workspace = Workspace::new();
    workspace.write("a/routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#);
    let site = r#"{"site":"a","trackingId":"track_a","name":"A","holdout":{"share":0.05}}"#;
    workspace.write("a/site.json", site);
    workspace.run(&["compile", "a", "-o", "a.snapshot"]).assert_exit(0, &[]);
    let line = "holdout      0.05 of all visitors, from experiments; seed a";
    workspace.run(&["inspect", "a.snapshot"]).assert_exit(0, &[line]);
    let document: Value =
        serde_json::from_str(&workspace.run(&["inspect", "a.snapshot", "--json"]).out).expect("JSON");
    assert_eq!(document["holdout"], serde_json::json!({ "share": 0.05, "seed": "a", "rules": false }));
}
