//! Erasures, and columns that are damaged or missing.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::served::{ask, column_files, page, send};
use crate::harness::{Client, Server, eventually};

const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");
const TARGET: &str = "/insights/overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month";

fn start() -> Server {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    Server::start(&[("demo.snapshot", &demo)], &["--segment-bytes", "65536", "--admin-token", "secret"])
}

fn totals(server: &Server) -> Value {
    let response = Client::to(server.admin).request("GET", TARGET, &[TOKEN]);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["totals"].clone()
}

#[test]
fn the_answer_after_an_erasure_is_over_the_remaining_records() {
    let server = start();
    let mut edge = Client::to(server.edge);
    for round in 0..60 {
        send(&mut edge, &[page("gone", "/gone"), page(&format!("v{round}"), "/")]);
    }
    eventually("some segments have column files", || (column_files(&server).len() > 2).then_some(()));
    assert_eq!((&totals(&server)["views"], &totals(&server)["visitors"]), (&json!(120), &json!(61)));
    let is_done = Arc::new(AtomicBool::new(false));
    let asking = {
        let (is_done, admin) = (Arc::clone(&is_done), server.admin);
        thread::spawn(move || {
            let mut client = Client::to(admin);
            while !is_done.load(Ordering::Relaxed) {
                // During the erasure an answer may have any part of the records, but it is an answer.
                assert_eq!(client.request("GET", TARGET, &[TOKEN]).status, 200);
            }
        })
    };
    // A file that is being written when the erasure begins.
    fs::write(server.data().join(".columns-asked"), "/gone").expect("written");
    let erased = Client::to(server.admin).request("DELETE", "/visitors?site=fjell&anonId=gone", &[TOKEN]);
    assert_eq!(erased.status, 200, "{}", erased.text());
    assert_eq!((&totals(&server)["views"], &totals(&server)["visitors"]), (&json!(60), &json!(60)));
    is_done.store(true, Ordering::Relaxed);
    asking.join().expect("every question has an answer");
    // The files that are built again have nothing of the visitor.
    eventually("column files are built again", || (column_files(&server).len() > 2).then_some(()));
    for entry in fs::read_dir(server.data()).expect("the data directory") {
        let path = entry.expect("an entry").path();
        // A temporary file may have been renamed meanwhile.
        let bytes = fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(5).any(|window| window == b"/gone"), "{}", path.display());
    }
}

#[test]
fn a_start_that_finds_an_unfinished_erasure_deletes_the_column_files_first() {
    let server = start();
    let mut edge = Client::to(server.edge);
    for round in 0..60 {
        send(&mut edge, &[page(&format!("v{round}"), "/")]);
    }
    eventually("some segments have column files", || (column_files(&server).len() > 2).then_some(()));
    let name = &column_files(&server)[0];
    // A file that shows other records than its segment, as a crash in an erasure could leave it.
    let other = fs::read(server.data().join(&column_files(&server)[1])).expect("a column file");
    fs::write(server.data().join(name), &other).expect("written");
    fs::write(server.data().join(".columns"), "temporary").expect("written");
    fs::write(server.data().join("00000000000000999999.columns"), &other).expect("written");
    fs::write(server.data().join("erasing"), 1_u64.to_le_bytes()).expect("written");
    let server = server.restart(&["--segment-bytes", "65536", "--admin-token", "secret"]);
    assert_eq!(totals(&server)["views"], 60);
    assert_ne!(fs::read(server.data().join(".columns")).ok(), Some(b"temporary".to_vec()));
    assert!(!server.data().join("00000000000000999999.columns").exists());
}

#[test]
fn a_damaged_or_missing_column_file_is_built_again() {
    let demo = parallax::testing::cli::demo::compile_demo().1;
    let server = Server::start(&[("demo.snapshot", &demo)], &["--segment-bytes", "65536"]);
    let mut edge = Client::to(server.edge);
    for round in 0..60 {
        send(&mut edge, &[page(&format!("v{round}"), "/")]);
    }
    eventually("some segments have column files", || (column_files(&server).len() > 2).then_some(()));
    let names = column_files(&server);
    let damage = |name: &str, at: usize| {
        let path = server.data().join(name);
        let mut bytes = fs::read(&path).expect("a column file");
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 1;
        fs::write(path, bytes).expect("written");
    };
    damage(&names[0], 20);
    damage(&names[1], usize::MAX);
    damage(&names[2], 350);
    let target = "overview?site=fjell&from=2020-01-01&to=2100-01-01&by=month";
    assert_eq!(ask(&server, target)["totals"]["views"], 60);
    let server = server.restart(&["--segment-bytes", "65536"]);
    fs::remove_file(server.data().join(&names[1])).ok();
    assert_eq!(ask(&server, target)["totals"]["views"], 60);
}
