//! A disk without room for an import.

use std::fs;
use std::time::Duration;

use super::{command, event_line, lines, run, text, write_lines};
use crate::dice::Dice;
use crate::harness::MountedDisk;
use crate::harness::temporary_directory;

#[test]
fn an_import_that_finds_no_room_changes_nothing_and_continues_with_room() {
    let Some(disk) = MountedDisk::new("16m") else { return };
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let given: Vec<_> =
        (0..6_000).map(|n| event_line("2026-01-01T00:00:00Z", &format!("m{n}"), &"v".repeat(100))).collect();
    let file = write_lines(&path("events"), &given);
    let (target, filler) = (disk.path().join("data"), disk.path().join("filler"));
    let args =
        ["import", text(&file), "-o", text(&target), "--sort-memory", "65536", "--segment-bytes", "65536"];

    fs::write(&filler, vec![0; 13 << 20]).expect("there is room");
    run(&args).assert(3, &["bytes free, and the import needs about"]);
    assert_eq!(disk.path().read_dir().expect("a directory").count(), 1, "only the filler is left");

    // The room ends after the import has begun.
    fs::remove_file(&filler).expect("removed");
    let mut dice = Dice(3);
    while !disk.path().join("data.importing/progress").exists() {
        assert!(!target.exists(), "it was faster than the kill");
        let mut child = command(&args).spawn().expect("the command starts");
        std::thread::sleep(Duration::from_micros(dice.below(60_000) as u64));
        let _ = child.kill();
        child.wait().expect("it has ended");
    }
    // The write fails when the disk is full, and leaves it so.
    assert!(fs::write(&filler, vec![0; 16 << 20]).is_err());
    run(&args).assert(3, &["run the command again to continue"]);
    assert!(!target.exists());
    fs::remove_file(&filler).expect("removed");
    run(&args).assert(0, &["imported 6000 records"]);
    assert_eq!(lines(&target).len(), 6_000);
}
