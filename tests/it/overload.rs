//! Ten times the events that the disk can take (R14): as many are taken as without the rest, the rest is told to come again, memory
//! stays under what was printed, and what was acknowledged is there after a restart.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use parallax::storage::disk::RealDisk;
use parallax::visitors::log::{Item, Reader};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Client, Server, post, times};
use crate::logged;

/// Clients that keep the disk busy, a batch each: what they wait with fits the queue many times over.
const FEW: usize = 24;
const MANY: usize = 10 * FEW;
/// A batch of 15 events of 30 KB, so that 240 are more than the queue's 64 MiB.
const EVENTS: usize = 15;
const PAD: usize = 29_800;
const NUMBER_DIGITS: usize = 12;
/// Others write to the same disk.
const TRIES: usize = 3;

/// Of what is taken without too much: nine tenths in the long form, which is for a machine that does nothing else.
fn goodput_least() -> f64 {
    times(5, 9) as f64 / 10.0
}

/// What a client does that is told to come again.
#[derive(Clone, Copy, PartialEq)]
enum Manners {
    /// It waits as long as it was told.
    Patient,
    /// It sends at once, so that refusing takes processors from what is taken.
    Impatient,
}

/// A request whose message IDs are changed in place.
#[derive(Clone)]
struct Batch {
    bytes: Vec<u8>,
    /// Where the number in each ID stands.
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

/// A server on a disk, and what clients had from it.
struct Loaded {
    server: Server,
    _data: TempDir,
    /// Of the batches so far.
    number: AtomicUsize,
    acknowledged: Mutex<Vec<usize>>,
    refused: AtomicUsize,
}

impl Loaded {
    fn new() -> Self {
        // On a disk: in memory nothing is too much for the log.
        let data = tempfile::tempdir().expect("a temporary folder");
        let snapshots = [("demo.snapshot", &*parallax::cli::demo::snapshot().1)];
        let flags = ["--snapshots-memory", "16777216", "--connections", "1000"];
        let server = Server::recording_to(data.path(), &snapshots, &flags);
        let number = AtomicUsize::new(1);
        Self { server, _data: data, number, acknowledged: Mutex::default(), refused: AtomicUsize::new(0) }
    }

    /// So many connections, each with a batch of its own.
    fn clients(&self, count: usize) -> Vec<(Client, Batch)> {
        let batch = Batch::new();
        (0..count).map(|_| (Client::to(self.server.edge), batch.clone())).collect()
    }

    /// Batches a second that are acknowledged while all `clients` send.
    fn goodput(&self, clients: &mut [(Client, Batch)], manners: Manners, window: Duration) -> f64 {
        let (begun, is_over) = (Instant::now(), &AtomicBool::new(false));
        let before = self.acknowledged();
        thread::scope(|scope| {
            clients.iter_mut().for_each(|client| drop(scope.spawn(|| self.send(client, manners, is_over))));
            wait(window, is_over);
            let goodput = (self.acknowledged() - before) as f64 / begun.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            goodput
        })
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.lock().expect("unpoisoned").len()
    }

    fn send(&self, (client, batch): &mut (Client, Batch), manners: Manners, is_over: &AtomicBool) {
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
            if manners == Manners::Patient {
                wait(Duration::from_secs(1), is_over);
            }
        }
    }

    /// MiB that the server said it stays under.
    fn memory_max(&self) -> u64 {
        let log = self.server.log();
        let sum = log.split("memory stays under ").nth(1).expect("the server says so");
        sum.split(' ').next().and_then(|digits| digits.parse().ok()).expect("digits")
    }

    /// Every acknowledged batch is there after a restart.
    fn assert_kept(self) {
        let server = self.server.restart(&[]);
        logged::settled(&server);
        let mut reader = Reader::open(Arc::new(RealDisk), server.data(), 0).expect("the log can be read");
        let mut found = HashSet::new();
        while let Some(item) = reader.read_next().expect("the log can be read") {
            match item {
                Item::Finding(finding) => panic!("{finding}"),
                Item::Records(records) => {
                    let ids = records.iter().map(|(_, record)| record.message_id.expect("an ID").to_owned());
                    ids.for_each(|id| assert!(found.insert(id), "a record stands twice"));
                }
            }
        }
        for number in self.acknowledged.into_inner().expect("unpoisoned") {
            for i in 0..EVENTS {
                let id = format!("#{number:0NUMBER_DIGITS$}-{i}");
                assert!(found.contains(&id), "{id} is lost");
            }
        }
    }
}

/// Returns after `time`, or when it is over.
fn wait(time: Duration, is_over: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Medians of what few had, and many that are patient, by turns; and many that are not.
fn compared(loaded: &Loaded) -> [f64; 3] {
    let window = Duration::from_millis(times(500, 5_000) as u64);
    let (mut few, mut many) = (loaded.clients(FEW), loaded.clients(MANY));
    loaded.goodput(&mut few, Manners::Patient, window / 2);
    let mut had = [(); 3].map(|()| Vec::new());
    for _ in 0..3 {
        had[0].push(loaded.goodput(&mut few, Manners::Patient, window));
        had[1].push(loaded.goodput(&mut many, Manners::Patient, window));
        had[2].push(loaded.goodput(&mut many, Manners::Impatient, window));
    }
    had.map(|mut had| {
        had.sort_by(f64::total_cmp);
        had[1]
    })
}

#[test]
fn ten_times_the_events_that_the_disk_takes_cost_no_goodput_and_no_bound() {
    let loaded = Loaded::new();
    let kept_up = (0..TRIES).any(|_| {
        let [saturated, patient, impatient] = compared(&loaded);
        let refused = loaded.refused.load(Ordering::Relaxed);
        eprintln!(
            "batches a second: {saturated:.0} at saturation, with ten times the clients {patient:.0}, {impatient:.0} if they do \
             not wait; {refused} refused"
        );
        patient >= goodput_least() * saturated
    });
    assert!(kept_up, "too much costs more of what is taken otherwise than it may");
    let (resident, bound) = (loaded.server.resident_kib() / 1024, loaded.memory_max());
    eprintln!("{resident} MiB resident, at most {bound} MiB");
    assert!(resident < bound, "{resident} MiB of {bound} MiB");
    assert!(loaded.refused.load(Ordering::Relaxed) > 0, "it was not too much");
    loaded.assert_kept();
}
