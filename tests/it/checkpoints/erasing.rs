//! Erasure in a log with retention and a table with eviction. The profiles equal a fold of the whole history,
//! and no file contains an ID of an erased visitor.

use std::path::Path;
use std::thread;

use parallax::testing::limits::{
    CHECKPOINT_RETENTION_INTERVAL_MS, CHECKPOINT_RETRY_MS, RETENTION_INTERVAL_MS,
};
use parallax::testing::visitors::log::VisitorIds;
use parallax::testing::visitors::log::bloom::IdKind;

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

/// Erases a visitor as the server does: first from the log, then from the checkpoints.
fn erase(world: &World, running: &mut RunningLog, anon_id: &str) {
    let ids = ids_of(running, anon_id);
    let visitor = VisitorIds { site: "acme".to_owned(), owner: ids[0].clone(), ids };
    let erasure = running.queue.erase(visitor.clone()).expect("the log accepts the erasure");
    running.writer.run_once();
    let erased = thread::scope(|scope| scope.spawn(|| erasure.finish()).join().expect("no panic"));
    let erased = erased.expect("the disk works");
    for _ in 0..4 {
        running.settle();
        world.clock.pass(CHECKPOINT_RETRY_MS);
    }
    assert!(running.metrics.covers(erased.seq), "a checkpoint is made at once, and no older one is left");
    for (_, id) in &visitor.ids {
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
            if dice.below(2) == 0 {
                world.disk.cut_power();
            }
            assert_same(&running.kill(), &world.fold(world.last()), &context);
        }
    }
}
