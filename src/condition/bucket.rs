//! Who falls into which share of the visitors: GrowthBook's hash, ranges, weights and namespaces.
//!
//! In come a seed and an ID, out goes a number in 0..1 that is the same on every machine, for ever.
//! Nothing here allocates. Texts are hashed by their UTF-8 bytes.

/// A share of the numbers from 0 to 1: its start belongs to it, its end does not.
pub type Range = (f64, f64);

/// The number of `value` under `seed`, whose parts count as one text: `["__", namespace]` saves
/// joining them.
///
/// Version 1 has a thousand different numbers and is for namespaces; version 2 has ten thousand
/// and does not let seeds influence each other. Any other version has none.
pub fn hash(seed: &[&str], value: &str, version: u8) -> Option<f64> {
    match version {
        1 => {
            let hash = seed.iter().fold(Fnv::START.add(value), |hash, part| hash.add(part));
            Some(f64::from(hash.0 % 1_000) / 1_000.0)
        }
        2 => {
            let inner = seed.iter().fold(Fnv::START, |hash, part| hash.add(part)).add(value);
            Some(f64::from(inner.of_own_digits().0 % 10_000) / 10_000.0)
        }
        _ => None,
    }
}

/// The ranges of an experiment's variants, in their order: each as long as its weight times the
/// coverage, each beginning where it would with full coverage, so that raising the coverage moves
/// nobody from one variant to another.
///
/// Coverage is taken as 0..=1. Weights that are not as many as the variants, or whose sum is not
/// within 0.01 of 1, are taken as equal.
pub fn bucket_ranges(variants: usize, coverage: f64, weights: Option<&[f64]>) -> impl Iterator<Item = Range> {
    let coverage = coverage.clamp(0.0, 1.0);
    let weights = weights.filter(|weights| weights.len() == variants && sum_to_one(weights));
    let equal = equal_weights(if weights.is_some() { 0 } else { variants });
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

/// The same weight for each of the variants.
pub fn equal_weights(variants: usize) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(1.0 / variants as f64, variants)
}

/// The index of the first range that `number` lies in.
pub fn choose_variation(number: f64, ranges: impl IntoIterator<Item = Range>) -> Option<usize> {
    ranges.into_iter().position(|range| in_range(number, range))
}

/// Whether the ID belongs to the share of a namespace that a range says.
pub fn in_namespace(id: &str, namespace: &str, range: Range) -> bool {
    hash(&["__", namespace], id, 1).is_some_and(|number| in_range(number, range))
}

fn in_range(number: f64, (start, end): Range) -> bool {
    start <= number && number < end
}

/// FNV-1a in 32 bits, fed piece by piece.
#[derive(Clone, Copy)]
struct Fnv(u32);

impl Fnv {
    const START: Fnv = Fnv(0x811c_9dc5);
    const PRIME: u32 = 0x0100_0193;

    fn add(self, text: &str) -> Self {
        let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(Self::PRIME);
        Fnv(text.bytes().fold(self.0, step))
    }

    /// The hash of this hash's decimal digits.
    fn of_own_digits(self) -> Self {
        Fnv::START.add(itoa::Buffer::new().format(self.0))
    }
}
