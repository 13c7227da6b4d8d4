//! How far from the kernel's own price is an answer?
//!
//! `cargo bench --bench floor` serves by Parallax (one worker, on CPU 0), and the same bytes by a bare server (`loadtest/src/floor.rs`, on
//! CPU 0 as well), asks them by turns with `wrk` (on CPU 1), and prints the CPU time per request of each, user and system, of all
//! threads, and the ratio: of a GET of a forced page of 8 KB with 64 connections, and of a POST of an event of 500 bytes with 256,
//! each answered once it is on the disk. The events go to the temporary folder, which is to be on a disk (`TMPDIR`). It needs
//! `wrk` and `taskset`; of a busy machine only the ratio counts. In test mode the bare server answers a few requests.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

#[path = "../loadtest/src/floor.rs"]
mod bare;
#[path = "bench/child.rs"]
mod child;
#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/event.rs"]
mod event;
#[path = "bench/load.rs"]
mod load;
#[path = "bench/site.rs"]
mod site;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use child::{Child, ask};
use compiled::compiled;
use event::{DIGITS, event};
use load::{Load, compare, pinned, say};
use site::site;

const TARGET: &str = "/v1/resolve?trackingId=track_bench&route=/page-7&variants=hero:de,aside:b";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [flag, file] if flag == "--serve" => serve(file),
        words if words.iter().any(|word| word == "--bench") => measure(),
        _ => check(),
    }
}

/// The bare server: says its address, then sends what the file holds.
fn serve(file: &str) {
    let answer = std::fs::read(file).expect("a file").leak();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    socket2::SockRef::from(&listener).set_tcp_nodelay(true).expect("an option");
    eprintln!("http://{} ", listener.local_addr().expect("an address"));
    bare::serve(&listener, answer).expect("a ring");
}

const SERVERS: [&str; 2] = ["parallax", "bare"];
/// A GET of a page.
const GETS: Load = Load { connections: 64, rounds: 7, window_seconds: 3, target: TARGET, script: None };
/// A POST of an event. Fewer and shorter windows: each writes tens of megabytes.
const POSTS: Load = Load { connections: 256, rounds: 5, window_seconds: 2, target: "", script: Some(posts) };

/// POSTs of events that were never sent before: their IDs are counted on, the windows' ranges lie apart.
fn posts(window: usize) -> String {
    let (before, behind) = event();
    let head = post_head(before.len() + DIGITS + behind.len()).replace("\r\n", "\\r\\n");
    format!(
        "local count = {window} * 1000000000\n\
         function request()\n\
           count = count + 1\n\
           return string.format('%s%0{DIGITS}d%s', '{head}\\r\\n{before}', count, '{behind}')\n\
         end\n"
    )
}

/// Without its empty line.
fn post_head(length: usize) -> String {
    let fields = format!("Host: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
    format!("POST /v1/track HTTP/1.1\r\n{fields}")
}

/// The bare server, by a command that starts this program.
fn bare(itself: &mut Command, answer: &[u8], folder: &Path) -> Child {
    let file = folder.join("answer");
    std::fs::write(&file, answer).expect("written");
    Child::start(itself.arg("--serve").arg(file), "http")
}

fn itself() -> PathBuf {
    std::env::current_exe().expect("a program knows itself")
}

fn measure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("bench.snapshot"), compiled(&site(100), 1)).expect("written");
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut command = pinned(0, env!("CARGO_BIN_EXE_parallax"));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0", "--workers", "1", "--snapshots"]).arg(folder.path());
    command.arg("--data").arg(data.path());
    let parallax = Child::start(&mut command, "serving");

    let page = answer(&parallax, &format!("GET {TARGET} HTTP/1.1\r\nHost: {}\r\n", parallax.address), "");
    let server = bare(&mut pinned(0, itself()), &page, folder.path());
    say("GET of a page", page.len(), SERVERS, &compare([(&GETS, &parallax), (&GETS, &server)]).0);
    drop(server);

    let (before, behind) = event();
    let one = format!("{before}{:0DIGITS$}{behind}", 0);
    let receipt = answer(&parallax, &post_head(one.len()), &one);
    let server = bare(&mut pinned(0, itself()), &receipt, folder.path());
    let (costs, answered) = compare([(&POSTS, &parallax), (&POSTS, &server)]);
    say("POST of an event, durable", receipt.len(), SERVERS, &costs);
    recorded(&parallax, answered + 1);
}

/// The answer to a request as wrk sends it: without what says that this one is the last.
fn answer(server: &Child, head: &str, body: &str) -> Vec<u8> {
    let mut answer = ask(server.address, head.as_bytes(), body.as_bytes());
    let closing = b"Connection: close\r\n";
    let at = answer.windows(closing.len()).position(|window| window == closing).expect("as asked");
    answer.drain(at..at + closing.len());
    answer
}

/// Parallax recorded what it answered, and at most what wrk did not wait for in the end of a window beside.
fn recorded(parallax: &Child, answered: u64) {
    let (accepted, duplicates) = (
        parallax.metric("parallax_events_accepted_total"),
        parallax.metric("parallax_events_duplicate_total"),
    );
    let unread = (POSTS.rounds as u64 + 1) * u64::from(POSTS.connections);
    println!("{answered} events were acknowledged, {accepted} are recorded");
    assert!((answered..=answered + unread).contains(&accepted) && duplicates == 0, "{duplicates} duplicates");
}

/// Requests that come whole, in parts, and together each have one answer.
fn check() {
    if let Err(error) = io_uring::IoUring::new(1) {
        return eprintln!("skipped: io_uring is not to be had: {error}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let bare = bare(&mut Command::new(itself()), answer, folder.path());
    let mut stream = TcpStream::connect(bare.address).expect("connected");
    for (sent, answers) in [
        ("GET / HTTP/1.1\r\n\r\n", 1),
        ("GET / HTTP/1.1\r\n\r", 0),
        ("\nGET\r\n\r\nGET\r\n\r\n", 3),
        ("POST\r\nContent-Length: 12\r\n\r\n01234567", 0),
        ("\r\n\r\nGET\r\n\r\nPOST\r\nContent-Length: 3\r\nA: 1\r\n\r\n012", 3),
    ] {
        stream.write_all(sent.as_bytes()).expect("sent");
        let mut received = vec![0; answers * answer.len()];
        stream.read_exact(&mut received).expect("answered");
        assert_eq!(received, answer.repeat(answers));
    }
}
