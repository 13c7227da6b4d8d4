//! The position at which an export ends: the next export continues there only if the log still has the records before it.

use std::fs;
use std::path::Path;
use std::process::Command;

use parallax::testing::log::{Options, parse_segment_name};
use parallax::testing::record::RecordKind;
use serde_json::json;

use super::{Log, Row, as_arg, flip_bit, run, segments, write_sealed_log};
use crate::harness::{Client, Server, temporary_directory};

/// Returns `count` rows, of which the first has the number `first`. Each has its own received time.
fn rows(first: usize, count: usize) -> Vec<Row> {
    let row = |n: usize| Row { received_ms: 1_767_225_600_000 + 10 * n as i64, ..Row::of(&format!("v{n}")) };
    (first..first + count).map(row).collect()
}

/// Exports the records after `since`. Returns their seqs, and the position that the command prints.
fn export_after(data: &Path, since: &str) -> (Vec<u64>, String) {
    let out = temporary_directory();
    let file = out.path().join("events.ndjson");
    let export = run(&["export", as_arg(data), "--since", since, "-o", as_arg(&file)]);
    export.assert_exit(0, &["; continue with --since "]);
    assert_eq!(export.err, "");
    let position = export.out.trim().rsplit(' ').next().expect("a position").to_owned();
    let lines = fs::read_to_string(&file).expect("the file exists");
    let seq = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["seq"].as_str().and_then(|seq| seq.parse().ok()).expect("a seq")
    };
    (lines.lines().map(seq).collect(), position)
}

/// Returns the position at the end of the log.
fn end_of(data: &Path) -> String {
    export_after(data, "0").1
}

#[track_caller]
fn assert_refused(data: &Path, position: &str, reason: &str) {
    let output = run(&["export", as_arg(data), "--since", position]);
    output.assert_exit(1, &[position, reason, "; export again from the beginning (--since 0)"]);
    assert_eq!(output.out, "", "nothing is exported");
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().expect("cp is there").success());
}

/// Marks the last records as durable, as an idle server does.
fn idle(log: &mut Log) {
    for _ in 0..3 {
        log.clock.advance(1_000);
        log.writer.run_once();
    }
}

fn append(data: &Path, rows: &[Row]) {
    let mut log = Log::open(data, Options { segment_bytes: 4 * 1024, ..Options::default() });
    rows.chunks(7).for_each(|batch| assert!(matches!(log.push(batch), super::WriteOutcome::Durable)));
    log.close();
}

#[test]
fn a_rolled_back_log_with_new_records_is_refused() {
    let parent = temporary_directory();
    let [data, copied] = ["data", "copied"].map(|name| parent.path().join(name));
    write_sealed_log(&data, &rows(0, 40));
    copy(&data, &copied);
    append(&data, &rows(40, 20));
    let position = end_of(&data);
    assert_refused(&copied, &position, "is beyond the end of the log, whose last seq is 40");
    append(&copied, &rows(100, 60));
    assert_refused(&copied, &position, "the log has other records up to this seq");
    let (all, end) = export_after(&copied, "0");
    assert_eq!((all.len(), export_after(&copied, &end).0.len()), (100, 0));
    assert_eq!(export_after(&data, &position), (vec![], position));
}

#[test]
fn other_records_are_found_although_the_last_one_is_equal() {
    let parent = temporary_directory();
    let [data, copied] = ["data", "copied"].map(|name| parent.path().join(name));
    write_sealed_log(&data, &rows(0, 10));
    copy(&data, &copied);
    append(&data, &rows(10, 7));
    let position = end_of(&data);
    for changed in 10..16 {
        let other = parent.path().join(format!("other {changed}"));
        copy(&copied, &other);
        let mut seven = rows(10, 7);
        seven[changed - 10].received_ms += 1;
        append(&other, &seven);
        assert_refused(&other, &position, "the log has other records up to this seq");
    }
    append(&copied, &rows(10, 7));
    assert_eq!(export_after(&copied, &position).0, [0; 0], "the same records have the same position");
}

#[test]
fn an_export_continues_after_the_record_at_its_position_was_erased() {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    let server = Server::start(&[("demo.snapshot", &demo)], &["--admin-token", "secret"]);
    let post = |path: &str, event: serde_json::Value| {
        assert_eq!(server.post(path, &[], event.to_string().as_bytes()).status, 200);
    };
    let track =
        |id: &str| post("/v1/track", json!({ "trackingId": "track_demo", "anonId": id, "event": "Viewed" }));
    ["v1", "v2", "v1", "v2"].into_iter().for_each(track);
    // The records of an erased visitor become void. The alias of another one is redacted, and the record of a tie that the
    // visitor ended keeps only this end.
    let identify = |user: &str| {
        post(
            "/v1/identify",
            json!({ "trackingId": "track_demo", "anonId": "shared", "userId": user, "traits": { "a": "b" } }),
        );
    };
    identify("kept");
    let first = end_of(server.data());
    identify("gone");
    let second = end_of(server.data());
    post("/v1/alias", json!({ "trackingId": "track_demo", "previousId": "shared", "userId": "kept" }));
    let third = end_of(server.data());
    let erase = |target: &str| {
        let token = [("Authorization", "Bearer secret")];
        let deleted = Client::to(server.admin).request("DELETE", target, &token);
        assert_eq!(deleted.status, 200, "{}", deleted.text());
    };
    let before = [&first, &second, &third].map(|position| export_after(server.data(), position));
    assert_eq!(before.each_ref().map(|(seqs, _)| seqs.len()), [2, 1, 0]);
    erase("/visitors?site=fjell&userId=gone");
    erase("/visitors?site=fjell&anonId=v2");
    erase("/visitors?site=fjell&userId=kept");
    let out = run(&["export", as_arg(server.data())]).out;
    assert!(!out.contains("\"v2\"") && !out.contains("\"gone\"") && !out.contains("\"kept\""), "{out}");
    track("v3");
    for position in [&first, &second, &third] {
        let (seqs, _) = export_after(server.data(), position);
        assert_eq!(seqs.last(), Some(&11), "7 records, 3 tombstones and the event");
    }
    let (_, end) = export_after(server.data(), &third);
    assert_eq!(export_after(server.data(), &end), (vec![], end));
}

#[test]
fn an_export_continues_after_each_record_of_a_log_that_grows() {
    let data = temporary_directory();
    let mut log = Log::open(data.path(), Options { segment_bytes: 4 * 1024, ..Options::default() });
    idle(&mut log);
    let empty = end_of(data.path());
    assert!(empty.ends_with(&format!(":0:{}", "0".repeat(24))), "{empty}");
    let mut positions = vec![(0, empty)];
    for n in 0..60 {
        log.push(&rows(n, 1));
        idle(&mut log);
        let (seqs, position) = export_after(data.path(), &positions[n].1);
        assert_eq!(seqs, [n as u64 + 1]);
        positions.push((n as u64 + 1, position));
    }
    assert!(segments(data.path()).len() > 2, "some positions are at the end of a sealed segment");
    log.close();
    for (seq, position) in &positions {
        let (seqs, end) = export_after(data.path(), position);
        assert_eq!(seqs, (seq + 1..=60).collect::<Vec<_>>());
        assert_eq!(end, positions[60].1, "it is the same, wherever the export began");
        assert_eq!(export_after(data.path(), &seq.to_string()), (seqs, end), "also after a bare seq");
    }
}

#[test]
fn an_export_of_a_killed_server_continues_after_the_start_has_moved_its_records() {
    let data = temporary_directory();
    append(data.path(), &rows(0, 14));
    let mut log = Log::open(data.path(), Options::default());
    rows(14, 10).chunks(2).for_each(|batch| assert_eq!(log.push(batch), super::WriteOutcome::Durable));
    drop(log);
    let position = end_of(data.path());
    assert!(position.contains(":24:"), "the export has made the last batch durable: {position}");
    Log::open(data.path(), Options::default()).close();
    let name = segments(data.path()).pop().expect("a segment");
    let first = name.file_name().and_then(|name| parse_segment_name(name.to_str()?)).expect("a seq");
    assert!((16..=24).contains(&first), "the start has moved exported records to a new segment: {first}");
    append(data.path(), &rows(24, 3));
    assert_eq!(export_after(data.path(), &position).0, [25, 26, 27]);
}

#[test]
fn a_position_that_retention_has_deleted_is_refused() {
    let data = temporary_directory();
    let options = Options { segment_bytes: 4 * 1024, retain_ms: Some(60_000), ..Options::default() };
    let mut log = Log::open(data.path(), options);
    let mut positions = Vec::new();
    for n in 0..60 {
        log.push(&rows(n, 1));
        idle(&mut log);
        positions.push(end_of(data.path()));
    }
    log.clock.advance(600_000);
    log.writer.run_once();
    let first = &segments(data.path())[0];
    let first =
        first.file_name().and_then(|name| parse_segment_name(name.to_str()?)).expect("a seq") as usize;
    assert!((3..=60).contains(&first), "retention has deleted sealed segments: {first}");
    for (n, position) in positions.iter().enumerate() {
        let seq = n + 1;
        if seq < first {
            assert_refused(data.path(), position, &format!("deleted the records before seq {first}"));
        } else {
            assert_eq!(export_after(data.path(), position).0.len(), 60 - seq);
        }
    }
    assert_refused(data.path(), &(first - 2).to_string(), &format!("deleted the records before seq {first}"));
    for since in ["0", &(first - 1).to_string()] {
        assert_eq!(export_after(data.path(), since).0.len(), 61 - first, "nothing is skipped after {since}");
    }
    log.close();
}

#[test]
fn a_position_in_damage_is_refused_and_one_after_damage_is_verified() {
    let data = temporary_directory();
    write_sealed_log(data.path(), &rows(0, 100));
    let position = end_of(data.path());
    let files = segments(data.path());
    flip_bit(files.last().expect("a segment"));
    assert_refused(data.path(), &position, "the log is damaged, so the position cannot be verified: ");
    let output = run(&["export", as_arg(data.path()), "-o", as_arg(&data.path().join("events"))]);
    output.assert_exit(1, &["damaged in 1 places", "; continue with --since "]);
    let position = output.out.trim().rsplit(' ').next().expect("a position");
    // The log is still damaged, but the position is the one after the damage.
    run(&["export", as_arg(data.path()), "--since", position]).assert_exit(1, &["damaged in 1 places"]);
}

#[test]
fn void_records_and_tombstones_move_the_position() {
    let data = temporary_directory();
    let mut rows = rows(0, 4);
    (rows[2].kind, rows[3].kind) = (RecordKind::Void, RecordKind::Tombstone);
    write_sealed_log(data.path(), &rows);
    let (seqs, position) = export_after(data.path(), "0");
    assert_eq!(seqs, [1, 2]);
    assert!(position.contains(":4:00000004"), "{position}");
    assert_eq!(export_after(data.path(), &position), (vec![], position));
}

#[test]
fn only_a_position_with_its_three_parts_is_accepted() {
    let data = temporary_directory();
    write_sealed_log(data.path(), &rows(0, 3));
    let position = end_of(data.path());
    let [log_id, seq, proof] = position.split(':').collect::<Vec<_>>()[..] else { panic!("{position}") };
    assert_eq!((log_id.len(), seq, proof.len()), (32, "3", 24));
    let with = |seq: &str, proof: &str| format!("{log_id}:{seq}:{proof}");
    let none = "0".repeat(24);
    for wrong in [
        format!("{log_id}:3"),
        position[1..].to_owned(),
        format!("{position}:"),
        with("", proof),
        with("-3", proof),
        with("3", &proof[1..]),
        with("3", &format!("{proof}0")),
        with("3", &format!("+{}", &proof[1..])),
        with("3", &none),
        with("0", &format!("{}1", &none[1..])),
        with("2", proof),
        with("4611686018427387905", proof),
        "x".to_owned(),
    ] {
        run(&["export", as_arg(data.path()), "--since", &wrong]).assert_exit(2, &["--since"]);
    }
    run(&["export", as_arg(data.path()), "--since", &format!("{log_id}:3")])
        .assert_exit(2, &["a position is LOGID:SEQ:HASH, as an export printed it"]);
    for at in 8..24 {
        let mut forged = proof.as_bytes().to_vec();
        forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
        let forged = String::from_utf8(forged).expect("digits");
        assert_refused(data.path(), &with("3", &forged), "the log has other records up to this seq");
    }
    assert_refused(data.path(), &with("4611686018427387904", proof), "is beyond the end of the log");
    assert_eq!(export_after(data.path(), &with("0", &none)).0, [1, 2, 3]);
    assert_eq!(export_after(data.path(), &position.to_uppercase()).0, [0; 0]);
}
