//! Column files: golden bytes, damage, bounds, and every column against the records.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use parallax::testing::insights::{
    Amount, COLUMN_TEXT_BYTES_MAX, COLUMN_TEXTS_MAX, ColumnBuilder, Columns, CountedLog, Limits, Query,
    Question, RowFacts, SiteFacts, Subject, VisitorKey, answer_over,
};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::{Disk, RealDisk};

use super::goals::publication;
use super::oracle::{any_event, texts_of};
use super::visitor_rule::is_of_visit;
use super::{Event, KEY};
use crate::harness::{Server, copy_of_golden, eventually, snapshot, temporary_directory};

fn build(events: &[Event]) -> Vec<u8> {
    let mut builder = ColumnBuilder::new(1, KEY);
    events.iter().for_each(|event| event.with_record(|record| builder.add(record)));
    builder.to_bytes(events.len() as u64)
}

fn facts(bytes: &[u8]) -> Option<Vec<RowFacts>> {
    Columns::from_bytes(bytes.to_vec()).ok()?.facts().ok()
}

/// Formats bytes as the other golden files: 16 per line, in pairs of hex digits.
fn hex(bytes: &[u8]) -> String {
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    bytes.chunks(16).map(line).collect()
}

#[test]
fn the_smallest_column_file_equals_the_golden_file() {
    let built = hex(&build(&[Event::page(1_767_225_600_000)]));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.columns.hex");
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, &built).expect("the golden file is written");
    }
    assert_eq!(
        fs::read_to_string(path).expect("the golden file"),
        built,
        "if a change of the format is meant, raise FORMAT_VERSION and run the test with PARALLAX_BLESS=1"
    );
}

/// Starts a server on the log that format version 2 of the column files was written for.
#[test]
fn a_column_file_of_version_2_is_built_again_with_term_and_content() {
    let data = copy_of_golden("columns-2");
    let columns = data.path().join("00000000000000000001.columns");
    let version = |path: &Path| fs::read(path).expect("a column file")[8];
    assert_eq!(version(&columns), 2);
    let server = Server::start_with_data(data.path(), &[], &[]);
    let top = |of: &str| {
        let range = "from=2026-11-01&to=2026-11-05";
        let answer = server.admin_get(&format!("/insights/top?site=acme&of={of}&{range}")).json();
        let rows = answer["rows"].as_array().expect("rows").clone();
        rows.iter().map(|row| (row["value"].clone(), row["visits"].clone())).collect::<Vec<_>>()
    };
    let pair = |value: &str, visits: u64| (value.into(), visits.into());
    assert_eq!(top("medium"), [pair("email", 2), pair("cpc", 1)]);
    assert_eq!(top("term"), [pair("winter boots", 2), pair("tents", 1)]);
    assert_eq!(top("content"), [pair("banner-a", 2), pair("banner-b", 1)]);
    eventually("the column file is built again", || (version(&columns) == 6).then_some(()));
}

/// Starts a server on the log that format version 4 of the column files was written for.
#[test]
fn a_column_file_of_version_4_is_built_again_with_goals() {
    let data = copy_of_golden("columns-4");
    let columns = data.path().join("00000000000000000001.columns");
    let version = || fs::read(&columns).expect("a column file")[8];
    assert_eq!(version(), 4);
    let is_mail =
        json!({ "properties.url": { "$gt": "https://acme.example/?utm_source=news&utm_medium=email" } });
    let goals = json!({ "home": { "name": "Home", "page": "/" }, "mail": { "name": "Mail", "page": "/", "where": is_mail } });
    let server = Server::start_with_data(data.path(), &[("acme.snapshot", &publication(1, &goals))], &[]);
    let assert_counted = || {
        let target = "/insights/overview?site=acme&from=2026-11-01&to=2026-11-05&goal=home&goal=mail";
        let totals = server.admin_get(target).json()["totals"].clone();
        let conversions = [0, 1].map(|number| totals["goals"][number]["conversions"].clone());
        assert_eq!((&totals["visits"], conversions), (&json!(3), [json!(3), json!(2)]));
    };
    assert_counted();
    eventually("the column file is built again", || (version() == 6).then_some(()));
    assert_counted();
}

/// Starts a server on the log that format version 5 of the column files was written for.
#[test]
fn a_column_file_of_version_5_is_built_again_with_properties() {
    let data = copy_of_golden("columns-5");
    let columns = data.path().join("00000000000000000001.columns");
    let version = || fs::read(&columns).expect("a column file")[8];
    assert_eq!(version(), 5);
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme", "properties": ["path"] });
    let home = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;
    let published = snapshot(&[("site.json", &*site.to_string()), ("routes/index.json", home)], 1);
    let server = Server::start_with_data(data.path(), &[("acme.snapshot", &published)], &[]);
    let assert_counted = || {
        let target = "/insights/top?site=acme&from=2026-11-01&to=2026-11-05&of=property:path";
        let rows = server.admin_get(target).json()["rows"].clone();
        assert_eq!((&rows[0]["value"], &rows[0]["views"]), (&json!("/"), &json!(3)));
    };
    assert_counted();
    eventually("the column file is built again", || (version() == 6).then_some(()));
    assert_counted();
}

#[test]
fn a_file_with_any_flipped_bit_or_any_other_length_is_refused() {
    let mut order = Event { kind: RecordKind::Track, event: Some("Order Placed"), ..Event::page(5) };
    order.payload = r#"{"properties":{"revenue":7.25}}"#.to_owned();
    let identify = Event { kind: RecordKind::Identify, user_id: Some("u"), ..Event::page(9) };
    let bytes = build(&[Event::page(0), order, identify]);
    assert_eq!(facts(&bytes).expect("an intact file").len(), 3);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(facts(&flipped), None, "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert_eq!(facts(&bytes[..length]), None, "{length} bytes");
    }
    assert_eq!(facts(&[&bytes[..], &[0]].concat()), None);
}

#[test]
fn a_file_of_another_segment_or_key_is_refused() {
    let directory = temporary_directory();
    let path = directory.path().join("a.columns");
    fs::write(&path, build(&[Event::page(0)])).expect("written");
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    assert!(Columns::open(&disk, &path, 1, 1, KEY).is_ok());
    for (seqs, key) in [((1, 2), KEY), ((2, 1), KEY), ((1, 1), VisitorKey([8; 16]))] {
        assert!(Columns::open(&disk, &path, seqs.0, seqs.1, key).is_err(), "{seqs:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_has_the_facts_of_every_record(
        events in prop_oneof![
            proptest::collection::vec(any_event(), 0..40),
            proptest::collection::vec(any_event(), 1000..1100),
        ],
    ) {
        let rows = facts(&build(&events)).expect("an intact file");
        let has_row = |event: &&Event| !matches!(event.kind, RecordKind::Void | RecordKind::Tombstone);
        let expected: Vec<&Event> = events.iter().filter(has_row).collect();
        prop_assert_eq!(rows.len(), expected.len());
        let mut visitors = std::collections::HashMap::new();
        for (row, event) in rows.iter().zip(expected) {
            prop_assert_eq!(row.time_ms, event.time_ms);
            prop_assert_eq!(row.kind, event.kind as i64 + if event.bot { 64 } else { 0 } + if is_of_visit(event) { 32 } else { 0 });
            prop_assert_eq!(row.agent, event.device as i64);
            prop_assert_eq!(&row.texts[..13], &texts_of(event)[..]);
            let id = event.anon_id.map(|id| ("a", id)).or(event.user_id.map(|id| ("u", id)));
            prop_assert_eq!(row.visitor.is_some(), id.is_some());
            // Equal visitors have equal hashes, and different ones different hashes.
            let id = id.map(|id| (event.site, id));
            prop_assert_eq!(*visitors.entry(id).or_insert(row.visitor), row.visitor);
        }
        let hashes: std::collections::HashSet<_> = visitors.values().collect();
        prop_assert_eq!(hashes.len(), visitors.len());
    }
}

#[test]
fn amounts_are_read_as_duckdb_casts_them() {
    let amount = |text: &str| {
        let payload = format!(r#"{{"event":"e","properties":{{"revenue":{text}}}}}"#);
        let event = Event { kind: RecordKind::Track, payload, ..Event::page(0) };
        facts(&build(&[event])).expect("an intact file")[0].amounts[0]
    };
    let units = |units: i64| Some(Amount::Units(units));
    for (text, expected) in [
        ("7", units(70_000)),
        ("-7.25", units(-72_500)),
        ("\"7.25\"", units(72_500)),
        ("\"-0.00005\"", units(-1)),
        ("0.00005", units(1)),
        ("0.00004", units(0)),
        ("1e3", units(10_000_000)),
        ("99999999999.9999", units(999_999_999_999_999)),
        ("99999999999.99995", Some(Amount::Ignored)),
        ("100000000000", Some(Amount::Ignored)),
        ("1e400", Some(Amount::Ignored)),
        ("\"1e3\"", Some(Amount::Ignored)),
        ("\"+1\"", Some(Amount::Ignored)),
        ("\"1.\"", Some(Amount::Ignored)),
        ("\"\"", Some(Amount::Ignored)),
        ("true", Some(Amount::Ignored)),
        ("{}", Some(Amount::Ignored)),
        ("null", None),
    ] {
        assert_eq!(amount(text), expected, "{text}");
    }
}

#[test]
fn only_properties_of_track_and_screen_events_have_amounts() {
    let amounts = |kind: RecordKind, payload: &str| {
        let event = Event { kind, payload: payload.to_owned(), ..Event::page(0) };
        facts(&build(&[event])).expect("an intact file")[0].amounts
    };
    let payload = r#"{"revenue":1,"properties":{"total":2,"quantity":3,"sum":4}}"#;
    let expected = [None, None, Some(Amount::Units(20_000)), Some(Amount::Units(30_000))];
    assert_eq!(amounts(RecordKind::Track, payload), expected);
    assert_eq!(amounts(RecordKind::Screen, payload), expected);
    assert_eq!(amounts(RecordKind::Page, payload), [None; 4]);
    assert_eq!(amounts(RecordKind::Track, r#"{"properties":"revenue"}"#), [None; 4]);
}

/// Builds a file with these paths, and returns how many of its rows have each of the texts `(other)` and none.
fn others(paths: impl Iterator<Item = String>) -> usize {
    let mut builder = ColumnBuilder::new(1, KEY);
    for path in paths {
        builder.add(&Record { site: Some("s"), path: Some(&path), ..Record::new(RecordKind::Page) });
    }
    let rows = facts(&builder.to_bytes(1)).expect("an intact file");
    rows.iter().filter(|row| row.texts[2].as_deref() == Some("(other)")).count()
}

#[test]
fn a_column_keeps_65536_texts_and_a_file_4_mib_of_them() {
    let distinct = |count: usize| (0..count).map(|number| format!("{number:x}"));
    assert_eq!(others(distinct(COLUMN_TEXTS_MAX - 1)), 0);
    assert_eq!(others(distinct(COLUMN_TEXTS_MAX)), 0);
    assert_eq!(others(distinct(COLUMN_TEXTS_MAX + 1).chain(distinct(3))), 1);
    // The site takes one byte.
    let long = |bytes: usize| {
        let whole = (0..bytes / 8192).map(|number| format!("{number:08192}"));
        whole.chain((!bytes.is_multiple_of(8192)).then(|| "x".repeat(bytes % 8192)))
    };
    assert_eq!(others(long(COLUMN_TEXT_BYTES_MAX - 2)), 0);
    assert_eq!(others(long(COLUMN_TEXT_BYTES_MAX - 1)), 0);
    assert_eq!(others(long(COLUMN_TEXT_BYTES_MAX)), 1);
}

#[test]
fn an_answer_counts_the_rows_whose_site_is_beyond_the_bound() {
    let ask = |sites: usize| {
        let mut builder = ColumnBuilder::new(1, KEY);
        let mut add = |site: &str, timestamp_ms: i64| {
            let anon_id = Some("v");
            builder.add(&Record { site: Some(site), anon_id, timestamp_ms, ..Record::new(RecordKind::Page) });
        };
        (0..sites).for_each(|number| add(&format!("{number:x}-site"), 500));
        [0, 59_999, 60_000, 61_000].into_iter().for_each(|time_ms| add("acme", time_ms));
        let columns = Columns::from_bytes(builder.to_bytes(1)).expect("an intact file");
        let site = SiteFacts::unpublished("acme");
        let range = [("from", "1970-01-01T00:00"), ("to", "1970-01-01T00:01")];
        let question =
            Question::parse(Subject::Overview, range.into_iter(), &site.zone, 90_000_000).expect("valid");
        let limits = Limits { memory_bytes: 1 << 30, is_over: &|| false };
        let query = Query::Views(question);
        let document = answer_over(&[&columns], CountedLog::alone(1), &query, &site, 90_000_000, &limits)
            .expect("an answer")
            .document;
        (document["totals"]["views"].as_u64(), document["other"]["site"].as_u64())
    };
    assert_eq!(ask(0), (Some(2), None));
    assert_eq!(ask(COLUMN_TEXTS_MAX - 1), (Some(2), None));
    assert_eq!(ask(COLUMN_TEXTS_MAX), (Some(0), Some(2)));
    assert_eq!(ask(COLUMN_TEXTS_MAX + 1), (Some(0), Some(3)));
}
