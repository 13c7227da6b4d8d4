//! `parallax lint --against`: the changes of experiments and audiences between two versions of a site.
//!
//! Each directory of `tests/golden/against/` has two versions of a site and the output of the comparison as text and as JSON. Run
//! the test with `PARALLAX_BLESS=1` to write the output again.

mod audiences;
mod enrolments;
mod holdouts;
mod listed_files;
mod on_server;
mod phases;
mod zones;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command_line::{CommandResult, Workspace};

/// 2026-03-10T00:00:00Z, the time of all comparisons.
const NOW: &str = "1773100800";
const PAIRS: [&str; 8] =
    ["audiences", "ends", "held-out", "holdouts", "new-and-removed", "new-phases", "ramps", "unchanged"];

fn pair_path(pair: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/against").join(pair)
}

/// Runs the program in the directory of a pair.
fn run(pair: &str, arguments: &[&str]) -> CommandResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(arguments).current_dir(pair_path(pair)).env("SOURCE_DATE_EPOCH", NOW);
    CommandResult::of(&command.output().expect("the program runs"))
}

/// Compares the output with a file of the pair, or writes that file.
fn assert_golden(pair: &str, name: &str, output: &str) {
    let path = pair_path(pair).join(name);
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, output).expect("the golden file is written");
    }
    assert_eq!(fs::read_to_string(&path).expect("the golden file"), output, "{}", path.display());
}

#[test]
fn the_changes_of_each_pair_of_sites_equal_the_golden_texts() {
    for pair in PAIRS {
        let text = run(pair, &["lint", "after", "--against", "before"]);
        text.assert_exit(0, &["against before:", "site acme: 1 route, 0 errors"]);
        assert_golden(pair, "changes.txt", &text.out);
        let document = run(pair, &["lint", "after", "--against", "before", "--format", "json"]);
        document.assert_exit(0, &[]);
        assert_golden(pair, "changes.json", &document.out);
        let document: Value = serde_json::from_str(&document.out).expect("JSON");
        let lines = text.out.lines().count() - "against, unchanged, summary".split(',').count();
        let changes =
            ["experiments", "zones", "audiences"].map(|name| document[name].as_array().map_or(0, Vec::len));
        let holdout = usize::from(!document["holdout"].is_null());
        assert_eq!(changes.iter().sum::<usize>() + holdout, lines, "{pair}");
    }
}

#[test]
fn a_denied_phase_is_an_error_at_its_place_and_a_ramp_is_none() {
    let deny = |pair: &str| run(pair, &["lint", "after", "--against", "before", "--deny", "new-phase"]);
    let denied = deny("new-phases");
    denied.assert_exit(1, &["error: --deny new-phase does not allow 5 new phases"]);
    assert_golden("new-phases", "denied.txt", &denied.err);
    assert!(denied.out.contains("cta-colour: new phase"), "the comparison is printed too: {}", denied.out);
    let held_out = deny("holdouts");
    held_out.assert_exit(1, &["error: --deny new-phase does not allow 1 new phase"]);
    assert_golden("holdouts", "denied.txt", &held_out.err);
    for pair in ["audiences", "held-out", "ramps", "new-and-removed", "unchanged"] {
        deny(pair).assert_exit(0, &["site acme: 1 route"]);
    }
    let document = ["lint", "after", "--against", "before", "--deny", "new-phase", "--format", "json"];
    let document = run("new-phases", &document);
    document.assert_exit(1, &["does not allow 5 new phases"]);
    assert!(serde_json::from_str::<Value>(&document.out).is_ok(), "{}", document.out);
}

/// Returns the lines of an output between the first and the last one.
fn changes(out: &str) -> Vec<&str> {
    let lines: Vec<&str> = out.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

/// Creates a working directory with the pair `ramps` as `before/` and `after/`.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for side in ["before", "after"] {
        for file in ["site.json", "routes/index.json"] {
            let text = fs::read_to_string(pair_path("ramps").join(side).join(file)).expect("a file");
            workspace.write(&format!("{side}/{file}"), &text);
        }
    }
    workspace
}

#[test]
fn a_snapshot_and_the_served_one_of_a_directory_compare_as_their_source() {
    let workspace = workspace();
    let lint = |against: &str| workspace.run(&["lint", "after", "--against", against]);
    let expected = lint("before").out;
    workspace.run(&["compile", "after", "--version", "4", "-o", "snapshots/"]).assert_exit(0, &[]);
    workspace.run(&["compile", "before", "--version", "5", "-o", "snapshots/"]).assert_exit(0, &[]);
    for path in ["snapshots/acme-5.snapshot", "snapshots", "snapshots/"] {
        let compared = lint(path);
        compared.assert_exit(0, &[&format!("against {path}, version 5 of site acme:")]);
        assert_eq!(changes(&compared.out), changes(&expected), "{path}");
    }
    assert_eq!(changes(&lint("snapshots/acme-4.snapshot").out), ["6 experiments do not change"]);
    // A file that a server would not serve is named.
    workspace.write("snapshots/acme-6.snapshot", "broken");
    let compared = lint("snapshots");
    assert_eq!(changes(&compared.out), changes(&expected));
    assert!(compared.err.contains("warning: snapshots/acme-6.snapshot: not a snapshot"), "{}", compared.err);
    let document = workspace.run(&["lint", "after", "--against", "snapshots", "--format", "json"]).out;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["against"], serde_json::json!({ "path": "snapshots", "version": "5" }));
    // `lint` writes nothing.
    assert_eq!(workspace.files("."), ["after", "before", "site", "snapshots"]);
}

#[test]
fn a_directory_with_other_sites_only_makes_all_experiments_new() {
    let workspace = workspace();
    workspace.write("other/site.json", r#"{"site":"other","trackingId":"track_other","name":"Other"}"#);
    workspace.run(&["compile", "other", "--version", "1", "-o", "snapshots/"]).assert_exit(0, &[]);
    let deny = ["lint", "after", "--against", "snapshots", "--deny", "new-phase"];
    let compared = workspace.run(&deny);
    compared.assert_exit(
        0,
        &["against snapshots, which has no version of site acme:", "raised: new (`coverage` 0.5)"],
    );
    assert_eq!(compared.out.matches(": new (").count(), 6);
    // A refused file may have the site.
    workspace.write("snapshots/x.snapshot", "broken");
    workspace.run(&deny).assert_exit(1, &["snapshots/x.snapshot: not a snapshot"]);
}

#[test]
fn a_path_with_no_version_of_the_site_is_refused() {
    let workspace = workspace();
    workspace.write("other/site.json", r#"{"site":"other","trackingId":"track_other","name":"Other"}"#);
    workspace.write("wrong/site.json", r#"{"site":"acme","trackingId":"track_acme"}"#);
    workspace.write("empty/readme.txt", "");
    let lint = |against: &str| workspace.run(&["lint", "after", "--against", against]);
    lint("other").assert_exit(1, &["other has site other, not site acme; compare two versions of one site"]);
    let missing = lint("missing");
    missing.assert_exit(1, &["cannot read missing: No such file", "name a snapshot, a snapshots directory"]);
    assert!(!missing.err.contains("server"), "{}", missing.err);
    lint("empty").assert_exit(1, &["empty has neither site.json nor a snapshot; name a snapshot"]);
    lint("after/site.json").assert_exit(1, &["after/site.json: not a snapshot"]);
    lint("wrong")
        .assert_exit(1, &["`name`", "these errors are in wrong, so there is nothing to compare with"]);
    // `lint` writes no snapshot anyway.
    let broken = workspace.run(&["lint", "wrong"]);
    broken.assert_exit(1, &["error: compilation failed with 1 error"]);
    assert!(!broken.err.contains("snapshot"), "{}", broken.err);
    workspace.run(&["lint", "after", "--deny", "new-phase"]).assert_exit(2, &["--against <FILE|DIR>"]);
    workspace
        .run(&["lint", "after", "--against", "before", "--deny", "ramped"])
        .assert_exit(2, &["new-phase"]);
}
