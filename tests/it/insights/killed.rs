//! Processes that are killed while column files are built and while visitors are erased, and erasures under load.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use parallax::testing::insights::{ColumnBuilder, Columns, VisitorKey};
use parallax::testing::log::LogReader;
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::RealDisk;
use serde_json::{Value, json};

use super::served::{column_files, page, send};
use crate::harness::{Client, Server, eventually, times, under_load};
use crate::logged;

const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");
const TARGET: &str = "/insights/overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month";
const FLAGS: [&str; 4] = ["--segment-bytes", "65536", "--admin-token", "secret"];

fn start() -> Server {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    Server::start(&[("demo.snapshot", &demo)], &FLAGS)
}

fn ask(server: &Server) -> Value {
    let response = Client::to(server.admin).request("GET", TARGET, &[TOKEN]);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

/// Returns the page views and the visitors of the records up to a seq.
fn count_records(server: &Server, seq: u64) -> (u64, u64) {
    eventually("the records are marked durable", || {
        let reader = LogReader::open(Arc::new(RealDisk), server.data(), 0).expect("the log is readable");
        (reader.last_seq() >= seq).then_some(())
    });
    let mut export = Command::new(env!("CARGO_BIN_EXE_parallax"));
    let exported = export.arg("export").arg(server.data()).output().expect("the program runs");
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let lines = exported.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records: Vec<Value> = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
    let is_counted = |record: &&Value| record["type"] == "page" && logged::parse_seq(&record["seq"]) <= seq;
    let pages: Vec<&Value> = records.iter().filter(is_counted).collect();
    let visitors: HashSet<&str> = pages.iter().filter_map(|page| page["anonId"].as_str()).collect();
    (pages.len() as u64, visitors.len() as u64)
}

/// Returns the page views, the visitors and the seq of the next answer.
fn totals(server: &Server) -> (u64, u64, u64) {
    let answer = ask(server);
    let number = |name: &str| answer["totals"][name].as_u64().expect("a number");
    (number("views"), number("visitors"), logged::parse_seq(&answer["seq"]))
}

/// Asserts that no file of the data directory has these bytes.
fn assert_absent(server: &Server, needles: &[&[u8]]) {
    for entry in fs::read_dir(server.data()).expect("the data directory") {
        let path = entry.expect("an entry").path();
        // A temporary file may have been renamed meanwhile.
        let bytes = fs::read(&path).unwrap_or_default();
        for needle in needles {
            let is_found = bytes.windows(needle.len()).any(|window| window == *needle);
            assert!(!is_found, "{}: {}", path.display(), needle.escape_ascii());
        }
    }
}

/// Returns the hash of a visitor in the column files of a server.
fn hash_of(server: &Server, anon_id: &str) -> [u8; 8] {
    let key = fs::read(server.data().join("columns-key")).expect("the key");
    let mut builder = ColumnBuilder::new(1, VisitorKey(key.try_into().expect("16 bytes")));
    builder.add(&Record { site: Some("fjell"), anon_id: Some(anon_id), ..Record::new(RecordKind::Page) });
    let columns = Columns::from_bytes(builder.to_bytes(1)).expect("intact columns");
    columns.facts().expect("intact columns")[0].visitor.expect("a visitor").to_le_bytes()
}

#[test]
fn after_each_erasure_under_load_the_answer_is_over_the_remaining_records() {
    let server = start();
    let erasures = times(4, 100);
    let mut edge = Client::to(server.edge);
    for round in 0..erasures.max(20) {
        let pages: Vec<Value> =
            (0..3).map(|n| page(&format!("erased-visitor-{:03}", (round + n) % erasures), "/")).collect();
        send(&mut edge, &pages);
    }
    eventually("some segments have column files", || (column_files(&server).len() > 2).then_some(()));
    let next = AtomicU64::new(0);
    let post = |client: &mut Client| {
        let visitor = format!("v{}", next.fetch_add(1, Ordering::Relaxed) % 97);
        send(client, &[json!({"type": "page", "anonId": visitor, "properties": {"path": "/load"}})]);
    };
    let hashes: Vec<[u8; 8]> =
        (0..erasures).map(|round| hash_of(&server, &format!("erased-visitor-{round:03}"))).collect();
    let erase_all = || {
        for (round, hash) in hashes.iter().enumerate() {
            let id = format!("erased-visitor-{round:03}");
            let target = format!("/visitors?site=fjell&anonId={id}");
            let erased = Client::to(server.admin).request("DELETE", &target, &[TOKEN]);
            assert_eq!(erased.status, 200, "{}", erased.text());
            let (views, visitors, seq) = totals(&server);
            assert_eq!((views, visitors), count_records(&server, seq), "after the erasure of {id}");
            assert_absent(&server, &[id.as_bytes(), hash]);
        }
    };
    under_load(server.edge, 1, post, erase_all);
}

#[test]
fn a_process_that_is_killed_while_column_files_are_built_answers_rightly_after_its_restart() {
    let (mut server, mut sent) = (start(), 0);
    for round in 0..times(4, 100) {
        let mut edge = Client::to(server.edge);
        for _ in 0..25 {
            send(&mut edge, &[page(&format!("v{}", sent % 7), "/"), page("v", "/x")]);
            sent += 2;
        }
        // The builder begins within a second. It is killed after a different number of files.
        let files = column_files(&server).len() + round % 4;
        eventually("the builder is at work", || {
            let is_building = server.data().join(".columns").exists();
            (is_building || column_files(&server).len() >= files).then_some(())
        });
        server.signal("KILL");
        server = server.restart(&FLAGS);
        assert_eq!(totals(&server).0, sent, "round {round}");
    }
    eventually("all sealed segments have column files", || {
        let metrics = Client::to(server.admin).request("GET", "/metrics", &[TOKEN]);
        metrics.text().contains("parallax_insights_segments_behind 0\n").then_some(())
    });
    for name in column_files(&server) {
        let bytes = fs::read(server.data().join(&name)).expect("readable");
        assert!(Columns::from_bytes(bytes).and_then(|columns| columns.facts()).is_ok(), "{name}");
    }
}

#[test]
fn a_process_that_is_killed_during_an_erasure_finishes_it_after_its_restart() {
    let mut server = start();
    for round in 0..times(4, 60) {
        let id = format!("erased-visitor-{round:03}");
        let mut edge = Client::to(server.edge);
        for number in 0..40 {
            send(&mut edge, &[page(&id, "/gone"), page(&format!("v{number}"), "/")]);
        }
        eventually("some segments have column files", || (column_files(&server).len() > 2).then_some(()));
        let before = column_files(&server).len();
        let admin = server.admin;
        let target = format!("/visitors?site=fjell&anonId={id}");
        let erasing = thread::spawn(move || {
            let mut stream = TcpStream::connect(admin).expect("connected");
            let (name, value) = TOKEN;
            write!(
                stream,
                "DELETE {target} HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nConnection: close\r\n\r\n"
            )
            .expect("sent");
            // The connection ends with the response, or with the process.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        // The process is killed after a different number of deleted column files.
        eventually("the erasure has begun", || {
            let has_begun =
                server.data().join("erasing").exists() && column_files(&server).len() + round % 3 < before;
            (has_begun || erasing.is_finished()).then_some(())
        });
        server.signal("KILL");
        erasing.join().expect("the client ends");
        server = server.restart(&FLAGS);
        eventually("the erasure is finished", || (!server.data().join("erasing").exists()).then_some(()));
        let (views, visitors, seq) = totals(&server);
        assert_eq!((views, visitors), count_records(&server, seq), "round {round}");
        let hash = hash_of(&server, &id);
        assert_absent(&server, &[id.as_bytes(), &hash]);
    }
}
