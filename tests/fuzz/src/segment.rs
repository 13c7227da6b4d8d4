//! Whatever a segment holds, it is read, checked, shown and recovered without a panic, and nothing is read that was not written.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use parallax::checksum::castagnoli;
use parallax::clock::Clock;
use parallax::storage::disk::Disk;
use parallax::visitors::log::format::{BATCH_MAGIC, HEADER_BYTES, Header, TRAILER_MAGIC, batch_length};
use parallax::visitors::log::{
    self, Item, Kind, LogError, Options, Reader, Record, Records, Request, check_file, inspect, segment_name,
};

use super::memory::MemoryDisk;

const FOLDER: &str = "/data";
const NOW_MS: i64 = 1_800_000_000_000;

/// A record as the log has it: its seq, and all that it holds.
type Entry = (u64, Vec<u8>);

/// A whole segment and what was written to it, sealed and not.
static WHOLE: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [written(true), written(false)]);
static WRITTEN: LazyLock<Vec<Entry>> = LazyLock::new(|| recover(&disk_with(&WHOLE[0])).expect("it is whole"));

/// Time that stands still.
struct Still;

impl Clock for Still {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// The first byte says what the others are: 0 a file; 1 what stands behind a header that is right; else a length to which a whole
/// one is cut and changes of it, three bytes each: where (little-endian), and what stands there then. Of these 2 is sealed, 3 is
/// not, and 4 and 5 are the same with checksums that are right again.
pub fn segment(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let how = how % 6;
    let file = match how {
        0 => bytes.to_vec(),
        1 => [&Header { first_seq: 1, created_ms: NOW_MS }.to_bytes()[..], bytes].concat(),
        2 | 3 => changed(&WHOLE[usize::from(how & 1)], bytes),
        _ => sealed(changed(&WHOLE[usize::from(how & 1)], bytes)),
    };
    let disk = disk_with(&file);
    // Checksums that are right vouch for anything.
    let vouched = !(2..4).contains(&how);
    look(&disk, file.len());
    let read = read(&disk, file.len());
    let recovered = recover(&disk);
    let again = recover(&disk);
    assert_eq!(recovered, again, "what recovery kept stays");
    if !vouched {
        for entries in read.iter().chain(&recovered) {
            assert!(is_part(entries, &WRITTEN), "{:?}", seqs(entries));
        }
        if let (Some(read), Some(recovered)) = (&read, &recovered) {
            assert!(is_part(read, recovered), "{:?} {:?}", seqs(read), seqs(recovered));
        }
    }
}

fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|(seq, _)| *seq).collect()
}

/// Whether `part` is in `whole`, in order.
fn is_part(part: &[Entry], whole: &[Entry]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|entry| whole.any(|other| other == entry))
}

fn path() -> PathBuf {
    Path::new(FOLDER).join(segment_name(1))
}

fn disk_with(bytes: &[u8]) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::default();
    disk.put(&path(), bytes);
    Arc::new(disk)
}

fn changed(whole: &[u8], how: &[u8]) -> Vec<u8> {
    let mut file = whole.to_vec();
    let Some((length, changes)) = how.split_first_chunk() else { return file };
    file.truncate(usize::from(u16::from_le_bytes(*length)));
    for &[low, high, byte] in changes.as_chunks().0 {
        if let Some(at) = file.get_mut(usize::from(u16::from_le_bytes([low, high]))) {
            *at = byte;
        }
    }
    file
}

/// The file with right checksums wherever one is due.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    if let Some(header) = file.first_chunk_mut::<HEADER_BYTES>() {
        let crc = castagnoli(&[&header[..36]]);
        header[36..].copy_from_slice(&crc.to_le_bytes());
    }
    for at in (HEADER_BYTES..file.len()).step_by(8) {
        let rest = &mut file[at..];
        if rest.starts_with(&BATCH_MAGIC)
            && let Some(batch) = batch_length(rest).and_then(|length| rest.get_mut(..length))
        {
            let crc = castagnoli(&[&batch[..12], &batch[16..]]);
            batch[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    }
    if let Some((rest, trailer)) = file.split_last_chunk_mut::<24>()
        && trailer.ends_with(&TRAILER_MAGIC)
        && let Some(footer) = usize::try_from(u64::from_le_bytes(*trailer.first_chunk().expect("8 of 24")))
            .ok()
            .and_then(|at| rest.get(at..))
    {
        let crc = castagnoli(&[footer, &trailer[..12], &trailer[16..]]);
        trailer[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    file
}

fn entries(records: &Records<'_>) -> Vec<Entry> {
    let entry = |(seq, record): (u64, Record<'_>)| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes).expect("what was read may be written");
        (seq, bytes)
    };
    records.iter().map(entry).collect()
}

/// No record takes less than 72 bytes, and no batch less than 40.
fn looks_max(bytes: usize) -> usize {
    bytes / 8 + 2
}

fn look(disk: &Arc<MemoryDisk>, bytes: usize) {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    match (check_file(Arc::clone(&disk), &path()), inspect(disk, &path())) {
        (Ok(checked), Ok(inspected)) => {
            assert_eq!(inspected.bytes, bytes as u64);
            assert_eq!(checked.records, inspected.records);
            assert_eq!(checked.batches, inspected.batches + inspected.marks);
            assert_eq!(checked.findings, inspected.findings);
            assert!(checked.findings.len() <= looks_max(bytes));
            checked.findings.iter().for_each(|finding| drop(finding.to_string()));
        }
        (Err(LogError::Version { .. }), Err(LogError::Version { .. })) => {}
        other => panic!("{other:?}"),
    }
}

/// What a reader gives; from each seq on it is a part of that.
fn read(disk: &Arc<MemoryDisk>, bytes: usize) -> Option<Vec<Entry>> {
    let all = read_since(disk, 0, bytes)?;
    let since = all.get(all.len() / 2).map_or(u64::MAX, |(seq, _)| *seq);
    let later = read_since(disk, since, bytes).expect("it opened before");
    assert!(later.iter().all(|(seq, _)| *seq > since), "{since}: {:?}", seqs(&later));
    Some(all)
}

fn read_since(disk: &Arc<MemoryDisk>, since: u64, bytes: usize) -> Option<Vec<Entry>> {
    let mut reader = match Reader::open(Arc::clone(disk) as Arc<dyn Disk>, Path::new(FOLDER), since) {
        Err(LogError::Version { .. }) => return None,
        opened => opened.expect("the disk is well"),
    };
    let (mut read, mut items) = (Vec::new(), 0);
    while let Some(item) = reader.read_next().expect("the disk is well") {
        items += 1;
        assert!(items <= looks_max(bytes), "it ends");
        if let Item::Records(records) = item {
            read.extend(entries(&records));
        }
    }
    Some(read)
}

/// What recovery hands over; then the log ends cleanly.
fn recover(disk: &Arc<MemoryDisk>) -> Option<Vec<Entry>> {
    let folded = Arc::new(Mutex::new(Vec::new()));
    let fold = Arc::clone(&folded);
    let follower = move |records: Records<'_>| {
        fold.lock().expect("nobody panics with it").extend(entries(&records));
    };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    match log::open(Path::new(FOLDER), options(), disk, Arc::new(Still), Box::new(follower)) {
        Err(LogError::Version { .. }) => return None,
        opened => {
            let (queue, writer, _) = opened.expect("the disk is well");
            queue.stop();
            writer.close();
        }
    }
    let folded = folded.lock().expect("nobody panics with it");
    Some(folded.clone())
}

fn options() -> Options {
    Options { duplicates_max: 1_000, ..Options::default() }
}

/// A segment of six batches.
fn written(seals: bool) -> Vec<u8> {
    let disk = Arc::new(MemoryDisk::default());
    let dynamic = Arc::clone(&disk) as Arc<dyn Disk>;
    let follower = Box::new(|_: Records<'_>| ());
    let (queue, mut writer, _) =
        log::open(Path::new(FOLDER), options(), dynamic, Arc::new(Still), follower).expect("a new log");
    let port = queue.port(Arc::new(|| ()));
    for batch in 0..6 {
        let mut request = Request::new(0);
        for key in 4 * batch + 1..=4 * batch + 1 + batch % 3 {
            request.push(&record(key)).expect("it is within all bounds");
        }
        port.send(request).expect("the queue takes it");
        writer.step();
    }
    if seals {
        queue.stop();
        writer.close();
    }
    disk.bytes(&path())
}

fn record(key: u128) -> Record<'static> {
    Record {
        kind: [Kind::Track, Kind::Page][key as usize % 2],
        bot: false,
        gpc: true,
        received_ms: NOW_MS + key as i64,
        timestamp_ms: NOW_MS - 5,
        key,
        site: Some("acme"),
        message_id: Some("m"),
        anon_id: Some("visitor"),
        user_id: None,
        event: Some("Viewed"),
        name: None,
        path: Some("/x"),
        variants: None,
        ip: None,
        payload: r#"{"a":1}"#,
    }
}
