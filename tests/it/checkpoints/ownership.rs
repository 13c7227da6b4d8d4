//! The entries of ownership, the known sites and the lost aliases in checkpoints.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parallax::testing::limits::{CHECKPOINT_RETENTION_INTERVAL_MS, RETENTION_INTERVAL_MS};
use parallax::testing::record::{IdKind, IdTag, RecordKind, TombstoneKey};
use parallax::testing::storage::damage::KnownDamage;
use parallax::testing::storage::disk::Disk;
use parallax::testing::visitors::checkpoint::reader::CheckpointReader;
use parallax::testing::visitors::ownership::OwnershipSource;
use parallax::testing::visitors::ties::TieEntry;
use parallax::testing::visitors::ties::merge::{DropRule, merge};
use parallax::testing::visitors::verify::check_directory;

use super::{Change, DIRECTORY, RunningLog, World, with_record};
use crate::dice::Dice;
use crate::harness::times;

/// Returns all entries: those of the last checkpoint, merged with those after it.
fn entries(world: &World, running: &RunningLog, rule: &DropRule) -> Vec<TieEntry> {
    let copy = running.profiles.lock().expect("the lock is not poisoned");
    let copy = copy.as_ref().expect("it is not taken yet").state().known.copy();
    let base = (copy.base_seq > 0).then(|| {
        CheckpointReader::open(world.directory().disk(), &world.directory().path_of(copy.base_seq))
            .expect("the checkpoint is valid")
    });
    let base: Vec<TieEntry> =
        base.iter().flat_map(|base| base.ties()).map(|tie| tie.expect("valid")).collect();
    merged(&base, &copy.recent.sorted(), rule)
}

fn merged(base: &[TieEntry], recent: &[TieEntry], rule: &DropRule) -> Vec<TieEntry> {
    let mut all = Vec::new();
    let take = |entry| {
        all.push(entry);
        Ok::<(), ()>(())
    };
    merge(base.iter().copied().map(Ok), recent, rule, take).expect("nothing fails");
    all
}

/// Returns the entries of the whole history: one for each identify that changes the user of an ID.
fn naive_entries(world: &World, rule: &DropRule) -> Vec<TieEntry> {
    let disk = std::sync::Arc::new(world.disk.clone());
    let key = TombstoneKey::read(disk, DIRECTORY.as_ref()).expect("the disk works").expect("a key");
    let mut last = BTreeMap::new();
    let mut all = Vec::new();
    for (seq, change) in world.history.lock().expect("the lock is not poisoned").iter() {
        let Change::Appended(number) = change else { continue };
        with_record(*number, world.visitors, |record| {
            let (Some(anon), Some(user)) = (record.anon_id, record.user_id) else { return };
            let user = key.tag("acme", IdKind::User, user);
            let anon = key.tag("acme", IdKind::Anon, anon);
            if record.kind == RecordKind::Identify && last.insert(anon, user) != Some(user) {
                all.push(TieEntry { anon, seq: *seq, user: Some(user), anon_hash: 0, user_hash: 0 });
            }
        });
    }
    all.sort_unstable();
    merged(&all, &[], rule)
}

#[test]
fn no_memory_limit_no_retention_and_no_restart_changes_the_entries_of_ownership() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    for seed in 0..times(20, 1_000) as u64 {
        let mut dice = Dice(seed);
        let mut world = World::new(dice.next_u64());
        world.options.segment_bytes = [1, 3_000][dice.below(2)];
        world.options.retain_ms = [None, Some(DAY_MS as i64)][dice.below(2)];
        world.log_bytes = [1, 3_000, 100_000][dice.below(3)];
        world.cost_max = [u64::MAX, 2_000][dice.below(2)];
        for round in 0..4 {
            let mut running = world.open();
            for _ in 0..dice.below(10) {
                assert!(world.record(&mut running, 1 + dice.below(20)), "seed {seed}");
                let times_ms = [0, RETENTION_INTERVAL_MS, CHECKPOINT_RETENTION_INTERVAL_MS, 40 * DAY_MS];
                world.clock.pass(times_ms[dice.below(4)]);
                (0..dice.below(8)).for_each(|_| {
                    running.writer.run_once();
                    running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
                });
            }
            let oldest_seq = world.first_seq();
            let rule = DropRule { oldest_seq, ..DropRule::default() };
            let found = entries(&world, &running, &rule).into_iter();
            let found: Vec<TieEntry> =
                found.map(|entry| TieEntry { anon_hash: 0, user_hash: 0, ..entry }).collect();
            assert_eq!(found, naive_entries(&world, &rule), "seed {seed}, round {round}");
            if dice.below(2) == 0 {
                drop(running);
                world.disk.cut_power();
            }
        }
    }
}

#[test]
fn a_check_notices_an_entry_of_ownership_that_the_log_does_not_make() {
    for is_wrong in [false, true] {
        let mut world = World::new(1);
        let mut running = world.open();
        world.record(&mut running, 50);
        running.settle();
        if is_wrong {
            let profiles = running.profiles.lock().expect("the lock is not poisoned");
            let known = profiles.as_ref().expect("it is not taken yet").state().known;
            let (anon, seq) = (IdTag([1; 16]), world.last() + 1);
            known.push([TieEntry { anon, seq, user: Some(anon), anon_hash: 1, user_hash: 2 }]);
        }
        world.record(&mut running, 50);
        world.clock.pass(200);
        running.settle();
        let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
        let report = check_directory(&disk, DIRECTORY.as_ref()).expect("the disk works");
        assert_eq!(report.failures, usize::from(is_wrong), "{:?}", report.lines);
        assert_eq!(report.lines.iter().any(|line| line.contains("or ownership")), is_wrong);
    }
}

#[test]
fn ownership_cannot_be_read_with_another_secret_than_that_of_the_entries() {
    let mut world = World::new(1);
    let mut running = world.open();
    world.record(&mut running, 50);
    running.settle();
    let path = Path::new(DIRECTORY).join("secret");
    let secret = world.disk.bytes(&path);
    drop(running);
    let open = |world: &World, running: &RunningLog| {
        let profiles = running.profiles.lock().expect("the lock is not poisoned");
        let known = profiles.as_ref().expect("it is not taken yet").state().known;
        let disk = Arc::new(world.disk.clone());
        OwnershipSource {
            disk,
            directory: DIRECTORY.into(),
            known,
            cluster: None,
            damage: KnownDamage::default(),
        }
        .open()
        .map(drop)
        .map_err(|error| error.to_string())
    };
    world.disk.delete(&path);
    for round in 0..2 {
        let mut running = world.open();
        let error = open(&world, &running).expect_err("the key is another one");
        assert!(error.contains("is not the one of this log"), "round {round}: {error}");
        world.record(&mut running, 50);
        running.settle();
    }
    world.disk.put(&path, &secret);
    let running = world.open();
    assert_eq!(open(&world, &running), Ok(()));
}

#[test]
fn sites_and_lost_aliases_survive_a_restart() {
    let mut world = World::new(1);
    world.cost_max = 2_000;
    let mut running = world.open();
    world.record(&mut running, 200);
    running.settle();
    let state = |running: &RunningLog| {
        let profiles = running.profiles.lock().expect("the lock is not poisoned");
        profiles.as_ref().expect("it is not taken yet").state()
    };
    let before = state(&running);
    assert!(before.known.knows_site("acme") && !before.known.knows_site("acne"));
    assert!(!before.lost.is_empty() && before.visitors_evicted > 0);
    drop(running);
    let running = world.open();
    assert_eq!(running.report.records, 0, "the checkpoint has all records");
    let after = state(&running);
    assert!(after.lost == before.lost);
    assert_eq!(after.visitors_evicted, before.visitors_evicted);
    assert_eq!(after.known.copy().sites, before.known.copy().sites);
}
