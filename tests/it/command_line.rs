//! The command line: exit codes (0 success, 1 invalid input, 2 invalid command line, 3 system error),
//! output files and error messages.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use tempfile::TempDir;

use crate::harness::{Server, snapshot, temporary_directory};

const PROGRAM: &str = env!("CARGO_BIN_EXE_parallax");

const SITE: &str = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
const PAGE: &str = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;

/// A working directory with a valid site in `site/`.
pub struct Workspace(TempDir);

impl Workspace {
    pub fn new() -> Self {
        let workspace = Self(temporary_directory());
        workspace.write("site/site.json", SITE);
        workspace.write("site/routes/index.json", PAGE);
        workspace
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::write(path, text).expect("written");
    }

    /// Returns the names of all entries in a directory, sorted, with dot files.
    pub fn files(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = self.path(directory).read_dir() else { return Vec::new() };
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.0.path()).env_remove("SOURCE_DATE_EPOCH");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(arguments).output().expect("the program runs"))
    }
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandResult {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandResult {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let code = output.status.code().expect("the program exits without a signal");
        Self { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Asserts the exit code, and that standard output (exit code 0) or standard error has these texts.
    #[track_caller]
    pub fn assert_exit(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in texts {
            let output = if code == 0 { &self.out } else { &self.err };
            assert!(output.contains(text), "{text:?} is missing: {self:?}");
        }
    }
}

#[test]
fn help_exits_with_0_and_names_commands_and_flags() {
    let workspace = Workspace::new();
    workspace.run(&["--help"]).assert_exit(0, &["serve", "compile", "inspect", "check", "schema"]);
    workspace.run(&["--version"]).assert_exit(0, &[env!("CARGO_PKG_VERSION")]);
    let serve = [
        "--snapshots",
        "--listen",
        "--admin",
        "--admin-token",
        "--workers",
        "--driver",
        "--busy-poll-us",
        "--rate-limit-per-ip",
        "--rate-limit-per-site",
        "--log-format",
        "--explain",
        "--country-header",
        "--data",
        "--ack",
        "--segment-bytes",
        "--retain-days",
        "--retain-bytes",
    ];
    workspace.run(&["serve", "--help"]).assert_exit(0, &serve);
    workspace.run(&["compile", "--help"]).assert_exit(0, &["-o", "--version", "SOURCE_DATE_EPOCH"]);
    for command in ["inspect", "check", "schema"] {
        workspace.run(&[command, "--help"]).assert_exit(0, &["Usage"]);
    }
}

#[test]
fn an_invalid_command_line_exits_with_2() {
    let workspace = Workspace::new();
    workspace.run(&["bogus"]).assert_exit(2, &["bogus"]);
    workspace.run(&["compile"]).assert_exit(2, &["<SITE>"]);
    workspace.run(&["compile", "site", "--verison", "1"]).assert_exit(2, &["--version"]);
    workspace.run(&["compile", "site", "--version", "-1"]).assert_exit(2, &[]);
    workspace
        .run(&["compile", "site", "--version", "9007199254740993"])
        .assert_exit(2, &["9007199254740992"]);
    workspace.run(&["serve", "--workers", "0"]).assert_exit(2, &["--workers", "1..=256"]);
    workspace.run(&["serve", "--workers", "257"]).assert_exit(2, &["--workers", "1..=256"]);
    workspace.run(&["serve", "--busy-poll-us", "1001"]).assert_exit(2, &["--busy-poll-us", "0..=1000"]);
    for allowed in ["0", "999", "1000"] {
        workspace
            .run(&["serve", "--busy-poll-us", allowed, "--print-config"])
            .assert_exit(0, &[&format!("busy-poll-us = {allowed}")]);
    }
    workspace.run(&["compile", "site", "--log", "json"]).assert_exit(2, &["unexpected argument '--log'"]);
    for wrong in ["here", "65536", ":", "here:80", "localhost", "localhost:", "::1:80", "-1"] {
        let flag = format!("--listen={wrong}");
        workspace.run(&["serve", &flag]).assert_exit(2, &["--listen", "such as 127.0.0.1:8080"]);
    }
    for short in ["8081", ":8081", "localhost:0", "[::]:80"] {
        let printed = format!("listen = \"{short}\"");
        workspace.run(&["serve", "--listen", short, "--print-config"]).assert_exit(0, &[&printed]);
    }
    workspace.run(&["serve", "--driver", "kqueue"]).assert_exit(2, &["auto", "uring", "epoll"]);
    workspace.run(&["serve", "--ack", "soon"]).assert_exit(2, &["disk", "written"]);
    workspace
        .run(&["schema", "sites"])
        .assert_exit(2, &["site", "audiences", "groups", "queries", "route", "content"]);
    let workers = workspace.command(&["serve"]).env("PARALLAX_WORKERS", "0").output();
    CommandResult::of(&workers.expect("the program runs")).assert_exit(2, &["1..=256"]);
}

#[test]
fn a_size_out_of_range_exits_with_2() {
    let workspace = Workspace::new();
    for (flag, below, above, range) in [
        ("--segment-bytes", "65535", "1048577MiB", "65536..=1099511627776"),
        ("--checkpoint-bytes", "0", "1099511627777", "1..=1099511627776"),
        ("--snapshots-memory", "-1", "281474976710657", "0..=281474976710656"),
        ("--profiles-memory", "-1", "257TiB", "0..=281474976710656"),
        ("--profiles-memory", "0%", "101%", "1%..=100%"),
        ("--connections-memory", "-1", "17592186044417", "0..=17592186044416"),
    ] {
        let flag_with = |size: &str| format!("{flag}={size}");
        let expected = if below == "-1" { "expected a whole number" } else { range };
        workspace.run(&["serve", &flag_with(below)]).assert_exit(2, &[flag, expected]);
        workspace.run(&["serve", &flag_with(above)]).assert_exit(2, &[flag, range]);
        let (least, most) = range.split_once("..=").expect("a range");
        for allowed in [least, most] {
            workspace.run(&["serve", &flag_with(allowed), "--print-config"]).assert_exit(0, &[allowed]);
        }
    }
    let insights = |size: &str| format!("--insights-memory={size}");
    for allowed in ["0", "67108864", "67108865", "281474976710656"] {
        workspace.run(&["serve", &insights(allowed), "--print-config"]).assert_exit(0, &[allowed]);
    }
    for refused in ["1", "67108863", "281474976710657"] {
        workspace.run(&["serve", &insights(refused)]).assert_exit(2, &["from 64MiB to 256TiB"]);
    }
    let scrub = |size: &str| format!("--scrub-rate={size}");
    for allowed in ["0", "262144", "262145", "1099511627776"] {
        workspace.run(&["serve", &scrub(allowed), "--print-config"]).assert_exit(0, &[allowed]);
    }
    for refused in ["1", "262143", "1099511627777"] {
        workspace.run(&["serve", &scrub(refused)]).assert_exit(2, &["from 256KiB to 1TiB"]);
    }
    workspace.run(&["serve", "--retain-bytes=16777216TiB"]).assert_exit(2, &["--retain-bytes", "exceeds"]);
    workspace.run(&["serve", "--retain-bytes=9XB"]).assert_exit(2, &["unknown unit \"XB\"", "KiB"]);
    workspace.run(&["serve", "--retain-bytes=0", "--print-config"]).assert_exit(0, &["retain-bytes = 0"]);
}

#[test]
fn compile_prints_the_output_path_and_the_site() {
    let workspace = Workspace::new();
    workspace
        .run(&["compile", "site", "-o", "out.snapshot", "--version", "9007199254740992"])
        .assert_exit(0, &["out.snapshot: site acme, version 9007199254740992 (from --version), 1 route,"]);
    let opened = Snapshot::open(&workspace.path("out.snapshot"), &SnapshotBudget::new(u64::MAX))
        .expect("a valid snapshot");
    assert_eq!(opened.version(), 1 << 53);
    workspace
        .run(&["compile", "site", "--version", "7"])
        .assert_exit(0, &["snapshots/acme-7.snapshot: site acme"]);
    assert_eq!(workspace.files("snapshots"), ["acme-7.snapshot"]);
}

#[test]
fn the_version_comes_from_flag_then_site_then_epoch_then_clock() {
    let workspace = Workspace::new();
    let epoch = |text: &str, arguments: &[&str]| {
        let arguments = [&["compile", "site", "-o", "x"], arguments].concat();
        CommandResult::of(
            &workspace.command(&arguments).env("SOURCE_DATE_EPOCH", text).output().expect("the program runs"),
        )
    };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let before = now();
    workspace.run(&["compile", "site", "-o", "x"]).assert_exit(0, &["(the current time)"]);
    let compiled = Snapshot::open(&workspace.path("x"), &SnapshotBudget::new(u64::MAX))
        .expect("a valid snapshot")
        .version();
    assert!((before..=now()).contains(&compiled), "{compiled}");
    epoch("12", &[]).assert_exit(0, &["version 12 (from SOURCE_DATE_EPOCH)"]);
    for wrong in ["", "yesterday", "1.5", "9007199254740993"] {
        epoch(wrong, &[]).assert_exit(1, &["SOURCE_DATE_EPOCH", "whole seconds since 1970"]);
    }
    workspace.write("site/site.json", &SITE.replace("{\"site\"", "{\"version\":5,\"site\""));
    epoch("12", &[]).assert_exit(0, &["version 5 (from site.json)"]);
    epoch("12", &["--version", "0"]).assert_exit(0, &["version 0 (from --version)"]);
}

/// Copies the source of the demo site.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in from.read_dir().expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Replaces the first `valid` in a file of the demo by `invalid`. Returns `--> file:line:column` of the
/// `marked` text in the replacement or after it.
fn introduce_error(workspace: &Workspace, file: &str, valid: &str, invalid: &str, marked: &str) -> String {
    let path = workspace.path("demo").join(file);
    let text = fs::read_to_string(&path).expect("a source file of the demo");
    let at = text.find(valid).unwrap_or_else(|| panic!("{file} of the demo no longer has {valid}"));
    let text = text.replacen(valid, invalid, 1);
    fs::write(&path, &text).expect("written");
    let at = at + text[at..].find(marked).expect("the marked text");
    let line_begins = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let (line, column) = (text[..at].matches('\n').count() + 1, text[line_begins..at].chars().count() + 1);
    format!("--> {file}:{line}:{column}")
}

#[test]
fn one_run_reports_five_errors_each_at_its_place() {
    let workspace = Workspace::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/demo"), &workspace.path("demo"));
    workspace.run(&["compile", "demo", "-o", "demo.snapshot"]).assert_exit(0, &["site fjell"]);
    let before = fs::read(workspace.path("demo.snapshot")).expect("a snapshot");

    let (front, audiences) = ("routes/index.json", "audiences.json");
    let places = [
        introduce_error(
            &workspace,
            front,
            r#""audience": "returning""#,
            r#""audience": "retruning""#,
            r#""retruning""#,
        ),
        // The enclosing zone already has this name.
        introduce_error(&workspace, front, r#""next-step":"#, r#""hero":"#, r#""hero""#),
        introduce_error(&workspace, "routes/tents.json", "[0.34, 0.33, 0.33]", "[0.34, 0.33, 0.43]", "["),
        introduce_error(
            &workspace,
            "routes/stoves.json",
            r#""path": "/stoves","#,
            r#""path": "/stoves""#,
            r#""updatedAt""#,
        ),
    ];
    // Both audiences cause the cycle. It is reported at the first in name order.
    let (valid, cyclic) = (r#"{ "visitor.isReturning": true }"#, r#"{ "$audience": "comparing-tents" }"#);
    introduce_error(&workspace, audiences, valid, cyclic, "{");

    let result = workspace.run(&["compile", "demo", "-o", "demo.snapshot"]);
    let summary = "error: compilation failed with 5 errors; no snapshot was written";
    result.assert_exit(
        1,
        &[summary, "help: did you mean `returning`?", "error: duplicate personalized zone `hero`"],
    );
    for place in places {
        let rest = result
            .err
            .split(&place)
            .nth(1)
            .unwrap_or_else(|| panic!("{place} is not reported: {}", result.err));
        assert!(!rest.starts_with(|c: char| c.is_ascii_digit()), "{place}: {}", result.err);
    }
    let place = format!("--> {audiences}:");
    let cycles = result.err.lines().filter(|line| line.contains(&place)).collect::<Vec<_>>();
    assert!(cycles.len() == 1 && cycles[0].ends_with(" at /comparing-tents/when"), "{cycles:?}");
    assert_eq!(fs::read(workspace.path("demo.snapshot")).expect("the old file"), before);
}

#[test]
fn compile_writes_nothing_if_the_site_has_errors() {
    let workspace = Workspace::new();
    workspace.write("site/routes/broken.json", "{");
    workspace.run(&["compile", "site"]).assert_exit(1, &["routes/broken.json:1:", "no snapshot was written"]);
    workspace
        .run(&["compile", "site", "-o", "x.snapshot"])
        .assert_exit(1, &["compilation failed with 1 error; no snapshot was written"]);
    assert_eq!(workspace.files(""), ["site"]);
    workspace.run(&["compile", "nowhere"]).assert_exit(1, &["parallax: nowhere: No such file"]);
    fs::create_dir(workspace.path("empty")).expect("created");
    workspace.run(&["compile", "empty"]).assert_exit(1, &["site.json", "\"trackingId\""]);
}

#[test]
fn a_warning_goes_to_standard_error_and_compile_exits_with_0() {
    let workspace = Workspace::new();
    workspace.write("site/content/posts.json", r#"[{"id":"p","type":"post","fields":{"title":"A"}}]"#);
    workspace.write("site/queries.json", "{\"all\":{\"collection\":\"posts\",\n\"orderBy\":[\"titel\"]}}");
    let result = workspace.run(&["compile", "site", "-o", "x.snapshot", "--version", "1"]);
    result.assert_exit(0, &["x.snapshot: site acme, version 1"]);
    for text in
        ["1 warning emitted", "warning: unknown field", "queries.json:2:12 at /all/orderBy/0", "`title`"]
    {
        assert!(result.err.contains(text), "{text:?} is missing: {result:?}");
    }
    assert_eq!(workspace.files(""), ["site", "x.snapshot"]);
    workspace.write("site/queries.json", r#"{"all":{"collection":"posts","orderBy":["title"]}}"#);
    let result = workspace.run(&["compile", "site", "-o", "x.snapshot", "--version", "1"]);
    result.assert_exit(0, &["x.snapshot"]);
    assert!(!result.err.contains("warning"), "{result:?}");
}

#[test]
fn a_system_error_exits_with_3() {
    let workspace = Workspace::new();
    workspace
        .run(&["compile", "site", "-o", "nowhere/x.snapshot"])
        .assert_exit(3, &["cannot write nowhere/x.snapshot", "-o"]);
    workspace
        .run(&["serve", "--snapshots", "nowhere", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .assert_exit(3, &["cannot read the snapshots directory nowhere", "--snapshots"]);
    fs::create_dir(workspace.path("snapshots")).expect("created");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    for (flag, other) in [("--listen", "--admin"), ("--admin", "--listen")] {
        workspace
            .run(&["serve", "--snapshots", "snapshots", flag, &address, other, "127.0.0.1:0"])
            .assert_exit(3, &[&address, "cannot listen on", flag]);
    }
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let schema = workspace.command(&["schema", "site"]).stdout(full).output();
    CommandResult::of(&schema.expect("the program runs"))
        .assert_exit(3, &["cannot write to standard output"]);
}

#[test]
fn a_data_directory_in_use_exits_with_3_until_it_is_released() {
    let server = Server::demo();
    let snapshots = server.snapshots_directory().to_str().expect("UTF-8").to_owned();
    let data = server.data().to_str().expect("UTF-8").to_owned();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--snapshots", &snapshots];
    let error = format!("cannot use the data directory {data}: ");
    Workspace::new()
        .run(&[&words[..], &["--data", &data]].concat())
        .assert_exit(3, &[&error, "another server", "set --data"]);
    assert_eq!(server.get("/v1/routes?site=fjell").status, 200);
    let again = server.restart(&[]);
    assert_eq!(again.get("/v1/routes?site=fjell").status, 200);
}

#[test]
fn a_closed_output_pipe_exits_with_0() {
    let workspace = Workspace::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    CommandResult::of(
        &workspace.command(&["schema", "site"]).stdout(writer).output().expect("the program runs"),
    )
    .assert_exit(0, &[]);
}

/// A file size limit simulates a full disk: the write fails in the middle.
#[test]
fn a_full_disk_while_writing_leaves_only_the_old_snapshot() {
    let workspace = Workspace::new();
    let old = snapshot(&[("site.json", SITE), ("routes/index.json", PAGE)], 1);
    fs::create_dir(workspace.path("out")).expect("created");
    fs::write(workspace.path("out/x.snapshot"), &old).expect("written");
    let large =
        PAGE.replace("\"props\":{}", &format!("\"props\":{{\"text\":\"{}\"}}", "a long text ".repeat(2000)));
    workspace.write("site/routes/index.json", &large);
    let script =
        format!("trap '' XFSZ; ulimit -f 1; exec {PROGRAM} compile site --version 2 -o out/x.snapshot");
    let output = Command::new("sh").args(["-c", &script]).current_dir(workspace.0.path()).output();
    CommandResult::of(&output.expect("the program runs")).assert_exit(3, &["cannot write out/x.snapshot"]);
    assert_eq!(fs::read(workspace.path("out/x.snapshot")).expect("the old file"), old);
    assert_eq!(workspace.files("out"), ["x.snapshot"]);
}

#[test]
fn check_names_sound_and_damaged_files() {
    let workspace = Workspace::new();
    let whole = snapshot(&[("site.json", SITE), ("routes/index.json", PAGE)], 3);
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    fs::create_dir(workspace.path("all")).expect("created");
    workspace.run(&["check", "all"]).assert_exit(1, &["nothing to check"]);
    fs::write(workspace.path("all/a.snapshot"), &whole).expect("written");
    fs::write(workspace.path("all/.hidden.snapshot"), &damaged).expect("written");
    fs::write(workspace.path("all/README.md"), "not a snapshot").expect("written");
    workspace.run(&["check", "all"]).assert_exit(0, &["all/a.snapshot: sound, site acme version 3"]);
    fs::write(workspace.path("all/b.snapshot"), &damaged).expect("written");
    fs::write(workspace.path("all/c.snapshot"), &whole[..100]).expect("written");
    let result = workspace.run(&["check", "all"]);
    result.assert_exit(1, &["2 of 3 files are not sound"]);
    assert!(result.out.contains("all/a.snapshot: sound"), "{result:?}");
    assert!(
        result.out.contains("all/b.snapshot: damaged: the content does not match the hash"),
        "{result:?}"
    );
    assert!(result.out.contains("all/c.snapshot: incomplete"), "{result:?}");
    workspace.run(&["check", "all/a.snapshot"]).assert_exit(0, &["sound"]);
    workspace.run(&["check", "all/b.snapshot"]).assert_exit(1, &["1 of 1 files are not sound"]);
    workspace.run(&["check", "nowhere"]).assert_exit(1, &["nowhere: No such file"]);
}

#[test]
fn inspect_shows_a_snapshot_as_text_and_as_json() {
    let workspace = Workspace::new();
    let bytes = snapshot(&[("site.json", SITE), ("routes/index.json", PAGE)], 3);
    fs::write(workspace.path("a.snapshot"), &bytes).expect("written");
    let length = format!("{} bytes", bytes.len());
    workspace
        .run(&["inspect", "a.snapshot"])
        .assert_exit(0, &["acme (track_acme), Acme", "version      3", &length, "route        /"]);
    let result = workspace.run(&["inspect", "--json", "a.snapshot"]);
    result.assert_exit(0, &[]);
    let json: serde_json::Value = serde_json::from_str(&result.out).expect("JSON");
    assert_eq!((json["site"].as_str(), json["version"].as_str()), (Some("acme"), Some("3")));
    assert_eq!(json["routes"][0]["path"], "/");
    fs::write(workspace.path("b.snapshot"), &bytes[1..]).expect("written");
    workspace.run(&["inspect", "b.snapshot"]).assert_exit(1, &["b.snapshot: not a snapshot"]);
    workspace.run(&["inspect", "nowhere"]).assert_exit(1, &["cannot read nowhere"]);
}

#[test]
fn schema_prints_a_json_schema_for_every_kind_of_file() {
    let workspace = Workspace::new();
    for kind in ["site", "audiences", "groups", "queries", "route", "content"] {
        let result = workspace.run(&["schema", kind]);
        result.assert_exit(0, &["$schema"]);
        serde_json::from_str::<serde_json::Value>(&result.out).expect("JSON");
    }
}

#[test]
fn the_default_command_serves_the_demo_if_nothing_is_published() {
    let workspace = Workspace::new();
    let serve = || {
        let mut child = workspace
            .command(&[])
            .envs([("PARALLAX_LISTEN", "127.0.0.1:0"), ("PARALLAX_ADMIN", "127.0.0.1:0")])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut log = String::new();
        for line in lines.map_while(Result::ok) {
            log += &line;
            if line.contains(" serving url=http://") {
                break;
            }
        }
        child.kill().expect("the program runs");
        child.wait().expect("the program exits");
        log
    };
    assert!(serve().contains("compiled the demo site path=snapshots/fjell-1.snapshot"));
    assert_eq!(workspace.files("snapshots"), ["fjell-1.snapshot"]);
    // At the second start a snapshot is published, so the demo is not compiled.
    let log = serve();
    assert!(log.contains(" serving url=") && !log.contains("demo"), "{log}");
}
