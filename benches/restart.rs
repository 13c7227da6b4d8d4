//! Startup time: reading the log alone, folding all of it, and loading a checkpoint instead.
//!
//! `cargo bench --bench restart [-- EVENTS [EACH]]` writes EVENTS events of about 500 bytes, EACH per visitor
//! (default 2): half pages and half tracks, and one in twenty is an identify. The log is in the system's
//! directory for temporary files, and in the page cache.

#[path = "../tests/it/folded.rs"]
mod folded;

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folded::with_fold_input;
use parallax::testing::clock::{Clock, SystemClock, instant, now_ms};
use parallax::testing::limits::PROFILES_MEMORY_BYTES_DEFAULT;
use parallax::testing::log::{
    Ack, LockedLog, LogClient, LogConsumer, LogId, LogWriter, Options, Records, RecoveryReport, Request,
};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::RealDisk;
use parallax::testing::visitors::checkpoint::CheckpointMetrics;
use parallax::testing::visitors::checkpoint::directory::CheckpointDirectory;
use parallax::testing::visitors::checkpoint::restore::{LogRange, RestoredTable, restore};
use parallax::testing::visitors::checkpoint::scheduler::{self, build_checkpointer};
use parallax::testing::visitors::live::ProfileTable;
use parallax::testing::visitors::store::table::ENTRY_COST;
use parallax::testing::visitors::ties::known::FoldState;

/// Written events. Test mode only checks that the benchmark works, so it writes fewer.
const EVENTS: u64 = 2_000_000;
const EVENTS_TESTED: u64 = 2_000;
const SECRET: [u8; 16] = *b"secret of a test";
const PROFILES_BYTES_MAX: u64 = 4 * PROFILES_MEMORY_BYTES_DEFAULT;
/// Events per request to the log.
const EVENTS_PER_REQUEST: u64 = 500;

fn main() {
    let is_measured = std::env::args().any(|word| word == "--bench");
    let mut named = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let events = named.next().unwrap_or(if is_measured { EVENTS } else { EVENTS_TESTED });
    let visitors = events / named.next().unwrap_or(2);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    write_log(dir, events, visitors);

    let (report, took) = timed(|| open_log(dir, 0, Box::new(|_: Records<'_>| {})).2);
    assert_eq!(report.records, events);
    print_rate("reading the log", events, took);

    let (live, _) = ProfileTable::new(SECRET, PROFILES_BYTES_MAX);
    let kept = Arc::new(Mutex::new(Some(live)));
    let consumer = ProfileConsumer(Arc::clone(&kept));
    let (report, took) = timed(|| open_log(dir, 0, Box::new(consumer)).2);
    assert_eq!(report.records, events);
    print_rate("folding the log", events, took);
    let table = kept.lock().expect("nobody panics").take().expect("it is there").into_table();
    let (entries, cost) = (table.len() as u64, table.cost());
    print_line(&format!("{entries} entries with {} bytes of value each", cost / entries - ENTRY_COST));

    let figures = Arc::<CheckpointMetrics>::default();
    let options = scheduler::Options::new(SECRET, PROFILES_BYTES_MAX, LogId([7; 16]));
    options.stop_ms.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let standing = scheduler::CheckpointState::default();
    let (making, scribe) = build_checkpointer(
        CheckpointDirectory::new(Arc::new(RealDisk), dir),
        options,
        standing,
        Arc::clone(&figures),
    );
    scribe.spawn().expect("a thread");
    let (live, _) = ProfileTable::from_table(table, FoldState::default(), SECRET, PROFILES_BYTES_MAX);
    let mut live = live.with_checkpoints(making);
    let ((), took) = timed(|| live.close(&SystemClock::new(), Some(events)));
    assert_eq!(figures.seq(), events);
    print_rate("writing a checkpoint", entries, took);
    drop(live);

    let (restored, took) = timed(|| {
        let log = LogRange { first: 1, log_id: None };
        restore(&CheckpointDirectory::new(Arc::new(RealDisk), dir), log, PROFILES_BYTES_MAX, &mut |_, _| {})
            .expect("it is sound")
    });
    print_rate("loading a checkpoint", entries, took);
    let RestoredTable { table, seq, .. } = restored;
    assert_eq!((table.len() as u64, table.cost(), seq), (entries, cost, events));
    let (report, took) = timed(|| open_log(dir, seq, Box::new(|_: Records<'_>| {})).2);
    assert_eq!(report.records, 0);
    print_rate("opening the covered log", events, took);
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let began = instant();
    let done = act();
    (done, instant() - began)
}

fn print_rate(what: &str, count: u64, took: Duration) {
    let (took_ms, rate) = (took.as_secs_f64() * 1e3, count as f64 / took.as_secs_f64());
    print_line(&format!("{what:<30} {took_ms:>8.1} ms, {rate:>10.0} per second"));
}

fn print_line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("standard output is open");
}

struct ProfileConsumer(Arc<Mutex<Option<ProfileTable>>>);

impl LogConsumer for ProfileConsumer {
    fn consume(&mut self, records: Records<'_>) {
        self.0.lock().expect("nobody panics").as_mut().expect("it is there").fold(records);
    }
}

fn open_log(
    dir: &Path,
    folded_seq: u64,
    follower: Box<dyn LogConsumer>,
) -> (LogClient, LogWriter, RecoveryReport) {
    let options = Options { ack: Ack::Written, checkpointed_seq: folded_seq, ..Options::default() };
    let held = LockedLog::lock(dir, Arc::new(RealDisk)).expect("no other process has it locked");
    let clock = Arc::new(SystemClock::new()) as Arc<dyn Clock>;
    let (queue, writer, report) = held.open(options, clock, follower).expect("it opens");
    (queue.client(Arc::new(|| {})), writer, report)
}

fn write_log(dir: &Path, events: u64, visitors: u64) {
    let (port, mut writer, _) = open_log(dir, 0, Box::new(|_: Records<'_>| {}));
    let mut request = Request::new(0);
    for event in 1..=events {
        push(&mut request, event, visitors);
        if event % EVENTS_PER_REQUEST == 0 || event == events {
            port.send(std::mem::take(&mut request)).expect("the queue takes it");
            writer.run_once();
            request = port.next_completion().expect("a step answers").request;
            request.clear();
        }
    }
    writer.close();
}

fn push(request: &mut Request, event: u64, visitors: u64) {
    // Scatters the visitors, so that they do not come in the order of the table.
    let visitor = event.wrapping_mul(0x9E37_79B9_7F4A_7C15) % visitors;
    let anon_id = format!("507f191e-810c-4972-9de8-60ea{visitor:08x}");
    let user_id = format!("user-{visitor}@example.com");
    let kind = match event % 40 {
        0 | 20 => RecordKind::Identify,
        even if even % 2 == 0 => RecordKind::Page,
        _ => RecordKind::Track,
    };
    let payload = format!(
        r#"{{"type":"{}","messageId":"ajs-{event:020}","properties":{{"path":"/pricing","url":"https://shop.example/pricing?a=b","title":"Pricing","referrer":"https://shop.example/"}},"traits":{{"plan":"pro"}},"context":{{"locale":"de-DE","page":{{"path":"/pricing"}},"library":{{"name":"analytics.js","version":"2.11.1"}},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}}}"#,
        kind.name()
    );
    let record = Record {
        received_ms: now_ms(),
        timestamp_ms: now_ms() - event as i64 % 100_000,
        key: u128::from(event),
        site: Some("acme"),
        message_id: Some("0f8fad5b-d9cb-469f-a165-70867728950e"),
        anon_id: Some(&anon_id),
        user_id: (kind == RecordKind::Identify).then_some(&user_id),
        event: (kind == RecordKind::Track).then_some("Product Viewed"),
        path: Some(["/pricing", "/", "/docs/start", "/articles/one"][(event / 3 % 4) as usize]),
        payload: &payload,
        ..Record::new(kind)
    };
    with_fold_input(kind, &payload, |fold_input| request.push(&Record { fold_input, ..record }))
        .expect("within all bounds");
}
