//! Log lines whose reader stalls: the server goes on.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use parallax::testing::limits::{LOG_LINE_OVERHEAD_BYTES, LOG_LINES_BYTES_MAX, LOG_LINES_RESERVED_BYTES};
use parallax::testing::log_lines::LogLines;

use crate::harness::{Client, eventually, temporary_directory};

/// A sink that stalls until its gate is opened.
struct StalledSink {
    gate: Receiver<()>,
}

impl Write for StalledSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The gate is open once its other end is dropped.
        let _ = self.gate.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a line that takes `bytes` of the queue.
fn line(bytes: usize) -> Vec<u8> {
    vec![b'x'; bytes - LOG_LINE_OVERHEAD_BYTES]
}

#[test]
fn a_full_queue_drops_lines_of_the_access_log_first_and_counts_each() {
    const OF_ACCESS_LOG: usize = LOG_LINES_BYTES_MAX - LOG_LINES_RESERVED_BYTES;
    for (bytes, dropped) in [(OF_ACCESS_LOG - 1, 0), (OF_ACCESS_LOG, 0), (OF_ACCESS_LOG + 1, 1)] {
        let (_gate, stalled) = channel();
        let lines = LogLines::start(StalledSink { gate: stalled }).expect("a thread");
        lines.push(&line(bytes), true);
        assert_eq!(lines.dropped(), dropped, "{bytes} bytes of the access log");
    }
    let (gate, stalled) = channel();
    let lines = LogLines::start(StalledSink { gate: stalled }).expect("a thread");
    lines.push(&line(OF_ACCESS_LOG), true);
    lines.push(&line(LOG_LINES_RESERVED_BYTES - LOG_LINE_OVERHEAD_BYTES - 1), false);
    lines.push(b"", true);
    assert_eq!(lines.dropped(), 1, "the rest is for other lines");
    lines.push(b"", false);
    lines.push(b"", false);
    assert_eq!(lines.dropped(), 2, "the queue is full");
    drop(gate);
    eventually("the queue is written", || {
        let before = lines.dropped();
        lines.push(&line(OF_ACCESS_LOG), true);
        (lines.dropped() == before).then_some(())
    });
}

/// A server whose standard error is a pipe.
struct PipedServer {
    process: Child,
    log: BufReader<ChildStderr>,
    snapshots: tempfile::TempDir,
    _data: tempfile::TempDir,
}

impl PipedServer {
    fn start() -> Self {
        let (snapshots, data) = (temporary_directory(), temporary_directory());
        let demo = parallax::testing::cli::demo::compile_demo().1;
        std::fs::write(snapshots.path().join("demo.snapshot"), demo).expect("written");
        let mut process = Command::new(env!("CARGO_BIN_EXE_parallax"))
            .args([
                "serve",
                "--access-log",
                "--workers",
                "1",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
            ])
            .arg("--snapshots")
            .arg(snapshots.path())
            .arg("--data")
            .arg(data.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let log = BufReader::new(process.stderr.take().expect("a pipe"));
        Self { process, log, snapshots, _data: data }
    }

    /// Reads the log up to a line that contains `text`.
    fn read_until(&mut self, text: &str) -> String {
        let mut lines = self.log.by_ref().lines().map(|line| line.expect("a line"));
        lines.find(|line| line.contains(text)).expect("the line comes before the end")
    }

    fn address(&mut self, text: &str) -> SocketAddr {
        let line = self.read_until(text);
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        address.and_then(|address| address.parse().ok()).expect("an address")
    }
}

impl Drop for PipedServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sample(admin: SocketAddr, name: &str) -> u64 {
    let page = Client::to(admin).request("GET", "/metrics", &[]);
    let value = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Sends requests until the server has dropped a line since the call.
fn request_until_lines_are_dropped(edge: SocketAddr, admin: SocketAddr) {
    const DROPPED: &str = "parallax_log_lines_dropped_total";
    let before = sample(admin, DROPPED);
    let mut client = Client::to(edge);
    let target = format!("/v1/resolve?site=fjell&route=/{}&variants=", "x".repeat(1_000));
    eventually("lines are dropped", || {
        for _ in 0..500 {
            assert_eq!(client.request("GET", &target, &[]).status, 404);
        }
        (sample(admin, DROPPED) > before).then_some(())
    });
}

#[test]
fn a_server_whose_log_nobody_reads_answers_and_stops() {
    let mut server = PipedServer::start();
    let admin = server.address("admin address");
    let edge = server.address("serving");
    request_until_lines_are_dropped(edge, admin);
    assert_eq!(Client::to(admin).request("GET", "/readyz", &[]).status, 200);
    // Another line than one of the access log has a place, and arrives when the log is read again.
    std::fs::write(server.snapshots.path().join("damaged.snapshot"), "damaged").expect("written");
    eventually("the damaged file is refused", || {
        (sample(admin, "parallax_snapshots_refused") == 1).then_some(())
    });
    assert!(server.read_until("damaged.snapshot").contains("WARN"));

    request_until_lines_are_dropped(edge, admin);
    let killed = Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status();
    assert!(killed.expect("kill is there").success());
    let ended = eventually("the server ends", || server.process.try_wait().expect("its status is readable"));
    assert_eq!(ended.code(), Some(0));
}
