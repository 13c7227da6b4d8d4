//! `restore`: a backup is verified and copied, and an interrupted or refused restore leaves nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Row, as_arg, flip_bit, run, segments, write_sealed_log};
use crate::harness::{Server, eventually, temporary_directory};

/// Returns 100 rows of different visitors.
fn rows() -> Vec<Row> {
    (0..100).map(|n| Row::of(&format!("visitor {n}"))).collect()
}

#[test]
fn a_restored_backup_has_the_records_of_the_backup() {
    let parent = temporary_directory();
    let (backup, target) = (parent.path().join("backup"), parent.path().join("a/data"));
    write_sealed_log(&backup, &rows());
    fs::write(backup.join(".new"), "half a file").expect("written");
    // An interrupted restore has left a file.
    fs::create_dir_all(parent.path().join("a/data.restoring")).expect("created");
    fs::write(parent.path().join("a/data.restoring/junk"), "x").expect("written");
    run(&["restore", as_arg(&backup), as_arg(&target)]).assert_exit(0, &["data: restored "]);
    run(&["check", as_arg(&target)]).assert_exit(0, &["sound", "100 records"]);
    assert_eq!(run(&["export", as_arg(&target)]).out, run(&["export", as_arg(&backup)]).out);
    assert!(!target.join(".new").exists() && !target.join("junk").exists());
    assert_eq!(parent.path().join("a").read_dir().expect("a directory").count(), 1);
    let mode = fs::metadata(target.join("secret")).expect("it is copied").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Returns the position at the end of an export of everything.
fn exported_position(directory: &Path) -> String {
    let file = directory.join("../events.ndjson");
    let export = run(&["export", as_arg(directory), "-o", as_arg(&file)]);
    let position = export.out.trim().rsplit(' ').next().expect("a position");
    position.to_owned()
}

#[test]
fn an_export_of_a_restored_backup_cannot_continue_one_of_the_old_log() {
    let parent = temporary_directory();
    let (backup, target) = (parent.path().join("backup"), parent.path().join("data"));
    write_sealed_log(&backup, &rows());
    let restored = run(&["restore", as_arg(&backup), as_arg(&target)]);
    let log_id = restored.out.trim().rsplit(' ').next().expect("an ID");
    let (old, new) = (exported_position(&backup), exported_position(&target));
    assert!(new.starts_with(&format!("{log_id}:100:")), "{new}");
    assert_ne!(old, new);
    run(&["export", as_arg(&target), "--since", &old])
        .assert_exit(1, &["is of another log", log_id, "--since 0"]);
    run(&["export", as_arg(&target), "--since", &new]).assert_exit(0, &[]);
    run(&["export", as_arg(&target), "--since", "100"]).assert_exit(0, &[]);
    run(&["export", as_arg(&target), "--since", "101"])
        .assert_exit(1, &["beyond the end of the log", "is 100"]);
    for wrong in [&new[1..], "x:1", ":1", &format!("{log_id}:")] {
        run(&["export", as_arg(&target), "--since", wrong]).assert_exit(2, &["--since"]);
    }
}

#[test]
fn a_data_directory_without_an_intact_secret_is_damaged() {
    let parent = temporary_directory();
    let data = parent.path().join("data");
    write_sealed_log(&data, &rows());
    run(&["check", as_arg(&data)]).assert_exit(0, &["sound"]);
    let secret = data.join("secret");
    let bytes = fs::read(&secret).expect("it is made with the directory");
    fs::write(&secret, &bytes[1..]).expect("written");
    run(&["check", as_arg(&data)]).assert_exit(1, &["secret", "damaged or missing"]);
    fs::remove_file(&secret).expect("removed");
    run(&["check", as_arg(&data)]).assert_exit(1, &["secret", "damaged or missing"]);
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let parent = temporary_directory();
    let (backup, target) = (parent.path().join("backup"), parent.path().join("data"));
    write_sealed_log(&backup, &rows());
    flip_bit(&segments(&backup)[1]);
    run(&["restore", as_arg(&backup), as_arg(&target)]).assert_exit(1, &["the log is damaged in 1 places"]);
    assert!(!target.exists());
    let empty = parent.path().join("empty");
    fs::create_dir(&empty).expect("created");
    run(&["restore", as_arg(&empty), as_arg(&target)]).assert_exit(1, &["contains no segment of a log"]);
}

#[test]
fn a_restore_never_changes_a_directory_with_files() {
    let parent = temporary_directory();
    let (backup, target) = (parent.path().join("backup"), parent.path().join("data"));
    write_sealed_log(&backup, &rows());
    fs::create_dir(&target).expect("created");
    fs::write(target.join("mine"), "x").expect("written");
    run(&["restore", as_arg(&backup), as_arg(&target)]).assert_exit(1, &["data is not empty"]);
    assert_eq!(target.read_dir().expect("a directory").count(), 1);
    fs::remove_file(target.join("mine")).expect("removed");
    run(&["restore", as_arg(&backup), as_arg(&target)]).assert_exit(0, &[]);
}

#[test]
fn check_restore_and_the_start_name_an_erasure_that_was_not_begun() {
    let parent = temporary_directory();
    let (backup, target) = (parent.path().join("backup"), parent.path().join("data"));
    write_sealed_log(&backup, &rows());
    // The copy was made after the server had created the file, and before it had written a tombstone.
    let requested_ms = 1_767_225_600_000_u64;
    fs::write(backup.join("erasing"), [101_u64, requested_ms].map(u64::to_le_bytes).concat())
        .expect("written");
    let sentence = "the erasure was not begun; erase again";
    let told = ["an erasure with seq 101, requested at 2026-01-01T00:00:00.000Z,", sentence];
    run(&["check", as_arg(&backup)]).assert_exit(0, &told);
    run(&["restore", as_arg(&backup), as_arg(&target)]).assert_exit(0, &told);
    let server = Server::start_with_data(&target, &[], &[]);
    let log = server.log();
    assert!(log.contains(sentence) && log.contains("seq=101 requested=2026-01-01T00:00:00.000Z"), "{log}");
    run(&["check", as_arg(&target)]).assert_exit(0, &["100 records\n"]);
    eventually("the server deletes the file", || (!target.join("erasing").exists()).then_some(()));
    assert!(!server.log().contains("finished an interrupted erasure"), "{}", server.log());
    // A file of an earlier release has no time.
    fs::write(backup.join("erasing"), 101_u64.to_le_bytes()).expect("written");
    run(&["check", as_arg(&backup)]).assert_exit(0, &["an erasure with seq 101 was interrupted:", sentence]);
}
