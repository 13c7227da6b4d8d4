//! Token buckets, against an obvious one: tokens, and the time since they were last filled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parallax::api::token_bucket::Throttle;
use parallax::limits::THROTTLED_MAX;
use proptest::prelude::*;

/// Tokens in billionths, so that nothing is rounded.
struct Bucket {
    tokens: u64,
    filled_ns: u64,
}

const TOKEN: u64 = 1_000_000_000;

impl Bucket {
    fn take(&mut self, rate: u64, now_ns: u64) -> bool {
        self.tokens = (self.tokens + rate * (now_ns - self.filled_ns)).min(rate * TOKEN);
        self.filled_ns = now_ns;
        let has = self.tokens >= TOKEN;
        self.tokens -= if has { TOKEN } else { 0 };
        has
    }
}

proptest! {
    #[test]
    fn a_bucket_gives_what_an_obvious_one_gives(
        // Rates whose interval is a whole number of nanoseconds, so that both count alike.
        rate in prop::sample::select(vec![1_u64, 2, 5, 10, 100, 1_000]),
        steps in prop::collection::vec((0_u64..4, 0_u64..1_500_000_000), 1..300),
        seed: u64,
    ) {
        let begun = Instant::now();
        let throttle = Throttle::new(rate as u32, begun, seed);
        let mut buckets = HashMap::new();
        let mut now_ns = 0;
        for (key, step_ns) in steps {
            // Mostly many at once, at times a pause.
            now_ns += if step_ns % 4 == 0 { step_ns } else { step_ns % 1_000 };
            let bucket = buckets.entry(key).or_insert(Bucket { tokens: rate * TOKEN, filled_ns: now_ns });
            let expected = bucket.take(rate, now_ns);
            let taken = throttle.take(key, begun + Duration::from_nanos(now_ns));
            prop_assert_eq!(taken.is_ok(), expected, "key {} at {} ns", key, now_ns);
            if let Err(wait) = taken {
                prop_assert!(wait > Duration::ZERO && wait <= Duration::from_nanos(TOKEN / rate));
                let early = Duration::from_nanos(now_ns) + wait - Duration::from_nanos(1);
                prop_assert!(throttle.take(key, begun + early).is_err(), "not a moment sooner than was said");
            }
        }
    }
}

#[test]
fn a_crowd_does_not_free_one_that_asks_too_much() {
    let begun = Instant::now();
    let throttle = Throttle::new(10, begun, 7);
    let now = begun + Duration::from_secs(1);
    (0..10).for_each(|_| assert!(throttle.take(u64::MAX, now).is_ok()));
    assert!(throttle.take(u64::MAX, now).is_err());
    // Ten times as many others as there are places, each of which asks once.
    for other in 0..10 * THROTTLED_MAX as u64 {
        assert!(throttle.take(other, now).is_ok(), "who asks for the first time is not refused");
    }
    assert!(throttle.take(u64::MAX, now).is_err());
}

#[test]
fn threads_that_ask_at_once_get_no_more_than_one_would() {
    let begun = Instant::now();
    let throttle = Throttle::new(1_000, begun, 7);
    throttle.take(1, begun).expect("the first");
    let taken: usize = std::thread::scope(|scope| {
        let ask = || (0..1_000).filter(|_| throttle.take(1, begun).is_ok()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    });
    assert_eq!(taken, 999);
}
