//! A model of the rules for a lost end of the stream: nodes with logs, outboxes and checkpoints, and a stream that loses its last
//! messages. `README.md` has the rules and the histories that broke earlier ones.
//!
//! Each seed is a history of up to 300 steps, after which everything heals. `PARALLAX_LONG=1` runs 200,000 seeds, and
//! `PARALLAX_SEEDS=FIRST..END` runs these. Each rule is also broken once, and a seed must notice it. `PARALLAX_TRACE=1` prints the
//! shortened history of each failure.
#![cfg(not(any(loom, miri)))]

/// Prints an action of a traced run.
macro_rules! trace {
    ($($arguments:tt)*) => {
        if crate::IS_TRACED.load(std::sync::atomic::Ordering::Relaxed) {
            eprintln!($($arguments)*);
        }
    };
}

mod audit;
#[path = "../../it/dice.rs"]
mod dice;
mod disk;
mod facts;
mod node;
mod record;
mod rules;
mod state;
mod stream;
mod world;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use facts::Counts;
use rules::{RULES, Rule};
use world::History;

static IS_TRACED: AtomicBool = AtomicBool::new(false);

/// Seeds of a quick and of a long run, and those in which each broken rule must be noticed.
const SEEDS: u64 = 2_000;
const SEEDS_LONG: u64 = 200_000;
const BROKEN_SEEDS: u64 = 2_000;

/// Returns the seeds of a run: those of `PARALLAX_SEEDS=FIRST..END`, or all from 1 on.
fn seeds() -> Range<u64> {
    let Some(range) = std::env::var_os("PARALLAX_SEEDS") else {
        let is_long = std::env::var_os("PARALLAX_LONG").is_some_and(|long| long == "1");
        return 1..1 + if is_long { SEEDS_LONG } else { SEEDS };
    };
    let range = range.into_string().expect("PARALLAX_SEEDS=FIRST..END");
    let (first, end) = range.split_once("..").expect("PARALLAX_SEEDS=FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

/// Prints a shortened history if traces are on.
fn trace_failure(history: &History) {
    if std::env::var_os("PARALLAX_TRACE").is_some() {
        let shortened = history.shortened();
        IS_TRACED.store(true, Ordering::Relaxed);
        let error = shortened.run();
        IS_TRACED.store(false, Ordering::Relaxed);
        eprintln!("{} steps, {:?}: {error:?}", shortened.steps.len(), shortened.rules);
    }
}

#[test]
fn all_promises_hold_for_every_seed() {
    let (range, next) = (seeds(), AtomicU64::new(seeds().start));
    let results: Mutex<(Counts, Vec<(u64, String)>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= range.end || results.lock().expect("no panic").1.len() >= 20 {
                        return;
                    }
                    let history = History::new(seed, Rule::None);
                    let result = history.run();
                    let mut results = results.lock().expect("no panic");
                    match result {
                        Ok(counts) => results.0.add(&counts),
                        Err(error) => {
                            if results.1.is_empty() {
                                trace_failure(&history);
                            }
                            results.1.push((seed, error));
                        }
                    }
                }
            });
        }
    });
    let (counts, failures) = results.into_inner().expect("no panic");
    eprintln!("{range:?}: {counts:?}");
    let text: Vec<String> = failures.iter().map(|(seed, error)| format!("seed {seed}: {error}")).collect();
    assert!(failures.is_empty(), "\n{}", text.join("\n"));
}

#[test]
fn every_broken_rule_is_noticed() {
    let chosen = std::env::var("PARALLAX_MUTANT").ok();
    let is_chosen = |rule: &Rule| chosen.as_ref().is_none_or(|name| *name == format!("{rule:?}"));
    let mut unnoticed = Vec::new();
    for rule in RULES.into_iter().filter(is_chosen) {
        let found = (1..=BROKEN_SEEDS).find_map(|seed| {
            let history = History::new(seed, rule);
            let error = history.run().err()?;
            trace_failure(&history);
            Some((seed, error))
        });
        eprintln!("{rule:?}: {found:?}");
        if found.is_none() {
            unnoticed.push(rule);
        }
    }
    assert!(unnoticed.is_empty(), "no seed notices {unnoticed:?}");
}
