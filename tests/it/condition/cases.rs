//! GrowthBook's `cases.json` (MIT, GrowthBook), which defines conditions and buckets. The directory
//! `PARALLAX_CASES` contains `growthbook/cases.json`.

use parallax::testing::condition::{bucket_ranges, choose_variation, equal_weights, hash, in_namespace};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{Groups, holds_leniently};

/// Returns the cases of a kind. If `PARALLAX_CASES` is not set, there are none, and a notice is printed.
fn cases<T: DeserializeOwned>(kind: &str) -> Vec<T> {
    let Some(directory) = crate::harness::cases() else { return Vec::new() };
    let text = std::fs::read(directory.join("growthbook/cases.json")).expect("readable");
    let mut cases: Json = serde_json::from_slice(&text).expect("JSON");
    let cases: Vec<T> = serde_json::from_value(cases[kind].take()).expect("the cases have the expected form");
    assert!(!cases.is_empty(), "no cases of {kind}");
    cases
}

fn assert_close(actual: f64, expected: f64, case: &str) {
    assert!((actual - expected).abs() < 1e-8, "{case}: {actual} is not {expected}");
}

#[test]
fn conditions_agree_with_growthbook() {
    for mut case in cases::<Vec<Json>>("evalCondition") {
        let groups: Groups = match case.get_mut(4) {
            Some(groups) => serde_json::from_value(groups.take()).expect("groups"),
            None => Groups::new(),
        };
        let holds = holds_leniently(&case[1], &case[2], &groups);
        assert_eq!(case[3], holds, "{}: {} over {}", case[0], case[1], case[2]);
    }
}

#[test]
fn hashes_agree_with_growthbook() {
    for (seed, value, version, expected) in cases::<(String, String, u8, Option<f64>)>("hash") {
        assert_eq!(hash(&[&seed], &value, version), expected, "{seed} {value} {version}");
    }
}

#[test]
fn bucket_ranges_agree_with_growthbook() {
    type Case = (String, (usize, f64, Option<Vec<f64>>), Vec<(f64, f64)>);
    for (name, (variants, coverage, weights), expected) in cases::<Case>("getBucketRange") {
        let ranges: Vec<_> = bucket_ranges(variants, coverage, weights.as_deref()).collect();
        assert_eq!(ranges.len(), expected.len(), "{name}");
        for (range, expected) in ranges.iter().zip(expected) {
            assert_close(range.0, expected.0, &name);
            assert_close(range.1, expected.1, &name);
        }
    }
}

#[test]
fn chosen_variations_agree_with_growthbook() {
    type Case = (String, f64, Vec<(f64, f64)>, i64);
    for (name, number, ranges, expected) in cases::<Case>("chooseVariation") {
        let expected = usize::try_from(expected).ok();
        assert_eq!(choose_variation(number, ranges), expected, "{name}");
    }
}

#[test]
fn equal_weights_agree_with_growthbook() {
    for (variants, expected) in cases::<(i64, Vec<f64>)>("getEqualWeights") {
        let weights: Vec<_> = equal_weights(usize::try_from(variants).unwrap_or(0)).collect();
        assert_eq!(weights.len(), expected.len(), "{variants}");
        for (weight, expected) in weights.iter().zip(expected) {
            assert_close(*weight, expected, "equal weights");
        }
    }
}

#[test]
fn namespaces_agree_with_growthbook() {
    type Case = (String, String, (String, f64, f64), bool);
    for (name, id, (namespace, start, end), expected) in cases::<Case>("inNamespace") {
        assert_eq!(in_namespace(&id, &namespace, (start, end)), expected, "{name}");
    }
}
