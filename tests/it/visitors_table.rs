//! The table of visitors, compared with a map and a list; its copies; and its readers, beside a writer that
//! never waits for them.

mod digests;
mod hosted;
mod loaded;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parallax::testing::limits::{COPY_PRESERVED_BYTES_MAX, RETIRED_BYTES, TABLE_ENTRY_BYTES_MAX};
use parallax::testing::visitors::store::table::{
    ENTRY_COST, EvictionClass, Key, Table, TableReader, memory_bytes_max,
};

use super::dice::Dice;
use super::harness::times;

const CLASSES: [EvictionClass; 3] =
    [EvictionClass::Pinned, EvictionClass::SingleVisit, EvictionClass::Returning];

/// An entry as it was put: key, value, eviction class.
type Entry = (Key, Vec<u8>, EvictionClass);

/// A simple model of the table: entries by key, and keys in the order of their last put.
#[derive(Default)]
struct TableModel {
    entries: BTreeMap<[u64; 2], (Vec<u8>, EvictionClass, u64)>,
    order: BTreeMap<u64, Key>,
    puts: u64,
}

impl TableModel {
    fn put(&mut self, key: Key, value: &[u8], class: EvictionClass) {
        self.remove(key);
        self.entries.insert(key.0, (value.to_vec(), class, self.puts));
        self.order.insert(self.puts, key);
        self.puts += 1;
    }

    fn remove(&mut self, key: Key) {
        if let Some((.., put)) = self.entries.remove(&key.0) {
            self.order.remove(&put);
        }
    }

    /// Returns all entries, in the order of their last put.
    fn all(&self) -> impl Iterator<Item = Entry> {
        let entry = |key: &Key| (*key, self.entries[&key.0].0.clone(), self.entries[&key.0].1);
        self.order.values().map(entry)
    }

    fn next_victim(&self) -> Option<(Key, Vec<u8>)> {
        let oldest = |class| self.all().find(|entry| entry.2 == class);
        oldest(EvictionClass::SingleVisit)
            .or_else(|| oldest(EvictionClass::Returning))
            .map(|(key, value, _)| (key, value))
    }

    fn cost(&self) -> u64 {
        self.entries.values().map(|(value, ..)| ENTRY_COST + value.len() as u64).sum()
    }
}

/// Returns a key that collides often: few shards, and few home slots in them.
fn colliding_key(dice: &mut Dice, keys: usize) -> Key {
    let key = dice.below(keys) as u64;
    Key([(key % 2) << 63 | key, (key % 5) << 61])
}

/// Returns a random-looking key, as visitors have.
fn key(number: u64) -> Key {
    let mut dice = Dice(number);
    Key([dice.next_u64(), dice.next_u64()])
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let bytes = match dice.below(10) {
        0 => 0,
        1 => dice.below(17_000),
        2..4 => 17,
        _ => dice.below(400),
    };
    let first = dice.next_u64() as u8;
    (0..bytes).map(|at| first.wrapping_add(at as u8)).collect()
}

/// Copies one more slice. Returns whether it was the last.
fn copy_slice(table: &mut Table, entries: usize, copied: &mut Vec<(u64, Entry)>) -> bool {
    table.copy_chunk(entries, &mut |key, value, class, place| {
        copied.push((place, (key, value.to_vec(), class)))
    })
}

/// Returns the entries of a copy in the order of their order numbers.
fn in_order(mut copied: Vec<(u64, Entry)>) -> Vec<Entry> {
    copied.sort_by_key(|(place, _)| *place);
    copied.into_iter().map(|(_, entry)| entry).collect()
}

fn assert_same(table: &Table, model: &TableModel, reader: &mut TableReader, key: Key) {
    let expected = model.entries.get(&key.0).map(|(value, ..)| value.as_slice());
    assert_eq!(table.get(key), expected);
    assert_eq!(reader.pin().get(key), expected);
    assert_eq!(table.next_victim().map(|(key, value)| (key, value.to_vec())), model.next_victim());
    assert_eq!((table.len(), table.is_empty()), (model.entries.len(), model.entries.is_empty()));
    assert_eq!(table.cost(), model.cost());
}

#[test]
fn the_table_matches_its_model_and_copies_are_of_one_moment() {
    for seed in 0..times(12, 400) {
        let mut dice = Dice(seed as u64);
        let keys = *dice.pick(&[3, 40, 300]);
        let (mut table, mut model) = (Table::new(), TableModel::default());
        let mut reader = table.readers().reader();
        let mut copy = None;
        for _ in 0..1_500 {
            let key = colliding_key(&mut dice, keys);
            match dice.below(20) {
                0..10 => {
                    let (value, class) = (value(&mut dice), *dice.pick(&CLASSES));
                    table.put(key, &value, class);
                    model.put(key, &value, class);
                }
                10..15 => {
                    table.remove(key);
                    model.remove(key);
                }
                15 if copy.is_none() || dice.below(20) == 0 => {
                    table.begin_copy();
                    copy = Some((model.all().collect::<Vec<_>>(), Vec::new()));
                }
                _ => {
                    let Some((moment, mut copied)) = copy.take() else { continue };
                    match copy_slice(&mut table, dice.below(12), &mut copied) {
                        true => assert_eq!(in_order(copied), moment, "seed {seed}"),
                        false => copy = Some((moment, copied)),
                    }
                    assert!(!table.was_copy_aborted());
                }
            }
            assert_same(&table, &model, &mut reader, key);
        }
    }
}

#[test]
fn records_that_are_moved_to_save_memory_do_not_change() {
    let (mut dice, mut table, mut model) = (Dice(5), Table::new(), TableModel::default());
    let mut reader = table.readers().reader();
    let keys = 40_000;
    for (round, bytes) in [150, 300, 600].into_iter().enumerate() {
        for _ in 0..keys {
            let (key, class) = (key(dice.below(keys) as u64), *dice.pick(&CLASSES));
            let value = vec![dice.next_u64() as u8; bytes];
            table.put(key, &value, class);
            model.put(key, &value, class);
        }
        let full_bytes = table.memory_bytes();
        let (moment, mut copied): (Vec<_>, _) = (model.all().collect(), Vec::new());
        table.begin_copy();
        let mut some = |all: usize, of: usize| -> Vec<u64> {
            (0..keys as u64).filter(|_| dice.below(all) < of).collect()
        };
        for number in some(8, 6) {
            copy_slice(&mut table, 1, &mut copied);
            table.remove(key(number));
            model.remove(key(number));
        }
        assert!(copy_slice(&mut table, usize::MAX, &mut copied), "this was not the last slice");
        assert_eq!(in_order(copied), moment);
        for number in some(8, 5) {
            table.remove(key(number));
            model.remove(key(number));
        }
        assert!(table.memory_bytes() < full_bytes / 3 * 2, "round {round}: no record was moved");
        (0..keys as u64).for_each(|number| {
            let expected = model.entries.get(&key(number).0).map(|(value, ..)| value.as_slice());
            assert_eq!(reader.pin().get(key(number)), expected);
        });
        assert_same(&table, &model, &mut reader, key(0));
    }
    for class in [EvictionClass::SingleVisit, EvictionClass::Returning] {
        for (key, value, _) in model.all().filter(|entry| entry.2 == class) {
            assert_eq!(table.next_victim(), Some((key, &*value)));
            table.remove(key);
        }
    }
    assert_eq!(table.next_victim(), None);
}

#[test]
fn a_restored_copy_evicts_in_the_same_order() {
    let (mut dice, mut table, mut copied) = (Dice(7), Table::new(), Vec::new());
    for _ in 0..2_000 {
        table.put(key(dice.below(900) as u64), &value(&mut dice), *dice.pick(&CLASSES));
    }
    table.begin_copy();
    assert!(copy_slice(&mut table, usize::MAX, &mut copied));
    let mut restored = Table::new();
    in_order(copied).iter().for_each(|(key, value, class)| restored.put(*key, value, *class));
    while let Some((key, value)) = table.next_victim() {
        assert_eq!(restored.next_victim(), Some((key, value)));
        table.remove(key);
        restored.remove(key);
    }
    assert_eq!(restored.next_victim(), None);
    assert!(!table.is_empty(), "aliases are never evicted by themselves");
    assert_eq!(restored.len(), table.len());
}

#[test]
fn a_slice_visits_at_most_the_requested_number_of_entries() {
    let (mut table, mut copied) = (Table::new(), Vec::new());
    (0..10).for_each(|number| table.put(key(number), b"v", EvictionClass::SingleVisit));
    table.begin_copy();
    table.remove(key(9));
    assert!(!copy_slice(&mut table, 4, &mut copied));
    assert_eq!(copied.len(), 4);
    assert!(!copy_slice(&mut table, 0, &mut copied));
    assert!(!copy_slice(&mut table, 7, &mut copied), "one entry was preserved, and its node is skipped");
    assert_eq!(copied.len(), 10);
    assert!(copy_slice(&mut table, 1, &mut copied));
    assert!(!copy_slice(&mut table, 1, &mut copied), "there is no active copy");
    assert_eq!(copied.len(), 10);
}

/// Makes a copy preserve its bound plus `more` bytes. Returns whether the copy was aborted.
fn is_aborted_at(more: i64) -> bool {
    const ENTRIES: u64 = 4096;
    let bytes = COPY_PRESERVED_BYTES_MAX / ENTRIES as usize - ENTRY_COST as usize;
    let (mut table, mut copied) = (Table::new(), Vec::new());
    let value = vec![1; bytes + 1];
    (1..ENTRIES).for_each(|number| table.put(key(number), &value[..bytes], EvictionClass::SingleVisit));
    table.put(key(0), &value[..(bytes as i64 + more) as usize], EvictionClass::SingleVisit);
    table.begin_copy();
    for number in 0..ENTRIES {
        assert!(!table.was_copy_aborted());
        match number % 2 {
            0 => table.put(key(number), b"", EvictionClass::SingleVisit),
            _ => table.remove(key(number)),
        }
    }
    let is_aborted = table.was_copy_aborted();
    assert_eq!(copy_slice(&mut table, usize::MAX, &mut copied), !is_aborted);
    assert_eq!(copied.len(), if is_aborted { 0 } else { ENTRIES as usize });
    table.begin_copy();
    assert!(!table.was_copy_aborted(), "the next copy starts clean");
    is_aborted
}

#[test]
fn a_copy_that_preserves_more_than_its_bound_is_aborted() {
    assert_eq!([-1, 0, 1].map(is_aborted_at), [false, false, true]);
}

#[test]
fn a_pinned_value_stays_readable_and_is_freed_afterwards() {
    let mut table = Table::new();
    let (mut early, mut late) = (table.readers().reader(), table.readers().clone().reader());
    let value = |turn: u64| vec![turn as u8; 1000];
    let turns = 20 * RETIRED_BYTES as u64 / 1000;
    table.put(key(0), &value(0), EvictionClass::SingleVisit);
    let pinned = early.pin();
    let found = pinned.get(key(0)).expect("the key was put");
    for turn in 1..turns {
        table.put(key(0), &value(turn), EvictionClass::SingleVisit);
        assert_eq!(late.pin().get(key(0)), Some(&*value(turn)), "other readers see the new value at once");
    }
    assert_eq!(found, value(0));
    assert!(table.retired_bytes() > 19 * RETIRED_BYTES, "a pin keeps values that were replaced since");
    drop(pinned);
    for turn in 0..turns {
        table.put(key(0), &value(turn), EvictionClass::SingleVisit);
    }
    assert!(table.retired_bytes() < 3 * RETIRED_BYTES, "{} bytes", table.retired_bytes());
    drop((early, late));
    (0..turns).for_each(|number| table.put(key(number), &value(number), EvictionClass::SingleVisit));
    (0..turns).for_each(|number| table.remove(key(number)));
    assert!(table.retired_bytes() < 3 * RETIRED_BYTES, "{} bytes", table.retired_bytes());
}

#[test]
fn readers_see_the_last_state_after_the_writer_is_dropped() {
    let mut table = Table::new();
    (0..1000).for_each(|number| table.put(key(number), &number.to_le_bytes(), EvictionClass::Returning));
    let mut reader = table.readers().reader();
    drop(table);
    let pinned = reader.pin();
    assert!((0..1000).all(|number| pinned.get(key(number)) == Some(&number.to_le_bytes())));
}

/// Returns a value that names its key and its turn. Its length and its bytes follow from both.
fn value_of_turn(number: u64, turn: u64) -> Vec<u8> {
    let mut dice = Dice(number << 32 | turn);
    let bytes = if dice.below(50) == 0 { dice.below(16_000) } else { *dice.pick(&[17, 100, 300]) };
    let mut value = [number.to_le_bytes(), turn.to_le_bytes()].concat();
    value.extend((0..bytes).map(|at| (turn as u8).wrapping_add(at as u8)));
    value
}

/// Reads until the writer is done. Returns the number of values found.
fn read_until_over(reader: &mut TableReader, keys: u64, seed: u64, is_over: &AtomicBool) -> u64 {
    let (mut dice, mut found) = (Dice(seed), 0);
    while !is_over.load(Ordering::Relaxed) {
        let pinned = reader.pin();
        let some: Vec<(u64, &[u8])> = (0..8)
            .map(|_| dice.below(keys as usize) as u64)
            .filter_map(|number| Some((number, pinned.get(key(number))?)))
            .collect();
        // The writer may have replaced these values by now.
        for (number, value) in some {
            let turn = u64::from_le_bytes(value[8..16].try_into().expect("eight bytes"));
            assert_eq!(value, value_of_turn(number, turn), "the value is of another key, or incomplete");
            found += 1;
        }
        // A key that is never replaced is always found.
        let constant = keys + dice.below(100) as u64;
        assert_eq!(
            pinned.get(key(constant)),
            Some(&*value_of_turn(constant, 0)),
            "the growing table lost an entry"
        );
    }
    found
}

#[test]
fn readers_see_whole_values_beside_an_active_writer() {
    let keys = 30_000;
    let mut table = Table::new();
    (keys..keys + 100)
        .for_each(|number| table.put(key(number), &value_of_turn(number, 0), EvictionClass::Returning));
    let is_over = AtomicBool::new(false);
    let readers = table.readers();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|seed| {
                let (mut reader, is_over) = (readers.reader(), &is_over);
                scope.spawn(move || read_until_over(&mut reader, keys, seed, is_over))
            })
            .collect();
        let mut dice = Dice(77);
        for turn in 0..times(160_000, 20_000_000) as u64 {
            let number = dice.below(keys as usize) as u64;
            // Phases with mostly puts alternate with phases with mostly removals, so that records are moved.
            let removals_of_ten = 2 + turn / 40_000 % 2 * 5;
            match dice.below(10) as u64 {
                roll if roll < removals_of_ten => table.remove(key(number)),
                _ => table.put(key(number), &value_of_turn(number, turn), EvictionClass::Returning),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let found: u64 =
            threads.into_iter().map(|thread| thread.join().expect("the reader saw only whole values")).sum();
        assert!(found > 0);
    });
}

/// Fills a table with values of `value_bytes` bytes, up to a cost.
fn fill(table: &mut Table, value_bytes: usize, cost_max: u64, numbers: &mut std::ops::RangeFrom<u64>) {
    let value = vec![1; value_bytes];
    while table.cost() + ENTRY_COST + value_bytes as u64 <= cost_max {
        table.put(key(numbers.next().expect("endless numbers")), &value, EvictionClass::Returning);
    }
}

#[test]
fn memory_stays_near_the_cost_after_changes_of_value_size() {
    // Blocks that a size class has begun and not filled, and the headers of the shards.
    const UNFILLED_BYTES: u64 = 5 << 20;
    let (mut table, mut dice, mut numbers) = (Table::new(), Dice(3), 0..);
    let cost_max = 24 << 20;
    for value_bytes in [250, 17, 900, 150, 40, 300] {
        fill(&mut table, value_bytes, cost_max, &mut numbers);
        assert!(table.cost() > cost_max - 16_384);
        let memory_bytes = table.memory_bytes() as u64;
        assert!(memory_bytes < cost_max + UNFILLED_BYTES, "{value_bytes}: {memory_bytes} bytes");
        // Removes nine of ten entries at random, so that no block becomes empty.
        for number in (0..numbers.start).filter(|_| dice.below(10) > 0).collect::<Vec<_>>() {
            table.remove(key(number));
        }
        let memory_bytes = table.memory_bytes() as u64;
        assert!(memory_bytes < table.cost() + UNFILLED_BYTES, "{value_bytes}: {memory_bytes} bytes");
    }
}

/// Size of a record's header, in bytes. The value follows it.
const HEADER_BYTES: usize = 24;

#[test]
fn a_value_may_have_any_size_up_to_its_bound() {
    let (mut dice, mut table, mut model) = (Dice(9), Table::new(), TableModel::default());
    let largest = TABLE_ENTRY_BYTES_MAX - HEADER_BYTES;
    for bytes in (0..largest).step_by(61).chain([largest - 1, largest]) {
        let (key, value) = (key(bytes as u64), vec![dice.next_u64() as u8; bytes]);
        table.put(key, &value, EvictionClass::Returning);
        model.put(key, &value, EvictionClass::Returning);
    }
    assert!(model.all().all(|(key, value, _)| table.get(key) == Some(&value)));
    assert!(table.memory_bytes() as u64 <= memory_bytes_max(table.cost()));
    let mut put = || table.put(key(0), &vec![0; largest + 1], EvictionClass::Returning);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut put)).is_err());
}

#[test]
fn the_writer_frees_memory_once_the_retired_bound_is_exceeded() {
    const TIMES: usize = 256;
    let bytes = RETIRED_BYTES / TIMES - HEADER_BYTES;
    let retired_bytes = |more: i64| {
        let (mut table, value) = (Table::new(), vec![1; bytes + 1]);
        table.put(key(0), &value[..(bytes as i64 + more) as usize], EvictionClass::SingleVisit);
        (0..TIMES).for_each(|_| table.put(key(0), &value[..bytes], EvictionClass::SingleVisit));
        table.retired_bytes()
    };
    assert_eq!([-1, 0, 1].map(retired_bytes), [RETIRED_BYTES - 1, RETIRED_BYTES, 0]);
}

#[test]
fn large_values_take_at_most_a_sixth_more_than_their_cost() {
    // These values are just too large for a slot that would fill its block without a remainder.
    for value_bytes in [16_384, 16_900, 25_700] {
        let (mut table, mut numbers) = (Table::new(), 0..);
        fill(&mut table, value_bytes, 64 << 20, &mut numbers);
        let memory_bytes = table.memory_bytes() as u64;
        assert!(memory_bytes < table.cost() / 6 * 7, "{value_bytes}: {memory_bytes} of {}", table.cost());
    }
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
fn a_million_entries_take_less_memory_than_their_cost() {
    const NAME: &str = "visitors_table::a_million_entries_take_less_memory_than_their_cost";
    if times(0, 1) == 0 {
        return;
    }
    // The memory of other tests would be counted, so this test runs in its own process.
    if std::env::var_os("PARALLAX_ALONE").is_none() {
        let program = std::env::current_exe().expect("a program");
        let status =
            std::process::Command::new(program).args(["--exact", NAME]).env("PARALLAX_ALONE", "1").status();
        return assert!(status.expect("the test process runs").success());
    }
    let begun_bytes = resident_bytes();
    let (mut table, mut dice) = (Table::new(), Dice(1));
    let value = vec![1; 600];
    // Visitors are added, grow and are evicted. The cost stays about the same.
    for number in 0..4_000_000 {
        let (number, bytes) = match dice.below(3) {
            0 => (dice.below(number as usize + 1) as u64, 300 + dice.below(300)),
            _ => (number, 100 + dice.below(200)),
        };
        table.put(
            key(number),
            &value[..bytes],
            *dice.pick(&[EvictionClass::SingleVisit, EvictionClass::Returning]),
        );
        while table.len() > 1_000_000 {
            let (key, _) = table.next_victim().expect("no entry is an alias");
            table.remove(key);
        }
        if number % 100_000 == 0 && table.len() == 1_000_000 {
            let resident_bytes = resident_bytes() - begun_bytes;
            assert!(resident_bytes < table.cost(), "{resident_bytes} of {}", table.cost());
        }
    }
    assert_eq!(table.len(), 1_000_000);
}
