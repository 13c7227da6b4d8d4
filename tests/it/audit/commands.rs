//! `parallax audit`, `parallax check` with an audit log, and the audit log in backups.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use parallax::testing::audit::writer::AuditWriter;
use parallax::testing::audit::{
    Actor, ActorKind, AuditAction, AuditEntry, AuditOutcome, Subject, directory_of, format, read_audit_log,
};
use parallax::testing::clock::{Clock, SystemClock};
use parallax::testing::record::{IdKind, TombstoneKey, VisitorId};
use parallax::testing::storage::disk::RealDisk;

use crate::harness::{Server, temporary_directory};
use crate::log::TestClock;

/// Runs the program. Returns its exit code, its output and its errors.
fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_parallax")).args(words).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn key(data: &Path) -> TombstoneKey {
    TombstoneKey::read(Arc::new(RealDisk), data).expect("the key is read").expect("there is a key")
}

/// Starts and stops a server, so that the data directory has a log with a key. Then appends lines, one day apart.
fn write_lines(data: &Path) {
    drop(Server::start_with_data(data, &[], &[]));
    let clock = Arc::new(TestClock::default());
    let mut writer =
        AuditWriter::new(Arc::new(RealDisk), data, Arc::clone(&clock) as Arc<dyn Clock>, i64::MAX);
    let subject = Subject::of(&key(data), VisitorId { site: "acme", id_kind: IdKind::Anon, id: "device-1" });
    let by =
        |action, outcome| AuditEntry::new(action, Actor::new(ActorKind::Token).with_name("=1+1"), outcome);
    let entries = [
        by(AuditAction::View, AuditOutcome::Done).site("acme").subject(subject.clone()).detail("profile"),
        by(AuditAction::Erase, AuditOutcome::Started).site("acme").subject(subject),
        by(AuditAction::Export, AuditOutcome::Done).site("other").detail("red\u{1b}[31m\nnew"),
    ];
    for entry in entries {
        clock.pass(24 * 60 * 60 * 1_000);
        writer.append(&[entry.to_json(clock.now_ms())]).expect("the disk works");
    }
}

#[test]
fn the_command_prints_the_lines_in_each_format() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    write_lines(&data);
    let path = data.to_str().expect("UTF-8");
    let (code, text, error) = run(&["audit", path]);
    assert_eq!((code, &*error), (Some(0), ""));
    let actions: Vec<&str> =
        text.lines().map(|line| line.split_whitespace().nth(2).expect("an action")).collect();
    assert_eq!(actions[actions.len() - 3..], ["view", "erase", "export"], "{text}");
    assert!(text.contains("token:=1+1") && text.contains(r"red\u{1b}[31m\nnew"), "{text}");
    let (code, json, _) = run(&["audit", path, "--format", "json"]);
    assert_eq!(code, Some(0));
    let numbers: Vec<u64> = json
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["number"]
                .as_u64()
                .expect("a number")
        })
        .collect();
    assert_eq!(numbers, (1..=actions.len() as u64).collect::<Vec<_>>());
    let (code, csv, _) = run(&["audit", path, "--format", "csv", "--action", "export"]);
    assert_eq!(code, Some(0));
    assert!(
        csv.starts_with("number,at,action,outcome,actor,actorName,from,site,subject,detail,hash\r\n"),
        "{csv}"
    );
    assert!(csv.contains(",'=1+1,") && csv.ends_with("\r\n"), "a spreadsheet must see no formula: {csv}");
}

#[test]
fn the_command_filters_by_site_action_time_and_visitor() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    write_lines(&data);
    let path = data.to_str().expect("UTF-8");
    let count = |words: &[&str]| {
        let (code, text, error) = run(&[&["audit", path][..], words].concat());
        assert_eq!((code, &*error), (Some(0), ""), "{words:?}");
        text.lines().count()
    };
    assert_eq!(count(&["--site", "acme"]), 2);
    assert_eq!(count(&["--action", "erase"]), 1);
    assert_eq!(count(&["--site", "acme", "--anon-id", "device-1"]), 2);
    assert_eq!(count(&["--site", "acme", "--anon-id", "device-2"]), 0);
    assert_eq!(count(&["--site", "acme", "--user-id", "device-1"]), 0, "the kind of the ID matters");
    assert_eq!(count(&["--site", "other", "--anon-id", "device-1"]), 0);
    // The clock of the test begins in 2027, one day before the first line.
    assert_eq!(count(&["--since", "2027-01-17"]), 2);
    for words in [
        &["--anon-id", "a"][..],
        &["--action", "nosuch"],
        &["--since", "yesterday"],
        &["--site", "a", "--anon-id", "a", "--user-id", "a"],
        &["--head", "--site", "a"],
    ] {
        assert_eq!(run(&[&["audit", path][..], words].concat()).0, Some(2), "{words:?}");
    }
    fs::remove_file(data.join("secret")).expect("the file is removed");
    let (code, _, error) = run(&["audit", path, "--site", "acme", "--anon-id", "device-1"]);
    assert!(code == Some(1) && error.contains("secret is missing"), "{error}");
    let (code, _, error) = run(&["audit", directory.path().to_str().expect("UTF-8")]);
    assert!(code == Some(1) && error.contains("has no audit log"), "{error}");
}

#[test]
fn check_finds_damage_and_proves_a_head() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    write_lines(&data);
    let path = data.to_str().expect("UTF-8");
    let (code, head, _) = run(&["audit", path, "--head"]);
    let head = head.trim();
    assert_eq!(code, Some(0));
    let (code, text, _) = run(&["check", path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("audit: sound, 2 files, 4 records, ") && text.contains(&format!("head {head}")),
        "{text}"
    );
    let check = |head: &str| run(&["check", path, "--audit-head", head]);
    assert_eq!(check(head).0, Some(0));
    let (number, hash) = head.split_once(':').expect("a head");
    let last: u64 = number.parse().expect("a number");
    let wrong_hash = format!("{number}:{}", hash.replace(|_: char| true, "0"));
    assert!(check(&wrong_hash).2.contains("another hash"));
    let later = format!("{}:{hash}", last + 1);
    let (code, _, error) = check(&later);
    assert!(
        code == Some(1) && error.contains(&format!("the last record is {last}, so the end was removed")),
        "{error}"
    );
    assert_eq!(check("1:2").0, Some(2));
    // Without its last record the log is sound, and the head is gone.
    // The clock of the test is more than a month after the server, so the lines are in the second file.
    let name = format::file_name(2);
    let file = directory_of(&data).join(&name);
    let whole = fs::read(&file).expect("the file is read");
    let mut offsets = Vec::new();
    let mut at = format::HEADER_BYTES;
    while at < whole.len() {
        offsets.push(at);
        at += 36 + u32::from_le_bytes(whole[at..at + 4].try_into().expect("4 bytes")) as usize;
    }
    fs::write(&file, &whole[..*offsets.last().expect("a record")]).expect("the file is written");
    assert_eq!(run(&["check", path]).0, Some(0));
    assert_eq!(check(head).0, Some(1));
    // A changed byte is damage for both commands, with file and place.
    let mut changed = whole.clone();
    changed[offsets[1] + 10] ^= 1;
    fs::write(&file, &changed).expect("the file is written");
    let place = format!("{name}: at offset {}: ", offsets[1]);
    let (code, text, error) = run(&["check", path]);
    assert!(
        code == Some(1) && text.contains(&place) && error.contains("the audit log is damaged in 1 place"),
        "{text}{error}"
    );
    let (code, text, error) = run(&["audit", path]);
    assert!(code == Some(1) && error.contains(&place), "{error}");
    assert_eq!(text.lines().count(), offsets.len(), "the other lines are printed");
    // A server starts nevertheless, says so, and continues in a new file.
    let server = Server::start_with_data(&data, &[], &[]);
    server.wait_for_log("the audit log is damaged");
    drop(server);
    assert_eq!(fs::read(&file).expect("the file is read"), changed);
    let report = read_audit_log(&RealDisk, &data, &mut |_| true).expect("the log is read");
    assert_eq!((report.files, report.damage.len()), (3, 1), "{report:?}");
    assert_eq!(run(&["check", path]).0, Some(1));
}

#[test]
fn a_backup_and_a_restore_have_the_audit_log() {
    let directory = temporary_directory();
    let data = directory.path().join("data");
    write_lines(&data);
    let [path, target, restored] = ["data", "target", "restored"]
        .map(|name| directory.path().join(name).to_str().expect("UTF-8").to_owned());
    let head = run(&["audit", &path, "--head"]).1;
    let (code, text, error) = run(&["backup", &path, &target]);
    assert_eq!(code, Some(0), "{text}{error}");
    let backup = newest(&target).to_str().expect("UTF-8").to_owned();
    assert_eq!(run(&["check", &backup, "--audit-head", head.trim()]).0, Some(0));
    let (code, text, error) = run(&["restore", &backup, &restored]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert_eq!(run(&["check", &restored, "--audit-head", head.trim()]).0, Some(0));
    assert_eq!(
        run(&["audit", &restored, "--format", "json"]).1,
        run(&["audit", &path, "--format", "json"]).1
    );
    let clock = Arc::new(SystemClock::new());
    let mut writer = AuditWriter::new(Arc::new(RealDisk), Path::new(&restored), clock, i64::MAX);
    writer.tick().expect("the restored log continues");
}

fn newest(target: &str) -> std::path::PathBuf {
    let names =
        fs::read_dir(target).expect("the target is read").map(|entry| entry.expect("an entry").path());
    let is_backup = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    names.filter(is_backup).max().expect("a backup")
}
