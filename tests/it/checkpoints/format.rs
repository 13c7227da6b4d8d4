//! The format does not change by accident: the smallest file, byte for byte, and what it says.

use std::fs;
use std::path::Path;

use parallax::visitors::apply::Keys;
use parallax::visitors::checkpoint::reader::Opened;
use parallax::visitors::log::bloom::Whose;
use parallax::visitors::log::{Kind, Record, Request};
use parallax::visitors::profile::profile::{Entry, Profile};

use super::{SECRET, World};

/// One visitor who is known, tied to a user by one id.
fn smallest() -> World {
    let mut world = World::new(1);
    world.cost_max = 1 << 20;
    let mut running = world.open();
    let mut request = Request::new(0);
    let identify = Record {
        kind: Kind::Identify,
        bot: false,
        gpc: false,
        received_ms: super::NOW_MS,
        timestamp_ms: super::NOW_MS,
        key: 1,
        site: Some("a"),
        message_id: None,
        anon_id: Some("v"),
        user_id: Some("u"),
        event: None,
        name: None,
        path: None,
        variants: None,
        ip: None,
        payload: r#"{"traits":{"plan":"pro"}}"#,
    };
    request.push(&identify).expect("it is within bounds");
    running.port.send(request).expect("the queue takes it");
    running.settle();
    world
}

fn hex(bytes: &[u8]) -> String {
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    bytes.chunks(16).map(line).collect()
}

#[test]
fn the_smallest_checkpoint_is_byte_for_byte_the_one_that_the_format_s_document_names() {
    let world = smallest();
    let written = hex(&world.disk.bytes(&world.folder().path_of(1)));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.checkpoint.hex");
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        fs::write(&golden, &written).expect("the golden file is written");
    }
    assert!(
        fs::read_to_string(golden).expect("the golden file") == written,
        "other bytes for the same table. If a change of the format is meant, raise FORMAT_VERSION and run the test with \
         PARALLAX_BLESS=1"
    );
}

#[test]
fn the_golden_file_says_who_is_known() {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.checkpoint.hex"),
    );
    let text = text.expect("the golden file");
    let bytes: Vec<u8> =
        text.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect();
    let world = World::new(1);
    world.disk.put(&world.folder().path_of(1), &bytes);
    let opened = Opened::open(world.folder().disk(), &world.folder().path_of(1)).expect("it is sound");
    let header = *opened.header();
    assert_eq!((header.seq, header.entries, header.cost_max, header.secret), (1, 2, 1 << 20, SECRET));
    let mut entries = opened.entries().expect("it is sound");
    let keys = Keys::new(SECRET);
    let user = entries.read_next().expect("it is sound").expect("the user");
    assert_eq!((user.key, user.order), (keys.of("a", Whose::User, "u"), 0));
    let profile = Profile::read(user.value).expect("a profile");
    assert_eq!(
        (profile.site(), profile.user_id(), profile.anon_ids().collect()),
        ("a", Some("u"), vec!["v"])
    );
    let tied = entries.read_next().expect("it is sound").expect("the id");
    assert_eq!(tied.key, keys.of("a", Whose::Anon, "v"));
    assert!(
        matches!(Entry::read(tied.value), Some(Entry::Alias(key)) if key == keys.of("a", Whose::User, "u"))
    );
    assert!(entries.read_next().expect("it is sound").is_none());
}
