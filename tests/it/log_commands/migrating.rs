//! `migrate`: a data directory of an earlier release gets the formats of this one, with every record and every profile.
//!
//! The program of commit f91f211 wrote the directories `tests/golden/log-2-whole` and `log-2-expired`, the exports and the profiles beside
//! them. In `log-2-expired` retention has deleted the first segment, so only the checkpoint has the profiles of its records.
//! For that, the file `clock` was moved forward by two months between two starts. The program of commit 7b975505 wrote `log-3`,
//! without the file `phases`, whose format changed again before a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::checksum::crc32c;
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::{Row, as_arg, flip_bit, parallax, run, segments, write_sealed_log};
use crate::dice::Dice;
use crate::harness::{MountedDisk, Server, copy_of_golden, temporary_directory, times};

/// The directories, and the numbers of their segments.
const GOLDEN: [(&str, usize); 3] = [("log-2-whole", 3), ("log-2-expired", 3), ("log-3", 2)];
/// Bytes of a block of the file system.
const BLOCK_BYTES: usize = 4096;

/// Returns a copy of a golden directory, as the directory `data` in a directory of its own.
fn golden(name: &str) -> (TempDir, PathBuf) {
    let parent = temporary_directory();
    let data = parent.path().join("data");
    fs::rename(copy_of_golden(name).keep(), &data).expect("it is moved");
    (parent, data)
}

fn golden_file(name: &str, suffix: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.{suffix}"));
    fs::read_to_string(path).expect("a golden file")
}

fn exported(data: &Path) -> String {
    let export = run(&["export", as_arg(data)]);
    export.assert_exit(0, &[]);
    export.out
}

/// Asserts that a directory has the records that the earlier program exported, in all members that it exported.
fn assert_records(data: &Path, name: &str) {
    let parse = |line: &str| serde_json::from_str::<Map<String, Value>>(line).expect("a line is JSON");
    let found = exported(data);
    let expected = golden_file(name, "export.ndjson");
    assert_eq!(found.lines().count(), expected.lines().count());
    for (found, expected) in found.lines().map(parse).zip(expected.lines().map(parse)) {
        for (member, value) in &expected {
            assert_eq!(found.get(member), Some(value), "{member} of {expected:?}");
        }
    }
}

/// Removes the members of a profile that the earlier program did not have, or gave as of the time of the request: it counted the visit
/// of the request too.
fn comparable(mut visitor: Value) -> Value {
    for member in ["context", "enrolments"] {
        visitor.as_object_mut().expect("an object").remove(member);
    }
    let counts = visitor["profile"]["visitor"].as_object_mut().expect("an object");
    for member in ["visits", "isNew", "isReturning"] {
        counts.remove(member);
    }
    visitor
}

/// Asserts that a server on this directory knows the visitors that the earlier program knew.
fn assert_profiles(data: &Path, name: &str) {
    let server = Server::start_with_data(data, &[], &[]);
    let expected: Value = serde_json::from_str(&golden_file(name, "profiles.json")).expect("JSON");
    let expected = expected.as_object().expect("an object");
    assert!(expected.len() > 10, "the file names visitors");
    for (visitor, profile) in expected {
        let found = server.admin_get(&format!("/visitors?site=fjell&{visitor}")).json();
        // The records of the earlier program enrol nobody.
        assert_eq!(found["enrolments"], serde_json::json!([]), "{visitor} in {name}");
        assert_eq!(comparable(found), comparable(profile.clone()), "{visitor} in {name}");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Changes the format version in the headers of all segments to 2.
fn make_earlier(data: &Path) {
    for segment in segments(data) {
        let mut bytes = fs::read(&segment).expect("readable");
        bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
        let crc = crc32c(&[&bytes[..52]]);
        bytes[52..56].copy_from_slice(&crc.to_le_bytes());
        fs::write(&segment, bytes).expect("written");
    }
}

/// Writes the log of an earlier format with `count` records.
fn write_earlier_log(data: &Path, count: usize) {
    let rows: Vec<Row> = (0..count).map(|n| Row::of(&format!("visitor {n}"))).collect();
    write_sealed_log(data, &rows);
    make_earlier(data);
}

#[test]
fn a_migrated_directory_has_every_record_and_every_profile_of_the_program_before() {
    for (name, segment_count) in GOLDEN {
        let (parent, data) = golden(name);
        let original = names(&data);
        let records = exported(&data);
        let position = run(&["export", as_arg(&data), "-o", as_arg(&parent.path().join("events"))]).out;
        let position = position.trim().rsplit(' ').next().expect("a position").to_owned();
        let migrated = run(&["migrate", as_arg(&data)]);
        migrated.assert_exit(
            0,
            &[&format!("migrated {segment_count} segments"), "records are equal", "data.before-migration"],
        );
        assert_eq!(exported(&data), records);
        assert_eq!(exported(&parent.path().join("data.before-migration")), records);
        assert_eq!(names(&parent.path().join("data.before-migration")), original);
        run(&["export", as_arg(&data), "--since", &position]).assert_exit(0, &[]);
        for segment in segments(&data) {
            run(&["inspect", as_arg(&segment)]).assert_exit(0, &["format 4, first seq"]);
        }
        run(&["check", as_arg(&data)]).assert_exit(0, &["sound"]);
        run(&["migrate", as_arg(&data)]).assert_exit(0, &["nothing to do"]);
        assert_profiles(&data, name);
        assert_records(&data, name);
        run(&["check", as_arg(&data)]).assert_exit(0, &["sound"]);
    }
}

#[test]
fn a_directory_of_the_program_before_opens_in_place_with_every_profile() {
    for (name, _) in GOLDEN {
        let (_parent, data) = golden(name);
        run(&["check", as_arg(&data)]).assert_exit(0, &["sound"]);
        assert_profiles(&data, name);
        assert_records(&data, name);
        run(&["check", as_arg(&data)]).assert_exit(0, &["sound"]);
    }
}

#[test]
fn a_restored_backup_of_the_program_before_has_every_profile_and_is_sound() {
    for (name, _) in GOLDEN {
        let (parent, data) = golden(name);
        let restored = parent.path().join("restored");
        run(&["restore", as_arg(&data), as_arg(&restored)]).assert_exit(0, &["restored"]);
        run(&["check", as_arg(&restored)]).assert_exit(0, &["sound"]);
        assert_profiles(&restored, name);
        run(&["check", as_arg(&restored)]).assert_exit(0, &["sound"]);
    }
}

#[test]
fn a_migration_to_another_place_leaves_the_original_as_it_is() {
    let (parent, data) = golden("log-2-expired");
    let target = parent.path().join("new");
    run(&["migrate", as_arg(&data), "-o", as_arg(&target)]).assert_exit(0, &["new: migrated 3 segments"]);
    assert_eq!(names(parent.path()), ["data", "new"]);
    assert_eq!(exported(&target), exported(&data));
    run(&["inspect", as_arg(&segments(&data)[0])]).assert_exit(0, &["format 2, first seq"]);
    assert_profiles(&target, "log-2-expired");
    run(&["migrate", as_arg(&data), "-o", as_arg(&target)])
        .assert_exit(1, &["new is not empty; choose a directory that is empty or does not exist"]);
}

#[test]
fn a_directory_in_use_is_not_migrated() {
    let (parent, data) = golden("log-2-whole");
    let server = Server::start_with_data(&data, &[], &[]);
    run(&["migrate", as_arg(&data)]).assert_exit(3, &["data is in use; stop the server that uses it"]);
    drop(server);
    run(&["migrate", as_arg(&data)]).assert_exit(0, &["migrated"]);
    assert!(parent.path().join("data.before-migration").exists());
}

#[test]
fn a_directory_without_a_log_is_not_migrated() {
    let parent = temporary_directory();
    run(&["migrate", as_arg(parent.path())]).assert_exit(1, &["contains no segment of a log"]);
    run(&["migrate", as_arg(&parent.path().join("none"))]).assert_exit(1, &["No such file"]);
}

#[test]
fn a_taken_name_is_reported_before_anything_is_changed() {
    for taken in ["data.before-migration", "data.migrating"] {
        let (parent, data) = golden("log-2-whole");
        fs::create_dir(parent.path().join(taken)).expect("created");
        fs::write(parent.path().join(taken).join("mine"), "x").expect("written");
        run(&["migrate", as_arg(&data)])
            .assert_exit(1, &[taken, "exists; move it away or delete it, and try again"]);
        assert_eq!(names(&parent.path().join(taken)), ["mine"]);
        run(&["inspect", as_arg(&segments(&data)[0])]).assert_exit(0, &["format 2"]);
    }
}

#[test]
fn the_damage_of_a_log_is_in_the_copy_too_and_is_reported() {
    let parent = temporary_directory();
    let data = parent.path().join("data");
    write_earlier_log(&data, 100);
    flip_bit(&segments(&data)[1]);
    let before = run(&["export", as_arg(&data)]);
    before.assert_exit(1, &["damaged batch"]);
    run(&["migrate", as_arg(&data)])
        .assert_exit(1, &["damaged batch", "the log is damaged in 1 places, before and after"]);
    let after = run(&["export", as_arg(&data)]);
    assert_eq!((after.code, after.out), (1, before.out));
}

#[test]
fn a_mount_point_is_not_migrated_in_place() {
    let Some(disk) = MountedDisk::new("8m") else { return };
    let Some(target) = MountedDisk::new("8m") else { return };
    write_earlier_log(disk.path(), 50);
    fs::create_dir(disk.path().join("lost+found")).expect("created");
    let before = exported(disk.path());
    run(&["migrate", as_arg(disk.path())])
        .assert_exit(1, &["cannot migrate", "in place", "to another place with -o NEWDIR"]);
    assert_eq!(exported(disk.path()), before);
    let parent = disk.path().parent().expect("a parent");
    let name = disk.path().file_name().expect("a name").to_str().expect("UTF-8");
    assert!(!parent.join(format!("{name}.migrating")).exists(), "the copy is deleted");
    let new = target.path().join("new");
    run(&["migrate", as_arg(disk.path()), "-o", as_arg(&new)]).assert_exit(0, &["migrated"]);
    assert_eq!(exported(&new), before);
    fs::remove_dir_all(&new).expect("removed");
    // An interrupted run has left a file and its marker.
    fs::write(target.path().join("secret"), "half").expect("written");
    fs::write(target.path().join(".migration"), "").expect("written");
    run(&["migrate", as_arg(disk.path()), "-o", as_arg(target.path())]).assert_exit(0, &["migrated"]);
    assert_eq!(exported(target.path()), before);
    assert!(!names(target.path()).contains(&".migration".to_owned()));
    let inside = disk.path().join("inside");
    run(&["migrate", as_arg(disk.path()), "-o", as_arg(&inside)])
        .assert_exit(1, &["is inside the data directory"]);
}

#[test]
fn a_copy_needs_as_much_free_space_as_its_files() {
    for (missing_blocks, is_enough) in [(0, true), (1, false)] {
        let Some(disk) = MountedDisk::new("4m") else { return };
        let data = disk.path().join("data");
        write_earlier_log(&data, 200);
        let copied = names(&data).into_iter().filter(|name| !name.ends_with(".columns"));
        let lengths = copied.map(|name| fs::metadata(data.join(name)).expect("a file").len() as usize);
        let needed: usize = lengths.map(|length| length.div_ceil(BLOCK_BYTES)).sum();
        // Fill the disk, and give back as many blocks as the copy needs.
        let filler = disk.path().join("filler");
        let _ = fs::write(&filler, vec![1; 5 << 20]);
        let filled = fs::metadata(&filler).expect("a file").len() as usize / BLOCK_BYTES;
        let file = fs::OpenOptions::new().write(true).open(&filler).expect("opened");
        file.set_len(((filled - needed + missing_blocks) * BLOCK_BYTES) as u64).expect("truncated");
        let migrated = run(&["migrate", as_arg(&data)]);
        match is_enough {
            true => migrated.assert_exit(0, &["migrated"]),
            false => migrated.assert_exit(3, &["the copy needs ", "bytes left", "-o NEWDIR"]),
        }
        assert_eq!(names(disk.path()).contains(&"data.before-migration".to_owned()), is_enough);
    }
}

/// Runs a migration and kills it after `delay`. Returns whether it had ended before.
fn migrate_and_kill(data: &Path, delay: Duration) -> bool {
    let mut child = parallax(&["migrate", as_arg(data)]).stdout(Stdio::null()).spawn().expect("it starts");
    thread::park_timeout(delay);
    let has_ended = child.try_wait().expect("its status is readable").is_some();
    let _ = child.kill();
    child.wait().expect("it ends");
    has_ended
}

#[test]
fn a_killed_migration_loses_no_record_and_doubles_none() {
    let template = temporary_directory();
    write_earlier_log(template.path(), 3_000);
    let records = exported(template.path());
    assert_eq!(records.lines().count(), 3_000);
    let copy = |data: &Path| {
        fs::create_dir(data).expect("created");
        for name in names(template.path()) {
            fs::copy(template.path().join(&name), data.join(&name)).expect("copied");
        }
    };
    let undisturbed = temporary_directory();
    copy(&undisturbed.path().join("data"));
    let begun = Instant::now();
    run(&["migrate", as_arg(&undisturbed.path().join("data"))]).assert_exit(0, &["migrated"]);
    let whole_us = begun.elapsed().as_micros() as usize;
    let mut dice = Dice(42);
    for round in 0..times(5, 200) {
        let parent = temporary_directory();
        let data = parent.path().join("data");
        copy(&data);
        let mut kills = 0;
        while !migrate_and_kill(&data, Duration::from_micros(dice.below(whole_us + whole_us / 4) as u64)) {
            kills += 1;
            assert_eq!(exported(&data), records, "round {round}, after {kills} kills");
        }
        // The last run had ended, or was killed before it had finished the names.
        run(&["migrate", as_arg(&data)]).assert_exit(0, &[]);
        assert_eq!(names(parent.path()), ["data", "data.before-migration"], "round {round}");
        assert_eq!(exported(&data), records, "round {round}");
        assert_eq!(exported(&parent.path().join("data.before-migration")), records, "round {round}");
        assert!(!names(&data).contains(&".migration".to_owned()), "round {round}");
        run(&["check", as_arg(&data)]).assert_exit(0, &["sound"]);
    }
}
