//! The shares of visitors in experiments, beyond GrowthBook's cases.

use parallax::testing::condition::{
    authored_shares, bucket_ranges, choose_variation, hash, hash_after_seed, seed_hash,
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
    fn raising_the_coverage_moves_nobody_to_another_variant(
        number in 0.0..1.0_f64,
        low in 0.0..1.0_f64,
        more in 0.0..1.0_f64,
        weight in 0.0..1.0_f64,
    ) {
        let weights = [weight, 1.0 - weight];
        let chosen = |coverage| {
            choose_variation(number, bucket_ranges(2, coverage, Some(&weights)))
        };
        let before = chosen(low);
        prop_assert!(before.is_none() || before == chosen(low + more * (1.0 - low)));
    }
}

proptest! {
    #[test]
    fn the_ranges_give_the_authored_weights_and_coverage_back(
        cuts in proptest::collection::btree_set(1..10_000_u32, 0..6),
        coverage in 1..=10_000_u32,
    ) {
        let ends: Vec<u32> = cuts.into_iter().chain([10_000]).collect();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let decimal = |number: u32| f64::from(number) / 10_000.0;
        let weights: Vec<f64> = starts.zip(&ends).map(|(start, end)| decimal(end - start)).collect();
        let ranges: Vec<_> = bucket_ranges(weights.len(), decimal(coverage), Some(&weights)).collect();
        prop_assert_eq!(authored_shares(&ranges), Some((weights, decimal(coverage))));
    }
}

#[test]
fn equal_weights_without_a_decimal_form_are_given_back_as_equal_ones() {
    for arms in 1..=64 {
        let ranges: Vec<_> = bucket_ranges(arms, 0.3, None).collect();
        assert_eq!(authored_shares(&ranges), Some((vec![1.0 / arms as f64; arms], 0.3)), "{arms}");
    }
    for forged in [vec![], vec![(0.2, 0.1)], vec![(0.0, 0.1), (0.5, 0.7)], vec![(0.5, 0.5), (0.0, 1.0)]] {
        assert_eq!(authored_shares(&forged), None, "{forged:?}");
    }
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
