//! Any column file is refused or read without a panic, and of a changed file no row is read that was not written.

use std::sync::LazyLock;

use parallax::testing::checksum::crc32c;
use parallax::testing::insights::{
    ColumnBuilder, Columns, CountedLog, Limits, Query, Question, RowFacts, SiteFacts, Subject, VisitorKey,
    Zone, answer_over,
};
use parallax::testing::record::{FoldInputBuilder, Record, RecordKind};

const NOW_MS: i64 = 1_800_000_000_000;
const HEADER_BYTES: usize = 312;
const SECTIONS_OFFSET: usize = 60;
const SECTIONS: usize = 31;

static FILE: LazyLock<Vec<u8>> = LazyLock::new(build_file);
static FACTS: LazyLock<Vec<RowFacts>> = LazyLock::new(|| {
    let columns = Columns::from_bytes(FILE.clone()).expect("an intact file");
    columns.facts().expect("an intact file")
});

/// The first byte, modulo 3, gives the meaning of the other bytes. 0: a file. 1 and 2: a length to which a
/// valid file is cut, and changes of three bytes each: offset (little-endian) and new byte. In 2 the
/// checksums are corrected after the changes.
pub fn columns(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let file = match kind % 3 {
        0 => bytes.to_vec(),
        1 => changed(bytes),
        _ => with_valid_checksums(changed(bytes)),
    };
    let Ok(columns) = Columns::from_bytes(file) else { return };
    let facts = columns.facts();
    if kind % 3 == 1
        && let Ok(facts) = facts
    {
        assert_eq!(facts, *FACTS, "a changed file is refused");
    }
    for memory_bytes in [2_000, 1 << 20] {
        ask(&columns, memory_bytes);
    }
}

/// Asks questions that read all columns.
fn ask(columns: &Columns, memory_bytes: u64) {
    let site = SiteFacts::unpublished("acme");
    let limits = Limits { memory_bytes, is_over: &|| false };
    for (subject, of) in [(Subject::Overview, "page"), (Subject::Top, "source"), (Subject::Top, "device")] {
        let pairs = [("of", of), ("country", "DE"), ("event", "Order Placed")];
        let question =
            Question::parse(subject, pairs.into_iter(), &Zone::utc(), NOW_MS).expect("valid parameters");
        // A damaged file is an error, not a panic.
        let _ =
            answer_over(&[columns], CountedLog::alone(9), &Query::Views(question), &site, NOW_MS, &limits);
    }
}

fn changed(input: &[u8]) -> Vec<u8> {
    let mut file = FILE.clone();
    let Some((length, changes)) = input.split_first_chunk() else { return file };
    file.truncate(usize::from(u16::from_le_bytes(*length)));
    for &[low, high, byte] in changes.as_chunks().0 {
        if let Some(at) = file.get_mut(usize::from(u16::from_le_bytes([low, high]))) {
            *at = byte;
        }
    }
    file
}

/// Corrects the checksums of the sections and of the header.
fn with_valid_checksums(mut file: Vec<u8>) -> Vec<u8> {
    let mut start = HEADER_BYTES;
    for entry in (0..SECTIONS).map(|section| SECTIONS_OFFSET + 8 * section) {
        let Some(length) = file.get(entry..entry + 4) else { return file };
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(section) = file.get(start..).and_then(|rest| rest.get(..length)) else { return file };
        let crc = crc32c(&[section]);
        file[entry + 4..entry + 8].copy_from_slice(&crc.to_le_bytes());
        start += length;
    }
    let crc = crc32c(&[&file[..HEADER_BYTES - 4]]);
    file[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    file
}

/// Writes the columns of twelve records of all kinds.
fn build_file() -> Vec<u8> {
    let mut builder = ColumnBuilder::new(1, VisitorKey([7; 16]));
    for number in 0..12_i64 {
        let kinds = [RecordKind::Page, RecordKind::Track, RecordKind::Identify, RecordKind::Screen];
        let mut fold_input = FoldInputBuilder::default();
        if number % 3 == 0 {
            fold_input.add_touch([
                Some("news"),
                None,
                Some("spring"),
                None,
                None,
                Some("https://b.example/"),
            ]);
        }
        builder.add(&Record {
            received_ms: NOW_MS - 50_000 + number,
            timestamp_ms: NOW_MS - 60_000 - 7_000 * (number % 5),
            site: Some(["acme", "other"][usize::from(number == 7)]),
            anon_id: Some(["a", "b", "c"][number as usize % 3]),
            user_id: (number % 4 == 2).then_some("u"),
            event: (number % 4 == 1).then_some("Order Placed"),
            path: Some(["/", "/a"][number as usize % 2]),
            variants: Some("hero:x"),
            experiments: Some("cta:b"),
            payload: r#"{"properties":{"revenue":12.5,"total":"x"}}"#,
            fold_input: fold_input.finish(),
            ..Record::new(kinds[number as usize % 4])
        });
    }
    builder.to_bytes(12)
}
