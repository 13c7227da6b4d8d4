//! How long a lone request waits on a real disk, over HTTP and at the log, beside a bare append of 4 KB with its sync.
//!
//! `cargo bench --bench acknowledge [-- FOLDER]`: the folder is to be on the disk that is meant. They are done by turns, so that
//! what else the disk does delays all of them; what is acknowledged once written is measured on its own.

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

use parallax::clock::{SystemClock, instant, now_ms};
use parallax::storage::disk::RealDisk;
use parallax::visitors::log::{
    self, Ack, Kind, Options, Outcome, Port, Record, Records, Request, WriterThread,
};

use child::Child;
use compiled::compiled;
use event::{DIGITS, event};
use site::site;

/// Acknowledgements that are measured; in test mode, which asks only whether it works, fewer.
const TIMES: usize = 2_000;
const TIMES_TESTED: usize = 20;

fn main() {
    let times = if std::env::args().any(|word| word == "--bench") { TIMES } else { TIMES_TESTED };
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let folder = tempfile::tempdir_in(named.map_or_else(std::env::temp_dir, PathBuf::from));
    let folder = folder.expect("the folder is there");
    let mut bare = Bare::new(&folder.path().join("bare"));
    let mut served = Served::new(folder.path());
    let mut log = Log::new(folder.path().join("disk"), Ack::Disk);
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
        say(what, took, floor);
    }
    // On its own, since its syncs come when nobody waits.
    let mut log = Log::new(folder.path().join("written"), Ack::Written);
    let mut took: Vec<_> = (0..times).map(|_| timed(|| log.send())).collect();
    log.stop(times as u64);
    say("at the log, written only", &mut took, floor);
}

fn timed(act: impl FnOnce()) -> Duration {
    let began = instant();
    act();
    instant() - began
}

struct Bare(File);

impl Bare {
    fn new(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).expect("it opens"))
    }

    fn append(&mut self) {
        self.0.write_all(&[7; 4096]).and_then(|()| self.0.sync_data()).expect("the disk is well");
    }
}

/// Parallax with one worker, and a connection to it.
struct Served {
    server: Child,
    stream: TcpStream,
    posted: usize,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Served {
    fn new(folder: &Path) -> Self {
        let snapshots = folder.join("snapshots");
        std::fs::create_dir(&snapshots).expect("a folder");
        std::fs::write(snapshots.join("bench.snapshot"), compiled(&site(1), 1)).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"]);
        command.arg("--snapshots").arg(snapshots).arg("--data").arg(folder.join("served"));
        let server = Child::start(&mut command, "serving");
        let stream = TcpStream::connect(server.address).expect("connected");
        stream.set_nodelay(true).expect("an option");
        Self { server, stream, posted: 0, request: Vec::new(), answer: vec![0; 4096] }
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
        // Of a receipt for one event only the end is a brace that closes.
        while !self.answer[..received].ends_with(END) {
            let count = self.stream.read(&mut self.answer[received..]).expect("received");
            assert!(count > 0, "it was closed");
            received += count;
        }
        assert!(self.answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", self.answer.escape_ascii());
    }

    fn stop(self, times: u64) {
        assert_eq!(self.server.metric("parallax_events_accepted_total"), times);
    }
}

/// A log without a server.
struct Log {
    port: Port,
    thread: WriterThread,
    request: Request,
    sent: u128,
    payload: String,
}

impl Log {
    fn new(folder: PathBuf, ack: Ack) -> Self {
        let (options, clock) = (Options { ack, ..Options::default() }, Arc::new(SystemClock::new()));
        let follower = Box::new(|_: Records<'_>| ());
        let (queue, writer, _) =
            log::open(&folder, options, Arc::new(RealDisk), clock, follower).expect("it opens");
        let worker = std::thread::current();
        let port = queue.port(Arc::new(move || worker.unpark()));
        let thread = WriterThread::spawn(queue, writer).expect("there is a thread");
        let (before, behind) = event();
        let payload = format!("{before}{:0DIGITS$}{behind}", 0);
        Self { port, thread, request: Request::new(0), sent: 0, payload }
    }

    fn send(&mut self) {
        self.sent += 1;
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        request.push(&record(self.sent, &self.payload)).expect("it is within all bounds");
        self.port.send(request).expect("the queue takes it");
        self.port.call_writer();
        let completion = loop {
            match self.port.take() {
                Some(completion) => break completion,
                None => std::thread::park(),
            }
        };
        assert_ne!(completion.outcome, Outcome::DiskUnavailable);
        self.request = completion.request;
    }

    fn stop(self, times: u64) {
        let stopped = self.thread.stop().expect("the writer does not panic");
        assert_eq!(stopped.durable_seq, times);
    }
}

fn record(key: u128, payload: &str) -> Record<'_> {
    Record {
        kind: Kind::Track,
        bot: false,
        gpc: false,
        received_ms: now_ms(),
        timestamp_ms: now_ms(),
        key,
        site: Some("acme"),
        message_id: Some("0f8fad5b-d9cb-469f-a165-70867728950e"),
        anon_id: Some("7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        user_id: None,
        event: Some("Viewed"),
        name: None,
        path: Some("/articles/one"),
        variants: None,
        ip: None,
        payload,
    }
}

fn median(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// Quantiles, and the median beside that of the bare append.
fn say(what: &str, took: &mut [Duration], floor: Duration) {
    let ratio = median(took).as_secs_f64() / floor.as_secs_f64();
    let at = |part: usize| took[took.len() * part / 1000].as_micros();
    let (p50, p99, p999) = (at(500), at(990), at(999));
    let text = format!("{what:30} p50 {p50:>5} us ({ratio:.2} x)   p99 {p99:>6} us   p99.9 {p999:>6} us\n");
    std::io::stdout().write_all(text.as_bytes()).expect("somebody listens");
}
