//! The shares of visitors in experiments, beyond GrowthBook's cases.

use parallax::testing::condition::{
    bucket_ranges, bucket_shares, choose_variation, hash, hash_after_seed, seed_hash,
};
use proptest::prelude::*;

/// Returns the FNV-1a hash, as its authors describe it, over UTF-16 code units in place of bytes.
fn fnv(text: &str) -> u32 {
    let mut hash: u64 = 2_166_136_261;
    for unit in text.encode_utf16() {
        hash = ((hash ^ u64::from(unit)) * 16_777_619) % (1 << 32);
    }
    hash as u32
}

#[test]
fn texts_outside_ascii_have_the_hash_of_the_growthbook_sdks() {
    // The results of the JavaScript SDK, @growthbook/growthbook 1.8.0. The last text has two code units.
    let cases = [
        ("ana", 338_283_141),
        ("тест", 8_839_891),
        ("я", 3_389_371_454),
        ("耀", 71_490_847),
        ("😀", 3_409_036_472),
    ];
    for (text, expected) in cases {
        assert_eq!(seed_hash(text), expected, "{text}");
    }
    for (id, expected) in [("ana", 0.0835), ("тест", 0.4239), ("я", 0.7695), ("耀", 0.7411), ("😀", 0.9633)]
    {
        assert_eq!(hash(&["slow-front"], id, 2), Some(expected), "{id}");
    }
}

/// Returns a number of the ten thousand that the hash gives.
fn decimal(number: u32) -> f64 {
    f64::from(number) / 10_000.0
}

proptest! {
    #[test]
    fn seeds_hash_as_if_their_parts_were_joined(a in ".{0,8}", b in ".{0,8}", id in ".{0,12}") {
        let first = f64::from(fnv(&format!("{id}{a}{b}")) % 1_000) / 1_000.0;
        prop_assert_eq!(hash(&[&a, &b], &id, 1), Some(first));
        let inner = fnv(&format!("{a}{b}{id}")).to_string();
        let second = f64::from(fnv(&inner) % 10_000) / 10_000.0;
        prop_assert_eq!(hash(&[&a, &b], &id, 2), Some(second));
        prop_assert_eq!(hash_after_seed(seed_hash(&format!("{a}{b}")), &id), second);
    }

    #[test]
    fn the_arm_at_a_coverage_is_the_arm_at_any_higher_one(
        cuts in prop::collection::vec(prop_oneof![0.0..=1.0_f64, (0..=10_000_u32).prop_map(decimal)], 0..6),
        has_weights in any::<bool>(),
        bucket in 0..10_000_u32,
        (low, high) in (0.0..=1.0_f64, 0.0..=1.0_f64),
    ) {
        let mut ends = [cuts, vec![1.0]].concat();
        ends.sort_by(f64::total_cmp);
        let starts = [0.0].into_iter().chain(ends.iter().copied());
        let weights: Vec<f64> = starts.zip(&ends).map(|(start, end)| end - start).collect();
        let weights = has_weights.then_some(&weights[..]);
        let chosen = |coverage| choose_variation(decimal(bucket), bucket_ranges(ends.len(), coverage, weights));
        let before = chosen(low.min(high));
        prop_assert!(before.is_none() || before == chosen(low.max(high)));
        prop_assert!(before.is_none() || before == chosen(1.0));
    }

    #[test]
    fn the_shares_of_ranges_are_those_of_the_ten_thousand_numbers(
        arms in 1..6_usize,
        coverage in prop_oneof![0.0..=1.0_f64, 0.0..=0.01_f64, (0..=10_000_u32).prop_map(decimal)],
        cut in 0..=10_000_u32,
    ) {
        let weights = [decimal(cut), 1.0 - decimal(cut)];
        let ranges: Vec<_> = bucket_ranges(arms, coverage, (arms == 2).then_some(&weights[..])).collect();
        let numbers = (0..10_000_u32).map(decimal);
        let mut counts = vec![0_u32; arms];
        numbers.filter_map(|number| choose_variation(number, ranges.iter().copied())).for_each(|arm| counts[arm] += 1);
        let total = f64::from(counts.iter().sum::<u32>().max(1));
        let expected: Vec<f64> = counts.iter().map(|count| f64::from(*count) / total).collect();
        prop_assert_eq!(bucket_shares(ranges.into_iter()), expected);
    }
}

#[test]
fn three_equal_arms_have_34_33_and_33_numbers_at_a_hundredth() {
    assert_eq!(bucket_shares(bucket_ranges(3, 0.01, None)), [0.34, 0.33, 0.33]);
}

#[test]
fn full_coverage_divides_visitors_by_weight() {
    let weights = [0.2, 0.8];
    let chosen = (0..10_000).filter_map(|id: u32| {
        let number = hash(&["cta-colour"], &id.to_string(), 2)?;
        choose_variation(number, bucket_ranges(2, 1.0, Some(&weights)))
    });
    let mut shares = [0_u32; 2];
    chosen.for_each(|variant| shares[variant] += 1);
    assert_eq!(shares[0] + shares[1], 10_000);
    // Three standard deviations of 10,000 draws at 0.2.
    assert!(shares[0].abs_diff(2_000) < 120, "{shares:?}");
}
