//! Ten times the events that the disk can take (R14). The server accepts as many events as without the excess
//! and refuses the rest with 503. Its memory stays under the printed sum, and acknowledged events survive a
//! restart.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::log::{LogItem, LogReader};
use parallax::testing::storage::disk::RealDisk;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Client, Server, post, times};
use crate::logged;

/// Clients that keep the disk busy, with one batch each. Their batches fit the queue several times.
const FEW: usize = 24;
const MANY: usize = 10 * FEW;
/// Events of a batch, 30 KB each. The batches of 240 clients are more than the queue's 64 MiB.
const EVENTS: usize = 15;
const PAD: usize = 29_800;
const NUMBER_DIGITS: usize = 12;
/// The longest wait for the first response to each client. Then the measurement begins without it.
const FIRST_RESPONSES_MAX: Duration = Duration::from_secs(10);
/// Attempts of the measurement, because other processes write to the same disk.
const TRIES: usize = 3;

/// Returns the minimum goodput, as a fraction of the goodput without excess: one half, and nine tenths in the
/// long form, which is for an otherwise idle machine.
fn min_goodput_fraction() -> f64 {
    times(5, 9) as f64 / 10.0
}

/// The reaction of a client to a 503.
#[derive(Clone, Copy, PartialEq)]
enum RetryPolicy {
    /// Waits for the time in `Retry-After`.
    Patient,
    /// Sends again at once, so that refusals take CPU time from accepted requests.
    Impatient,
}

/// A request whose message IDs are changed in place.
#[derive(Clone)]
struct Batch {
    bytes: Vec<u8>,
    /// Offset of the number in each ID.
    numbers: Vec<usize>,
}

impl Batch {
    fn new() -> Self {
        let (zero, pad) = ("0".repeat(NUMBER_DIGITS), "p".repeat(PAD));
        let event = |i| json!({ "anonId": "v1", "event": "e", "messageId": format!("#{zero}-{i}"), "properties": { "pad": pad } });
        let events: Vec<_> = (0..EVENTS).map(event).collect();
        let body = json!({ "batch": events }).to_string();
        let bytes = post("/v1/batch?site=fjell", &[], body.as_bytes());
        let numbers = (0..bytes.len()).filter(|at| bytes[*at] == b'#').map(|at| at + 1).collect();
        Self { bytes, numbers }
    }

    fn set(&mut self, number: usize) {
        let digits = format!("{number:0NUMBER_DIGITS$}");
        for at in &self.numbers {
            self.bytes[*at..][..NUMBER_DIGITS].copy_from_slice(digits.as_bytes());
        }
    }
}

/// A server on a disk, and the results of its clients.
struct LoadedServer {
    server: Server,
    _data: TempDir,
    /// The number of the next batch.
    number: AtomicUsize,
    acknowledged: Mutex<Vec<usize>>,
    refused: AtomicUsize,
}

impl LoadedServer {
    fn new() -> Self {
        // The directory is on a disk: the log cannot be overloaded in memory.
        let data = tempfile::tempdir().expect("a temporary directory");
        let snapshots = [("demo.snapshot", &*parallax::testing::cli::demo::compile_demo().1)];
        let flags = ["--snapshots-memory", "16777216", "--connections", "1000"];
        let server = Server::start_with_data(data.path(), &snapshots, &flags);
        let number = AtomicUsize::new(1);
        Self { server, _data: data, number, acknowledged: Mutex::default(), refused: AtomicUsize::new(0) }
    }

    /// Opens `count` connections, each with its own batch.
    fn clients(&self, count: usize) -> Vec<(Client, Batch)> {
        let batch = Batch::new();
        (0..count).map(|_| (Client::to(self.server.edge), batch.clone())).collect()
    }

    /// Returns how many batches per second are acknowledged while all `clients` send. The measurement begins after
    /// as many responses as clients: all bodies arrive at the same time, so the first responses are late.
    fn goodput(&self, clients: &mut [(Client, Batch)], retry: RetryPolicy, window: Duration) -> f64 {
        let is_over = &AtomicBool::new(false);
        let expected = self.answered() + clients.len();
        thread::scope(|scope| {
            clients.iter_mut().for_each(|client| drop(scope.spawn(|| self.send(client, retry, is_over))));
            wait_until(FIRST_RESPONSES_MAX, || self.answered() >= expected);
            let (begun, before) = (Instant::now(), self.acknowledged());
            wait(window, is_over);
            let goodput = (self.acknowledged() - before) as f64 / begun.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            goodput
        })
    }

    /// Returns how many batches were acknowledged or refused.
    fn answered(&self) -> usize {
        self.acknowledged() + self.refused.load(Ordering::Relaxed)
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.lock().expect("unpoisoned").len()
    }

    fn send(&self, (client, batch): &mut (Client, Batch), retry: RetryPolicy, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            batch.set(number);
            client.send(&batch.bytes);
            let response = client.response(false);
            if response.status == 200 {
                assert_eq!(response.json()["accepted"], EVENTS);
                self.acknowledged.lock().expect("unpoisoned").push(number);
                continue;
            }
            assert_eq!(response.status, 503, "{response:?}");
            assert!(["queue_full", "overloaded"].contains(&&*response.code()), "{response:?}");
            assert_eq!(response.field("retry-after"), Some("1"));
            self.refused.fetch_add(1, Ordering::Relaxed);
            if response.field("connection") == Some("close") {
                *client = Client::to(self.server.edge);
            }
            if retry == RetryPolicy::Patient {
                wait(Duration::from_secs(1), is_over);
            }
        }
    }

    /// Returns the memory sum that the server printed, in MiB.
    fn memory_max(&self) -> u64 {
        let log = self.server.log();
        let sum = log.split("total_mib=").nth(1).expect("the log line with the memory sum");
        sum.split(' ').next().and_then(|digits| digits.parse().ok()).expect("digits")
    }

    /// Asserts that every acknowledged batch is in the log after a restart.
    fn assert_kept(self) {
        let server = self.server.restart(&[]);
        logged::wait_until_durable(&server);
        let mut reader = LogReader::open(Arc::new(RealDisk), server.data(), 0).expect("the log is readable");
        let mut found = HashSet::new();
        while let Some(item) = reader.read_next().expect("the log is readable") {
            match item {
                LogItem::Damage(damage) => panic!("{damage}"),
                LogItem::Records(records) => {
                    let ids = records.iter().map(|(_, record)| record.message_id.expect("an ID").to_owned());
                    ids.for_each(|id| assert!(found.insert(id), "the log has a record twice"));
                }
            }
        }
        for number in self.acknowledged.into_inner().expect("unpoisoned") {
            for i in 0..EVENTS {
                let id = format!("#{number:0NUMBER_DIGITS$}-{i}");
                assert!(found.contains(&id), "{id} is missing");
            }
        }
    }
}

/// Returns after `time`, or as soon as `is_over` is set.
fn wait(time: Duration, is_over: &AtomicBool) {
    wait_until(time, || is_over.load(Ordering::Relaxed));
}

/// Returns after `time_max`, or as soon as `condition` holds.
fn wait_until(time_max: Duration, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < time_max && !condition() {
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Measures few clients, many patient clients and many impatient clients in turn. Returns the median goodput
/// of each.
fn measure(loaded: &LoadedServer) -> [f64; 3] {
    let window = Duration::from_millis(times(500, 5_000) as u64);
    let (mut few, mut many) = (loaded.clients(FEW), loaded.clients(MANY));
    loaded.goodput(&mut few, RetryPolicy::Patient, window / 2);
    let mut results = [(); 3].map(|()| Vec::new());
    for _ in 0..3 {
        results[0].push(loaded.goodput(&mut few, RetryPolicy::Patient, window));
        results[1].push(loaded.goodput(&mut many, RetryPolicy::Patient, window));
        results[2].push(loaded.goodput(&mut many, RetryPolicy::Impatient, window));
    }
    results.map(|mut results| {
        results.sort_by(f64::total_cmp);
        results[1]
    })
}

#[test]
fn tenfold_overload_costs_no_goodput_and_keeps_the_memory_limit() {
    let loaded = LoadedServer::new();
    let mut is_enough = false;
    for _ in 0..TRIES {
        let [saturated, patient, impatient] = measure(&loaded);
        let refused = loaded.refused.load(Ordering::Relaxed);
        eprintln!(
            "batches per second: {saturated:.0} at saturation, with ten times the clients {patient:.0}, {impatient:.0} if they do \
             not wait; {refused} refused"
        );
        is_enough |= patient >= min_goodput_fraction() * saturated;
        if is_enough && refused > 0 {
            break;
        }
    }
    assert!(is_enough, "overload lowers the goodput too much");
    // If other processes use the processors and the disk is fast, the queue may not fill. The quick form accepts
    // that: the tests of the log fill the queue with a disk that waits.
    let refused = loaded.refused.load(Ordering::Relaxed);
    assert!(refused >= times(0, 1), "no request was refused, so this was no overload");
    let (resident, bound) = (loaded.server.resident_kib() / 1024, loaded.memory_max());
    eprintln!("{resident} MiB resident, at most {bound} MiB");
    assert!(resident < bound, "{resident} MiB of {bound} MiB");
    loaded.assert_kept();
}
