//! Files that are replaced or deleted while the scrub reads them, and damaged files that are repaired.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parallax::testing::limits::{SCRUB_ATTEMPTS_MAX, SCRUB_LOOK_MS};
use parallax::testing::log::format::oldest_to_bytes;
use parallax::testing::log::{parse_segment_name, segment_name};

use super::{World, files, path, scrubbed};

fn bytes_of(name: &str) -> Vec<u8> {
    files().iter().find(|(other, _)| other == name).expect("a file").1.clone()
}

/// Returns the number of reads that a sound pass makes of a file.
fn reads_of(name: &str) -> usize {
    let (mut world, reads) = (World::new(), Arc::<AtomicUsize>::default());
    let (counted, file) = (Arc::clone(&reads), path(name));
    world.disk.set_hook(move |path| {
        counted.fetch_add(usize::from(*path == *file), Ordering::Relaxed);
    });
    world.run_pass();
    reads.load(Ordering::Relaxed)
}

#[test]
fn a_file_that_is_replaced_under_the_scrub_is_read_again_and_not_reported() {
    for (name, length) in scrubbed() {
        for n in 0..reads_of(&name) {
            let mut world = World::new();
            let (disk, sound, file) = (world.disk.clone(), bytes_of(&name), path(&name));
            let mut reads = 0;
            world.disk.set_hook(move |path| {
                if *path == *file {
                    if reads == n {
                        // From now on all bytes of the old file are wrong. The new one is sound.
                        (0..length as u64).for_each(|at| disk.flip(&file, at, 0xff));
                        disk.cached.put(&file, &sound);
                    }
                    reads += 1;
                }
            });
            world.run_pass();
            let known = world.damage.all();
            assert!(known.is_empty(), "{name} at read {n}: {known:?}");
        }
    }
}

#[test]
fn a_file_that_is_deleted_under_the_scrub_is_closed_and_not_reported() {
    for (name, _) in scrubbed() {
        let mut world = World::new();
        let (disk, hooked) = (world.disk.clone(), path(&name));
        let mut is_deleted = false;
        world.disk.set_hook(move |path| {
            if *path == *hooked && !is_deleted {
                is_deleted = true;
                disk.cached.delete(&hooked);
            } else if is_deleted {
                assert_eq!(disk.open_files(&hooked), 0, "retention gets its room back at the next read");
            }
        });
        world.run_pass();
        assert_eq!(world.damage.all().iter().filter(|(file, _)| *file == name).count(), 0, "{name}");
        assert_eq!(world.disk.open_files(&path(&name)), 0);
    }
}

#[test]
fn a_file_that_is_replaced_again_and_again_does_not_stop_the_pass() {
    let name = segment_name(1);
    let mut world = World::new();
    let (disk, bytes, file) = (world.disk.clone(), bytes_of(&name), path(&name));
    let replaced = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&replaced);
    world.disk.set_hook(move |path| {
        if *path == *file {
            count.fetch_add(1, Ordering::Relaxed);
            disk.cached.put(&file, &bytes);
        }
    });
    world.run_pass();
    // Each attempt opens the segment twice, and the first read of each replaces it.
    assert_eq!(replaced.load(Ordering::Relaxed), 2 * SCRUB_ATTEMPTS_MAX as usize);
    assert_eq!(world.damage.count(), 0);
    // The next pass reads it.
    world.disk.clear_hook();
    world.disk.flip(&path(&name), 2_000, 1);
    world.clock.pass(parallax::testing::limits::SCRUB_PERIOD_MS as u64);
    world.run_pass();
    assert_eq!(world.damage.count(), 1);
}

#[test]
fn damage_of_a_file_that_was_replaced_counts_until_the_next_look() {
    for (name, _) in scrubbed() {
        let mut world = World::new();
        world.disk.flip(&path(&name), 20, 1);
        world.run_pass();
        assert!(world.damage.count() > 0, "{name}");
        world.disk.cached.put(&path(&name), &bytes_of(&name));
        world.disk.take_opened();
        world.clock.pass(SCRUB_LOOK_MS);
        world.scrub.step();
        assert_eq!(world.damage.count(), 0, "{name}");
        assert_eq!(world.disk.take_opened(), [&*name], "only this file is read again");
    }
}

#[test]
fn a_damaged_file_that_was_replaced_by_a_damaged_one_still_counts() {
    let name = segment_name(1);
    let mut world = World::new();
    world.disk.flip(&path(&name), 2_000, 1);
    world.run_pass();
    let known = world.damage.all();
    world.disk.cached.put(&path(&name), &bytes_of(&name));
    world.disk.flip(&path(&name), 2_000, 2);
    world.clock.pass(SCRUB_LOOK_MS);
    world.scrub.step();
    assert_eq!(world.damage.all(), known);
}

#[test]
fn damage_of_a_deleted_file_counts_only_if_nobody_was_to_delete_it() {
    for (name, _) in scrubbed() {
        let mut world = World::new();
        world.disk.flip(&path(&name), 20, 1);
        world.run_pass();
        world.disk.cached.delete(&path(&name));
        world.clock.pass(SCRUB_LOOK_MS);
        world.scrub.step();
        let first_seq = parse_segment_name(&name);
        let is_lost = first_seq.is_some() || name == "secret";
        assert_eq!(world.damage.count() > 0, is_lost, "{name}");
        if let Some(first_seq) = first_seq {
            // Retention has deleted it.
            world.disk.cached.put(&path("oldest"), &oldest_to_bytes(first_seq + 1));
            world.clock.pass(SCRUB_LOOK_MS);
            world.scrub.step();
            assert_eq!(world.damage.count(), 0, "{name}");
        }
    }
}
