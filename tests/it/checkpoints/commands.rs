//! `check` and `inspect`: what an operator is told of checkpoints.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use parallax::storage::disk::{Disk, RealDisk};
use parallax::visitors::checkpoint::directory::checkpoint_name;
use parallax::visitors::log::{self, Options, Records};
use parallax::visitors::verify::{Checked, check_folder};

use super::{FOLDER, World};
use crate::harness::temporary_folder;

fn checked(world: &World) -> Checked {
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    check_folder(&disk, Path::new(FOLDER)).expect("the disk is well")
}

/// Two generations, the log between them, and what is named durable.
fn two(visitors: usize, cost_max: u64) -> World {
    let mut world = World::new(1);
    (world.visitors, world.cost_max) = (visitors, cost_max);
    let mut running = world.open();
    for _ in 0..3 {
        world.record(&mut running, 40);
        running.settle();
    }
    world.clock.pass(200);
    running.settle();
    assert_eq!(world.seqs(), [80, 120]);
    world
}

#[test]
fn the_newest_is_what_the_log_makes_of_the_one_before() {
    for cost_max in [u64::MAX, 5_000] {
        let checked = checked(&two(30, cost_max));
        assert_eq!(checked.wrong, 0, "{:?}", checked.said);
        assert!(checked.said[1].starts_with(&format!("{}: sound, seq 120, ", checkpoint_name(120))));
        assert!(
            checked.said[2].ends_with("the log between them makes one of the other"),
            "{:?}",
            checked.said
        );
    }
}

#[test]
fn what_differs_is_said() {
    // Another world's table under this one's name: every checksum is right.
    let (world, mut other) = (two(30, u64::MAX), World::new(1));
    (other.visitors, other.number) = (30, 1_000);
    let mut running = other.open();
    for _ in 0..3 {
        other.record(&mut running, 40);
        running.settle();
    }
    let path = world.folder().path_of(120);
    world.disk.put(&path, &other.disk.bytes(&path));
    let checked = checked(&world);
    assert_eq!(checked.wrong, 1);
    let said = checked.said.last().expect("a line");
    assert!(said.starts_with(&checkpoint_name(120)), "{said}");
    assert!(
        said.contains("is not what the log makes") && said.contains("another order from entry 0 on"),
        "{said}"
    );
}

#[test]
fn damage_is_said_and_the_other_is_checked_all_the_same() {
    let world = two(30, u64::MAX);
    let path = world.folder().path_of(80);
    let mut bytes = world.disk.bytes(&path);
    bytes[200] ^= 1;
    world.disk.put(&path, &bytes);
    let checked = checked(&world);
    assert_eq!((checked.wrong, checked.said.len()), (1, 2));
    assert!(
        checked.said[0].starts_with(&format!("{}: damaged at 72", checkpoint_name(80))),
        "{:?}",
        checked.said
    );
    assert!(checked.said[1].contains("sound"));
}

/// Runs a command; its exit code and all that it says.
fn run(words: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_parallax")).args(words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("it was not killed"), said.into_owned())
}

#[test]
fn an_operator_checks_and_looks_into_files() {
    let (world, folder) = (two(30, u64::MAX), temporary_folder());
    for seq in [80, 120] {
        let bytes = world.disk.bytes(&world.folder().path_of(seq));
        fs::write(folder.path().join(checkpoint_name(seq)), bytes).expect("written");
    }
    let file = folder.path().join(checkpoint_name(120));
    let (code, said) = run(&["inspect", file.to_str().expect("UTF-8")]);
    assert_eq!(code, 0, "{said}");
    for expected in
        ["seq          120: the records up to it are folded", "in 1 runs", "that came once", "tied to users"]
    {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!said.contains("secret"), "{said}");
    let (code, said) = run(&["inspect", "--json", file.to_str().expect("UTF-8")]);
    let shown: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &shown["kind"], &shown["seq"]), (0, &"checkpoint".into(), &"120".into()));
    assert_eq!(run(&["check", file.to_str().expect("UTF-8")]).0, 0);

    let (code, said) = run(&["check", folder.path().to_str().expect("UTF-8")]);
    assert!(code == 0 && said.contains("not compared: the log names seq 0 durable so far"), "{said}");
    let mut bytes = fs::read(&file).expect("readable");
    bytes[300] ^= 1;
    fs::write(&file, &bytes).expect("written");
    for path in [folder.path(), &file] {
        let (code, said) = run(&["check", path.to_str().expect("UTF-8")]);
        assert!(
            code == 1
                && said.contains("damaged at 72: a block")
                && said.contains("1 checkpoints are not sound"),
            "{said}"
        );
    }
    assert_eq!(run(&["inspect", file.to_str().expect("UTF-8")]).0, 1);
    // The log knows nothing of them and leaves them alone.
    let options = Options { duplicates_max: 1_000, ..Options::default() };
    let clock = Arc::new(parallax::clock::SystemClock::new());
    let log = log::open(folder.path(), options, Arc::new(RealDisk), clock, Box::new(|_: Records<'_>| {}));
    assert!(log.is_ok() && file.exists());
}
