//! What the operator asks of the log from the command line: export, inspect, check, and the search for a text.

mod checking;
mod columns;
mod exporting;
mod searching;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parallax::clock::Clock;
use parallax::storage::disk::RealDisk;
use parallax::visitors::log::{self, Kind, Options, Outcome, Port, Queue, Record, Records, Request, Writer};

use crate::dice::Dice;

/// A record that owns its texts.
#[derive(Debug, Clone)]
struct Row {
    kind: Kind,
    bot: bool,
    gpc: bool,
    received_ms: i64,
    timestamp_ms: i64,
    /// As in a record: site, message id, anon id, user id, event, name, path, variants, ip.
    texts: [Option<String>; 9],
    payload: String,
}

impl Row {
    /// A track of acme by this visitor.
    fn of(visitor: &str) -> Self {
        let mut texts: [Option<String>; 9] = Default::default();
        texts[0] = Some("acme".to_owned());
        texts[2] = Some(visitor.to_owned());
        let payload = serde_json::json!({ "event": "Viewed", "anonId": visitor }).to_string();
        let (received_ms, timestamp_ms) = (1_767_225_600_123, 1_767_225_599_000);
        Self { kind: Kind::Track, bot: false, gpc: true, received_ms, timestamp_ms, texts, payload }
    }

    fn random(dice: &mut Dice) -> Self {
        let texts = std::array::from_fn(|_| (dice.below(3) > 0).then(|| text(dice)));
        let payload = serde_json::json!({ "a": text(dice), "n": dice.number(), "of": [text(dice), null] });
        Self {
            kind: *dice.of(&Kind::SENT),
            bot: dice.below(2) == 0,
            gpc: dice.below(2) == 0,
            received_ms: dice.below(4_000_000_000_000) as i64,
            timestamp_ms: dice.below(4_000_000_000_000) as i64,
            texts,
            payload: payload.to_string(),
        }
    }

    fn record(&self) -> Record<'_> {
        let [site, message_id, anon_id, user_id, event, name, path, variants, ip] =
            std::array::from_fn(|at| self.texts[at].as_deref());
        Record {
            kind: self.kind,
            bot: self.bot,
            gpc: self.gpc,
            received_ms: self.received_ms,
            timestamp_ms: self.timestamp_ms,
            key: 0,
            site,
            message_id,
            anon_id,
            user_id,
            event,
            name,
            path,
            variants,
            ip,
            payload: &self.payload,
        }
    }
}

/// Up to 20 characters, among them those that JSON escapes.
fn text(dice: &mut Dice) -> String {
    let characters =
        ['a', 'Z', '0', ' ', '"', '\\', '/', '\n', '\r', '\t', '\u{1}', 'é', '漢', '😀', '\u{2028}'];
    (0..dice.below(20)).map(|_| *dice.of(&characters)).collect()
}

/// A clock that stands still unless it is moved.
struct Hand(AtomicI64);

impl Hand {
    fn forward(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now_ms() as u64)
    }
}

/// A log that is being written.
struct Log {
    queue: Queue,
    port: Port,
    writer: Writer,
    clock: Arc<Hand>,
}

impl Log {
    fn open(folder: &Path, options: Options) -> Self {
        let clock = Arc::new(Hand(AtomicI64::new(1_767_225_600_000)));
        let follower = Box::new(|_: Records<'_>| {});
        let opened = log::open(folder, options, Arc::new(RealDisk), clock.clone(), follower);
        let (queue, writer, _) = opened.expect("the log opens");
        let port = queue.port(Arc::new(|| {}));
        Self { queue, port, writer, clock }
    }

    /// Writes these as one batch.
    fn push(&mut self, rows: &[Row]) -> Outcome {
        let mut request = Request::new(0);
        rows.iter().for_each(|row| request.push(&row.record()).expect("within bounds"));
        self.port.send(request).expect("taken");
        self.writer.step();
        self.port.take().expect("answered").outcome
    }

    /// Stops the writer, which syncs and seals.
    fn close(self) {
        self.queue.stop();
        assert!(self.writer.close().last_seq > 0);
    }
}

/// A sealed log of `rows` in `folder`, in batches of at most 7, in segments of some kilobytes.
fn sealed(folder: &Path, rows: &[Row]) {
    let mut log = Log::open(folder, Options { segment_bytes: 4 * 1024, ..Options::default() });
    rows.chunks(7).for_each(|batch| assert_eq!(log.push(batch), Outcome::Durable));
    log.close();
}

/// The segments of a folder, in order.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "segment")).collect();
    segments.sort();
    segments
}

/// Changes one bit in the middle of the first record of a segment.
fn flip(segment: &Path) {
    let mut bytes = std::fs::read(segment).expect("readable");
    bytes[40 + 40 + 72 + 4] ^= 1;
    std::fs::write(segment, bytes).expect("written");
}

/// Cuts the last thing that was written to a segment short, as a crash can.
fn tear(segment: &Path) {
    let bytes = std::fs::read(segment).expect("readable");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    std::fs::write(segment, &bytes[..last - 2]).expect("written");
}

fn parallax(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    command.args(words);
    command
}

fn run(words: &[&str]) -> Done {
    Done::of(parallax(words).output().expect("it runs"))
}

/// What a command did.
#[derive(Debug)]
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("it exits by itself");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code, and that this is said somewhere.
    #[track_caller]
    fn is(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in said {
            assert!(self.out.contains(text) || self.err.contains(text), "{text:?} is not said: {self:?}");
        }
    }
}

/// A path as a word.
fn word(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
