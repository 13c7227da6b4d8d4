//! Visitors who are erased, in a log that lets go of its oldest records and a table that evicts: what is known is what a table knows
//! that was never put down, and no file has anything of who was erased.

use std::path::Path;
use std::thread;

use parallax::limits::{CHECKPOINT_RETENTION_MS, CHECKPOINT_RETRY_MS, RETENTION_EVERY_MS};
use parallax::visitors::log::Visitor;
use parallax::visitors::log::bloom::Whose;

use super::{FOLDER, Running, World, same};
use crate::dice::Dice;
use crate::harness::times;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// All ids that lead to one visitor, as the operator finds them: an anonymous one, its user, and who else is tied to that.
fn ids(running: &Running, anon_id: &str) -> Vec<(Whose, String)> {
    let live = running.live.lock().expect("no test panics in here");
    let mut lookup = live.as_ref().expect("it is there").looks().lookup();
    let visitors = lookup.pin();
    let mut ids = vec![(Whose::Anon, anon_id.to_owned())];
    if let Some(profile) = visitors.anonymous("acme", anon_id) {
        ids.extend(profile.user_id().map(|id| (Whose::User, id.to_owned())));
        let others = profile.anon_ids().filter(|id| *id != anon_id);
        ids.extend(others.map(|id| (Whose::Anon, id.to_owned())));
    }
    ids
}

/// As the operator erases: out of the log, and then out of the checkpoints.
fn erase(world: &World, running: &mut Running, anon_id: &str) {
    let visitor = Visitor { site: "acme".to_owned(), ids: ids(running, anon_id) };
    let erasure = running.queue.erase(visitor.clone()).expect("the log takes it");
    running.writer.step();
    let erased = thread::scope(|scope| scope.spawn(|| erasure.finish()).join().expect("no panic"));
    let erased = erased.expect("the disk is well");
    for _ in 0..4 {
        running.settle();
        world.clock.pass(CHECKPOINT_RETRY_MS);
    }
    assert!(running.figures.are_behind(erased.seq), "a checkpoint is made at once, and no older one stays");
    for (_, id) in &visitor.ids {
        for name in world.disk.names() {
            let bytes = world.disk.bytes(&Path::new(FOLDER).join(&name));
            // Ids of which one begins another are told apart by what follows.
            let holds = bytes
                .windows(id.len() + 1)
                .any(|window| window.starts_with(id.as_bytes()) && !window[id.len()].is_ascii_digit());
            assert!(!holds, "{name} has {id}");
        }
    }
}

#[test]
fn retention_eviction_and_erasures_leave_what_a_table_knows_that_was_never_put_down() {
    for seed in 0..times(20, 1_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(dice.number());
        world.options.segment_bytes = [1, 3_000][dice.below(2)];
        world.options.retain_ms = [None, Some(DAY_MS as i64)][dice.below(2)];
        world.log_bytes = [1, 3_000, 100_000][dice.below(3)];
        world.cost_max = [u64::MAX, 5_000][dice.below(2)];
        for round in 0..4 {
            let what = format!("seed {seed}, round {round}");
            let mut running = world.open();
            assert!(running.findings.is_empty(), "{what}: {:?}", running.findings);
            for _ in 0..dice.below(10) {
                match dice.below(4) {
                    0 => erase(&world, &mut running, &format!("visitor-{}", dice.below(30))),
                    _ => assert!(world.record(&mut running, 1 + dice.below(20)), "{what}"),
                }
                let times_ms = [0, RETENTION_EVERY_MS, CHECKPOINT_RETENTION_MS, 4_000 * DAY_MS];
                world.clock.pass(times_ms[dice.below(4)]);
                (0..dice.below(8)).for_each(|_| {
                    running.writer.step();
                    running.scribe.as_mut().expect("it is there").step();
                });
            }
            if dice.below(2) == 0 {
                world.disk.cut_power();
            }
            same(&running.killed(), &world.fold(world.last()), &what);
        }
    }
}
