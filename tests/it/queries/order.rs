//! What pages rest on: bytes that compare as values do, cursors, tables.

use std::cmp::Ordering;

use parallax::condition::Value;
use parallax::site::query::cursor;
use parallax::site::query::order::{number_key, sort_value};
use parallax::site::snapshot::hash_index;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::oracle::value_order;
use crate::condition::encoded;

/// The bytes that a value is sorted by; None is missing.
fn bytes(value: Option<&Json>, descending: bool) -> Vec<u8> {
    let encoded = value.map(encoded);
    let mut out = Vec::new();
    sort_value(
        encoded.as_ref().map(|bytes| Value::decode(bytes).expect("just encoded")),
        descending,
        &mut out,
    );
    out
}

/// Texts that are often equal, or begin one another, zeros and the last characters included.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[\0\u{1}a\u{FF}\u{FFFF}\u{10FFFF}]{0,4}", 1 => any::<String>()]
}

fn number() -> impl Strategy<Value = f64> {
    let near = any::<(f64, bool)>().prop_map(|(number, up)| if up { number.next_up() } else { number });
    let finite = near.prop_filter("JSON has no other", |number| number.is_finite());
    let chosen = [0.0, -0.0, 1.0, -1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324];
    prop_oneof![finite, prop::sample::select(chosen.to_vec())]
}

/// None and what has no order are missing.
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

/// Missing last either way.
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
    fn bytes_compare_as_the_values_that_they_stand_for(a in value(), b in value(), descending: bool) {
        let compared = bytes(a.as_ref(), descending).cmp(&bytes(b.as_ref(), descending));
        prop_assert_eq!(compared, order(&a, &b, descending));
    }

    #[test]
    fn no_values_bytes_begin_those_of_another(a in value(), b in value(), descending: bool) {
        let (first, second) = (bytes(a.as_ref(), descending), bytes(b.as_ref(), descending));
        prop_assert!(first == second || !second.starts_with(&first), "{:?} {:?}", first, second);
    }

    /// So that one value may stand behind another.
    #[test]
    fn rows_compare_value_by_value(
        rows in prop::collection::vec((value(), value(), any::<bool>()), 1..4),
    ) {
        let row = |first: bool| {
            let value = |(a, b, descending): &_| bytes(Option::as_ref(if first { a } else { b }), *descending);
            rows.iter().flat_map(value).collect::<Vec<u8>>()
        };
        let compared = row(true).cmp(&row(false));
        let orders = rows.iter().map(|(a, b, descending)| order(a, b, *descending));
        prop_assert_eq!(compared, orders.fold(Ordering::Equal, Ordering::then));
    }

    #[test]
    fn numbers_have_keys_that_compare_as_they_do(a in number(), b in number()) {
        prop_assert_eq!(number_key(a).cmp(&number_key(b)), a.partial_cmp(&b).expect("no NaN"));
    }
}

fn place() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn written(check: u64, place: &[u8]) -> String {
    let mut out = Vec::new();
    cursor::write(check, place, &mut out);
    String::from_utf8(out).expect("ASCII")
}

proptest! {
    #[test]
    fn a_cursor_comes_back_as_it_went(place in place(), list in place()) {
        let check = cursor::check([&list[..], &place]);
        let mut read = vec![1, 2, 3];
        prop_assert_eq!(cursor::read(&written(check, &place), place.len(), &mut read), Some(check));
        prop_assert_eq!(read, place);
    }

    #[test]
    fn a_cursor_with_any_other_digit_or_length_is_told(place in place(), list in place()) {
        let text = written(cursor::check([&list[..], &place]), &place);
        let is_taken = |text: &str| {
            let mut read = Vec::new();
            let check = cursor::read(text, 64, &mut read);
            check.is_some_and(|check| check == cursor::check([&list[..], &read]))
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
    fn a_cursor_of_another_list_is_told(place in place(), list in place(), other in place()) {
        let genuine = cursor::check([&list[..], &place]) == cursor::check([&other[..], &place]);
        prop_assert_eq!(genuine, list == other);
    }

    #[test]
    fn a_table_finds_each_of_its_texts_and_no_other(
        texts in prop::collection::hash_set("[a-d]{0,3}", 0..60),
        others in prop::collection::vec("[a-e]{0,3}", 20),
    ) {
        let texts: Vec<String> = texts.into_iter().collect();
        let slots = hash_index::slots(texts.len(), (0..).zip(texts.iter().map(|text| text.as_bytes())));
        let slots: Vec<rkyv::rend::u32_le> = slots.into_iter().map(Into::into).collect();
        prop_assert!(hash_index::is_sound(&slots, texts.len()));
        for text in texts.iter().chain(&others) {
            let found = hash_index::find(&slots, text.as_bytes(), |at| texts[at] == *text);
            prop_assert_eq!(found.map(|at| at as usize), texts.iter().position(|known| known == text));
        }
    }
}

#[test]
fn a_place_is_read_up_to_its_bound() {
    let place = [7; 10];
    for (bound, is_read) in [(9, false), (10, true), (11, true)] {
        assert_eq!(cursor::read(&written(1, &place), bound, &mut Vec::new()).is_some(), is_read, "{bound}");
    }
}
