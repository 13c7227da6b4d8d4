//! The event log: what is acknowledged stays, once, whatever happens to disk and process. The same code as in the server, on a
//! simulated disk and clock, stepped by the test; what clients sent and were told.

// What is damaged is found, and costs no more than what it hit.
mod damage;
// A call of each file operation fails.
mod faults;
// Power cuts and killed processes, by seed.
mod power;
// What counts as seen, against an obvious table.
mod duplicates;
// A record's way through the queue.
mod queueing;
// Readers beside the writer.
mod reading;
// What is let go, and when.
mod retention;
// Who is erased, and what is left.
mod erasing;
// Erasures that fail, and crashes in them.
mod erasing_fails;
// `--ack written`.
mod written;
// Zeros that are laid ahead of the batches.
mod reserved;
// A folder's lock, its version, what is void.
mod opening;
// Each bound.
mod bounds;
// The disk that is simulated.
mod inode;
mod meanwhile;
pub(crate) mod simulated;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax::clock::Clock;
use parallax::storage::disk::Disk;
use parallax::visitors::log::{
    self, Completion, Kind, LogError, Options, Port, Queue, Record, Records, Report, Request, Writer,
};

/// Where the simulated folder is.
const FOLDER: &str = "/data";
/// The simulated clocks begin here.
const START_MS: i64 = 1_800_000_000_000;

/// Time that stands still until the test moves it.
#[derive(Debug, Default)]
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        START_MS + self.monotonic().as_millis() as i64
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Seq and key of each record that the log handed over, in order.
type Folded = Arc<Mutex<Vec<(u64, u128)>>>;

/// An open log.
struct Log {
    queue: Queue,
    port: Port,
    writer: Writer,
    report: Report,
    folded: Folded,
    wakes: Arc<AtomicU64>,
}

impl Log {
    fn open(disk: Arc<dyn Disk>, clock: &Arc<TestClock>, options: Options) -> Result<Self, LogError> {
        Self::open_at(Path::new(FOLDER), disk, clock, options)
    }

    fn open_at(
        folder: &Path,
        disk: Arc<dyn Disk>,
        clock: &Arc<TestClock>,
        options: Options,
    ) -> Result<Self, LogError> {
        let folded = Folded::default();
        let fold = Arc::clone(&folded);
        let follower = move |records: Records<'_>| {
            let mut folded = fold.lock().expect("no test panics in here");
            folded.extend(records.iter().map(|(seq, record)| (seq, record.key)));
        };
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let (queue, writer, report) = log::open(folder, options, disk, clock, Box::new(follower))?;
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&wakes);
        let port = queue.port(Arc::new(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        }));
        Ok(Self { queue, port, writer, report, folded, wakes })
    }

    /// Sends records of these keys, steps once, and takes the answer.
    fn record(&mut self, keys: &[u128], received_ms: i64) -> Completion {
        self.port.send(request(0, keys, received_ms)).expect("the queue takes it");
        self.writer.step();
        self.port.take().expect("a step answers what was sent")
    }

    /// Stops it cleanly.
    fn stop(self) -> log::Stopped {
        self.queue.stop();
        self.writer.close()
    }

    fn folded(&self) -> Vec<(u64, u128)> {
        self.folded.lock().expect("no test panics in here").clone()
    }
}

/// Options small enough for tests.
fn options() -> Options {
    Options { duplicates_max: 100_000, ..Options::default() }
}

/// A request of one record for each key.
fn request(token: u64, keys: &[u128], received_ms: i64) -> Request {
    let mut request = Request::new(token);
    for &key in keys {
        let payload = format!(r#"{{"key":{key}}}"#);
        request.push(&record(key, received_ms, &payload)).expect("it is within all bounds");
    }
    request
}

/// A record with something in most columns.
fn record(key: u128, received_ms: i64, payload: &str) -> Record<'_> {
    Record {
        kind: Kind::Track,
        bot: false,
        gpc: true,
        received_ms,
        timestamp_ms: received_ms - 5,
        key,
        site: Some("acme"),
        message_id: Some("m"),
        anon_id: Some("visitor"),
        user_id: None,
        event: Some("Viewed"),
        name: None,
        path: Some("/x"),
        variants: None,
        ip: None,
        payload,
    }
}

/// Bytes as hex, 32 a line.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}
