//! Token buckets, compared with a naive one: tokens, and the time of the last refill.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parallax::testing::api::token_bucket::RateLimiter;
use parallax::testing::limits::RATE_LIMIT_BUCKETS_MAX;
use proptest::prelude::*;

/// A naive token bucket. Tokens are counted in billionths, so that nothing is rounded.
struct Bucket {
    tokens: u64,
    filled_ns: u64,
}

const TOKEN: u64 = 1_000_000_000;

impl Bucket {
    fn take(&mut self, rate: u64, now_ns: u64) -> bool {
        self.tokens = (self.tokens + rate * (now_ns - self.filled_ns)).min(rate * TOKEN);
        self.filled_ns = now_ns;
        let has_token = self.tokens >= TOKEN;
        self.tokens -= if has_token { TOKEN } else { 0 };
        has_token
    }
}

proptest! {
    #[test]
    fn a_bucket_matches_a_naive_bucket(
        // The interval of each rate is a whole number of nanoseconds, so that both buckets count alike.
        rate in prop::sample::select(vec![1_u64, 2, 5, 10, 100, 1_000]),
        steps in prop::collection::vec((0_u64..4, 0_u64..1_500_000_000), 1..300),
        seed: u64,
    ) {
        let start = Instant::now();
        let limiter = RateLimiter::new(rate as u32, start, seed);
        let mut buckets = HashMap::new();
        let mut now_ns = 0;
        for (key, step_ns) in steps {
            // Most steps are short, and some are long pauses.
            now_ns += if step_ns % 4 == 0 { step_ns } else { step_ns % 1_000 };
            let bucket = buckets.entry(key).or_insert(Bucket { tokens: rate * TOKEN, filled_ns: now_ns });
            let expected = bucket.take(rate, now_ns);
            let taken = limiter.take(key, start + Duration::from_nanos(now_ns));
            prop_assert_eq!(taken.is_ok(), expected, "key {} at {} ns", key, now_ns);
            if let Err(wait) = taken {
                prop_assert!(wait > Duration::ZERO && wait <= Duration::from_nanos(TOKEN / rate));
                let early = Duration::from_nanos(now_ns) + wait - Duration::from_nanos(1);
                prop_assert!(limiter.take(key, start + early).is_err(), "the reported time is too late");
            }
        }
    }
}

#[test]
fn a_crowd_does_not_free_a_client_over_its_limit() {
    let start = Instant::now();
    let limiter = RateLimiter::new(10, start, 7);
    let now = start + Duration::from_secs(1);
    (0..10).for_each(|_| assert!(limiter.take(u64::MAX, now).is_ok()));
    assert!(limiter.take(u64::MAX, now).is_err());
    // Ten times as many other clients as there are buckets. Each of them asks once.
    for other in 0..10 * RATE_LIMIT_BUCKETS_MAX as u64 {
        assert!(limiter.take(other, now).is_ok(), "the first request of a client is not refused");
    }
    assert!(limiter.take(u64::MAX, now).is_err());
}

#[test]
fn concurrent_threads_get_no_more_tokens_than_one() {
    let start = Instant::now();
    let limiter = RateLimiter::new(1_000, start, 7);
    limiter.take(1, start).expect("the first token");
    let taken: usize = std::thread::scope(|scope| {
        let ask = || (0..1_000).filter(|_| limiter.take(1, start).is_ok()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends")).sum()
    });
    assert_eq!(taken, 999);
}
