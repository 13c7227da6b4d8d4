//! The scrub of the data directory: it finds each damage of the disk under the page cache, and changes nothing.
//!
//! The files are those of a real server, on a simulated disk. The clock is that of the test.

// A disk with bits that change under the page cache.
mod disk;
// Files that are replaced or deleted under the scrub.
mod replaced;
// The register of known damage, and its limits.
mod known;
// A server whose disk changes.
mod served;
// Reads of a real disk past its page cache.
mod uncached;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax::testing::clock::Clock;
use parallax::testing::limits::{READ_CHUNK_BYTES, SCRUB_LOOK_MS, SCRUB_PERIOD_MS, SCRUB_PROGRESS_BYTES_MAX};
use parallax::testing::log::{check_directory, parse_segment_name, segment_name};
use parallax::testing::scrub::{Pace, Scrub, ScrubInputs, ScrubMetrics};
use parallax::testing::storage::damage::KnownDamage;
use parallax::testing::storage::disk::{Disk, RealDisk};

use self::disk::MediumDisk;
use crate::dice::Dice;
use crate::harness::{Client, Server, eventually, times};
use crate::log::TestClock;
use crate::log::simulated::{Fault, Plan, SimulatedDisk};

/// The simulated data directory.
const DIRECTORY: &str = "/data";
const RATE: u64 = 1_000_000;

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Returns the files of a server that has recorded some segments, with its column files and checkpoints.
fn files() -> &'static [(String, Vec<u8>)] {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let demo = parallax::testing::cli::demo::compile_demo().1;
        let flags = ["--segment-bytes", "65536", "--checkpoint-bytes", "100000"];
        let mut server = Server::start(&[("demo.snapshot", &demo)], &flags);
        let mut client = Client::to(server.edge);
        for n in 0..100 {
            let event =
                format!(r#"{{"anonId":"v{n}","event":"e","properties":{{"note":"{}"}}}}"#, "x".repeat(4_000));
            assert_eq!(client.post("/v1/track?site=fjell", &[], event.as_bytes()).status, 200);
        }
        let names = |end: &str| {
            let entries = std::fs::read_dir(server.data()).expect("a directory").flatten();
            entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(end)).count()
        };
        eventually("each sealed segment has a column file, and checkpoints are written", || {
            let is_complete = names(".columns") + 1 == names(".segment") && names(".checkpoint") > 0;
            is_complete.then_some(())
        });
        server.signal("TERM");
        assert_eq!(server.exit_code(), 0);
        let entries = std::fs::read_dir(server.data()).expect("a directory").flatten();
        let mut files: Vec<_> = entries
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, std::fs::read(entry.path()).expect("a file"))
            })
            .collect();
        // The progress of the server that made the files.
        files.retain(|(name, _)| name != "scrub" && !name.starts_with('.'));
        files.sort();
        files
    })
}

/// Returns the names and lengths of the files that a pass reads, in its order.
fn scrubbed() -> Vec<(String, usize)> {
    let last = files().iter().rev().find(|(name, _)| parse_segment_name(name).is_some()).expect("a segment");
    let is_scrubbed = |name: &str| {
        let ends = [".segment", ".checkpoint", ".columns"];
        name == "secret" || (name != last.0 && ends.iter().any(|end| name.ends_with(end)))
    };
    let scrubbed = files().iter().filter(|(name, _)| is_scrubbed(name));
    scrubbed.map(|(name, bytes)| (name.clone(), bytes.len())).collect()
}

/// A pace that passes on a test clock, and stops when there were enough pauses.
#[derive(Default)]
struct TestPace {
    clock: Arc<TestClock>,
    passed_ns: AtomicU64,
    longest_ns: AtomicU64,
    waits: AtomicU64,
    /// The number of the pause at which the server stops. 0: never.
    stop_at: AtomicU64,
}

impl Pace for TestPace {
    fn wait(&self, pause: Duration) -> bool {
        let pause_ns = pause.as_nanos() as u64;
        let before = self.passed_ns.fetch_add(pause_ns, Ordering::Relaxed);
        self.clock.pass((before + pause_ns) / 1_000_000 - before / 1_000_000);
        if pause < Duration::from_millis(SCRUB_LOOK_MS) {
            self.longest_ns.fetch_max(pause_ns, Ordering::Relaxed);
        }
        let waits = self.waits.fetch_add(1, Ordering::Relaxed) + 1;
        let stop_at = self.stop_at.load(Ordering::Relaxed);
        stop_at == 0 || waits < stop_at
    }
}

/// A data directory with its scrub.
struct World {
    disk: MediumDisk,
    clock: Arc<TestClock>,
    pace: Arc<TestPace>,
    damage: KnownDamage,
    metrics: Arc<ScrubMetrics>,
    scrub: Scrub,
}

impl World {
    fn new() -> Self {
        let cached = SimulatedDisk::new(1);
        files().iter().for_each(|(name, bytes)| cached.put(&path(name), bytes));
        Self::start(MediumDisk::new(cached), Arc::default())
    }

    /// Starts the scrub of a new process.
    fn start(disk: MediumDisk, clock: Arc<TestClock>) -> Self {
        let (damage, metrics) = (KnownDamage::default(), Arc::<ScrubMetrics>::default());
        let pace = Arc::new(TestPace { clock: Arc::clone(&clock), ..TestPace::default() });
        let inputs = ScrubInputs {
            disk: Arc::new(disk.clone()),
            directory: DIRECTORY.into(),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            bytes_per_second: RATE,
            damage: damage.clone(),
            metrics: Arc::clone(&metrics),
        };
        let scrub = Scrub::new(inputs, Arc::clone(&pace) as Arc<dyn Pace>);
        Self { disk, clock, pace, damage, metrics, scrub }
    }

    /// Ends the process and starts another one.
    fn restart(self) -> Self {
        let Self { disk, clock, .. } = self;
        Self::start(disk, clock)
    }

    /// Steps until the present pass is complete.
    fn run_pass(&mut self) {
        let before = self.metrics.completed_ms();
        for _ in 0..10_000 {
            assert!(self.scrub.step(), "nothing stops it");
            if self.metrics.completed_ms() != before {
                return;
            }
        }
        panic!("the pass does not end");
    }
}

#[test]
fn a_sound_directory_is_read_once_a_week_and_stays_as_it_is() {
    let mut world = World::new();
    let expected: Vec<String> = scrubbed().into_iter().map(|(name, _)| name).collect();
    for end in [".segment", ".checkpoint", ".columns", "secret"] {
        assert!(expected.iter().any(|name| name.ends_with(end)), "the fixture has {end}: {expected:?}");
    }
    let began_ms = world.clock.now_ms();
    world.run_pass();
    assert_eq!(world.disk.take_opened(), expected);
    assert_eq!((world.damage.count(), world.metrics.files_left()), (0, 0));
    assert_eq!(world.metrics.completed_ms() as i64, world.clock.now_ms());
    for (name, bytes) in files() {
        assert!(world.disk.cached.bytes(&path(name)) == *bytes, "{name} has changed");
    }
    while world.clock.now_ms() < began_ms + SCRUB_PERIOD_MS - SCRUB_LOOK_MS as i64 {
        assert!(world.scrub.step());
    }
    assert!(world.disk.take_opened().is_empty(), "nothing is read before the week is over");
    world.run_pass();
    assert_eq!(world.disk.take_opened(), expected);
}

#[test]
fn each_changed_bit_of_each_file_is_found_and_counted_once() {
    let mut dice = Dice(7);
    for (name, length) in scrubbed() {
        let mut places: Vec<usize> = (0..times(6, 60)).map(|_| dice.below(length)).collect();
        places.extend([0, length - 1]);
        for offset in places {
            let mut world = World::new();
            let mask = 1 << dice.below(8);
            world.disk.flip(&path(&name), offset as u64, mask);
            let disk = Arc::new(world.disk.clone()) as Arc<dyn Disk>;
            let found = check_directory(disk, Path::new(DIRECTORY), 0).expect("the disk works");
            assert!(
                found.damage.iter().all(|damage| !damage.kind.is_unexpected()),
                "the page cache is sound"
            );
            world.run_pass();
            let known = world.damage.all();
            assert!(
                !known.is_empty() && known.iter().all(|(file, _)| *file == name),
                "{name} {offset} {mask}: {known:?}"
            );
            assert!(known.iter().all(|(file, offset)| !world.damage.note(file, *offset)), "it was logged");
            world.clock.pass(SCRUB_PERIOD_MS as u64);
            world.run_pass();
            assert_eq!(world.damage.all(), known, "{name} {offset} {mask}: each place once");
        }
    }
}

#[test]
fn a_restart_knows_the_damage_at_once_and_tells_it_once_more() {
    let name = segment_name(1);
    let mut world = World::new();
    world.disk.flip(&path(&name), 2_000, 4);
    world.run_pass();
    let known = world.damage.all();
    assert_eq!((known.len(), &known[0].0), (1, &name));
    world.disk.take_opened();
    let mut world = world.restart();
    assert_eq!(world.damage.all(), known, "the metric is there at once");
    assert!(world.damage.has_unlogged(&name), "this process has not logged it");
    world.scrub.step();
    assert_eq!(world.disk.take_opened(), [&*name], "only the damaged file is read again");
    assert_eq!(world.damage.all(), known);
    assert!(!world.damage.has_unlogged(&name), "it is logged");
    (0..3).for_each(|_| assert!(world.scrub.step()));
    assert!(world.disk.take_opened().is_empty(), "it is read and logged once");
    // Someone has put the right file back while no server ran.
    world.disk.restore();
    let mut world = world.restart();
    assert_eq!(world.damage.count(), 1);
    world.scrub.step();
    assert_eq!(world.damage.count(), 0);
}

#[test]
fn a_restart_continues_with_the_next_file_and_a_stop_ends_at_the_next_read() {
    let expected: Vec<String> = scrubbed().into_iter().map(|(name, _)| name).collect();
    let mut total = World::new();
    total.run_pass();
    let waits = total.pace.waits.load(Ordering::Relaxed);
    for stop_at in 1..=waits {
        let mut world = World::new();
        world.pace.stop_at.store(stop_at, Ordering::Relaxed);
        while world.scrub.step() {}
        assert!(world.pace.waits.load(Ordering::Relaxed) <= stop_at + 1, "it reads nothing more");
        let mut opened = world.disk.take_opened();
        let mut world = world.restart();
        if world.metrics.completed_ms() == 0 {
            world.run_pass();
        }
        let again = world.disk.take_opened();
        if let (Some(last), Some(first)) = (opened.last(), again.first())
            && last == first
        {
            opened.pop();
        }
        assert_eq!([opened, again].concat(), expected, "stopped at pause {stop_at} of {waits}");
        assert_eq!(world.damage.count(), 0, "a read that was cut off is no damage");
    }
}

#[test]
fn reads_keep_to_the_rate_and_to_small_pieces() {
    let mut world = World::new();
    world.run_pass();
    let bytes = world.metrics.read_bytes();
    let total: usize = scrubbed().iter().map(|(_, length)| length).sum();
    assert!((total as u64..2 * total as u64).contains(&bytes), "{bytes} of {total}");
    let passed_ns = world.pace.passed_ns.load(Ordering::Relaxed);
    assert!(passed_ns.abs_diff(bytes * 1_000_000_000 / RATE) < 1_000_000, "{passed_ns} ns for {bytes} bytes");
    let longest = world.pace.longest_ns.load(Ordering::Relaxed);
    assert!(longest <= READ_CHUNK_BYTES as u64 * 1_000_000_000 / RATE, "{longest} ns");
}

#[test]
fn a_wall_clock_that_goes_back_begins_a_pass() {
    let mut world = World::new();
    world.run_pass();
    world.disk.take_opened();
    world.clock.set_wrong(-1_000_000_000);
    world.run_pass();
    assert_eq!(world.disk.take_opened().len(), scrubbed().len());
}

#[test]
fn a_progress_file_that_is_damaged_or_too_large_begins_the_pass_again() {
    let mut world = World::new();
    world.run_pass();
    let saved = world.disk.cached.bytes(&path("scrub"));
    let padded = |length: u64| {
        let mut bytes = saved.clone();
        bytes.resize(length as usize, b' ');
        bytes
    };
    let max = SCRUB_PROGRESS_BYTES_MAX;
    for (bytes, is_valid) in [
        (saved.clone(), true),
        (padded(max - 1), true),
        (padded(max), true),
        (padded(max + 1), false),
        (saved[..saved.len() / 2].to_vec(), false),
        (Vec::new(), false),
        (b"[]".to_vec(), false),
    ] {
        world.disk.cached.put(&path("scrub"), &bytes);
        world.disk.take_opened();
        world = world.restart();
        assert_eq!(world.metrics.completed_ms() > 0, is_valid, "{} bytes", bytes.len());
        world.scrub.step();
        assert_eq!(world.disk.take_opened().is_empty(), is_valid, "{} bytes", bytes.len());
    }
}

#[test]
fn a_disk_that_fails_or_is_full_gives_no_false_damage() {
    let mut probe = World::new();
    probe.disk.cached.plan(Plan::Never);
    probe.run_pass();
    let calls = probe.disk.cached.calls();
    for fault in [Fault::Enospc, Fault::Eintr, Fault::Short] {
        for n in (1..=calls).step_by((calls as usize / times(60, 600)).max(1)) {
            let mut world = World::new();
            world.disk.cached.plan(Plan::Nth(n, fault));
            world.run_pass();
            assert_eq!(world.damage.count(), 0, "{fault:?} at call {n}");
        }
    }
    let mut world = World::new();
    world.disk.cached.plan(Plan::Full);
    world.run_pass();
    assert!(!world.disk.cached.names().contains(&"scrub".to_owned()), "the progress stays in memory");
    world.disk.cached.plan(Plan::Never);
    world.clock.pass(SCRUB_LOOK_MS);
    world.scrub.step();
    assert!(world.disk.cached.names().contains(&"scrub".to_owned()), "it is saved when there is room");
}

#[test]
fn a_sector_that_cannot_be_read_is_damage() {
    for (name, _) in scrubbed() {
        let mut world = World::new();
        world.disk.lose(&path(&name));
        world.run_pass();
        assert_eq!(world.damage.all(), [(name, 0)]);
    }
}

#[test]
fn a_directory_that_is_created_later_is_read_then() {
    let directory = crate::harness::temporary_directory();
    let later = directory.path().join("data");
    let (clock, damage) = (Arc::<TestClock>::default(), KnownDamage::default());
    let inputs = ScrubInputs {
        disk: Arc::new(RealDisk),
        directory: later.clone(),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        bytes_per_second: RATE,
        damage: damage.clone(),
        metrics: Arc::default(),
    };
    let pace = TestPace { clock, ..TestPace::default() };
    let mut scrub = Scrub::new(inputs, Arc::new(pace));
    assert!(scrub.step() && !later.exists(), "the scrub creates nothing");
    std::fs::create_dir(&later).expect("created");
    std::fs::write(later.join("secret"), b"damaged").expect("written");
    (0..3).for_each(|_| assert!(scrub.step()));
    assert_eq!(damage.all(), [("secret".to_owned(), 0)]);
    assert!(later.join("scrub").exists());
}

#[test]
fn a_replaced_directory_is_neither_read_nor_written() {
    let mut world = World::new();
    world.scrub.step();
    world.disk.take_opened();
    world.disk.cached.replace_directory();
    (0..5).for_each(|_| assert!(world.scrub.step()));
    assert!(world.disk.take_opened().is_empty());
    assert_eq!(world.disk.cached.names(), [""; 0]);
    assert_eq!(world.damage.count(), 0);
}
