//! The schemas that editors use: their conditions have every path and operator of the compiler, and refuse nothing
//! that the compiler accepts.

use parallax::testing::condition::operator_names;
use parallax::testing::site::compile::compile;
use parallax::testing::site::profile_fields::field_paths;
use parallax::testing::site::source::schema::{FileKind, schema};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{editor_errors, files, read_files, read_texts};

/// Compiles an audience with this condition. Returns the number of errors.
fn error_count(condition: &Value) -> usize {
    let audiences = json!({ "a": { "when": condition }, "known": { "when": {} } }).to_string();
    let about = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    let groups = r#"{"staff":["u-1"]}"#;
    let files = files(&[("site.json", about), ("audiences.json", &audiences), ("groups.json", groups)]);
    let (source, diagnostics) = parallax::testing::site::source::read::read(&files, &|_, _| {});
    compile(&source, diagnostics, 1, &|_, _| {}).err().map_or(0, |mistakes| mistakes.len())
}

fn schema_errors(condition: &Value) -> Vec<String> {
    editor_errors(FileKind::Audiences, &json!({ "a": { "when": condition } }))
}

/// Generates a path: of a field, of a field with one letter more, or of no field.
fn path() -> impl Strategy<Value = String> {
    let known: Vec<String> = field_paths().map(|(path, _)| path.to_owned()).collect();
    let name = prop::sample::select(vec!["x", "a.b", "Product Viewed", "count", ".count", "x.first", "/a"]);
    let filled = (prop::sample::select(known), name).prop_map(|(path, name)| match path.ends_with('.') {
        true => format!("{path}{name}"),
        false => path.replace('*', name),
    });
    let wrong = prop::sample::select(vec![
        "",
        "visitor",
        "visitor.",
        "device.kind",
        "traits.",
        "events.",
        "url.query.",
    ]);
    prop_oneof![8 => filled.clone(), 1 => filled.prop_map(|path| format!("{path}s")), 1 => wrong.prop_map(str::to_owned)]
}

fn operator() -> impl Strategy<Value = String> {
    let known: Vec<String> = operator_names().map(str::to_owned).collect();
    let wrong = prop::sample::select(vec!["$equals", "$", "$Eq", "$param", "within", "a"]);
    prop_oneof![6 => prop::sample::select(known), 1 => wrong.prop_map(str::to_owned)]
}

fn operand() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(3),
        json!("x"),
        json!(true),
        json!(null),
        json!([]),
        json!(["x", 1]),
        json!({}),
        json!({"a": 1}),
        json!("2026-01-05T10:00:00Z"),
        json!("7d"),
        json!({"$gte": 3}),
        json!({"$gte": 3, "within": "7d"}),
        json!({"$eqq": 3}),
        json!({"a": {"$gt": 1}}),
        json!({"a": 1, "$gt": 1}),
        json!("known"),
        json!("string"),
        json!("staff"),
    ])
}

fn condition() -> impl Strategy<Value = Value> {
    let test = prop_oneof![
        1 => operand(),
        3 => prop::collection::vec((operator(), operand()), 1..3).prop_map(|members| members.into_iter().collect()),
    ];
    let leaf = prop::collection::vec((path(), test), 1..3)
        .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into());
    leaf.prop_recursive(3, 8, 3, |inner: BoxedStrategy<Value>| {
        let several = (operator(), prop::collection::vec(inner.clone(), 0..3));
        let one = (prop_oneof![path(), operator()], inner);
        prop_oneof![
            several.prop_map(|(operator, conditions)| json!({ operator: conditions })),
            one.prop_map(|(name, condition)| json!({ name: condition })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_compiler_refuses_each_condition_that_the_schema_refuses(condition in condition()) {
        let errors = schema_errors(&condition);
        prop_assert!(errors.is_empty() || error_count(&condition) > 0, "{condition}: {errors:?}");
    }
}

#[test]
fn the_schema_has_every_path_and_every_operator() {
    for (path, _) in field_paths() {
        let path = if path.ends_with('.') { format!("{path}x") } else { path.replace('*', "x") };
        // A history accepts no literal, other fields no `$count`.
        let accepts = |test: Value| schema_errors(&json!({ path.as_str(): test })).is_empty();
        assert!(accepts(json!(null)) != accepts(json!({ "$count": { "$gte": 1 } })), "{path}");
    }
    let audiences = schema(FileKind::Audiences);
    let definition = |name: &str| audiences["$defs"][name].to_string();
    let all = ["VisitorCondition", "ValueTest", "TimeTest", "HistoryTest"].map(definition).concat();
    for operator in operator_names() {
        assert!(all.contains(&format!("\"{operator}\":")), "{operator}");
    }
}

#[test]
fn the_schema_marks_unknown_paths_and_operators() {
    for condition in [
        json!({ "visitor.visit": 3 }),
        json!({ "visitor.visits": { "$least": 3 } }),
        json!({ "$or": [{ "country": { "$not": { "$is": "DE" } } }] }),
        json!({ "traits.tags": { "$elemMatch": { "$is": "x" } } }),
        json!({ "visitor.firstSeen": { "$regex": "x" } }),
        json!({ "events.Viewed": 3 }),
        json!({ "events.Viewed.count": { "$count": { "$gte": 3 } } }),
    ] {
        assert!(!schema_errors(&condition).is_empty(), "{condition}");
        assert!(error_count(&condition) > 0, "{condition}");
    }
}

#[test]
fn the_schema_of_a_query_accepts_any_field_and_marks_unknown_operators() {
    let query = |condition: Value| json!({ "q": { "collection": "posts", "where": condition } });
    let errors = |condition| editor_errors(FileKind::Queries, &query(condition));
    assert_eq!(
        errors(json!({ "price.net": { "$lte": { "$param": "max" } }, "tags": { "$in": ["a"] } })),
        [""; 0]
    );
    assert_ne!(errors(json!({ "price": { "$less": 3 } })), [""; 0]);
    assert_ne!(errors(json!({ "$audience": "known" })), [""; 0]);
}

#[test]
fn a_schema_member_is_allowed_in_each_file_that_is_an_object() {
    let about = r#"{"site":"acme","$schema":"./s.json","trackingId":"track_acme","name":"Acme"}"#;
    let texts = [
        ("site.json", about),
        ("audiences.json", r#"{"$schema":"./a.json"}"#),
        ("groups.json", r#"{"$schema":"./g.json","staff":["u-1"]}"#),
        ("queries.json", "{\n\"q\":{\"collection\":\"posts\"},\n\"$schema\":\"./q.json\"\n}"),
        (
            "routes/a.json",
            r#"{"$schema":"../r.json","path":"/a","layout":{"root":{"props":{"a":1}},"zones":{}}}"#,
        ),
        ("routes/b.json", r#"{"path":"/b","redirect":{"to":"/a","status":308},"$schema":"é"}"#),
    ];
    let (source, report) = read_files(&files(&texts));
    assert_eq!(report.diagnostics.len(), 0, "{report}");
    let names = |count: usize| assert_eq!(count, 1);
    names(source.groups.expect("groups").len());
    names(source.queries.expect("queries").len());
    assert_eq!((source.audiences.expect("audiences").len(), source.routes.len()), (0, 2));
}

#[test]
fn a_schema_member_is_a_string_and_is_allowed_once_and_only_at_the_root() {
    for (file, text) in [
        ("audiences.json", r#"{"$schema":3}"#),
        ("audiences.json", r#"{"$schema":"a","$schema":"b"}"#),
        ("audiences.json", r#"{"a":{"$schema":"a","when":{}}}"#),
        ("routes/a.json", r#"{"path":"/a","layout":{"$schema":"a","root":{"props":{}},"zones":{}}}"#),
    ] {
        assert_eq!(read_texts(&[(file, text)]).1.diagnostics.len(), 1, "{text}");
    }
}
