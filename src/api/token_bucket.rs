//! Token buckets of fixed number, shared by all workers without a lock.
//!
//! A bucket holds the tokens of one second and fills at an even rate. Its state is one number: the time of
//! its next full state (the "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371).
//! So a request costs one compare-and-swap. When a set of buckets is full, the bucket that is nearest to full
//! is reused: it belongs to the client with the fewest recent requests. So many addresses cannot free the
//! bucket of a client over its limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Instant;
use crate::limits::RATE_LIMIT_BUCKETS_MAX;

/// Number of buckets in the set in which one key is looked up: two cache lines.
const RATE_LIMIT_SET_BUCKETS: usize = 8;

const SECOND_NS: u64 = 1_000_000_000;

/// A rate limit, and the bucket of each client.
#[derive(Debug)]
pub struct RateLimiter {
    /// Time between two tokens, in nanoseconds.
    interval_ns: u64,
    start: Instant,
    /// Random, so that clients cannot choose keys that share a set.
    seed: u64,
    sets: Box<[[Bucket; RATE_LIMIT_SET_BUCKETS]]>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The hash of the client; 0 if the bucket is unused.
    key: AtomicU64,
    /// Time at which the bucket is full again, in nanoseconds since `start`.
    full_at_ns: AtomicU64,
}

impl RateLimiter {
    /// Creates a limit of `requests_per_second` requests (at least 1), with a burst of the same size. Times count from `start`.
    pub fn new(requests_per_second: u32, start: Instant, seed: u64) -> Self {
        let interval_ns = (SECOND_NS / u64::from(requests_per_second.max(1))).max(1);
        let sets = (0..RATE_LIMIT_BUCKETS_MAX / RATE_LIMIT_SET_BUCKETS).map(|_| Default::default()).collect();
        Self { interval_ns, start, seed, sets }
    }

    /// Takes a token from the bucket of `key`.
    ///
    /// # Errors
    /// Returns the time until the next token if the bucket is empty.
    pub fn take(&self, key: u64, now: Instant) -> Result<(), Duration> {
        let now_ns = now.duration_since(self.start).as_nanos() as u64;
        let bucket = self.bucket(key, now_ns);
        let mut wait_ns = 0;
        let taken = bucket.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ns| {
            let missing_ns = full_at_ns.saturating_sub(now_ns);
            wait_ns = (missing_ns + self.interval_ns).saturating_sub(SECOND_NS.max(self.interval_ns));
            (wait_ns == 0).then_some(now_ns + missing_ns + self.interval_ns)
        });
        taken.map(drop).map_err(|_| Duration::from_nanos(wait_ns))
    }

    /// Returns the bucket of `key`. If there is none, it reuses the bucket of the set that is nearest to full.
    fn bucket(&self, key: u64, now_ns: u64) -> &Bucket {
        let key = mix(key ^ self.seed).max(1);
        let set = &self.sets[key as usize % self.sets.len()];
        let own = set.iter().find(|bucket| bucket.key.load(Ordering::Relaxed) == key);
        own.unwrap_or_else(|| {
            let nearest = set.iter().min_by_key(|bucket| bucket.full_at_ns.load(Ordering::Relaxed));
            let nearest = nearest.unwrap_or(&set[0]);
            // Two threads that do this at once allow at most one request too many.
            nearest.full_at_ns.store(now_ns, Ordering::Relaxed);
            nearest.key.store(key, Ordering::Relaxed);
            nearest
        })
    }
}

/// A bijection that spreads keys over the sets (the finalizer of SplitMix64).
fn mix(key: u64) -> u64 {
    let z = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
