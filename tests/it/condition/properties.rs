//! Random values, conditions and damage.

use parallax::testing::condition::Value;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};

use super::{Groups, encoded, holds_leniently, oracle};

/// Returns few scalars, so that conditions often hold.
fn scalars() -> Vec<Json> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-2.5),
        json!(11),
        json!(""),
        json!(" 1 "),
        json!("1"),
        json!("-2.5"),
        json!("nan"),
        json!("a"),
        json!("A"),
        json!("abc"),
        json!("É"),
        json!("é"),
        json!("true"),
        json!("1.2.3"),
        json!("1.2.3-rc.1"),
        json!("v1.2.3-rc.11+b"),
        json!("1.2"),
        json!("1.10"),
    ]
}

pub(super) fn scalar() -> impl Strategy<Value = Json> {
    select(scalars())
}

/// Returns every scalar alone, in an array and in an object, both empty containers, and two more arrays.
fn values() -> Vec<Json> {
    let scalars = scalars().into_iter();
    let shapes = |value: Json| [json!([value, "abc"]), json!({"a": value}), value];
    let containers = [json!([]), json!({}), json!(["abc", "A", 1]), json!([["a"], {"a": 1}])];
    scalars.flat_map(shapes).chain(containers).collect()
}

const OPERATORS: [&str; 31] = [
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$ini",
    "$nini",
    "$all",
    "$alli",
    "$exists",
    "$type",
    "$veq",
    "$vne",
    "$vgt",
    "$vgte",
    "$vlt",
    "$vlte",
    "$regex",
    "$regexi",
    "$notRegex",
    "$notRegexi",
    "$inGroup",
    "$notInGroup",
    "$not",
    "$elemMatch",
    "$size",
    "$within",
    "$none",
];

/// Returns whether the naive evaluator supports this operand. It knows only a few regular expressions.
fn is_fit(operator: &str, operand: &Json) -> bool {
    !operator.to_lowercase().contains("regex") || !operand.is_string()
}

#[test]
fn every_operator_agrees_with_the_naive_evaluator_on_every_pair() {
    let values = values();
    for operator in OPERATORS {
        for operand in values.iter().filter(|operand| is_fit(operator, operand)) {
            for actual in &values {
                let (condition, document) = (json!({"a": {operator: operand}}), json!({"a": actual}));
                let holds = holds_leniently(&condition, &document, &groups());
                let expected = oracle::holds(&condition, &document, &groups());
                assert_eq!(holds, expected, "{condition} over {document}");
            }
        }
    }
    for (literal, actual) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
        let (condition, document) = (json!({"a": literal}), json!({"a": actual}));
        let holds = holds_leniently(&condition, &document, &groups());
        let expected = oracle::holds(&condition, &document, &groups());
        assert_eq!(holds, expected, "{condition} over {document}");
    }
}

#[test]
fn zero_has_no_sign_inside_arrays_either() {
    let condition = json!({"a": {"$eq": [0]}});
    assert!(holds_leniently(&condition, &json!({"a": [-0.0]}), &groups()));
}

#[test]
fn paths_resolve_like_json_pointers() {
    let document = json!({"a": {"b": {"c": 1, "": 2}, "0": 3}, "l": [4, [5, {"x": 6}]], "": 7});
    let bytes = encoded(&document);
    for path in ["a", "a.b", "a.b.c", "a.b.c.d", "a.b.", "a.0", "l.0", "l.1.1.x", "l.2", "l.x", "", "."] {
        let pointer: String = path.split('.').map(|part| format!("/{part}")).collect();
        let found = Value::decode(&bytes).unwrap().get_path(path).map(Value::to_json);
        assert_eq!(found.as_ref(), document.pointer(&pointer), "{path}");
    }
}

fn small_value() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::btree_map(select(vec!["a", "b"]), inner, 0..3)
                .prop_map(|members| json!(members)),
        ]
    })
}

pub(super) fn document() -> impl Strategy<Value = Json> {
    prop::collection::btree_map(select(vec!["a", "b", "c"]), small_value(), 0..4)
        .prop_map(|members| json!(members))
}

fn plain_test() -> impl Strategy<Value = Json> {
    let comparing = select(vec![
        "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$veq", "$vne", "$vgt", "$vgte", "$vlt", "$vlte",
        "$size", "$exists", "$regx",
    ]);
    let listing = select(vec!["$in", "$nin", "$ini", "$nini", "$all", "$alli"]);
    let matching = select(vec!["$regex", "$regexi", "$notRegex", "$notRegexi"]);
    let grouping = select(vec!["$inGroup", "$notInGroup"]);
    let values = prop::collection::vec(small_value(), 0..3);
    let patterns = select(vec!["^a", "1$", "[.]", "A", "("]);
    let types = select(vec!["null", "boolean", "number", "string", "array", "object", "x"]);
    prop_oneof![
        2 => small_value(),
        4 => (comparing, scalar()).prop_map(|(operator, operand)| json!({operator: operand})),
        2 => (listing, values).prop_map(|(operator, operand)| json!({operator: operand})),
        2 => (matching, patterns).prop_map(|(operator, operand)| json!({operator: operand})),
        1 => (grouping, select(vec!["one", "none"])).prop_map(|(o, group)| json!({o: group})),
        1 => types.prop_map(|name| json!({"$type": name})),
    ]
}

/// Returns conditions over the members `a`, `b` and `c`.
pub(super) fn condition() -> impl Strategy<Value = Json> {
    let path = || select(vec!["a", "b", "c", "a.a", "a.0", "b.a.b", "d"]);
    let leaf = (path(), plain_test()).prop_map(|(path, test)| json!({path: test}));
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let several = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (select(vec!["$and", "$or", "$nor"]), several).prop_map(|(o, c)| json!({o: c})),
            inner.clone().prop_map(|condition| json!({"$not": condition})),
            (path(), inner.clone()).prop_map(|(path, c)| json!({path: {"$elemMatch": c}})),
            (path(), plain_test()).prop_map(|(path, t)| json!({path: {"$elemMatch": t}})),
            (path(), plain_test()).prop_map(|(path, t)| json!({path: {"$not": t}})),
            (path(), plain_test()).prop_map(|(path, t)| json!({path: {"$size": t}})),
            (inner.clone(), inner).prop_map(|(a, b)| merged(&a, &b)),
        ]
    })
}

/// Returns a condition with the members of both.
fn merged(a: &Json, b: &Json) -> Json {
    let members = [a, b].into_iter().filter_map(Json::as_object).flatten();
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}

pub(super) fn groups() -> Groups {
    Groups::from([("one".to_owned(), vec![json!(1), json!("a"), json!(["a"])])])
}

/// Returns any JSON whose numbers fit a 64-bit float.
fn any_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Json::from),
        any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(".{0,3}", inner, 0..6).prop_map(|m| json!(m)),
        ]
    })
}

/// Returns the same JSON, with 3.0 written as 3.
fn canonical(json: &Json) -> Json {
    match json {
        Json::Number(number) => {
            let number = number.as_f64().unwrap();
            let whole = number.fract() == 0.0 && number.abs() <= 2_f64.powi(53);
            if whole { json!(number as i64) } else { json!(number) }
        }
        Json::Array(items) => items.iter().map(canonical).collect(),
        Json::Object(members) => members.iter().map(|(key, value)| (key.clone(), canonical(value))).collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn conditions_agree_with_the_naive_evaluator(
        condition in condition(),
        document in document(),
    ) {
        let holds = holds_leniently(&condition, &document, &groups());
        prop_assert_eq!(holds, oracle::holds(&condition, &document, &groups()));
    }
}

proptest! {
    #[test]
    fn values_survive_encoding_and_decoding(json in any_value()) {
        let bytes = encoded(&json);
        let value = Value::decode(&bytes).unwrap();
        prop_assert_eq!(value.to_json(), canonical(&json));
    }

    #[test]
    fn values_are_equal_exactly_if_their_json_is(a in small_value(), b in small_value()) {
        let (first, second) = (encoded(&a), encoded(&b));
        prop_assert_eq!(Value::decode(&first) == Value::decode(&second), a == b);
        prop_assert_eq!(Value::decode(&first).unwrap().is_encoded_as(&second), a == b);
    }

    #[test]
    fn members_and_items_are_found(json in any_value(), missing in ".{0,3}") {
        let bytes = encoded(&json);
        match (Value::decode(&bytes).unwrap(), &json) {
            (Value::Object(object), Json::Object(members)) => {
                prop_assert_eq!(object.len(), members.len());
                for (key, member) in members {
                    prop_assert_eq!(object.get(key).unwrap().to_json(), canonical(member));
                }
                prop_assert_eq!(object.get(&missing).is_some(), members.contains_key(&missing));
            }
            (Value::Array(array), Json::Array(items)) => {
                prop_assert_eq!(array.len(), items.len());
                prop_assert_eq!(array.is_empty(), items.is_empty());
                let read: Vec<_> = array.iter().map(Value::to_json).collect();
                prop_assert_eq!(read, items.iter().map(canonical).collect::<Vec<_>>());
            }
            _ => {}
        }
    }

    #[test]
    fn damaged_values_never_panic(
        json in any_value(),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        cut in any::<Index>(),
    ) {
        let mut bytes = encoded(&json);
        prop_assert_eq!(Value::decode(&bytes[..cut.index(bytes.len())]), None);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(value) = Value::decode(&bytes) {
            value.to_json();
            value.get_path("a.0.b");
            let whole = encoded(&json);
            prop_assert_eq!(Value::decode(&whole).unwrap().is_encoded_as(&bytes), Value::decode(&whole) == Some(value));
        } else {
            prop_assert!(!Value::decode(&encoded(&json)).unwrap().is_encoded_as(&bytes));
        }
    }
}
