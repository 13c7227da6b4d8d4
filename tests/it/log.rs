//! The event log: an acknowledged record is stored exactly once, even if the disk fails or the process
//! is killed. The code is that of the server. It runs on a simulated disk and clock, and the test steps it.
//! The assertions are about the requests of clients and their answers.

// Recovery finds damage, and damage costs only the batches that it hit.
mod damage;
// A call of each file operation fails.
mod faults;
// Power cuts and killed processes, from seeds.
mod power;
// The dedup window, against a simple list.
mod duplicates;
// A record's way through the queue.
mod queueing;
// Readers concurrent with the writer.
mod reading;
// The own log of a node.
mod own_records;
// The log of the cluster.
mod shared;
// Expiry of the oldest segments.
mod retention;
mod secret;
// Erasure of visitors, and the bytes that remain.
mod erasing;
// Records that name an erased visitor and belong to another one, and retries of erased events.
mod redacting;
// Erasures that fail, and crashes during an erasure.
mod erasing_fails;
// `--ack written`.
mod written;
// Zeros that are reserved after the batches of a segment.
mod reserved;
// Erasures by names.
mod naming;
// The directory lock, the format version, and void batches.
mod opening;
// Each bound.
mod bounds;
// A file of the simulated disk.
mod inode;
mod meanwhile;
// Wrong wall clocks.
mod wrong_clock;
// A start on a disk that cannot be written.
mod waiting;
// A directory or a segment that another program removes or truncates.
mod place;
// The three parts of the writer, each without the others.
mod request_batch;
mod segment_writer;
pub(crate) mod simulated;
mod upkeep;

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax::testing::clock::Clock;
use parallax::testing::log::{
    self, Completion, LogClient, LogError, LogWriter, Options, Queue, Records, RecoveryReport, Request,
};
use parallax::testing::record::{Record, RecordKind, TombstoneKey};
use parallax::testing::storage::disk::Disk;

/// The directory of the simulated log.
const DIRECTORY: &str = "/data";
/// The time at which the simulated clocks start.
const START_MS: i64 = 1_800_000_000_000;

/// A clock that advances only when the test says so.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    passed_ms: AtomicU64,
    /// The difference of the wall clock and the right time.
    wrong_ms: AtomicI64,
}

impl TestClock {
    pub(crate) fn pass(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the wall clock wrong by this much, without any time passing.
    pub(crate) fn set_wrong(&self, ms: i64) {
        self.wrong_ms.store(ms, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        START_MS + self.monotonic().as_millis() as i64 + self.wrong_ms.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.passed_ms.load(Ordering::Relaxed))
    }
}

/// The seq and the key of each record that the log passed to its consumer, in order.
type Consumed = Arc<Mutex<Vec<(u64, u128)>>>;

/// An open log.
struct Log {
    queue: Queue,
    client: LogClient,
    writer: LogWriter,
    report: RecoveryReport,
    consumed: Consumed,
    wakes: Arc<AtomicU64>,
    /// The key of the digests in tombstones.
    key: TombstoneKey,
}

impl Log {
    fn open(disk: Arc<dyn Disk>, clock: &Arc<TestClock>, options: Options) -> Result<Self, LogError> {
        Self::open_at(Path::new(DIRECTORY), disk, clock, options)
    }

    fn open_at(
        directory: &Path,
        disk: Arc<dyn Disk>,
        clock: &Arc<TestClock>,
        options: Options,
    ) -> Result<Self, LogError> {
        let consumed = Consumed::default();
        let sink = Arc::clone(&consumed);
        let consumer = move |records: Records<'_>| {
            let mut consumed = sink.lock().expect("the mutex is not poisoned");
            consumed.extend(records.iter().map(|(seq, record)| (seq, record.key)));
        };
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let (queue, writer, report) =
            log::open(directory, options, Arc::clone(&disk), clock, Box::new(consumer))?;
        // A test damages the file. The log itself reports that.
        let key =
            TombstoneKey::read(disk, directory).ok().flatten().unwrap_or_else(|| TombstoneKey::new([0; 32]));
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&wakes);
        let client = queue.client(Arc::new(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        }));
        Ok(Self { queue, client, writer, report, consumed, wakes, key })
    }

    /// Sends records with these keys, runs the writer once, and returns the answer.
    fn record(&mut self, keys: &[u128], received_ms: i64) -> Completion {
        self.client.send(request(0, keys, received_ms)).expect("the queue accepts it");
        self.writer.run_once();
        self.client.next_completion().expect("one step completes the request")
    }

    /// Stops the log cleanly.
    fn stop(self) -> log::FinalPosition {
        self.queue.stop();
        self.writer.close()
    }

    fn consumed(&self) -> Vec<(u64, u128)> {
        self.consumed.lock().expect("the mutex is not poisoned").clone()
    }
}

/// Options small enough for tests.
fn options() -> Options {
    Options { dedup_ids_max: 100_000, ..Options::default() }
}

/// Returns a request with one record for each key.
fn request(token: u64, keys: &[u128], received_ms: i64) -> Request {
    let mut request = Request::new(token);
    for &key in keys {
        let payload = format!(r#"{{"key":{key}}}"#);
        request.push(&record(key, received_ms, &payload)).expect("the record is within all limits");
    }
    request
}

/// Returns a record with a value in most columns.
fn record(key: u128, received_ms: i64, payload: &str) -> Record<'_> {
    Record {
        gpc: true,
        received_ms,
        timestamp_ms: received_ms - 5,
        key,
        site: Some("acme"),
        message_id: Some("m"),
        anon_id: Some("visitor"),
        event: Some("Viewed"),
        path: Some("/x"),
        payload,
        ..Record::new(RecordKind::Track)
    }
}

/// Formats bytes as hex, 32 per line.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}
