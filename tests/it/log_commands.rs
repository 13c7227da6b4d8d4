//! The commands of the operator for the log: export, inspect, check, and the search for a text.

mod checking;
mod columns;
mod earlier_format;
mod erasures;
mod exporting;
mod interrupted;
mod migrating;
mod positions;
mod restoring;
mod searching;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parallax::testing::clock::Clock;
use parallax::testing::log::{self, LogClient, LogWriter, Options, Queue, Records, Request, WriteOutcome};
use parallax::testing::record::{Code, Device, Record, RecordContext, RecordKind, UserAgentInfo};
use parallax::testing::storage::disk::RealDisk;

use crate::dice::Dice;
use crate::logged::when_unlocked;

/// A record that owns its texts.
#[derive(Debug, Clone)]
struct Row {
    kind: RecordKind,
    bot: bool,
    gpc: bool,
    received_ms: i64,
    timestamp_ms: i64,
    /// In the order of a record: site, message ID, anon ID, user ID, event, name, path, variants, IP address,
    /// experiments.
    texts: [Option<String>; 10],
    device: Device,
    country: Option<Code<2>>,
    payload: String,
}

impl Row {
    /// Returns a track event of the site `acme` by this visitor.
    fn of(visitor: &str) -> Self {
        let mut texts: [Option<String>; 10] = Default::default();
        texts[0] = Some("acme".to_owned());
        texts[2] = Some(visitor.to_owned());
        let payload = serde_json::json!({ "event": "Viewed", "anonId": visitor }).to_string();
        let (received_ms, timestamp_ms) = (1_767_225_600_123, 1_767_225_599_000);
        let (device, country) = (Device::Unknown, None);
        Self {
            kind: RecordKind::Track,
            bot: false,
            gpc: true,
            received_ms,
            timestamp_ms,
            texts,
            device,
            country,
            payload,
        }
    }

    fn random(dice: &mut Dice) -> Self {
        let texts = std::array::from_fn(|_| (dice.below(3) > 0).then(|| text(dice)));
        let payload = serde_json::json!({ "a": text(dice), "n": dice.next_u64(), "of": [text(dice), null] });
        Self {
            kind: *dice.pick(&RecordKind::EVENT_KINDS),
            bot: dice.below(2) == 0,
            gpc: dice.below(2) == 0,
            received_ms: dice.below(4_000_000_000_000) as i64,
            timestamp_ms: dice.below(4_000_000_000_000) as i64,
            texts,
            device: *dice.pick(&[Device::Unknown, Device::Mobile, Device::Bot]),
            country: Code::new(dice.pick(&["", "DE", "T1"]).as_bytes()),
            payload: payload.to_string(),
        }
    }

    fn record(&self) -> Record<'_> {
        let [site, message_id, anon_id, user_id, event, name, path, variants, ip, experiments] =
            std::array::from_fn(|at| self.texts[at].as_deref());
        let agent = UserAgentInfo { device: self.device, ..UserAgentInfo::default() };
        Record {
            bot: self.bot,
            gpc: self.gpc,
            received_ms: self.received_ms,
            timestamp_ms: self.timestamp_ms,
            site,
            message_id,
            anon_id,
            user_id,
            event,
            name,
            path,
            variants,
            ip,
            experiments,
            context: RecordContext::new(agent, self.country, None),
            payload: &self.payload,
            ..Record::new(self.kind)
        }
    }
}

/// Returns a text of fewer than 20 characters, some of which JSON escapes.
fn text(dice: &mut Dice) -> String {
    let characters =
        ['a', 'Z', '0', ' ', '"', '\\', '/', '\n', '\r', '\t', '\u{1}', 'é', '漢', '😀', '\u{2028}'];
    (0..dice.below(20)).map(|_| *dice.pick(&characters)).collect()
}

/// A clock that advances only when the test says so.
struct ManualClock(AtomicI64);

impl ManualClock {
    fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now_ms() as u64)
    }
}

/// A log that is open for writing.
struct Log {
    queue: Queue,
    client: LogClient,
    writer: LogWriter,
    clock: Arc<ManualClock>,
}

impl Log {
    fn open(directory: &Path, options: Options) -> Self {
        let clock = Arc::new(ManualClock(AtomicI64::new(1_767_225_600_000)));
        let opened = when_unlocked(|| {
            let consumer = Box::new(|_: Records<'_>| {});
            log::open(directory, options.clone(), Arc::new(RealDisk), clock.clone(), consumer)
        });
        let (queue, writer, _) = opened.expect("the log opens");
        let client = queue.client(Arc::new(|| {}));
        Self { queue, client, writer, clock }
    }

    /// Writes `rows` as one batch.
    fn push(&mut self, rows: &[Row]) -> WriteOutcome {
        let mut request = Request::new(0);
        rows.iter().for_each(|row| request.push(&row.record()).expect("the record is within all limits"));
        self.client.send(request).expect("the queue accepts it");
        self.writer.run_once();
        self.client.next_completion().expect("the request is complete").outcome
    }

    /// Stops the writer, which syncs and seals.
    fn close(self) {
        self.queue.stop();
        assert!(self.writer.close().last_seq > 0);
    }
}

/// Writes a sealed log of `rows` to `directory`, in batches of at most 7 and segments of about 4 KiB.
fn write_sealed_log(directory: &Path, rows: &[Row]) {
    let mut log = Log::open(directory, Options { segment_bytes: 4 * 1024, ..Options::default() });
    rows.chunks(7).for_each(|batch| assert_eq!(log.push(batch), WriteOutcome::Durable));
    log.close();
}

/// Returns the segments of a directory, in order.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "segment")).collect();
    segments.sort();
    segments
}

/// Flips one bit in the first record of a segment.
fn flip_bit(segment: &Path) {
    let mut bytes = std::fs::read(segment).expect("readable");
    bytes[40 + 40 + 72 + 4] ^= 1;
    std::fs::write(segment, bytes).expect("written");
}

/// Cuts off the end of the last write to a segment, as a crash can.
fn tear_tail(segment: &Path) {
    let bytes = std::fs::read(segment).expect("readable");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    std::fs::write(segment, &bytes[..last - 2]).expect("written");
}

fn parallax(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> CommandOutput {
    CommandOutput::of(parallax(args).output().expect("the command runs"))
}

/// The exit code and the output of a command.
#[derive(Debug)]
struct CommandOutput {
    code: i32,
    out: String,
    err: String,
}

impl CommandOutput {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("the command exits without a signal");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code, and that standard output or standard error contains each text.
    #[track_caller]
    fn assert_exit(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in texts {
            assert!(self.out.contains(text) || self.err.contains(text), "{text:?} is missing: {self:?}");
        }
    }
}

/// Returns a path as a command-line argument.
fn as_arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
