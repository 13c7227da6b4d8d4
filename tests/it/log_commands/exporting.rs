//! `export` as NDJSON.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use jiff::Timestamp;
use parallax::testing::log::{Ack, Options, WriteOutcome};
use parallax::testing::record::{Code, Device, RecordKind};
use serde_json::{Value, json};

use super::{CommandOutput, Log, Row, as_arg, flip_bit, parallax, run, segments, write_sealed_log};
use crate::dice::Dice;
use crate::harness::{Server, temporary_directory, times};

/// Returns the exported line of a row as JSON, with times in milliseconds.
fn expected(seq: usize, row: &Row) -> Value {
    let [site, message, anon, user, event, name, path, variants, ip, experiments] = &row.texts;
    let device = (row.device != Device::Unknown).then(|| row.device.as_str());
    let country = row.country.as_ref().map(Code::as_str);
    let payload: Value = serde_json::from_str(&row.payload).expect("JSON");
    let tied = if row.kind == RecordKind::Identify && !row.bot {
        anon.as_ref().filter(|_| user.is_some())
    } else {
        None
    };
    json!({ "seq": seq.to_string(), "receivedAt": row.received_ms, "timestamp": row.timestamp_ms, "clientTimestamp": null, "sentAt": null, "site": site,
        "type": row.kind.name(), "messageId": message, "anonId": anon, "userId": user, "tied": tied, "event": event, "name": name,
        "path": path, "bot": row.bot, "gpc": row.gpc, "variants": variants,
        "experiments": experiments, "referrerHost": null, "source": null, "medium": null, "campaign": null, "term": null, "content": null,
        "device": device, "os": null, "browser": null, "country": country, "language": null, "ip": ip, "payload": payload })
}

/// Parses an exported line. Times become milliseconds.
fn parse_line(line: &str) -> Value {
    let mut value: Value = serde_json::from_str(line).expect("a line is JSON");
    for time in ["receivedAt", "timestamp"] {
        let text = value[time].as_str().expect("a text");
        assert!(text.ends_with('Z'), "{text}");
        value[time] = json!(text.parse::<Timestamp>().expect("RFC 3339").as_millisecond());
    }
    value
}

#[test]
fn an_export_contains_every_record_and_may_start_after_any_seq() {
    for seed in 0..times(5, 100) as u64 {
        let mut dice = Dice(seed);
        let rows: Vec<Row> = (0..1 + dice.below(200)).map(|_| Row::random(&mut dice)).collect();
        let directory = temporary_directory();
        write_sealed_log(directory.path(), &rows);
        let whole = run(&["export", as_arg(directory.path())]);
        whole.assert_exit(0, &[]);
        assert_eq!(whole.err, "");
        let exported: Vec<Value> = whole.out.lines().map(parse_line).collect();
        let recorded: Vec<Value> = rows.iter().enumerate().map(|(at, row)| expected(at + 1, row)).collect();
        assert_eq!(exported, recorded, "seed {seed}");
        for _ in 0..5 {
            let since = dice.below(rows.len() + 1);
            let rest = run(&["export", as_arg(directory.path()), "--since", &since.to_string()]);
            let tail: String = whole.out.split_inclusive('\n').skip(since).collect();
            assert_eq!((rest.code, rest.out), (0, tail), "seed {seed}, since {since}");
        }
    }
}

#[test]
fn a_record_is_exported_as_this_line() {
    let directory = temporary_directory();
    let mut row = Row::of("v\"1");
    row.texts[6] = Some("/x".to_owned());
    write_sealed_log(directory.path(), &[row]);
    let line = concat!(
        r#"{"seq":"1","receivedAt":"2026-01-01T00:00:00.123Z","timestamp":"2025-12-31T23:59:59.000Z","clientTimestamp":null,"sentAt":null,"site":"acme","#,
        r#""type":"track","messageId":null,"anonId":"v\"1","userId":null,"tied":null,"event":null,"name":null,"path":"/x","#,
        r#""bot":false,"gpc":true,"variants":null,"experiments":null,"referrerHost":null,"source":null,"medium":null,"#,
        r#""campaign":null,"term":null,"content":null,"device":null,"os":null,"browser":null,"country":null,"language":null,"ip":null,"payload":{"event":"Viewed","anonId":"v\"1"}}"#,
        "\n"
    );
    assert_eq!(run(&["export", as_arg(directory.path()), "--format", "ndjson"]).out, line);
}

#[test]
fn void_records_and_tombstones_are_not_exported() {
    let directory = temporary_directory();
    let [mut void, mut tombstone, kept] = [Row::of("a"), Row::of("b"), Row::of("c")];
    (void.kind, tombstone.kind) = (RecordKind::Void, RecordKind::Tombstone);
    write_sealed_log(directory.path(), &[void, kept, tombstone]);
    let output = run(&["export", as_arg(directory.path())]);
    output.assert_exit(0, &[]);
    assert_eq!(output.out.lines().map(|line| parse_line(line)["seq"].clone()).collect::<Vec<_>>(), ["2"]);
}

#[test]
fn an_export_beside_a_writer_contains_only_durable_records() {
    let directory = temporary_directory();
    let mut log = Log::open(directory.path(), Options { ack: Ack::Written, ..Options::default() });
    let count = || run(&["export", as_arg(directory.path())]).out.lines().count();
    assert_eq!(count(), 0);
    assert_eq!(log.push(&[Row::of("a"), Row::of("b")]), WriteOutcome::Written);
    assert_eq!(count(), 0, "the batch is written but not synced");
    // The sync follows, and an idle writer records the durable seq in the file.
    for _ in 0..3 {
        log.clock.advance(1_000);
        log.writer.run_once();
    }
    assert_eq!(count(), 2);
    assert_eq!(log.push(&[Row::of("c")]), WriteOutcome::Written);
    assert_eq!(count(), 2);
    log.close();
    assert_eq!(count(), 3);
}

#[test]
fn an_export_contains_the_last_acknowledged_event_of_a_running_and_of_a_killed_server() {
    let data = temporary_directory();
    let demo = parallax::testing::cli::demo::compile_demo().1;
    let server = Server::start_with_data(data.path(), &[("demo.snapshot", &demo)], &[]);
    let post = |n: usize| {
        let body = json!({ "trackingId": "track_demo", "anonId": "v1", "event": "Viewed", "properties": { "n": n } });
        let body = body.to_string().into_bytes();
        let answer = server.post("/v1/track", &[("Content-Type", "application/json")], &body);
        assert_eq!((answer.status, answer.json()["seq"].clone()), (200, json!(n.to_string())));
    };
    let last_of_export = || {
        let output = run(&["export", as_arg(data.path())]);
        assert_eq!((output.code, &*output.err), (0, ""));
        output.out.lines().last().map(parse_line).expect("a record")
    };
    for n in 1..=4 {
        post(n);
        let line = last_of_export();
        assert_eq!([&line["anonId"], &line["event"], &line["site"]], ["v1", "Viewed", "fjell"]);
        assert_eq!(line["payload"]["properties"], json!({ "n": n }));
    }
    post(5);
    drop(server);
    assert_eq!(last_of_export()["payload"]["properties"], json!({ "n": 5 }));
    run(&["check", as_arg(data.path())]).assert_exit(0, &["sound"]);
}

/// Posts events with these numbers as message IDs.
fn post_numbers(server: &Server, numbers: std::ops::RangeInclusive<usize>) {
    for n in numbers {
        let body = json!({ "trackingId": "track_demo", "anonId": "v1", "event": "Viewed", "messageId": n.to_string() });
        assert_eq!(server.post("/v1/track", &[], body.to_string().as_bytes()).status, 200);
    }
}

#[test]
fn an_export_without_records_that_a_checkpoint_has_exits_with_1() {
    let data = temporary_directory();
    let demo = parallax::testing::cli::demo::compile_demo().1;
    for numbers in [1..=3, 4..=5] {
        let mut server = Server::start_with_data(data.path(), &[("demo.snapshot", &demo)], &[]);
        post_numbers(&server, numbers);
        server.signal("TERM");
        assert_eq!(server.exit_code(), 0);
    }
    let whole = run(&["export", as_arg(data.path())]);
    whole.assert_exit(0, &[]);
    assert_eq!(whole.out.lines().count(), 5);
    fs::remove_file(segments(data.path()).last().expect("a segment")).expect("removed");
    let output = run(&["export", as_arg(data.path())]);
    output.assert_exit(
        1,
        &["records are missing; lost seqs 4..=5", "damaged in 1 places; the other 3 records"],
    );
    assert_eq!(output.out, whole.out.split_inclusive('\n').take(3).collect::<String>());
    let target = temporary_directory();
    let file = target.path().join("events.ndjson");
    run(&["export", as_arg(data.path()), "-o", as_arg(&file)]).assert_exit(1, &["lost seqs 4..=5"]);
    assert_eq!(fs::read_to_string(file).expect("it was written"), output.out);
    // Without the checkpoints nothing proves it.
    let names = data.path().read_dir().expect("a directory").map(|entry| entry.expect("an entry").path());
    let checkpoints = names.filter(|path| path.extension().is_some_and(|end| end == "checkpoint"));
    checkpoints.for_each(|path| fs::remove_file(path).expect("removed"));
    run(&["export", as_arg(data.path())]).assert_exit(0, &[]);
}

#[test]
fn an_export_reports_damage_and_contains_the_other_records() {
    let directory = temporary_directory();
    let rows: Vec<Row> = (0..200).map(|n| Row::of(&format!("visitor {n}"))).collect();
    write_sealed_log(directory.path(), &rows);
    let damaged = &segments(directory.path())[1];
    let whole = run(&["export", as_arg(directory.path())]).out;
    flip_bit(damaged);
    let output = run(&["export", as_arg(directory.path())]);
    output
        .assert_exit(1, &[&format!("{} at offset 56, ", as_arg(damaged)), "; lost ", "damaged in 1 places"]);
    let lost = whole.lines().count() - output.out.lines().count();
    assert!((1..=7).contains(&lost), "one batch is lost: {lost}");
    assert!(output.out.lines().all(|line| whole.lines().any(|other| other == line)));
    let file = directory.path().join("out.ndjson");
    run(&["export", as_arg(directory.path()), "-o", as_arg(&file)])
        .assert_exit(1, &["the other 193 records", "; continue with --since ", ":200:"]);
    assert_eq!(fs::read_to_string(file).expect("the file exists"), output.out);
}

#[test]
fn an_export_replaces_its_file_and_prints_how_to_continue() {
    let [data, out] = [temporary_directory(), temporary_directory()];
    write_sealed_log(data.path(), &[Row::of("a"), Row::of("b")]);
    let file = out.path().join("events.ndjson");
    fs::write(&file, "old").expect("written");
    let export = |since: &str| run(&["export", as_arg(data.path()), "--since", since, "-o", as_arg(&file)]);
    export("0").assert_exit(0, &["events.ndjson: 2 records, up to seq 2; continue with --since ", ":2:"]);
    assert_eq!(
        fs::read_to_string(&file).expect("the file exists"),
        run(&["export", as_arg(data.path())]).out
    );
    export("2").assert_exit(0, &["0 records, none after seq 2"]);
    assert_eq!(fs::read_to_string(&file).expect("the file exists"), "");
    for beyond in ["3", "18446744073709551615"] {
        export(beyond).assert_exit(1, &["is beyond the end of the log, whose last seq is 2"]);
    }
    export("18446744073709551616").assert_exit(2, &["--since"]);
    assert_eq!(out.path().read_dir().expect("a directory").count(), 1, "no temporary file is left");
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_failure() {
    let data = temporary_directory();
    let rows: Vec<Row> = (0..3_000).map(|n| Row::of(&format!("visitor {n}"))).collect();
    write_sealed_log(data.path(), &rows);
    let mut child = parallax(&["export", as_arg(data.path())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    reader.read_line(&mut first).expect("a line");
    assert!(first.contains("visitor 0"));
    drop(reader);
    let output = CommandOutput::of(child.wait_with_output().expect("the command ends"));
    assert_eq!((output.code, &*output.err), (0, ""));
}

#[test]
fn an_output_that_cannot_be_written_exits_with_3_and_leaves_no_file() {
    let data = temporary_directory();
    write_sealed_log(data.path(), &[Row::of("a")]);
    let export = |output: &str| run(&["export", as_arg(data.path()), "-o", output]);
    export(as_arg(&data.path().join("nowhere/x"))).assert_exit(3, &["nowhere/x: ", "-o"]);
    export("/dev/null")
        .assert_exit(3, &["cannot write /dev/null: the path exists and is not a regular file"]);
    export(as_arg(data.path())).assert_exit(3, &["not a regular file"]);
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let output = parallax(&["export", as_arg(data.path())]).stdout(full).output();
    CommandOutput::of(output.expect("the command runs")).assert_exit(3, &["cannot write to standard output"]);
    let names =
        data.path().read_dir().expect("a directory").map(|entry| entry.expect("an entry").file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".tmp")));
}

#[test]
fn an_export_of_a_directory_without_a_log_fails() {
    let directory = temporary_directory();
    run(&["export", as_arg(directory.path())]).assert_exit(1, &["contains no segment", "serve --data"]);
    run(&["export", as_arg(&directory.path().join("nowhere"))]).assert_exit(1, &["nowhere: No such file"]);
    run(&["export"]).assert_exit(2, &["<DIR>"]);
    run(&["export", "x", "--format", "csv"]).assert_exit(2, &["ndjson", "parquet"]);
    run(&["export", "--help"]).assert_exit(0, &["--since", "parallax export data", "Exit codes"]);
}
