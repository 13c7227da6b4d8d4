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
    use std::fs::File;
    use std::process::Stdio;

    use parallax::testing::limits::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX};
    use parallax::testing::visitors::log::{Code, Device, Options, WriteOutcome};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::super::{Log, parallax};
    use super::{Row, as_arg, run, temporary_directory, write_sealed_log};
    use crate::dice::Dice;

    fn text(text: Option<&str>) -> Field {
        text.map_or(Field::Null, |text| Field::Str(text.to_owned()))
    }

    /// Returns the columns of a row, in order.
    fn expected(seq: usize, row: &Row) -> Vec<(&'static str, Field)> {
        let record = row.record();
        vec![
            ("seq", Field::Long(seq as i64)),
            ("receivedAt", Field::TimestampMicros(row.received_ms * 1000)),
            ("timestamp", Field::TimestampMicros(row.timestamp_ms * 1000)),
            ("site", text(record.site)),
            ("type", text(Some(record.kind.name()))),
            ("messageId", text(record.message_id)),
            ("anonId", text(record.anon_id)),
            ("userId", text(record.user_id)),
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
