//! The dedup window: an ID is a duplicate exactly within the window and the limit on IDs.

use std::sync::Arc;

use proptest::prelude::*;

use parallax::testing::limits::DEDUP_WINDOW_MS;
use parallax::testing::log::{DedupWindow, Options, RecordResult, WriteOutcome};

use super::simulated::{Plan, SimulatedDisk};
use super::{Log, START_MS, TestClock, options};

/// A model of the dedup window that searches a list.
struct Oracle {
    ids: Vec<(u128, i64)>,
    pending: usize,
    ids_max: usize,
    now_ms: i64,
    evicted_early: u64,
}

impl Oracle {
    fn is_live(&self, received_ms: i64) -> bool {
        self.now_ms - received_ms < DEDUP_WINDOW_MS
    }

    fn check_and_insert(&mut self, key: u128, received_ms: i64) -> bool {
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

    fn rollback(&mut self) {
        self.ids.truncate(self.ids.len() - std::mem::take(&mut self.pending));
    }
}

#[derive(Debug, Clone)]
enum Operation {
    CheckAndInsert(u128, i64),
    Commit,
    Rollback,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = (1..40_u128).prop_map(|key| (key << 64) | (key % 3));
    let later_ms =
        prop_oneof![Just(0), Just(-5), 1..1000_i64, Just(DEDUP_WINDOW_MS / 3), Just(-2 * DEDUP_WINDOW_MS),];
    prop_oneof![
        6 => (key, later_ms).prop_map(|(key, later_ms)| Operation::CheckAndInsert(key, later_ms)),
        2 => Just(Operation::Commit),
        1 => Just(Operation::Rollback),
    ]
}

proptest! {
    #[test]
    fn the_dedup_window_agrees_with_a_simple_list(
        operations in proptest::collection::vec(operation(), 0..300),
        ids_max in 1..30_usize,
        seed: u64,
    ) {
        let mut dedup = DedupWindow::new(ids_max, seed);
        let mut oracle = Oracle { ids: Vec::new(), pending: 0, ids_max, now_ms: i64::MIN, evicted_early: 0 };
        let mut now_ms = START_MS;
        for operation in operations {
            match operation {
                Operation::CheckAndInsert(key, later_ms) => {
                    now_ms += later_ms;
                    prop_assert_eq!(dedup.check_and_insert(key, now_ms), oracle.check_and_insert(key, now_ms));
                }
                Operation::Commit => {
                    dedup.commit();
                    oracle.commit();
                }
                Operation::Rollback => {
                    dedup.rollback();
                    oracle.rollback();
                }
            }
            prop_assert_eq!(dedup.evicted_early(), oracle.evicted_early);
        }
    }
}

#[test]
fn an_id_is_a_duplicate_until_the_last_millisecond_of_the_window() {
    for (later_ms, expected) in
        [(DEDUP_WINDOW_MS - 1, true), (DEDUP_WINDOW_MS, false), (DEDUP_WINDOW_MS + 1, false)]
    {
        let mut dedup = DedupWindow::new(10, 1);
        dedup.check_and_insert(7, START_MS);
        dedup.commit();
        assert_eq!(dedup.check_and_insert(7, START_MS + later_ms), expected, "{later_ms} ms later");
    }
}

#[test]
fn a_clock_that_ran_ahead_causes_no_double_counting() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, &options());
    log.record(&[1], START_MS + 9 * DEDUP_WINDOW_MS);
    // The clock was corrected.
    for key in [2, 3] {
        assert_ne!(log.record(&[key], START_MS).request.results(), [RecordResult::Duplicate]);
        assert_eq!(log.record(&[key], START_MS + 1).request.results(), [RecordResult::Duplicate]);
    }
    let mut log = open_again(log, &disk);
    assert_eq!(log.record(&[1, 2, 3], START_MS + 2).request.results(), [RecordResult::Duplicate; 3]);
}

#[test]
fn the_oldest_id_is_evicted_above_the_limit() {
    for (ids, first_is_seen) in [(9, true), (10, true), (11, false)] {
        let mut dedup = DedupWindow::new(10, 1);
        (1..=ids).for_each(|key| assert!(!dedup.check_and_insert(key, START_MS)));
        dedup.commit();
        assert_eq!(dedup.evicted_early(), u64::from(!first_is_seen), "{ids} ids");
        assert_eq!(dedup.check_and_insert(1, START_MS), first_is_seen, "{ids} ids");
    }
}

fn open(disk: &SimulatedDisk, options: &Options) -> Log {
    let clock = Arc::<TestClock>::default();
    Log::open(Arc::new(disk.clone()), &clock, options.clone()).expect("the disk works")
}

#[test]
fn a_batch_accepts_only_the_first_of_equal_keys() {
    let disk = SimulatedDisk::new(1);
    let mut log = open(&disk, &options());
    let completion = log.record(&[1, 2, 1, 0, 0], START_MS);
    let accepted = RecordResult::Accepted;
    let expected = [accepted(1), accepted(2), RecordResult::Duplicate, accepted(3), accepted(4)];
    assert_eq!(completion.request.results(), expected, "key 0 is never a duplicate");

    disk.plan(Plan::Full);
    assert_eq!(log.record(&[3, 3], START_MS).outcome, WriteOutcome::DiskUnavailable);
    disk.plan(Plan::Never);
    assert_eq!(open_again(log, &disk).record(&[3], START_MS).request.results(), [accepted(5)]);
}

fn open_again(log: Log, disk: &SimulatedDisk) -> Log {
    drop(log);
    open(disk, &options())
}

#[test]
fn a_restart_restores_the_dedup_window_from_records_and_footers() {
    for checkpointed_seq in [0, 3, 6] {
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
            let mut log = open(&disk, &Options { checkpointed_seq, ..options() });
            let consumed: Vec<u64> = log.consumed().iter().map(|(seq, _)| *seq).collect();
            assert!(
                consumed.into_iter().eq(checkpointed_seq + 1..=6),
                "the consumer receives only records that no checkpoint contains"
            );
            let results = log.record(&[1, 2, 3, 4, 5, 6, 7], START_MS).request.results().to_vec();
            assert_eq!(results[..6], [RecordResult::Duplicate; 6]);
            assert_eq!(results[6], RecordResult::Accepted(7));
        }
    }
}

#[test]
fn seqs_continue_after_a_checkpoint_that_is_ahead_of_the_files() {
    let mut log = open(&SimulatedDisk::new(1), &Options { checkpointed_seq: 41, ..options() });
    assert_eq!(log.record(&[1], START_MS).request.results(), [RecordResult::Accepted(42)]);
}
