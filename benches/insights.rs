//! The questions of Insights over generated column files, in CPU time of the thread that answers.
//!
//! `cargo bench --bench insights [-- EVENTS [VISITORS [minimal]]]` generates column files of 100,000 events each, on 30
//! days, and asks each question cold, then again after some events of the tail. `minimal` events are pages without
//! texts beside the path. The files are in the system's directory for temporary files, and in the page cache.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parallax::testing::insights::{
    Answer, AnswerCache, ColumnBuilder, Columns, CountedLog, Limits, LogColumns, Query, Question, SiteFacts,
    Subject, VisitorKey, Zone, answer_cached,
};
use parallax::testing::record::{Device, FoldInputBuilder, Record, RecordContext, RecordKind, UserAgentInfo};
use parallax::testing::storage::disk::{Disk, RealDisk};
use serde_json::Value;

/// Generated events. Test mode only checks that the benchmark works, so it writes fewer.
const EVENTS: u64 = 3_000_000;
const EVENTS_TESTED: u64 = 5_000;
const EVENTS_PER_FILE: u64 = 100_000;
/// Events of the tail, and events that arrive before the warm question.
const TAIL: u64 = 20_000;
const ARRIVED: u64 = 200;
const DAYS: i64 = 30;
const DAY_MS: i64 = 86_400_000;
const NOW_MS: i64 = 1_767_571_200_000 + DAY_MS / 2;
const KEY: VisitorKey = VisitorKey([7; 16]);
/// The default of --insights-memory.
const MEMORY_BYTES: u64 = 128 << 20;
const GROUPS: [&str; 12] = [
    "page", "entry", "exit", "referrer", "source", "campaign", "country", "language", "device", "os",
    "browser", "event",
];

fn main() {
    let is_measured = std::env::args().any(|word| word == "--bench");
    let mut named = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let events = named.next().unwrap_or(if is_measured { EVENTS } else { EVENTS_TESTED });
    let visitors = named.next().unwrap_or(events / 18);
    let is_minimal = std::env::args().any(|word| word == "minimal");
    let generator = Generator { events, visitors, is_minimal };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (files, built_us) = cpu_us(|| generator.write_files(dir.path()));
    let file_bytes: u64 = std::fs::read_dir(dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").metadata().expect("metadata").len())
        .sum();
    print_line(&format!("{events} events of {visitors} visitors in {} files", files.len()));
    print_line(&format!(
        "building: {:.2} us an event with its generation, {:.1} bytes a row",
        built_us / events as f64,
        file_bytes as f64 / events as f64
    ));
    let tail_events = TAIL.min(events / 10);
    let sealed: Vec<&Columns> = files.iter().collect();
    let total = ask_and_print(&sealed, &generator, tail_events, &overview());
    assert_eq!(total, events + tail_events + ARRIVED.min(tail_events));
    for group in GROUPS.into_iter().filter(|_| !is_minimal) {
        ask_and_print(&sealed, &generator, tail_events, &top(group));
    }
    print_line(&format!("largest resident memory: {} MiB", peak_memory_kib() >> 10));
}

/// Asks cold, lets events arrive, and asks again. Returns the views and events of the warm answer.
fn ask_and_print(sealed: &[&Columns], generator: &Generator, tail_events: u64, query: &Query) -> u64 {
    let site = SiteFacts::unpublished("acme");
    let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &|| false };
    let mut cache = AnswerCache::default();
    let mut ask = |tail_events: u64| {
        let tail = generator.tail(tail_events);
        let files = LogColumns { sealed, tail: Some(&tail) };
        cpu_us(|| {
            answer_cached(files, &mut cache, CountedLog::alone(0), query, &site, NOW_MS, &limits)
                .expect("an answer")
        })
    };
    let (_, cold_us) = ask(tail_events);
    let (answer, warm_us) = ask(tail_events + ARRIVED.min(tail_events));
    print_line(&format!(
        "{:<10} {:>8.1} ms cold, {:>6.1} ms warm",
        name(query),
        cold_us / 1e3,
        warm_us / 1e3
    ));
    counted(&answer)
}

fn counted(answer: &Answer) -> u64 {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    number(&answer.document["totals"]["views"]) + number(&answer.document["totals"]["events"])
}

fn name(query: &Query) -> String {
    match query {
        Query::Views(question) if question.subject == Subject::Overview => "overview".to_owned(),
        Query::Views(question) => format!("{:?}", question.of).to_lowercase(),
        _ => String::new(),
    }
}

fn overview() -> Query {
    Query::Views(Question::parse(Subject::Overview, std::iter::empty(), &Zone::utc(), NOW_MS).expect("valid"))
}

fn top(group: &str) -> Query {
    let pairs = [("of", group)].into_iter();
    Query::Views(Question::parse(Subject::Top, pairs, &Zone::utc(), NOW_MS).expect("valid"))
}

/// A generator of events.
struct Generator {
    events: u64,
    visitors: u64,
    is_minimal: bool,
}

impl Generator {
    fn write_files(&self, dir: &Path) -> Vec<Columns> {
        let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
        let starts = (0..self.events).step_by(EVENTS_PER_FILE as usize);
        let write = |start: u64| {
            let end = (start + EVENTS_PER_FILE).min(self.events);
            let (first_seq, path) = (start + 1, dir.join(format!("{start}.columns")));
            let mut builder = ColumnBuilder::new(first_seq, KEY);
            (start..end).for_each(|event| self.add(&mut builder, event));
            std::fs::write(&path, builder.to_bytes(end)).expect("written");
            Columns::open(&disk, &path, first_seq, end, KEY).expect("an intact file")
        };
        starts.map(write).collect()
    }

    fn tail(&self, events: u64) -> Columns {
        let mut builder = ColumnBuilder::new(self.events + 1, KEY);
        (self.events..self.events + events).for_each(|event| self.add(&mut builder, event));
        Columns::from_bytes(builder.to_bytes(self.events + events)).expect("intact columns")
    }

    fn add(&self, builder: &mut ColumnBuilder, event: u64) {
        let dice = event.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let dice = dice ^ dice >> 32;
        let dice = dice.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        // Visits of four events, of which the visitors are spread over the time.
        let visitor = (event / 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.visitors.max(1);
        let age_ms = DAYS * DAY_MS * (self.events.saturating_sub(event)) as i64 / self.events.max(1) as i64;
        let time_ms = (NOW_MS - age_ms.min(29 * DAY_MS) - (event % 4) as i64 * 1000).min(NOW_MS);
        let anon_id = format!("{visitor:032x}");
        let path = format!("/p/{}", dice % 977 % (1 + dice / 977 % 977));
        let mut record = Record {
            received_ms: time_ms,
            timestamp_ms: time_ms,
            site: Some("acme"),
            anon_id: Some(&anon_id),
            path: Some(&path),
            ..Record::new(RecordKind::Page)
        };
        if self.is_minimal {
            return builder.add(&record);
        }
        let mut fold_input = FoldInputBuilder::default();
        let referrer = format!("https://host-{}.example/", dice >> 20 & 63);
        if dice >> 8 & 3 == 0 {
            let source = (dice >> 10 & 3 == 0).then_some("news");
            fold_input.add_touch([source, None, source, None, None, Some(&referrer)]);
        }
        record.fold_input = fold_input.finish();
        record.variants = Some(["hero:x", "hero:default", "cta:b,hero:y", ""][(dice >> 30 & 3) as usize]);
        record.experiments = Some(["cta:b", "cta:default"][(visitor & 1) as usize]);
        let device = [Device::Desktop, Device::Mobile, Device::Tablet][(visitor % 3) as usize];
        let agent = UserAgentInfo { device, ..UserAgentInfo::default() };
        record.context = RecordContext::new(agent, None, None);
        if dice >> 40 & 3 == 0 {
            record.kind = RecordKind::Track;
            record.event = Some(["Order Placed", "Product Viewed", "Clicked"][(dice >> 44) as usize % 3]);
            record.payload = r#"{"properties":{"revenue":12.5}}"#;
        }
        builder.add(&record);
    }
}

/// Returns the CPU time of this thread beside a result.
fn cpu_us<T>(act: impl FnOnce() -> T) -> (T, f64) {
    let before = thread_cpu_ns();
    let result = act();
    (result, (thread_cpu_ns() - before) as f64 / 1e3)
}

fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the scheduler's statistics");
    text.split(' ').next().and_then(|field| field.parse().ok()).expect("nanoseconds")
}

fn peak_memory_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the status of the process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the largest memory");
    line.trim().trim_end_matches(" kB").parse().expect("KiB")
}

fn print_line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("standard output is open");
}
