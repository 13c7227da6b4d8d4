//! The table of visitors, against a map and a list that are obvious; its copies; and its readers, beside a writer that does not wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parallax::limits::{COPY_HELD_BYTES_MAX, RECORD_BYTES_MAX, RETIRED_BYTES};
use parallax::visitors::store::table::{ENTRY_COST, Key, Rank, Reader, Table, memory_bytes_max};

use super::dice::Dice;
use super::harness::times;

const RANKS: [Rank; 3] = [Rank::Alias, Rank::Once, Rank::Known];

/// An entry as it was put: key, value, rank.
type Entry = (Key, Vec<u8>, Rank);

/// What the table should hold: entries by key, and keys in the order of their last put.
#[derive(Default)]
struct Obvious {
    entries: BTreeMap<[u64; 2], (Vec<u8>, Rank, u64)>,
    order: BTreeMap<u64, Key>,
    puts: u64,
}

impl Obvious {
    fn put(&mut self, key: Key, value: &[u8], rank: Rank) {
        self.remove(key);
        self.entries.insert(key.0, (value.to_vec(), rank, self.puts));
        self.order.insert(self.puts, key);
        self.puts += 1;
    }

    fn remove(&mut self, key: Key) {
        if let Some((.., put)) = self.entries.remove(&key.0) {
            self.order.remove(&put);
        }
    }

    /// All of it, in the order of their last put.
    fn all(&self) -> impl Iterator<Item = Entry> {
        let entry = |key: &Key| (*key, self.entries[&key.0].0.clone(), self.entries[&key.0].1);
        self.order.values().map(entry)
    }

    fn first_to_go(&self) -> Option<(Key, Vec<u8>)> {
        let oldest = |rank| self.all().find(|entry| entry.2 == rank);
        oldest(Rank::Once).or_else(|| oldest(Rank::Known)).map(|(key, value, _)| (key, value))
    }

    fn cost(&self) -> u64 {
        self.entries.values().map(|(value, ..)| ENTRY_COST + value.len() as u64).sum()
    }
}

/// Keys that crowd: few shards, and within them few homes.
fn crowded(dice: &mut Dice, keys: usize) -> Key {
    let key = dice.below(keys) as u64;
    Key([(key % 2) << 63 | key, (key % 5) << 61])
}

/// A key like those of visitors.
fn key(number: u64) -> Key {
    let mut dice = Dice(number);
    Key([dice.number(), dice.number()])
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let bytes = match dice.below(10) {
        0 => 0,
        1 => dice.below(17_000),
        2..4 => 17,
        _ => dice.below(400),
    };
    let first = dice.byte();
    (0..bytes).map(|at| first.wrapping_add(at as u8)).collect()
}

/// What one more slice of the copy hands out; whether it was the last.
fn slice(table: &mut Table, entries: usize, copied: &mut Vec<(u64, Entry)>) -> bool {
    table.copy_some(entries, &mut |key, value, rank, place| copied.push((place, (key, value.to_vec(), rank))))
}

/// A copy in the order of its places.
fn in_order(mut copied: Vec<(u64, Entry)>) -> Vec<Entry> {
    copied.sort_by_key(|(place, _)| *place);
    copied.into_iter().map(|(_, entry)| entry).collect()
}

fn agree(table: &Table, obvious: &Obvious, reader: &mut Reader, key: Key) {
    let expected = obvious.entries.get(&key.0).map(|(value, ..)| value.as_slice());
    assert_eq!(table.get(key), expected);
    assert_eq!(reader.pin().get(key), expected);
    assert_eq!(table.first_to_go().map(|(key, value)| (key, value.to_vec())), obvious.first_to_go());
    assert_eq!((table.len(), table.is_empty()), (obvious.entries.len(), obvious.entries.is_empty()));
    assert_eq!(table.cost(), obvious.cost());
}

#[test]
fn the_table_holds_what_an_obvious_one_holds_and_copies_are_of_one_moment() {
    for seed in 0..times(12, 400) {
        let mut dice = Dice(seed as u64);
        let keys = *dice.of(&[3, 40, 300]);
        let (mut table, mut obvious) = (Table::new(), Obvious::default());
        let mut reader = table.readers().reader();
        let mut copy = None;
        for _ in 0..1_500 {
            let key = crowded(&mut dice, keys);
            match dice.below(20) {
                0..10 => {
                    let (value, rank) = (value(&mut dice), *dice.of(&RANKS));
                    table.put(key, &value, rank);
                    obvious.put(key, &value, rank);
                }
                10..15 => {
                    table.remove(key);
                    obvious.remove(key);
                }
                15 if copy.is_none() || dice.below(20) == 0 => {
                    table.begin_copy();
                    copy = Some((obvious.all().collect::<Vec<_>>(), Vec::new()));
                }
                _ => {
                    let Some((moment, mut copied)) = copy.take() else { continue };
                    match slice(&mut table, dice.below(12), &mut copied) {
                        true => assert_eq!(in_order(copied), moment, "seed {seed}"),
                        false => copy = Some((moment, copied)),
                    }
                    assert!(!table.copy_failed());
                }
            }
            agree(&table, &obvious, &mut reader, key);
        }
    }
}

#[test]
fn what_is_moved_to_save_memory_stays_what_it_is() {
    let (mut dice, mut table, mut obvious) = (Dice(5), Table::new(), Obvious::default());
    let mut reader = table.readers().reader();
    let keys = 40_000;
    for (round, bytes) in [150, 300, 600].into_iter().enumerate() {
        for _ in 0..keys {
            let (key, rank) = (key(dice.below(keys) as u64), *dice.of(&RANKS));
            let value = vec![dice.byte(); bytes];
            table.put(key, &value, rank);
            obvious.put(key, &value, rank);
        }
        let full_bytes = table.memory_bytes();
        let (moment, mut copied): (Vec<_>, _) = (obvious.all().collect(), Vec::new());
        table.begin_copy();
        let mut some = |all: usize, of: usize| -> Vec<u64> {
            (0..keys as u64).filter(|_| dice.below(all) < of).collect()
        };
        for number in some(8, 6) {
            slice(&mut table, 1, &mut copied);
            table.remove(key(number));
            obvious.remove(key(number));
        }
        assert!(slice(&mut table, usize::MAX, &mut copied), "it was still under way");
        assert_eq!(in_order(copied), moment);
        for number in some(8, 5) {
            table.remove(key(number));
            obvious.remove(key(number));
        }
        assert!(table.memory_bytes() < full_bytes / 3 * 2, "round {round}: nothing was moved");
        (0..keys as u64).for_each(|number| {
            let expected = obvious.entries.get(&key(number).0).map(|(value, ..)| value.as_slice());
            assert_eq!(reader.pin().get(key(number)), expected);
        });
        agree(&table, &obvious, &mut reader, key(0));
    }
    for rank in [Rank::Once, Rank::Known] {
        for (key, value, _) in obvious.all().filter(|entry| entry.2 == rank) {
            assert_eq!(table.first_to_go(), Some((key, &*value)));
            table.remove(key);
        }
    }
    assert_eq!(table.first_to_go(), None);
}

#[test]
fn a_copy_that_is_put_in_the_order_of_its_places_goes_in_the_same_order() {
    let (mut dice, mut table, mut copied) = (Dice(7), Table::new(), Vec::new());
    for _ in 0..2_000 {
        table.put(key(dice.below(900) as u64), &value(&mut dice), *dice.of(&RANKS));
    }
    table.begin_copy();
    assert!(slice(&mut table, usize::MAX, &mut copied));
    let mut restored = Table::new();
    in_order(copied).iter().for_each(|(key, value, rank)| restored.put(*key, value, *rank));
    while let Some((key, value)) = table.first_to_go() {
        assert_eq!(restored.first_to_go(), Some((key, value)));
        table.remove(key);
        restored.remove(key);
    }
    assert_eq!(restored.first_to_go(), None);
    assert!(!table.is_empty(), "aliases never go by themselves");
    assert_eq!(restored.len(), table.len());
}

#[test]
fn a_slice_looks_at_no_more_entries_than_it_was_told_to() {
    let (mut table, mut copied) = (Table::new(), Vec::new());
    (0..10).for_each(|number| table.put(key(number), b"v", Rank::Once));
    table.begin_copy();
    table.remove(key(9));
    assert!(!slice(&mut table, 4, &mut copied));
    assert_eq!(copied.len(), 4);
    assert!(!slice(&mut table, 0, &mut copied));
    assert!(!slice(&mut table, 7, &mut copied), "one was held, and its node passed over");
    assert_eq!(copied.len(), 10);
    assert!(slice(&mut table, 1, &mut copied));
    assert!(!slice(&mut table, 1, &mut copied), "there is no copy any more");
    assert_eq!(copied.len(), 10);
}

/// What is held costs the bound and so many bytes more.
fn copy_failed_at(more: i64) -> bool {
    const ENTRIES: u64 = 4096;
    let bytes = COPY_HELD_BYTES_MAX / ENTRIES as usize - ENTRY_COST as usize;
    let (mut table, mut copied) = (Table::new(), Vec::new());
    let value = vec![1; bytes + 1];
    (1..ENTRIES).for_each(|number| table.put(key(number), &value[..bytes], Rank::Once));
    table.put(key(0), &value[..(bytes as i64 + more) as usize], Rank::Once);
    table.begin_copy();
    for number in 0..ENTRIES {
        assert!(!table.copy_failed());
        match number % 2 {
            0 => table.put(key(number), b"", Rank::Once),
            _ => table.remove(key(number)),
        }
    }
    let failed = table.copy_failed();
    assert_eq!(slice(&mut table, usize::MAX, &mut copied), !failed);
    assert_eq!(copied.len(), if failed { 0 } else { ENTRIES as usize });
    table.begin_copy();
    assert!(!table.copy_failed(), "the next one begins anew");
    failed
}

#[test]
fn a_copy_that_holds_more_than_its_bound_is_given_up() {
    assert_eq!([-1, 0, 1].map(copy_failed_at), [false, false, true]);
}

#[test]
fn what_a_reader_found_stays_while_it_is_pinned_and_is_freed_afterwards() {
    let mut table = Table::new();
    let (mut early, mut late) = (table.readers().reader(), table.readers().clone().reader());
    let value = |turn: u64| vec![turn as u8; 1000];
    let turns = 20 * RETIRED_BYTES as u64 / 1000;
    table.put(key(0), &value(0), Rank::Once);
    let pinned = early.pin();
    let found = pinned.get(key(0)).expect("it was put");
    for turn in 1..turns {
        table.put(key(0), &value(turn), Rank::Once);
        assert_eq!(late.pin().get(key(0)), Some(&*value(turn)), "others see the new one at once");
    }
    assert_eq!(found, value(0));
    assert!(table.retired_bytes() > 19 * RETIRED_BYTES, "a pin keeps what was replaced since");
    drop(pinned);
    for turn in 0..turns {
        table.put(key(0), &value(turn), Rank::Once);
    }
    assert!(table.retired_bytes() < 3 * RETIRED_BYTES, "{} bytes", table.retired_bytes());
    drop((early, late));
    (0..turns).for_each(|number| table.put(key(number), &value(number), Rank::Once));
    (0..turns).for_each(|number| table.remove(key(number)));
    assert!(table.retired_bytes() < 3 * RETIRED_BYTES, "{} bytes", table.retired_bytes());
}

#[test]
fn readers_see_what_was_there_last_when_the_writer_has_gone() {
    let mut table = Table::new();
    (0..1000).for_each(|number| table.put(key(number), &number.to_le_bytes(), Rank::Known));
    let mut reader = table.readers().reader();
    drop(table);
    let pinned = reader.pin();
    assert!((0..1000).all(|number| pinned.get(key(number)) == Some(&number.to_le_bytes())));
}

/// A value that says whose it is, and which: a length and bytes that follow from both.
fn told(number: u64, turn: u64) -> Vec<u8> {
    let mut dice = Dice(number << 32 | turn);
    let bytes = if dice.below(50) == 0 { dice.below(16_000) } else { *dice.of(&[17, 100, 300]) };
    let mut value = [number.to_le_bytes(), turn.to_le_bytes()].concat();
    value.extend((0..bytes).map(|at| (turn as u8).wrapping_add(at as u8)));
    value
}

/// Reads as long as the writer writes; how many values were found.
fn read(reader: &mut Reader, keys: u64, seed: u64, is_over: &AtomicBool) -> u64 {
    let (mut dice, mut found) = (Dice(seed), 0);
    while !is_over.load(Ordering::Relaxed) {
        let pinned = reader.pin();
        let some: Vec<(u64, &[u8])> = (0..8)
            .map(|_| dice.below(keys as usize) as u64)
            .filter_map(|number| Some((number, pinned.get(key(number))?)))
            .collect();
        // Looked at when the writer may have replaced them.
        for (number, value) in some {
            let turn = u64::from_le_bytes(value[8..16].try_into().expect("eight"));
            assert_eq!(value, told(number, turn), "a value of another, or half a value");
            found += 1;
        }
        // What is never replaced is always found.
        let constant = keys + dice.below(100) as u64;
        assert_eq!(pinned.get(key(constant)), Some(&*told(constant, 0)), "a table that grows loses nothing");
    }
    found
}

#[test]
fn readers_see_whole_values_under_a_writer_that_replaces_removes_and_grows() {
    let keys = 30_000;
    let mut table = Table::new();
    (keys..keys + 100).for_each(|number| table.put(key(number), &told(number, 0), Rank::Known));
    let is_over = AtomicBool::new(false);
    let readers = table.readers();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|seed| {
                let (mut reader, is_over) = (readers.reader(), &is_over);
                scope.spawn(move || read(&mut reader, keys, seed, is_over))
            })
            .collect();
        let mut dice = Dice(77);
        for turn in 0..times(160_000, 20_000_000) as u64 {
            let number = dice.below(keys as usize) as u64;
            // By turns most come and most go, so that records are moved.
            let goes = 2 + turn / 40_000 % 2 * 5;
            match dice.below(10) as u64 {
                sign if sign < goes => table.remove(key(number)),
                _ => table.put(key(number), &told(number, turn), Rank::Known),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let found: u64 = threads.into_iter().map(|thread| thread.join().expect("it saw nothing wrong")).sum();
        assert!(found > 0);
    });
}

/// Fills a table with values of so many bytes up to a cost.
fn fill(table: &mut Table, value_bytes: usize, cost_max: u64, numbers: &mut std::ops::RangeFrom<u64>) {
    let value = vec![1; value_bytes];
    while table.cost() + ENTRY_COST + value_bytes as u64 <= cost_max {
        table.put(key(numbers.next().expect("no end")), &value, Rank::Known);
    }
}

#[test]
fn memory_stays_under_what_entries_cost_whatever_sizes_they_had_before() {
    // What sizes have begun and not filled, and the shards' heads.
    const BEGUN_BYTES: u64 = 5 << 20;
    let (mut table, mut dice, mut numbers) = (Table::new(), Dice(3), 0..);
    let cost_max = 24 << 20;
    for value_bytes in [250, 17, 900, 150, 40, 300] {
        fill(&mut table, value_bytes, cost_max, &mut numbers);
        assert!(table.cost() > cost_max - 16_384);
        let memory_bytes = table.memory_bytes() as u64;
        assert!(memory_bytes < cost_max + BEGUN_BYTES, "{value_bytes}: {memory_bytes} bytes");
        // Most go, by chance, so that none of their blocks is without a record.
        for number in (0..numbers.start).filter(|_| dice.below(10) > 0).collect::<Vec<_>>() {
            table.remove(key(number));
        }
        let memory_bytes = table.memory_bytes() as u64;
        assert!(memory_bytes < table.cost() + BEGUN_BYTES, "{value_bytes}: {memory_bytes} bytes");
    }
}

/// What stands in a record before the value.
const HEAD_BYTES: usize = 24;

#[test]
fn a_value_may_have_any_size_up_to_its_bound() {
    let (mut dice, mut table, mut obvious) = (Dice(9), Table::new(), Obvious::default());
    let largest = RECORD_BYTES_MAX - HEAD_BYTES;
    for bytes in (0..largest).step_by(61).chain([largest - 1, largest]) {
        let (key, value) = (key(bytes as u64), vec![dice.byte(); bytes]);
        table.put(key, &value, Rank::Known);
        obvious.put(key, &value, Rank::Known);
    }
    assert!(obvious.all().all(|(key, value, _)| table.get(key) == Some(&value)));
    assert!(table.memory_bytes() as u64 <= memory_bytes_max(table.cost()));
    let mut put = || table.put(key(0), &vec![0; largest + 1], Rank::Known);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut put)).is_err());
}

#[test]
fn the_writer_looks_at_its_readers_once_more_than_so_much_was_replaced() {
    const TIMES: usize = 256;
    let bytes = RETIRED_BYTES / TIMES - HEAD_BYTES;
    let retired_bytes = |more: i64| {
        let (mut table, value) = (Table::new(), vec![1; bytes + 1]);
        table.put(key(0), &value[..(bytes as i64 + more) as usize], Rank::Once);
        (0..TIMES).for_each(|_| table.put(key(0), &value[..bytes], Rank::Once));
        table.retired_bytes()
    };
    assert_eq!([-1, 0, 1].map(retired_bytes), [RETIRED_BYTES - 1, RETIRED_BYTES, 0]);
}

#[test]
fn large_values_take_no_more_than_a_sixth_beyond_their_cost() {
    // Just too large for the slot that would leave nothing in a block.
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
fn a_million_entries_are_resident_in_less_than_they_cost() {
    const NAME: &str = "visitors_table::a_million_entries_are_resident_in_less_than_they_cost";
    if times(0, 1) == 0 {
        return;
    }
    // Other tests would be counted in: a process of its own.
    if std::env::var_os("PARALLAX_ALONE").is_none() {
        let program = std::env::current_exe().expect("a program");
        let status =
            std::process::Command::new(program).args(["--exact", NAME]).env("PARALLAX_ALONE", "1").status();
        return assert!(status.expect("it runs").success());
    }
    let begun_bytes = resident_bytes();
    let (mut table, mut dice) = (Table::new(), Dice(1));
    let value = vec![1; 600];
    // Visitors come, some come again and have more to their name, others go: the cost stays.
    for number in 0..4_000_000 {
        let (number, bytes) = match dice.below(3) {
            0 => (dice.below(number as usize + 1) as u64, 300 + dice.below(300)),
            _ => (number, 100 + dice.below(200)),
        };
        table.put(key(number), &value[..bytes], *dice.of(&[Rank::Once, Rank::Known]));
        while table.len() > 1_000_000 {
            let (key, _) = table.first_to_go().expect("none is an alias");
            table.remove(key);
        }
        if number % 100_000 == 0 && table.len() == 1_000_000 {
            let resident_bytes = resident_bytes() - begun_bytes;
            assert!(resident_bytes < table.cost(), "{resident_bytes} of {}", table.cost());
        }
    }
    assert_eq!(table.len(), 1_000_000);
}
