//! Publishing: time from a site directory to a snapshot, and from a snapshot file to the served catalog.
//!
//! `cargo bench --bench publish`. Opening a snapshot means sealing, mapping, hashing and verifying it.

#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/site.rs"]
mod site;

use std::collections::HashSet;

use compiled::compiled;
use divan::Bencher;
use parallax::testing::site::catalog::catalog::CurrentCatalog;
use parallax::testing::site::catalog::directory::SnapshotDirectory;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use site::site;

fn main() {
    divan::main();
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
