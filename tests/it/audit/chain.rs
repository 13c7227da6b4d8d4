//! The golden file, the next files, retention, and the continuation by another process.

use parallax::testing::audit::format::{self, HEADER_BYTES, Header};
use parallax::testing::audit::{Head, directory_of};
use parallax::testing::clock::Clock;
use parallax::testing::limits::{AUDIT_FILE_BYTES_MAX, AUDIT_FILE_MS_MAX};

use super::{DATA, DAY_MS, Log, details};

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}

#[test]
fn the_smallest_audit_file_matches_the_golden_file() {
    let mut log = Log::new(1);
    log.append(&["records=12".to_owned()]).expect("the disk works");
    let bytes = log.disk.bytes(&log.path(1));
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.audit.hex");
    if std::env::var("PARALLAX_BLESS").is_ok() {
        std::fs::write(&golden, hex(&bytes)).expect("the golden file is written");
    }
    let expected = std::fs::read_to_string(&golden).expect("the golden file exists");
    assert_eq!(hex(&bytes), expected, "format version 1 has been released; a change needs a new version");
}

#[test]
fn a_header_of_another_version_or_with_a_wrong_byte_is_refused() {
    let header = Header { first_number: 7, begun_ms: 8, previous_hash: [9; 32] };
    let bytes = header.to_bytes();
    assert_eq!(Header::from_bytes(&bytes), Ok(header));
    for place in 0..HEADER_BYTES {
        let mut wrong = bytes;
        wrong[place] ^= 1;
        assert!(Header::from_bytes(&wrong).is_err(), "{place}");
        assert!(Header::from_bytes(&bytes[..place]).is_err(), "{place}");
    }
    let mut later = bytes;
    later[8] = 2;
    let error = Header::from_bytes(&later).expect_err("another version");
    assert_eq!(error, "the file has the format version 2, and this release reads version 1");
}

#[test]
fn a_head_is_parsed_as_it_is_printed() {
    let head = Head { number: 4711, hash: std::array::from_fn(|index| index as u8 * 7) };
    assert_eq!(Head::parse(&format!("{}:{}", head.number, head.hash_text())), Some(head));
    let hash = head.hash_text();
    for wrong in [
        "",
        ":",
        "1",
        &format!("1:{}", &hash[1..]),
        &format!("x:{hash}"),
        &format!("1:{hash}0"),
        &format!("1:+{}", &hash[1..]),
    ] {
        assert_eq!(Head::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn another_process_continues_the_same_file() {
    let mut log = Log::new(1);
    let mut all = Vec::new();
    for process in 0..5 {
        let new = details(process * 10..process * 10 + 3);
        let head = log.append(&new).expect("the disk works");
        all.extend(new);
        log.restart();
        let (report, found) = log.read();
        assert_eq!((report.head, report.files, report.damage.len()), (head, 1, 0));
        assert_eq!(found, all);
    }
}

#[test]
fn a_file_ends_at_its_size() {
    let mut log = Log::new(1);
    let bytes = |log: &Log| log.disk.bytes(&log.path(1)).len() as u64;
    let long = vec!["d".repeat(200); 500];
    let mut lines = 0;
    while bytes_or_zero(&log) < AUDIT_FILE_BYTES_MAX {
        log.append(&long).expect("the disk works");
        lines += long.len() as u64;
        assert_eq!(log.read().0.files, 1);
    }
    let full = bytes(&log);
    log.append(&details(0..1)).expect("the disk works");
    assert_eq!(bytes(&log), full, "a full file does not change");
    let (report, found) = log.read();
    assert_eq!((report.files, report.damage.len(), found.len() as u64), (2, 0, lines + 1));
    assert_eq!(log.disk.names().into_iter().max(), Some(format::file_name(lines + 1)));
    log.restart();
    log.append(&details(1..2)).expect("the disk works");
    assert_eq!((log.read().0.files, log.read().0.damage.len()), (2, 0));
}

fn bytes_or_zero(log: &Log) -> u64 {
    match log.disk.names().is_empty() {
        true => 0,
        false => log.disk.bytes(&log.path(1)).len() as u64,
    }
}

#[test]
fn a_file_ends_at_its_age() {
    for (age_ms, files) in [(AUDIT_FILE_MS_MAX - 1, 1), (AUDIT_FILE_MS_MAX, 2), (AUDIT_FILE_MS_MAX + 1, 2)] {
        let mut log = Log::new(1);
        log.append(&details(0..2)).expect("the disk works");
        log.clock.pass(age_ms as u64);
        log.append(&details(2..3)).expect("the disk works");
        let (report, found) = log.read();
        assert_eq!((report.files, report.damage.len(), found), (files, 0, details(0..3)), "{age_ms}");
    }
}

#[test]
fn retention_deletes_whole_files_whose_last_record_is_older() {
    let mut log = Log::new(1);
    log.retain_days = 100;
    for month in 0..12 {
        log.append(&details(month..month + 1)).expect("the disk works");
        log.clock.pass(AUDIT_FILE_MS_MAX as u64);
        log.writer().tick().expect("the disk works");
        let (report, found) = log.read();
        assert!(report.damage.is_empty(), "{report:?}");
        let now_ms = log.clock.now_ms();
        let is_kept = |written: &u64| {
            // The next file began when this one was 31 days old.
            let written_ms = now_ms - (month - written + 1) as i64 * AUDIT_FILE_MS_MAX;
            written_ms + AUDIT_FILE_MS_MAX > now_ms - 100 * DAY_MS
        };
        let kept: Vec<String> = (0..=month).filter(is_kept).flat_map(|n| details(n..n + 1)).collect();
        assert_eq!(found, kept, "{month}");
        assert_eq!(
            report.base.number,
            month + 1 - kept.len() as u64,
            "the base is the head before the first file"
        );
    }
}

#[test]
fn a_wrong_wall_clock_deletes_nothing() {
    let mut log = Log::new(1);
    log.append(&details(0..1)).expect("the disk works");
    log.clock.pass(AUDIT_FILE_MS_MAX as u64);
    log.append(&details(1..2)).expect("the disk works");
    log.clock.set_wrong(4_000 * DAY_MS);
    log.clock.pass(2 * 60 * 60 * 1_000);
    log.append(&details(2..3)).expect("the disk works");
    assert_eq!(log.read().1, details(0..3));
    log.restart();
    log.append(&details(3..4)).expect("the disk works");
    assert_eq!(log.read().1, details(0..4));
}

#[test]
fn a_damaged_last_file_stays_and_a_new_file_continues_it() {
    for offset in [HEADER_BYTES + 10, HEADER_BYTES, 0] {
        let mut log = Log::new(1);
        log.append(&details(0..4)).expect("the disk works");
        log.restart();
        let mut bytes = log.disk.bytes(&log.path(1));
        bytes[offset] ^= 1;
        log.disk.put(&log.path(1), &bytes);
        let head = log.append(&details(4..6)).expect("the server starts nevertheless");
        assert_eq!(log.disk.bytes(&log.path(1)), bytes, "the damaged file is not changed");
        let (report, found) = log.read();
        assert_eq!((report.files, report.head), (2, head), "{offset}");
        assert!(!report.damage.is_empty(), "{offset}");
        assert_eq!(found[found.len() - 2..], details(4..6), "{offset}");
        log.restart();
        log.append(&details(6..7)).expect("the disk works");
        let (again, _) = log.read();
        assert_eq!(again.damage, report.damage, "the damage stays");
        assert_eq!(again.files, 2);
    }
}

#[test]
fn a_second_writer_waits_for_the_first() {
    let mut log = Log::new(1);
    log.append(&details(0..1)).expect("the disk works");
    let mut other = Log { disk: log.disk.clone(), clock: log.clock.clone(), retain_days: 400, writer: None };
    let refused = other.append(&details(1..2)).expect_err("the log is locked");
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    log.restart();
    other.append(&details(1..2)).expect("the lock is free");
    assert_eq!(other.read().1, details(0..2));
}

#[test]
fn other_files_of_the_directory_are_left_alone() {
    let mut log = Log::new(1);
    let dir = directory_of(std::path::Path::new(DATA));
    for name in ["archive.tar", "audit-1.log", "audit-00000000000000000001.log.gz"] {
        log.disk.put(&dir.join(name), b"of the operator");
    }
    log.disk.put(&dir.join(".audit-00000000000000000009.tmp"), b"left by a killed process");
    log.append(&details(0..1)).expect("the disk works");
    let mut names = log.disk.names();
    names.sort();
    assert_eq!(
        names,
        ["archive.tar", "audit-00000000000000000001.log", "audit-00000000000000000001.log.gz", "audit-1.log"]
    );
}
