//! The simulator of a cluster: nodes that follow the rules, on disks and a stream that fail, with a seed.
//!
//! Each seed runs 400 random steps, then everything heals, and the tables of all nodes are compared with each
//! other and with the promises of the receipts. `PARALLAX_LONG=1` runs a million seeds. Each rule is also
//! left out once, and the seeds must notice it.

/// Prints an action of a traced run. `PARALLAX_TRACE=1` traces, best with one seed in `PARALLAX_SEEDS`.
macro_rules! trace {
    ($($arguments:tt)*) => {
        if crate::is_traced() {
            eprintln!($($arguments)*);
        }
    };
}

mod audit;
mod base;
mod disk;
mod erased;
mod event;
mod fold_inputs;
mod formats;
mod histories;
mod members;
mod mutant;
mod node;
mod orders;
mod rules;
mod stream;
mod world;

#[path = "../it/dice.rs"]
mod dice;
#[path = "../it/folded.rs"]
mod folded;

use std::ops::Not;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use mutant::{MUTANTS, Mutant};
use world::{Codec, Summary, World};

/// Seeds of a quick run.
const SEEDS: u64 = 10_000;
const SEEDS_LONG: u64 = 1_000_000;
/// Seeds in which a rule that is left out must be noticed, and seeds that notice the rules which the first ones do not.
const MUTANT_SEEDS: u64 = 3_000;
const RARE_SEEDS: [u64; 6] = [1_574, 1_641, 3_376, 12_663, 27_337, 33_470];
/// Seeds for which a long run counts how many notice each rule.
const COUNTED_SEEDS: u64 = 1_000;

fn is_long() -> bool {
    std::env::var_os("PARALLAX_LONG").is_some_and(|long| long == "1")
}

fn is_traced() -> bool {
    static IS_TRACED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("PARALLAX_TRACE").is_some());
    *IS_TRACED
}

/// Returns the seeds of a run: those of `PARALLAX_SEEDS=FIRST..END`, or all from 1 on.
fn seeds() -> std::ops::Range<u64> {
    let Some(range) = std::env::var_os("PARALLAX_SEEDS") else {
        return 1..1 + if is_long() { SEEDS_LONG } else { SEEDS };
    };
    let range = range.into_string().expect("PARALLAX_SEEDS=FIRST..END");
    let (first, end) = range.split_once("..").expect("PARALLAX_SEEDS=FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

/// Calls `run` for each seed on all processors. Each thread has a codec.
fn for_each_seed(seeds: std::ops::Range<u64>, run: impl Fn(u64, &mut Codec) -> bool + Sync) {
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut codec = Codec::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !run(seed, &mut codec) {
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn all_promises_hold_for_every_seed() {
    let totals = std::sync::Mutex::new((0, Vec::new(), Summary::default()));
    for_each_seed(seeds(), |seed, codec| {
        let result = World::new(seed, Mutant::None, codec).run();
        let mut totals = totals.lock().expect("no panic");
        match result {
            Ok(summary) => {
                totals.0 += 1;
                totals.2.acknowledged += summary.acknowledged;
                totals.2.messages += summary.messages;
                totals.2.new_ids += summary.new_ids;
                totals.2.chain_mismatches += summary.chain_mismatches;
            }
            Err(error) => totals.1.push((seed, error)),
        }
        totals.1.len() < 50
    });
    let (passed, failures, summary) = totals.into_inner().expect("no panic");
    eprintln!("{passed} seeds passed: {summary:?}");
    let text: Vec<String> = failures.iter().map(|(seed, error)| format!("seed {seed}: {error}")).collect();
    assert!(failures.is_empty(), "\n{}", text.join("\n"));
}

/// Returns the broken promise of a seed that notices a mutant. A seed that also fails with all rules shows nothing.
fn notice(mutant: Mutant, seed: u64, codec: &mut Codec) -> Option<String> {
    let run = catch_unwind(AssertUnwindSafe(|| World::new(seed, mutant, codec).run()));
    let error = match run {
        Ok(Ok(_)) => return None,
        Ok(Err(error)) => error,
        Err(_) => "a panic".to_owned(),
    };
    World::new(seed, Mutant::None, codec).run().is_ok().then_some(error)
}

/// Returns whether a run is about a mutant: the one of `PARALLAX_MUTANT`, or each.
fn is_chosen(mutant: &Mutant) -> bool {
    std::env::var("PARALLAX_MUTANT").is_ok_and(|name| name != format!("{mutant:?}")).not()
}

#[test]
fn each_rule_that_is_left_out_is_noticed() {
    let range = if std::env::var_os("PARALLAX_SEEDS").is_some() { seeds() } else { 1..MUTANT_SEEDS + 1 };
    let mut unnoticed = Vec::new();
    for mutant in MUTANTS.into_iter().filter(is_chosen) {
        let found = std::sync::Mutex::new(None);
        let check = |seed: u64, codec: &mut Codec| {
            let error = notice(mutant, seed, codec);
            let mut found = found.lock().expect("no panic");
            if let Some(error) = error {
                *found = Some((seed, error));
            }
            found.is_none()
        };
        let history = histories::noticed_by(mutant);
        let mut codec = Codec::new();
        if history.is_none() && RARE_SEEDS.iter().all(|seed| check(*seed, &mut codec)) {
            for_each_seed(range.clone(), check);
        }
        let found = found.into_inner().expect("no panic");
        eprintln!("{mutant:?}: {found:?}, history {history:?}");
        if found.is_none() && history.is_none() {
            unnoticed.push(mutant);
        }
    }
    assert!(unnoticed.is_empty(), "no seed and no history notices {unnoticed:?}");
}

/// Counts the seeds that notice each rule. The counts belong in `src/cluster/README.md`.
#[test]
fn many_seeds_notice_most_rules_in_a_long_run() {
    if !is_long() {
        return;
    }
    for mutant in MUTANTS {
        let count = AtomicU64::new(0);
        for_each_seed(1..COUNTED_SEEDS + 1, |seed, codec| {
            count.fetch_add(u64::from(notice(mutant, seed, codec).is_some()), Ordering::Relaxed);
            true
        });
        eprintln!("{mutant:?}: {} of {COUNTED_SEEDS} seeds", count.into_inner());
    }
}
