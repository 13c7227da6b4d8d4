//! The file `versions` of the data directory: its format, its damage, and the commands that read it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use parallax::testing::limits::{SERVINGS_KEPT_MAX, VERSIONS_FILE_BYTES_MAX, VERSIONS_KEPT_MAX};
use parallax::testing::site::catalog::versions::{ContentEntry, PublishedVersion, Serving, Versions};
use parallax::testing::site::catalog::versions_file::{check, decode, encode};
use proptest::prelude::*;

use crate::harness::{Server, eventually, temporary_directory};

type SiteVersions = BTreeMap<String, Versions>;

fn entries(keys: &BTreeMap<String, u8>) -> Vec<ContentEntry> {
    keys.iter()
        .map(|(key, content)| ContentEntry { key: Arc::from(key.as_str()), content: [*content; 16] })
        .collect()
}

/// Returns lists of keys, each with one of three contents, so that versions share many entries.
fn lists(key: &'static str) -> impl Strategy<Value = BTreeMap<String, u8>> {
    prop::collection::btree_map(key, 0..3_u8, 0..8)
}

fn version() -> impl Strategy<Value = Arc<PublishedVersion>> {
    (0..1_u64 << 53, any::<[u8; 32]>(), lists("/[a-eé]{0,2}"), lists("[a-c]{1,2}")).prop_map(
        |(version, hash, paths, queries)| {
            Arc::new(PublishedVersion { version, hash, paths: entries(&paths), queries: entries(&queries) })
        },
    )
}

fn sites() -> impl Strategy<Value = SiteVersions> {
    let versions = prop::collection::vec(version(), 0..=VERSIONS_KEPT_MAX);
    let servings =
        prop::collection::vec((0..1_i64 << 47, 0..1_u64 << 53, any::<[u8; 32]>()), 0..=SERVINGS_KEPT_MAX);
    let versions = (versions, servings).prop_map(|(versions, mut servings)| {
        servings.sort();
        let servings =
            servings.into_iter().map(|(from_ms, version, hash)| Serving { from_ms, version, hash });
        Versions::new(versions).with_servings(servings.collect())
    });
    prop::collection::btree_map("[A-Za-z0-9_-]{1,8}", versions, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_returns_the_encoded_versions(sites in sites()) {
        prop_assert_eq!(decode(&encode(&sites)).expect("a sound file"), sites);
    }

    #[test]
    fn any_changed_byte_is_damage(sites in sites(), at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let mut bytes = encode(&sites);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        prop_assert!(decode(&bytes).is_err());
    }

    /// A forged file has a correct hash, so that only the checks of the payload are left.
    #[test]
    fn a_forged_payload_never_panics(payload in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..200)) {
        let _ = decode(&forged(&payload));
    }
}

/// Returns a file with this payload, a correct length and a correct hash.
fn forged(payload: &[u8]) -> Vec<u8> {
    let mut bytes = encode(&SiteVersions::new());
    bytes.truncate(56);
    bytes.extend_from_slice(payload);
    bytes[16..24].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    let hash = blake3::hash(&[&bytes[..24], payload].concat());
    bytes[24..56].copy_from_slice(hash.as_bytes());
    bytes
}

#[test]
fn a_forged_payload_with_a_wrong_order_or_index_is_damage() {
    // One site "a" with the entries "/" and "/b", and one version with the paths in `list`.
    let payload = |entries: [&str; 2], list: &[u8]| {
        let mut bytes = vec![1, 1, b'a', 2];
        for key in entries {
            bytes.push(key.len() as u8);
            bytes.extend_from_slice(key.as_bytes());
            bytes.extend([7; 16]);
        }
        bytes.extend([1, 5]);
        bytes.extend([9; 32]);
        bytes.extend_from_slice(list);
        bytes.push(0);
        forged(&bytes)
    };
    assert!(decode(&payload(["/", "/b"], &[2, 0, 1])).is_ok());
    assert!(decode(&payload(["/b", "/"], &[2, 0, 1])).is_err(), "entries are not sorted");
    for (list, fault) in [
        (&[2, 0, 0][..], "a path twice"),
        (&[1, 2], "an index beyond the entries"),
        (&[3, 0, 1, 1], "too many"),
    ] {
        assert!(decode(&payload(["/", "/b"], list)).is_err(), "{fault}");
    }
    assert!(decode(&forged(&[0])).expect("a file of an earlier release").is_empty());
    assert!(decode(&forged(&[0, 0])).expect("a file without histories").is_empty());
    assert!(decode(&forged(&[0, 0, 0])).is_err(), "bytes after the payload");
}

#[test]
fn the_smallest_file_equals_the_golden_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.versions.hex");
    let paths = entries(&BTreeMap::from([("/".to_owned(), 1)]));
    let queries = entries(&BTreeMap::from([("all".to_owned(), 2)]));
    let version = PublishedVersion { version: 300, hash: [0xAB; 32], paths, queries };
    let serving = Serving { from_ms: 1_000, version: 300, hash: [0xAB; 32] };
    let versions = Versions::new(vec![Arc::new(version)]).with_servings(vec![serving]);
    let sites = SiteVersions::from([("a".to_owned(), versions)]);
    let bytes = encode(&sites);
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    let text: String = bytes.chunks(16).map(line).collect();
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, &text).expect("the golden file is written");
    }
    assert_eq!(fs::read_to_string(path).expect("the golden file"), text);
}

#[test]
fn the_oldest_versions_over_the_limit_are_dropped() {
    let version = |version: u64| {
        Arc::new(PublishedVersion { version, hash: [version as u8; 32], paths: vec![], queries: vec![] })
    };
    for count in [VERSIONS_KEPT_MAX as u64 - 1, VERSIONS_KEPT_MAX as u64, VERSIONS_KEPT_MAX as u64 + 1] {
        let versions = Versions::new((1..=count).map(version).collect());
        let kept: Vec<u64> = versions.iter().map(|version| version.version).collect();
        assert_eq!(kept.len(), VERSIONS_KEPT_MAX.min(count as usize));
        assert_eq!(kept.last(), Some(&count));
    }
}

#[test]
fn a_forged_history_is_damage() {
    // One site "a" without versions, and one history.
    let decode_history = |site: u8, times: &[u8]| {
        let mut bytes = vec![1, 1, b'a', 0, 0, 1, 1, site, times.len() as u8];
        for time in times {
            bytes.extend([*time, 1]);
            bytes.extend([9; 32]);
        }
        decode(&forged(&bytes))
    };
    assert!(decode_history(b'a', &[1, 1, 2]).is_ok());
    assert!(decode_history(b'b', &[1]).is_err(), "no such site");
    assert!(decode_history(b'a', &[2, 1]).is_err(), "times out of order");
    assert!(decode_history(b'a', &[]).is_err(), "an empty history");
    assert!(decode_history(b'a', &[1; SERVINGS_KEPT_MAX]).is_ok());
    assert!(decode_history(b'a', &[1; SERVINGS_KEPT_MAX + 1]).is_err(), "too many");
}

#[test]
fn the_version_of_a_time_is_the_last_one_that_began_before() {
    let serving = |from_ms| Serving { from_ms, version: from_ms as u64, hash: [from_ms as u8; 32] };
    for count in [SERVINGS_KEPT_MAX - 1, SERVINGS_KEPT_MAX, SERVINGS_KEPT_MAX + 1] {
        let count = count as i64;
        let versions = Versions::new(vec![]).with_servings((1..=count).map(|at| serving(10 * at)).collect());
        let oldest = (count - SERVINGS_KEPT_MAX as i64).max(0) + 1;
        let served_at = |at_ms| versions.served_at(at_ms).map(|serving| serving.from_ms);
        let found = [10 * oldest - 1, 10 * oldest, 10 * oldest + 9, 10 * count + 5].map(served_at);
        assert_eq!(found, [None, Some(10 * oldest), Some(10 * oldest), Some(10 * count)]);
    }
}

#[test]
fn a_file_over_256_mib_is_not_read() {
    let directory = temporary_directory();
    let path = directory.path().join("versions");
    let file = fs::File::create(&path).expect("created");
    let sizes = [VERSIONS_FILE_BYTES_MAX - 1, VERSIONS_FILE_BYTES_MAX, VERSIONS_FILE_BYTES_MAX + 1];
    for (bytes, fault) in
        sizes.into_iter().zip(["its magic", "its magic", "expected at most 268435456 bytes, got 268435457"])
    {
        // A sparse file takes no space.
        file.set_len(bytes).expect("the length is set");
        let error = read_error(&path);
        assert!(error.contains(fault), "{bytes}: {error}");
    }
}

fn read_error(path: &Path) -> String {
    check(path).expect_err("the file is no list of versions").to_string()
}

fn run(arguments: &[&Path]) -> (Option<i32>, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_parallax")).args(arguments).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn check_verifies_the_file_and_restore_copies_it() {
    let server = Server::start(&[("acme.snapshot", &super::acme(1, "one"))], &[]);
    let file = server.data().join("versions");
    eventually("the version is saved", || file.exists().then_some(()));
    let (code, text) = run(&[Path::new("check"), server.data()]);
    assert!(code == Some(0) && text.contains("versions: sound, 1 version of 1 site\n"), "{text}");
    let parent = temporary_directory();
    let target = parent.path().join("data");
    let (code, text) = run(&[Path::new("restore"), server.data(), &target]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read(target.join("versions")).expect("it is copied"), fs::read(&file).expect("a file"));
    assert!(server.data().join("columns-key").exists() && !target.join("columns-key").exists());
    fs::write(&file, "damaged").expect("written");
    let (code, text) = run(&[Path::new("check"), server.data()]);
    assert!(code == Some(1) && text.contains("the file `versions` is damaged"), "{text}");
    fs::write(server.data().join("phases"), "damaged").expect("written");
    let (code, text) = run(&[Path::new("check"), server.data()]);
    let names_all =
        ["the file `versions` is damaged", "the file `phases` is damaged", "2 of the files versions"]
            .iter()
            .all(|part| text.contains(part));
    assert!(code == Some(1) && names_all, "{text}");
    // A restore does not depend on the file.
    let (code, text) = run(&[Path::new("restore"), server.data(), &parent.path().join("other")]);
    assert_eq!(code, Some(0), "{text}");
}
