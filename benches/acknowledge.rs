//! Latency of one durable event on a real disk, over HTTP and directly at the log, compared with a bare 4 KB
//! append and fdatasync.
//!
//! `cargo bench --bench acknowledge [-- DIRECTORY]`. Choose a directory on the disk to measure; the default
//! is the system's directory for temporary files. The three take turns, so that other disk activity delays
//! all of them equally. Acknowledgement after the write (without waiting for the sync) is measured
//! separately.

#[path = "bench/child.rs"]
mod child;
#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/event.rs"]
mod event;
#[path = "bench/site.rs"]
mod site;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parallax::testing::clock::{SystemClock, instant, now_ms};
use parallax::testing::log::{self, Ack, LogClient, Options, Records, Request, WriteOutcome, WriterThread};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::RealDisk;

use child::Child;
use compiled::compiled;
use event::{DIGITS, event};
use site::site;

/// Measured acknowledgements. Test mode only checks that the benchmark works, so it measures fewer.
const REPETITIONS: usize = 2_000;
const REPETITIONS_TESTED: usize = 20;

fn main() {
    let times = if std::env::args().any(|word| word == "--bench") { REPETITIONS } else { REPETITIONS_TESTED };
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let dir = tempfile::tempdir_in(named.map_or_else(std::env::temp_dir, PathBuf::from));
    let dir = dir.expect("the directory exists");
    let mut bare = FileAppender::new(&dir.path().join("bare"));
    let mut served = ServerConnection::new(dir.path());
    let mut log = Log::new(dir.path().join("disk"), Ack::Disk);
    let mut took = [(); 3].map(|()| Vec::with_capacity(times));
    for _ in 0..times {
        took[0].push(timed(|| bare.append()));
        took[1].push(timed(|| served.post()));
        took[2].push(timed(|| log.send()));
    }
    served.stop(times as u64);
    log.stop(times as u64);
    let floor = median(&mut took[0]);
    for (what, took) in ["append of 4 KB and fdatasync", "over HTTP", "at the log"].into_iter().zip(&mut took)
    {
        print_quantiles(what, took, floor);
    }
    // Measured alone, because its syncs run between the acknowledgements and would delay the others.
    let mut log = Log::new(dir.path().join("written"), Ack::Written);
    let mut took: Vec<_> = (0..times).map(|_| timed(|| log.send())).collect();
    log.stop(times as u64);
    print_quantiles("at the log, written only", &mut took, floor);
}

fn timed(act: impl FnOnce()) -> Duration {
    let began = instant();
    act();
    instant() - began
}

struct FileAppender(File);

impl FileAppender {
    fn new(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).expect("it opens"))
    }

    fn append(&mut self) {
        self.0.write_all(&[7; 4096]).and_then(|()| self.0.sync_data()).expect("appended and synced");
    }
}

/// A Parallax server with one worker, and a connection to it.
struct ServerConnection {
    server: Child,
    stream: TcpStream,
    posted: usize,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl ServerConnection {
    fn new(dir: &Path) -> Self {
        let snapshots = dir.join("snapshots");
        std::fs::create_dir(&snapshots).expect("a directory");
        std::fs::write(snapshots.join("bench.snapshot"), compiled(&site(1), 1)).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"]);
        command.arg("--snapshots").arg(snapshots).arg("--data").arg(dir.join("served"));
        let server = Child::start(&mut command, "serving");
        let stream = TcpStream::connect(server.address).expect("connected");
        stream.set_nodelay(true).expect("an option");
        Self { server, stream, posted: 0, request: Vec::new(), response: vec![0; 4096] }
    }

    /// Posts an event and reads its receipt.
    fn post(&mut self) {
        const END: &[u8] = b"}";
        let (before, behind) = event();
        let length = before.len() + DIGITS + behind.len();
        self.posted += 1;
        self.request.clear();
        write!(
            self.request,
            "POST /v1/track HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n\
             {before}{:0DIGITS$}{behind}",
            self.posted
        )
        .expect("memory");
        self.stream.write_all(&self.request).expect("sent");
        let mut received = 0;
        // In the response for one event, the only closing brace is the last byte.
        while !self.response[..received].ends_with(END) {
            let count = self.stream.read(&mut self.response[received..]).expect("received");
            assert!(count > 0, "the server closed the connection");
            received += count;
        }
        assert!(self.response.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", self.response.escape_ascii());
    }

    fn stop(self, times: u64) {
        assert_eq!(self.server.metric("parallax_events_accepted_total"), times);
    }
}

/// A log without a server.
struct Log {
    client: LogClient,
    thread: WriterThread,
    request: Request,
    sent: u128,
    payload: String,
}

impl Log {
    fn new(dir: PathBuf, ack: Ack) -> Self {
        let (options, clock) = (Options { ack, ..Options::default() }, Arc::new(SystemClock::new()));
        let follower = Box::new(|_: Records<'_>| ());
        let (queue, writer, _) =
            log::open(&dir, options, Arc::new(RealDisk), clock, follower).expect("it opens");
        let worker = std::thread::current();
        let client = queue.client(Arc::new(move || worker.unpark()));
        let thread = WriterThread::spawn(queue, writer).expect("there is a thread");
        let (before, behind) = event();
        let payload = format!("{before}{:0DIGITS$}{behind}", 0);
        Self { client, thread, request: Request::new(0), sent: 0, payload }
    }

    fn send(&mut self) {
        self.sent += 1;
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        request.push(&record(self.sent, &self.payload)).expect("within all bounds");
        self.client.send(request).expect("the queue takes it");
        self.client.notify_writer();
        let completion = loop {
            match self.client.next_completion() {
                Some(completion) => break completion,
                None => std::thread::park(),
            }
        };
        assert_ne!(completion.outcome, WriteOutcome::DiskUnavailable);
        self.request = completion.request;
    }

    fn stop(self, times: u64) {
        let stopped = self.thread.stop().expect("the writer does not panic");
        assert_eq!(stopped.durable_seq, times);
    }
}

fn record(key: u128, payload: &str) -> Record<'_> {
    Record {
        received_ms: now_ms(),
        timestamp_ms: now_ms(),
        key,
        site: Some("acme"),
        message_id: Some("0f8fad5b-d9cb-469f-a165-70867728950e"),
        anon_id: Some("7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        event: Some("Viewed"),
        path: Some("/articles/one"),
        payload,
        ..Record::new(RecordKind::Track)
    }
}

fn median(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// Prints quantiles, and the ratio of the median to that of the bare append.
fn print_quantiles(what: &str, took: &mut [Duration], floor: Duration) {
    let ratio = median(took).as_secs_f64() / floor.as_secs_f64();
    let at = |part: usize| took[took.len() * part / 1000].as_micros();
    let (p50, p99, p999) = (at(500), at(990), at(999));
    let text = format!("{what:30} p50 {p50:>5} us ({ratio:.2} x)   p99 {p99:>6} us   p99.9 {p999:>6} us\n");
    std::io::stdout().write_all(text.as_bytes()).expect("standard output is open");
}
