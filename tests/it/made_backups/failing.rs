//! Backups that fail: each leaves the earlier ones as they were, and no half-made one.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

use super::{Place, assert_exit, check, names, segments};

/// A mounted file system, unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    /// Returns `None` and prints a notice if this user may not mount one.
    fn new(path: PathBuf, options: &str) -> Option<Self> {
        fs::create_dir(&path).expect("created");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&path).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: mounting a tmpfs needs root");
            return None;
        }
        Some(Self(path))
    }

    fn change(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status();
        assert!(status.expect("mount is there").success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_target_on_another_disk_that_is_full_is_exit_code_3_and_leaves_nothing() {
    let mut place = Place::with_events(&["ana", "bob"]);
    let Some(disk) = Mounted::new(place.path("disk"), "size=64k") else { return };
    place.target = disk.0.join("backups");
    assert_exit(&place.run(&[]), 3, " bytes, and ");
    assert_exit(&place.run(&[]), 3, "delete older backups (--keep)");
    assert_eq!(names(&place.target), [".lock"]);
    // There is room for the bytes, but not for the files.
    disk.change("size=16m,nr_inodes=8");
    let failed = place.run(&[]);
    assert_exit(&failed, 3, "No space left on device");
    assert_exit(&failed, 3, "cannot copy ");
    assert_eq!(names(&place.target), [".lock"]);
    disk.change("size=16m,nr_inodes=1000");
    assert_exit(&check(&place.back_up(&[])), 0, "sound");
}

#[test]
fn directories_inside_each_other_or_without_a_log_are_exit_code_1() {
    let mut place = Place::with_events(&["ana"]);
    let before = names(&place.data);
    for target in [place.data.clone(), place.data.join("backups"), place.parent.path().to_owned()] {
        place.target = target;
        assert_exit(
            &place.run(&[]),
            1,
            "are inside each other; choose a target outside of the data directory",
        );
    }
    // A link to the data directory is the data directory.
    std::os::unix::fs::symlink(&place.data, place.path("link")).expect("linked");
    place.target = place.path("link").join("backups");
    assert_exit(&place.run(&[]), 1, "are inside each other");
    assert_eq!(names(&place.data), before);
    place.target = place.path("backups");
    place.data = place.path("nothing");
    assert_exit(&place.run(&[]), 1, "nothing");
    fs::create_dir(&place.data).expect("created");
    assert_exit(&place.run(&[]), 1, "contains no segment of a log");
    assert!(!place.target.exists());
}

#[test]
fn a_second_backup_in_the_same_target_is_exit_code_3() {
    let place = Place::with_events(&["ana"]);
    let lock = place.lock_secret(FlockOperation::LockExclusive);
    let first = place.begin_waiting();
    assert_exit(&place.run(&[]), 3, "is in progress; wait until it has finished");
    drop(lock);
    assert_exit(&first.wait_with_output().expect("it ends"), 0, ": complete, ");
    assert_eq!(place.backups().len(), 1);
}

#[test]
fn a_signal_deletes_the_half_made_backup_and_the_run_after_a_kill_does_so_too() {
    let place = Place::with_events(&["ana"]);
    let earlier = place.back_up(&[]);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::KILL, 9)] {
        let lock = place.lock_secret(FlockOperation::LockExclusive);
        let child = place.begin_waiting();
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let output: Output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.signal(), Some(number), "{output:?}");
        assert_eq!(place.backups().len(), if number == 9 { 2 } else { 1 }, "{:?}", place.backups());
        drop(lock);
    }
    let output = place.run(&[]);
    assert_exit(&output, 0, "deleted 1 unfinished backup that an interrupted run had left");
    assert_eq!(place.backups().len(), 2);
    assert!(earlier.exists() && place.backups().iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_damaged_log_gets_a_copy_with_this_name_and_no_backup_is_deleted() {
    let place = Place::with_events(&["ana", "bob"]);
    let file = place.path("parallax.prom");
    let textfile = ["--textfile", file.to_str().expect("UTF-8")];
    let sound = place.back_up(&textfile);
    fs::write(&file, "as before").expect("written");
    let segment = place.data.join(&segments(&place.data)[0]);
    let mut bytes = fs::read(&segment).expect("a segment");
    bytes[200] ^= 1;
    fs::write(&segment, &bytes).expect("damaged");
    for _ in 0..2 {
        let output = place.run(&[&textfile[..], &["--keep", "1"]].concat());
        assert_exit(&output, 1, "the copy is damaged, as the lines above say");
        assert_exit(&output, 1, "damaged batch");
        let backups = place.backups();
        assert_eq!(backups.iter().filter(|name| name.ends_with(".damaged")).count(), 1, "{backups:?}");
        assert!(sound.exists() && backups.len() == 2, "{backups:?}");
        assert_eq!(fs::read_to_string(&file).expect("it exists"), "as before");
    }
    bytes[200] ^= 1;
    fs::write(&segment, &bytes).expect("repaired");
    let repaired = place.back_up(&["--keep", "2"]);
    assert_exit(&check(&repaired), 0, "sound");
    assert_eq!(place.backups().len(), 2, "the damaged copy is gone: {:?}", place.backups());
}

#[test]
fn a_segment_that_is_damaged_in_the_previous_backup_is_copied_again() {
    let place = Place::with_events(&["ana", "bob"]);
    let first = place.back_up(&[]);
    let rotten = first.join(&segments(&first)[0]);
    let modified = fs::metadata(&rotten).and_then(|file| file.modified()).expect("a time");
    let mut bytes = fs::read(&rotten).expect("a segment");
    bytes[200] ^= 1;
    fs::write(&rotten, bytes).expect("damaged");
    let file = fs::File::options().write(true).open(&rotten).expect("ours");
    file.set_modified(modified).expect("ours");
    let output = place.run(&[]);
    assert_exit(&output, 0, "copied segments again that are damaged in the previous backup");
    let second = place.target.join(place.backups().pop_last().expect("a backup"));
    assert_exit(&check(&second), 0, "sound");
    assert_exit(&check(&first), 1, "damaged");
}

#[test]
fn a_log_without_its_secret_and_a_textfile_that_cannot_be_written_are_errors() {
    let place = Place::with_events(&["ana"]);
    let output = place.run(&["--textfile", "/nowhere/parallax.prom"]);
    assert_exit(
        &output,
        3,
        "the backup is complete, but --textfile /nowhere/parallax.prom cannot be written",
    );
    assert_eq!(place.backups().len(), 1);
    fs::remove_file(place.data.join("secret")).expect("deleted");
    assert_exit(
        &place.run(&[]),
        1,
        "secret is missing, and without it nothing can tell which visitors were erased",
    );
    assert_eq!(place.backups().len(), 1);
}
