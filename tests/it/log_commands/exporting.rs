//! `export` as NDJSON.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use jiff::Timestamp;
use parallax::visitors::log::{Ack, Kind, Options, Outcome};
use serde_json::{Value, json};

use super::{Done, Log, Row, flip, parallax, run, sealed, segments, word};
use crate::dice::Dice;
use crate::harness::{Server, eventually, temporary_folder, times};

/// What a line says of a row, times in milliseconds.
fn expected(seq: usize, row: &Row) -> Value {
    let [site, message, anon, user, event, name, path, variants, ip] = &row.texts;
    let payload: Value = serde_json::from_str(&row.payload).expect("JSON");
    json!({ "seq": seq.to_string(), "receivedAt": row.received_ms, "timestamp": row.timestamp_ms, "site": site,
        "type": row.kind.name(), "messageId": message, "anonId": anon, "userId": user, "event": event, "name": name,
        "path": path, "bot": row.bot, "gpc": row.gpc, "variants": variants, "ip": ip, "payload": payload })
}

/// What a line says, times in milliseconds.
fn said(line: &str) -> Value {
    let mut value: Value = serde_json::from_str(line).expect("a line is JSON");
    for time in ["receivedAt", "timestamp"] {
        let text = value[time].as_str().expect("a text");
        assert!(text.ends_with('Z'), "{text}");
        value[time] = json!(text.parse::<Timestamp>().expect("RFC 3339").as_millisecond());
    }
    value
}

#[test]
fn everything_is_exported_as_it_was_recorded_and_in_pieces_the_same() {
    for seed in 0..times(5, 100) as u64 {
        let mut dice = Dice(seed);
        let rows: Vec<Row> = (0..1 + dice.below(200)).map(|_| Row::random(&mut dice)).collect();
        let folder = temporary_folder();
        sealed(folder.path(), &rows);
        let whole = run(&["export", word(folder.path())]);
        whole.is(0, &[]);
        assert_eq!(whole.err, "");
        let told: Vec<Value> = whole.out.lines().map(said).collect();
        let recorded: Vec<Value> = rows.iter().enumerate().map(|(at, row)| expected(at + 1, row)).collect();
        assert_eq!(told, recorded, "seed {seed}");
        for _ in 0..5 {
            let since = dice.below(rows.len() + 2);
            let rest = run(&["export", word(folder.path()), "--since", &since.to_string()]);
            let behind: String = whole.out.split_inclusive('\n').skip(since).collect();
            assert_eq!((rest.code, rest.out), (0, behind), "seed {seed}, since {since}");
        }
    }
}

#[test]
fn a_record_is_this_line() {
    let folder = temporary_folder();
    let mut row = Row::of("v\"1");
    row.texts[6] = Some("/x".to_owned());
    sealed(folder.path(), &[row]);
    let line = concat!(
        r#"{"seq":"1","receivedAt":"2026-01-01T00:00:00.123Z","timestamp":"2025-12-31T23:59:59.000Z","site":"acme","#,
        r#""type":"track","messageId":null,"anonId":"v\"1","userId":null,"event":null,"name":null,"path":"/x","#,
        r#""bot":false,"gpc":true,"variants":null,"ip":null,"payload":{"event":"Viewed","anonId":"v\"1"}}"#,
        "\n"
    );
    assert_eq!(run(&["export", word(folder.path()), "--format", "ndjson"]).out, line);
}

#[test]
fn what_was_erased_is_left_out_and_so_are_tombstones() {
    let folder = temporary_folder();
    let [mut void, mut tombstone, kept] = [Row::of("a"), Row::of("b"), Row::of("c")];
    (void.kind, tombstone.kind) = (Kind::Void, Kind::Tombstone);
    sealed(folder.path(), &[void, kept, tombstone]);
    let done = run(&["export", word(folder.path())]);
    done.is(0, &[]);
    assert_eq!(done.out.lines().map(|line| said(line)["seq"].clone()).collect::<Vec<_>>(), ["2"]);
}

#[test]
fn beside_a_writer_only_what_is_durable_is_exported() {
    let folder = temporary_folder();
    let mut log = Log::open(folder.path(), Options { ack: Ack::Written, ..Options::default() });
    let count = || run(&["export", word(folder.path())]).out.lines().count();
    assert_eq!(count(), 0);
    assert_eq!(log.push(&[Row::of("a"), Row::of("b")]), Outcome::Written);
    assert_eq!(count(), 0, "it is written, not synced");
    // The sync follows, and a writer at rest names it in the file.
    for _ in 0..3 {
        log.clock.forward(1_000);
        log.writer.step();
    }
    assert_eq!(count(), 2);
    assert_eq!(log.push(&[Row::of("c")]), Outcome::Written);
    assert_eq!(count(), 2);
    log.close();
    assert_eq!(count(), 3);
}

#[test]
fn beside_a_running_server_what_it_acknowledged_is_exported() {
    let data = temporary_folder();
    let demo = parallax::cli::demo::snapshot().1;
    let server = Server::recording_to(data.path(), &[("demo.snapshot", &demo)], &[]);
    let body = br#"{"trackingId":"track_demo","anonId":"v1","event":"Viewed","properties":{"n":1}}"#;
    let answer = server.post("/v1/track", &[("Content-Type", "application/json")], body);
    assert_eq!((answer.status, &answer.json()["seq"]), (200, &json!("1")));
    let line = eventually("it is exported", || {
        let done = run(&["export", word(data.path())]);
        assert_eq!((done.code, &*done.err), (0, ""));
        done.out.lines().next().map(said)
    });
    assert_eq!(
        (&line["anonId"], &line["event"], &line["site"]),
        (&json!("v1"), &json!("Viewed"), &json!("fjell"))
    );
    assert_eq!(line["payload"]["properties"], json!({ "n": 1 }));
    run(&["check", word(data.path())]).is(0, &["sound"]);
}

#[test]
fn damage_is_told_and_what_stands_beside_it_is_exported() {
    let folder = temporary_folder();
    let rows: Vec<Row> = (0..200).map(|n| Row::of(&format!("visitor {n}"))).collect();
    sealed(folder.path(), &rows);
    let damaged = &segments(folder.path())[1];
    let whole = run(&["export", word(folder.path())]).out;
    flip(damaged);
    let done = run(&["export", word(folder.path())]);
    done.is(1, &[&format!("{} at 40, ", word(damaged)), "; lost ", "damaged in 1 places"]);
    let lost = whole.lines().count() - done.out.lines().count();
    assert!((1..=7).contains(&lost), "a batch is lost: {lost}");
    assert!(done.out.lines().all(|line| whole.lines().any(|other| other == line)));
    let file = folder.path().join("out.ndjson");
    run(&["export", word(folder.path()), "-o", word(&file)])
        .is(1, &["the 193 records beside them", "--since 200"]);
    assert_eq!(fs::read_to_string(file).expect("it is there"), done.out);
}

#[test]
fn a_file_is_there_once_it_is_whole_and_says_how_to_go_on() {
    let [data, out] = [temporary_folder(), temporary_folder()];
    sealed(data.path(), &[Row::of("a"), Row::of("b")]);
    let file = out.path().join("events.ndjson");
    fs::write(&file, "old").expect("written");
    let export = |since: &str| run(&["export", word(data.path()), "--since", since, "-o", word(&file)]);
    export("0").is(0, &["events.ndjson: 2 records, up to seq 2; what comes later: --since 2"]);
    assert_eq!(fs::read_to_string(&file).expect("there"), run(&["export", word(data.path())]).out);
    export("2").is(0, &["0 records, nothing has come since seq 2"]);
    assert_eq!(fs::read_to_string(&file).expect("there"), "");
    export("18446744073709551615").is(0, &["0 records"]);
    export("18446744073709551616").is(2, &["--since"]);
    assert_eq!(out.path().read_dir().expect("a folder").count(), 1, "no temporary file is left");
}

#[test]
fn who_has_read_enough_is_no_failure() {
    let data = temporary_folder();
    let rows: Vec<Row> = (0..3_000).map(|n| Row::of(&format!("visitor {n}"))).collect();
    sealed(data.path(), &rows);
    let mut child = parallax(&["export", word(data.path())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    reader.read_line(&mut first).expect("a line");
    assert!(first.contains("visitor 0"));
    drop(reader);
    let done = Done::of(child.wait_with_output().expect("it ends"));
    assert_eq!((done.code, &*done.err), (0, ""));
}

#[test]
fn what_cannot_be_written_is_exit_code_3_and_leaves_nothing() {
    let data = temporary_folder();
    sealed(data.path(), &[Row::of("a")]);
    let export = |output: &str| run(&["export", word(data.path()), "-o", output]);
    export(word(&data.path().join("nowhere/x"))).is(3, &["nowhere/x cannot be written", "-o"]);
    export("/dev/null").is(3, &["/dev/null cannot be written: it is there, and not a regular file"]);
    export(word(data.path())).is(3, &["not a regular file"]);
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let output = parallax(&["export", word(data.path())]).stdout(full).output();
    Done::of(output.expect("it runs")).is(3, &["standard output"]);
    let names = data.path().read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".tmp")));
}

#[test]
fn a_folder_that_is_no_log_is_said_so() {
    let folder = temporary_folder();
    run(&["export", word(folder.path())]).is(1, &["holds no log", "serve --data"]);
    run(&["export", word(&folder.path().join("nowhere"))]).is(1, &["nowhere: No such file"]);
    run(&["export"]).is(2, &["<DIR>"]);
    run(&["export", "x", "--format", "csv"]).is(2, &["ndjson", "parquet"]);
    run(&["export", "--help"]).is(0, &["--since", "parallax export data", "Exit codes"]);
}
