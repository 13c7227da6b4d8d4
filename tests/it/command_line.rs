//! What the operator types: exit codes (0 done, 1 the input, 2 the command line, 3 the machine), where
//! things are written, and what is said when they are not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use parallax::site::snapshot::open::{Budget, Snapshot};
use tempfile::TempDir;

use crate::harness::{Server, snapshot, temporary_folder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_parallax");

const SITE: &str = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
const PAGE: &str = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;

/// A folder to work in, with a sound site in `site/`.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(temporary_folder());
        desk.write("site/site.json", SITE);
        desk.write("site/routes/index.json", PAGE);
        desk
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    /// All files under a folder, sorted, dot files too.
    fn files(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = self.path(folder).read_dir() else { return Vec::new() };
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.0.path()).env_remove("SOURCE_DATE_EPOCH");
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        Done::of(&self.command(arguments).output().expect("it runs"))
    }
}

/// What a command did.
#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let code = output.status.code().expect("it exits by itself");
        Self { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Asserts the exit code, and that this is said.
    #[track_caller]
    fn is(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in said {
            let place = if code == 0 { &self.out } else { &self.err };
            assert!(place.contains(text), "{text:?} is not said: {self:?}");
        }
    }
}

#[test]
fn help_is_no_failure_and_names_every_command_and_flag() {
    let desk = Desk::new();
    desk.run(&["--help"]).is(0, &["serve", "compile", "inspect", "check", "schema"]);
    desk.run(&["--version"]).is(0, &[env!("CARGO_PKG_VERSION")]);
    let serve = [
        "--snapshots",
        "--listen",
        "--admin",
        "--admin-token",
        "--workers",
        "--driver",
        "--spin-us",
        "--explain",
        "--country-header",
        "--data",
        "--ack",
        "--segment-bytes",
        "--retain-days",
        "--retain-bytes",
    ];
    desk.run(&["serve", "--help"]).is(0, &serve);
    desk.run(&["compile", "--help"]).is(0, &["-o", "--version", "SOURCE_DATE_EPOCH"]);
    for command in ["inspect", "check", "schema"] {
        desk.run(&[command, "--help"]).is(0, &["Usage"]);
    }
}

#[test]
fn a_command_line_that_is_not_understood_is_exit_code_2() {
    let desk = Desk::new();
    desk.run(&["bogus"]).is(2, &["bogus"]);
    desk.run(&["compile"]).is(2, &["<SITE>"]);
    desk.run(&["compile", "site", "--verison", "1"]).is(2, &["--version"]);
    desk.run(&["compile", "site", "--version", "-1"]).is(2, &[]);
    desk.run(&["compile", "site", "--version", "9007199254740993"]).is(2, &["9007199254740992"]);
    desk.run(&["serve", "--workers", "0"]).is(2, &["--workers", "1..=256"]);
    desk.run(&["serve", "--workers", "257"]).is(2, &["--workers", "1..=256"]);
    desk.run(&["serve", "--spin-us", "1001"]).is(2, &["--spin-us", "0..=1000"]);
    for allowed in ["0", "999", "1000"] {
        desk.run(&["serve", "--spin-us", allowed, "--print-config"])
            .is(0, &[&format!("spin-us = {allowed}")]);
    }
    desk.run(&["serve", "--listen", "here"]).is(2, &["--listen"]);
    desk.run(&["serve", "--driver", "kqueue"]).is(2, &["auto", "uring", "epoll"]);
    desk.run(&["serve", "--ack", "soon"]).is(2, &["disk", "written"]);
    desk.run(&["schema", "sites"]).is(2, &["site", "audiences", "groups", "queries", "route", "content"]);
    let workers = desk.command(&["serve"]).env("PARALLAX_WORKERS", "0").output();
    Done::of(&workers.expect("it runs")).is(2, &["1..=256"]);
}

#[test]
fn compile_says_where_it_wrote_and_what() {
    let desk = Desk::new();
    desk.run(&["compile", "site", "-o", "out.snapshot", "--version", "9007199254740992"])
        .is(0, &["out.snapshot: site acme, version 9007199254740992 (from --version), 1 routes,"]);
    let opened = Snapshot::open(&desk.path("out.snapshot"), &Budget::new(u64::MAX)).expect("sound");
    assert_eq!(opened.version(), 1 << 53);
    desk.run(&["compile", "site", "--version", "7"]).is(0, &["snapshots/acme-7.snapshot: site acme"]);
    assert_eq!(desk.files("snapshots"), ["acme-7.snapshot"]);
}

#[test]
fn the_version_is_the_flag_s_else_the_site_s_else_the_epoch_s_else_the_present_second() {
    let desk = Desk::new();
    let epoch = |text: &str, arguments: &[&str]| {
        let arguments = [&["compile", "site", "-o", "x"], arguments].concat();
        Done::of(&desk.command(&arguments).env("SOURCE_DATE_EPOCH", text).output().expect("it runs"))
    };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let before = now();
    desk.run(&["compile", "site", "-o", "x"]).is(0, &["(the present second)"]);
    let compiled = Snapshot::open(&desk.path("x"), &Budget::new(u64::MAX)).expect("sound").version();
    assert!((before..=now()).contains(&compiled), "{compiled}");
    epoch("12", &[]).is(0, &["version 12 (from SOURCE_DATE_EPOCH)"]);
    for wrong in ["", "yesterday", "1.5", "9007199254740993"] {
        epoch(wrong, &[]).is(1, &["SOURCE_DATE_EPOCH", "whole seconds since 1970"]);
    }
    desk.write("site/site.json", &SITE.replace("{\"site\"", "{\"version\":5,\"site\""));
    epoch("12", &[]).is(0, &["version 5 (from site.json)"]);
    epoch("12", &["--version", "0"]).is(0, &["version 0 (from --version)"]);
}

/// Copies the demo site's source.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in from.read_dir().expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Puts `mistake` in place of the first `sound` in a file; `file:line:column` of the `blamed` in it.
fn spoil(desk: &Desk, file: &str, sound: &str, mistake: &str, blamed: &str) -> String {
    let path = desk.path("demo").join(file);
    let text = fs::read_to_string(&path).expect("a file of the demo");
    let at = text.find(sound).unwrap_or_else(|| panic!("the demo's {file} has no {sound} any more"));
    let text = text.replacen(sound, mistake, 1);
    fs::write(&path, &text).expect("written");
    let at = at + text[at..].find(blamed).expect("it stands behind the mistake");
    let line_begins = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let (line, column) = (text[..at].matches('\n').count() + 1, text[line_begins..at].chars().count() + 1);
    format!("\n{file}:{line}:{column}")
}

#[test]
fn five_mistakes_in_a_copy_of_the_demo_are_told_in_one_run_each_where_it_stands() {
    let desk = Desk::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/demo"), &desk.path("demo"));
    desk.run(&["compile", "demo", "-o", "demo.snapshot"]).is(0, &["site fjell"]);
    let before = fs::read(desk.path("demo.snapshot")).expect("a snapshot");

    let (front, audiences) = ("routes/index.json", "audiences.json");
    let places = [
        spoil(&desk, front, r#""audience": "returning""#, r#""audience": "retruning""#, r#""retruning""#),
        // The zone that it stands in has this name already.
        spoil(&desk, front, r#""next-step":"#, r#""hero":"#, r#""hero""#),
        spoil(&desk, "routes/tents.json", "[0.34, 0.33, 0.33]", "[0.34, 0.33, 0.43]", "["),
        spoil(&desk, "routes/stoves.json", r#""path": "/stoves","#, r#""path": "/stoves""#, r#""updatedAt""#),
    ];
    // A circle is as much the fault of the one as of the other; it is told at the first by name.
    let (sound, circle) = (r#"{ "visitor.isReturning": true }"#, r#"{ "$audience": "comparing-tents" }"#);
    spoil(&desk, audiences, sound, circle, "{");

    let done = desk.run(&["compile", "demo", "-o", "demo.snapshot"]);
    done.is(1, &["nothing was written", "5 mistakes", "nearest  `returning`", "`hero`, which stands twice"]);
    for place in places {
        let behind =
            done.err.split(&place).nth(1).unwrap_or_else(|| panic!("{place} is not told: {}", done.err));
        assert!(!behind.starts_with(|c: char| c.is_ascii_digit()), "{place}: {}", done.err);
    }
    let circles = done.err.lines().filter(|line| line.starts_with(audiences)).collect::<Vec<_>>();
    assert!(circles.len() == 1 && circles[0].ends_with("/comparing-tents/when"), "{circles:?}");
    assert_eq!(fs::read(desk.path("demo.snapshot")).expect("still there"), before);
}

#[test]
fn nothing_is_written_where_there_are_mistakes() {
    let desk = Desk::new();
    desk.write("site/routes/broken.json", "{");
    desk.run(&["compile", "site"]).is(1, &["routes/broken.json:1:", "nothing was written"]);
    desk.run(&["compile", "site", "-o", "x.snapshot"]).is(1, &["nothing was written", "1 mistake"]);
    assert_eq!(desk.files(""), ["site"]);
    desk.run(&["compile", "nowhere"]).is(1, &["parallax: nowhere: No such file"]);
    fs::create_dir(desk.path("empty")).expect("made");
    desk.run(&["compile", "empty"]).is(1, &["site.json", "\"trackingId\""]);
}

#[test]
fn what_is_hardly_meant_is_a_warning_on_standard_error_and_no_failure() {
    let desk = Desk::new();
    desk.write("site/content/posts.json", r#"[{"id":"p","type":"post","fields":{"title":"A"}}]"#);
    desk.write("site/queries.json", "{\"all\":{\"collection\":\"posts\",\n\"orderBy\":[\"titel\"]}}");
    let done = desk.run(&["compile", "site", "-o", "x.snapshot", "--version", "1"]);
    done.is(0, &["x.snapshot: site acme, version 1"]);
    for said in ["1 warning", "queries.json:2:12", "/all/orderBy/0", "`title`"] {
        assert!(done.err.contains(said), "{said:?} is not said: {done:?}");
    }
    assert_eq!(desk.files(""), ["site", "x.snapshot"]);
    desk.write("site/queries.json", r#"{"all":{"collection":"posts","orderBy":["title"]}}"#);
    let done = desk.run(&["compile", "site", "-o", "x.snapshot", "--version", "1"]);
    done.is(0, &["x.snapshot"]);
    assert!(!done.err.contains("warning"), "{done:?}");
}

#[test]
fn a_machine_that_refuses_is_exit_code_3_with_what_to_do() {
    let desk = Desk::new();
    desk.run(&["compile", "site", "-o", "nowhere/x.snapshot"])
        .is(3, &["nowhere/x.snapshot cannot be written", "-o"]);
    desk.run(&["serve", "--snapshots", "nowhere", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .is(3, &["nowhere cannot be read", "--snapshots"]);
    fs::create_dir(desk.path("snapshots")).expect("made");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    for (flag, other) in [("--listen", "--admin"), ("--admin", "--listen")] {
        desk.run(&["serve", "--snapshots", "snapshots", flag, &address, other, "127.0.0.1:0"])
            .is(3, &[&address, "is another server using the port? Name another by", flag]);
    }
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let schema = desk.command(&["schema", "site"]).stdout(full).output();
    Done::of(&schema.expect("it runs")).is(3, &["standard output"]);
}

#[test]
fn a_data_folder_that_another_server_has_is_exit_code_3_until_it_lets_go() {
    let server = Server::demo();
    let snapshots = server.folder().to_str().expect("UTF-8").to_owned();
    let data = server.data().to_str().expect("UTF-8").to_owned();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--snapshots", &snapshots];
    let held = format!("the data folder {data} cannot be used: {data} is held by another server");
    Desk::new().run(&[&words[..], &["--data", &data]].concat()).is(3, &[&held, "another by --data"]);
    assert_eq!(server.get("/v1/routes?site=fjell").status, 200);
    let again = server.restart(&[]);
    assert_eq!(again.get("/v1/routes?site=fjell").status, 200);
}

#[test]
fn a_reader_who_has_read_enough_is_no_failure() {
    let desk = Desk::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    Done::of(&desk.command(&["schema", "site"]).stdout(writer).output().expect("it runs")).is(0, &[]);
}

/// A limit on the size of files stands for a full disk: the write fails in its middle.
#[test]
fn a_disk_that_fills_up_while_writing_leaves_the_old_snapshot_and_nothing_else() {
    let desk = Desk::new();
    let old = snapshot(&[("site.json", SITE), ("routes/index.json", PAGE)], 1);
    fs::create_dir(desk.path("out")).expect("made");
    fs::write(desk.path("out/x.snapshot"), &old).expect("written");
    let large =
        PAGE.replace("\"props\":{}", &format!("\"props\":{{\"text\":\"{}\"}}", "a long text ".repeat(2000)));
    desk.write("site/routes/index.json", &large);
    let script =
        format!("trap '' XFSZ; ulimit -f 1; exec {PROGRAM} compile site --version 2 -o out/x.snapshot");
    let output = Command::new("sh").args(["-c", &script]).current_dir(desk.0.path()).output();
    Done::of(&output.expect("it runs")).is(3, &["out/x.snapshot cannot be written"]);
    assert_eq!(fs::read(desk.path("out/x.snapshot")).expect("still there"), old);
    assert_eq!(desk.files("out"), ["x.snapshot"]);
}

#[test]
fn check_names_what_is_damaged_and_what_is_sound() {
    let desk = Desk::new();
    let whole = snapshot(&[("site.json", SITE), ("routes/index.json", PAGE)], 3);
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    fs::create_dir(desk.path("all")).expect("made");
    desk.run(&["check", "all"]).is(0, &["no snapshots to check"]);
    fs::write(desk.path("all/a.snapshot"), &whole).expect("written");
    fs::write(desk.path("all/.hidden.snapshot"), &damaged).expect("written");
    fs::write(desk.path("all/README.md"), "not a snapshot").expect("written");
    desk.run(&["check", "all"]).is(0, &["all/a.snapshot: sound, site acme version 3"]);
    fs::write(desk.path("all/b.snapshot"), &damaged).expect("written");
    fs::write(desk.path("all/c.snapshot"), &whole[..100]).expect("written");
    let done = desk.run(&["check", "all"]);
    done.is(1, &["2 of 3 files are not sound"]);
    assert!(done.out.contains("all/a.snapshot: sound"), "{done:?}");
    assert!(done.out.contains("all/b.snapshot: it is damaged: its hash differs"), "{done:?}");
    assert!(done.out.contains("all/c.snapshot: it is not whole"), "{done:?}");
    desk.run(&["check", "all/a.snapshot"]).is(0, &["sound"]);
    desk.run(&["check", "all/b.snapshot"]).is(1, &["1 of 1 files are not sound"]);
    desk.run(&["check", "nowhere"]).is(1, &["nowhere: No such file"]);
}

#[test]
fn inspect_shows_what_a_snapshot_holds_for_people_and_for_programs() {
    let desk = Desk::new();
    let bytes = snapshot(&[("site.json", SITE), ("routes/index.json", PAGE)], 3);
    fs::write(desk.path("a.snapshot"), &bytes).expect("written");
    let length = format!("{} bytes", bytes.len());
    desk.run(&["inspect", "a.snapshot"])
        .is(0, &["acme (track_acme), Acme", "version      3", &length, "route        /"]);
    let done = desk.run(&["inspect", "--json", "a.snapshot"]);
    done.is(0, &[]);
    let json: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!((json["site"].as_str(), json["version"].as_str()), (Some("acme"), Some("3")));
    assert_eq!(json["routes"][0]["path"], "/");
    fs::write(desk.path("b.snapshot"), &bytes[1..]).expect("written");
    desk.run(&["inspect", "b.snapshot"]).is(1, &["b.snapshot: it is not a snapshot"]);
    desk.run(&["inspect", "nowhere"]).is(1, &["nowhere: it cannot be read"]);
}

#[test]
fn schema_prints_a_json_schema_of_every_kind_of_file() {
    let desk = Desk::new();
    for kind in ["site", "audiences", "groups", "queries", "route", "content"] {
        let done = desk.run(&["schema", kind]);
        done.is(0, &["$schema"]);
        serde_json::from_str::<serde_json::Value>(&done.out).expect("JSON");
    }
}

#[test]
fn without_a_command_it_serves_and_where_nothing_is_published_the_demo_is() {
    let desk = Desk::new();
    let serve = || {
        let mut child = desk
            .command(&[])
            .envs([("PARALLAX_LISTEN", "127.0.0.1:0"), ("PARALLAX_ADMIN", "127.0.0.1:0")])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = String::new();
        for line in lines.map_while(Result::ok) {
            said += &line;
            if line.contains("serving snapshots at http://") {
                break;
            }
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        said
    };
    assert!(serve().contains("the demo site was compiled to snapshots/fjell-1.snapshot"));
    assert_eq!(desk.files("snapshots"), ["fjell-1.snapshot"]);
    // The second time something is published.
    let said = serve();
    assert!(said.contains("serving snapshots at") && !said.contains("demo"), "{said}");
}
