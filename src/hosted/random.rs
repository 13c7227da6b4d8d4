//! Bits from a seed of the host, in place of those of the kernel. They are for request IDs, which need not be secret.

use std::sync::atomic::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0);

/// Sets the seed.
pub fn seed(seed: u64) {
    STATE.store(seed, Ordering::Relaxed);
}

/// Returns the next 64 bits.
pub(crate) fn random_u64() -> u64 {
    // An odd step, so that no state repeats before all others.
    STATE.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
}
