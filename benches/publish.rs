//! How long from a folder to a file, and from a file to what is served?
//!
//! `cargo bench --bench publish`. Opening is sealing, mapping, hashing and checking.

#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/site.rs"]
mod site;

use std::collections::HashSet;

use compiled::compiled;
use divan::Bencher;
use parallax::site::catalog::catalog::Current;
use parallax::site::catalog::directory::Shelf;
use parallax::site::snapshot::open::{Budget, Snapshot};
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
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("bench.snapshot");
    std::fs::write(&file, compiled(&site(routes), 1)).expect("written");
    bencher.bench_local(|| {
        let opened = Snapshot::open(&file, &Budget::new(u64::MAX)).expect("it opens");
        assert_eq!(opened.site().routes.len(), routes);
    });
}

/// A scan that finds a new version, opens it and swaps the catalog.
#[divan::bench(args = [10, 1_000], sample_count = 20, sample_size = 2)]
fn swap(bencher: Bencher, routes: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("bench.snapshot");
    let versions = [compiled(&site(routes), 1), compiled(&site(routes), 2)];
    let current = Current::default();
    let mut shelf = Shelf::new(Budget::new(u64::MAX));
    let touched = HashSet::from(["bench.snapshot".into()]);
    let mut turn = 0;
    bencher.bench_local(|| {
        turn += 1;
        parallax::storage::replace(&file, &versions[turn % 2]).expect("replaced");
        shelf.scan(folder.path(), &touched, &current).expect("scanned");
        assert_eq!(current.load().sites()[0].version(), (turn % 2 + 1) as u64);
    });
}
