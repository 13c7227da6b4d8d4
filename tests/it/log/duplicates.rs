//! What counts as seen: exactly what the window says, within its bound.

use std::sync::Arc;

use proptest::prelude::*;

use parallax::limits::DUPLICATE_WINDOW_MS;
use parallax::visitors::log::{Duplicates, Options, Outcome, Verdict};

use super::simulated::{Plan, SimulatedDisk};
use super::{Log, START_MS, TestClock, options};

/// The same, looked up by going through a list.
struct Oracle {
    ids: Vec<(u128, i64)>,
    pending: usize,
    ids_max: usize,
    now_ms: i64,
    evicted_early: u64,
}

impl Oracle {
    fn is_live(&self, received_ms: i64) -> bool {
        self.now_ms - received_ms < DUPLICATE_WINDOW_MS
    }

    fn seen(&mut self, key: u128, received_ms: i64) -> bool {
        self.now_ms = self.now_ms.max(received_ms);
        if self.ids.iter().any(|&(other, ms)| other == key && self.is_live(ms)) {
            return true;
        }
        self.ids.push((key, self.now_ms));
        self.pending += 1;
        false
    }

    fn commit(&mut self) {
        self.pending = 0;
        while let Some(&(_, ms)) = self.ids.first() {
            if self.is_live(ms) && self.ids.len() <= self.ids_max {
                return;
            }
            self.evicted_early += u64::from(self.is_live(ms));
            self.ids.remove(0);
        }
    }

    fn take_back(&mut self) {
        self.ids.truncate(self.ids.len() - std::mem::take(&mut self.pending));
    }
}

#[derive(Debug, Clone)]
enum Act {
    Seen(u128, i64),
    Commit,
    TakeBack,
}

fn act() -> impl Strategy<Value = Act> {
    let key = (1..40_u128).prop_map(|key| (key << 64) | (key % 3));
    let later_ms = prop_oneof![
        Just(0),
        Just(-5),
        1..1000_i64,
        Just(DUPLICATE_WINDOW_MS / 3),
        Just(-2 * DUPLICATE_WINDOW_MS),
    ];
    prop_oneof![
        6 => (key, later_ms).prop_map(|(key, later_ms)| Act::Seen(key, later_ms)),
        2 => Just(Act::Commit),
        1 => Just(Act::TakeBack),
    ]
}

proptest! {
    #[test]
    fn an_id_counts_as_seen_when_a_list_says_so(
        acts in proptest::collection::vec(act(), 0..300),
        ids_max in 1..30_usize,
        seed: u64,
    ) {
        let mut duplicates = Duplicates::new(ids_max, seed);
        let mut oracle = Oracle { ids: Vec::new(), pending: 0, ids_max, now_ms: i64::MIN, evicted_early: 0 };
        let mut now_ms = START_MS;
        for act in acts {
            match act {
                Act::Seen(key, later_ms) => {
                    now_ms += later_ms;
                    prop_assert_eq!(duplicates.seen(key, now_ms), oracle.seen(key, now_ms));
                }
                Act::Commit => {
                    duplicates.commit();
                    oracle.commit();
                }
                Act::TakeBack => {
                    duplicates.take_back();
                    oracle.take_back();
                }
            }
            prop_assert_eq!(duplicates.evicted_early(), oracle.evicted_early);
        }
    }
}

#[test]
fn an_id_counts_as_seen_to_the_last_millisecond_of_the_window() {
    for (later_ms, expected) in
        [(DUPLICATE_WINDOW_MS - 1, true), (DUPLICATE_WINDOW_MS, false), (DUPLICATE_WINDOW_MS + 1, false)]
    {
        let mut duplicates = Duplicates::new(10, 1);
        duplicates.seen(7, START_MS);
        duplicates.commit();
        assert_eq!(duplicates.seen(7, START_MS + later_ms), expected, "{later_ms} ms later");
    }
}

#[test]
fn a_clock_that_ran_ahead_makes_nothing_count_twice_from_then_on() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, &options());
    log.record(&[1], START_MS + 9 * DUPLICATE_WINDOW_MS);
    // The clock was put right.
    for key in [2, 3] {
        assert_ne!(log.record(&[key], START_MS).request.verdicts(), [Verdict::Duplicate]);
        assert_eq!(log.record(&[key], START_MS + 1).request.verdicts(), [Verdict::Duplicate]);
    }
    let mut log = open_again(log, &disk);
    assert_eq!(log.record(&[1, 2, 3], START_MS + 2).request.verdicts(), [Verdict::Duplicate; 3]);
}

#[test]
fn the_oldest_id_goes_once_there_is_one_too_many() {
    for (ids, first_is_seen) in [(9, true), (10, true), (11, false)] {
        let mut duplicates = Duplicates::new(10, 1);
        (1..=ids).for_each(|key| assert!(!duplicates.seen(key, START_MS)));
        duplicates.commit();
        assert_eq!(duplicates.evicted_early(), u64::from(!first_is_seen), "{ids} ids");
        assert_eq!(duplicates.seen(1, START_MS), first_is_seen, "{ids} ids");
    }
}

fn open(disk: &SimulatedDisk, options: &Options) -> Log {
    let clock = Arc::<TestClock>::default();
    Log::open(Arc::new(disk.clone()), &clock, options.clone()).expect("the disk is well")
}

#[test]
fn of_equal_keys_in_a_batch_the_first_is_accepted_and_the_others_share_its_fate() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, &options());
    let completion = log.record(&[1, 2, 1, 0, 0], START_MS);
    let accepted = Verdict::Accepted;
    let expected = [accepted(1), accepted(2), Verdict::Duplicate, accepted(3), accepted(4)];
    assert_eq!(completion.request.verdicts(), expected, "key 0 is never a duplicate");

    disk.plan(Plan::Full);
    assert_eq!(log.record(&[3, 3], START_MS).outcome, Outcome::DiskUnavailable);
    disk.plan(Plan::Never);
    assert_eq!(open_again(log, &disk).record(&[3], START_MS).request.verdicts(), [accepted(5)]);
}

fn open_again(log: Log, disk: &SimulatedDisk) -> Log {
    drop(log);
    open(disk, &options())
}

#[test]
fn what_was_seen_is_known_after_a_restart_from_records_and_from_footers() {
    for folded_seq in [0, 3, 6] {
        for stops in [true, false] {
            let disk = SimulatedDisk::new(1);
            let mut log = open(&disk, &Options { segment_bytes: 500, ..options() });
            (1..=6).for_each(|key| drop(log.record(&[key], START_MS)));
            if stops {
                log.stop();
            } else {
                drop(log);
                disk.cut_power();
            }
            let mut log = open(&disk, &Options { folded_seq, ..options() });
            let folded: Vec<u64> = log.folded().iter().map(|(seq, _)| *seq).collect();
            assert!(
                folded.into_iter().eq(folded_seq + 1..=6),
                "only what no checkpoint holds is handed over"
            );
            let verdicts = log.record(&[1, 2, 3, 4, 5, 6, 7], START_MS).request.verdicts().to_vec();
            assert_eq!(verdicts[..6], [Verdict::Duplicate; 6]);
            assert_eq!(verdicts[6], Verdict::Accepted(7));
        }
    }
}

#[test]
fn after_a_checkpoint_that_is_ahead_of_the_files_seqs_go_on_behind_it() {
    let mut log = open(&SimulatedDisk::new(1), &Options { folded_seq: 41, ..options() });
    assert_eq!(log.record(&[1], START_MS).request.verdicts(), [Verdict::Accepted(42)]);
}
