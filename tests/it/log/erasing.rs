//! No byte of the directory contains an erased visitor, and the records of all others are unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parallax::testing::clock::Clock;
use parallax::testing::limits::{
    PAYLOAD_BYTES_MAX, RETENTION_INTERVAL_MS, REWRITE_CHUNK_BYTES, TOMBSTONE_IDS_MAX,
    TOMBSTONES_PER_BATCH_MAX,
};
use parallax::testing::log::bloom::may_contain;
use parallax::testing::log::format::{BATCH_HEADER_BYTES, HEADER_BYTES, batch_length};
use parallax::testing::log::{
    self, DamageKind, EraseError, ErasureSummary, LogConsumer, LogItem, LogReader, Options, RecordResult,
    Records, Request, VisitorIds, WriteOutcome, check_directory, read_footer, segment_name,
};
use parallax::testing::record::{IdKind, RECORD_BYTES_MIN, Record, RecordKind, TombstoneKey, VisitorId};
use parallax::testing::storage::disk::{Disk, RealDisk};

use super::naming::{erase, finish, visitor};
use super::simulated::{Plan, SimulatedDisk};
use super::{DIRECTORY, Log, TestClock, options, record};
use crate::dice::Dice;
use crate::harness::temporary_directory;

/// Sends one request with a record for each key and visitor. Returns no results if the disk is unavailable.
pub fn send(log: &mut Log, now_ms: i64, records: &[(u128, &str)]) -> Vec<RecordResult> {
    let mut request = Request::new(0);
    for (key, visitor) in records {
        let payload = format!(r#"{{"note":"{visitor} was here at {key}"}}"#);
        let (anon_id, user_id) = match visitor.strip_prefix("user-") {
            Some(_) => (None, Some(*visitor)),
            None => (Some(*visitor), None),
        };
        let name = format!("page of {visitor}");
        let record = Record { anon_id, user_id, name: Some(&name), ..record(*key, now_ms, &payload) };
        request.push(&record).expect("the record is within all limits");
    }
    if log.client.send(request).is_err() {
        return Vec::new();
    }
    log.writer.run_once();
    let completion = log.client.next_completion().expect("one step completes the request");
    let is_refused = completion.outcome == WriteOutcome::DiskUnavailable;
    if is_refused { Vec::new() } else { completion.request.results().to_vec() }
}

/// Returns the seq, the kind and the payload of each record, and the damage.
fn read(disk: Arc<dyn Disk>, directory: &Path) -> (Vec<(u64, RecordKind, String)>, Vec<DamageKind>) {
    let mut reader = LogReader::open(disk, directory, 0).expect("the log opens");
    let (mut read, mut kinds) = (Vec::new(), Vec::new());
    while let Some(item) = reader.read_next().expect("reading succeeds") {
        match item {
            LogItem::Records(records) => {
                let entry = |(seq, record): (u64, Record<'_>)| (seq, record.kind, record.payload.to_owned());
                read.extend(records.iter().map(entry));
            }
            LogItem::Damage(damage) => kinds.push(damage.kind),
        }
    }
    (read, kinds)
}

/// Returns the files of the simulated directory that contain `text`.
pub fn files_with(disk: &SimulatedDisk, text: &str) -> Vec<String> {
    let holds = |name: &String| contains(&disk.bytes(&Path::new(DIRECTORY).join(name)), text);
    disk.names().into_iter().filter(|name| name != "lock").filter(holds).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn an_erasure_removes_every_byte_of_the_visitor_and_nothing_else() {
    let directory = temporary_directory();
    let directory = directory.path();
    let clock = Arc::<TestClock>::default();
    let options = Options { segment_bytes: 4_000, ..options() };
    let mut log =
        Log::open_at(directory, Arc::new(RealDisk), &clock, options.clone()).expect("the log opens");
    let mut dice = Dice(7);
    let visitors = ["ana-1", "ana-2", "user-ana", "bob-1", "user-carl", "ana-11", "dora-1"];
    let mut sent = Vec::new();
    for batch in 0..60_u128 {
        let records: Vec<(u128, &str)> =
            (1..=1 + dice.below(5) as u128).map(|n| (batch * 10 + n, *dice.pick(&visitors))).collect();
        send(&mut log, clock.now_ms(), &records);
        sent.extend(records);
    }
    let before = read(Arc::new(RealDisk), directory).0;
    let erased_ids = ["ana-1", "ana-2", "user-ana"];
    let erased = erase(&mut log, &erased_ids).expect("the disk works");
    let is_erased = |seq: u64| erased_ids.contains(&sent[seq as usize - 1].1);
    let count = (1..=sent.len() as u64).filter(|seq| is_erased(*seq)).count();
    assert_eq!((erased.records, erased.seq), (count as u64, sent.len() as u64 + 1));
    assert!(erased.segments > 5, "{erased:?}");
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry")) {
        let bytes = fs::read(entry.path()).expect("reading succeeds");
        for text in ["ana-1 was", "ana-1Viewed", "page of ana-1/", "ana-2", "user-ana"] {
            assert!(!contains(&bytes, text), "{text} is in {:?}", entry.file_name());
        }
    }
    assert_eq!(send(&mut log, clock.now_ms(), &[(9_999, "ana-1")]), [RecordResult::Accepted(erased.seq + 1)]);
    log.stop();
    let (after, kinds) = read(Arc::new(RealDisk), directory);
    assert_eq!((after.len(), kinds), (sent.len() + 2, vec![]));
    for (seq, kind, payload) in &before {
        let now = &after[*seq as usize - 1];
        if is_erased(*seq) {
            assert_eq!((now.0, now.1, now.2.trim_matches('\0')), (*seq, RecordKind::Void, ""));
        } else {
            assert_eq!(now, &(*seq, *kind, payload.clone()));
        }
    }
    assert!(
        after[sent.len() + 1].2.contains("ana-1 was here"),
        "an event after the erasure belongs to a new visitor"
    );
    let checked = check_directory(Arc::new(RealDisk), directory, 0).expect("reading succeeds");
    assert_eq!((checked.damage, checked.void_records), (vec![], count as u64));
    let log = Log::open_at(directory, Arc::new(RealDisk), &clock, options).expect("the log opens");
    assert_eq!((log.report.damage.len(), log.report.interrupted_erasure), (0, None));
    assert_eq!(
        fs::metadata(directory.join("secret")).expect("the file exists").permissions().mode() & 0o777,
        0o600
    );
}

/// Returns a log of five batches, each in a segment of its own.
fn five_segments(disk: &SimulatedDisk, clock: &Arc<TestClock>, options: Options) -> Log {
    let options = Options { segment_bytes: 1, ..options };
    let mut log = Log::open(Arc::new(disk.clone()), clock, options).expect("the disk works");
    for (key, visitors) in
        [["ana", "bob"], ["bob", "carl"], ["user-ana", "dora"], ["bob", "bob"], ["ana", "ana"]]
            .iter()
            .enumerate()
    {
        let key = 2 * key as u128 + 1;
        send(&mut log, clock.now_ms(), &[(key, visitors[0]), (key + 1, visitors[1])]);
    }
    log
}

#[test]
fn an_erasure_rewrites_only_segments_that_contain_the_visitor() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five_segments(&disk, &clock, options());
    disk.take_log();
    let erased = erase(&mut log, &["ana", "user-ana"]).expect("the disk works");
    assert_eq!(erased, ErasureSummary { records: 4, redacted: 0, segments: 3, seq: 11 });
    let renamed: Vec<String> =
        disk.take_log().into_iter().filter(|line| line.ends_with(".segment")).collect();
    let expected = [1, 5, 9].map(|seq| format!("rename /data/{}", segment_name(seq)));
    assert!(expected.iter().all(|line| renamed.contains(line)), "{renamed:?}");
    assert!(!renamed.iter().any(|line| line.ends_with(&segment_name(3)) || line.ends_with(&segment_name(7))));
    let footer = |seq| {
        let path = Path::new(DIRECTORY).join(segment_name(seq));
        read_footer(&disk, &path).expect("reading succeeds").expect("the segment is sealed")
    };
    let keys = |seq| footer(seq).keys.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    assert_eq!(
        [keys(1), keys(5), keys(9)],
        [vec![1, 2], vec![5, 6], vec![9, 10]],
        "void records keep their keys"
    );
    assert!(!may_contain(&footer(1).filter, "acme", IdKind::Anon, "ana"));
    assert!(may_contain(&footer(1).filter, "acme", IdKind::Anon, "bob"));
    assert_eq!((footer(9).first_seq, footer(9).last_seq), (9, 10));
    log.stop();
    let mut log = Log::open(Arc::new(disk), &clock, options()).expect("the log opens");
    assert_eq!(
        log.consumed().into_iter().map(|(_, key)| key).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]
    );
    let completion = log.record(&[1, 2, 8, 9], clock.now_ms());
    assert_eq!(
        completion.request.results(),
        [RecordResult::Duplicate; 4],
        "a retry is a duplicate, also of an erased event and after a restart"
    );
}

/// A call that a log consumer received.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ConsumerCall {
    Consumed(u64, RecordKind),
    Erased(VisitorIds, u64),
    TombstoneMatches(u64, Vec<bool>),
}

#[derive(Clone)]
struct RecordingConsumer {
    disk: SimulatedDisk,
    calls: Arc<Mutex<Vec<ConsumerCall>>>,
}

impl LogConsumer for RecordingConsumer {
    fn consume(&mut self, records: Records<'_>) {
        let mut calls = self.calls.lock().expect("the mutex is not poisoned");
        for (seq, record) in records.iter() {
            calls.push(ConsumerCall::Consumed(seq, record.kind));
            if record.kind == RecordKind::Tombstone {
                let secret = TombstoneKey::read(Arc::new(self.disk.clone()), Path::new(DIRECTORY));
                let secret = secret.expect("reading succeeds").expect("the file exists");
                let of = |site, id_kind, id| secret.is_tombstone_of(&record, VisitorId { site, id_kind, id });
                calls.push(ConsumerCall::TombstoneMatches(
                    seq,
                    vec![
                        of("acme", IdKind::Anon, "ana"),
                        of("acme", IdKind::User, "user-ana"),
                        of("acme", IdKind::User, "ana"),
                        of("other", IdKind::Anon, "ana"),
                        of("acme", IdKind::Anon, "bob"),
                    ],
                ));
                assert!(!record.payload.contains("ana"), "a tombstone contains an ID: {}", record.payload);
            }
        }
    }

    fn on_erase(&mut self, visitor: &VisitorIds, seq: u64) {
        self.calls
            .lock()
            .expect("the mutex is not poisoned")
            .push(ConsumerCall::Erased(visitor.clone(), seq));
    }
}

#[test]
fn consumers_receive_erasures_in_order_and_match_tombstones_by_key() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let recorder = RecordingConsumer { disk: disk.clone(), calls: Arc::default() };
    let open = || {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        let consumer = Box::new(recorder.clone());
        log::open(Path::new(DIRECTORY), options(), Arc::new(disk.clone()), clock, consumer)
            .expect("the disk works")
    };
    let (queue, mut writer, _) = open();
    let client = queue.client(Arc::new(|| ()));
    let mut both = Request::new(0);
    both.push(&Record { anon_id: Some("ana"), ..record(1, 0, "{}") })
        .expect("the record is within all limits");
    client.send(both).expect("the queue accepts it");
    let key = TombstoneKey::read(Arc::new(disk.clone()), Path::new(DIRECTORY));
    let key = key.expect("the disk works").expect("the key is made with the directory");
    let erasure = queue.erase(visitor(&key, &["user-ana", "ana"])).expect("no other erasure runs");
    writer.run_once();
    finish(erasure, &key, &["user-ana", "ana"]).expect("the disk works");
    let matches_tombstone = ConsumerCall::TombstoneMatches(2, vec![true, true, false, false, false]);
    let tombstone = ConsumerCall::Consumed(2, RecordKind::Tombstone);
    let calls = std::mem::take(&mut *recorder.calls.lock().expect("the mutex is not poisoned"));
    let erased = ConsumerCall::Erased(visitor(&key, &["user-ana", "ana"]), 2);
    assert_eq!(
        calls,
        [ConsumerCall::Consumed(1, RecordKind::Track), erased, tombstone.clone(), matches_tombstone.clone()]
    );
    queue.stop();
    writer.close();
    drop(open());
    let calls = recorder.calls.lock().expect("the mutex is not poisoned").clone();
    assert_eq!(calls, [ConsumerCall::Consumed(1, RecordKind::Void), tombstone, matches_tombstone]);
}

#[test]
fn one_erasure_runs_at_a_time_with_any_number_of_ids() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five_segments(&disk, &clock, options());
    assert!(matches!(erase(&mut log, &[]), Err(EraseError::NoIds)));
    let in_batch = TOMBSTONES_PER_BATCH_MAX * TOMBSTONE_IDS_MAX;
    let mut seq = 10;
    for count in [1, in_batch - 1, in_batch, in_batch + 1] {
        let ids: Vec<String> = (0..count).map(|n| format!("nobody-{n}")).collect();
        let erased = erase(&mut log, &ids.iter().map(String::as_str).collect::<Vec<_>>());
        let erased = erased.expect("the disk works");
        seq += count.div_ceil(TOMBSTONE_IDS_MAX) as u64;
        assert_eq!((erased.records, erased.seq), (0, seq), "{count}");
    }
    let first = log.queue.erase(visitor(&log.key, &["ana"])).expect("no other erasure runs");
    assert!(matches!(log.queue.erase(visitor(&log.key, &["bob"])).err(), Some(EraseError::Busy)));
    assert!(log.queue.metrics().is_erasing());
    log.writer.run_once();
    assert!(matches!(log.queue.erase(visitor(&log.key, &["bob"])).err(), Some(EraseError::Busy)));
    finish(first, &log.key, &["ana"]).expect("the disk works");
    let forgotten = log.queue.erase(visitor(&log.key, &["bob"])).expect("the first has ended");
    drop(forgotten);
    assert!(
        matches!(log.queue.erase(visitor(&log.key, &["bob"])).err(), Some(EraseError::Busy)),
        "a dropped erasure still runs"
    );
    log.writer.run_once();
    assert_eq!(erase(&mut log, &["carl"]).expect("the disk works").records, 5, "with the four of bob");
    let waiting = log.queue.erase(visitor(&log.key, &["dora"])).expect("the other erasures have ended");
    log.queue.stop();
    log.writer.close();
    assert_eq!(finish(waiting, &log.key, &["dora"]).expect("a queued erasure completes").records, 1);
    assert!(matches!(log.queue.erase(visitor(&log.key, &["bob"])).err(), Some(EraseError::Stopped)));
}

#[test]
fn an_erasure_delays_retention_but_not_events() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let retained = Options { retain_ms: Some(90_000), ..options() };
    let mut log = five_segments(&disk, &clock, retained);
    let erasure = log.queue.erase(visitor(&log.key, &["ana"])).expect("no other erasure runs");
    log.writer.run_once();
    clock.pass(2 * RETENTION_INTERVAL_MS);
    assert_eq!(send(&mut log, clock.now_ms(), &[(77, "ana")]), [RecordResult::Accepted(12)]);
    assert!(disk.names().contains(&segment_name(1)), "old segments remain during the erasure");
    let due = log.writer.next_due().expect("retention is due again") - clock.monotonic();
    assert!(due.as_millis() > 0, "the writer does not spin");
    assert_eq!(finish(erasure, &log.key, &["ana"]).expect("the disk works").records, 3);
    clock.pass(RETENTION_INTERVAL_MS);
    log.writer.run_once();
    let segments: Vec<String> = disk
        .names()
        .into_iter()
        .filter(|name| log::parse_segment_name(name).is_some_and(|seq| seq < 11))
        .collect();
    assert_eq!(segments, [""; 0], "old segments expire after the erasure");
    assert_eq!(
        files_with(&disk, "ana was here"),
        [segment_name(12)],
        "only the record of the new visitor remains"
    );
}

#[test]
fn an_erasure_deletes_expired_segments_that_retention_left() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five_segments(&disk, &clock, Options { retain_ms: Some(1_000), ..options() });
    clock.pass(RETENTION_INTERVAL_MS);
    let kept = disk.bytes(&Path::new(DIRECTORY).join(segment_name(1)));
    log.writer.run_once();
    assert!(!disk.names().contains(&segment_name(1)));
    disk.put(&Path::new(DIRECTORY).join(segment_name(1)), &kept);
    erase(&mut log, &["ana"]).expect("the disk works");
    assert_eq!(files_with(&disk, "ana"), [""; 0]);
}

#[test]
fn an_erasure_also_cleans_quarantined_tails() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five_segments(&disk, &clock, options());
    let whole = disk.bytes(&Path::new(DIRECTORY).join(segment_name(1)));
    let end = HEADER_BYTES + batch_length(&whole[HEADER_BYTES..]).expect("a batch");
    let torn_path = |n: u32| Path::new(DIRECTORY).join(format!("{:020}.torn-{n}", 1));
    let torn = b"ana was here and whoever else: {{{";
    disk.put(&torn_path(1), &whole[HEADER_BYTES..end]);
    disk.put(&torn_path(2), &[&[1; 16], &whole[HEADER_BYTES..end], &torn[..]].concat());
    disk.put(&torn_path(3), torn);
    let others = disk.bytes(&Path::new(DIRECTORY).join(segment_name(3)));
    let end_of_others = HEADER_BYTES + batch_length(&others[HEADER_BYTES..]).expect("a batch");
    disk.put(&torn_path(4), &others[HEADER_BYTES..end_of_others]);
    let erased = erase(&mut log, &["ana"]).expect("the disk works");
    assert_eq!(erased.records, 3, "records in quarantined tails do not count");
    assert_eq!(files_with(&disk, "ana was"), [segment_name(5)], "user-ana is another visitor");
    assert_eq!(
        files_with(&disk, "bob was here at 2"),
        [segment_name(1), "00000000000000000001.torn-1".to_owned(), "00000000000000000001.torn-2".to_owned()]
    );
    assert!(
        !disk.names().contains(&"00000000000000000001.torn-3".to_owned()),
        "the file contains no whole batch"
    );
    assert_eq!(
        disk.bytes(&torn_path(4)),
        others[HEADER_BYTES..end_of_others],
        "the file contains nothing of the visitor"
    );
    assert_eq!(disk.bytes(&torn_path(2))[..16], [0; 16]);
}

#[test]
fn an_erasure_zeroes_damage_that_may_contain_the_visitor() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    let keys = 1..=4_u128;
    keys.clone().for_each(|key| drop(send(&mut log, 0, &[(key, "ana"), (key + 10, "bob")])));
    log.stop();
    let path = Path::new(DIRECTORY).join(segment_name(1));
    let mut bytes = disk.bytes(&path);
    let batch = batch_length(&bytes[HEADER_BYTES..]).expect("a batch");
    bytes[HEADER_BYTES + batch + 90] ^= 1;
    disk.put(&path, &bytes);
    let lost = |disk: &SimulatedDisk| {
        let checked =
            check_directory(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("reading succeeds");
        checked.damage.iter().map(|damage| (damage.kind, damage.lost_seqs.clone())).collect::<Vec<_>>()
    };
    let before = lost(&disk);
    assert_eq!(before, [(DamageKind::Batch, 3..5)]);
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
    assert_eq!(erase(&mut log, &["ana"]).expect("the disk works").records, 3);
    assert_eq!((lost(&disk), files_with(&disk, "ana")), (before, vec![]));
    let damaged = HEADER_BYTES + batch..HEADER_BYTES + 2 * batch;
    assert!(disk.bytes(&path)[damaged].iter().all(|byte| *byte == 0), "the other batches keep their offsets");
    assert_eq!(files_with(&disk, "bob was here at 14"), [segment_name(1)]);
}

#[test]
fn batches_around_the_rewrite_chunk_size_keep_their_offsets() {
    for bytes in
        [REWRITE_CHUNK_BYTES - 8, REWRITE_CHUNK_BYTES, REWRITE_CHUNK_BYTES + 8, 3 * REWRITE_CHUNK_BYTES]
    {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
        let mut request = Request::new(0);
        let record = |key| Record { anon_id: Some("ana"), ..record(key, 0, "") };
        let texts = ["acme", "m", "ana", "Viewed", "/x"].concat().len();
        let parts = 2 * bytes.div_ceil(PAYLOAD_BYTES_MAX);
        for key in 1..=parts {
            let part = (bytes - BATCH_HEADER_BYTES - request.byte_len()) / (parts + 1 - key) / 8 * 8;
            let payload = "x".repeat(part - RECORD_BYTES_MIN - texts);
            request
                .push(&Record { payload: &payload, ..record(key as u128) })
                .expect("the record is within all limits");
        }
        assert_eq!(request.byte_len() + BATCH_HEADER_BYTES, bytes);
        log.client.send(request).expect("the queue accepts it");
        log.writer.run_once();
        send(&mut log, 0, &[(98, "bob"), (99, "ana")]);
        let path = Path::new(DIRECTORY).join(segment_name(1));
        let before = disk.bytes(&path);
        let others = HEADER_BYTES + bytes..HEADER_BYTES + bytes + BATCH_HEADER_BYTES;
        assert_eq!(erase(&mut log, &["ana"]).expect("the disk works").records, parts as u64 + 1);
        let after = disk.bytes(&path);
        assert_eq!(
            after[others.clone()][..12],
            before[others][..12],
            "only the checksum of the header changes"
        );
        assert!(
            contains(&after, "bob was here at 98") && !contains(&after, "ana") && !contains(&after, "xxxx")
        );
        let checked = check_directory(Arc::new(disk), Path::new(DIRECTORY), 0).expect("reading succeeds");
        assert_eq!((checked.damage, checked.void_records), (vec![], parts as u64 + 1));
    }
}

#[test]
fn a_damaged_secret_is_reported_and_prevents_erasures() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five_segments(&disk, &clock, options());
    erase(&mut log, &["ana"]).expect("the disk works");
    let path = Path::new(DIRECTORY).join("secret");
    let mut bytes = disk.bytes(&path);
    bytes[9] ^= 1;
    disk.put(&path, &bytes);
    let refused = erase(&mut log, &["bob"]).expect_err("the key is damaged").to_string();
    assert!(refused.contains("`secret` is damaged"), "{refused}");
    assert_eq!(files_with(&disk, "bob was here at 3").len(), 1, "the erasure did not begin");
    drop(log);
    disk.put(&Path::new(DIRECTORY).join("erasing"), b"");
    let log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the log opens");
    assert_eq!(log.report.damage.iter().map(|damage| damage.kind).collect::<Vec<_>>(), [DamageKind::Secret]);
    assert!(log.report.has_unexpected_damage() && disk.names().contains(&"erasing".to_owned()));
}

#[test]
fn an_erasure_on_a_full_disk_fails_and_can_be_repeated() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five_segments(&disk, &clock, options());
    disk.plan(Plan::Full);
    let refused = erase(&mut log, &["ana"]).expect_err("the disk is full").to_string();
    assert!(refused.ends_with("the next erasure or the next start finishes it"), "{refused}");
    disk.plan(Plan::Never);
    clock.pass(500);
    log.writer.run_once();
    assert_eq!(erase(&mut log, &["ana"]).expect("the disk works").records, 3);
    assert_eq!(files_with(&disk, "ana was").len(), 1);
}
