//! The smallest checkpoint, byte for byte, and its meaning, so that the format does not change by accident.

use std::fs;
use std::path::Path;

use parallax::testing::log::format::secret_to_bytes;
use parallax::testing::log::{LogId, Request};
use parallax::testing::record::{IdKind, Record, RecordKind, TombstoneKey};
use parallax::testing::visitors::apply::KeyHasher;
use parallax::testing::visitors::checkpoint::reader::CheckpointReader;
use parallax::testing::visitors::profile::profile::{Profile, TableEntry};
use parallax::testing::visitors::ties::TieEntry;

use super::{DIRECTORY, SECRET, World};
use crate::folded::with_fold_input;

const LOG_ID: LogId = LogId(*b"the ID of a log.");

/// The key of the digests in the entries of ownership.
const KEY: [u8; 32] = [9; 32];

/// Returns a world with one known visitor: a user with one linked anonymous ID.
fn smallest() -> World {
    let mut world = World::new(1);
    world.cost_max = 1 << 20;
    world.options.log_id = Some(LOG_ID);
    world.disk.put(&Path::new(DIRECTORY).join("secret"), &secret_to_bytes(&KEY));
    let mut running = world.open();
    let mut request = Request::new(0);
    let payload = r#"{"traits":{"plan":"pro"}}"#;
    let identify = Record {
        received_ms: super::NOW_MS,
        timestamp_ms: super::NOW_MS,
        key: 1,
        site: Some("a"),
        anon_id: Some("v"),
        user_id: Some("u"),
        payload,
        ..Record::new(RecordKind::Identify)
    };
    with_fold_input(identify.kind, payload, |fold_input| request.push(&Record { fold_input, ..identify }))
        .expect("the record is within bounds");
    running.client.send(request).expect("the queue accepts the request");
    running.settle();
    world
}

fn hex(bytes: &[u8]) -> String {
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    bytes.chunks(16).map(line).collect()
}

#[test]
fn the_smallest_checkpoint_matches_the_golden_file() {
    let world = smallest();
    let written = hex(&world.disk.bytes(&world.directory().path_of(1)));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.checkpoint.hex");
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        fs::write(&golden, &written).expect("the golden file is written");
    }
    assert!(
        fs::read_to_string(golden).expect("the golden file") == written,
        "the bytes of the same table changed. If the format change is intended, raise FORMAT_VERSION and run the test with \
         PARALLAX_BLESS=1"
    );
}

#[test]
fn the_golden_file_decodes_to_the_known_visitor() {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.checkpoint.hex"),
    );
    let text = text.expect("the golden file");
    let bytes: Vec<u8> =
        text.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect();
    let world = World::new(1);
    world.disk.put(&world.directory().path_of(1), &bytes);
    let opened = CheckpointReader::open(world.directory().disk(), &world.directory().path_of(1))
        .expect("the file is valid");
    let header = *opened.header();
    assert_eq!(header.log_id, LOG_ID);
    assert_eq!((header.seq, header.entries, header.cost_max, header.secret), (1, 2, 1 << 20, SECRET));
    let ties: Vec<TieEntry> = opened.ties().map(|tie| tie.expect("the file is valid")).collect();
    let digests = TombstoneKey::new(KEY);
    assert_eq!(
        ties.iter().map(|tie| (tie.seq, tie.anon, tie.user)).collect::<Vec<_>>(),
        [(1, digests.tag("a", IdKind::Anon, "v"), Some(digests.tag("a", IdKind::User, "u")))]
    );
    assert!(opened.sites().expect("the file is valid").iter().eq(&[Box::from("a")]));
    assert!(opened.lost_aliases().expect("the file is valid").is_empty());
    let mut entries = opened.entries().expect("the file is valid");
    let keys = KeyHasher::new(SECRET);
    let user = entries.read_next().expect("the file is valid").expect("the user");
    assert_eq!((user.key, user.order), (keys.key("a", IdKind::User, "u"), 0));
    let profile = Profile::decode(user.value).expect("a profile");
    assert_eq!(
        (profile.site(), profile.user_id(), profile.anon_ids().collect()),
        ("a", Some("u"), vec!["v"])
    );
    let alias = entries.read_next().expect("the file is valid").expect("the id");
    assert_eq!(alias.key, keys.key("a", IdKind::Anon, "v"));
    assert!(
        matches!(TableEntry::decode(alias.value), Some(TableEntry::Alias(key)) if key == keys.key("a", IdKind::User, "u"))
    );
    assert!(entries.read_next().expect("the file is valid").is_none());
}
