//! Records of other visitors that name an erased ID, and the dedup keys of void records.

use std::path::Path;
use std::sync::Arc;

use parallax::testing::events::export::write_line;
use parallax::testing::events::time;
use parallax::testing::limits::{DEDUP_WINDOW_MS, FOLD_INPUT_BYTES_MAX, TOMBSTONE_IDS_MAX};
use parallax::testing::log::bloom::may_contain;
use parallax::testing::log::{
    LogItem, LogReader, RecordResult, Request, check_directory, read_footer, segment_name,
};
use parallax::testing::record::{IdKind, RECORD_BYTES_MIN, Record, RecordKind};

use super::erasing::send;
use super::naming::erase;
use super::simulated::SimulatedDisk;
use super::{DIRECTORY, Log, TestClock, options, record};
use crate::folded::with_fold_input;

/// Records an alias of `user_id` that names `previous_id`.
fn send_alias(log: &mut Log, key: u128, user_id: &str, previous_id: &str) {
    let payload = format!(r#"{{"previousId":"{previous_id}","note":"{previous_id} again"}}"#);
    let alias =
        Record { kind: RecordKind::Alias, anon_id: None, user_id: Some(user_id), ..record(key, 0, &payload) };
    let mut request = Request::new(0);
    with_fold_input(alias.kind, &payload, |fold_input| request.push(&Record { fold_input, ..alias }))
        .expect("the record is within all limits");
    log.client.send(request).expect("the queue accepts it");
    log.writer.run_once();
}

/// Passes each record of the log to `take`.
fn each_record(disk: &SimulatedDisk, mut take: impl FnMut(u64, &Record<'_>)) {
    let mut reader = LogReader::open(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("the log opens");
    while let Some(item) = reader.read_next().expect("reading succeeds") {
        let LogItem::Records(records) = item else { panic!("{item:?}") };
        records.iter().for_each(|(seq, record)| take(seq, &record));
    }
}

fn holds(disk: &SimulatedDisk, text: &str) -> bool {
    let holds = |name: &String| {
        let bytes = disk.bytes(&Path::new(DIRECTORY).join(name));
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    disk.names().iter().any(holds)
}

#[test]
fn an_alias_that_names_an_erased_id_loses_it_and_its_payload_only() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    send(&mut log, 0, &[(1, "ana-1"), (2, "bob")]);
    send_alias(&mut log, 3, "user-bob", "ana-1");
    send(&mut log, 0, &[(4, "bob")]);
    let erased = erase(&mut log, &["ana-1"]).expect("the disk works");
    assert_eq!((erased.records, erased.redacted), (1, 1));
    log.stop();
    assert!(!holds(&disk, "ana-1"));
    let mut seen = Vec::new();
    each_record(&disk, |seq, record| {
        seen.push((seq, record.kind, record.is_redacted));
        if record.is_redacted {
            assert_eq!((record.user_id, record.payload, record.key), (Some("user-bob"), "{}", 3));
            assert_eq!(
                (record.event, record.path, record.fold_input.length()),
                (Some("Viewed"), Some("/x"), 0)
            );
        }
    });
    let expected = [
        (1, RecordKind::Void, false),
        (2, RecordKind::Track, false),
        (3, RecordKind::Alias, true),
        (4, RecordKind::Track, false),
        (5, RecordKind::Tombstone, false),
    ];
    assert_eq!(seen, expected);
    let checked = check_directory(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("reading succeeds");
    assert_eq!((checked.damage, checked.records, checked.void_records), (vec![], 5, 1));
}

#[test]
fn the_filter_of_a_segment_has_previous_ids_as_both_kinds_of_id() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    send_alias(&mut log, 1, "user-bob", "ana-1");
    log.stop();
    let path = Path::new(DIRECTORY).join(segment_name(1));
    let filter = read_footer(&disk, &path).expect("reading succeeds").expect("the segment is sealed").filter;
    let has = |kind, id| may_contain(&filter, "acme", kind, id);
    assert!(has(IdKind::Anon, "ana-1") && has(IdKind::User, "ana-1") && has(IdKind::User, "user-bob"));
    assert!(!has(IdKind::Anon, "user-bob"));
}

#[test]
fn a_redacted_record_is_redacted_again_and_then_becomes_void() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    send_alias(&mut log, 1, "user-bob", "ana-1");
    assert_eq!(erase(&mut log, &["ana-1"]).expect("the disk works").redacted, 1);
    let again = erase(&mut log, &["ana-1"]).expect("the disk works");
    assert_eq!((again.records, again.redacted, again.segments), (0, 0, 0), "nothing names the ID any more");
    let erased = erase(&mut log, &["user-bob"]).expect("the disk works");
    assert_eq!((erased.records, erased.redacted), (1, 0));
    log.stop();
    assert!(!holds(&disk, "user-bob"));
    let checked = check_directory(Arc::new(disk), Path::new(DIRECTORY), 0).expect("reading succeeds");
    assert_eq!((checked.damage, checked.void_records), (vec![], 1));
}

#[test]
fn a_retry_of_an_erased_event_is_a_duplicate_for_24_hours_also_after_a_restart() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let open = || Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    let now_ms = |clock: &TestClock| parallax::testing::clock::Clock::now_ms(clock);
    let mut log = open();
    send(&mut log, now_ms(&clock), &[(1, "ana-1")]);
    clock.pass(DEDUP_WINDOW_MS as u64 - 1);
    send(&mut log, now_ms(&clock), &[(2, "ana-1")]);
    erase(&mut log, &["ana-1"]).expect("the disk works");
    assert_eq!(send(&mut log, now_ms(&clock), &[(1, "ana-1")]), [RecordResult::Duplicate]);
    log.stop();
    let mut log = open();
    assert_eq!(send(&mut log, now_ms(&clock), &[(1, "ana-1"), (2, "ana-1")]), [RecordResult::Duplicate; 2]);
    // One millisecond later the first key is no longer in the window, so a further erasure removes it.
    clock.pass(1);
    send(&mut log, now_ms(&clock), &[(3, "ana-1")]);
    erase(&mut log, &["ana-1"]).expect("the disk works");
    log.stop();
    let mut keys = Vec::new();
    each_record(&disk, |_, record| keys.extend((record.kind == RecordKind::Void).then_some(record.key)));
    assert_eq!(keys, [1, 2, 3], "a void record is not changed again");
}

#[test]
fn an_erasure_removes_keys_that_are_no_longer_in_the_window() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    let now_ms = |clock: &TestClock| parallax::testing::clock::Clock::now_ms(clock);
    send(&mut log, now_ms(&clock), &[(1, "ana-1")]);
    clock.pass(DEDUP_WINDOW_MS as u64);
    send(&mut log, now_ms(&clock), &[(2, "ana-1")]);
    erase(&mut log, &["ana-1"]).expect("the disk works");
    log.stop();
    let mut keys = Vec::new();
    each_record(&disk, |_, record| keys.extend((record.kind == RecordKind::Void).then_some(record.key)));
    assert_eq!(keys, [0, 2]);
}

#[test]
fn tombstones_of_one_erasure_name_their_owner_and_at_most_1024_ids_each() {
    for (ids, tombstones) in [(TOMBSTONE_IDS_MAX - 1, 1), (TOMBSTONE_IDS_MAX, 1), (TOMBSTONE_IDS_MAX + 1, 2)]
    {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
        send(&mut log, 0, &[(1, "nobody-0")]);
        let names: Vec<String> = (0..ids).map(|n| format!("nobody-{n}")).collect();
        let erased = erase(&mut log, &names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(erased.expect("the disk works").seq, 1 + tombstones, "the seq of the last tombstone");
        log.stop();
        let mut payloads = Vec::new();
        each_record(&disk, |_, record| {
            payloads.extend((record.kind == RecordKind::Tombstone).then(|| record.payload.to_owned()));
        });
        assert_eq!(payloads.len() as u64, tombstones);
        let owner = &payloads[0][..r#"{"owner":""}"#.len() + 32 - 1];
        assert!(payloads.iter().all(|payload| payload.starts_with(owner)), "all name the same owner");
        let named: usize = payloads.iter().map(|payload| payload.split(',').count() - 1).sum();
        assert_eq!(named, ids);
    }
}

#[test]
fn a_fold_input_has_a_size_limit_and_zeros_at_multiples_of_eight() {
    let mut encoded = Vec::new();
    record(1, 0, "").encode(&mut encoded).expect("the record is within all limits");
    for (length, is_valid) in
        [(FOLD_INPUT_BYTES_MAX - 1, true), (FOLD_INPUT_BYTES_MAX, true), (FOLD_INPUT_BYTES_MAX + 1, false)]
    {
        let mut bytes = encoded.clone();
        bytes.resize(encoded.len() + length.div_ceil(7) * 8, 0);
        let total = bytes.len() as u32;
        bytes[..4].copy_from_slice(&total.to_le_bytes());
        bytes[RECORD_BYTES_MIN - 12..RECORD_BYTES_MIN - 8].copy_from_slice(&(length as u32).to_le_bytes());
        assert_eq!(Record::decode(&bytes).is_some(), is_valid, "{length}");
        for at in encoded.len()..bytes.len() {
            if at % 8 != 0 || at > encoded.len() + 64 {
                continue;
            }
            bytes[at] = 0xFF;
            assert_eq!(Record::decode(&bytes), None, "a byte that must be 0");
            bytes[at] = 0;
        }
    }
}

#[test]
fn a_redacted_alias_keeps_the_times_of_its_client() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    send(&mut log, 0, &[(1, "ana-1")]);
    let payload = r#"{"previousId":"ana-1","timestamp":1767600000000,"sentAt":1767603600000}"#;
    let alias =
        Record { kind: RecordKind::Alias, anon_id: None, user_id: Some("user-bob"), ..record(2, 0, payload) };
    let mut request = Request::new(0);
    with_fold_input(alias.kind, payload, |fold_input| request.push(&Record { fold_input, ..alias }))
        .expect("the record is within all limits");
    log.client.send(request).expect("the queue accepts it");
    log.writer.run_once();
    assert_eq!(erase(&mut log, &["ana-1"]).expect("the disk works").redacted, 1);
    log.stop();
    assert!(!holds(&disk, "ana-1"));
    let mut times = Vec::new();
    each_record(&disk, |seq, record| {
        if record.user_id == Some("user-bob") {
            let mut line = Vec::new();
            write_line(&mut line, seq, record);
            let line: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
            let ms = |name: &str| time::parse(line[name].as_str().expect("a time")).expect("a time");
            times.push(ms("sentAt") - ms("clientTimestamp"));
        }
    });
    assert_eq!(times, [3_600_000]);
}
