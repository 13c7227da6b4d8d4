//! From the bytes of a body to its records: one event of some 500 bytes, and batches of it.

#[path = "bench/decoding.rs"]
mod decoding;

use decoding::{Decoding, EVENT};
use divan::{AllocProfiler, Bencher, counter::ItemsCount};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// So many events in one body; 0 is an event that is no batch.
#[divan::bench(args = [0, 1, 10, 1000])]
fn decode(bencher: Bencher, events: usize) {
    let body = match events {
        0 => EVENT.to_owned(),
        _ => format!("{{\"batch\":[{}]}}", vec![EVENT; events].join(",")),
    };
    let mut decoding = Decoding::new(body);
    bencher.counter(ItemsCount::new(events.max(1))).bench_local(|| {
        assert_eq!(decoding.decode(), (events.max(1), EVENT.len() * events.max(1)));
    });
}
