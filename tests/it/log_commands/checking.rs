//! `check` and `inspect` of segments and of a log.

use std::fs;
use std::sync::Arc;

use parallax::testing::checksum::crc32c;
use parallax::testing::log::{EraseRule, Options, Treatment, VisitorIds, WriteOutcome, segment_name};
use parallax::testing::record::{IdKind, Record, RecordKind, TombstoneKey};
use parallax::testing::storage::disk::RealDisk;
use serde_json::{Value, json};

use super::{Log, Row, as_arg, flip_bit, run, segments, tear_tail, write_sealed_log};
use crate::harness::temporary_directory;

#[test]
fn check_finds_a_flipped_bit_in_a_directory_and_in_a_file() {
    let directory = temporary_directory();
    let rows: Vec<Row> = (0..100).map(|n| Row::of(&format!("visitor {n}"))).collect();
    write_sealed_log(directory.path(), &rows);
    let files = segments(directory.path());
    assert!(files.len() > 2);
    run(&["check", as_arg(directory.path())])
        .assert_exit(0, &[&format!("sound, {} segments", files.len()), "100 records"]);
    run(&["check", as_arg(&files[1])]).assert_exit(0, &["sound, 1 segments"]);
    flip_bit(&files[1]);
    let damage = format!("{} at offset 56, ", as_arg(&files[1]));
    run(&["check", as_arg(directory.path())])
        .assert_exit(1, &[&damage, "; lost ", "the log is damaged in 1 places"]);
    run(&["check", as_arg(&files[1])]).assert_exit(1, &[&damage, "damaged in 1 places"]);
    run(&["check", as_arg(&files[0])]).assert_exit(0, &["sound"]);
}

#[test]
fn a_missing_segment_is_damage_and_a_torn_tail_is_not() {
    let directory = temporary_directory();
    let rows: Vec<Row> = (0..100).map(|n| Row::of(&format!("visitor {n}"))).collect();
    write_sealed_log(directory.path(), &rows);
    let mut log = Log::open(directory.path(), Options::default());
    log.push(&[Row::of("a")]);
    drop(log);
    let files = segments(directory.path());
    let last = files.last().expect("a segment");
    tear_tail(last);
    run(&["check", as_arg(directory.path())]).assert_exit(0, &["torn tail", "sound"]);
    fs::remove_file(&files[1]).expect("removed");
    run(&["check", as_arg(directory.path())])
        .assert_exit(1, &["records are missing; lost ", "damaged in 1 places"]);
}

#[test]
fn inspect_prints_a_segment_as_text_and_as_json() {
    let directory = temporary_directory();
    let mut page = Row::of("b");
    (page.kind, page.received_ms) = (RecordKind::Page, 1_767_225_660_000);
    page.texts[0] = Some("other".to_owned());
    write_sealed_log(directory.path(), &[Row::of("a"), page, Row::of("c")]);
    let file = &segments(directory.path())[0];
    let lines = [
        "bytes, sealed",
        "first seq 1, created 2026-01-01T00:00:00.000Z",
        "batches      1, and",
        "records      3, seq 1 to 3",
        "received     2026-01-01T00:00:00.123Z to 2026-01-01T00:01:00.000Z",
        "kind         page: 1\nkind         track: 2",
        "site         acme: 2\nsite         other: 1",
        "footer       at ",
        " 3 keys",
    ];
    run(&["inspect", as_arg(file)]).assert_exit(0, &lines);
    let shown = |path| -> Value {
        let output = run(&["inspect", "--json", as_arg(path)]);
        output.assert_exit(0, &[]);
        serde_json::from_str(&output.out).expect("JSON")
    };
    let sound = shown(file);
    assert_eq!((&sound["kind"], &sound["records"]), (&json!("segment"), &json!(3)));
    assert_eq!(sound["seqs"], json!({ "first": "1", "last": "3" }));
    assert_eq!(sound["kinds"], json!({ "page": 1, "track": 2 }));
    assert_eq!((&sound["footer"]["keys"], &sound["findings"]), (&json!(3), &json!([])));
    assert_eq!(sound["reservedBytes"], json!(0));
    flip_bit(file);
    let damaged = shown(file);
    assert_eq!((&damaged["records"], &damaged["findings"][0]["at"]), (&json!(0), &json!(56)));
    assert_eq!(damaged["findings"][0]["lost"], json!({ "first": "1", "last": "3" }));
    assert_eq!(damaged["findings"][0]["isDamage"], json!(true));
}

#[test]
fn inspect_prints_the_reserved_bytes_of_a_segment() {
    let directory = temporary_directory();
    let mut log = Log::open(directory.path(), Options { segment_bytes: 4 * 1024, ..Options::default() });
    log.push(&[Row::of("a")]);
    let file = &segments(directory.path())[0];
    let bytes = fs::read(file).expect("readable");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    let reserved = bytes.len() - (last + 1).next_multiple_of(8);
    assert!(reserved > 3_000);
    let line = format!("reserved     {reserved} bytes of zeros");
    run(&["inspect", as_arg(file)]).assert_exit(0, &["4096 bytes, not sealed", &line]);
    run(&["inspect", "--json", as_arg(file)]).assert_exit(0, &[&format!("\"reservedBytes\": {reserved}")]);
}

/// A rule by which the records of one anonymous ID become void.
struct VoidOf(&'static str);

impl EraseRule for VoidOf {
    fn may_match(&self, _filter: &[u8]) -> bool {
        true
    }

    fn may_name(&self, _hash: u64) -> bool {
        true
    }

    fn treatment(&mut self, _seq: u64, record: &Record<'_>) -> Treatment {
        if record.anon_id == Some(self.0) { Treatment::Void } else { Treatment::Keep }
    }

    fn names_visitor(&mut self, record: &Record<'_>) -> bool {
        record.anon_id == Some(self.0)
    }
}

#[test]
fn an_erased_visitor_is_in_no_file_and_void_records_are_not_exported() {
    let directory = temporary_directory();
    let mut log = Log::open(directory.path(), Options { segment_bytes: 4 * 1024, ..Options::default() });
    for n in 0..30 {
        let rows = ["ana@example.com", "bob", "carl"].map(Row::of);
        assert_eq!(log.push(&rows[..1 + n % 3]), WriteOutcome::Durable);
    }
    let key = TombstoneKey::read(Arc::new(RealDisk), directory.path());
    let key = key.expect("reading succeeds").expect("the key is made with the directory");
    let owner = key.tag("acme", IdKind::Anon, "ana@example.com");
    let known_ids = vec![(IdKind::Anon, "ana@example.com".to_owned())];
    let visitor =
        VisitorIds { site: "acme".to_owned(), owner, named: vec![owner], known_ids, ..VisitorIds::default() };
    let erasure = log.queue.erase(visitor).expect("no other erasure runs");
    log.writer.run_once();
    let started = erasure.begin().expect("the disk works");
    assert_eq!(started.rewrite(&mut VoidOf("ana@example.com")).expect("the disk works").records, 30);
    started.end().expect("the disk works");
    log.close();
    run(&["check", as_arg(directory.path()), "--contains", "ana@example.com"])
        .assert_exit(0, &["not found in"]);
    run(&["check", as_arg(directory.path())])
        .assert_exit(0, &["sound", "61 records, 30 of them void (erased)"]);
    let exported = run(&["export", as_arg(directory.path())]);
    exported.assert_exit(0, &["bob", "carl"]);
    assert_eq!(exported.out.lines().count(), 30, "neither void records nor the tombstone");
    let files = segments(directory.path());
    let shown = ["kind         void: ", "happened     2025-12-31T23:59:59.000Z to 2025-12-31T23:59:59.000Z"];
    run(&["inspect", as_arg(&files[0])]).assert_exit(0, &shown);
    run(&["inspect", as_arg(&files[files.len() - 1])])
        .assert_exit(0, &["kind         tombstone: 1", "site         acme: 1"]);
}

#[test]
fn the_kind_of_a_file_is_known_by_its_magic_or_else_by_its_name() {
    let directory = temporary_directory();
    write_sealed_log(directory.path(), &[Row::of("a")]);
    let file = &segments(directory.path())[0];
    let mut bytes = fs::read(file).expect("readable");
    let stray = directory.path().join("copy.bin");
    fs::write(&stray, &bytes).expect("written");
    run(&["inspect", as_arg(&stray)])
        .assert_exit(1, &["not the name of a segment, which is 20 digits and .segment"]);
    bytes[0] ^= 1;
    fs::write(file, &bytes).expect("written");
    run(&["inspect", as_arg(file)]).assert_exit(0, &["header       damaged", "records      1, seq 1 to 1"]);
    run(&["check", as_arg(file)]).assert_exit(1, &["damaged header, replaced by the file name"]);
    fs::write(&stray, "{\"a\":1}").expect("written");
    let expected = ["it begins with \"{\\\"a\\\":1}\"", "\\xffPRLXSNP", "\\xffPLXSEGM"];
    run(&["inspect", as_arg(&stray)]).assert_exit(1, &expected);
    run(&["check", as_arg(&stray)]).assert_exit(1, &expected);
    let later = directory.path().join(segment_name(9));
    fs::write(&later, "").expect("written");
    run(&["inspect", as_arg(&later)]).assert_exit(0, &["header       damaged", "records      none"]);
}

#[test]
fn a_directory_of_format_version_1_is_refused_with_the_advice_to_export_it_first() {
    let (directory, snapshots) = (temporary_directory(), temporary_directory());
    // A header of version 1 has no log ID.
    let mut segment = [0; 40];
    segment[..8].copy_from_slice(b"\xFFPLXSEGM");
    (segment[8], segment[12], segment[16]) = (1, 40, 1);
    let crc = crc32c(&[&segment[..36]]);
    segment[36..].copy_from_slice(&crc.to_le_bytes());
    fs::write(directory.path().join(segment_name(1)), segment).expect("written");
    let advice = ["format version 1 is of an earlier release", "parallax export"];
    let addresses = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let directories = ["--data", as_arg(directory.path()), "--snapshots", as_arg(snapshots.path())];
    run(&[&["serve"][..], &addresses, &directories].concat()).assert_exit(3, &advice);
    for command in ["check", "export"] {
        run(&[command, as_arg(directory.path())]).assert_exit(3, &advice);
    }
    assert_eq!(fs::read(directory.path().join(segment_name(1))).expect("readable"), segment, "unchanged");
}
