//! A reader returns the durable records after a given seq, also while a writer appends.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use parallax::testing::clock::Clock;
use parallax::testing::log::bloom::may_contain;
use parallax::testing::log::{
    LogItem, LogReader, Options, PLACE_CHECK_MS, Request, read_footer, segment_name,
};
use parallax::testing::record::{Code, IdKind, Record, RecordContext, RecordKind, UserAgentInfo};

use super::simulated::SimulatedDisk;
use super::{DIRECTORY, Log, START_MS, TestClock, options, record};

fn read(disk: &SimulatedDisk, since: u64) -> Vec<(u64, u128)> {
    let mut reader =
        LogReader::open(Arc::new(disk.clone()), Path::new(DIRECTORY), since).expect("the log opens");
    let mut read = Vec::new();
    while let Some(item) = reader.read_next().expect("reading succeeds") {
        match item {
            LogItem::Records(records) => read.extend(records.iter().map(|(seq, record)| (seq, record.key))),
            LogItem::Damage(damage) => panic!("{damage}"),
        }
    }
    read
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reader_returns_the_accepted_records_after_a_seq(
        batches in proptest::collection::vec(1..60_usize, 0..40),
        segment_bytes in prop_oneof![Just(1_u64), 1..100_000_u64],
        since in 0..1200_u64,
        stops: bool,
    ) {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let options = Options { segment_bytes, ..options() };
        let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
        let mut key = 0;
        for batch in batches {
            let keys: Vec<u128> = (0..batch).map(|_| { key += 1; key }).collect();
            log.record(&keys, clock.now_ms());
        }
        if stops {
            log.stop();
        } else {
            clock.pass(100);
            log.writer.run_once();
        }
        let expected = (since + 1..=key as u64).map(|seq| (seq, u128::from(seq)));
        prop_assert!(read(&disk, since).into_iter().eq(expected));
    }

    #[test]
    fn a_record_decodes_as_it_was_encoded(
        numbers in (any::<bool>(), any::<bool>(), -1_i64 << 46..1 << 46, -1_i64 << 46..1 << 46, any::<u128>()),
        texts in proptest::array::uniform10(proptest::option::of("\\PC{0,20}")),
        payload in "\\PC{0,200}",
        kind in proptest::sample::select(vec![RecordKind::Void, RecordKind::Page, RecordKind::Alias, RecordKind::Tombstone]),
    ) {
        let text = |column: usize| texts[column].as_deref();
        let (bot, gpc, received_ms, timestamp_ms, key) = numbers;
        let record = Record {
            bot, gpc, received_ms, timestamp_ms, key,
            site: text(0), message_id: text(1), anon_id: text(2), user_id: text(3), event: text(4),
            name: text(5), path: text(6), variants: text(7), ip: text(8),
            experiments: text(9), payload: &payload,
            context: RecordContext::new(UserAgentInfo::default(), Code::new(b"DE"), Code::new(b"de")),
            ..Record::new(kind)
        };
        let mut bytes = vec![7; 8];
        record.encode(&mut bytes).expect("the record is within all limits");
        prop_assert_eq!(Record::decode(&bytes[8..]), Some((record, bytes.len() - 8)));
        for length in 8..bytes.len() {
            prop_assert_eq!(Record::decode(&bytes[8..length]), None);
        }
    }
}

#[test]
fn a_reader_returns_only_records_that_the_file_marks_durable() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    log.record(&[1], clock.now_ms());
    log.record(&[2], clock.now_ms());
    assert_eq!(read(&disk, 0), [(1, 1)]);
    clock.pass(99);
    log.writer.run_once();
    assert_eq!(read(&disk, 0), [(1, 1)]);
    assert_eq!(log.writer.next_due().map(|due| due.as_millis()), Some(100));
    clock.pass(1);
    log.writer.run_once();
    assert_eq!(read(&disk, 0), [(1, 1), (2, 2)], "an idle writer marks them durable");
    let due = log.writer.next_due().map(|due| due.as_millis() as u64);
    assert_eq!(due, Some(PLACE_CHECK_MS), "and then only checks its directory");
    assert_eq!(log.record(&[3], clock.now_ms()).request.results().len(), 1);
    assert_eq!(log.stop().durable_seq, 3);
    assert_eq!(read(&disk, 2), [(3, 3)]);
}

#[test]
fn the_bloom_filter_of_a_footer_has_few_false_positives() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    let ids: Vec<String> = (0..1000).map(|id| format!("v{id}")).collect();
    let mut request = Request::new(0);
    for (key, id) in ids.iter().enumerate() {
        let record = Record { anon_id: Some(id), user_id: None, ..record(key as u128 + 1, START_MS, "{}") };
        request.push(&record).expect("the record is within all limits");
    }
    log.client.send(request).expect("the queue accepts it");
    log.writer.run_once();
    log.stop();
    let path = Path::new(DIRECTORY).join(segment_name(1));
    let footer = read_footer(&disk, &path).expect("reading succeeds").expect("the segment is sealed");
    assert_eq!((footer.first_seq, footer.last_seq, footer.newest_ms), (1, 1000, START_MS));
    assert!(ids.iter().all(|id| may_contain(&footer.filter, "acme", IdKind::Anon, id)));
    let strangers = (0..1000).map(|id| format!("w{id}"));
    let passed = strangers.filter(|id| may_contain(&footer.filter, "acme", IdKind::Anon, id)).count();
    let users = ids.iter().filter(|id| may_contain(&footer.filter, "acme", IdKind::User, id)).count();
    assert!(passed < 50 && users < 50, "{passed} unknown visitors and {users} users pass, of 1000");
    assert!(footer.filter.len() <= 2048, "{} bytes for 1000 visitors", footer.filter.len());
}
