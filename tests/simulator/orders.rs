//! Orders, the file `positions`, and the rule that drops ties, compared with plain oracles.

use parallax::testing::cluster::order::{ENTRY_BYTES, PositionEntry, Positions, droppable, order};
use parallax::testing::record::IdTag;
use parallax::testing::visitors::ties::{TieEntry, users_around};

use crate::dice::Dice;

const ANON: IdTag = IdTag([9; 16]);

/// A random list of entries of one anonymous ID, with ascending orders.
fn random_entries(dice: &mut Dice) -> Vec<TieEntry> {
    let mut seq = 0;
    let entries = (0..dice.below(8)).map(|_| {
        seq += 1 + dice.below(5) as u64;
        let user = (dice.below(3) > 0).then(|| IdTag([1 + dice.below(3) as u8; 16]));
        TieEntry { anon: ANON, seq, user, anon_hash: 0, user_hash: 0 }
    });
    entries.collect()
}

/// Rule T3: a record at or above the floor has the same users around it with and without the dropped entries.
#[test]
fn dropped_ties_change_no_owner_at_or_above_the_floor() {
    let mut dropped = 0;
    for seed in 1..20_000 {
        let mut dice = Dice(seed);
        let entries = random_entries(&mut dice);
        let floor = dice.below(40) as u64;
        let orders: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
        let rest = &entries[droppable(&orders, floor)..];
        dropped += entries.len() - rest.len();
        for at in floor..50 {
            assert_eq!(users_around(rest, at), users_around(&entries, at), "seed {seed}, order {at}");
        }
    }
    assert!(dropped > 10_000, "{dropped}");
}

/// The mutant of T3: it also drops the last entry below the floor.
#[test]
fn the_last_tie_below_the_floor_is_needed() {
    let user = |seq: u64| Some(IdTag([seq as u8; 16]));
    let entry = |seq| TieEntry { anon: ANON, seq, user: user(seq), anon_hash: 0, user_hash: 0 };
    let entries = [entry(10), entry(20), entry(30)];
    assert_eq!(droppable(&[10, 20, 30], 25), 1);
    assert_eq!(users_around(&entries[1..], 25), users_around(&entries, 25));
    assert_ne!(users_around(&entries[2..], 25), users_around(&entries, 25));
    assert_eq!(droppable(&[10, 20, 30], 20), 0, "an entry at the floor is not below it");
    assert_eq!(droppable(&[10, 20, 30], 21), 1);
    assert_eq!(droppable(&[], 21), 0);
    assert_eq!(droppable(&[10], u64::MAX), 0, "the last one stays");
}

/// A run of the stream: its position, its first own seq, its number of records, and the index of a tie in it.
struct Run {
    position: u64,
    own_first: Option<u64>,
    records: u64,
    tie: Option<u64>,
}

fn random_runs(dice: &mut Dice) -> Vec<Run> {
    let mut next = 1;
    let runs = (1..=40).map(|position| {
        let records = 1 + dice.below(5) as u64;
        let own_first = (dice.below(2) == 0).then_some(next);
        next += if own_first.is_some() { records } else { 0 };
        let tie = (dice.below(4) == 0).then(|| dice.below(records as usize) as u64);
        Run { position, own_first, records, tie }
    });
    runs.collect()
}

fn on_message(
    positions: &mut Positions,
    position: u64,
    own_first: Option<u64>,
    makes_tie: bool,
) -> Option<PositionEntry> {
    let first = own_first.map(|first_seq| PositionEntry { first_seq, order: order(position, 0) });
    positions.on_message(first, makes_tie)
}

/// In the log of the cluster, a record without effect has no seq, but the order of a record counts it.
#[test]
fn the_file_positions_of_the_log_of_the_cluster_puts_each_record_between_the_same_ties() {
    let mut entries = 0;
    for seed in 1..2_000 {
        let mut dice = Dice(seed);
        let (mut positions, mut truths, mut ties) = (Positions::default(), Vec::new(), Vec::new());
        for position in 1..=40 {
            let accepted = (0..1 + dice.below(5) as u64).map(|index| order(position, index));
            let effective: Vec<u64> = accepted.filter(|_| dice.below(3) > 0).collect();
            if effective.is_empty() {
                continue;
            }
            let tie = (dice.below(4) == 0).then(|| effective[dice.below(effective.len())]);
            positions.on_records(truths.len() as u64 + 1, &effective, tie.is_some());
            truths.extend(effective);
            ties.extend(tie);
        }
        let is_before = |order: u64| ties.partition_point(|tie| *tie <= order);
        let last_seq = truths.len() as u64;
        for (seq, truth) in (1..).zip(&truths) {
            let found = positions.order_of(seq, last_seq);
            assert_eq!(is_before(found), is_before(*truth), "seed {seed}, seq {seq}");
        }
        entries += positions.len();
        assert!(positions.len() < truths.len(), "not every record has an entry");
    }
    assert!(entries > 0);
}

/// The order by the file can differ from the true one, but not by a tie between them.
#[test]
fn the_file_positions_puts_each_record_between_the_same_ties() {
    let mut saved_entries = 0;
    for seed in 1..2_000 {
        let mut dice = Dice(seed);
        let runs = random_runs(&mut dice);
        let ties: Vec<u64> =
            runs.iter().filter_map(|run| run.tie.map(|index| order(run.position, index))).collect();
        let (mut positions, mut file) = (Positions::default(), Vec::new());
        let crash = dice.below(40) as u64;
        for run in &runs {
            if run.position == crash {
                // The checkpoint is older, the file has a torn entry, and the stream gives the messages again.
                let checkpoint = crash.saturating_sub(1 + dice.below(6) as u64);
                file.extend_from_slice(&[7; ENTRY_BYTES - 1]);
                positions = Positions::from_bytes(&file);
                positions.rewind(order(checkpoint, u64::MAX));
                let again = runs.iter().filter(|run| (checkpoint + 1..crash).contains(&run.position));
                again.for_each(|run| {
                    on_message(&mut positions, run.position, run.own_first, run.tie.is_some());
                });
            }
            on_message(&mut positions, run.position, run.own_first, run.tie.is_some());
            file = positions.to_bytes();
        }
        saved_entries += runs.iter().filter(|run| run.own_first.is_some()).count() * ENTRY_BYTES - file.len();
        let first_kept = 1 + dice.below(20) as u64;
        positions.delete_before(first_kept);
        let is_before = |order: u64| ties.partition_point(|tie| *tie <= order);
        let own = runs.iter().filter_map(|run| run.own_first.map(|first| (run, first)));
        for (run, first) in own {
            for seq in (first..first + run.records).filter(|seq| *seq >= first_kept) {
                let truth = order(run.position, seq - first);
                let found = positions.order_of(seq, u64::MAX);
                assert_eq!(is_before(found), is_before(truth), "seed {seed}, seq {seq}");
            }
        }
        assert_eq!(positions.order_of(first_kept, 0), u64::MAX, "it has not returned");
    }
    assert!(saved_entries > 0, "not every run has an entry");
}

#[test]
fn a_record_that_is_accepted_again_keeps_its_first_order() {
    let mut positions = Positions::default();
    on_message(&mut positions, 3, Some(1), true);
    on_message(&mut positions, 5, Some(4), false);
    on_message(&mut positions, 9, Some(1), true);
    assert_eq!([1, 3, 4].map(|seq| positions.order_of(seq, 9)), [order(3, 0), order(3, 2), order(5, 0)]);
    on_message(&mut positions, 11, Some(9), false);
    assert_eq!(positions.order_of(9, 9), order(11, 0));
    positions.delete_after(4);
    assert_eq!(positions.order_of(9, 9), order(5, 5), "the entry of other content is deleted");
    on_message(&mut positions, 12, Some(5), false);
    assert_eq!(positions.order_of(9, 9), order(12, 4));
}

#[test]
fn a_record_that_is_under_way_is_not_below_the_oldest_order() {
    let mut positions = Positions::default();
    assert_eq!(
        positions.oldest(1, 0, order(7, u64::MAX)),
        order(8, 0),
        "the next message can have the first record"
    );
    on_message(&mut positions, 8, Some(1), true);
    assert_eq!(positions.oldest(1, 3, order(9, u64::MAX)), order(8, 0));
    assert_eq!(positions.oldest(3, 3, order(9, u64::MAX)), order(8, 2));
    assert_eq!(
        positions.oldest(4, 3, order(9, u64::MAX)),
        order(10, 0),
        "retention has deleted all that has returned"
    );
}

#[test]
fn the_orders_of_a_log_that_was_alone_are_its_seqs() {
    for last in [0, 1, 65_535, 65_536, 200_000] {
        let positions = Positions::of_seqs(last);
        for seq in [1, 65_535, 65_536, 65_537, 131_072, 199_999, 200_000] {
            if seq <= last {
                assert_eq!(positions.order_of(seq, last), seq);
            }
        }
        assert_eq!(positions.len() as u64, last / 65_536 + 1);
        let mut restored = Positions::from_bytes(&positions.to_bytes());
        let later = on_message(&mut restored, last / 65_536 + 1, Some(last + 1), false);
        assert!(later.is_some_and(|entry| entry.order > last), "the first era is after the log");
    }
}

#[test]
fn the_records_below_the_floor_end_before_an_entry_or_at_the_last_returned_one() {
    let mut positions = Positions::default();
    assert_eq!(positions.first_seq_from(order(3, 0), 7), 8, "without an entry nothing is known");
    on_message(&mut positions, 3, Some(1), true);
    on_message(&mut positions, 9, Some(5), true);
    let first = |floor| positions.first_seq_from(floor, 7);
    assert_eq!(first(0), 0, "no member has a floor");
    assert_eq!([order(3, 0), order(3, 1), order(9, 0)].map(first), [1, 5, 5]);
    assert_eq!(first(order(9, 1)), 8, "a record that has not returned is after all entries");
}
