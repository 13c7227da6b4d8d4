//! The base of pagination: sort keys that compare like their values, cursors, hash indexes.

use std::cmp::Ordering;

use parallax::testing::condition::Value;
use parallax::testing::site::query::cursor;
use parallax::testing::site::query::order::{append_sort_key, number_key};
use parallax::testing::site::snapshot::hash_index;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::oracle::value_order;
use crate::condition::encoded;

/// Returns the sort key of a value. `None` is a missing value.
fn sort_key(value: Option<&Json>, descending: bool) -> Vec<u8> {
    let encoded = value.map(encoded);
    let mut out = Vec::new();
    append_sort_key(
        encoded.as_ref().map(|bytes| Value::decode(bytes).expect("just encoded")),
        descending,
        &mut out,
    );
    out
}

/// Generates texts that are often equal or prefixes of each other, with zeros and the last characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[\0\u{1}a\u{FF}\u{FFFF}\u{10FFFF}]{0,4}", 1 => any::<String>()]
}

fn number() -> impl Strategy<Value = f64> {
    let near = any::<(f64, bool)>().prop_map(|(number, up)| if up { number.next_up() } else { number });
    let finite = near.prop_filter("JSON has no other", |number| number.is_finite());
    let chosen = [0.0, -0.0, 1.0, -1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324];
    prop_oneof![finite, prop::sample::select(chosen.to_vec())]
}

/// Generates values. `None` and values without an order count as missing.
fn value() -> impl Strategy<Value = Option<Json>> {
    prop_oneof![
        1 => prop::sample::select(vec![None, Some(json!(null)), Some(json!([1])), Some(json!({ "a": 1 }))]),
        1 => any::<bool>().prop_map(|flag| Some(json!(flag))),
        3 => number().prop_map(|number| Some(json!(number))),
        4 => text().prop_map(|text| Some(json!(text))),
    ]
}

fn has_order(value: &Option<Json>) -> bool {
    matches!(value, Some(Json::Bool(_) | Json::Number(_) | Json::String(_)))
}

/// Compares values. Missing values are last in both directions.
fn order(a: &Option<Json>, b: &Option<Json>, descending: bool) -> Ordering {
    match (a.as_ref().filter(|_| has_order(a)), b.as_ref().filter(|_| has_order(b))) {
        (Some(a), Some(b)) if descending => value_order(b, a),
        (Some(a), Some(b)) => value_order(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn sort_keys_compare_like_their_values(a in value(), b in value(), descending: bool) {
        let compared = sort_key(a.as_ref(), descending).cmp(&sort_key(b.as_ref(), descending));
        prop_assert_eq!(compared, order(&a, &b, descending));
    }

    #[test]
    fn no_sort_key_is_a_prefix_of_another(a in value(), b in value(), descending: bool) {
        let (first, second) = (sort_key(a.as_ref(), descending), sort_key(b.as_ref(), descending));
        prop_assert!(first == second || !second.starts_with(&first), "{:?} {:?}", first, second);
    }

    /// A sort key of several fields is the concatenation of their keys.
    #[test]
    fn concatenated_sort_keys_compare_value_by_value(
        rows in prop::collection::vec((value(), value(), any::<bool>()), 1..4),
    ) {
        let row = |first: bool| {
            let value = |(a, b, descending): &_| sort_key(Option::as_ref(if first { a } else { b }), *descending);
            rows.iter().flat_map(value).collect::<Vec<u8>>()
        };
        let compared = row(true).cmp(&row(false));
        let orders = rows.iter().map(|(a, b, descending)| order(a, b, *descending));
        prop_assert_eq!(compared, orders.fold(Ordering::Equal, Ordering::then));
    }

    #[test]
    fn number_keys_compare_like_their_numbers(a in number(), b in number()) {
        prop_assert_eq!(number_key(a).cmp(&number_key(b)), a.partial_cmp(&b).expect("no NaN"));
    }
}

fn position() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn encoded_cursor(check: u64, position: &[u8]) -> String {
    let mut out = Vec::new();
    cursor::encode(check, position, &mut out);
    String::from_utf8(out).expect("ASCII")
}

proptest! {
    #[test]
    fn a_cursor_decodes_to_its_position(position in position(), list in position()) {
        let check = cursor::checksum_of([&list[..], &position]);
        let mut read = vec![1, 2, 3];
        prop_assert_eq!(cursor::decode(&encoded_cursor(check, &position), position.len(), &mut read), Some(check));
        prop_assert_eq!(read, position);
    }

    #[test]
    fn a_cursor_with_a_changed_digit_or_length_is_rejected(position in position(), list in position()) {
        let text = encoded_cursor(cursor::checksum_of([&list[..], &position]), &position);
        let is_taken = |text: &str| {
            let mut read = Vec::new();
            let check = cursor::decode(text, 64, &mut read);
            check.is_some_and(|check| check == cursor::checksum_of([&list[..], &read]))
        };
        prop_assert!(is_taken(&text));
        for at in 0..text.len() {
            for digit in "0123456789abcdefABCDEFg é".chars().filter(|digit| text[at..=at] != digit.to_string()) {
                let other = format!("{}{digit}{}", &text[..at], &text[at + 1..]);
                prop_assert!(!is_taken(&other), "{} for {}", other, text);
            }
            prop_assert!(!is_taken(&text[..at]), "{} for {}", &text[..at], text);
        }
        for more in ["0", "00", "ff"] {
            let longer = text.clone() + more;
            prop_assert!(!is_taken(&longer), "{}", longer);
        }
    }

    #[test]
    fn a_cursor_of_another_list_has_another_checksum(position in position(), list in position(), other in position()) {
        let genuine = cursor::checksum_of([&list[..], &position]) == cursor::checksum_of([&other[..], &position]);
        prop_assert_eq!(genuine, list == other);
    }

    #[test]
    fn a_hash_index_finds_each_of_its_texts_and_no_other(
        texts in prop::collection::hash_set("[a-d]{0,3}", 0..60),
        others in prop::collection::vec("[a-e]{0,3}", 20),
    ) {
        let texts: Vec<String> = texts.into_iter().collect();
        let slots = hash_index::build(texts.len(), (0..).zip(texts.iter().map(|text| text.as_bytes())));
        let slots: Vec<rkyv::rend::u32_le> = slots.into_iter().map(Into::into).collect();
        prop_assert!(hash_index::is_valid(&slots, texts.len()));
        for text in texts.iter().chain(&others) {
            let found = hash_index::find(&slots, text.as_bytes(), |at| texts[at] == *text);
            prop_assert_eq!(found.map(|at| at as usize), texts.iter().position(|known| known == text));
        }
    }
}

#[test]
fn a_cursor_position_is_decoded_up_to_its_limit() {
    let position = [7; 10];
    for (bound, is_read) in [(9, false), (10, true), (11, true)] {
        assert_eq!(
            cursor::decode(&encoded_cursor(1, &position), bound, &mut Vec::new()).is_some(),
            is_read,
            "{bound}"
        );
    }
}
