//! The output of `check` and `inspect` for checkpoints.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use parallax::testing::log::format::HEADER_BYTES;
use parallax::testing::log::{self, LogId, Options, Records, segment_name};
use parallax::testing::storage::disk::{Disk, RealDisk};
use parallax::testing::visitors::checkpoint::directory::checkpoint_name;
use parallax::testing::visitors::verify::{CheckReport, check_directory, newest_checkpoint_seq};

use super::{DIRECTORY, World, assert_same};
use crate::harness::temporary_directory;
use crate::logged::when_unlocked;

fn check(world: &World) -> CheckReport {
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    check_directory(&disk, Path::new(DIRECTORY)).expect("the disk works")
}

/// Returns a world with checkpoints at seq 80 and 120. The log between them is durable.
fn two_checkpoints(visitors: usize, cost_max: u64) -> World {
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
fn the_newest_checkpoint_matches_the_older_one_plus_the_log() {
    for cost_max in [u64::MAX, 5_000] {
        let report = check(&two_checkpoints(30, cost_max));
        assert_eq!(report.failures, 0, "{:?}", report.lines);
        assert!(report.lines[1].starts_with(&format!("{}: sound, seq 120, ", checkpoint_name(120))));
        assert!(
            report.lines[2].ends_with("the newer one matches the log between them"),
            "{:?}",
            report.lines
        );
        let is_compared = report.lines[3].ends_with("matches the log alone");
        let is_left_out = report.lines[3].contains("not compared with the log alone: ");
        assert!(if cost_max == u64::MAX { is_compared } else { is_left_out }, "{:?}", report.lines);
    }
}

#[test]
fn check_reports_a_difference_from_the_log() {
    // The file holds the table of another world. Every checksum is correct.
    let (world, mut other) = (two_checkpoints(30, u64::MAX), World::new(1));
    (other.visitors, other.number) = (30, 1_000);
    let mut running = other.open();
    for _ in 0..3 {
        other.record(&mut running, 40);
        running.settle();
    }
    let path = world.directory().path_of(120);
    world.disk.put(&path, &other.disk.bytes(&path));
    let report = check(&world);
    assert_eq!(report.failures, 2, "{:?}", report.lines);
    let [.., output, alone] = &report.lines[..] else { panic!("{:?}", report.lines) };
    assert!(alone.contains("differs from a fold of the log alone"), "{alone}");
    assert!(output.starts_with(&checkpoint_name(120)), "{output}");
    assert!(
        output.contains("differs from a fold of the log")
            && output.contains("different order from entry 0 on"),
        "{output}"
    );
}

#[test]
fn a_checkpoint_of_another_log_is_not_used_and_is_an_error_of_check() {
    let (world, mut other) = (two_checkpoints(30, u64::MAX), World::new(1));
    other.options.log_id = Some(LogId([8; 16]));
    let mut running = other.open();
    for _ in 0..3 {
        other.record(&mut running, 40);
        running.settle();
    }
    let path = world.directory().path_of(120);
    world.disk.put(&path, &other.disk.bytes(&path));
    let report = check(&world);
    assert_eq!(report.failures, 1, "{:?}", report.lines);
    assert!(report.lines[1].contains("a checkpoint of another log"), "{:?}", report.lines);
    let running = world.open();
    assert_eq!(running.seq, 80, "the checkpoint before it is used");
    assert!(running.warnings[0].contains("a checkpoint of another log"), "{:?}", running.warnings);
    assert_same(&running.kill(), &world.fold(120), "the table");
}

#[test]
fn the_checkpoint_of_a_node_is_not_compared_with_its_log() {
    let mut world = World::new(1);
    world.log_bytes = u64::MAX;
    let mut running = world.open();
    world.record(&mut running, 40);
    let checkpoint_writer = running.checkpoint_writer.take().expect("it is not taken yet");
    checkpoint_writer.spawn().expect("a thread");
    let mut profiles = running.profiles.lock().expect("the lock is not poisoned");
    let profiles = profiles.as_mut().expect("they are not taken yet");
    // The stream has 500 messages, and the own log has 40 records.
    profiles.close_with(&*world.clock, Some(500), &mut || b"the state of a node".to_vec());
    let report = check(&world);
    assert_eq!((report.failures, report.lines.len()), (0, 1), "{:?}", report.lines);
    assert!(report.lines[0].ends_with("it has the events of all nodes of a cluster"), "{:?}", report.lines);
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    assert_eq!(newest_checkpoint_seq(&disk, Path::new(DIRECTORY)).expect("the disk works"), 0);
}

#[test]
fn check_reports_damage_and_still_checks_the_other_file() {
    let world = two_checkpoints(30, u64::MAX);
    let path = world.directory().path_of(80);
    let mut bytes = world.disk.bytes(&path);
    bytes[200] ^= 1;
    world.disk.put(&path, &bytes);
    let report = check(&world);
    assert_eq!((report.failures, report.lines.len()), (1, 3));
    assert!(
        report.lines[0].starts_with(&format!("{}: damaged at offset 96", checkpoint_name(80))),
        "{:?}",
        report.lines
    );
    assert!(report.lines[1].contains("sound"));
}

/// Runs a command. Returns its exit code and its whole output.
fn run(arguments: &[&str]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_parallax")).args(arguments).output().expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("the command was not killed"), text.into_owned())
}

#[test]
fn check_and_inspect_report_on_real_files() {
    let (world, directory) = (two_checkpoints(30, u64::MAX), temporary_directory());
    let first = world.disk.bytes(&Path::new(DIRECTORY).join(segment_name(1)));
    fs::write(directory.path().join(segment_name(1)), &first[..HEADER_BYTES]).expect("written");
    for seq in [80, 120] {
        let bytes = world.disk.bytes(&world.directory().path_of(seq));
        fs::write(directory.path().join(checkpoint_name(seq)), bytes).expect("written");
    }
    let file = directory.path().join(checkpoint_name(120));
    let (code, output) = run(&["inspect", file.to_str().expect("UTF-8")]);
    assert_eq!(code, 0, "{output}");
    for expected in
        ["seq          120, the last record included", "in 1 runs", "seen once", "linked to users"]
    {
        assert!(output.contains(expected), "{output}");
    }
    assert!(!output.contains("secret"), "{output}");
    let (code, output) = run(&["inspect", "--json", file.to_str().expect("UTF-8")]);
    let shown: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!((code, &shown["kind"], &shown["seq"]), (0, &"checkpoint".into(), &"120".into()));
    assert_eq!(run(&["check", file.to_str().expect("UTF-8")]).0, 0);

    let (code, output) = run(&["check", directory.path().to_str().expect("UTF-8")]);
    assert!(code == 1 && output.contains("not compared: the log is durable only up to seq 0"), "{output}");
    assert!(output.contains("records are missing; lost seqs 1..=120"), "{output}");
    let mut bytes = fs::read(&file).expect("readable");
    bytes[300] ^= 1;
    fs::write(&file, &bytes).expect("written");
    for path in [directory.path(), &file] {
        let (code, output) = run(&["check", path.to_str().expect("UTF-8")]);
        assert!(
            code == 1
                && output.contains("damaged at offset 96: invalid block")
                && output.contains("1 checkpoints are not sound"),
            "{output}"
        );
    }
    assert_eq!(run(&["inspect", file.to_str().expect("UTF-8")]).0, 1);
    // The log does not know checkpoint files and leaves them alone.
    let options = Options { dedup_ids_max: 1_000, ..Options::default() };
    let clock = Arc::new(parallax::testing::clock::SystemClock::new());
    let log = when_unlocked(|| {
        let consumer = Box::new(|_: Records<'_>| {});
        log::open(directory.path(), options.clone(), Arc::new(RealDisk), clock.clone(), consumer)
    });
    assert!(log.is_ok() && file.exists());
}
