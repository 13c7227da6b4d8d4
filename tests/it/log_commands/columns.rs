//! `export --format parquet`, read back by the library's own reader.

use super::{Row, run, sealed, word};
use crate::harness::temporary_folder;

#[cfg(not(feature = "parquet"))]
#[test]
fn a_program_without_parquet_says_how_to_get_one_with_it() {
    let folder = temporary_folder();
    sealed(folder.path(), &[Row::of("a")]);
    run(&["export", word(folder.path()), "--format", "parquet"])
        .is(2, &["cargo build --release --features parquet"]);
}

#[cfg(feature = "parquet")]
mod built_in {
    use std::fs::File;
    use std::process::Stdio;

    use parallax::limits::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX};
    use parallax::visitors::log::{Options, Outcome};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::super::{Log, parallax};
    use super::{Row, run, sealed, temporary_folder, word};
    use crate::dice::Dice;

    fn text(text: Option<&str>) -> Field {
        text.map_or(Field::Null, |text| Field::Str(text.to_owned()))
    }

    /// A row's columns, in their order.
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
            ("ip", text(record.ip)),
            ("payload", text(Some(record.payload))),
        ]
    }

    #[test]
    fn the_columns_say_what_was_recorded() {
        let mut dice = Dice(7);
        let rows: Vec<Row> = (0..300).map(|_| Row::random(&mut dice)).collect();
        let folder = temporary_folder();
        sealed(folder.path(), &rows);
        let path = folder.path().join("a.parquet");
        run(&["export", word(folder.path()), "--format", "parquet", "-o", word(&path)])
            .is(0, &["300 records"]);
        let reader = SerializedFileReader::new(File::open(&path).expect("there")).expect("Parquet");
        for (at, row) in reader.get_row_iter(None).expect("rows").enumerate() {
            let row = row.expect("a row");
            let columns: Vec<_> =
                row.get_column_iter().map(|(name, field)| (&**name, field.clone())).collect();
            assert_eq!(columns, expected(at + 1, &rows[at]));
        }
        assert_eq!(reader.metadata().file_metadata().num_rows(), 300);
        // A pipe gets the same bytes, and an export of nothing is a file without rows.
        let piped = parallax(&["export", word(folder.path()), "--format", "parquet"])
            .stderr(Stdio::inherit())
            .output();
        assert_eq!(piped.expect("it runs").stdout, std::fs::read(&path).expect("there"));
        run(&["export", word(folder.path()), "--format", "parquet", "--since", "300", "-o", word(&path)])
            .is(0, &[]);
        let empty = SerializedFileReader::new(File::open(&path).expect("there")).expect("Parquet");
        assert_eq!(empty.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn a_row_group_ends_at_its_rows_and_at_its_bytes() {
        let folder = temporary_folder();
        let mut log = Log::open(folder.path(), Options::default());
        let small = vec![Row::of("a"); 4 * 1024];
        for _ in 0..ROW_GROUP_ROWS_MAX / small.len() {
            assert_eq!(log.push(&small), Outcome::Durable);
        }
        let mut large = Row::of("b");
        large.payload = format!("\"{}\"", "x".repeat(512 * 1024));
        let larges = ROW_GROUP_BYTES_MAX / (512 * 1024) + 1;
        for _ in 0..larges {
            assert_eq!(log.push(std::slice::from_ref(&large)), Outcome::Durable);
        }
        log.close();
        let path = folder.path().join("a.parquet");
        run(&["export", word(folder.path()), "--format", "parquet", "-o", word(&path)]).is(0, &[]);
        let reader = SerializedFileReader::new(File::open(&path).expect("there")).expect("Parquet");
        let rows = reader.metadata().row_groups().iter().map(|group| group.num_rows() as usize);
        assert_eq!(rows.collect::<Vec<_>>(), [ROW_GROUP_ROWS_MAX, larges - 1, 1]);
    }
}
