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
mod histories;
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
use rules::{OPTIONAL, RULES, Rule};
use world::History;

static IS_TRACED: AtomicBool = AtomicBool::new(false);

/// Seeds of a quick and of a long run.
const SEEDS: u64 = 2_000;
const SEEDS_LONG: u64 = 200_000;

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

/// Runs seeds on all processors until as many as `failures_max` have failed. Returns the counts of the others.
fn run_seeds(range: &Range<u64>, broken: Rule, failures_max: usize) -> (Counts, Vec<(u64, String)>) {
    let next = AtomicU64::new(range.start);
    let results: Mutex<(Counts, Vec<(u64, String)>)> = Mutex::default();
    let run = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= range.end || results.lock().expect("no panic").1.len() >= failures_max {
                return;
            }
            let result = History::new(seed, broken).run();
            let mut results = results.lock().expect("no panic");
            match result {
                Ok(counts) => results.0.add(&counts),
                Err(error) => results.1.push((seed, error)),
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(run));
    });
    let (counts, mut failures) = results.into_inner().expect("no panic");
    failures.sort();
    if let Some((seed, _)) = failures.first() {
        trace_failure(&History::new(*seed, broken));
    }
    (counts, failures)
}

#[test]
fn all_promises_hold_for_every_seed() {
    let range = seeds();
    let (counts, failures) = run_seeds(&range, Rule::None, 20);
    eprintln!("{range:?}: {counts:?}");
    let text: Vec<String> = failures.iter().map(|(seed, error)| format!("seed {seed}: {error}")).collect();
    assert!(failures.is_empty(), "\n{}", text.join("\n"));
}

#[test]
fn no_promise_needs_the_optional_rules() {
    for rule in OPTIONAL {
        let (_, failures) = run_seeds(&seeds(), rule, 1);
        assert!(failures.is_empty(), "{rule:?}: {failures:?}");
    }
}

/// `PARALLAX_MUTANT=NAME` breaks only this rule, in the seeds of `PARALLAX_SEEDS`.
#[test]
fn every_broken_rule_is_noticed() {
    let chosen = std::env::var("PARALLAX_MUTANT").ok();
    let is_chosen = |rule: &Rule| chosen.as_ref().is_none_or(|name| *name == format!("{rule:?}"));
    let mut unnoticed = Vec::new();
    for rule in RULES.into_iter().filter(is_chosen) {
        let history = histories::notices(rule);
        let failures = if history.is_none() { run_seeds(&seeds(), rule, 1).1 } else { Vec::new() };
        eprintln!("{rule:?}: {:?}, history {history:?}", failures.first());
        if history.is_none() && failures.is_empty() {
            unnoticed.push(rule);
        }
    }
    assert!(unnoticed.is_empty(), "no seed notices {unnoticed:?}");
}
