//! `parallax rollback`, and the directories into which `compile` publishes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command_line::{CommandResult, Workspace};
use crate::harness::{Server, eventually};

/// Compiles versions of the site `acme` into `snapshots/`. The title of the page names the version.
fn publish(workspace: &Workspace, versions: &[u64]) {
    for version in versions {
        let page = format!(
            r#"{{"path":"/","layout":{{"root":{{"props":{{"title":"title-{version}"}}}},"zones":{{}}}}}}"#
        );
        workspace.write("site/routes/index.json", &page);
        let compiled = workspace.run(&["compile", "site", "--version", &version.to_string()]);
        compiled.assert_exit(0, &[&format!("snapshots/acme-{version}.snapshot: site acme")]);
    }
}

/// Compiles one version of the site `other` into `snapshots/`.
fn publish_other(workspace: &Workspace, tracking_id: &str) {
    let about = format!(r#"{{"site":"other","trackingId":"{tracking_id}","name":"Other"}}"#);
    workspace.write("other/site.json", &about);
    workspace.write("other/routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#);
    workspace.run(&["compile", "other", "--version", "1"]).assert_exit(0, &["snapshots/other-1.snapshot"]);
}

/// Runs a command whose standard input is a terminal on which `answer` was typed.
fn run_on_terminal(workspace: &Workspace, arguments: &[&str], answer: &str) -> CommandResult {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("the other side can be opened");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("ASCII");
    let no_controlling_terminal = OpenptFlags::NOCTTY.bits() as i32;
    let side = fs::OpenOptions::new().read(true).write(true).custom_flags(no_controlling_terminal).open(name);
    let side = side.expect("the other side is opened");
    fs::File::from(master.try_clone().expect("a descriptor")).write_all(answer.as_bytes()).expect("typed");
    let mut command = workspace.command(arguments);
    let child = command.stdin(side).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    CommandResult::of(&child.expect("it runs").wait_with_output().expect("it ends"))
}

#[test]
fn a_rollback_serves_the_version_before_and_keeps_the_removed_file() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2, 3]);
    let read = |version: u64| {
        fs::read(workspace.path(&format!("snapshots/acme-{version}.snapshot"))).expect("a file")
    };
    let (first, second, third) = (read(1), read(2), read(3));
    let snapshots =
        [("acme-1.snapshot", &first[..]), ("acme-2.snapshot", &second), ("acme-3.snapshot", &third)];
    let server = Server::start(&snapshots, &[]);
    let serves = |title: &str| {
        eventually(title, || server.get("/v1/resolve?site=acme&route=/").body_contains(title).then_some(()));
    };
    serves("title-3");
    let directory = server.snapshots_directory().to_str().expect("UTF-8");
    let rolled_back = workspace.run(&["rollback", directory, "--yes"]);
    rolled_back.assert_exit(
        0,
        &[
            "acme-3.snapshot  version 3\n",
            "acme-2.snapshot  version 2  <- served next\n",
            "/acme-3.snapshot.removed is kept; rename it to publish it again, or delete it\n",
            "removed acme-3.snapshot: a server of this directory then serves version 2 of site acme\n",
        ],
    );
    serves("title-2");
    assert_eq!(fs::read(server.path("acme-3.snapshot.removed")).expect("a file"), third);
    fs::rename(server.path("acme-3.snapshot.removed"), server.path("acme-3.snapshot")).expect("renamed");
    serves("title-3");
    workspace.run(&["rollback", directory, "acme", "--yes"]).assert_exit(0, &["version 2"]);
    workspace.run(&["rollback", directory, "acme", "--yes"]).assert_exit(0, &["version 1"]);
    serves("title-1");
    let last = workspace.run(&["rollback", directory, "--yes"]);
    last.assert_exit(1, &["site acme has no other valid snapshot", "use --unpublish"]);
    serves("title-1");
    let unpublished = workspace.run(&["rollback", directory, "acme", "--yes", "--unpublish"]);
    unpublished.assert_exit(0, &["a server of this directory then answers 404 for site acme"]);
    eventually("the site ends", || (server.get("/v1/resolve?site=acme&route=/").status == 404).then_some(()));
}

#[test]
fn a_rollback_asks_on_a_terminal_and_removes_only_after_a_yes() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2, 3, 4]);
    let all = workspace.files("snapshots");
    for no in ["n\n", "\n", "no\n", "x\n", "yesterday\n", "\u{4}"] {
        let refused = run_on_terminal(&workspace, &["rollback", "snapshots"], no);
        refused.assert_exit(
            1,
            &[
                "remove acme-4.snapshot? a server of this directory then serves version 3 of site acme [y/N]",
                "nothing was removed",
            ],
        );
        assert_eq!(workspace.files("snapshots"), all);
    }
    for (yes, next) in [("y\n", 3), ("Y\n", 2), ("yes\n", 1)] {
        let removed = run_on_terminal(&workspace, &["rollback", "snapshots", "acme"], yes);
        removed.assert_exit(0, &[&format!("then serves version {next} of site acme")]);
    }
    let names =
        ["acme-1.snapshot", "acme-2.snapshot.removed", "acme-3.snapshot.removed", "acme-4.snapshot.removed"];
    assert_eq!(workspace.files("snapshots"), names);
}

#[test]
fn without_a_terminal_a_rollback_needs_yes() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2]);
    let command = workspace.command(&["rollback", "snapshots"]).stdin(Stdio::null()).output();
    let refused = CommandResult::of(&command.expect("it runs"));
    refused.assert_exit(2, &["standard input is not a terminal", "use --yes"]);
    assert!(refused.out.contains("acme-1.snapshot  version 1  <- served next"), "{refused:?}");
    assert_eq!(workspace.files("snapshots"), ["acme-1.snapshot", "acme-2.snapshot"]);
}

#[test]
fn a_rollback_in_a_directory_of_several_sites_needs_the_name_of_one() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2]);
    publish_other(&workspace, "track_other");
    let preview = ["compile", "site", "--version", "7", "--preview", "draft"];
    workspace.run(&preview).assert_exit(0, &["snapshots/acme--draft-7.snapshot"]);
    let unnamed = workspace.run(&["rollback", "snapshots", "--yes"]);
    unnamed.assert_exit(2, &["snapshots has several sites; name one of them: acme, acme--draft, other"]);
    let misspelt = workspace.run(&["rollback", "snapshots", "acm", "--yes"]);
    misspelt
        .assert_exit(1, &["no snapshot of site acm, only of acme, acme--draft, other; did you mean acme?"]);
    let unknown = workspace.run(&["rollback", "snapshots", "somewhere-else", "--yes"]);
    unknown.assert_exit(1, &["no snapshot of site somewhere-else, only of acme, acme--draft, other\n"]);
    // The preview is a site of its own.
    workspace
        .run(&["rollback", "snapshots", "acme--draft", "--yes"])
        .assert_exit(1, &["no other valid snapshot"]);
    workspace
        .run(&["rollback", "snapshots", "acme", "--yes"])
        .assert_exit(0, &["serves version 1 of site acme"]);
    let ended = workspace.run(&["rollback", "snapshots", "acme--draft", "--yes", "--unpublish"]);
    ended.assert_exit(0, &["removed acme--draft-7.snapshot"]);
    let published: Vec<_> =
        workspace.files("snapshots").into_iter().filter(|name| name.ends_with(".snapshot")).collect();
    assert_eq!(published, ["acme-1.snapshot", "other-1.snapshot"]);
}

#[test]
fn a_rollback_needs_a_directory_with_a_valid_snapshot() {
    let workspace = Workspace::new();
    workspace
        .run(&["rollback", "missing"])
        .assert_exit(1, &["cannot read missing", "the snapshots directory"]);
    workspace.run(&["rollback", "site/site.json"]).assert_exit(1, &["cannot read site/site.json"]);
    workspace.run(&["rollback", "site"]).assert_exit(1, &["site has no file whose name ends in .snapshot"]);
    workspace.write("snapshots/x.snapshot", "no snapshot");
    for arguments in [&["rollback", "snapshots"][..], &["rollback", "snapshots", "acme"]] {
        workspace
            .run(arguments)
            .assert_exit(1, &["snapshots has no valid snapshot", "parallax check snapshots"]);
    }
}

#[test]
fn a_damaged_file_is_never_the_version_that_is_served_next() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2, 3]);
    publish_other(&workspace, "track_other");
    workspace.write("snapshots/acme-2.snapshot", "damaged");
    workspace.write("snapshots/other-9.snapshot", "damaged");
    workspace.write("snapshots/backup.snapshot", "damaged");
    let removed = workspace.run(&["rollback", "snapshots", "acme", "--yes"]);
    removed.assert_exit(
        0,
        &[
            "acme-2.snapshot  not a snapshot",
            "acme-1.snapshot  version 1  <- served next",
            "backup.snapshot  unknown site: not a snapshot",
            "removed acme-3.snapshot, acme-2.snapshot: a server of this directory then serves version 1",
        ],
    );
    assert!(!removed.out.contains("other-9"), "{removed:?}");
    workspace.run(&["rollback", "snapshots", "acme", "--yes"]).assert_exit(1, &["no other valid snapshot"]);
    // A damaged newest file is removed, and the version below it stays.
    workspace
        .run(&["rollback", "snapshots", "other", "--yes"])
        .assert_exit(0, &["removed other-9.snapshot:"]);
}

#[test]
fn a_rollback_removes_copies_of_the_newest_version_too() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2]);
    fs::copy(workspace.path("snapshots/acme-2.snapshot"), workspace.path("snapshots/copy.snapshot"))
        .expect("copied");
    let removed = workspace.run(&["rollback", "snapshots", "--yes"]);
    removed.assert_exit(0, &["removed acme-2.snapshot, copy.snapshot:", "serves version 1"]);
}

#[test]
fn a_rollback_skips_a_version_whose_tracking_id_another_site_has() {
    let workspace = Workspace::new();
    publish(&workspace, &[1]);
    workspace.write("site/site.json", r#"{"site":"acme","trackingId":"track_new","name":"Acme"}"#);
    publish(&workspace, &[2]);
    publish_other(&workspace, "track_acme");
    workspace.run(&["rollback", "snapshots", "acme", "--yes"]).assert_exit(1, &["no other valid snapshot"]);
}

#[test]
fn a_rollback_of_a_pulled_file_is_refused() {
    let workspace = Workspace::new();
    publish(&workspace, &[1, 2]);
    workspace.write("snapshots/.pulled", "acme-1.snapshot\nacme-2.snapshot\n");
    let refused = workspace.run(&["rollback", "snapshots", "--yes"]);
    refused
        .assert_exit(1, &["acme-2.snapshot was fetched from the source", "publish --remove acme-2.snapshot"]);
    workspace.write("snapshots/.pulled", "other-2.snapshot\n");
    workspace.run(&["rollback", "snapshots", "--yes"]).assert_exit(0, &["serves version 1"]);
}

#[test]
fn compile_writes_a_file_per_version_into_a_directory() {
    let workspace = Workspace::new();
    let compile = |output: &str, version: &str| {
        let path = format!("{}/acme-{version}.snapshot", output.trim_end_matches('/'));
        let compiled = workspace.run(&["compile", "site", "-o", output, "--version", version]);
        compiled.assert_exit(0, &[&format!("{path}: site acme, version {version}")]);
    };
    compile("out/", "1");
    compile("out", "2");
    compile("a/b/", "3");
    assert_eq!(workspace.files("out"), ["acme-1.snapshot", "acme-2.snapshot"]);
    // A path without a slash that does not exist is a file.
    workspace.run(&["compile", "site", "-o", "new", "--version", "1"]).assert_exit(0, &["new: site acme"]);
    assert!(workspace.path("new").is_file());
    let under_a_file = workspace.run(&["compile", "site", "-o", "new/", "--version", "1"]);
    under_a_file.assert_exit(3, &["cannot create new/", "choose another directory with -o"]);
}

#[test]
fn compile_warns_if_it_replaces_another_version_in_place() {
    let workspace = Workspace::new();
    let compile = |site: &str, version: &str| {
        let compiled = workspace.run(&["compile", site, "--version", version, "-o", "out.snapshot"]);
        compiled.assert_exit(0, &["out.snapshot"]);
        compiled.err
    };
    assert_eq!(compile("site", "1"), "");
    let replaced = compile("site", "2");
    assert!(replaced.contains("version 2 of site acme replaces version 1 in this file"), "{replaced}");
    assert!(replaced.contains("a directory such as `-o snapshots/`"), "{replaced}");
    assert_eq!(compile("site", "2"), "");
    assert!(compile("site", "1").contains("version 1 of site acme replaces version 2"), "a lower version");
    workspace.write("other/site.json", r#"{"site":"other","trackingId":"track_other","name":"Other"}"#);
    workspace.write("other/routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#);
    assert!(compile("other", "1").contains("site other replaces site acme in this file"), "another site");
}

#[test]
fn compile_keeps_five_versions_in_a_directory_or_as_many_as_keep_says() {
    let workspace = Workspace::new();
    publish_other(&workspace, "track_other");
    workspace.write("snapshots/acme-0.snapshot", "damaged files are never deleted");
    fs::copy(workspace.path("snapshots/other-1.snapshot"), workspace.path("snapshots/acme-00.snapshot"))
        .expect("copied");
    publish(&workspace, &[1, 2, 3, 4, 5, 6]);
    let others = ["acme-0.snapshot", "acme-00.snapshot"];
    let names = |versions: &[u64]| {
        let own = versions.iter().map(|version| format!("acme-{version}.snapshot"));
        others
            .iter()
            .map(ToString::to_string)
            .chain(own)
            .chain(["other-1.snapshot".to_owned()])
            .collect::<Vec<_>>()
    };
    assert_eq!(workspace.files("snapshots"), names(&[2, 3, 4, 5, 6]));
    let keep =
        |version: &str, keep: &str| workspace.run(&["compile", "site", "--version", version, "--keep", keep]);
    keep("7", "6").assert_exit(0, &["snapshots/acme-7.snapshot"]);
    assert_eq!(workspace.files("snapshots"), names(&[2, 3, 4, 5, 6, 7]));
    // A lower version than the newest one deletes nothing above it.
    keep("4", "2").assert_exit(0, &["deleted snapshots/acme-2.snapshot: --keep 2"]);
    assert_eq!(workspace.files("snapshots"), names(&[3, 4, 5, 6, 7]));
    keep("8", "2").assert_exit(0, &[]);
    assert_eq!(workspace.files("snapshots"), names(&[7, 8]));
    for wrong in ["0", "1", "x"] {
        keep("9", wrong).assert_exit(2, &["--keep"]);
    }
    let file = workspace.run(&["compile", "site", "-o", "out.snapshot", "--keep", "2"]);
    file.assert_exit(2, &["--keep is for an output directory", "use -o out.snapshot/"]);
}
