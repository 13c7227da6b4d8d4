//! Removed, changed, swapped and inserted records: each is noticed. The files are built by hand, with the hashes of a naive oracle.

use std::path::Path;

use parallax::testing::audit::format::{Hash, Header};
use parallax::testing::audit::{AuditReport, Head, read_audit_log};
use parallax::testing::checksum::digest;
use parallax::testing::limits::{AUDIT_DAMAGE_OF_FILE_MAX, AUDIT_RECORD_BYTES_MAX};

use super::{DATA, details, entry, path, read};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::SimulatedDisk;

const FILES: u64 = 4;
const RECORDS_OF_FILE: u64 = 9;

/// A file as a header and records.
#[derive(Clone)]
struct OracleFile {
    header: Vec<u8>,
    first_number: u64,
    records: Vec<Vec<u8>>,
}

impl OracleFile {
    /// Returns the link before a record.
    fn link_before(&self, place: usize) -> Hash {
        match place.checked_sub(1).map(|before| &self.records[before]) {
            Some(before) => before[before.len() - 32..].try_into().expect("a hash has 32 bytes"),
            None => digest(&[&self.header]),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.header[..], &self.records.concat()].concat()
    }
}

/// Returns a record after a link, and its hash, as the module doc of the format says.
fn record(link: &Hash, payload: &[u8]) -> (Vec<u8>, Hash) {
    let length = (payload.len() as u32).to_le_bytes();
    let mut input = link.to_vec();
    input.extend_from_slice(&length);
    input.extend_from_slice(payload);
    let hash = digest(&[&input]);
    ([&length[..], payload, &hash].concat(), hash)
}

/// Builds a log. Returns its files and its head.
fn build() -> (Vec<OracleFile>, Head) {
    let mut head = Head::default();
    let mut files = Vec::new();
    for index in 0..FILES {
        let first_number = index * RECORDS_OF_FILE + 1;
        let header = Header { first_number, begun_ms: 1_000 * index as i64, previous_hash: head.hash };
        let header = header.to_bytes();
        let mut link = digest(&[&header]);
        let mut records = Vec::new();
        for detail in details(first_number..first_number + RECORDS_OF_FILE) {
            let (bytes, hash) = record(&link, &entry(&detail).to_json(0));
            records.push(bytes);
            link = hash;
        }
        head = Head { number: first_number + RECORDS_OF_FILE - 1, hash: link };
        files.push(OracleFile { header: header.to_vec(), first_number, records });
    }
    (files, head)
}

/// Puts files on a disk, and reads them. Returns the report, and whether the log has the record of `head`.
fn check(files: &[(u64, Vec<u8>)], head: Head) -> (AuditReport, bool) {
    let disk = SimulatedDisk::new(1);
    for (first_number, bytes) in files {
        disk.put(&path(*first_number), bytes);
    }
    let mut has_head = false;
    let report = read_audit_log(&disk, Path::new(DATA), &mut |record| {
        has_head |= record.head == head;
        true
    });
    (report.expect("the disk works"), has_head)
}

fn to_bytes(files: &[OracleFile]) -> Vec<(u64, Vec<u8>)> {
    files.iter().map(|file| (file.first_number, file.bytes())).collect()
}

#[test]
fn the_log_of_the_oracle_is_sound() {
    let (files, head) = build();
    let (report, has_head) = check(&to_bytes(&files), head);
    assert!(has_head && report.damage.is_empty(), "{report:?}");
    assert_eq!((report.head, report.records, report.files), (head, FILES * RECORDS_OF_FILE, FILES as usize));
    assert_eq!((report.base, &report.torn_file), (Head::default(), &None));
}

/// Changes a record or the header, so that its own hash or checksum is right. Returns a description.
fn forge(file: &mut OracleFile, at: usize, is_header: bool) -> String {
    let first_number = file.first_number;
    if is_header {
        let header = Header { first_number, begun_ms: -1, previous_hash: [9; 32] };
        file.header = header.to_bytes().to_vec();
        return format!("forged the header of the file with record {first_number}");
    }
    let link = file.link_before(at);
    file.records[at] = record(&link, &entry("changed").to_json(0)).0;
    format!("changed record {at} of the file with record {first_number}")
}

/// Changes the log. Returns its files, and a description.
fn mutate(files: &[OracleFile], dice: &mut Dice) -> (Vec<(u64, Vec<u8>)>, String) {
    let mut files = files.to_vec();
    let last = files.len() - 1;
    let file = dice.below(files.len());
    let at = dice.below(RECORDS_OF_FILE as usize);
    let description = match dice.below(8) {
        0 => {
            // Nothing but a head notices that the last record is missing.
            let at = if file == last { at.min(RECORDS_OF_FILE as usize - 2) } else { at };
            files[file].records.remove(at);
            format!("removed record {at} of file {file}")
        }
        1 => {
            let mut bytes = to_bytes(&files);
            let place = dice.below(bytes[file].1.len());
            bytes[file].1[place] ^= 1 + dice.below(255) as u8;
            return (bytes, format!("changed byte {place} of file {file}"));
        }
        2 => {
            let other_file = dice.below(files.len());
            let other = dice.below(RECORDS_OF_FILE as usize);
            let is_same = (file, at) == (other_file, other);
            let other = if is_same { (other + 1) % RECORDS_OF_FILE as usize } else { other };
            let (first, second) = (files[file].records[at].clone(), files[other_file].records[other].clone());
            files[file].records[at] = second;
            files[other_file].records[other] = first;
            format!("swapped record {at} of file {file} with {other} of {other_file}")
        }
        3 => {
            let source = dice.below(files.len());
            let copy = dice.pick(&files[source].records).clone();
            let place = dice.below(RECORDS_OF_FILE as usize + 1);
            files[file].records.insert(place, copy);
            format!("inserted a copy before record {place} of file {file}")
        }
        4 => {
            // Its own hash fits the record before it. At the end of the last file it would be a new record.
            let place = if file == last { at } else { dice.below(RECORDS_OF_FILE as usize + 1) };
            let link = files[file].link_before(place);
            let (forged, _) = record(&link, &entry("forged").to_json(0));
            files[file].records.insert(place, forged);
            format!("inserted a forged record before record {place} of file {file}")
        }
        5 => {
            let file = 1 + dice.below(last - 1);
            files.remove(file);
            format!("removed file {file}")
        }
        6 => {
            let mut bytes = to_bytes(&files);
            let file = dice.below(last);
            let length = dice.below(bytes[file].1.len());
            bytes[file].1.truncate(length);
            return (bytes, format!("truncated file {file} to {length}"));
        }
        _ => {
            let file = dice.below(last);
            forge(&mut files[file], at, dice.below(2) == 0)
        }
    };
    (to_bytes(&files), description)
}

#[test]
fn each_removed_changed_swapped_or_inserted_record_is_noticed() {
    let (files, head) = build();
    let sound = to_bytes(&files);
    for seed in 0..times(10_000, 100_000) as u64 {
        let (mutated, description) = mutate(&files, &mut Dice(seed));
        assert_ne!(mutated, sound, "seed {seed}: {description}");
        let (report, _) = check(&mutated, head);
        assert!(!report.damage.is_empty(), "seed {seed}: {description}: {report:?}");
    }
}

#[test]
fn every_changed_bit_of_the_last_file_is_noticed() {
    let (files, head) = build();
    let sound = to_bytes(&files);
    let last = sound.len() - 1;
    for place in 0..sound[last].1.len() {
        for bit in 0..8 {
            let mut mutated = sound.clone();
            mutated[last].1[place] ^= 1 << bit;
            let (report, _) = check(&mutated[last..], head);
            assert!(!report.damage.is_empty(), "bit {bit} of byte {place}: {report:?}");
        }
    }
}

#[test]
fn a_head_proves_the_end_and_nothing_else_does() {
    let (files, head) = build();
    let mut files = to_bytes(&files);
    let whole = files.last().expect("a file").1.clone();
    for length in 64..whole.len() {
        files.last_mut().expect("a file").1 = whole[..length].to_vec();
        let (report, has_head) = check(&files, head);
        assert!(report.damage.is_empty(), "{length}: {report:?}");
        assert!(!has_head, "{length}");
    }
}

#[test]
fn a_tail_is_torn_at_each_byte_of_the_last_record() {
    let (files, head) = build();
    let mut files = to_bytes(&files);
    let whole = files.last().expect("a file").1.clone();
    let last_record = build().0.pop().and_then(|mut file| file.records.pop()).expect("a record");
    for left in 0..=last_record.len() {
        for zeros in [0, 1, 5_000] {
            let mut bytes = whole[..whole.len() - last_record.len() + left].to_vec();
            // Zeros within a record look like its bytes.
            if zeros > 0 && left > 0 && left < last_record.len() {
                continue;
            }
            bytes.resize(bytes.len() + zeros, 0);
            files.last_mut().expect("a file").1 = bytes;
            let (report, has_head) = check(&files, head);
            assert!(report.damage.is_empty(), "{left} {zeros}: {report:?}");
            let is_whole = left == last_record.len();
            assert_eq!(has_head, is_whole, "{left} {zeros}");
            assert_eq!(report.torn_file.is_some(), zeros > 0 || (left > 0 && !is_whole), "{left} {zeros}");
        }
    }
}

#[test]
fn records_after_a_damaged_one_are_read() {
    let (mut files, _) = build();
    let place = files[1].records[3].len() - 40;
    files[1].records[3][place] ^= 1;
    let disk = SimulatedDisk::new(1);
    to_bytes(&files).iter().for_each(|(first, bytes)| disk.put(&path(*first), bytes));
    let (report, found) = read(&disk);
    let damaged = 1 + RECORDS_OF_FILE + 3;
    let expected: Vec<String> = details(1..FILES * RECORDS_OF_FILE + 1)
        .into_iter()
        .filter(|detail| !detail.starts_with(&format!("n={damaged} ")))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(report.damage.len(), 1, "{report:?}");
    let file = parallax::testing::audit::format::file_name(RECORDS_OF_FILE + 1);
    let offset = 64 + files[1].records[..3].concat().len();
    assert!(report.damage[0].to_string().starts_with(&format!("{file}: at offset {offset}: ")), "{report:?}");
}

#[test]
fn a_file_full_of_damage_is_left_after_a_bounded_number_of_places() {
    for (damaged, reported) in [
        (AUDIT_DAMAGE_OF_FILE_MAX - 1, AUDIT_DAMAGE_OF_FILE_MAX - 1),
        (AUDIT_DAMAGE_OF_FILE_MAX, AUDIT_DAMAGE_OF_FILE_MAX),
        (AUDIT_DAMAGE_OF_FILE_MAX + 1, AUDIT_DAMAGE_OF_FILE_MAX + 1),
        (1_000, AUDIT_DAMAGE_OF_FILE_MAX + 1),
    ] {
        let header = Header { first_number: 1, begun_ms: 0, previous_hash: [0; 32] }.to_bytes();
        let (whole, _) = record(&[1; 32], &entry("wrong").to_json(0));
        let (next, _) = record(&[2; 32], &entry("wrong").to_json(0));
        // The link of each second record is wrong too.
        let records: Vec<u8> =
            (0..damaged).flat_map(|n| if n % 2 == 0 { whole.clone() } else { next.clone() }).collect();
        let (first, _) = record(&digest(&[&header]), &entry("right").to_json(0));
        let bytes = [&header[..], &first, &records].concat();
        let (report, _) = check(&[(1, bytes)], Head::default());
        assert_eq!((report.records, report.damage.len()), (1, reported), "{damaged}");
    }
}

#[test]
fn the_longest_record_is_read_and_a_longer_one_is_damage() {
    let header = Header { first_number: 1, begun_ms: 0, previous_hash: [0; 32] }.to_bytes();
    let line = entry("long").to_json(0);
    for length in [AUDIT_RECORD_BYTES_MAX - 1, AUDIT_RECORD_BYTES_MAX, AUDIT_RECORD_BYTES_MAX + 1] {
        // White space before the last brace changes no line.
        let mut payload = line[..line.len() - 1].to_vec();
        payload.resize(length - 1, b' ');
        payload.push(b'}');
        let (bytes, _) = record(&digest(&[&header]), &payload);
        let (report, _) = check(&[(1, [&header[..], &bytes].concat())], Head::default());
        let is_read = length <= AUDIT_RECORD_BYTES_MAX;
        assert_eq!(
            (report.records == 1, report.damage.is_empty()),
            (is_read, is_read),
            "{length}: {report:?}"
        );
    }
}

#[test]
fn a_record_that_is_no_line_is_damage() {
    let header = Header { first_number: 1, begun_ms: 0, previous_hash: [0; 32] }.to_bytes();
    for payload in [&b"{}"[..], b"[1]", b"{\"at\":1}", b"\xff\xfe", b"{\"at\":\"x\",\"action\":\"view\"}"] {
        let (bytes, _) = record(&digest(&[&header]), payload);
        let (report, _) = check(&[(1, [&header[..], &bytes].concat())], Head::default());
        assert_eq!((report.records, report.damage.len()), (0, 1), "{payload:?}");
    }
}

#[test]
fn random_bytes_never_panic_and_are_never_sound() {
    for seed in 0..times(300, 10_000) as u64 {
        let mut dice = Dice(seed);
        let (files, head) = build();
        let mut bytes = to_bytes(&files);
        let file = dice.below(bytes.len());
        let begin = dice.below(bytes[file].1.len());
        let noise: Vec<u8> = (0..1 + dice.below(6_000)).map(|_| dice.next_u64() as u8).collect();
        bytes[file].1.splice(begin.., noise);
        let (report, has_head) = check(&bytes, head);
        let is_last = file + 1 == bytes.len();
        assert!(
            !report.damage.is_empty() || (is_last && report.torn_file.is_some() && !has_head),
            "seed {seed}"
        );
    }
}
