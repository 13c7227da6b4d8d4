//! CPU time of deciding a page for a known visitor, and the time a restart needs to rebuild the profiles.
//!
//! `cargo bench --bench decided` writes a log of a million visitors with three events each and starts
//! Parallax on it, with one worker on CPU 0. It prints how long the replay took. Then `wrk` on CPU 1 requests
//! the same page, by turns decided and forced, each time for another visitor. `PARALLAX_VISITORS` sets the
//! number of visitors. Test mode uses 100 visitors and sends one request of each kind.

#![expect(clippy::print_stdout, reason = "it prints its result")]

#[path = "bench/child.rs"]
mod child;
#[path = "bench/compiled.rs"]
mod compiled;
#[path = "../tests/it/folded.rs"]
mod folded;
#[path = "bench/load.rs"]
mod load;
#[path = "bench/site.rs"]
mod site;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use child::{Child, ask};
use compiled::compiled;
use folded::with_fold_input;
use load::{Load, compare, pinned, print_comparison};
use parallax::testing::clock::{SystemClock, now_ms};
use parallax::testing::log::{self, Ack, LogClient, Options, Records, Request, WriteOutcome, WriterThread};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::RealDisk;
use site::site;

const VISITORS: usize = 1_000_000;
const VISITORS_TESTED: usize = 100;
const EVENTS_PER_VISITOR: usize = 3;
/// Visitors per request to the log.
const VISITORS_PER_REQUEST: usize = 1_000;
const HOUR_MS: i64 = 60 * 60 * 1000;
const FORCED: &str = "&variants=hero:de,aside:b";
const AGENT: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0";

const DECIDE: Load =
    Load { connections: 64, rounds: 7, window_seconds: 3, target: "", script: Some(|_| script("")) };
const FORCE: Load = Load { script: Some(|_| script(FORCED)), ..DECIDE };

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let is_measured = words.iter().any(|word| word == "--bench");
    let visitors = if is_measured { visitors() } else { VISITORS_TESTED };
    let (data, snapshots) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    std::fs::write(snapshots.path().join("bench.snapshot"), compiled(&site(100), 1)).expect("written");
    write_log(data.path(), visitors);
    let began = Instant::now();
    let server = serve(data.path(), snapshots.path(), is_measured);
    let (events, took) = (visitors * EVENTS_PER_VISITOR, began.elapsed());
    assert_eq!(server.metric("parallax_visitors"), visitors as u64);
    let decided = page(&server, 7, "");
    assert_eq!(selected_variants(&decided), "aside:b,hero:de");
    let forced = page(&server, 7, FORCED);
    assert_eq!(selected_variants(&forced), "aside:b,hero:de");
    if is_measured {
        println!(
            "replayed {events} events of {visitors} visitors in {:.1} s, startup included",
            took.as_secs_f64()
        );
        println!("{} MiB resident", server.metric("process_resident_memory_bytes") >> 20);
        let (costs, _) = compare([(&DECIDE, &server), (&FORCE, &server)]);
        print_comparison("GET of a page for a known visitor", decided.len(), ["decided", "forced"], &costs);
    }
}

fn visitors() -> usize {
    std::env::var("PARALLAX_VISITORS").map_or(VISITORS, |text| text.parse().expect("a number of visitors"))
}

/// Returns a wrk script that requests the page for one visitor after the other. The visitors differ only in
/// the arm of the experiment; all visitors of one arm get the same bytes.
fn script(more: &str) -> String {
    let visitors = visitors();
    format!(
        "wrk.headers['User-Agent'] = '{AGENT}'\nwrk.headers['Accept-Language'] = 'de-DE,de;q=0.9,en;q=0.8'\n\
         local n = 0\n\
         function request()\n\
           n = (n + 7919) % {visitors}\n\
           return wrk.format('GET', '{}' .. n .. '{more}')\n\
         end\n",
        target("")
    )
}

/// Returns the request target without the visitor's number at its end.
fn target(more: &str) -> String {
    format!(
        "/v1/resolve?trackingId=track_bench&route=/page-7&country=SE{more}&anonId=0c9a4e6b-4ed6-4b63-visitor-"
    )
}

fn page(server: &Child, visitor: usize, more: &str) -> Vec<u8> {
    let fields = format!("Host: a\r\nUser-Agent: {AGENT}\r\nAccept-Language: de-DE,de;q=0.9,en;q=0.8\r\n");
    ask(server.address, format!("GET {}{visitor} HTTP/1.1\r\n{fields}", target(more)).as_bytes(), b"")
}

/// Returns the variants in the response's `X-Variants`, without those of the experiment.
fn selected_variants(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let variants =
        text.split("X-Variants: ").nth(1).and_then(|rest| rest.split('\r').next()).expect("a header");
    variants.split(',').filter(|pair| !pair.starts_with("foot:")).collect::<Vec<_>>().join(",")
}

fn serve(data: &Path, snapshots: &Path, is_pinned: bool) -> Child {
    let program = env!("CARGO_BIN_EXE_parallax");
    let mut command = if is_pinned { pinned(0, program) } else { Command::new(program) };
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--profiles-memory", "4294967296"]);
    command.arg("--data").arg(data).arg("--snapshots").arg(snapshots);
    Child::start(&mut command, "serving")
}

/// Writes a log in which each visitor views two pages and sets a trait.
fn write_log(dir: &Path, visitors: usize) {
    let options = Options { ack: Ack::Written, ..Options::default() };
    let (clock, nobody) = (Arc::new(SystemClock::new()), Box::new(|_: Records<'_>| ()));
    let (queue, writer, _) = log::open(dir, options, Arc::new(RealDisk), clock, nobody).expect("it opens");
    let worker = std::thread::current();
    let port = queue.client(Arc::new(move || worker.unpark()));
    let thread = WriterThread::spawn(queue, writer).expect("there is a thread");
    for first in (0..visitors).step_by(VISITORS_PER_REQUEST) {
        let mut request = Request::new(0);
        for visitor in first..(first + VISITORS_PER_REQUEST).min(visitors) {
            push(&mut request, visitor);
        }
        send(&port, request);
    }
    assert_eq!(thread.stop().expect("no panic").durable_seq, (visitors * EVENTS_PER_VISITOR) as u64);
}

fn push(request: &mut Request, visitor: usize) {
    let (anon_id, now) = (format!("0c9a4e6b-4ed6-4b63-visitor-{visitor}"), now_ms());
    let path = format!("/page-{}", visitor % 100);
    let seen = r#"{"type":"page","properties":{"title":"A page"},"context":{"locale":"de-DE","page":{"url":"https://bench.example/page-1?utm_source=letter"}}}"#;
    let traits = format!(
        r#"{{"type":"identify","traits":{{"plan":"p{}","seats":{}}}}}"#,
        5 + visitor % 5,
        visitor % 40
    );
    let page = Record {
        received_ms: now,
        timestamp_ms: now - 2 * HOUR_MS,
        site: Some("bench"),
        message_id: Some("0f8fad5b-d9cb-469f-a165-70867728950e"),
        anon_id: Some(&anon_id),
        path: Some("/page-1"),
        payload: seen,
        ..Record::new(RecordKind::Page)
    };
    let other = Record { path: Some(&path), timestamp_ms: now - HOUR_MS, ..page };
    let identify =
        Record { kind: RecordKind::Identify, path: None, timestamp_ms: now, payload: &traits, ..page };
    for record in [page, other, identify] {
        with_fold_input(record.kind, record.payload, |fold_input| {
            request.push(&Record { fold_input, ..record })
        })
        .expect("within all bounds");
    }
}

fn send(port: &LogClient, request: Request) {
    port.send(request).expect("the queue takes it");
    port.notify_writer();
    let completion = loop {
        match port.next_completion() {
            Some(completion) => break completion,
            None => std::thread::park(),
        }
    };
    assert_eq!(completion.outcome, WriteOutcome::Written);
}
