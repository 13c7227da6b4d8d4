//! `check` and `inspect` of segments and of a log.

use std::fs;

use parallax::visitors::log::bloom::Whose;
use parallax::visitors::log::{Kind, Options, Outcome, Visitor, segment_name};
use serde_json::{Value, json};

use super::{Log, Row, flip, run, sealed, segments, tear, word};
use crate::harness::temporary_folder;

#[test]
fn a_flipped_bit_is_found_in_the_folder_and_in_its_file() {
    let folder = temporary_folder();
    let rows: Vec<Row> = (0..100).map(|n| Row::of(&format!("visitor {n}"))).collect();
    sealed(folder.path(), &rows);
    let files = segments(folder.path());
    assert!(files.len() > 2);
    run(&["check", word(folder.path())]).is(0, &[&format!("sound, {} segments", files.len()), "100 records"]);
    run(&["check", word(&files[1])]).is(0, &["sound, 1 segments"]);
    flip(&files[1]);
    let damage = format!("{} at 40, ", word(&files[1]));
    run(&["check", word(folder.path())]).is(1, &[&damage, "; lost ", "the log is damaged in 1 places"]);
    run(&["check", word(&files[1])]).is(1, &[&damage, "damaged in 1 places"]);
    run(&["check", word(&files[0])]).is(0, &["sound"]);
}

#[test]
fn a_segment_that_is_missing_is_found_and_a_torn_tail_is_no_damage() {
    let folder = temporary_folder();
    let rows: Vec<Row> = (0..100).map(|n| Row::of(&format!("visitor {n}"))).collect();
    sealed(folder.path(), &rows);
    let mut log = Log::open(folder.path(), Options::default());
    log.push(&[Row::of("a")]);
    drop(log);
    let files = segments(folder.path());
    let last = files.last().expect("a segment");
    tear(last);
    run(&["check", word(folder.path())]).is(0, &["a torn tail", "sound"]);
    fs::remove_file(&files[1]).expect("removed");
    run(&["check", word(folder.path())]).is(1, &["records are missing; lost ", "damaged in 1 places"]);
}

#[test]
fn a_segment_is_shown_to_people_and_to_programs() {
    let folder = temporary_folder();
    let mut page = Row::of("b");
    (page.kind, page.received_ms) = (Kind::Page, 1_767_225_660_000);
    page.texts[0] = Some("other".to_owned());
    sealed(folder.path(), &[Row::of("a"), page, Row::of("c")]);
    let file = &segments(folder.path())[0];
    let lines = [
        "bytes, sealed",
        "first seq 1, made 2026-01-01T00:00:00.000Z",
        "batches      1, and",
        "records      3, seq 1 to 3",
        "received     2026-01-01T00:00:00.123Z to 2026-01-01T00:01:00.000Z",
        "kind         page: 1\nkind         track: 2",
        "site         acme: 2\nsite         other: 1",
        "footer       at ",
        " 3 keys",
    ];
    run(&["inspect", word(file)]).is(0, &lines);
    let shown = |path| -> Value {
        let done = run(&["inspect", "--json", word(path)]);
        done.is(0, &[]);
        serde_json::from_str(&done.out).expect("JSON")
    };
    let sound = shown(file);
    assert_eq!((&sound["kind"], &sound["records"]), (&json!("segment"), &json!(3)));
    assert_eq!(sound["seqs"], json!({ "first": "1", "last": "3" }));
    assert_eq!(sound["kinds"], json!({ "page": 1, "track": 2 }));
    assert_eq!((&sound["footer"]["keys"], &sound["findings"]), (&json!(3), &json!([])));
    assert_eq!(sound["reservedBytes"], json!(0));
    flip(file);
    let damaged = shown(file);
    assert_eq!((&damaged["records"], &damaged["findings"][0]["at"]), (&json!(0), &json!(40)));
    assert_eq!(damaged["findings"][0]["lost"], json!({ "first": "1", "last": "3" }));
    assert_eq!(damaged["findings"][0]["isDamage"], json!(true));
}

#[test]
fn what_is_reserved_of_a_segment_is_shown() {
    let folder = temporary_folder();
    let mut log = Log::open(folder.path(), Options { segment_bytes: 4 * 1024, ..Options::default() });
    log.push(&[Row::of("a")]);
    let file = &segments(folder.path())[0];
    let bytes = fs::read(file).expect("readable");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    let reserved = bytes.len() - (last + 1).next_multiple_of(8);
    assert!(reserved > 3_000);
    let line = format!("reserved     {reserved} bytes of zeros");
    run(&["inspect", word(file)]).is(0, &["4096 bytes, not sealed", &line]);
    run(&["inspect", "--json", word(file)]).is(0, &[&format!("\"reservedBytes\": {reserved}")]);
}

#[test]
fn who_was_erased_is_in_no_file_and_what_is_void_is_counted_and_not_exported() {
    let folder = temporary_folder();
    let mut log = Log::open(folder.path(), Options { segment_bytes: 4 * 1024, ..Options::default() });
    for n in 0..30 {
        let rows = ["ana@example.com", "bob", "carl"].map(Row::of);
        assert_eq!(log.push(&rows[..1 + n % 3]), Outcome::Durable);
    }
    let visitor = Visitor { site: "acme".to_owned(), ids: vec![(Whose::Anon, "ana@example.com".to_owned())] };
    let erasure = log.queue.erase(visitor).expect("it is the only one");
    log.writer.step();
    assert_eq!(erasure.finish().expect("the disk is well").records, 30);
    log.close();
    run(&["check", word(folder.path()), "--contains", "ana@example.com"]).is(0, &["nowhere in"]);
    run(&["check", word(folder.path())]).is(0, &["sound", "61 records, 30 of them void (erased)"]);
    let exported = run(&["export", word(folder.path())]);
    exported.is(0, &["bob", "carl"]);
    assert_eq!(exported.out.lines().count(), 30, "neither void records nor the tombstone");
    let files = segments(folder.path());
    let shown = ["kind         void: ", "happened     2025-12-31T23:59:59.000Z to 2025-12-31T23:59:59.000Z"];
    run(&["inspect", word(&files[0])]).is(0, &shown);
    run(&["inspect", word(&files[files.len() - 1])])
        .is(0, &["kind         tombstone: 1", "site         acme: 1"]);
}

#[test]
fn the_kind_of_a_file_is_told_by_its_magic_and_where_that_is_damaged_by_its_name() {
    let folder = temporary_folder();
    sealed(folder.path(), &[Row::of("a")]);
    let file = &segments(folder.path())[0];
    let mut bytes = fs::read(file).expect("readable");
    let stray = folder.path().join("copy.bin");
    fs::write(&stray, &bytes).expect("written");
    run(&["inspect", word(&stray)]).is(1, &["its name is not a segment's: 20 digits and .segment"]);
    bytes[0] ^= 1;
    fs::write(file, &bytes).expect("written");
    run(&["inspect", word(file)]).is(0, &["header       damaged", "records      1, seq 1 to 1"]);
    run(&["check", word(file)]).is(1, &["the header is damaged; the file's name stood in for it"]);
    fs::write(&stray, "{\"a\":1}").expect("written");
    let expected = ["it begins with \"{\\\"a\\\":1}\"", "\\xffPRLXSNP", "\\xffPLXSEGM"];
    run(&["inspect", word(&stray)]).is(1, &expected);
    run(&["check", word(&stray)]).is(1, &expected);
    let later = folder.path().join(segment_name(9));
    fs::write(&later, "").expect("written");
    run(&["inspect", word(&later)]).is(0, &["header       damaged", "records      none"]);
}
