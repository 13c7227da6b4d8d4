//! Assignment of visitors to shares: GrowthBook's hash, ranges, weights and namespaces.
//!
//! A seed and an ID give a number from 0 to 1 (1 excluded), which never changes and is the same on every
//! machine. Nothing here allocates. Texts are hashed by their UTF-16 code units, as in GrowthBook's SDKs.

/// A range of numbers from 0 to 1, with its start included and its end excluded.
pub(crate) type BucketRange = (f64, f64);

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
    f64::from(Fnv(seed_hash).add(value).rehash_decimal().0 % 10_000) / 10_000.0
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
    let mut end = 0.0;
    weights.unwrap_or_default().iter().copied().chain(equal).map(move |weight| {
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
