//! Token buckets: who asked more often than the operator allows. Shared by all workers, without a lock, in a table of fixed size.
//!
//! A bucket holds a second's worth of requests and fills at an even rate. What is kept of one is a single number, the moment at
//! which it is full again (the "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371), so that a request
//! costs one compare-and-swap. Where the table is full the bucket that is nearest to being full is forgotten, which is the one
//! whose owner asked least: a crowd of addresses does not free one that asks too much.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{THROTTLE_SET, THROTTLED_MAX};

const SECOND_NS: u64 = 1_000_000_000;

/// A rate, and who has used how much of it.
#[derive(Debug)]
pub struct Throttle {
    /// Between two tokens.
    interval_ns: u64,
    begun: Instant,
    /// Keeps anybody from choosing keys that meet in one set.
    seed: u64,
    sets: Box<[[Bucket; THROTTLE_SET]]>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Its owner; 0: nobody yet.
    key: AtomicU64,
    /// When it is full again, in nanoseconds since the throttle began.
    full_at_ns: AtomicU64,
}

impl Throttle {
    /// So many requests a second, at least 1, and as many at once; times are counted from `begun`, `seed` is random.
    pub fn new(per_second: u32, begun: Instant, seed: u64) -> Self {
        let interval_ns = (SECOND_NS / u64::from(per_second.max(1))).max(1);
        let sets = (0..THROTTLED_MAX / THROTTLE_SET).map(|_| Default::default()).collect();
        Self { interval_ns, begun, seed, sets }
    }

    /// Takes a token out of the bucket of `key`.
    ///
    /// # Errors
    /// There is none; the time until there is.
    pub fn take(&self, key: u64, now: Instant) -> Result<(), Duration> {
        let now_ns = now.duration_since(self.begun).as_nanos() as u64;
        let bucket = self.bucket(key, now_ns);
        let mut wait_ns = 0;
        let taken = bucket.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ns| {
            let missing_ns = full_at_ns.saturating_sub(now_ns);
            wait_ns = (missing_ns + self.interval_ns).saturating_sub(SECOND_NS.max(self.interval_ns));
            (wait_ns == 0).then_some(now_ns + missing_ns + self.interval_ns)
        });
        taken.map(drop).map_err(|_| Duration::from_nanos(wait_ns))
    }

    /// The bucket of `key`, where it has one; else a full one, or the one that is nearest to full.
    fn bucket(&self, key: u64, now_ns: u64) -> &Bucket {
        let key = mixed(key ^ self.seed).max(1);
        let set = &self.sets[key as usize % self.sets.len()];
        let own = set.iter().find(|bucket| bucket.key.load(Ordering::Relaxed) == key);
        own.unwrap_or_else(|| {
            let nearest = set.iter().min_by_key(|bucket| bucket.full_at_ns.load(Ordering::Relaxed));
            let nearest = nearest.unwrap_or(&set[0]);
            // Two threads that do this at once give a request too many away, no more.
            nearest.full_at_ns.store(now_ns, Ordering::Relaxed);
            nearest.key.store(key, Ordering::Relaxed);
            nearest
        })
    }
}

/// A bijection that spreads keys over the sets (the finalizer of SplitMix64).
fn mixed(key: u64) -> u64 {
    let z = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
