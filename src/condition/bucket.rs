//! Assignment of visitors to shares: GrowthBook's hash, ranges, weights and namespaces.
//!
//! A seed and an ID give a number from 0 to 1 (1 excluded), which never changes and is the same on every
//! machine. Nothing here allocates. Texts are hashed by their UTF-16 code units, as in GrowthBook's SDKs.

/// A range of numbers from 0 to 1, with its start included and its end excluded.
pub(crate) type BucketRange = (f64, f64);

/// The number of results of version 2 of [`hash`].
const BUCKETS: u32 = 10_000;
/// Most digits after the point of a number that [`without_residue`] rounds to.
const DIGITS_MAX: usize = 12;
/// Largest residue of a sum of shares. Each of 64 additions of numbers up to 1 is off by at most 1.2e-16.
pub(crate) const RESIDUE_MAX: f64 = 1e-14;

/// Returns the number of `value` under `seed_parts`. The parts of the seed count as one text, so
/// `["__", namespace]` needs no concatenation.
///
/// Version 1 has a thousand distinct results and is for namespaces. Version 2 has ten thousand, and different
/// seeds give independent results. Returns `None` for any other version.
pub fn hash(seed_parts: &[&str], value: &str, version: u8) -> Option<f64> {
    match version {
        1 => {
            let hash = seed_parts.iter().fold(Fnv::OFFSET_BASIS.add(value), |hash, part| hash.add(part));
            Some(f64::from(hash.0 % 1_000) / 1_000.0)
        }
        2 => {
            let after_seed = seed_parts.iter().fold(Fnv::OFFSET_BASIS, |hash, part| hash.add(part));
            Some(hash_after_seed(after_seed.0, value))
        }
        _ => None,
    }
}

/// Returns the FNV-1a state after the seed. [`hash_after_seed`] continues from it.
pub fn seed_hash(seed: &str) -> u32 {
    Fnv::OFFSET_BASIS.add(seed).0
}

/// Returns version 2 of [`hash`] for `value`, under a seed with this [`seed_hash`].
pub fn hash_after_seed(seed_hash: u32, value: &str) -> f64 {
    number_of(Fnv(seed_hash).add(value).rehash_decimal().0 % BUCKETS)
}

fn number_of(bucket: u32) -> f64 {
    f64::from(bucket) / f64::from(BUCKETS)
}

/// Returns the ranges of an experiment's variants in order. The length of a range is its weight times the
/// coverage. Its start is the same as with full coverage, so a higher coverage never moves a visitor from one
/// variant to another.
///
/// The coverage is clamped to 0..=1. The weights count as equal if their number differs from `variant_count` or if
/// their sum is not within 0.01 of 1.
pub fn bucket_ranges(
    variant_count: usize,
    coverage: f64,
    weights: Option<&[f64]>,
) -> impl Iterator<Item = BucketRange> {
    let coverage = coverage.clamp(0.0, 1.0);
    let weights = weights.filter(|weights| weights.len() == variant_count && sum_to_one(weights));
    let equal = equal_weights(if weights.is_some() { 0 } else { variant_count });
    ranges_of_weights(weights.unwrap_or_default().iter().copied().chain(equal), coverage)
}

/// Returns [`bucket_ranges`] of valid weights and a valid coverage.
pub(crate) fn ranges_of_weights(
    weights: impl IntoIterator<Item = f64>,
    coverage: f64,
) -> impl Iterator<Item = BucketRange> {
    let mut end = 0.0;
    weights.into_iter().map(move |weight| {
        let start = end;
        end += weight;
        (start, start + coverage * weight)
    })
}

fn sum_to_one(weights: &[f64]) -> bool {
    (0.99..=1.01).contains(&weights.iter().sum::<f64>())
}

/// Returns the same weight for each variant.
pub fn equal_weights(variant_count: usize) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(1.0 / variant_count as f64, variant_count)
}

/// Returns a sum or a difference of shares as a person would write it: 0.3 for 0.1 + 0.2. A number that is not so close
/// to a short decimal number stays as it is. Never returns -0, which is the sum of no `f64` and a rounded residue below
/// 0, because a person would not write it.
pub(crate) fn without_residue(number: f64) -> f64 {
    let short = format!("{number:.DIGITS_MAX$}").parse().unwrap_or(number);
    let written = if f64::abs(short - number) < RESIDUE_MAX { short } else { number };
    // -0 + 0 is 0.
    written + 0.0
}

/// Returns the share of each range in the numbers of version 2 of [`hash`] that are in any range. A range holds a whole number
/// of the ten thousand: three equal arms have 34, 33 and 33 of them at a coverage of 0.01. All are 0 if no number is in a range.
pub fn bucket_shares(ranges: impl Iterator<Item = BucketRange>) -> Vec<f64> {
    let first_bucket = |end: f64| {
        let near = (end * f64::from(BUCKETS)) as u32;
        (near.saturating_sub(1)..BUCKETS).find(|bucket| number_of(*bucket) >= end).unwrap_or(BUCKETS)
    };
    let counts: Vec<u32> = ranges.map(|(start, end)| first_bucket(end) - first_bucket(start)).collect();
    let total = counts.iter().sum::<u32>().max(1);
    counts.iter().map(|count| f64::from(*count) / f64::from(total)).collect()
}

/// Returns the index of the first range that contains `bucket`.
pub fn choose_variation(bucket: f64, ranges: impl IntoIterator<Item = BucketRange>) -> Option<usize> {
    ranges.into_iter().position(|range| in_range(bucket, range))
}

/// Returns whether the ID is in this range of a namespace.
pub fn in_namespace(id: &str, namespace: &str, range: BucketRange) -> bool {
    hash(&["__", namespace], id, 1).is_some_and(|number| in_range(number, range))
}

fn in_range(bucket: f64, (start, end): BucketRange) -> bool {
    start <= bucket && bucket < end
}

/// An incremental 32-bit FNV-1a hash.
#[derive(Clone, Copy)]
struct Fnv(u32);

impl Fnv {
    const OFFSET_BASIS: Fnv = Fnv(0x811c_9dc5);
    const PRIME: u32 = 0x0100_0193;

    fn add(self, text: &str) -> Self {
        // The bytes of an ASCII text are its UTF-16 code units, and are read faster.
        if text.is_ascii() {
            self.add_units(text.bytes().map(u16::from))
        } else {
            self.add_units(text.encode_utf16())
        }
    }

    fn add_units(self, units: impl Iterator<Item = u16>) -> Self {
        Fnv(units.fold(self.0, |hash, unit| (hash ^ u32::from(unit)).wrapping_mul(Self::PRIME)))
    }

    /// Returns the hash of this hash's decimal digits.
    fn rehash_decimal(self) -> Self {
        Fnv::OFFSET_BASIS.add_units(itoa::Buffer::new().format(self.0).bytes().map(u16::from))
    }
}
