//! Refused lines and refused inputs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{column, event_line, run, start, stop, text, write_lines};
use crate::harness::temporary_directory;

/// Returns a line with one other member.
fn with(name: &str, value: Value) -> Value {
    let mut line = event_line("2026-01-01T00:00:00Z", &format!("m-{name}"), "v1");
    line[name] = value;
    line
}

fn without(name: &str) -> Value {
    let mut line = event_line("2026-01-01T00:00:00Z", "m", "v1");
    line.as_object_mut().expect("an object").remove(name);
    line
}

/// Returns lines that are refused, and a part of the reason of each.
fn refused_lines() -> Vec<(Vec<u8>, &'static str)> {
    [
        (json!("no object"), "not one of an export"),
        (with("colour", json!("red")), "unknown field `colour`"),
        (with("type", json!("purchase")), "`type` is invalid: expected one of page, track"),
        (without("type"), "`type` is missing"),
        (without("site"), "`site` is missing"),
        (with("site", json!("a b")), "`site` is invalid"),
        (without("payload"), "missing field `payload`"),
        (without("receivedAt"), "`receivedAt` is missing"),
        (with("receivedAt", json!("yesterday")), "`receivedAt` is invalid"),
        (with("receivedAt", json!("1999-01-01T00:00:00Z")), "`receivedAt` is invalid"),
        (with("receivedAt", json!("2999-01-01T00:00:00Z")), "in the future"),
        (with("receivedAt", json!("2020-01-01T00:00:00Z")), "older than the retention of 1000 days"),
        (with("timestamp", json!("25:00")), "`timestamp` is invalid"),
        (with("seq", json!("x")), "`seq` is invalid"),
        (with("anonId", json!("a b")), "`anonId` is invalid"),
        (with("userId", json!("null")), "`userId` is invalid"),
        (with("device", json!("toaster")), "`device` is invalid"),
        (with("country", json!("Austria")), "`country` is invalid"),
        (with("source", json!("news")), "`source` contradicts"),
        (with("tied", json!("v1")), "`tied` contradicts"),
        (
            with("payload", json!({ "anonId": "v1", "event": 7 })),
            "`payload` is invalid: invalid_event /event",
        ),
        (with("payload", json!(["x"])), "`payload` is invalid"),
        (with("variants", json!("x".repeat(10_000))), "exceeds the limit"),
    ]
    .into_iter()
    .map(|(line, reason)| (line.to_string().into_bytes(), reason))
    .chain([
        (b"{\"receivedAt\":\"2026-01-0".to_vec(), "not one of an export"),
        (b"\xFF\xFE".to_vec(), "not UTF-8"),
        (with("name", json!("x".repeat(3 << 20))).to_string().into_bytes(), "longer than 2097152 bytes"),
    ])
    .collect()
}

#[test]
fn each_refused_line_is_listed_with_its_reason_and_the_others_are_imported() {
    let cases = refused_lines();
    let parent = temporary_directory();
    let (file, target) = (parent.path().join("events"), parent.path().join("data"));
    let good =
        |n: usize| event_line("2026-01-01T00:00:00Z", &format!("good-{n}"), &format!("v{n}")).to_string();
    let mut content = Vec::new();
    for (n, (line, _)) in cases.iter().enumerate() {
        content.extend_from_slice(format!("{}\n", good(n)).as_bytes());
        content.extend_from_slice(line);
        content.push(b'\n');
    }
    // The last line has no end.
    content.extend_from_slice(good(cases.len()).as_bytes());
    fs::write(&file, &content).expect("written");
    let import = run(&["import", text(&file), "-o", text(&target), "--retain-days", "1000"]);
    let list = parent.path().join("data.refused");
    import.assert(
        1,
        &[
            &format!("imported {} records", cases.len() + 1),
            &format!("{} lists {} refused lines", list.display(), cases.len()),
        ],
    );
    assert_eq!(column(&target, "anonId").len(), cases.len() + 1);
    let listed = fs::read_to_string(&list).expect("it is there");
    for ((line, (_, reason)), number) in listed.lines().zip(&cases).zip(1..) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((line["line"].as_u64(), line["file"].as_str()), (Some(2 * number), Some(text(&file))));
        assert!(line["reason"].as_str().is_some_and(|text| text.contains(reason)), "{line}: {reason}");
    }
    assert_eq!(listed.lines().count(), cases.len());
    assert_eq!(fs::metadata(&list).expect("it is there").permissions().mode() & 0o777, 0o600);
    // The terminal shows 20 of them, a note, and the result.
    assert_eq!(import.err.lines().count(), 22, "{}", import.err);
}

#[test]
fn records_of_a_directory_that_are_older_than_the_retention_are_refused() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let given =
        [event_line("2020-01-01T00:00:00Z", "m1", "old"), event_line("2026-06-01T00:00:00Z", "m2", "new")];
    let file = write_lines(&path("events"), &given);
    run(&["import", text(&file), "-o", text(&path("data"))]).assert(0, &["imported 2 records"]);
    let import =
        run(&["import", "--merge", text(&path("data")), "-o", text(&path("later")), "--retain-days", "1000"]);
    import.assert(
        1,
        &["imported 1 record ", "data:1: the record is older than the retention", "1 refused line "],
    );
    assert_eq!(column(&path("later"), "anonId"), ["new"]);
}

#[test]
fn an_input_or_a_target_that_cannot_be_used_is_refused_before_anything_is_written() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let file = write_lines(&path("events"), &[event_line("2026-01-01T00:00:00Z", "m", "v1")]);
    fs::create_dir(path("full")).expect("created");
    fs::write(path("full/note"), "x").expect("written");
    fs::write(path("zipped"), b"\x1F\x8B\x08\0\0").expect("written");
    fs::write(path("nothing"), "\n\n").expect("written");
    let import =
        |args: &[&str], target: &str| run(&[&["import"], args, &["-o", text(&path(target))]].concat());
    import(&[text(&file)], "full").assert(1, &["full is not empty; choose a directory"]);
    import(&[text(&path("zipped"))], "data").assert(1, &["gzip; decompress it first"]);
    import(&[text(&path("full"))], "data").assert(1, &["use --merge for a data directory"]);
    import(&["--merge", text(&path("full"))], "data").assert(1, &["contains no segment of a log"]);
    import(&[text(&path("none"))], "data").assert(1, &["cannot import", "No such file"]);
    import(&[text(&path("nothing"))], "data").assert(1, &["no record was imported, so"]);
    import(&[], "data").assert(2, &["required"]);
    let server = start(&path("used"));
    import(&["--merge", text(&path("used"))], "data").assert(3, &["another server uses this directory"]);
    stop(server);
    assert!(!path("data").exists() && !path("data.importing").exists());
    // An empty directory is a target.
    fs::create_dir(path("empty")).expect("created");
    import(&[text(&file)], "empty").assert(0, &["imported 1 record "]);
    assert_eq!(column(&path("empty"), "anonId"), ["v1"]);
}
