//! Memory of a visitor of 250 bytes, and the time of a look-up and of a change: our table against papaya's
//! map.
//!
//! `cargo bench --bench table`. `PARALLAX_LONG=1` adds 10 million visitors. Each measurement runs in its own
//! process, so that memory of one is not counted for another. A reader pins for each look-up, as for each
//! request. papaya does less than the table: it keeps no eviction order, takes no copy as of one moment, and
//! may free memory on a reader's thread.

#![expect(clippy::print_stdout, reason = "it prints its result")]

#[allow(dead_code, reason = "tests use more of it")]
#[path = "../tests/it/dice.rs"]
mod dice;

use std::hash::{BuildHasherDefault, Hasher};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dice::Dice;
use parallax::testing::clock::instant;
use parallax::testing::visitors::store::table::{EvictionClass, Key, Table, TableReader};

const VALUE_BYTES: usize = 250;
const LOOKS: u64 = 2_000_000;
/// Look-ups in test mode, which only checks that the benchmark works.
const LOOKS_TESTED: u64 = 2_000;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let Some(at) = words.iter().position(|word| word == "--one") {
        let entries = words[at + 2].parse().expect("a number of entries");
        print!("{entries:>8} {:<6}", words[at + 1]);
        return match &*words[at + 1] {
            "table" => measure::<OwnTable>(entries),
            _ => measure::<Papaya>(entries),
        };
    }
    let is_long = std::env::var_os("PARALLAX_LONG").is_some_and(|value| value == "1");
    let sizes: &[u64] = match words.iter().any(|word| word == "--bench") {
        false => &[LOOKS_TESTED],
        true if is_long => &[1_000_000, 10_000_000],
        true => &[1_000_000],
    };
    for entries in sizes {
        for candidate in ["table", "papaya", "table", "papaya"] {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            let status = command.args(["--one", candidate, &entries.to_string()]).status();
            assert!(status.expect("it runs").success(), "{candidate}");
        }
    }
}

/// A map with one writer.
trait Candidate: Send {
    type Reader: LookUp + Send;

    fn new() -> Self;
    fn reader(&self) -> Self::Reader;
    fn put(&mut self, key: Key, value: &[u8]);
    /// Returns an upper bound of the entries' memory, or `u64::MAX` if the map does not tell.
    fn bytes_max(&self) -> u64;
}

/// The reading side of a map.
trait LookUp {
    /// Returns the first byte of a value.
    fn first_byte(&mut self, key: Key) -> Option<u8>;
}

struct OwnTable(Table);

impl Candidate for OwnTable {
    type Reader = TableReader;

    fn new() -> Self {
        Self(Table::new())
    }

    fn reader(&self) -> TableReader {
        self.0.readers().reader()
    }

    fn put(&mut self, key: Key, value: &[u8]) {
        self.0.put(key, value, EvictionClass::Returning);
    }

    fn bytes_max(&self) -> u64 {
        // Started and unfilled blocks of the slab: one for each of a few sizes.
        self.0.cost() + (8 << 20)
    }
}

impl LookUp for TableReader {
    fn first_byte(&mut self, key: Key) -> Option<u8> {
        self.pin().get(key).map(|value| value[0])
    }
}

/// A hasher that uses the key unchanged, because the key is a hash already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct HashedKey([u64; 2]);

impl std::hash::Hash for HashedKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0[0]);
    }
}

impl PartialEq for HashedKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for HashedKey {}

type Map = papaya::HashMap<HashedKey, Box<[u8]>, BuildHasherDefault<IdentityHasher>>;

struct Papaya(Arc<Map>);

impl Candidate for Papaya {
    type Reader = Arc<Map>;

    fn new() -> Self {
        Self(Arc::new(Map::default()))
    }

    fn reader(&self) -> Arc<Map> {
        self.0.clone()
    }

    fn put(&mut self, key: Key, value: &[u8]) {
        self.0.pin().insert(HashedKey(key.0), value.into());
    }

    fn bytes_max(&self) -> u64 {
        u64::MAX
    }
}

impl LookUp for Arc<Map> {
    fn first_byte(&mut self, key: Key) -> Option<u8> {
        self.pin().get(&HashedKey(key.0)).map(|value| value[0])
    }
}

fn key(number: u64) -> Key {
    let mut dice = Dice(number);
    Key([dice.next_u64(), dice.next_u64()])
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// Returns the mean nanoseconds of each of `times` calls.
fn each_ns(times: u64, mut act: impl FnMut(u64)) -> u64 {
    let began = instant();
    (0..times).for_each(&mut act);
    (instant() - began).as_nanos() as u64 / times.max(1)
}

fn measure<C: Candidate>(entries: u64) {
    let looks = if entries == LOOKS_TESTED { LOOKS_TESTED } else { LOOKS };
    let begun_bytes = resident_bytes();
    let (mut candidate, mut dice) = (C::new(), Dice(1));
    let (value, mut longest_ns) = ([1; VALUE_BYTES], 0);
    let insert_ns = each_ns(entries, |number| {
        let began = instant();
        candidate.put(key(number), &value);
        longest_ns = longest_ns.max((instant() - began).as_nanos());
    });
    let resident_bytes = resident_bytes() - begun_bytes;
    assert!(resident_bytes < candidate.bytes_max(), "{resident_bytes} bytes are resident");
    let mut reader = candidate.reader();
    let mut hit = |dice: &mut Dice| assert_eq!(reader.first_byte(key(dice.next_u64() % entries)), Some(1));
    let hit_ns = each_ns(looks, |_| hit(&mut dice));
    let replace_ns = each_ns(looks, |_| candidate.put(key(dice.next_u64() % entries), &value));
    let is_over = AtomicBool::new(false);
    let (busy_hit_ns, busy_replace_ns) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let (mut dice, mut written, began) = (Dice(2), 0, instant());
            while !is_over.load(Ordering::Relaxed) {
                candidate.put(key(dice.next_u64() % entries), &value);
                written += 1;
            }
            (instant() - began).as_nanos() as u64 / written.max(1)
        });
        let hit_ns = each_ns(looks, |_| hit(&mut dice));
        is_over.store(true, Ordering::Relaxed);
        (hit_ns, writing.join().expect("it ends"))
    });
    let miss_ns = each_ns(looks, |_| assert_eq!(reader.first_byte(key(dice.next_u64() | 1 << 63)), None));
    println!(
        " {:>4} B resident per entry; insert {insert_ns} ns (longest {} us), replace {replace_ns}, hit {hit_ns}, miss {miss_ns}; \
         concurrently hit {busy_hit_ns}, replace {busy_replace_ns}",
        resident_bytes / entries,
        longest_ns / 1000,
    );
}
