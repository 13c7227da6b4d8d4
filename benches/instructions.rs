//! How many user-space instructions does an answer take, from request bytes to response bytes; an event, from body to record; a
//! record, until its profile is changed?
//!
//! `cargo bench --bench instructions` runs each case under `valgrind --tool=callgrind` with two
//! counts of repetitions; the difference is the case alone. It does not depend on the machine's
//! mood. The copy of the body is part of the figures; it is counted alone, too. In test mode each case is done once.
//!
//! `cargo bench --profile gate --bench instructions -- --gate` compares the figures with those of `benches/instructions.txt` and
//! fails where one is more than 3 % greater; `--write` in place of `--gate` writes them anew.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

#[path = "bench/baseline.rs"]
mod baseline;
#[path = "bench/cases.rs"]
mod cases;
#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/content.rs"]
mod content;
#[path = "bench/decoding.rs"]
mod decoding;
#[path = "bench/folding.rs"]
mod folding;
#[path = "bench/served.rs"]
mod served;
#[path = "bench/site.rs"]
mod site;

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use cases::cases;
use compiled::compiled;
use content::site_with_content;
use decoding::{Decoding, EVENT};
use folding::{Folding, SECRET, record};
use parallax::visitors::Counted;
use parallax::visitors::apply::Applier;
use parallax::visitors::live::Live;
use parallax::visitors::log::{Kind, Record};
use parallax::visitors::lookup::Lookup;
use parallax::visitors::store::table::Table;
use served::{Case, Served};

const FEW: usize = 1_000;
const MANY: usize = 3_000;
const DECIDED: &str = "resolve_decided";
/// The same, for a visitor with a history.
const KNOWN: &str = "resolve_known";
/// The copy of its answer alone, which no answer can do without.
const COPY: &str = "copy";
/// As its request names the visitor.
const VISITOR: &str = "0c9a4e6b-visitor";
/// Bytes of a piece of that copy: an answer is copied by pieces, and of a larger one valgrind counts an instruction for each byte, as
/// the C library moves it by `rep movsb`.
const COPIED: usize = 1024;
/// From a body to its record.
const DECODE: &str = "decode";
/// From a page view with a campaign to its profile, which has a touch.
const FOLD_PAGE: &str = "fold_page";
/// From an event to its profile.
const FOLD_TRACK: &str = "fold_track";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    match &words[..] {
        [flag, snapshot, name, count] if flag == "--repeat" => {
            let snapshot = std::fs::read(snapshot).expect("the snapshot");
            repeat(&snapshot, name, count.parse().expect("a count"));
        }
        _ if has("--bench") => {
            let counted = count_all();
            if has("--write") {
                baseline::write(&counted);
            } else if has("--gate") {
                return baseline::hold(&counted);
            }
        }
        _ => {
            let snapshot = compiled(&site_with_content(), 1);
            names().into_iter().for_each(|name| repeat(&snapshot, name, 1));
        }
    }
    ExitCode::SUCCESS
}

fn names() -> Vec<&'static str> {
    cases().iter().map(|case| case.name).chain([KNOWN, COPY, DECODE, FOLD_PAGE, FOLD_TRACK]).collect()
}

/// A request of this name, and a desk to answer it.
fn asked(snapshot: &[u8], name: &str) -> (Case, Served) {
    let (name, visitors) = match name {
        KNOWN => (DECIDED, Some(known())),
        name => (name, None),
    };
    let case = cases().into_iter().find(|case| case.name == name).expect("a case of this name");
    let mut served = Served::new(snapshot, visitors);
    case.assert(served.answer(&case.request));
    (case, served)
}

/// The visitor of the cases, who has seen three pages and done two things.
fn known() -> Lookup {
    let (mut table, mut applier, mut counted) = (Table::new(), Applier::new(SECRET), Counted::default());
    for number in 0..12_usize {
        let kind = if number.is_multiple_of(2) { Kind::Page } else { Kind::Track };
        let record = Record { site: Some("bench"), ..record(kind, VISITOR, number) };
        applier.apply(&mut table, &record, u64::MAX, &mut counted);
    }
    let mut lookup = Live::standing(table, SECRET, u64::MAX).1.lookup();
    assert!(lookup.pin().anonymous("bench", VISITOR).is_some());
    lookup
}

fn repeat(snapshot: &[u8], name: &str, count: usize) {
    match name {
        DECODE => {
            let mut decoding = Decoding::new(EVENT.to_owned());
            (0..count).for_each(|_| assert_eq!(decoding.decode(), (1, EVENT.len())));
        }
        FOLD_PAGE => fold(Kind::Page, count),
        FOLD_TRACK => fold(Kind::Track, count),
        COPY => {
            let (case, mut served) = asked(snapshot, DECIDED);
            let answer = served.answer(&case.request).to_vec();
            let mut out = Vec::with_capacity(answer.len());
            for _ in 0..count {
                out.clear();
                black_box(&answer).chunks(COPIED).for_each(|piece| out.extend_from_slice(piece));
                black_box(&out);
            }
        }
        name => {
            let (case, mut served) = asked(snapshot, name);
            for _ in 0..count {
                black_box(served.answer(black_box(&case.request)).len());
            }
        }
    }
}

fn fold(kind: Kind, count: usize) {
    let mut folding = Folding::new();
    (0..count).for_each(|_| folding.fold(kind, folding.number));
    assert_eq!(folding.counted, Counted::default());
}

fn count_all() -> Vec<(&'static str, u64)> {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = folder.path().join("bench.snapshot");
    std::fs::write(&snapshot, compiled(&site_with_content(), 1)).expect("written");
    println!("{:<24} {:>12}", "case", "instructions");
    let count = |name| {
        let [few, many] = [FEW, MANY].map(|count| instructions(&snapshot, name, count));
        let each = (many - few) / (MANY - FEW) as u64;
        println!("{name:<24} {each:>12}");
        (name, each)
    };
    names().into_iter().map(count).collect()
}

fn instructions(snapshot: &Path, name: &str, count: usize) -> u64 {
    let itself = std::env::current_exe().expect("a program knows itself");
    let run = Command::new("valgrind")
        // An environment of other bytes moves the stack, and some copies go by where they begin.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(itself)
        .args(["--repeat", snapshot.to_str().expect("UTF-8"), name, &count.to_string()])
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let collected = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {said}"))
}
