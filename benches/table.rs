//! What a visitor of 250 bytes takes in memory, and how long a look at one and a change of one take: the table beside papaya's map.
//!
//! `cargo bench --bench table`, with `PARALLAX_LONG=1` of 10 million visitors too. Each is measured in a process of its own, so that
//! nothing that one held is counted for another. A reader pins for each look, as for each request. papaya keeps no order of
//! eviction, takes no copy as of one moment, and may free on a reader's thread; the table does what the server needs.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

#[allow(dead_code, reason = "tests use more of it")]
#[path = "../tests/it/dice.rs"]
mod dice;

use std::hash::{BuildHasherDefault, Hasher};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dice::Dice;
use parallax::clock::instant;
use parallax::visitors::store::table::{Key, Rank, Reader, Table};

const VALUE_BYTES: usize = 250;
const LOOKS: u64 = 2_000_000;
/// In test mode, which asks only whether it works.
const TESTED: u64 = 2_000;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let Some(at) = words.iter().position(|word| word == "--one") {
        let entries = words[at + 2].parse().expect("a number of entries");
        print!("{entries:>8} {:<6}", words[at + 1]);
        return match &*words[at + 1] {
            "table" => measure::<Own>(entries),
            _ => measure::<Papaya>(entries),
        };
    }
    let is_long = std::env::var_os("PARALLAX_LONG").is_some_and(|value| value == "1");
    let sizes: &[u64] = match words.iter().any(|word| word == "--bench") {
        false => &[TESTED],
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
    type Reader: Look + Send;

    fn new() -> Self;
    fn reader(&self) -> Self::Reader;
    fn put(&mut self, key: Key, value: &[u8]);
    /// What entries may take, if it says so.
    fn bytes_max(&self) -> u64;
}

/// A reader's part.
trait Look {
    /// The first byte of a value.
    fn first_byte(&mut self, key: Key) -> Option<u8>;
}

struct Own(Table);

impl Candidate for Own {
    type Reader = Reader;

    fn new() -> Self {
        Self(Table::new())
    }

    fn reader(&self) -> Reader {
        self.0.readers().reader()
    }

    fn put(&mut self, key: Key, value: &[u8]) {
        self.0.put(key, value, Rank::Known);
    }

    fn bytes_max(&self) -> u64 {
        // What sizes have begun and not filled: a block for each of few.
        self.0.cost() + (8 << 20)
    }
}

impl Look for Reader {
    fn first_byte(&mut self, key: Key) -> Option<u8> {
        self.pin().get(key).map(|value| value[0])
    }
}

/// The key is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Hashed([u64; 2]);

impl std::hash::Hash for Hashed {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0[0]);
    }
}

impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Hashed {}

type Map = papaya::HashMap<Hashed, Box<[u8]>, BuildHasherDefault<AsItIs>>;

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
        self.0.pin().insert(Hashed(key.0), value.into());
    }

    fn bytes_max(&self) -> u64 {
        u64::MAX
    }
}

impl Look for Arc<Map> {
    fn first_byte(&mut self, key: Key) -> Option<u8> {
        self.pin().get(&Hashed(key.0)).map(|value| value[0])
    }
}

fn key(number: u64) -> Key {
    let mut dice = Dice(number);
    Key([dice.number(), dice.number()])
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// Nanoseconds that each of `times` took.
fn each_ns(times: u64, mut act: impl FnMut(u64)) -> u64 {
    let began = instant();
    (0..times).for_each(&mut act);
    (instant() - began).as_nanos() as u64 / times.max(1)
}

fn measure<C: Candidate>(entries: u64) {
    let looks = if entries == TESTED { TESTED } else { LOOKS };
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
    let mut hit = |dice: &mut Dice| assert_eq!(reader.first_byte(key(dice.number() % entries)), Some(1));
    let hit_ns = each_ns(looks, |_| hit(&mut dice));
    let replace_ns = each_ns(looks, |_| candidate.put(key(dice.number() % entries), &value));
    let is_over = AtomicBool::new(false);
    let (busy_hit_ns, busy_replace_ns) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let (mut dice, mut written, began) = (Dice(2), 0, instant());
            while !is_over.load(Ordering::Relaxed) {
                candidate.put(key(dice.number() % entries), &value);
                written += 1;
            }
            (instant() - began).as_nanos() as u64 / written.max(1)
        });
        let hit_ns = each_ns(looks, |_| hit(&mut dice));
        is_over.store(true, Ordering::Relaxed);
        (hit_ns, writing.join().expect("it ends"))
    });
    let miss_ns = each_ns(looks, |_| assert_eq!(reader.first_byte(key(dice.number() | 1 << 63)), None));
    println!(
        " {:>4} B resident an entry; insert {insert_ns} ns (longest {} us), replace {replace_ns}, hit {hit_ns}, miss {miss_ns}; \
         at the same time hit {busy_hit_ns}, replace {busy_replace_ns}",
        resident_bytes / entries,
        longest_ns / 1000,
    );
}
