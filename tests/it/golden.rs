//! The snapshot format does not change by accident, and the same source gives the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use parallax::testing::cli::inspect_snapshot;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};

use crate::harness::{snapshot, temporary_directory};

/// The smallest useful site: one empty page.
const SMALLEST: [(&str, &str); 2] = [
    ("site.json", r#"{"site":"a","trackingId":"track_a","name":"A"}"#),
    ("routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#),
];

/// Two pages whose conditions share a table of regexes, an experiment, an audience, and a group. One indexed
/// and one scanned query, nodes that embed them, and two patterns that generate a path for each item. One of
/// these paths is the same in both patterns.
const RICH: [(&str, &str); 10] = [
    ("site.json", r#"{"site":"rich","trackingId":"track_rich","name":"Rich","timeZone":"Europe/Oslo"}"#),
    (
        "audiences.json",
        r#"{"german":{"when":{"locale":{"$regex":"^de"}}},"few":{"when":{"url.query.id":{"$inGroup":"ids"}}}}"#,
    ),
    ("groups.json", r#"{"ids":["x","y"]}"#),
    (
        "routes/a.json",
        r#"{"path":"/zebra","updatedAt":"2026-01-05T10:00:00Z","layout":{"root":{"props":{}},"zones":{"hero":
            {"default":[],"variants":{"b":[]},"rules":[{"when":{"url.path":{"$regex":"zebra"}},"variant":"b"}]}}}}"#,
    ),
    (
        "routes/b.json",
        r#"{"path":"/ant/:name","layout":{"root":{"props":{}},"zones":{"hero":
            {"default":[],"variants":{"b":[]},"rules":[{"when":{"url.path":{"$regex":"ant"}},"variant":"b"},
            {"experiment":{"key":"e","variants":["default","b"]}},{"audience":"german","variant":"b"}]}}}}"#,
    ),
    ("routes/c.json", r#"{"path":"/old","redirect":{"to":"/zebra","status":301}}"#),
    (
        "content/animals.json",
        r#"[{"id":"1","type":"animal","fields":{"slug":"ape","legs":2}},{"id":"2","type":"animal","fields":{"slug":"bat","legs":2.5}},
            {"id":"3","type":"animal","fields":{"slug":"cat","legs":4,"tame":true}}]"#,
    ),
    (
        "queries.json",
        r#"{"by-slug":{"collection":"animals","params":{"slug":{"type":"string","optional":true}},
            "where":{"slug":{"$param":"slug"},"tame":{"$ne":false}},"orderBy":["-legs"],"limit":2},
            "legs":{"collection":"animals","params":{"from":{"type":"number","default":1}},
            "where":{"$or":[{"legs":{"$gt":{"$param":"from"}}},{"slug":{"$regex":"^b"}},{"slug":{"$inGroup":"ids"}}]}}}"#,
    ),
    (
        "routes/d.json",
        r#"{"path":"/animal/:slug","each":{"collection":"animals","slug":"fields.slug","where":{"legs":{"$lt":4}}},
            "layout":{"root":{"props":{}},"zones":{"main":[{"id":"q","type":"L","props":{},
            "query":{"id":"by-slug","params":{"slug":{"$route":"slug"}}}},
            {"id":"r","type":"L","props":{},"query":{"id":"legs"}}]}}}"#,
    ),
    (
        "routes/e.json",
        r#"{"path":"/:kind/ape","each":{"collection":"animals","kind":"type","where":{"tame":true}},
            "layout":{"root":{"props":{}},"zones":{}}}"#,
    ),
];

/// Formats bytes like `smallest.snapshot.hex`: 16 bytes per line, in pairs of hex digits.
fn hex(bytes: &[u8]) -> String {
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    bytes.chunks(16).map(line).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).expect("a pair of hex digits")).collect()
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.snapshot.hex")
}

fn write(directory: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::write(path, text).expect("written");
    }
}

/// Compiles with the command line, in another environment.
fn compiled(directory: &Path, environment: &[(&str, &str)]) -> Vec<u8> {
    let out = directory.join("out.bin");
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(["compile", "--version", "7", "-o"]).arg(&out).arg(directory);
    let output =
        command.envs(environment.iter().copied()).current_dir(directory).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(out).expect("a snapshot")
}

#[test]
fn the_smallest_snapshot_equals_the_golden_file() {
    let compiled = hex(&snapshot(&SMALLEST, 1));
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        fs::write(golden_path(), &compiled).expect("the golden file is written");
    }
    assert!(
        fs::read_to_string(golden_path()).expect("the golden file") == compiled,
        "the compiler writes other bytes for the same source. If a change of the format is meant, raise \
         FORMAT_VERSION and run the test with PARALLAX_BLESS=1; if a library changed its output, bless too"
    );
}

#[test]
fn the_golden_file_opens_and_has_the_authored_site() {
    let directory = temporary_directory();
    let path = directory.path().join("golden.snapshot");
    fs::write(&path, unhex(&fs::read_to_string(golden_path()).expect("the golden file"))).expect("written");
    let opened = Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).expect("the snapshot opens");
    assert_eq!((opened.version(), opened.site().site.get()), (1, "a"));
    assert_eq!(opened.site().routes.iter().map(|r| r.path.get()).collect::<Vec<_>>(), ["/"]);
    let checked = inspect_snapshot::check(&path).expect("the file is readable");
    assert_eq!(checked[0].1.as_deref(), Ok("sound, site a version 1"));
}

#[test]
fn a_snapshot_of_an_earlier_format_is_refused_with_its_remedy() {
    for format in [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] {
        let path = format!("tests/golden/snapshot-{format}/smallest.snapshot");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let refusal =
            Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).err().expect("refused").to_string();
        assert_eq!(
            refusal,
            format!(
                "unsupported format version {format}, this server reads 14; compile the site again with this release's \
                 `parallax compile`"
            )
        );
    }
}

#[test]
fn the_same_source_files_in_any_order_give_the_same_bytes() {
    let expected = snapshot(&RICH, 7);
    assert_eq!(snapshot(&RICH, 7), expected);
    let backwards: Vec<_> = RICH.iter().rev().copied().collect();
    assert_eq!(snapshot(&backwards, 7), expected);
    assert_ne!(snapshot(&RICH, 8), expected);
}

#[test]
fn renamed_route_files_give_the_same_snapshot() {
    let renamed = RICH.map(|(path, text)| match path {
        "routes/a.json" => ("routes/x/y.json", text),
        "routes/c.json" => ("routes/0.json", text),
        _ => (path, text),
    });
    assert!(snapshot(&renamed, 7) == snapshot(&RICH, 7));
}

#[test]
fn directory_time_zone_and_locale_do_not_change_the_snapshot() {
    let expected = snapshot(&RICH, 7);
    let (one, two) = (temporary_directory(), temporary_directory());
    write(one.path(), &RICH);
    write(two.path(), &RICH.iter().rev().copied().collect::<Vec<_>>());
    assert!(compiled(one.path(), &[("TZ", "UTC")]) == expected);
    let elsewhere = [("TZ", "Pacific/Chatham"), ("LC_ALL", "tr_TR.UTF-8"), ("SOURCE_DATE_EPOCH", "12")];
    assert!(compiled(two.path(), &elsewhere) == expected);
}
