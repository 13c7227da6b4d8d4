//! Decoding: from the bytes of a body to its records, for one event of about 500 bytes and for batches of it.

#[path = "bench/decoding.rs"]
mod decoding;

use decoding::{DecodeBench, EVENT};
use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use parallax::testing::events::endpoint::EventEndpoint;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Decodes a body with this many events. With 0 the body is a single event and no batch.
#[divan::bench(args = [0, 1, 10, 1000])]
fn decode(bencher: Bencher, events: usize) {
    let body = match events {
        0 => EVENT.to_owned(),
        _ => format!("{{\"batch\":[{}]}}", vec![EVENT; events].join(",")),
    };
    let mut decoding = DecodeBench::new(body, EventEndpoint::Track);
    bencher.counter(ItemsCount::new(events.max(1))).bench_local(|| {
        assert_eq!(decoding.decode(), (events.max(1), EVENT.len() * events.max(1)));
    });
}
