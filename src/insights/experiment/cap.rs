//! The limit of the value of a visitor. The limit is an amount, or a quantile of the values of all visitors. A question
//! can also have no limit.
//!
//! If values had no limit, one forged order could decide a result. A quantile is known only after all values are read.
//! If the values take too much memory, the count needs three passes over the visitors. The first pass counts the number
//! of values in each bucket. The second pass counts the values of the bucket that has the quantile. The third pass adds
//! up the limited values.

use std::collections::BTreeMap;

use super::arms::HOLDOUT_NUMBER;
use super::visitor::VisitorValue;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::site::experiment_metrics::Cap;

/// The memory for the kept values is the memory for rows divided by this number. So the kept values get one eighth of
/// the memory of Insights.
const VALUES_SHARE: u64 = 4;
/// Memory of one kept value, in bytes. It includes the copy of the magnitude that the selection of the quantile needs.
const KEPT_BYTES: u64 = (size_of::<KeptValue>() + size_of::<u128>()) as u64;
/// Memory of one magnitude in [`BucketValues`], in bytes. A magnitude is an entry of a B-tree, and the nodes of a
/// B-tree can be half empty.
const MAGNITUDE_BYTES: u64 = 2 * (size_of::<u128>() + size_of::<u64>()) as u64;
/// The bucket of a value depends on the position of the first binary digit that is 1, and on this many digits after
/// this digit. So two values in one bucket differ by at most 1.6 %.
const BUCKET_DIGITS: u32 = 6;
/// The number of buckets.
const BUCKETS: usize = (u128::BITS as usize) << BUCKET_DIGITS;

/// The value of a visitor, and the number of its arm.
struct KeptValue {
    arm: usize,
    value: VisitorValue,
}

/// The search for the limit of one metric.
pub(super) enum CapSearch {
    /// The limit is known before the visitors are counted. `None` if the question has no limit.
    Known(Option<u128>),
    /// The search keeps the values of all visitors.
    Values(KeptValues),
    /// The search keeps the values of one bucket.
    Bucket(BucketValues),
}

/// The values of all visitors. If the values take too much memory, only the number of values in each bucket.
pub(super) struct KeptValues {
    thousandths: u16,
    values: Vec<KeptValue>,
    /// The number of values in each bucket. The values of the holdout are not included, because the holdout is no arm.
    buckets: Vec<u64>,
    /// True if the values have exceeded their memory. Then `values` is empty.
    is_full: bool,
}

/// The values of one bucket.
pub(super) struct BucketValues {
    bucket: usize,
    /// The rank of the limit among the values of the bucket. The smallest value has the rank 1.
    rank: u64,
    /// The number of values with each magnitude.
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

    /// Drops the values. The caller then counts all visitors again.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Known(_) => {}
            Self::Values(kept) => {
                kept.values = Vec::new();
                kept.is_full = false;
                kept.buckets.fill(0);
            }
            Self::Bucket(bucket) => bucket.counts.clear(),
        }
    }

    /// Adds the value of a visitor. Ignores the value 0, because 0 is below every limit. The value before the first exposure
    /// is limited too, but does not decide the limit.
    ///
    /// # Errors
    /// The values of one bucket take too much memory.
    pub(super) fn add(
        &mut self,
        arm_number: usize,
        value: VisitorValue,
        limits: &Limits<'_>,
    ) -> Result<(), ScanError> {
        let magnitude = value.units.unsigned_abs();
        if magnitude == 0 && value.before_units == 0 {
            return Ok(());
        }
        let decides = magnitude != 0 && arm_number != HOLDOUT_NUMBER;
        let bytes_max = limits.memory_bytes / VALUES_SHARE;
        match self {
            Self::Known(_) => {}
            Self::Values(kept) => {
                if decides {
                    kept.buckets[bucket_of(magnitude)] += 1;
                }
                kept.is_full |= (kept.values.len() as u64 + 1) * KEPT_BYTES > bytes_max;
                match kept.is_full {
                    true => kept.values = Vec::new(),
                    false => kept.values.push(KeptValue { arm: arm_number, value }),
                }
            }
            Self::Bucket(bucket) => {
                if decides && bucket_of(magnitude) == bucket.bucket {
                    *bucket.counts.entry(magnitude).or_default() += 1;
                }
                // One magnitude always fits. So equal values never exceed the memory.
                if bucket.counts.len() as u64 * MAGNITUDE_BYTES > bytes_max.max(MAGNITUDE_BYTES) {
                    return Err(ScanError::TooLarge);
                }
            }
        }
        Ok(())
    }

    /// Returns the limit. The caller calls this function after it has added all visitors of a pass.
    ///
    /// # Errors
    /// If the limit is still unknown, returns the search that the next pass needs.
    pub(super) fn finish(&mut self) -> Result<Option<u128>, Self> {
        match self {
            Self::Known(limit) => Ok(*limit),
            Self::Values(kept) if !kept.is_full => Ok(kept.limit()),
            Self::Values(kept) => Err(kept.search_bucket()),
            Self::Bucket(bucket) => Err(Self::Known(bucket.limit())),
        }
    }

    /// Passes each kept value to `add`. The arguments are the arm number and, after it, the value.
    pub(super) fn each_value(&self, mut add: impl FnMut(usize, VisitorValue)) {
        if let Self::Values(kept) = self {
            kept.values.iter().for_each(|kept| add(kept.arm, kept.value));
        }
    }
}

impl KeptValues {
    fn limit(&self) -> Option<u128> {
        let in_arms = self.values.iter().filter(|kept| kept.arm != HOLDOUT_NUMBER);
        let magnitudes = in_arms.map(|kept| kept.value.units.unsigned_abs());
        let mut magnitudes: Vec<u128> = magnitudes.filter(|magnitude| *magnitude != 0).collect();
        let index = rank(self.thousandths, magnitudes.len() as u64)?.checked_sub(1)?;
        Some(*magnitudes.select_nth_unstable(index as usize).1)
    }

    /// Returns the search for the limit in the bucket that has the limit.
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
        for (magnitude, count) in &self.counts {
            if rank <= *count {
                return Some(*magnitude);
            }
            rank -= count;
        }
        None
    }
}

/// Returns the rank of the limit among this many values. The smallest value has the rank 1. The largest value is never
/// the limit. Such a limit would limit no value. If there are fewer than two values, returns `None`.
fn rank(quantile_thousandths: u16, value_count: u64) -> Option<u64> {
    let rank = (u128::from(quantile_thousandths) * u128::from(value_count)).div_ceil(1_000);
    Some((rank as u64).min(value_count.saturating_sub(1))).filter(|rank| *rank > 0)
}

/// Returns the bucket of a magnitude above 0. Buckets are in the order of their magnitudes.
fn bucket_of(magnitude: u128) -> usize {
    let first_digit = magnitude.ilog2();
    let digits = match first_digit.checked_sub(BUCKET_DIGITS) {
        Some(shift) => magnitude >> shift,
        None => magnitude << (BUCKET_DIGITS - first_digit),
    };
    ((first_digit as usize) << BUCKET_DIGITS) | (digits as usize & ((1 << BUCKET_DIGITS) - 1))
}
