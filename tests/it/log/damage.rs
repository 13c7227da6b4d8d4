//! The log finds cut and changed bytes, and they cost only the batches that they hit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::testing::checksum::crc32c;
use parallax::testing::clock::Clock;
use parallax::testing::limits::SEQ_MAX;
use parallax::testing::log::format::{
    HEADER_BYTES, Header, batch_length, oldest_from_bytes, oldest_to_bytes,
};
use parallax::testing::log::{
    DamageKind, LogError, LogId, LogItem, LogReader, Options, check_directory, check_file,
    parse_segment_name, read_footer, segment_name,
};
use parallax::testing::record::{Code, Record, RecordContext, RecordKind, UserAgentInfo};

use super::simulated::SimulatedDisk;
use super::{DIRECTORY, Log, START_MS, TestClock, hex, options, record};
use crate::folded::with_fold_input;
use crate::harness::times;

fn path(first_seq: u64) -> PathBuf {
    Path::new(DIRECTORY).join(segment_name(first_seq))
}

/// Returns a segment of at least `bytes` bytes in batches of one to three records, without reserved zeros.
fn segment(bytes: usize, is_sealed: bool) -> Vec<u8> {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    let mut key = 0;
    while log.queue.metrics().bytes() < bytes as u64 {
        let keys: Vec<u128> = (0..1 + key % 3).map(|more| key + more + 1).collect();
        key += keys.len() as u128;
        log.record(&keys, clock.now_ms());
    }
    if is_sealed {
        log.stop();
        return disk.bytes(&path(1));
    }
    let mut written = disk.bytes(&path(1));
    written.truncate(batches(&written).last().expect("there is a batch").1);
    written
}

/// Returns the start, the end, the first seq and the next seq of each batch.
fn batches(bytes: &[u8]) -> Vec<(usize, usize, u64, u64)> {
    let (mut at, mut seq, mut batches) = (HEADER_BYTES, 1, Vec::new());
    while let Some(length) = bytes.get(at..).and_then(batch_length) {
        let count = u64::from(bytes[at + 24]);
        batches.push((at, at + length, seq, seq + count));
        (at, seq) = (at + length, seq + count);
    }
    batches
}

fn disk_with(bytes: &[u8]) -> SimulatedDisk {
    let disk = disk_of_a_new_log();
    disk.put(&path(1), bytes);
    disk
}

/// Returns the disk of a log without records. It has the files beside the segments.
fn disk_of_a_new_log() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    drop(Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("the log opens"));
    disk
}

/// Returns the seqs that a reader returns, and whether it reports damage.
fn read(disk: &SimulatedDisk) -> (Vec<u64>, bool) {
    let mut reader = LogReader::open(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("the log opens");
    let (mut seqs, mut reports_damage) = (Vec::new(), false);
    while let Some(item) = reader.read_next().expect("reading succeeds") {
        match item {
            LogItem::Records(records) => seqs.extend(records.iter().map(|(seq, _)| seq)),
            LogItem::Damage(_) => reports_damage = true,
        }
    }
    (seqs, reports_damage)
}

#[test]
fn a_segment_cut_in_its_last_two_batches_recovers_an_exact_prefix() {
    let whole = segment(4_000, false);
    let batches = batches(&whole);
    let last_two = batches[batches.len() - 2].0;
    for (length, zeros) in (last_two..=whole.len()).flat_map(|length| [(length, 0), (length, 3_000)]) {
        let disk = disk_with(&[&whole[..length], &vec![0; zeros]].concat());
        // Where the removed bytes are zeros, the appended zeros restore them.
        let length = length + whole[length..].iter().take(zeros).take_while(|byte| **byte == 0).count();
        let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("the log opens");
        let next_seq = batches.iter().rev().find(|batch| batch.1 <= length).map_or(1, |batch| batch.3);
        let expected: Vec<u64> = (1..next_seq).collect();
        let consumed: Vec<u64> = log.consumed().iter().map(|(seq, _)| *seq).collect();
        assert_eq!(consumed, expected, "cut at {length}");
        let is_clean = length == last_two || batches.iter().any(|batch| batch.1 == length);
        let kinds: Vec<DamageKind> = log.report.damage.iter().map(|damage| damage.kind).collect();
        assert_eq!(kinds, if is_clean { vec![] } else { vec![DamageKind::Torn] }, "cut at {length}");
        assert_eq!(log.report.quarantined.len(), kinds.len());
        drop(log);
        let again = Log::open(Arc::new(disk), &Arc::default(), options()).expect("the log opens");
        assert_eq!(again.report.damage, [], "reported once; cut at {length}");
        assert_eq!(again.consumed().len(), expected.len());
    }
}

#[test]
fn every_flipped_bit_is_found_and_costs_at_most_its_batch() {
    let whole = segment(57_000, true);
    let batches = batches(&whole);
    let all: Vec<u64> = (1..batches[batches.len() - 1].3).collect();
    assert_eq!(read(&disk_with(&whole)), (all.clone(), false));
    for bit in (0..whole.len() * 8).step_by(times(397, 1)) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let disk = disk_with(&bytes);
        let checked =
            check_directory(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("reading succeeds");
        assert_eq!(checked.damage.len(), 1, "bit {bit}: {:?}", checked.damage);
        let hit = batches.iter().find(|batch| (batch.0..batch.1).contains(&(bit / 8)));
        let lost = hit.map_or(0..0, |batch| batch.2..batch.3);
        assert_eq!(checked.damage[0].lost_seqs, lost, "bit {bit}");
        // Without a valid footer a segment looks like one after a crash. A reader cannot know that its last
        // batch is durable.
        let footer_is_hit = bit / 8 >= batches[batches.len() - 1].1;
        let unproven = if footer_is_hit { batches[batches.len() - 1].2.. } else { u64::MAX.. };
        let left = all.iter().filter(|seq| !lost.contains(seq) && !unproven.contains(seq));
        let (seqs, reports_damage) = read(&disk);
        assert!(seqs.iter().eq(left), "bit {bit}");
        assert!(reports_damage, "bit {bit}");
    }
}

#[test]
fn unexpected_damage_costs_one_batch_and_does_not_stop_recovery() {
    let mut bytes = segment(4_000, false);
    let batches = batches(&bytes);
    let hit = batches[2];
    bytes[hit.0 + 60] ^= 1;
    let log = Log::open(Arc::new(disk_with(&bytes)), &Arc::default(), options()).expect("the log opens");
    assert!(log.report.has_unexpected_damage());
    let damage = &log.report.damage[0];
    assert_eq!((damage.offset, damage.bytes), (hit.0 as u64, (hit.1 - hit.0) as u64));
    assert_eq!(damage.lost_seqs, hit.2..hit.3);
    assert!(damage.to_string().starts_with("00000000000000000001.segment at "), "{damage}");
    let next_seq = batches[batches.len() - 1].3;
    let consumed: Vec<u64> = log.consumed().iter().map(|(seq, _)| *seq).collect();
    assert!(consumed.into_iter().eq((1..next_seq).filter(|seq| !damage.lost_seqs.contains(seq))));
}

#[test]
fn a_segment_with_a_damaged_header_is_read_by_its_name() {
    let mut bytes = segment(2_000, true);
    bytes[17] ^= 1;
    let checked = check_file(Arc::new(disk_with(&bytes)), &path(1)).expect("reading succeeds");
    assert_eq!(checked.damage.iter().map(|damage| damage.kind).collect::<Vec<_>>(), [DamageKind::Header]);
    assert_eq!(checked.records, batches(&bytes).last().expect("there is a batch").3 - 1);
}

#[test]
fn a_missing_segment_is_reported_with_its_lost_seqs() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = parallax::testing::log::Options { segment_bytes: 1, ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options.clone()).expect("the disk works");
    for key in 1..=4 {
        log.record(&[key], clock.now_ms());
    }
    log.stop();
    for (missing, lost) in [(1, 1..2), (2, 2..3)] {
        let disk_without = SimulatedDisk::new(1);
        for seq in (1..=4).filter(|seq| *seq != missing) {
            disk_without.put(&path(seq), &disk.bytes(&path(seq)));
        }
        let log = Log::open(Arc::new(disk_without), &clock, options.clone()).expect("the log opens");
        assert_eq!(log.report.damage.len(), 1);
        assert_eq!(
            (log.report.damage[0].kind, log.report.damage[0].lost_seqs.clone()),
            (DamageKind::Missing, lost)
        );
        assert_eq!((log.consumed().len(), log.report.next_seq), (3, 5));
    }
}

#[test]
fn no_payload_forges_a_batch() {
    let forged = segment(300, false);
    let text: String = forged[HEADER_BYTES..].iter().map(|&byte| char::from(byte)).collect();
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    let magic = u128::from_le_bytes(*b"\xFFPLXBATC\xFFPLXBATC");
    let forger = record(magic, i64::from_le_bytes(*b"\xFFPLXBATC"), &text);
    let mut request = parallax::testing::log::Request::new(0);
    request.push(&forger).expect("the record is within all limits");
    log.client.send(request).expect("the queue accepts it");
    log.writer.run_once();
    log.record(&[1], START_MS);
    let bytes = disk.bytes(&path(1));
    let magics = bytes.chunks_exact(8).filter(|word| word[0] == 0xFF && word[1..4] == *b"PLX");
    assert_eq!(magics.count(), 3, "header and two batches");
}

#[test]
fn the_smallest_segment_matches_the_golden_file() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { log_id: Some(LogId(*b"the ID of a log.")), ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
    let key = 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100;
    let mut request = parallax::testing::log::Request::new(0);
    let payload = r#"{"properties":{"url":"https://a/","referrer":"https://b/"}}"#;
    let page = Record {
        context: RecordContext::new(UserAgentInfo::default(), Code::new(b"DE"), Code::new(b"de")),
        experiments: Some("e:b"),
        kind: RecordKind::Page,
        ..record(key, START_MS, payload)
    };
    with_fold_input(page.kind, payload, |fold_input| request.push(&Record { fold_input, ..page }))
        .expect("the record is within all limits");
    log.client.send(request).expect("the queue accepts it");
    log.writer.run_once();
    log.stop();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.segment.hex");
    let written = hex(&disk.bytes(&path(1)));
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&golden, &written).expect("the golden file is written");
    }
    let golden = std::fs::read_to_string(golden).expect("the golden file");
    assert_eq!(written, golden, "a change of the format needs a new format version");
    assert_eq!(batches(&disk.bytes(&path(1))).len(), 1);
}

#[test]
fn a_wrong_header_does_not_lose_records_that_recovery_rewrites() {
    let mut whole = segment(300, false);
    let batches = batches(&whole);
    // The first batch is above the watermark. Recovery writes it again under the same name.
    whole.truncate(batches[0].1);
    whole[..HEADER_BYTES]
        .copy_from_slice(&Header { first_seq: 0, created_ms: START_MS, log_id: LogId([7; 16]) }.to_bytes());
    let disk = disk_with(&whole);
    for _ in 0..2 {
        let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("the log opens");
        let seqs: Vec<u64> = log.consumed().iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs, (1..batches[0].3).collect::<Vec<_>>());
    }
}

#[test]
fn a_segment_with_a_wrong_name_is_renamed_back_and_loses_nothing() {
    for is_sealed in [true, false] {
        let whole = segment(2_000, is_sealed);
        let disk = SimulatedDisk::new(1);
        let all = batches(&whole);
        // Recovery starts its segment after the last seq that is proven durable. In a sealed segment that
        // is the end of the last batch. In an unsealed one it is the end of the batch before.
        let next_seq = if is_sealed { all[all.len() - 1].3 } else { all[all.len() - 1].2 };
        disk.put(&path(next_seq), &whole);
        for kinds in [&[DamageKind::Name][..], &[]] {
            let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("the log opens");
            let found: Vec<DamageKind> = log.report.damage.iter().map(|damage| damage.kind).collect();
            assert_eq!(found, kinds, "reported once");
            let seqs: Vec<u64> = log.consumed().iter().map(|(seq, _)| *seq).collect();
            assert_eq!(seqs, (1..all[all.len() - 1].3).collect::<Vec<_>>());
            drop(log);
        }
        assert!(disk.names().contains(&segment_name(1)));
    }
}

#[test]
fn a_second_copy_of_a_segment_is_an_error_that_names_the_file() {
    let whole = segment(2_000, true);
    let disk = disk_with(&whole);
    disk.put(&path(9), &whole);
    let opened = Log::open(Arc::new(disk.clone()), &Arc::default(), options());
    assert!(matches!(opened.err(), Some(LogError::Misnamed { file, first_seq: 1 }) if file == path(9)));
    assert_eq!((disk.bytes(&path(1)), disk.bytes(&path(9))), (whole.clone(), whole));
}

#[test]
fn a_file_that_recovery_replaces_is_quarantined() {
    let mut whole = segment(2_000, true);
    let all = batches(&whole);
    let next_seq = all[all.len() - 1].3;
    // The file was renamed, and its header no longer tells its first seq.
    whole[0] ^= 1;
    let disk = SimulatedDisk::new(1);
    disk.put(&path(next_seq), &whole);
    let log = Log::open(Arc::new(disk.clone()), &Arc::default(), options()).expect("the log opens");
    assert!(log.report.has_unexpected_damage());
    let [quarantined] = &log.report.quarantined[..] else { panic!("{:?}", log.report) };
    assert_eq!(disk.bytes(&Path::new(DIRECTORY).join(quarantined)), whole[HEADER_BYTES..]);
}

/// Returns the sealed segment with another last seq in its footer and a matching checksum.
fn with_last_seq(whole: &[u8], last_seq: u64) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let trailer = bytes.len() - 24;
    let footer = u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().expect("8 bytes")) as usize;
    bytes[footer + 16..footer + 24].copy_from_slice(&last_seq.to_le_bytes());
    let crc = crc32c(&[&bytes[footer..trailer + 12], &bytes[trailer + 16..]]);
    bytes[trailer + 12..trailer + 16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn no_file_can_make_a_seq_overflow() {
    let whole = segment(2_000, true);
    for (last_seq, is_footer) in
        [(SEQ_MAX - 2, true), (SEQ_MAX - 1, true), (SEQ_MAX, false), (u64::MAX, false)]
    {
        let disk = disk_with(&with_last_seq(&whole, last_seq));
        assert_eq!(
            read_footer(&disk, &path(1)).expect("reading succeeds").is_some(),
            is_footer,
            "{last_seq}"
        );
        let mut log = Log::open(Arc::new(disk), &Arc::default(), options()).expect("the log opens");
        let next_seq = if is_footer { last_seq + 1 } else { batches(&whole)[batches(&whole).len() - 1].3 };
        assert_eq!((log.report.next_seq, log.report.has_unexpected_damage()), (next_seq, true));
        log.record(&[99], START_MS);
    }
    for (seq, is_known) in [(0, false), (1, true), (SEQ_MAX - 1, true), (SEQ_MAX, true), (SEQ_MAX + 1, false)]
    {
        let header = Header { first_seq: seq, created_ms: 0, log_id: LogId([7; 16]) }.to_bytes();
        assert_eq!(Header::from_bytes(&header).is_ok(), is_known, "{seq}");
        assert_eq!(oldest_from_bytes(&oldest_to_bytes(seq)).is_some(), seq <= SEQ_MAX);
        assert_eq!(parse_segment_name(&segment_name(seq)).is_some(), seq <= SEQ_MAX);
    }
    let exhausted = parallax::testing::log::Options { checkpointed_seq: SEQ_MAX, ..options() };
    let opened = Log::open(Arc::new(SimulatedDisk::new(1)), &Arc::default(), exhausted);
    assert!(matches!(opened.err(), Some(LogError::SeqExhausted { seq: SEQ_MAX, .. })));
}

#[test]
fn a_damaged_end_of_a_sealed_segment_is_damage_that_costs_no_record() {
    let whole = segment(500, true);
    let batches_end = batches(&whole).last().expect("there is a batch").1;
    let flipped = (batches_end..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    });
    let longer = [1, 8, 700].map(|more| [&whole[..], &vec![b'x'; more]].concat());
    for bytes in flipped.chain(longer) {
        let disk = disk_with(&bytes);
        let checked =
            check_directory(Arc::new(disk.clone()), Path::new(DIRECTORY), 0).expect("it is readable");
        let kinds: Vec<DamageKind> = checked.damage.iter().map(|damage| damage.kind).collect();
        assert_eq!(kinds, [DamageKind::Footer], "{:?}", checked.damage);
        let log = Log::open(Arc::new(disk), &Arc::default(), options()).expect("the log opens");
        assert!(log.report.has_unexpected_damage());
        assert_eq!(log.consumed().len() as u64, checked.records);
    }
    for length in batches_end..whole.len() {
        let disk = disk_with(&whole[..length]);
        let log = Log::open(Arc::new(disk), &Arc::default(), options()).expect("the log opens");
        assert!(!log.report.has_unexpected_damage(), "a crash can leave {length} bytes");
    }
}
