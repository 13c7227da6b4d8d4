//! Erasure in a log with retention and a table with eviction. The profiles equal a fold of the whole history,
//! and no file contains an ID of an erased visitor.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use parallax::testing::limits::{CHECKPOINT_RETENTION_INTERVAL_MS, RETENTION_INTERVAL_MS};
use parallax::testing::storage::disk::Disk;
use parallax::testing::visitors::erasure::Eraser;
use parallax::testing::visitors::log::bloom::IdKind;
use parallax::testing::visitors::ownership::OwnershipSource;
use parallax::testing::visitors::verify::check_directory;

use super::{DIRECTORY, RunningLog, World, assert_same};
use crate::dice::Dice;
use crate::harness::times;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Returns all IDs that lead to one visitor, as an erasure finds them: the anonymous ID, its user, and the
/// other anonymous IDs of that user.
fn ids_of(running: &RunningLog, anon_id: &str) -> Vec<(IdKind, String)> {
    let profiles = running.profiles.lock().expect("the lock is not poisoned");
    let mut lookup = profiles.as_ref().expect("it is not taken yet").readers().reader();
    let visitors = lookup.pin();
    let mut ids = vec![(IdKind::Anon, anon_id.to_owned())];
    if let Some(profile) = visitors.by_anon_id("acme", anon_id) {
        ids.extend(profile.user_id().map(|id| (IdKind::User, id.to_owned())));
        let others = profile.anon_ids().filter(|id| *id != anon_id);
        ids.extend(others.map(|id| (IdKind::Anon, id.to_owned())));
    }
    ids
}

/// Erases a visitor as the server does, while the writers run.
fn erase(world: &World, running: &mut RunningLog, anon_id: &str) {
    let ids = ids_of(running, anon_id);
    let known = {
        let profiles = running.profiles.lock().expect("the lock is not poisoned");
        profiles.as_ref().expect("it is not taken yet").state().known
    };
    let (disk, directory) = (Arc::new(world.disk.clone()), Path::new(DIRECTORY).to_owned());
    let eraser = Eraser {
        log: running.queue.clone(),
        source: OwnershipSource { disk, directory, known },
        checkpoints: Arc::clone(&running.metrics),
    };
    let erased = thread::scope(|scope| {
        let job = scope.spawn(|| eraser.erase("acme", (IdKind::Anon, anon_id), ids.clone()));
        while !job.is_finished() {
            running.writer.run_once();
            running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
            world.clock.pass(1);
            thread::yield_now();
        }
        job.join().expect("no panic")
    });
    let erased = erased.expect("the disk works");
    assert!(world.seqs().len() == 1 && world.seqs()[0] >= erased.seq, "no older checkpoint is left");
    assert!(!world.disk.names().contains(&"erasing".to_owned()));
    // On a shared device, an anonymous ID stays in the records of its other users.
    let users: Vec<&str> =
        ids.iter().filter(|(kind, _)| *kind == IdKind::User).map(|(_, id)| id.as_str()).collect();
    for id in if users.is_empty() { vec![anon_id] } else { users } {
        for name in world.disk.names() {
            let bytes = world.disk.bytes(&Path::new(DIRECTORY).join(&name));
            // One ID can be a prefix of another. A digit after it means that it is another ID.
            let contains_id = bytes
                .windows(id.len() + 1)
                .any(|window| window.starts_with(id.as_bytes()) && !window[id.len()].is_ascii_digit());
            assert!(!contains_id, "{name} contains {id}");
        }
    }
}

#[test]
fn erasure_retention_and_eviction_leave_the_fold_of_the_history() {
    for seed in 0..times(20, 1_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(dice.next_u64());
        world.options.segment_bytes = [1, 3_000][dice.below(2)];
        world.options.retain_ms = [None, Some(DAY_MS as i64)][dice.below(2)];
        world.log_bytes = [1, 3_000, 100_000][dice.below(3)];
        world.cost_max = [u64::MAX, 5_000][dice.below(2)];
        for round in 0..4 {
            let context = format!("seed {seed}, round {round}");
            let mut running = world.open();
            assert!(running.warnings.is_empty(), "{context}: {:?}", running.warnings);
            for _ in 0..dice.below(10) {
                match dice.below(4) {
                    0 => erase(&world, &mut running, &format!("visitor-{}", dice.below(30))),
                    _ => assert!(world.record(&mut running, 1 + dice.below(20)), "{context}"),
                }
                let times_ms = [0, RETENTION_INTERVAL_MS, CHECKPOINT_RETENTION_INTERVAL_MS, 4_000 * DAY_MS];
                world.clock.pass(times_ms[dice.below(4)]);
                (0..dice.below(8)).for_each(|_| {
                    running.writer.run_once();
                    running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
                });
            }
            let running_is_killed = dice.below(2) == 0;
            if running_is_killed {
                world.disk.cut_power();
            }
            if !running_is_killed {
                world.clock.pass(200);
                running.settle();
                let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
                let report = check_directory(&disk, Path::new(DIRECTORY)).expect("the disk works");
                assert_eq!(report.failures, 0, "{context}: {:?}", report.lines);
            }
            assert_same(&running.kill(), &world.fold(world.last()), &context);
        }
    }
}
