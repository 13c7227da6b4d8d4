//! Erasure in a log with retention and a table with eviction. The profiles equal a fold of the whole history,
//! and no file contains an ID of an erased visitor.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use parallax::testing::checksum::hash64;
use parallax::testing::clock::Clock;
use parallax::testing::limits::{
    CHECKPOINT_RETENTION_INTERVAL_MS, CHECKPOINT_RETRY_MS, RETENTION_INTERVAL_MS,
};
use parallax::testing::log::format::{HEADER_BYTES, batch_length};
use parallax::testing::log::{ErasureSummary, LogItem, LogReader, Request, VisitorIds, segment_name};
use parallax::testing::record::{IdKind, Record, RecordKind, VisitorId};
use parallax::testing::storage::damage::KnownDamage;
use parallax::testing::storage::disk::Disk;
use parallax::testing::visitors::erasure::{Eraser, ErasureError};
use parallax::testing::visitors::ownership::OwnershipSource;
use parallax::testing::visitors::ties::known::KnownTies;
use parallax::testing::visitors::verify::check_directory;

use super::{DIRECTORY, RunningLog, World, assert_same};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::{Fault, Plan};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Returns all IDs that lead to one visitor, as an erasure finds them: the anonymous ID, its user, and the
/// other anonymous IDs of that user.
fn ids_of(running: &RunningLog, anon_id: &str) -> Vec<(IdKind, String)> {
    let profiles = running.profiles.lock().expect("the lock is not poisoned");
    let mut lookup = profiles.as_ref().expect("it is not taken yet").readers().reader();
    let visitors = lookup.pin();
    let mut ids = vec![(IdKind::Anon, anon_id.to_owned())];
    if let Some(profile) = visitors.find("acme", IdKind::Anon, anon_id) {
        ids.extend(profile.user_id().map(|id| (IdKind::User, id.to_owned())));
        let others = profile.anon_ids().filter(|id| *id != anon_id);
        ids.extend(others.map(|id| (IdKind::Anon, id.to_owned())));
    }
    ids
}

/// Returns the parts that erase visitors in a running log.
pub fn eraser(world: &World, running: &RunningLog) -> Eraser {
    let known = {
        let profiles = running.profiles.lock().expect("the lock is not poisoned");
        profiles.as_ref().expect("it is not taken yet").state().known
    };
    let (disk, directory) = (Arc::new(world.disk.clone()), Path::new(DIRECTORY).to_owned());
    Eraser {
        log: running.queue.clone(),
        source: OwnershipSource { disk, directory, known, cluster: None, damage: KnownDamage::default() },
        checkpoints: Arc::clone(&running.metrics),
    }
}

/// Runs the writers until a job ends, and returns its result. Each of their steps takes `step_ms`.
pub fn run_until_end<T>(
    world: &World,
    running: &mut RunningLog,
    job: ScopedJoinHandle<'_, T>,
    step_ms: u64,
) -> T {
    while !job.is_finished() {
        running.writer.run_once();
        running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
        world.clock.pass(step_ms);
        thread::yield_now();
    }
    job.join().expect("no panic")
}

/// Erases a visitor as the server does. The writers run meanwhile, and each of their steps takes `step_ms`.
pub fn try_erase(
    world: &World,
    running: &mut RunningLog,
    id: (IdKind, &str),
    profile_ids: Vec<(IdKind, String)>,
    step_ms: u64,
) -> Result<ErasureSummary, ErasureError> {
    let eraser = eraser(world, running);
    thread::scope(|scope| {
        let job =
            scope.spawn(|| eraser.erase(VisitorId { site: "acme", id_kind: id.0, id: id.1 }, profile_ids));
        run_until_end(world, running, job, step_ms)
    })
}

/// Returns whether the log has a record of a user with this anonymous ID: another visitor used the same device.
fn has_record_of_a_user(world: &World, anon_id: &str) -> bool {
    let disk = Arc::new(world.disk.clone());
    let mut reader = LogReader::open(disk, Path::new(DIRECTORY), 0).expect("the log opens");
    while let Some(item) = reader.read_next().expect("reading succeeds") {
        let LogItem::Records(records) = item else { continue };
        if records.iter().any(|(_, record)| record.anon_id == Some(anon_id) && record.user_id.is_some()) {
            return true;
        }
    }
    false
}

fn erase(world: &World, running: &mut RunningLog, anon_id: &str) {
    let ids = ids_of(running, anon_id);
    let erased = try_erase(world, running, (IdKind::Anon, anon_id), ids.clone(), 1);
    let erased = erased.expect("the disk works");
    assert!(world.seqs().len() == 1 && world.seqs()[0] >= erased.seq, "no older checkpoint is left");
    assert!(!world.disk.names().contains(&"erasing".to_owned()));
    // On a shared device, an anonymous ID stays in the records of its other users.
    let users: Vec<&str> =
        ids.iter().filter(|(kind, _)| *kind == IdKind::User).map(|(_, id)| id.as_str()).collect();
    let is_shared = users.is_empty() && has_record_of_a_user(world, anon_id);
    let gone = if users.is_empty() { vec![anon_id] } else { users };
    for id in gone.into_iter().filter(|_| !is_shared) {
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

/// Records events of these IDs: an anonymous ID, a user ID, or both.
pub fn record(running: &mut RunningLog, kind: RecordKind, ids: &[(Option<&str>, Option<&str>)]) {
    let mut request = Request::new(0);
    for (anon_id, user_id) in ids.iter().copied() {
        let payload = format!(r#"{{"note":"of {} {}"}}"#, anon_id.unwrap_or("-"), user_id.unwrap_or("-"));
        let event = Record { site: Some("acme"), anon_id, user_id, payload: &payload, ..Record::new(kind) };
        request.push(&event).expect("the record is within bounds");
    }
    running.client.send(request).expect("the queue accepts it");
    running.writer.run_once();
    running.client.next_completion().expect("one step completes the request");
}

/// Returns the files of the data directory that contain a text.
pub fn files_with(world: &World, text: &str) -> Vec<String> {
    let contains = |name: &String| {
        let bytes = world.disk.bytes(&Path::new(DIRECTORY).join(name));
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    world.disk.names().into_iter().filter(contains).collect()
}

#[test]
fn an_erasure_during_a_checkpoint_copy_stops_no_checkpoint() {
    let mut world = World::new(1);
    (world.log_bytes, world.visitors) = (u64::MAX, 4_000);
    let mut running = world.open();
    (0..40).for_each(|_| assert!(world.record(&mut running, 500)));
    let request = running.metrics.request();
    running.writer.run_once();
    running.writer.run_once();
    assert_eq!(world.seqs(), [0; 0], "the copy takes more steps than these");
    // The IDs are known by their digests only, so the erasure visits the whole table.
    let key = world.key();
    let owner = key.tag("acme", IdKind::User, "user-7");
    let named = vec![owner, key.tag("acme", IdKind::Anon, "visitor-7")];
    let hashes = vec![hash64(b"acme\xFFuuser-7"), hash64(b"acme\xFFavisitor-7")];
    let as_of_seq = world.last();
    let visitor =
        VisitorIds { site: "acme".to_owned(), owner, named, as_of_seq, hashes, known_ids: Vec::new() };
    let erasure = running.queue.erase(visitor).expect("no other erasure runs");
    running.settle();
    erasure.begin().expect("the disk works");
    assert!(running.metrics.is_fulfilled(request), "the checkpoint is made");
    let due = running.writer.next_due().expect("the mark or the next check is due");
    assert!(due > world.clock.monotonic(), "the writer does not spin");
    assert_same(&running.kill(), &world.fold(world.last()), "the table");
}

#[test]
fn an_erasure_voids_records_of_a_quarantined_tail_whatever_their_seqs() {
    let mut world = World::new(1);
    world.options.segment_bytes = 1;
    let mut running = world.open();
    record(&mut running, RecordKind::Identify, &[(Some("of-ana"), Some("ana"))]);
    let others = [(None, Some("bob")), (Some("of-bob"), None)];
    record(&mut running, RecordKind::Track, &others);
    let tails: [&[(Option<&str>, Option<&str>)]; 3] =
        [&[(Some("of-ana"), None)], &[(Some("of-ana"), Some("bob"))], &[(None, Some("ana"))]];
    for ids in tails {
        record(&mut running, RecordKind::Track, ids);
    }
    record(&mut running, RecordKind::Track, &others);
    // The whole batches of a quarantined tail were never part of the log, so their seqs are given again.
    let batch = |seq: u64| {
        let bytes = world.disk.bytes(&Path::new(DIRECTORY).join(segment_name(seq)));
        let end = HEADER_BYTES + batch_length(&bytes[HEADER_BYTES..]).expect("a batch");
        bytes[HEADER_BYTES..end].to_vec()
    };
    let tail = [4, 5, 6, 7].map(batch).concat();
    drop(running);
    let world = World { options: world.options, ..World::new(2) };
    let mut running = world.open();
    record(&mut running, RecordKind::Identify, &[(Some("of-ana"), Some("ana"))]);
    let torn = format!("{:020}.torn-1", 1);
    world.disk.put(&Path::new(DIRECTORY).join(&torn), &tail);

    let erased = try_erase(&world, &mut running, (IdKind::User, "ana"), Vec::new(), 1);
    let erased = erased.expect("the disk works");
    assert_eq!((erased.seq, erased.records), (2, 1), "the tombstone has a lower seq than the tail");
    for text in ["of-ana", "ana"] {
        assert_eq!(files_with(&world, text), [""; 0], "{text}");
    }
    assert_eq!(files_with(&world, "of-bob").len(), 1, "the records of others stay in the tail");
}

#[test]
fn an_erasure_of_a_visitor_without_ties_reads_no_segment_whose_filter_lacks_the_visitor() {
    for (id, ids) in
        [((IdKind::Anon, "ana-1"), (Some("ana-1"), None)), ((IdKind::User, "ana"), (None, Some("ana")))]
    {
        let mut world = World::new(1);
        world.options.segment_bytes = 1;
        let mut running = world.open();
        record(&mut running, RecordKind::Track, &[ids]);
        record(&mut running, RecordKind::Track, &[(Some("bob-1"), None)]);
        record(&mut running, RecordKind::Identify, &[(Some("bob-1"), Some("bob"))]);
        // An erasure rewrites a damaged segment as soon as it reads it.
        let path = Path::new(DIRECTORY).join(segment_name(2));
        let mut bytes = world.disk.bytes(&path);
        bytes[HEADER_BYTES + 90] ^= 1;
        world.disk.put(&path, &bytes);
        let erased = try_erase(&world, &mut running, id, Vec::new(), 1).expect("the disk works");
        assert_eq!((erased.records, erased.segments), (1, 1));
        assert_eq!(world.disk.bytes(&path), bytes, "the segment is not rewritten");
    }
}

#[test]
fn a_replacing_checkpoint_counts_only_after_all_others_are_deleted() {
    let mut replaced_late = 0;
    for (seed, call) in (0..times(10, 100) as u64).flat_map(|seed| (1..=60).map(move |call| (seed, call))) {
        let mut world = World::new(seed);
        let mut running = world.open();
        for _ in 0..3 {
            world.record(&mut running, 5);
            running.settle();
        }
        let request = running.metrics.request_replacement();
        world.disk.plan(Plan::Nth(call, Fault::Eio));
        let begun = world.clock.monotonic();
        while !running.metrics.is_fulfilled(request) {
            running.writer.run_once();
            running.checkpoint_writer.as_mut().expect("it is not taken yet").run_pending();
            world.clock.pass(100);
        }
        world.disk.plan(Plan::Never);
        assert_eq!(world.seqs().len(), 1, "seed {seed}, call {call}");
        replaced_late +=
            u32::from((world.clock.monotonic() - begun).as_millis() >= u128::from(CHECKPOINT_RETRY_MS));
    }
    assert!(replaced_late > 0, "no fault prevented a checkpoint");
}

#[test]
fn a_reader_of_ownership_waits_until_the_writer_knows_the_new_checkpoint() {
    let mut world = World::new(1);
    let mut running = world.open();
    world.record(&mut running, 1);
    let source = OwnershipSource {
        known: KnownTies::restored(7, Default::default()),
        ..eraser(&world, &running).source
    };
    let begun = Instant::now();
    assert!(source.open().is_err(), "the checkpoint of seq 7 is gone, and no newer one is known");
    // The log writer learns of a new checkpoint within 5 ms.
    assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
}

/// Erases a visitor while an event changes the user of an ID between the look-up of the IDs and the tombstone.
fn erase_while(
    world: &World,
    running: &mut RunningLog,
    id: (IdKind, &str),
    meanwhile: (&str, &str),
) -> ErasureSummary {
    let eraser = eraser(world, running);
    let erased = thread::scope(|scope| {
        let job =
            scope.spawn(|| eraser.erase(VisitorId { site: "acme", id_kind: id.0, id: id.1 }, Vec::new()));
        // The lock of erasures is taken after the look-up.
        while !running.queue.metrics().is_erasing() {
            thread::yield_now();
        }
        record(running, RecordKind::Identify, &[(Some(meanwhile.0), Some(meanwhile.1))]);
        run_until_end(world, running, job, 1)
    });
    erased.expect("the disk works")
}

#[test]
fn an_anonymous_id_that_signs_in_during_the_look_up_of_an_erasure_is_erased_with_its_user() {
    let world = World::new(1);
    let mut running = world.open();
    record(&mut running, RecordKind::Track, &[(Some("device-1"), None), (Some("device-2"), None)]);
    let erased = erase_while(&world, &mut running, (IdKind::Anon, "device-1"), ("device-1", "ana"));
    assert_eq!(erased.records, 2, "the identify, and the event before it");
    for text in ["device-1", "ana"] {
        assert_eq!(files_with(&world, text), [""; 0], "{text}");
    }
    assert_eq!(ids_of(&running, "device-1").len(), 1, "no profile has the ID");
}

#[test]
fn an_anonymous_id_that_moves_during_the_look_up_of_an_erasure_stays_with_its_new_user() {
    let world = World::new(1);
    let mut running = world.open();
    record(&mut running, RecordKind::Identify, &[(Some("device-1"), Some("ana"))]);
    let erased = erase_while(&world, &mut running, (IdKind::User, "ana"), ("device-1", "bob"));
    assert_eq!(erased.records, 1);
    assert_eq!(
        ids_of(&running, "device-1"),
        [(IdKind::Anon, "device-1".to_owned()), (IdKind::User, "bob".to_owned())]
    );
}

#[test]
fn a_start_adds_the_tombstones_that_a_crash_between_two_batches_left_out() {
    let world = World::new(1);
    let mut running = world.open();
    let devices = ["device-1-of-ana", "device-2-of-ana", "device-3-of-ana"];
    for device in devices {
        record(&mut running, RecordKind::Track, &[(Some(device), None)]);
        record(&mut running, RecordKind::Identify, &[(Some(device), Some("ana"))]);
    }
    // The first batch names only one of the devices.
    let key = world.key();
    let owner = key.tag("acme", IdKind::User, "ana");
    let named = vec![owner, key.tag("acme", IdKind::Anon, devices[0])];
    let as_of_seq = world.last();
    let visitor = VisitorIds { site: "acme".to_owned(), owner, named, as_of_seq, ..VisitorIds::default() };
    drop(running.queue.erase(visitor).expect("no other erasure runs"));
    running.writer.run_once();
    drop(running);
    let mut running = world.open();
    assert!(running.report.interrupted_erasure.is_some_and(|erasure| erasure.is_begun));
    let eraser = eraser(&world, &running);
    let erased = thread::scope(|scope| {
        let job = scope.spawn(|| eraser.resume());
        run_until_end(&world, &mut running, job, 1)
    });
    let erased = erased.expect("the disk works").expect("the log has a tombstone");
    assert_eq!((erased.records, erased.seq), (6, 8), "a second tombstone names the other devices");
    assert_eq!(files_with(&world, "of-ana"), [""; 0]);
    let known = eraser.source.known.copy();
    let ended = |device: &str| {
        let tag = key.tag("acme", IdKind::Anon, device);
        let ownership = eraser.source.open().expect("the checkpoint is valid");
        let visitor = ownership
            .visitor(VisitorId { site: "acme", id_kind: IdKind::Anon, id: device })
            .expect("the checkpoint is valid");
        visitor.named() == [tag] && visitor.owner() == tag
    };
    assert!(devices.into_iter().all(ended), "{known:?}");
}

#[test]
fn a_check_beside_an_erasure_reports_no_difference() {
    let begun = || {
        let mut world = World::new(1);
        world.options.segment_bytes = 1;
        let mut running = world.open();
        for _ in 0..2 {
            record(&mut running, RecordKind::Track, &[(Some("device-1"), None)]);
            running.settle();
        }
        (world, running)
    };
    let (erased, mut running) = begun();
    try_erase(&erased, &mut running, (IdKind::Anon, "device-1"), Vec::new(), 1).expect("the disk works");
    let segment = Path::new(DIRECTORY).join(segment_name(2));
    let (world, _running) = begun();
    let [older, _] = world.seqs()[..] else { panic!("{:?}", world.seqs()) };
    // The erasure begins when the check loads the older checkpoint, after it has checked all files.
    let older = world.directory().path_of(older);
    world.disk.put_on_open(&older, 2, (segment.clone(), erased.disk.bytes(&segment)));
    world.disk.put_on_open(&older, 2, (Path::new(DIRECTORY).join("erasing"), vec![3, 0, 0, 0, 0, 0, 0, 0]));
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let report = check_directory(&disk, Path::new(DIRECTORY)).expect("the disk works");
    assert_eq!(report.failures, 0, "{:?}", report.lines);
    let last = report.lines.last().expect("a line");
    assert!(last.contains("not compared with the log: an erasure"), "{last}");
}
