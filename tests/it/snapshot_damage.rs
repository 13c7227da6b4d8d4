//! A damaged snapshot is refused, and the previous content stays served (R8).

mod forged;
mod forged_conditions;
mod forged_experiments;
mod forged_goals;
mod forged_names;
mod forged_patterns;
mod forged_segments;
mod forged_zones;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use parallax::testing::site::snapshot::format::HEADER_BYTES;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget, SnapshotError};

use crate::fuzz::site::FILES;
use crate::harness::{Server, eventually, snapshot, times};

/// Changes of one byte. Each gives another byte.
const CHANGES: [fn(u8) -> u8; 4] = [|b| b ^ 1, |b| b ^ 0x80, |b| b ^ 0x55, |b| !b];

/// Creates a temporary file without a name that contains `bytes`.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("written");
    file
}

fn open(file: &mut File) -> Result<Snapshot, SnapshotError> {
    let length = file.metadata().expect("its length").len();
    Snapshot::open_file(rewind(file), length, &SnapshotBudget::new(u64::MAX))
}

fn open_bytes(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    open(&mut file(bytes))
}

/// Rewinds the file. `open_file` reads from the present position.
fn rewind(file: &mut File) -> &mut File {
    std::io::Seek::rewind(file).expect("rewinding works");
    file
}

#[test]
fn every_byte_changed_in_four_ways_is_refused() {
    let bytes = snapshot(&FILES, 1);
    let mut file = file(&bytes);
    for (at, byte) in bytes.iter().enumerate() {
        for change in CHANGES {
            file.write_all_at(&[change(*byte)], at as u64).expect("written");
            assert!(open(&mut file).is_err(), "byte {at} is accepted as {} instead of {byte}", change(*byte));
        }
        file.write_all_at(&[*byte], at as u64).expect("written");
    }
    open(&mut file).expect("the original bytes");
}

#[test]
fn every_wrong_length_is_refused_and_shorter_files_are_incomplete() {
    let bytes = snapshot(&FILES, 1);
    let mut file = file(&bytes);
    for length in (0..bytes.len()).rev() {
        file.set_len(length as u64).expect("cut");
        let refusal = open(&mut file).err().unwrap_or_else(|| panic!("{length} bytes are accepted"));
        assert!(matches!(refusal, SnapshotError::Incomplete { .. }), "{length} bytes: {refusal}");
    }
    file.write_all_at(&bytes, 0).expect("written");
    for length in bytes.len() + 1..bytes.len() + HEADER_BYTES {
        file.set_len(length as u64).expect("lengthened");
        assert!(matches!(open(&mut file), Err(SnapshotError::Damaged(_))), "{length} bytes");
    }
}

#[test]
fn foreign_files_and_other_format_versions_have_their_own_errors() {
    let refusal = |bytes: &[u8]| open_bytes(bytes).err().expect("refused").to_string();
    assert!(refusal(b"{\"site\":\"acme\"}").starts_with("not a snapshot"));
    assert!(refusal(b"\x1f\x8b\x08").starts_with("not a snapshot"));
    assert_eq!(refusal(b""), "incomplete: 0 of 80 bytes; copy the file again");
    let whole = snapshot(&FILES, 1);
    for format_version in [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, u32::MAX] {
        let other = [&whole[..8], &format_version.to_le_bytes(), &whole[12..]].concat();
        let refusal = refusal(&other);
        assert!(refusal.contains("compile the site again"), "{refusal}");
        assert!(refusal.contains(&format!("format version {format_version},")), "{refusal}");
    }
    let other_header = [&whole[..12], &128u32.to_le_bytes(), &whole[16..]].concat();
    assert_eq!(
        refusal(&other_header),
        "damaged: the header length is not 80; copy the file again, or compile the site again"
    );
}

/// Number of files that are damaged in one round. One scan reads all of them.
const NAMES: usize = 48;

#[test]
fn a_running_server_keeps_the_old_content_for_any_damage() {
    let whole = snapshot(&FILES, 1);
    let names: Vec<String> = (0..NAMES).map(|i| format!("site-{i:02}.snapshot")).collect();
    let held: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &whole[..])).collect();
    let server = Server::start(&held, &[]);
    let before = server.get("/v1/resolve?site=acme&route=/&variants=");
    assert_eq!(before.status, 200);

    let all = all_damages(&whole);
    // A sample over the whole file, or all damages in the long form.
    let taken = times(2 * NAMES, all.len());
    let step = all.len() / taken;
    let sample: Vec<&Damage> = all.iter().step_by(step).collect();
    for (round, damages) in sample.chunks(NAMES).enumerate() {
        for (name, damage) in names.iter().zip(damages) {
            server.publish(name, &damage.apply_to(&whole));
        }
        server.wait_for_scan_of_all_files(round as u64 + 1);
        let after = server.get("/v1/resolve?site=acme&route=/&variants=");
        assert_eq!((after.status, after.field("etag")), (200, before.field("etag")));
        assert!(after.body == before.body, "round {round}: {}", after.text());
    }
    server.wait_for_log("site-00.snapshot: ");
}

/// A change of one byte, or a truncation.
enum Damage {
    Byte(usize, u8),
    Length(usize),
}

impl Damage {
    fn apply_to(&self, whole: &[u8]) -> Vec<u8> {
        match self {
            Self::Length(length) => whole[..*length].to_vec(),
            Self::Byte(at, byte) => [&whole[..*at], &[*byte], &whole[at + 1..]].concat(),
        }
    }
}

fn all_damages(whole: &[u8]) -> Vec<Damage> {
    let bytes = whole.iter().enumerate();
    let bytes = bytes.flat_map(|(at, byte)| CHANGES.map(|change| Damage::Byte(at, change(*byte))));
    bytes.chain((0..whole.len()).map(Damage::Length)).collect()
}

impl Server {
    /// Publishes another site as `version` and waits until it is served. By then the server has read every
    /// file that was written before.
    fn wait_for_scan_of_all_files(&self, version: u64) {
        let site = [
            ("site.json", r#"{"site":"beacon","trackingId":"track_beacon","name":"B"}"#),
            ("routes/index.json", r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#),
        ];
        self.publish("zz-beacon.snapshot", &snapshot(&site, version));
        let version = version.to_string();
        eventually("the beacon is served", || {
            let response = self.get("/v1/routes?site=beacon");
            (response.field("x-version") == Some(&version)).then_some(())
        });
    }
}
