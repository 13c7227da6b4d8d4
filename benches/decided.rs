//! What does deciding for a known visitor cost, and how fast are all known again?
//!
//! `cargo bench --bench decided` writes a log of a million visitors, three events each, starts Parallax over it (one worker, on CPU
//! 0), says how long it read, and then asks with `wrk` (on CPU 1) for the same page by turns decided and forced, each time for
//! another visitor. `PARALLAX_VISITORS` says how many visitors. In test mode there are a few, asked once each.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

#[path = "bench/child.rs"]
mod child;
#[path = "bench/compiled.rs"]
mod compiled;
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
use load::{Load, compare, pinned, say};
use parallax::clock::{SystemClock, now_ms};
use parallax::storage::disk::RealDisk;
use parallax::visitors::log::{
    self, Ack, Kind, Options, Outcome, Port, Record, Records, Request, WriterThread,
};
use site::site;

const VISITORS: usize = 1_000_000;
const FEW: usize = 100;
const EVENTS: usize = 3;
/// Visitors of one request to the log.
const TOGETHER: usize = 1_000;
const HOUR_MS: i64 = 60 * 60 * 1000;
const FORCED: &str = "&variants=hero:de,aside:b";
const AGENT: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0";

const DECIDE: Load =
    Load { connections: 64, rounds: 7, window_seconds: 3, target: "", script: Some(|_| script("")) };
const FORCE: Load = Load { script: Some(|_| script(FORCED)), ..DECIDE };

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let is_measured = words.iter().any(|word| word == "--bench");
    let visitors = if is_measured { visitors() } else { FEW };
    let (data, snapshots) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    std::fs::write(snapshots.path().join("bench.snapshot"), compiled(&site(100), 1)).expect("written");
    write(data.path(), visitors);
    let began = Instant::now();
    let server = serve(data.path(), snapshots.path(), is_measured);
    let (events, took) = (visitors * EVENTS, began.elapsed());
    assert_eq!(server.metric("parallax_visitors"), visitors as u64);
    let decided = page(&server, 7, "");
    assert_eq!(shown(&decided), "aside:b,hero:de");
    let forced = page(&server, 7, FORCED);
    assert_eq!(shown(&forced), "aside:b,hero:de");
    if is_measured {
        println!(
            "{events} events of {visitors} visitors were read in {:.1} s with the start",
            took.as_secs_f64()
        );
        println!("{} MiB are resident", server.metric("process_resident_memory_bytes") >> 20);
        let (costs, _) = compare([(&DECIDE, &server), (&FORCE, &server)]);
        say("GET of a page for a known visitor", decided.len(), ["decided", "forced"], &costs);
    }
}

fn visitors() -> usize {
    std::env::var("PARALLAX_VISITORS").map_or(VISITORS, |text| text.parse().expect("a number of visitors"))
}

/// GETs of the page for one visitor after the other; the arms of the experiment differ, of one page in the same bytes.
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

/// Without the number of its visitor.
fn target(more: &str) -> String {
    format!(
        "/v1/resolve?trackingId=track_bench&route=/page-7&country=SE{more}&anonId=0c9a4e6b-4ed6-4b63-visitor-"
    )
}

fn page(server: &Child, visitor: usize, more: &str) -> Vec<u8> {
    let fields = format!("Host: a\r\nUser-Agent: {AGENT}\r\nAccept-Language: de-DE,de;q=0.9,en;q=0.8\r\n");
    ask(server.address, format!("GET {}{visitor} HTTP/1.1\r\n{fields}", target(more)).as_bytes(), b"")
}

/// The variants that the answer says it shows, but for those of the experiment.
fn shown(answer: &[u8]) -> String {
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

/// A log in which each visitor sees two pages and says a trait.
fn write(folder: &Path, visitors: usize) {
    let options = Options { ack: Ack::Written, ..Options::default() };
    let (clock, nobody) = (Arc::new(SystemClock::new()), Box::new(|_: Records<'_>| ()));
    let (queue, writer, _) = log::open(folder, options, Arc::new(RealDisk), clock, nobody).expect("it opens");
    let worker = std::thread::current();
    let port = queue.port(Arc::new(move || worker.unpark()));
    let thread = WriterThread::spawn(queue, writer).expect("there is a thread");
    for first in (0..visitors).step_by(TOGETHER) {
        let mut request = Request::new(0);
        for visitor in first..(first + TOGETHER).min(visitors) {
            push(&mut request, visitor);
        }
        send(&port, request);
    }
    assert_eq!(thread.stop().expect("no panic").durable_seq, (visitors * EVENTS) as u64);
}

fn push(request: &mut Request, visitor: usize) {
    let (anon_id, now) = (format!("0c9a4e6b-4ed6-4b63-visitor-{visitor}"), now_ms());
    let path = format!("/page-{}", visitor % 100);
    let seen = r#"{"type":"page","properties":{"title":"A page"},"context":{"locale":"de-DE","page":{"url":"https://bench.example/page-1?utm_source=letter"}}}"#;
    let said = format!(
        r#"{{"type":"identify","traits":{{"plan":"p{}","seats":{}}}}}"#,
        5 + visitor % 5,
        visitor % 40
    );
    let page = Record {
        kind: Kind::Page,
        bot: false,
        gpc: false,
        received_ms: now,
        timestamp_ms: now - 2 * HOUR_MS,
        key: 0,
        site: Some("bench"),
        message_id: Some("0f8fad5b-d9cb-469f-a165-70867728950e"),
        anon_id: Some(&anon_id),
        user_id: None,
        event: None,
        name: None,
        path: Some("/page-1"),
        variants: None,
        ip: None,
        payload: seen,
    };
    let other = Record { path: Some(&path), timestamp_ms: now - HOUR_MS, ..page };
    let identify = Record { kind: Kind::Identify, path: None, timestamp_ms: now, payload: &said, ..page };
    for record in [page, other, identify] {
        request.push(&record).expect("it is within all bounds");
    }
}

fn send(port: &Port, request: Request) {
    port.send(request).expect("the queue takes it");
    port.call_writer();
    let completion = loop {
        match port.take() {
            Some(completion) => break completion,
            None => std::thread::park(),
        }
    };
    assert_eq!(completion.outcome, Outcome::Written);
}
