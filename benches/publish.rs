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
use std::path::Path;

use compiled::compiled;
use divan::Bencher;
use parallax::testing::clock::instant;
use parallax::testing::site::catalog::catalog::CurrentCatalog;
use parallax::testing::site::catalog::directory::SnapshotDirectory;
use parallax::testing::site::compile::compile as compile_source;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::Value;
use site::{page, site, small_page};

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
