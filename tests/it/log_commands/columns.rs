//! `export --format parquet`, read back with the reader of the same library.

use super::{Row, as_arg, run, write_sealed_log};
use crate::harness::temporary_directory;

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_names_the_cargo_feature() {
    let directory = temporary_directory();
    write_sealed_log(directory.path(), &[Row::of("a")]);
    run(&["export", as_arg(directory.path()), "--format", "parquet"])
        .assert_exit(2, &["cargo build --release --features parquet"]);
}

#[cfg(feature = "parquet")]
mod built_in {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs::File;
    use std::process::Stdio;

    use parallax::testing::limits::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX};
    use parallax::testing::log::{Options, WriteOutcome};
    use parallax::testing::record::{Code, Device, RecordKind};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::{Value, json};

    use super::super::{Log, parallax};
    use super::{Row, as_arg, run, temporary_directory, write_sealed_log};
    use crate::dice::Dice;
    use crate::harness::{Server, eventually};

    fn text(text: Option<&str>) -> Field {
        text.map_or(Field::Null, |text| Field::Str(text.to_owned()))
    }

    /// Returns the columns of a row, in order.
    fn expected(seq: usize, row: &Row) -> Vec<(&'static str, Field)> {
        let record = row.record();
        let names_tie = row.kind == RecordKind::Identify && record.user_id.is_some() && !row.bot;
        vec![
            ("seq", Field::Long(seq as i64)),
            ("receivedAt", Field::TimestampMicros(row.received_ms * 1000)),
            ("timestamp", Field::TimestampMicros(row.timestamp_ms * 1000)),
            ("clientTimestamp", Field::Null),
            ("sentAt", Field::Null),
            ("site", text(record.site)),
            ("type", text(Some(record.kind.name()))),
            ("messageId", text(record.message_id)),
            ("anonId", text(record.anon_id)),
            ("userId", text(record.user_id)),
            ("tied", text(record.anon_id.filter(|_| names_tie))),
            ("event", text(record.event)),
            ("name", text(record.name)),
            ("path", text(record.path)),
            ("bot", Field::Bool(row.bot)),
            ("gpc", Field::Bool(row.gpc)),
            ("variants", text(record.variants)),
            ("experiments", text(record.experiments)),
            ("referrerHost", Field::Null),
            ("source", Field::Null),
            ("medium", Field::Null),
            ("campaign", Field::Null),
            ("term", Field::Null),
            ("content", Field::Null),
            ("device", text((row.device != Device::Unknown).then(|| row.device.as_str()))),
            ("os", Field::Null),
            ("browser", Field::Null),
            ("country", text(row.country.as_ref().map(Code::as_str))),
            ("language", Field::Null),
            ("ip", text(record.ip)),
            ("payload", text(Some(record.payload))),
        ]
    }

    #[test]
    fn the_parquet_columns_match_the_records() {
        let mut dice = Dice(7);
        let rows: Vec<Row> = (0..300).map(|_| Row::random(&mut dice)).collect();
        let directory = temporary_directory();
        write_sealed_log(directory.path(), &rows);
        let path = directory.path().join("a.parquet");
        run(&["export", as_arg(directory.path()), "--format", "parquet", "-o", as_arg(&path)])
            .assert_exit(0, &["300 records"]);
        let reader = SerializedFileReader::new(File::open(&path).expect("the file exists")).expect("Parquet");
        for (at, row) in reader.get_row_iter(None).expect("rows").enumerate() {
            let row = row.expect("a row");
            let columns: Vec<_> =
                row.get_column_iter().map(|(name, field)| (&**name, field.clone())).collect();
            assert_eq!(columns, expected(at + 1, &rows[at]));
        }
        assert_eq!(reader.metadata().file_metadata().num_rows(), 300);
        // A pipe receives the same bytes, and an export of no records is a file without rows.
        let piped = parallax(&["export", as_arg(directory.path()), "--format", "parquet"])
            .stderr(Stdio::inherit())
            .output();
        assert_eq!(piped.expect("the command runs").stdout, std::fs::read(&path).expect("the file exists"));
        run(&[
            "export",
            as_arg(directory.path()),
            "--format",
            "parquet",
            "--since",
            "300",
            "-o",
            as_arg(&path),
        ])
        .assert_exit(0, &[]);
        let empty = SerializedFileReader::new(File::open(&path).expect("the file exists")).expect("Parquet");
        assert_eq!(empty.metadata().file_metadata().num_rows(), 0);
    }

    /// Returns a member of a line as the column of the same name has it.
    fn as_column(name: &str, member: &Value) -> Field {
        match (name, member) {
            (_, Value::Null) => Field::Null,
            (_, Value::Bool(flag)) => Field::Bool(*flag),
            ("payload", payload) => Field::Str(payload.to_string()),
            ("seq", seq) => Field::Long(seq.as_str().and_then(|seq| seq.parse().ok()).expect("digits")),
            ("receivedAt" | "timestamp" | "clientTimestamp" | "sentAt", time) => {
                let time: jiff::Timestamp = time.as_str().and_then(|time| time.parse().ok()).expect("a time");
                Field::TimestampMicros(time.as_microsecond())
            }
            (_, member) => Field::Str(member.as_str().expect("a text").to_owned()),
        }
    }

    #[test]
    fn parquet_and_ndjson_have_the_same_columns_with_the_same_values() {
        let demo = parallax::testing::cli::demo::compile_demo().1;
        let server = Server::start(&[("demo.snapshot", &demo)], &[]);
        let context = json!({ "country": "de", "locale": "de-AT", "campaign": { "name": "may", "medium": "letter", "term": "tents", "content": "b" },
            "userAgent": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1" });
        let batch = json!({ "trackingId": "track_demo", "context": context, "sentAt": "2026-01-05T10:00:00Z", "batch": [
            { "type": "page", "anonId": "v", "timestamp": "2026-01-05T09:59:00Z", "name": "Home", "variants": "", "experiments": "slow-front:~",
                "properties": { "url": "https://fjell.example/?utm_source=x", "referrer": "https://search.example/" } },
            { "type": "page", "anonId": "v", "properties": { "url": "https://fjell.example/?utm_source=mail" },
                "context": { "campaign": { "source": "mail" } } },
            { "type": "track", "anonId": "v", "userId": "u", "event": "Experiment Viewed",
                "properties": { "experiment_id": "cta", "variation_id": "b" } },
            { "type": "screen", "anonId": "v", "context": { "userAgent": "Googlebot" } },
            { "type": "alias", "previousId": "w", "userId": "u" },
        ] });
        let receipt = server.post("/v1/batch", &[], batch.to_string().as_bytes());
        assert_eq!(receipt.json()["accepted"], 5, "{}", receipt.text());
        let lines: Vec<Value> = eventually("the events are exported", || {
            let output = run(&["export", as_arg(server.data())]);
            let lines = output.out.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            Some(lines.collect::<Vec<_>>()).filter(|lines| lines.len() == 5)
        });
        let directory = temporary_directory();
        let path = directory.path().join("a.parquet");
        run(&["export", as_arg(server.data()), "--format", "parquet", "-o", as_arg(&path)])
            .assert_exit(0, &[]);
        let reader = SerializedFileReader::new(File::open(&path).expect("the file exists")).expect("Parquet");
        let mut filled = BTreeSet::new();
        for (line, row) in lines.iter().zip(reader.get_row_iter(None).expect("rows")) {
            let row = row.expect("a row");
            let mut columns: BTreeMap<_, _> =
                row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
            if let Some(Field::Str(payload)) = columns.get_mut("payload") {
                *payload = serde_json::from_str::<Value>(payload).expect("JSON").to_string();
            }
            let members = line.as_object().expect("an object").iter();
            let members: BTreeMap<_, _> =
                members.map(|(name, member)| (name.clone(), as_column(name, member))).collect();
            assert_eq!(columns, members);
            filled
                .extend(columns.into_iter().filter(|(_, field)| *field != Field::Null).map(|(name, _)| name));
        }
        let never: Vec<_> =
            lines[0].as_object().expect("an object").keys().filter(|name| !filled.contains(*name)).collect();
        assert_eq!(never, ["ip"], "every other column has a value in some row");
    }

    #[test]
    fn a_row_group_has_a_limit_on_rows_and_on_bytes() {
        let directory = temporary_directory();
        let mut log = Log::open(directory.path(), Options::default());
        let small = vec![Row::of("a"); 4 * 1024];
        for _ in 0..ROW_GROUP_ROWS_MAX / small.len() {
            assert_eq!(log.push(&small), WriteOutcome::Durable);
        }
        let mut large = Row::of("b");
        large.payload = format!("\"{}\"", "x".repeat(512 * 1024));
        let large_count = ROW_GROUP_BYTES_MAX / (512 * 1024) + 1;
        for _ in 0..large_count {
            assert_eq!(log.push(std::slice::from_ref(&large)), WriteOutcome::Durable);
        }
        log.close();
        let path = directory.path().join("a.parquet");
        run(&["export", as_arg(directory.path()), "--format", "parquet", "-o", as_arg(&path)])
            .assert_exit(0, &[]);
        let reader = SerializedFileReader::new(File::open(&path).expect("the file exists")).expect("Parquet");
        let rows = reader.metadata().row_groups().iter().map(|group| group.num_rows() as usize);
        assert_eq!(rows.collect::<Vec<_>>(), [ROW_GROUP_ROWS_MAX, large_count - 1, 1]);
    }
}
