//! `current.json` and its limits, the changes of `publish`, and the rule for removals, without a server.

use parallax::testing::checksum::FileHash;
use parallax::testing::distribute::list::{
    FILE_BYTES_MAX, FILES_MAX, LIST_BYTES_MAX, ListError, NAME_BYTES_MAX, SourceFile, format,
    is_snapshot_name, parse,
};
use parallax::testing::distribute::mirror::is_removable;
use parallax::testing::distribute::publish::{PublishError, add, remove};
use parallax::testing::site::catalog::files::{FileList, FileState, FileStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

fn entry(name: &str, bytes: u64) -> Value {
    json!({ "name": name, "bytes": bytes, "blake3": "0f".repeat(32) })
}

fn parsed(files: &[Value]) -> Result<Vec<SourceFile>, ListError> {
    parse(json!({ "files": files }).to_string().as_bytes())
}

fn file(name: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), bytes: 1, hash: FileHash::Blake3([0; 32]) }
}

fn files(names: &[&str]) -> Vec<SourceFile> {
    names.iter().map(|name| file(name)).collect()
}

#[test]
fn a_list_is_read_as_it_was_written() {
    let list = vec![
        file("a-1.snapshot"),
        SourceFile { bytes: 9, hash: FileHash::Blake3([0xAB; 32]), ..file("b.snapshot") },
    ];
    assert_eq!(parse(format(&list).as_bytes()), Ok(list));
    let more = json!({ "files": [{ "name": "a.snapshot", "bytes": 1, "blake3": "00".repeat(32), "later": 1 }], "later": {} });
    assert_eq!(parse(more.to_string().as_bytes()), Ok(files(&["a.snapshot"])));
}

#[test]
fn an_empty_or_broken_list_is_refused() {
    assert_eq!(parsed(&[]), Err(ListError::Empty));
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"files":{}}"#,
        r#"{"files":[{}]}"#,
        "<html>",
        r#"{"files":[{"name":"a.snapshot","bytes":-1,"blake3":""}]}"#,
    ] {
        assert!(matches!(parse(text.as_bytes()), Err(ListError::Json(_))), "{text}");
    }
    let hash = |hash: &str| parsed(&[json!({ "name": "a.snapshot", "bytes": 1, "blake3": hash })]);
    assert!(hash(&"aB".repeat(32)).is_ok());
    for wrong in
        ["", "0", &"0".repeat(63), &"0".repeat(65), &"g0".repeat(32), &"+1".repeat(32), &"é".repeat(32)]
    {
        assert_eq!(hash(wrong), Err(ListError::Hash("a.snapshot".to_owned())), "{wrong}");
    }
    let twice = [entry("a.snapshot", 1), entry("b.snapshot", 1), entry("a.snapshot", 2)];
    assert_eq!(parsed(&twice), Err(ListError::Twice("a.snapshot".to_owned())));
}

#[test]
fn the_limits_of_a_list_hold_exactly() {
    let many = |count: usize| (0..count).map(|i| entry(&format!("a-{i}.snapshot"), 1)).collect::<Vec<_>>();
    assert_eq!(parsed(&many(FILES_MAX)).map(|files| files.len()), Ok(FILES_MAX));
    assert_eq!(parsed(&many(FILES_MAX + 1)), Err(ListError::TooMany(FILES_MAX + 1)));
    assert!(parsed(&[entry("a.snapshot", FILE_BYTES_MAX)]).is_ok());
    for bytes in [0, FILE_BYTES_MAX + 1, u64::MAX] {
        assert_eq!(
            parsed(&[entry("a.snapshot", bytes)]),
            Err(ListError::Length { name: "a.snapshot".to_owned(), bytes })
        );
    }
    let padded = |length: usize| {
        let list = json!({ "files": [entry("a.snapshot", 1)] }).to_string();
        format!("{list}{}", " ".repeat(length - list.len()))
    };
    assert!(parse(padded(LIST_BYTES_MAX).as_bytes()).is_ok());
    assert_eq!(parse(padded(LIST_BYTES_MAX + 1).as_bytes()), Err(ListError::TooLong));
    // The longest names fit, so that the limits do not contradict each other.
    let longest = (0..FILES_MAX)
        .map(|i| entry(&format!("{i:0>width$}.snapshot", width = NAME_BYTES_MAX - 9), FILE_BYTES_MAX));
    assert_eq!(parsed(&longest.collect::<Vec<_>>()).map(|files| files.len()), Ok(FILES_MAX));
}

#[test]
fn no_name_leaves_the_directory_or_is_hidden() {
    for name in [
        "a.snapshot",
        "A_b-1.2.snapshot",
        "0.snapshot",
        &format!("{}.snapshot", "a".repeat(NAME_BYTES_MAX - 9)),
    ] {
        assert!(is_snapshot_name(name), "{name}");
    }
    let too_long = format!("{}.snapshot", "a".repeat(NAME_BYTES_MAX - 8));
    for name in [
        "",
        ".snapshot",
        "..snapshot",
        ".a.snapshot",
        "-a.snapshot",
        "a",
        "a.snapshot.tmp",
        "../a.snapshot",
        "a/b.snapshot",
        "/a.snapshot",
        "a\\b.snapshot",
        "a\0.snapshot",
        "a b.snapshot",
        "a%2fb.snapshot",
        "ä.snapshot",
        "a\n.snapshot",
        ".pulled",
        "current.json",
        &too_long,
    ] {
        assert!(!is_snapshot_name(name), "{name}");
        assert!(parsed(&[entry(name, 1)]).is_err());
    }
}

fn names(result: Result<Option<Vec<SourceFile>>, PublishError>) -> Vec<String> {
    result.expect("accepted").expect("changed").into_iter().map(|file| file.name).collect()
}

#[test]
fn publishing_keeps_the_newest_versions_of_its_site_and_all_other_files() {
    let before =
        files(&["a-1.snapshot", "a-2.snapshot", "a-b-7.snapshot", "a-1-1.snapshot", "other.snapshot"]);
    let added =
        |version: u64, keep| add(&before, &file(&format!("a-{version}.snapshot")), "a", version, keep);
    let others = ["a-b-7.snapshot", "a-1-1.snapshot", "other.snapshot"];
    assert_eq!(names(added(3, 1)), [&others[..], &["a-3.snapshot"]].concat());
    assert_eq!(names(added(3, 2)), [&["a-2.snapshot"], &others[..], &["a-3.snapshot"]].concat());
    for keep in [3, 4] {
        assert_eq!(
            names(added(3, keep)),
            [&["a-1.snapshot", "a-2.snapshot"], &others[..], &["a-3.snapshot"]].concat()
        );
    }
    assert_eq!(names(add(&[], &file("a-3.snapshot"), "a", 3, 1)), ["a-3.snapshot"]);
}

#[test]
fn a_version_that_nodes_would_not_serve_is_refused() {
    let before = files(&["a-10.snapshot", "a-9.snapshot"]);
    let add = |new: SourceFile, version| add(&before, &new, "a", version, 2);
    assert_eq!(add(file("a-8.snapshot"), 8), Err(PublishError::LowerVersion { version: 8, newest: 10 }));
    assert_eq!(add(file("a-10.snapshot"), 10), Ok(None), "publishing again changes nothing");
    let other = SourceFile { bytes: 2, ..file("a-10.snapshot") };
    assert_eq!(add(other, 10), Err(PublishError::VersionTaken("a-10.snapshot".to_owned())));
    let full: Vec<_> = (0..FILES_MAX).map(|i| file(&format!("site{i}-1.snapshot"))).collect();
    let one_more = parallax::testing::distribute::publish::add(&full, &file("a-1.snapshot"), "a", 1, 2);
    assert_eq!(one_more, Err(PublishError::List(ListError::TooMany(FILES_MAX + 1))));
    let replaced =
        parallax::testing::distribute::publish::add(&full, &file("site0-2.snapshot"), "site0", 2, 1);
    assert_eq!(replaced.expect("accepted").expect("changed").len(), FILES_MAX);
}

#[test]
fn the_only_file_cannot_be_removed() {
    assert_eq!(
        remove(&files(&["a.snapshot"]), "a.snapshot"),
        Err(PublishError::OnlyFile("a.snapshot".to_owned()))
    );
    assert_eq!(remove(&files(&["a.snapshot", "b.snapshot"]), "a.snapshot"), Ok(files(&["b.snapshot"])));
    let missing = remove(&files(&["a.snapshot"]), "b.snapshot");
    assert_eq!(
        missing,
        Err(PublishError::NotFound { name: "b.snapshot".to_owned(), present: "a.snapshot".to_owned() })
    );
}

/// Creates the states of files, given as name, site and state.
fn states(files: &[(&str, &str, FileState)], more: usize) -> FileList {
    let status = |(name, site, state): &(&str, &str, FileState)| FileStatus {
        name: (*name).to_owned(),
        site: (*state != FileState::Refused).then(|| ((*site).to_owned(), 1)),
        bytes: Some(1),
        state: *state,
        reason: None,
        snapshot: None,
    };
    FileList { files: files.iter().map(status).collect(), more, snapshots: Vec::new() }
}

#[test]
fn a_removal_never_ends_a_site_because_another_file_is_damaged_or_late() {
    use FileState::{Refused, Served, Superseded};
    let old = ("a-1.snapshot", "a", Served);
    // The replacement is damaged, or has not arrived.
    let new = files(&["a-2.snapshot"]);
    assert!(!is_removable("a-1.snapshot", &new, &states(&[old, ("a-2.snapshot", "a", Refused)], 0)));
    assert!(!is_removable("a-1.snapshot", &new, &states(&[old], 0)));
    // A file that is not served may go in any case.
    assert!(is_removable("a-1.snapshot", &new, &states(&[("a-1.snapshot", "a", Superseded)], 0)));
    assert!(is_removable("a-1.snapshot", &new, &states(&[("a-1.snapshot", "a", Refused)], 0)));
    // A rollback: the older file is accepted, and a damaged file of another site does not matter.
    let rolled_back = files(&["a-1.snapshot", "b-1.snapshot"]);
    let mut known = vec![
        ("a-1.snapshot", "a", Superseded),
        ("a-2.snapshot", "a", Served),
        ("b-1.snapshot", "b", Refused),
    ];
    assert!(is_removable("a-2.snapshot", &rolled_back, &states(&known, 0)));
    // A site ends on purpose: all other files are accepted.
    known[2].2 = Served;
    assert!(is_removable("a-2.snapshot", &files(&["b-1.snapshot"]), &states(&known, 0)));
    known[2].2 = Refused;
    assert!(!is_removable("a-2.snapshot", &files(&["b-1.snapshot"]), &states(&known, 0)));
    // The server has not seen the file yet.
    assert!(!is_removable("c.snapshot", &new, &states(&known, 0)));
    assert!(!is_removable("c.snapshot", &new, &states(&known, 1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_parsed_or_refused_and_accepted_names_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in "[-a-zA-Z0-9./_]{0,30}(\\.snapshot)?") {
        let _ = parse(&bytes);
        if let Ok(files) = parsed(&[entry(&name, 1)]) {
            prop_assert!(!files[0].name.contains('/') && !files[0].name.starts_with('.'));
            let path = std::path::Path::new("x").join(&name);
            prop_assert_eq!(path.parent(), Some(std::path::Path::new("x")));
        }
    }

    #[test]
    fn a_served_file_is_removed_only_if_its_site_stays_or_everything_listed_is_accepted(
        kinds in proptest::collection::vec((0_u8..4, any::<bool>(), 0_u8..2), 1..6),
    ) {
        let name = |i: usize| format!("f{i}.snapshot");
        let site = |own: u8| if own == 0 { "a" } else { "b" };
        let all: Vec<_> = kinds.iter().enumerate().map(|(i, kind)| (name(i), *kind)).collect();
        let state = |kind: u8| [FileState::Refused, FileState::Served, FileState::Superseded].get(kind as usize).copied();
        let known: Vec<_> = all.iter().filter_map(|(name, kind)| Some((name.as_str(), site(kind.2), state(kind.0)?))).collect();
        let listed: Vec<_> = all.iter().filter(|(_, kind)| kind.1).map(|(name, _)| file(name)).collect();
        let list = states(&known, 0);
        for (own, kind) in all.iter().filter(|(_, kind)| !kind.1) {
            let is_accepted = |name: &str| known.iter().any(|(other, _, state)| *other == name && *state != FileState::Refused);
            let site_stays = all.iter().any(|(other, kind_b)| kind_b.1 && kind_b.2 == kind.2 && is_accepted(other));
            let all_accepted = listed.iter().all(|file| is_accepted(&file.name));
            let expected = matches!(kind.0, 0 | 2) || kind.0 == 1 && (site_stays || all_accepted);
            prop_assert_eq!(is_removable(own, &listed, &list), expected);
        }
    }
}
