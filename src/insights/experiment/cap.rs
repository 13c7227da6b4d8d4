//! The limit of the value of one visitor: none, an amount, or a quantile of the values themselves.
//!
//! One forged order must not decide a result. The values are kept until the quantile is known. If they take too
//! much memory, they are counted in buckets, a second pass keeps the values of one bucket, and a third one adds up.

use std::collections::BTreeMap;

use super::arms::HOLDOUT_NUMBER;
use crate::insights::questions::scan::{Limits, ScanError};
use crate::site::experiment_metrics::Cap;

/// The part of the memory for rows that may hold values: one of this many. It is as much as other questions use for the
/// values of lists.
const VALUES_SHARE: u64 = 4;
/// Memory of a kept value: the value, and its size while the quantile is selected.
const KEPT_BYTES: u64 = (size_of::<KeptValue>() + size_of::<u128>()) as u64;
/// Memory of a size of one bucket: an entry of a B-tree whose nodes are half full.
const SIZE_BYTES: u64 = 2 * (size_of::<u128>() + size_of::<u64>()) as u64;
/// Binary digits after the first one that tell buckets apart: values of one bucket differ by at most 1.6 %.
const BUCKET_DIGITS: u32 = 6;
/// A bucket for each first digit and the digits after it.
const BUCKETS: usize = (u128::BITS as usize) << BUCKET_DIGITS;

/// The value of a visitor, and the number of its arm.
struct KeptValue {
    arm: usize,
    units: i128,
}

/// The search for the limit of one metric.
pub(super) enum CapSearch {
    /// The limit is known before the visitors are counted. `None` for no limit.
    Known(Option<u128>),
    /// The values of all visitors are kept.
    Values(KeptValues),
    /// The values of one bucket are kept.
    Bucket(BucketValues),
}

/// The values of all visitors, until they take too much memory.
pub(super) struct KeptValues {
    thousandths: u16,
    values: Vec<KeptValue>,
    /// The number of values by bucket. The holdout is no arm, so its values are not counted.
    buckets: Vec<u64>,
    is_full: bool,
}

/// The sizes of the values of one bucket.
pub(super) struct BucketValues {
    bucket: usize,
    /// The rank of the limit among the values of the bucket.
    rank: u64,
    counts: BTreeMap<u128, u64>,
}

impl CapSearch {
    pub(super) fn new(cap: Cap) -> Self {
        match cap {
            Cap::None => Self::Known(None),
            Cap::Units(units) => Self::Known(Some(u128::from(units.unsigned_abs()))),
            Cap::Quantile(thousandths) => Self::Values(KeptValues {
                thousandths,
                values: Vec::new(),
                buckets: vec![0; BUCKETS],
                is_full: false,
            }),
        }
    }

    /// Forgets the values, because the visitors are counted again.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Known(_) => {}
            Self::Values(kept) => {
                (kept.values, kept.is_full) = (Vec::new(), false);
                kept.buckets.fill(0);
            }
            Self::Bucket(bucket) => bucket.counts.clear(),
        }
    }

    /// Adds the value of a visitor. A value of 0 is below every limit.
    ///
    /// # Errors
    /// The values of one bucket take too much memory.
    pub(super) fn add(&mut self, arm: usize, units: i128, limits: &Limits<'_>) -> Result<(), ScanError> {
        let bytes_max = limits.memory_bytes / VALUES_SHARE;
        match self {
            _ if units == 0 => {}
            Self::Known(_) => {}
            Self::Values(kept) => {
                if arm != HOLDOUT_NUMBER {
                    kept.buckets[bucket_of(units.unsigned_abs())] += 1;
                }
                kept.is_full |= (kept.values.len() as u64 + 1) * KEPT_BYTES > bytes_max;
                match kept.is_full {
                    true => kept.values = Vec::new(),
                    false => kept.values.push(KeptValue { arm, units }),
                }
            }
            Self::Bucket(bucket) => {
                let size = units.unsigned_abs();
                if arm != HOLDOUT_NUMBER && bucket_of(size) == bucket.bucket {
                    *bucket.counts.entry(size).or_default() += 1;
                }
                // One size always fits, so that equal values never exceed the memory.
                if bucket.counts.len() as u64 * SIZE_BYTES > bytes_max.max(SIZE_BYTES) {
                    return Err(ScanError::TooLarge);
                }
            }
        }
        Ok(())
    }

    /// Returns the limit if the visitors have told it. Otherwise they must be counted again with the next search.
    pub(super) fn finish(&mut self) -> Result<Option<u128>, Self> {
        match self {
            Self::Known(limit) => Ok(*limit),
            Self::Values(kept) if !kept.is_full => Ok(kept.limit()),
            Self::Values(kept) => Err(kept.search_bucket()),
            Self::Bucket(bucket) => Err(Self::Known(bucket.limit())),
        }
    }

    /// Passes the kept values to `add`: the number of the arm, and the value.
    pub(super) fn each_value(&self, mut add: impl FnMut(usize, i128)) {
        if let Self::Values(kept) = self {
            kept.values.iter().for_each(|value| add(value.arm, value.units));
        }
    }
}

impl KeptValues {
    fn limit(&self) -> Option<u128> {
        let in_arms = self.values.iter().filter(|value| value.arm != HOLDOUT_NUMBER);
        let mut sizes: Vec<u128> = in_arms.map(|value| value.units.unsigned_abs()).collect();
        let at = rank(self.thousandths, sizes.len() as u64)?.checked_sub(1)?;
        Some(*sizes.select_nth_unstable(at as usize).1)
    }

    /// Returns the search in the bucket that has the limit.
    fn search_bucket(&self) -> CapSearch {
        let Some(mut rank) = rank(self.thousandths, self.buckets.iter().sum()) else {
            return CapSearch::Known(None);
        };
        for (bucket, count) in self.buckets.iter().enumerate() {
            if rank <= *count {
                return CapSearch::Bucket(BucketValues { bucket, rank, counts: BTreeMap::new() });
            }
            rank -= count;
        }
        CapSearch::Known(None)
    }
}

impl BucketValues {
    fn limit(&self) -> Option<u128> {
        let mut rank = self.rank;
        for (size, count) in &self.counts {
            if rank <= *count {
                return Some(*size);
            }
            rank -= count;
        }
        None
    }
}

/// Returns the rank of the limit among this many values, beginning with 1 for the smallest. It is below the number of
/// values, so that the largest value never sets its own limit. One value alone has no limit.
fn rank(thousandths: u16, values: u64) -> Option<u64> {
    let rank = (u128::from(thousandths) * u128::from(values)).div_ceil(1_000);
    Some((rank as u64).min(values.saturating_sub(1))).filter(|rank| *rank > 0)
}

/// Returns the bucket of a size above 0. Larger sizes have the same bucket or a later one.
fn bucket_of(size: u128) -> usize {
    let digit = size.ilog2();
    let after = match digit.checked_sub(BUCKET_DIGITS) {
        Some(shift) => size >> shift,
        None => size << (BUCKET_DIGITS - digit),
    };
    ((digit as usize) << BUCKET_DIGITS) | (after as usize & ((1 << BUCKET_DIGITS) - 1))
}
