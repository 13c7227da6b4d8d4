//! Models of the table of visitors: a few operations of the writer beside a few lookups.
//!
//! `cargo test -p models` runs each model many times with real threads. Under `--cfg loom`, loom runs each model in
//! every order of the threads' operations, with up to two preemptions, and with every value that the
//! memory model allows a load to return. Under Miri, each access is checked for data races and freed memory.
//! CONTRIBUTING.md has the commands.
//!
//! This is a package of its own that compiles the sources of the table, which include those of its threads, and no other part
//! of the server. So loom and Miri need not compile the dependencies of the server.

#[path = "../../src/parallel.rs"]
#[allow(dead_code, reason = "the models load no table")]
mod parallel;
#[path = "../../src/threads.rs"]
#[allow(dead_code, reason = "the models start their own threads")]
mod threads;

#[path = "../../src/visitors/store/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the models use a part of the table")]
mod store;

#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::thread;

use store::table::{EvictionClass, Key, PinnedReader, Table, TableReader};

/// Runs a model in every order.
#[cfg(loom)]
fn check(model: impl Fn() + Send + Sync + 'static) {
    /// Number of times that loom interrupts a thread that could continue. Each more multiplies the number of orders.
    const PREEMPTIONS_MAX: usize = 2;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS_MAX);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Runs a model with real threads. Under Miri once: `-Zmiri-many-seeds` repeats the run.
#[cfg(not(loom))]
fn check(model: impl Fn()) {
    (0..if cfg!(miri) { 1 } else { 50 }).for_each(|_| model());
}

/// Returns a key of the first shard.
fn key(number: u64) -> Key {
    Key([number, number << 58])
}

fn put(table: &mut Table, number: u64, version: u8, bytes: usize) {
    table.put(key(number), &vec![version; bytes], EvictionClass::Returning);
}

/// Returns the version of a value. Panics if the value is of two versions.
fn version(value: &[u8]) -> u8 {
    assert!(value.iter().all(|byte| *byte == value[0]), "the value is of two versions");
    value[0]
}

/// Looks up a key twice with one pin. Panics if the first value changes while it is pinned. Returns both versions.
fn look_twice(pinned: &PinnedReader<'_>, number: u64) -> [Option<u8>; 2] {
    let first = pinned.get(key(number));
    let before = first.map(version);
    let second = pinned.get(key(number)).map(version);
    assert_eq!(first.map(version), before, "a pinned value changed");
    [before, second]
}

/// Runs `write` beside a thread that runs `read`.
fn beside(
    mut table: Table,
    write: impl FnOnce(&mut Table),
    read: impl FnOnce(&mut TableReader) + Send + 'static,
) {
    let mut reader = table.readers().reader();
    let thread = thread::spawn(move || read(&mut reader));
    write(&mut table);
    drop(table);
    thread.join().expect("the reader found no mistake");
}

#[test]
fn a_pinned_value_does_not_change_while_it_is_replaced() {
    check(|| {
        let mut table = Table::new();
        put(&mut table, 1, 0, 40);
        let write = |table: &mut Table| (1..4).for_each(|turn| put(table, 1, turn, 40));
        beside(table, write, |reader| {
            let versions = look_twice(&reader.pin(), 1);
            assert!(versions.is_sorted() && versions[0].is_some(), "{versions:?}");
        });
    });
}

#[test]
fn a_later_pin_sees_no_earlier_version() {
    check(|| {
        let mut table = Table::new();
        put(&mut table, 1, 0, 40);
        let write = |table: &mut Table| (1..3).for_each(|turn| put(table, 1, turn, 40));
        beside(table, write, |reader| {
            let versions = [0, 1].map(|_| reader.pin().get(key(1)).map(version));
            assert!(versions.is_sorted() && versions[0].is_some(), "{versions:?}");
        });
    });
}

#[test]
fn the_slot_of_a_removed_entry_gets_another_key_only_after_its_readers() {
    check(|| {
        let mut table = Table::new();
        put(&mut table, 1, 1, 40);
        let write = |table: &mut Table| {
            table.remove(key(1));
            put(table, 2, 2, 40);
        };
        beside(table, write, |reader| {
            let pinned = reader.pin();
            let versions = look_twice(&pinned, 1);
            let [first, second] = versions.map(|version| version.unwrap_or(0));
            assert!(first >= second && first <= 1, "{versions:?}");
            assert!(matches!(pinned.get(key(2)).map(version), None | Some(2)));
        });
    });
}

#[test]
fn an_entry_is_found_while_its_index_grows() {
    check(|| {
        let mut table = Table::new();
        (0..6).for_each(|number| put(&mut table, number, 1, 40));
        let write = |table: &mut Table| (6..8).for_each(|number| put(table, number, 1, 40));
        beside(table, write, |reader| {
            let pinned = reader.pin();
            assert_eq!([0, 5].map(|number| pinned.get(key(number)).map(version)), [Some(1), Some(1)]);
        });
    });
}

#[test]
fn an_entry_is_found_while_its_index_shrinks() {
    check(|| {
        let mut table = Table::new();
        (0..13).for_each(|number| put(&mut table, number, 1, 40));
        (5..13).for_each(|number| table.remove(key(number)));
        let write = |table: &mut Table| (3..5).for_each(|number| table.remove(key(number)));
        beside(table, write, |reader| {
            let pinned = reader.pin();
            assert_eq!([0, 2].map(|number| pinned.get(key(number)).map(version)), [Some(1), Some(1)]);
        });
    });
}

#[test]
fn an_entry_is_found_while_its_record_is_moved() {
    check(|| {
        // Five blocks of 8 slots. With more than 18 free slots the allocator evacuates the emptiest block, which
        // holds entry 1 alone.
        let mut table = Table::new();
        (0..40).for_each(|number| put(&mut table, number, number as u8, 30_000));
        let is_removed = |number: &u64| if *number < 8 { *number != 1 } else { number % 8 < 3 };
        (0..34).filter(is_removed).for_each(|number| table.remove(key(number)));
        beside(
            table,
            |table| table.remove(key(34)),
            |reader| assert_eq!(look_twice(&reader.pin(), 1), [Some(1), Some(1)]),
        );
    });
}

/// The loader has threads of the standard library, which loom does not know. Miri checks their accesses.
#[cfg(not(loom))]
#[test]
fn several_threads_load_a_table_that_a_reader_sees_whole() {
    check(|| {
        let mut loader = store::bulk::BulkLoader::new(0);
        let numbers = || (0..20_u64).map(|number| number << 63 | number);
        numbers().for_each(|number| loader.put(key(number), &[1; 40], EvictionClass::Returning));
        let table = loader.finish().expect("each key is there once");
        beside(
            table,
            |table| put(table, 1, 2, 40),
            move |reader| {
                let pinned = reader.pin();
                let found = numbers().filter_map(|number| pinned.get(key(number)).map(version));
                assert!(found.count() == 20);
            },
        );
    });
}

#[test]
fn a_reader_may_register_and_end_while_the_writer_frees_memory() {
    check(|| {
        let mut table = Table::new();
        put(&mut table, 1, 0, 40);
        let readers = table.readers();
        let thread = thread::spawn(move || look_twice(&readers.reader().pin(), 1));
        (1..3).for_each(|turn| put(&mut table, 1, turn, 40));
        let versions = thread.join().expect("the reader found no mistake");
        assert!(versions.is_sorted() && versions[0].is_some(), "{versions:?}");
    });
}

#[test]
fn memory_is_freed_beside_two_readers() {
    check(|| {
        let mut table = Table::new();
        put(&mut table, 1, 0, 40);
        let threads = [(); 2].map(|()| {
            let mut reader = table.readers().reader();
            thread::spawn(move || look_twice(&reader.pin(), 1))
        });
        put(&mut table, 1, 1, 40);
        for thread in threads {
            thread.join().expect("the reader found no mistake");
        }
        put(&mut table, 1, 2, 40);
        assert_eq!(table.retired_bytes() > 0, !cfg!(any(loom, miri)), "no reader is left");
    });
}
