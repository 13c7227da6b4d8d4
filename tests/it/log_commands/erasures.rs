//! `erasures` and `restore --erasures`: visitors who were erased after a backup was made do not come back with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use parallax::testing::log::format::oldest_to_bytes;
use serde_json::{Value, json};

use super::{CommandOutput, Row, as_arg, run, write_sealed_log};
use crate::harness::{Client, Server, temporary_directory, times};

const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");
const FLAGS: [&str; 6] =
    ["--admin-token", "secret", "--segment-bytes", "65536", "--checkpoint-bytes", "100000000"];
const OVERVIEW: &str = "/insights/overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month";
/// IDs of the visitors that the tests erase. `phone` is tied to the user after the backup was made.
const ERASED: [&str; 4] = ["ana@example.com", "laptop-ana", "phone-ana", "bob-alone"];

fn start(data: &Path) -> Server {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    Server::start_with_data(data, &[("demo.snapshot", &demo)], &FLAGS)
}

fn stop(mut server: Server) {
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

fn send(server: &Server, path: &str, mut event: Value) {
    event["trackingId"] = json!("track_demo");
    assert_eq!(server.post(path, &[], event.to_string().as_bytes()).status, 200);
}

fn page(server: &Server, anon_id: &str) {
    send(
        server,
        "/v1/page",
        json!({ "anonId": anon_id, "properties": { "path": format!("/of-{anon_id}") } }),
    );
}

/// Records the events before the backup: a user with a laptop, two visitors without a user, and a phone that nobody is
/// known to own.
fn record_before(server: &Server) {
    for anon_id in ["laptop-ana", "phone-ana", "bob-alone", "cara-kept"] {
        page(server, anon_id);
    }
    send(
        server,
        "/v1/identify",
        json!({ "anonId": "laptop-ana", "userId": "ana@example.com", "traits": { "plan": "gold" } }),
    );
    ["laptop-ana", "cara-kept"].into_iter().for_each(|anon_id| page(server, anon_id));
}

/// Records the events after the backup, and erases two people.
fn record_after_and_erase(server: &Server) {
    send(server, "/v1/identify", json!({ "anonId": "phone-ana", "userId": "ana@example.com" }));
    page(server, "phone-ana");
    erase(server, "userId=ana@example.com");
    erase(server, "anonId=bob-alone");
}

fn erase(server: &Server, id: &str) {
    let target = format!("/visitors?site=fjell&{id}");
    let deleted = Client::to(server.admin).request("DELETE", &target, &[TOKEN]);
    assert_eq!(deleted.status, 200, "{}", deleted.text());
}

fn get(server: &Server, target: &str) -> Value {
    let response = Client::to(server.admin).request("GET", target, &[TOKEN]);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().expect("cp is there").success());
}

/// The directories of a log that was backed up before two people were erased.
struct Story {
    parent: tempfile::TempDir,
    data: PathBuf,
    backup: PathBuf,
    list: PathBuf,
}

impl Story {
    /// Tells the story. Each server is stopped, so that its segments are sealed.
    fn tell() -> Self {
        let parent = temporary_directory();
        let [data, backup, list] = ["data", "backup", "erasures"].map(|name| parent.path().join(name));
        let server = start(&data);
        record_before(&server);
        stop(server);
        copy(&data, &backup);
        let server = start(&data);
        record_after_and_erase(&server);
        let written = run(&["erasures", as_arg(&data), "-o", as_arg(&list)]);
        written.assert_exit(0, &["erasures: 2 tombstones of the log ", ", up to seq "]);
        stop(server);
        Self { parent, data, backup, list }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }

    fn restore(&self, backup: &Path, to: &str) -> (PathBuf, CommandOutput) {
        let target = self.path(to);
        let output = run(&["restore", as_arg(backup), as_arg(&target), "--erasures", as_arg(&self.list)]);
        (target, output)
    }
}

/// Asserts that a directory has nothing of the erased people, in its files and when a server runs on it, and all of the
/// other visitor.
fn assert_erased(data: &Path) {
    let assert_files = || {
        run(&["check", as_arg(data)]).assert_exit(0, &["sound"]);
        assert!(!run(&["check", as_arg(data)]).out.contains("not finished"));
        for id in ERASED {
            run(&["check", as_arg(data), "--contains", id]).assert_exit(0, &[]);
        }
        let export = run(&["export", as_arg(data)]);
        export.assert_exit(0, &["\"cara-kept\""]);
        assert_eq!(export.out.lines().count(), 2, "{}", export.out);
    };
    assert_files();
    let server = start(data);
    for id in ["userId=ana@example.com", "anonId=laptop-ana", "anonId=phone-ana", "anonId=bob-alone"] {
        let found = get(&server, &format!("/visitors?site=fjell&{id}"));
        assert_eq!((&found["known"], &found["aliases"]), (&json!(false), &json!([])), "{id}");
    }
    let kept = get(&server, "/visitors?site=fjell&anonId=cara-kept");
    assert_eq!(kept["profile"]["visitor"]["pageViews"], 2);
    let totals = &get(&server, OVERVIEW)["totals"];
    assert_eq!((&totals["views"], &totals["visitors"]), (&json!(2), &json!(1)));
    assert!(!server.log().contains("interrupted"), "nothing was left to the start: {}", server.log());
    stop(server);
    assert_files();
}

#[test]
fn a_backup_is_restored_without_the_people_who_were_erased_later() {
    let story = Story::tell();
    let mode = fs::metadata(&story.list).expect("the list exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&story.list).expect("text");
    assert!(ERASED.iter().all(|id| !text.contains(id)), "the list has no ID: {text}");
    let (target, output) = story.restore(&story.backup, "restored");
    output.assert_exit(0, &["appended 2 tombstones that the backup lacked; erased 5 records"]);
    output.assert_exit(0, &["visitors who were erased after 20", "which ", " does not have, may be back"]);
    assert!(!output.out.contains("retention had deleted"), "{}", output.out);
    assert_erased(&target);
    // The erased visitor is a new one afterwards.
    let server = start(&target);
    page(&server, "bob-alone");
    let found = get(&server, "/visitors?site=fjell&anonId=bob-alone");
    assert_eq!(found["profile"]["visitor"]["pageViews"], 1);
}

#[test]
fn a_list_erases_only_what_the_backup_lacks() {
    let story = Story::tell();
    // A backup that was made after the erasures has all of them.
    let (target, output) = story.restore(&story.data, "restored");
    output.assert_exit(0, &["restored "]);
    assert!(!output.out.contains("appended"), "{}", output.out);
    assert_eq!(run(&["export", as_arg(&target)]).out, run(&["export", as_arg(&story.data)]).out);
    let counts = |data: &Path| {
        let output = run(&["check", as_arg(data)]).out;
        let line = output.lines().find(|line| line.contains(" records")).expect("a line");
        line.split_once(": ").expect("a colon").1.to_owned()
    };
    assert_eq!(counts(&target), counts(&story.data), "no tombstone was added");
    assert_erased(&target);
    // A backup between both erasures has one of them.
    let between = story.path("between");
    let data = story.path("second");
    copy(&story.backup, &data);
    let server = start(&data);
    erase(&server, "anonId=bob-alone");
    stop(server);
    copy(&data, &between);
    let server = start(&data);
    erase(&server, "userId=ana@example.com");
    erase(&server, "anonId=phone-ana");
    stop(server);
    run(&["erasures", as_arg(&data), "-o", as_arg(&story.list)]).assert_exit(0, &["3 tombstones"]);
    let (target, output) = story.restore(&between, "restored-between");
    output.assert_exit(0, &["appended 2 tombstones that the backup lacked; erased 4 records"]);
    assert_erased(&target);
    // The list of the old log names nobody in the restored one.
    let (second, output) = story.restore(&target, "restored-again");
    output.assert_exit(1, &["cannot use --erasures ", "it has the erasures of the log "]);
    assert!(!second.exists());
}

#[test]
fn a_restore_without_a_list_says_since_which_day_erased_visitors_may_be_back() {
    let parent = temporary_directory();
    let [backup, target] = ["backup", "data"].map(|name| parent.path().join(name));
    write_sealed_log(&backup, &[Row::of("a"), Row { received_ms: 1_767_312_000_000, ..Row::of("b") }]);
    let sentence = "visitors who were erased since 2026-01-02 (UTC), the day of the last record in the backup, may be back; \
                    restore the backup again with --erasures FILE";
    run(&["restore", as_arg(&backup), as_arg(&target)]).assert_exit(0, &[sentence]);
    let data = parent.path().join("empty");
    stop(start(&data));
    let target = parent.path().join("restored");
    run(&["restore", as_arg(&data), as_arg(&target)])
        .assert_exit(0, &["visitors who were erased at any time may be back"]);
}

#[test]
fn a_copy_that_has_a_tombstone_beside_the_records_of_before_is_finished() {
    let story = Story::tell();
    let names = |data: &Path| -> Vec<String> {
        let entries = data.read_dir().expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    };
    let is_segment = |name: &&String| name.ends_with(".segment");
    let is_checkpoint = |name: &&String| name.ends_with(".checkpoint");
    // `cp` read the segments before they were rewritten. It read the checkpoints before the erasure, after it, or not at all.
    for of in [Some(&story.backup), Some(&story.data), None] {
        let torn = story.path("torn");
        copy(&story.data, &torn);
        for name in names(&story.backup).iter().filter(is_segment) {
            fs::copy(story.backup.join(name), torn.join(name)).expect("copied");
        }
        for name in names(&torn).iter().filter(is_checkpoint) {
            fs::remove_file(torn.join(name)).expect("removed");
        }
        for (of, name) in of.iter().flat_map(|of| names(of).into_iter().map(move |name| (of, name))) {
            if name.ends_with(".checkpoint") {
                fs::copy(of.join(&name), torn.join(&name)).expect("copied");
            }
        }
        run(&["check", as_arg(&torn), "--contains", "laptop-ana"]).assert_exit(1, &[]);
        let target = story.path("restored");
        let output = run(&["restore", as_arg(&torn), as_arg(&target)]);
        output.assert_exit(0, &["appended 0 tombstones that the backup lacked; erased 5 records"]);
        assert_erased(&target);
        [torn, target].iter().for_each(|path| fs::remove_dir_all(path).expect("removed"));
    }
}

#[test]
fn copies_beside_running_erasures_are_restored_without_the_erased_visitors() {
    const VISITORS: usize = 40;
    let parent = temporary_directory();
    let [data, list] = ["data", "erasures"].map(|name| parent.path().join(name));
    let server = start(&data);
    for visitor in 0..VISITORS {
        let of = |n: usize| json!({ "type": "page", "anonId": format!("gone-{visitor}"), "properties": { "path": format!("/{n}") } });
        send(&server, "/v1/batch", json!({ "batch": (0..30).map(of).collect::<Vec<_>>() }));
        if visitor % 2 == 0 {
            let ids =
                json!({ "anonId": format!("gone-{visitor}"), "userId": format!("gone-user-{visitor}") });
            send(&server, "/v1/identify", ids);
        }
    }
    page(&server, "cara-kept");
    page(&server, "cara-kept");
    let mut copies = Vec::new();
    thread::scope(|scope| {
        let erasing = scope.spawn(|| {
            (0..VISITORS).for_each(|visitor| erase(&server, &format!("anonId=gone-{visitor}")));
        });
        while !erasing.is_finished() {
            let to = parent.path().join(format!("copy-{}", copies.len()));
            // `cp` complains about files that vanish meanwhile.
            Command::new("cp").arg("-r").args([&data, &to]).output().expect("cp is there");
            copies.push(to);
        }
    });
    run(&["erasures", as_arg(&data), "-o", as_arg(&list)]).assert_exit(0, &["40 tombstones"]);
    stop(server);
    let step = copies.len().div_ceil(times(8, 1_000));
    for copied in copies.iter().step_by(step) {
        let target = parent.path().join("restored");
        run(&["restore", as_arg(copied), as_arg(&target), "--erasures", as_arg(&list)]).assert_exit(0, &[]);
        run(&["check", as_arg(&target), "--contains", "gone-"]).assert_exit(0, &[]);
        let export = run(&["export", as_arg(&target)]);
        assert_eq!((export.code, export.out.lines().count()), (0, 2), "{}: {export:?}", copied.display());
        fs::remove_dir_all(&target).expect("removed");
    }
}

#[test]
fn a_list_that_begins_after_the_end_of_the_backup_is_said_to_lack_erasures() {
    let story = Story::tell();
    // Retention has deleted all segments but those of the second tombstone and after it.
    let text = fs::read_to_string(&story.list).expect("text");
    let last = text.lines().rev().nth(1).expect("the line of a tombstone");
    let seq = serde_json::from_str::<Value>(last).expect("JSON")["seq"].as_str().expect("a seq").to_owned();
    let first: u64 = seq.parse().expect("a number");
    fs::write(story.data.join("oldest"), oldest_to_bytes(first)).expect("written");
    run(&["erasures", as_arg(&story.data), "-o", as_arg(&story.list)]).assert_exit(0, &["1 tombstone of"]);
    let (target, output) = story.restore(&story.backup, "restored");
    output.assert_exit(0, &[
        "appended 1 tombstone that the backup lacked; erased 1 record,",
        &format!("may be back if their erasure has a seq before {first}: retention had deleted these tombstones"),
    ]);
    run(&["check", as_arg(&target), "--contains", "bob-alone"]).assert_exit(0, &[]);
    run(&["check", as_arg(&target), "--contains", "ana@example.com"]).assert_exit(1, &[]);
}

#[test]
fn an_erasure_that_a_crash_cut_off_is_finished_by_the_restore() {
    let story = Story::tell();
    let crashed = story.path("crashed");
    copy(&story.data, &crashed);
    fs::write(crashed.join("erasing"), 1_u64.to_le_bytes()).expect("written");
    run(&["check", as_arg(&crashed)]).assert_exit(0, &["is not finished; the next start finishes it"]);
    let (target, output) = story.restore(&crashed, "restored");
    output.assert_exit(0, &["appended 0 tombstones"]);
    assert!(!target.join("erasing").exists());
    assert_erased(&target);
}

#[test]
fn a_list_of_another_log_or_of_another_secret_is_refused() {
    let story = Story::tell();
    let other = story.path("other");
    write_sealed_log(&other, &[Row::of("a")]);
    let (target, output) = story.restore(&other, "restored");
    output.assert_exit(
        1,
        &[
            "cannot use --erasures ",
            as_arg(&story.list),
            "it has the erasures of the log ",
            "; give the list that was made of the log of this backup",
        ],
    );
    assert!(!target.exists());
    fs::copy(other.join("secret"), story.backup.join("secret")).expect("copied");
    let (target, output) = story.restore(&story.backup, "restored");
    // The checkpoints of the backup may name the other secret first.
    output.assert_exit(1, &["secret"]);
    assert!(!target.exists());
    fs::remove_dir_all(&other).expect("removed");
    run(&["erasures", as_arg(&other), "-o", as_arg(&story.list)]).assert_exit(1, &["other"]);
    fs::create_dir(&other).expect("created");
    run(&["erasures", as_arg(&other), "-o", as_arg(&story.list)]).assert_exit(1, &["contains no segment"]);
}

#[test]
fn each_damaged_list_is_refused_with_its_name_and_the_remedy() {
    let story = Story::tell();
    let whole = fs::read(&story.list).expect("the list");
    let refused = |bytes: &[u8], reason: &str| {
        fs::write(&story.list, bytes).expect("written");
        let (target, output) = story.restore(&story.backup, "restored");
        output.assert_exit(1, &["cannot use --erasures ", as_arg(&story.list), reason]);
        assert!(
            output.err.contains("parallax erasures DIR -o FILE") || reason.contains("version"),
            "{output:?}"
        );
        assert!(!target.exists());
    };
    let first_end = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let last_start = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    for length in [first_end, last_start - 1, last_start, whole.len() - 2, whole.len() - 1] {
        refused(&whole[..length], "it is damaged: its end is missing");
    }
    refused(b"", "it is no list of erasures");
    refused(&whole[..first_end / 2], "it is no list of erasures");
    refused(&fs::read(story.backup.join("secret")).expect("a file"), "cannot use --erasures");
    for at in [first_end - 5, first_end + 10, last_start - 8] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        refused(&flipped, "it is damaged: its checksum is wrong");
    }
    let text = String::from_utf8(whole.clone()).expect("text");
    refused(text.replacen("\"erasures\":1", "\"erasures\":2", 1).as_bytes(), "it has the format version 2");
    fs::remove_file(&story.list).expect("removed");
    let (_, output) = story.restore(&story.backup, "restored");
    output.assert_exit(3, &["cannot read the list of erasures ", as_arg(&story.list)]);
    fs::write(&story.list, &whole).expect("written");
    story.restore(&story.backup, "restored").1.assert_exit(0, &[]);
}

#[test]
fn a_log_whose_damage_may_hide_erasures_has_a_list_with_the_other_ones() {
    let story = Story::tell();
    let (data, list) = (&story.data, as_arg(&story.list));
    let segments = super::segments(data);
    // A segment of an erasure begins with its tombstone.
    let of_tombstone = segments.iter().rfind(|path| {
        let bytes = fs::read(path).expect("readable");
        bytes.get(100) == Some(&32)
    });
    super::flip_bit(of_tombstone.expect("a segment with a tombstone"));
    let output = run(&["erasures", as_arg(data), "-o", list]);
    output.assert_exit(1, &["1 tombstone of the log", "damaged in 1 places, which may hide erasures"]);
    run(&["erasures", as_arg(data), "-o", "/dev/null"]).assert_exit(3, &["cannot write /dev/null"]);
    run(&["erasures", as_arg(data)]).assert_exit(2, &["--output"]);
}

#[test]
fn the_directory_of_a_node_has_no_list() {
    let story = Story::tell();
    fs::write(story.backup.join("node"), "x").expect("written");
    let reason = "is the directory of a node of a cluster";
    run(&["erasures", as_arg(&story.backup), "-o", as_arg(&story.list)]).assert_exit(1, &[reason]);
    story.restore(&story.backup, "restored").1.assert_exit(1, &[reason]);
    let target = story.path("restored");
    run(&["restore", as_arg(&story.backup), as_arg(&target)])
        .assert_exit(0, &["are in it until the node starts, which carries out the erasures of its cluster"]);
}
