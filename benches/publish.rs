//! Publishing: time from a site directory to a snapshot, and from a snapshot file to the served catalog.
//!
//! `cargo bench --bench publish`. Opening a snapshot means sealing, mapping, hashing and verifying it.
//!
//! `cargo bench --bench publish -- --pages N [--small]` publishes one site of N pages once, from files on the disk: of
//! 8 KB with seven variants each, or with `--small` of 2 KB without variants. 100,000 pages need 4 GB of memory, and
//! 3 GB in the system's directory for temporary files.

#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/site.rs"]
mod site;

use std::collections::HashSet;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use compiled::compiled;
use divan::Bencher;
use parallax::testing::api::{Handler, Service, Settings};
use parallax::testing::clock::instant;
use parallax::testing::http::request::{ParseOutcome, RequestMeta, Surface, parse};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::CurrentCatalog;
use parallax::testing::site::catalog::directory::SnapshotDirectory;
use parallax::testing::site::compile::compile as compile_source;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};
use site::{WordSequence, page, site};

fn main() {
    let mut words = std::env::args();
    match words.find(|word| word == "--pages").and_then(|_| words.next()) {
        Some(pages) => publish_large(pages.parse().expect("a number of pages")),
        None => divan::main(),
    }
}

/// Publishes one large site, and prints the time of each step.
fn publish_large(pages: usize) {
    let is_small = std::env::args().any(|word| word == "--small");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (source, snapshots) = (dir.path().join("site"), dir.path().join("snapshots"));
    std::fs::create_dir_all(source.join("routes")).expect("created");
    std::fs::create_dir(&snapshots).expect("created");
    site(0).iter().for_each(|(path, json)| write_json(&source.join(path), json));
    for number in 0..pages {
        let json = if is_small { small_page(number) } else { page(number) };
        write_json(&source.join(format!("routes/{number}.json")), &json);
    }

    let files = timed("read files", || Files::from_directory(&source).expect("read"));
    let (parsed, mistakes) = timed("parse", || read(&files, &|_, _| {}));
    let compiled = timed("compile", || compile_source(&parsed, mistakes, 1, &|_, _| {}));
    let compiled = compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(&files)));
    drop((parsed, files));
    print_line(&format!("{} bytes", compiled.bytes.len()));
    let file = snapshots.join("bench.snapshot");
    timed("write", || parallax::testing::storage::write_atomic(&file, &compiled.bytes).expect("written"));
    drop(compiled);

    let (current, mut directory) =
        (CurrentCatalog::default(), SnapshotDirectory::new(SnapshotBudget::new(u64::MAX)));
    let touched = HashSet::from(["bench.snapshot".into()]);
    timed("check until served", || directory.scan(&snapshots, &touched, &current).expect("scanned"));
    assert_eq!(current.load().sites()[0].site().routes.len(), pages);
    let mut handler = Handler::new(Settings::default(), &current, Arc::new(UserAgentParser::new()));
    timed("serve 3 pages", || [0, pages / 2, pages - 1].map(|number| serve(&mut handler, number)));
}

/// Returns a page of 2 KB without variants.
fn small_page(number: usize) -> Value {
    let text = WordSequence(number as u32 + 1).text(280);
    json!({
        "path": format!("/page-{number}"),
        "layout": { "root": { "props": { "title": format!("Page {number}") } }, "zones": {
            "main": [{ "id": "m", "type": "Text", "props": { "title": "main", "text": text } }],
        } },
    })
}

/// Requests the page with this number, and asserts that it is served.
fn serve(handler: &mut Handler, number: usize) {
    let head =
        format!("GET /v1/resolve?site=bench&route=/page-{number}&anonId=a HTTP/1.1\r\nHost: a\r\n\r\n");
    let ParseOutcome::Complete(request, _) = parse(head.as_bytes(), None) else { panic!("{head}") };
    let (peer, received_at) = (IpAddr::V4(Ipv4Addr::LOCALHOST), instant());
    let meta = RequestMeta { peer, surface: Surface::Public, connection: 0, received_at };
    let mut out = Vec::new();
    handler.handle(&request, &meta, &mut out);
    let answer = String::from_utf8_lossy(&out);
    let title = format!("\"title\":\"Page {number}\"");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(&title), "{answer}");
}

fn write_json(path: &Path, json: &Value) {
    std::fs::write(path, json.to_string()).expect("written");
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let began = instant();
    let done = act();
    print_line(&format!("{what:<20} {:>8.1} ms", (instant() - began).as_secs_f64() * 1e3));
    done
}

fn print_line(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("standard output is open");
}

#[divan::bench(args = [10, 1_000], sample_count = 5, sample_size = 1)]
fn compile(bencher: Bencher, routes: usize) {
    let files = site(routes);
    bencher.bench_local(|| compiled(&files, 1).len());
}

#[divan::bench(args = [10, 1_000], sample_count = 20)]
fn open(bencher: Bencher, routes: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("bench.snapshot");
    std::fs::write(&file, compiled(&site(routes), 1)).expect("written");
    bencher.bench_local(|| {
        let opened = Snapshot::open(&file, &SnapshotBudget::new(u64::MAX)).expect("it opens");
        assert_eq!(opened.site().routes.len(), routes);
    });
}

/// Scans the directory, finds a new version, opens it and swaps the catalog.
#[divan::bench(args = [10, 1_000], sample_count = 20, sample_size = 2)]
fn swap(bencher: Bencher, routes: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("bench.snapshot");
    let versions = [compiled(&site(routes), 1), compiled(&site(routes), 2)];
    let current = CurrentCatalog::default();
    let mut directory = SnapshotDirectory::new(SnapshotBudget::new(u64::MAX));
    let touched = HashSet::from(["bench.snapshot".into()]);
    let mut turn = 0;
    bencher.bench_local(|| {
        turn += 1;
        parallax::testing::storage::write_atomic(&file, &versions[turn % 2]).expect("replaced");
        directory.scan(dir.path(), &touched, &current).expect("scanned");
        assert_eq!(current.load().sites()[0].version(), (turn % 2 + 1) as u64);
    });
}
