//! User-space instructions of a response (from request bytes to response bytes), of an event (from body to
//! record, and from request bytes to the acknowledgement of its durable record) and of a record (until its profile
//! is changed, and in the recovery of a log).
//!
//! `cargo bench --bench instructions` runs each case under `valgrind --tool=callgrind` with two counts of
//! repetitions. The difference is the cost of the case alone, and it does not depend on the load of the
//! machine. The figures include the copy of the body, which also has a case of its own. Test mode runs each
//! case once.
//!
//! `cargo bench --profile gate --bench instructions -- --gate` compares the figures with
//! `benches/instructions.txt` and fails if one is more than 3 % greater. `--write` instead of `--gate` writes
//! that file.

#![expect(clippy::print_stdout, reason = "it prints its result")]

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
#[path = "bench/event.rs"]
mod event;
#[path = "../tests/it/folded.rs"]
mod folded;
#[path = "bench/folding.rs"]
mod folding;
#[path = "bench/posting.rs"]
mod posting;
#[path = "bench/recovery.rs"]
mod recovery;
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
use decoding::{DecodeBench, EVENT};
use folding::{FoldBench, PAGE_EVENT, SECRET, record};
use parallax::testing::events::endpoint::EventEndpoint;
use parallax::testing::record::{IdKind, Record, RecordKind};
use parallax::testing::visitors::apply::ProfileUpdater;
use parallax::testing::visitors::live::ProfileTable;
use parallax::testing::visitors::lookup::ProfileReader;
use parallax::testing::visitors::profile::FoldCounts;
use parallax::testing::visitors::store::table::Table;
use parallax::testing::visitors::ties::known::FoldState;
use posting::PostBench;
use recovery::{RECORDS, RecoveryBench};
use served::{Case, TestHandler};

const REPETITIONS_LOW: usize = 1_000;
const REPETITIONS_HIGH: usize = 3_000;
const DECIDED: &str = "resolve_decided";
/// The same request, for a visitor with a history.
const KNOWN: &str = "resolve_known";
/// The same, with a header section that the server does not remember.
const KNOWN_PARSED: &str = "resolve_known_parsed";
const DECIDED_GZIP: &str = "resolve_decided_gzip";
const KNOWN_GZIP: &str = "resolve_known_gzip";
/// The copy of that response alone, which every response needs.
const COPY: &str = "copy";
/// Anonymous ID of the visitor in the requests.
const VISITOR: &str = "0c9a4e6b-visitor";
/// Bytes per copy. The server copies a response in pieces, too. For larger copies the C library uses
/// `rep movsb`, which valgrind counts as one instruction per byte.
const COPY_CHUNK_BYTES: usize = 1024;
/// From a body to its record.
const DECODE: &str = "decode";
/// From the body of a page view with a campaign to its record.
const DECODE_PAGE: &str = "decode_page";
/// From a page view with a campaign to its profile, which has a touch.
const FOLD_PAGE: &str = "fold_page";
/// From an event to its profile.
const FOLD_TRACK: &str = "fold_track";
/// From changes of traits to the profile.
const FOLD_PROFILE: &str = "fold_profile";
/// From the bytes of a POST to the response that acknowledges its durable record.
const POST: &str = "post";
/// From a record in a log to its profile, at the start of a server. Includes a thousandth of an empty table.
const RECOVER: &str = "recover";

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
                return baseline::compare(&counted);
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
    let others =
        [KNOWN, KNOWN_PARSED, KNOWN_GZIP, COPY, DECODE, DECODE_PAGE, FOLD_PAGE, FOLD_TRACK, FOLD_PROFILE];
    cases().iter().map(|case| case.name).chain(others).chain([POST, RECOVER]).collect()
}

/// Returns the case of this name, and a handler for its request. Asserts the response.
fn prepare(snapshot: &[u8], name: &str) -> (Case, TestHandler) {
    let remembers = name != KNOWN_PARSED;
    let (name, visitors) = match name {
        KNOWN | KNOWN_PARSED => (DECIDED, Some(known_visitor())),
        KNOWN_GZIP => (DECIDED_GZIP, Some(known_visitor())),
        name => (name, None),
    };
    let case = cases().into_iter().find(|case| case.name == name).expect("a case of this name");
    let mut served = TestHandler::new(snapshot, visitors);
    served.remembers = remembers;
    case.assert(served.answer(&case.request));
    (case, served)
}

/// Returns a reader of a table that has the visitor of the cases, with three viewed pages and two other
/// events.
fn known_visitor() -> ProfileReader {
    let (mut table, mut applier, mut counted) =
        (Table::new(), ProfileUpdater::new(SECRET), FoldCounts::default());
    for number in 0..12_usize {
        let kind = if number.is_multiple_of(2) { RecordKind::Page } else { RecordKind::Track };
        let record = Record { site: Some("bench"), ..record(kind, VISITOR, number) };
        applier.apply(&mut table, &record, u64::MAX, &mut counted);
    }
    let mut lookup = ProfileTable::from_table(table, FoldState::default(), SECRET, u64::MAX).1.reader();
    assert!(lookup.pin().find("bench", IdKind::Anon, VISITOR).is_some());
    lookup
}

fn repeat(snapshot: &[u8], name: &str, count: usize) {
    match name {
        DECODE => decode(EVENT, EventEndpoint::Track, count),
        DECODE_PAGE => decode(PAGE_EVENT, EventEndpoint::Page, count),
        FOLD_PAGE => fold(RecordKind::Page, count),
        FOLD_TRACK => fold(RecordKind::Track, count),
        FOLD_PROFILE => fold(RecordKind::Profile, count),
        POST => {
            let mut posting = PostBench::new(snapshot);
            (0..count).for_each(|_| assert!(posting.post().starts_with(b"HTTP/1.1 200 OK\r\n")));
        }
        RECOVER => {
            let recovery = RecoveryBench::new();
            (0..count.div_ceil(RECORDS)).for_each(|_| assert_eq!(recovery.recover(), RECORDS as u64));
        }
        COPY => {
            let (case, mut served) = prepare(snapshot, DECIDED);
            let answer = served.answer(&case.request).to_vec();
            let mut out = Vec::with_capacity(answer.len());
            for _ in 0..count {
                out.clear();
                black_box(&answer).chunks(COPY_CHUNK_BYTES).for_each(|piece| out.extend_from_slice(piece));
                black_box(&out);
            }
        }
        name => {
            let (case, mut served) = prepare(snapshot, name);
            for _ in 0..count {
                black_box(served.answer(black_box(&case.request)).len());
            }
        }
    }
}

fn decode(body: &str, endpoint: EventEndpoint, count: usize) {
    let mut decoding = DecodeBench::new(body.to_owned(), endpoint);
    (0..count).for_each(|_| assert_eq!(decoding.decode(), (1, body.len())));
}

fn fold(kind: RecordKind, count: usize) {
    let mut folding = FoldBench::new();
    (0..count).for_each(|_| folding.fold(kind, folding.number));
    assert_eq!(folding.counted, FoldCounts::default());
}

fn count_all() -> Vec<(&'static str, u64)> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let snapshot = dir.path().join("bench.snapshot");
    std::fs::write(&snapshot, compiled(&site_with_content(), 1)).expect("written");
    println!("{:<24} {:>12}", "case", "instructions");
    let count = |name| {
        let [few, many] =
            [REPETITIONS_LOW, REPETITIONS_HIGH].map(|count| instructions(&snapshot, name, count));
        let each = (many - few) / (REPETITIONS_HIGH - REPETITIONS_LOW) as u64;
        println!("{name:<24} {each:>12}");
        (name, each)
    };
    names().into_iter().map(count).collect()
}

fn instructions(snapshot: &Path, name: &str, count: usize) -> u64 {
    let itself = std::env::current_exe().expect("the path of this program");
    let run = Command::new("valgrind")
        // An environment of another size moves the stack, and some copies choose their method by alignment.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // A recovery has two threads. Without these two settings their order decides which of them waits, and which memory
        // `calloc` has to clear, because glibc raises this threshold after each large free. The count then varies by 5 %.
        .env("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"])
        .arg(itself)
        .args(["--repeat", snapshot.to_str().expect("UTF-8"), name, &count.to_string()])
        .output()
        .expect("valgrind is installed");
    let output = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{output}");
    let collected = output.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {output}"))
}
