//! Any segment is read, checked, inspected and recovered without a panic, and no record is read that was
//! not written.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use parallax::testing::checksum::crc32c;
use parallax::testing::clock::Clock;
use parallax::testing::log::format::{BATCH_MAGIC, HEADER_BYTES, Header, TRAILER_MAGIC, batch_length};
use parallax::testing::log::{
    self, LogError, LogId, LogItem, LogReader, Options, Records, Request, check_file, inspect, segment_name,
};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::Disk;

use super::memory::MemoryDisk;

const DIRECTORY: &str = "/data";
const NOW_MS: i64 = 1_800_000_000_000;

/// A record of the log: its seq and its encoded bytes.
type Entry = (u64, Vec<u8>);

/// A sealed and an unsealed segment, with the same records.
static SEGMENTS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [build_segment(true), build_segment(false)]);
static ENTRIES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| recover(&disk_with(&SEGMENTS[0])).expect("a complete segment"));

/// A clock that does not advance.
struct FixedClock;

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// The first byte, modulo 6, gives the meaning of the other bytes. 0: a file. 1: the bytes after a valid
/// header. 2 to 5: a length to which a valid segment is cut, and changes of three bytes each: offset
/// (little-endian) and new byte. 2 and 4 change the sealed segment, 3 and 5 the unsealed one. In 4 and 5
/// the checksums are corrected after the changes.
pub fn segment(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let kind = kind % 6;
    let file = match kind {
        0 => bytes.to_vec(),
        1 => [&Header { first_seq: 1, created_ms: NOW_MS, log_id: LogId([7; 16]) }.to_bytes()[..], bytes]
            .concat(),
        2 | 3 => changed(&SEGMENTS[usize::from(kind & 1)], bytes),
        _ => with_valid_checksums(changed(&SEGMENTS[usize::from(kind & 1)], bytes)),
    };
    let disk = disk_with(&file);
    // Other inputs can have valid checksums over records that were never written.
    let can_be_forged = !(2..4).contains(&kind);
    check_and_inspect(&disk, file.len());
    let read = read(&disk, file.len());
    let recovered = recover(&disk);
    let again = recover(&disk);
    assert_eq!(recovered, again, "a second recovery returns the same records");
    if !can_be_forged {
        for entries in read.iter().chain(&recovered) {
            assert!(is_subsequence(entries, &ENTRIES), "{:?}", seqs(entries));
        }
        if let (Some(read), Some(recovered)) = (&read, &recovered) {
            assert!(is_subsequence(read, recovered), "{:?} {:?}", seqs(read), seqs(recovered));
        }
    }
}

fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|(seq, _)| *seq).collect()
}

/// Returns whether the entries of `part` are in `whole`, in the same order.
fn is_subsequence(part: &[Entry], whole: &[Entry]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|entry| whole.any(|other| other == entry))
}

fn path() -> PathBuf {
    Path::new(DIRECTORY).join(segment_name(1))
}

fn disk_with(bytes: &[u8]) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::default();
    disk.put(&path(), bytes);
    Arc::new(disk)
}

fn changed(whole: &[u8], input: &[u8]) -> Vec<u8> {
    let mut file = whole.to_vec();
    let Some((length, changes)) = input.split_first_chunk() else { return file };
    file.truncate(usize::from(u16::from_le_bytes(*length)));
    for &[low, high, byte] in changes.as_chunks().0 {
        if let Some(at) = file.get_mut(usize::from(u16::from_le_bytes([low, high]))) {
            *at = byte;
        }
    }
    file
}

/// Corrects every checksum in the file.
fn with_valid_checksums(mut file: Vec<u8>) -> Vec<u8> {
    if let Some(header) = file.first_chunk_mut::<HEADER_BYTES>() {
        let (fields, crc) = header.split_at_mut(HEADER_BYTES - size_of::<u32>());
        crc.copy_from_slice(&crc32c(&[fields]).to_le_bytes());
    }
    for at in (HEADER_BYTES..file.len()).step_by(8) {
        let rest = &mut file[at..];
        if rest.starts_with(&BATCH_MAGIC)
            && let Some(batch) = batch_length(rest).and_then(|length| rest.get_mut(..length))
        {
            let crc = crc32c(&[&batch[..12], &batch[16..]]);
            batch[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    }
    if let Some((rest, trailer)) = file.split_last_chunk_mut::<24>()
        && trailer.ends_with(&TRAILER_MAGIC)
        && let Some(footer) =
            usize::try_from(u64::from_le_bytes(*trailer.first_chunk().expect("the first 8 of 24 bytes")))
                .ok()
                .and_then(|at| rest.get(at..))
    {
        let crc = crc32c(&[footer, &trailer[..12], &trailer[16..]]);
        trailer[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    file
}

fn entries(records: &Records<'_>) -> Vec<Entry> {
    let entry = |(seq, record): (u64, Record<'_>)| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes).expect("a decoded record can be encoded");
        (seq, bytes)
    };
    records.iter().map(entry).collect()
}

/// Returns an upper bound for the items and the damage reports of a file of `bytes` bytes. The real numbers
/// are lower: a record has at least 72 bytes and a batch at least 40.
fn items_max(bytes: usize) -> usize {
    bytes / 8 + 2
}

fn check_and_inspect(disk: &Arc<MemoryDisk>, bytes: usize) {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    match (check_file(Arc::clone(&disk), &path()), inspect(disk, &path())) {
        (Ok(checked), Ok(inspected)) => {
            assert_eq!(inspected.bytes, bytes as u64);
            assert_eq!(checked.records, inspected.records);
            assert_eq!(checked.batches, inspected.batches + inspected.marks);
            assert_eq!(checked.damage, inspected.damage);
            assert!(checked.damage.len() <= items_max(bytes));
            checked.damage.iter().for_each(|damage| drop(damage.to_string()));
        }
        (Err(LogError::UnsupportedVersion { .. }), Err(LogError::UnsupportedVersion { .. })) => {}
        other => panic!("{other:?}"),
    }
}

/// Reads all records. Checks that a reader that starts after a seq returns only later records.
fn read(disk: &Arc<MemoryDisk>, bytes: usize) -> Option<Vec<Entry>> {
    let all = read_since(disk, 0, bytes)?;
    let since = all.get(all.len() / 2).map_or(u64::MAX, |(seq, _)| *seq);
    let later = read_since(disk, since, bytes).expect("the log opened before");
    assert!(later.iter().all(|(seq, _)| *seq > since), "{since}: {:?}", seqs(&later));
    Some(all)
}

fn read_since(disk: &Arc<MemoryDisk>, since: u64, bytes: usize) -> Option<Vec<Entry>> {
    let mut reader = match LogReader::open(Arc::clone(disk) as Arc<dyn Disk>, Path::new(DIRECTORY), since) {
        Err(LogError::UnsupportedVersion { .. }) => return None,
        opened => opened.expect("the disk has no errors"),
    };
    let (mut read, mut items) = (Vec::new(), 0);
    while let Some(item) = reader.read_next().expect("the disk has no errors") {
        items += 1;
        assert!(items <= items_max(bytes), "the reader does not end");
        if let LogItem::Records(records) = item {
            read.extend(entries(&records));
        }
    }
    Some(read)
}

/// Recovers the log and closes it. Returns the records that recovery passes to the consumer.
fn recover(disk: &Arc<MemoryDisk>) -> Option<Vec<Entry>> {
    let folded = Arc::new(Mutex::new(Vec::new()));
    let fold = Arc::clone(&folded);
    let consumer = move |records: Records<'_>| {
        fold.lock().expect("no thread panicked").extend(entries(&records));
    };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    match log::open(Path::new(DIRECTORY), options(), disk, Arc::new(FixedClock), Box::new(consumer)) {
        Err(LogError::UnsupportedVersion { .. }) => return None,
        opened => {
            let (queue, writer, _) = opened.expect("the disk has no errors");
            queue.stop();
            writer.close();
        }
    }
    let folded = folded.lock().expect("no thread panicked");
    Some(folded.clone())
}

fn options() -> Options {
    Options { dedup_ids_max: 1_000, ..Options::default() }
}

/// Writes a segment of six batches.
fn build_segment(is_sealed: bool) -> Vec<u8> {
    let disk = Arc::new(MemoryDisk::default());
    let dynamic = Arc::clone(&disk) as Arc<dyn Disk>;
    let consumer = Box::new(|_: Records<'_>| ());
    let (queue, mut writer, _) =
        log::open(Path::new(DIRECTORY), options(), dynamic, Arc::new(FixedClock), consumer)
            .expect("a new log");
    let client = queue.client(Arc::new(|| ()));
    for batch in 0..6 {
        let mut request = Request::new(0);
        for key in 4 * batch + 1..=4 * batch + 1 + batch % 3 {
            request.push(&record(key)).expect("a record within the limits");
        }
        client.send(request).expect("the queue has room");
        writer.run_once();
    }
    if is_sealed {
        queue.stop();
        writer.close();
    }
    disk.bytes(&path())
}

fn record(key: u128) -> Record<'static> {
    Record {
        gpc: true,
        received_ms: NOW_MS + key as i64,
        timestamp_ms: NOW_MS - 5,
        key,
        site: Some("acme"),
        message_id: Some("m"),
        anon_id: Some("visitor"),
        event: Some("Viewed"),
        path: Some("/x"),
        payload: r#"{"a":1}"#,
        ..Record::new([RecordKind::Track, RecordKind::Page][key as usize % 2])
    }
}
