//! How long a start takes: reading the log alone, folding all of it, and loading a checkpoint in its place.
//!
//! `cargo bench --bench restart [-- EVENTS [EACH]]`: so many events of some 500 bytes, half pages and half tracks with an identify
//! in twenty, so many of each visitor (2). The log is in the system's folder for temporary files, and in its page cache.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax::clock::{Clock, SystemClock, instant, now_ms};
use parallax::limits::PROFILES_MEMORY_BYTES;
use parallax::storage::disk::RealDisk;
use parallax::visitors::checkpoint::Figures;
use parallax::visitors::checkpoint::directory::Folder;
use parallax::visitors::checkpoint::restore::{Reach, Restored, restore};
use parallax::visitors::checkpoint::scheduler::{self, making};
use parallax::visitors::live::Live;
use parallax::visitors::log::{
    Ack, Follower, Held, Kind, Options, Port, Record, Records, Report, Request, Writer,
};
use parallax::visitors::store::table::ENTRY_COST;

/// Events that are written; in test mode, which asks only whether it works, fewer.
const EVENTS: u64 = 2_000_000;
const EVENTS_TESTED: u64 = 2_000;
const SECRET: [u8; 16] = *b"secret of a test";
const BOUND: u64 = 4 * PROFILES_MEMORY_BYTES;
/// Events of one request.
const REQUEST: u64 = 500;

fn main() {
    let is_measured = std::env::args().any(|word| word == "--bench");
    let mut named = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let events = named.next().unwrap_or(if is_measured { EVENTS } else { EVENTS_TESTED });
    let visitors = events / named.next().unwrap_or(2);
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, events, visitors);

    let (report, took) = timed(|| opened(folder, 0, Box::new(|_: Records<'_>| {})).2);
    assert_eq!(report.records, events);
    say("reading the log", events, took);

    let (live, _) = Live::new(SECRET, BOUND);
    let kept = Arc::new(Mutex::new(Some(live)));
    let told = Told(Arc::clone(&kept));
    let (report, took) = timed(|| opened(folder, 0, Box::new(told)).2);
    assert_eq!(report.records, events);
    say("folding the log", events, took);
    let table = kept.lock().expect("nobody panics").take().expect("it is there").into_table();
    let (entries, cost) = (table.len() as u64, table.cost());
    line(&format!("{entries} entries, {} bytes of values each", cost / entries - ENTRY_COST));

    let figures = Arc::<Figures>::default();
    let options = scheduler::Options::new(SECRET, BOUND);
    options.stop_ms.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let standing = scheduler::Standing::default();
    let (making, scribe) =
        making(Folder::new(Arc::new(RealDisk), folder), options, standing, Arc::clone(&figures));
    scribe.spawn().expect("a thread");
    let (live, _) = Live::standing(table, SECRET, BOUND);
    let mut live = live.keeping(making);
    let ((), took) = timed(|| live.close(&SystemClock::new(), Some(events)));
    assert_eq!(figures.seq(), events);
    say("making a checkpoint", entries, took);
    drop(live);

    let (restored, took) = timed(|| {
        let log = Reach { first: 1, last: events };
        restore(&Folder::new(Arc::new(RealDisk), folder), log, BOUND, &mut |_, _| {}).expect("it is sound")
    });
    say("loading a checkpoint", entries, took);
    let Restored { table, seq, .. } = restored;
    assert_eq!((table.len() as u64, table.cost(), seq), (entries, cost, events));
    let (report, took) = timed(|| opened(folder, seq, Box::new(|_: Records<'_>| {})).2);
    assert_eq!(report.records, 0);
    say("what else the log takes then", events, took);
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let began = instant();
    let done = act();
    (done, instant() - began)
}

fn say(what: &str, count: u64, took: Duration) {
    let (took_ms, rate) = (took.as_secs_f64() * 1e3, count as f64 / took.as_secs_f64());
    line(&format!("{what:<30} {took_ms:>8.1} ms, {rate:>10.0} a second"));
}

fn line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("standard output is there");
}

struct Told(Arc<Mutex<Option<Live>>>);

impl Follower for Told {
    fn fold(&mut self, records: Records<'_>) {
        self.0.lock().expect("nobody panics").as_mut().expect("it is there").fold(records);
    }
}

fn opened(folder: &Path, folded_seq: u64, follower: Box<dyn Follower>) -> (Port, Writer, Report) {
    let options = Options { ack: Ack::Written, folded_seq, ..Options::default() };
    let held = Held::hold(folder, Arc::new(RealDisk)).expect("it is nobody else's");
    let clock = Arc::new(SystemClock::new()) as Arc<dyn Clock>;
    let (queue, writer, report) = held.open(options, clock, follower).expect("it opens");
    (queue.port(Arc::new(|| {})), writer, report)
}

fn write(folder: &Path, events: u64, visitors: u64) {
    let (port, mut writer, _) = opened(folder, 0, Box::new(|_: Records<'_>| {}));
    let mut request = Request::new(0);
    for event in 1..=events {
        push(&mut request, event, visitors);
        if event % REQUEST == 0 || event == events {
            port.send(std::mem::take(&mut request)).expect("the queue takes it");
            writer.step();
            request = port.take().expect("a step answers").request;
            request.clear();
        }
    }
    writer.close();
}

fn push(request: &mut Request, event: u64, visitors: u64) {
    // Visitors in an order that no table has.
    let visitor = event.wrapping_mul(0x9E37_79B9_7F4A_7C15) % visitors;
    let anon_id = format!("507f191e-810c-4972-9de8-60ea{visitor:08x}");
    let user_id = format!("user-{visitor}@example.com");
    let kind = match event % 40 {
        0 | 20 => Kind::Identify,
        even if even % 2 == 0 => Kind::Page,
        _ => Kind::Track,
    };
    let payload = format!(
        r#"{{"type":"{}","messageId":"ajs-{event:020}","properties":{{"path":"/pricing","url":"https://shop.example/pricing?a=b","title":"Pricing","referrer":"https://shop.example/"}},"traits":{{"plan":"pro"}},"context":{{"locale":"de-DE","page":{{"path":"/pricing"}},"library":{{"name":"analytics.js","version":"2.11.1"}},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}}}"#,
        kind.name()
    );
    let record = Record {
        kind,
        bot: false,
        gpc: false,
        received_ms: now_ms(),
        timestamp_ms: now_ms() - event as i64 % 100_000,
        key: u128::from(event),
        site: Some("acme"),
        message_id: Some("0f8fad5b-d9cb-469f-a165-70867728950e"),
        anon_id: Some(&anon_id),
        user_id: (kind == Kind::Identify).then_some(&user_id),
        event: (kind == Kind::Track).then_some("Product Viewed"),
        name: None,
        path: Some(["/pricing", "/", "/docs/start", "/articles/one"][(event / 3 % 4) as usize]),
        variants: None,
        ip: None,
        payload: &payload,
    };
    request.push(&record).expect("it is within all bounds");
}
