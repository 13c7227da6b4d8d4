//! Properties of every file: schema, validator and serde types agree, and every position is found.

use std::collections::BTreeSet;

use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use parallax::testing::nearest::nearest;
use parallax::testing::site::source::diagnostics::{Diagnostic, Diagnostics, push_token};
use parallax::testing::site::source::pattern::PATTERNS;
use parallax::testing::site::source::schema::{FileKind, structure};
use parallax::testing::site::source::types::{Audiences, Content, Groups, Queries, Route, Site, Test};
use parallax::testing::site::source::validate::Validator;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::{files, report_lines_of};

/// Valid files that together have every member of their kind.
fn valid_files(kind: FileKind) -> Vec<Value> {
    match kind {
        FileKind::Site => vec![json!({
            "$schema": "./s.json", "site": "acme", "trackingId": "track_acme", "name": "Acme", "version": 1, "origins": ["https://a.example"],
            "hosts": ["b.example"], "ignoredReferrers": ["*.c.example"], "ignoreProviders": false, "holdout": {"share": 0.05, "seed": "q", "rules": true},
            "attribution": {"window": "7d", "model": "first"}, "properties": ["plan", "a.b"], "searchable": ["email"], "private": ["phone"], "localDecisions": true,
            "segments": {"all": {"name": "All", "filters": {"page": ["/"], "source": ["news"], "campaign": ["spring"],
                "country": ["NO"], "device": ["mobile"], "language": ["nb"], "event": ["Order Placed"], "variant": ["hero:b"]}}},
            "goals": {"a": {"name": "A", "event": "E*", "page": "/p", "value": "properties.v", "currency": "properties.c", "where": {"properties.p.q": {
                "$eq": "x", "$ne": 1, "$in": [true], "$nin": ["y"], "$gt": 1, "$gte": "a", "$lt": 2.5, "$lte": "b", "$exists": true}}}},
            "timeZone": "UTC", "cookie": "c", "identity": {"verify": "signed"}, "privacy": {"honorGpc": true, "ip": "full", "consentCategories": {"measure": "a", "personalize": ["b", "c"]}}, "bots": "keep",
            "cache": {"resolve": {"sMaxAge": 1, "staleWhileRevalidate": 2, "staleIfError": 3}, "query": {}, "routes": {}},
        })],
        FileKind::Audiences => {
            vec![
                json!({"$schema": "s", "pro": {"name": "Pro", "when": {"traits.plan": "pro"}}, "all": {"when": {}}}),
            ]
        }
        FileKind::Groups => vec![json!({"$schema": "s", "a": [1, "b", null, {"c": []}], "b": []})],
        FileKind::Queries => vec![json!({"$schema": "s", "q": {
            "collection": "posts", "where": {"a": {"$param": "s"}}, "orderBy": ["-a", "id"], "select": ["a"], "limit": 2,
            "params": {
                "s": {"type": "string", "enum": ["a", "b"], "default": "a", "optional": true},
                "n": {"type": "number", "minimum": 0.5, "maximum": 3, "default": 1},
                "b": {"type": "boolean", "default": false},
            },
        }})],
        FileKind::Route => vec![
            json!({"$schema": "s", "path": "/old", "updatedAt": "2026-01-05T10:00:00Z", "redirect": {"to": "/new", "status": 308}}),
            page(),
        ],
        FileKind::Content => vec![json!([{"id": "p1", "type": "post", "fields": {"a": {"b": [1]}}}])],
        FileKind::Test => vec![test()],
    }
}

fn test() -> Value {
    let event = json!({
        "at": "-1d", "timestamp": 1, "type": "track", "event": "E", "name": "n", "properties": {"a": 1}, "traits": {"a": 1},
        "context": {"locale": "de"}, "anonId": "a", "anonymousId": "a", "userId": 7, "previousId": "p", "messageId": "m",
        "variants": "hero:b", "experiments": "k:b", "groupId": "g", "set": {}, "setOnce": {}, "unset": [], "increment": {},
        "append": {}, "union": {}, "remove": {},
    });
    let visitor = json!({
        "anonId": "a", "userId": "u", "traits": {"plan": "pro"}, "events": [event], "userAgent": "Mozilla/5.0", "locale": "de",
        "arms": {"k": "b"}, "country": "DE", "gpc": true, "consent": {"measure": false, "personalize": false},
    });
    let expect = json!({
        "variants": {"hero": "b", "inner": null}, "experiments": {"k": "~", "l": null},
        "props": {"h0": {"a": [1]}, "h1": null}, "redirect": {"to": "/new", "status": 308},
    });
    json!({"$schema": "s", "now": "2026-01-01T12:00:00Z", "cases": [{
        "name": "n", "now": "2026-01-01T12:00:00Z", "visitor": visitor, "path": "/", "url": "/?a=b", "referrer": "https://a.example/",
        "override": {"hero": "b"}, "expect": expect,
    }]})
}

fn page() -> Value {
    let node = json!({"id": "h0", "type": "Hero", "props": {"a": [1, {"b": null}]}});
    let query_node = json!({
        "id": "q1", "type": "List", "props": {}, "zones": {"left": [node]},
        "query": {"id": "latest", "params": {"a": {"$route": "slug"}}},
    });
    let experiment = json!({
        "key": "k", "variants": ["default", "b"], "weights": [0.5, 0.5], "seed": "s",
        "namespace": ["n", 0, 0.5], "holdout": 0.05, "from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z", "winner": "b",
        "coverage": [{ "from": "2026-03-02T00:00:00Z", "share": 0.5 }], "goal": "Order Placed", "value": "properties.revenue", "currency": "properties.c", "cap": "p99",
        "guardrails": [{ "goal": "page:/", "margin": 0.02, "lowerIsBetter": true }], "planned": 20000, "window": "14d", "segments": ["device", "new"],
    });
    let rules = json!([
        {"audience": "pro", "variant": "b"},
        {"when": {"a": 1}, "variant": "b"},
        {"experiment": experiment, "when": {"a": 1}},
        {"experiment": {"key": "k", "variants": ["b"]}},
    ]);
    let zones =
        json!({"main": [query_node], "hero": {"default": [node], "variants": {"b": []}, "rules": rules}});
    let each = json!({"collection": "posts", "slug": "fields.slug", "where": {"draft": {"$ne": true}}});
    json!({"$schema": "s", "path": "/", "updatedAt": null, "each": each, "layout": {"root": {"props": {"title": "A"}}, "zones": zones}})
}

#[derive(Debug, Clone)]
enum Mutation {
    Remove,
    Rename(&'static str),
    Retype(Value),
    Add(&'static str, Value),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let names = [
        "a", "when", "variant", "audience", "redirect", "layout", "path", "default", "zones", "a b", "", "id",
    ];
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(101),
        json!(0.5),
        json!(2_u64.pow(53) + 2),
        json!(""),
        json!("default"),
        json!("a"),
        json!("/a"),
        json!("a b"),
        json!("none"),
        json!("x".repeat(129)),
        json!([]),
        json!([1]),
        json!(["a", 0, 1]),
        json!({}),
        json!({"a": 1}),
        json!({"when": {}, "variant": "b"}),
    ];
    let (name, value) = (prop::sample::select(names.to_vec()), prop::sample::select(values.to_vec()));
    prop_oneof![
        Just(Mutation::Remove),
        name.clone().prop_map(Mutation::Rename),
        value.clone().prop_map(Mutation::Retype),
        (name, value).prop_map(|(name, value)| Mutation::Add(name, value)),
    ]
}

/// Returns all pointers into a value, except the pointer to the whole value.
fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => vec![],
    };
    for (token, child) in children {
        let mut pointer = String::new();
        push_token(&mut pointer, &token);
        found.extend(pointers(child).into_iter().map(|rest| format!("{pointer}{rest}")));
        found.push(pointer);
    }
    found
}

fn mutate(value: &mut Value, at: &Index, mutation: &Mutation) {
    let pointers = pointers(value);
    if pointers.is_empty() {
        return;
    }
    let pointer = at.get(&pointers);
    let (parent, token) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let parent = value.pointer_mut(parent).expect("a pointer into this value");
    match (mutation, parent) {
        (Mutation::Remove, Value::Object(members)) => drop(members.remove(token)),
        (Mutation::Remove, Value::Array(elements)) => drop(elements.remove(token.parse().expect("an index"))),
        (Mutation::Rename(name), Value::Object(members)) => {
            if let Some(value) = members.remove(token) {
                members.insert((*name).to_owned(), value);
            }
        }
        (Mutation::Add(name, value), Value::Object(members)) => {
            drop(members.insert((*name).to_owned(), value.clone()))
        }
        (Mutation::Add(_, value), Value::Array(elements)) => elements.push(value.clone()),
        (Mutation::Retype(new), parent) => {
            *parent.pointer_mut(&format!("/{token}")).expect("the member exists") = new.clone()
        }
        (Mutation::Rename(_), _) => {}
        (_, parent) => unreachable!("a parent is an object or an array: {parent}"),
    }
}

fn validator_diagnostics(kind: FileKind, text: &str) -> Diagnostics {
    let tree = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).expect("JSON");
    let mut diagnostics = Diagnostics::default();
    Validator::new(kind).check("file.json", &tree.value.expect("a value"), &mut diagnostics);
    diagnostics
}

/// Returns whether serde accepts the file without `$schema`, which the reader removes.
fn serde_accepts(kind: FileKind, text: &str) -> bool {
    let mut file: Value = serde_json::from_str(text).expect("JSON");
    if let Some(members) = file.as_object_mut() {
        members.shift_remove("$schema");
    }
    let text = &file.to_string();
    match kind {
        FileKind::Site => serde_json::from_str::<Site>(text).is_ok(),
        FileKind::Audiences => serde_json::from_str::<Audiences>(text).is_ok(),
        FileKind::Groups => serde_json::from_str::<Groups>(text).is_ok(),
        FileKind::Queries => serde_json::from_str::<Queries>(text).is_ok(),
        FileKind::Route => serde_json::from_str::<Route>(text).is_ok(),
        FileKind::Content => serde_json::from_str::<Content>(text).is_ok(),
        FileKind::Test => serde_json::from_str::<Test>(text).is_ok(),
    }
}

/// Validates a value by JSON Schema. A naive implementation of the standard that returns only yes or no.
fn is_valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return schema == true;
    };
    let each = |keyword: &str| schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let within = |size: f64, least: &str, most: &str| {
        limit(least).is_none_or(|min| size >= min) && limit(most).is_none_or(|max| size <= max)
    };
    let valid = |schema: &Value| is_valid(root, schema, value);
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let own = match value {
        Value::Object(members) => {
            each("required").all(|name| members.contains_key(name.as_str().expect("a name")))
                && members.iter().all(|(name, value)| is_valid_member(root, schema, name, value))
        }
        Value::Array(elements) => {
            let prefix: Vec<&Value> = each("prefixItems").collect();
            within(elements.len() as f64, "minItems", "maxItems")
                && elements.iter().zip(&prefix).all(|(element, schema)| is_valid(root, schema, element))
                && elements
                    .iter()
                    .skip(prefix.len())
                    .all(|element| schema.get("items").is_none_or(|items| is_valid(root, items, element)))
        }
        Value::String(text) => {
            within(text.chars().count() as f64, "minLength", "maxLength")
                && schema.get("pattern").is_none_or(|regex| matches(regex.as_str().expect("a pattern"), text))
        }
        Value::Number(number) => within(number.as_f64().expect("a number"), "minimum", "maximum"),
        _ => true,
    };
    own && (types.is_empty() || types.iter().any(|name| is_of_type(name, value)))
        && schema.get("$ref").is_none_or(|name| {
            valid(
                root.pointer(name.as_str().expect("a reference").trim_start_matches('#'))
                    .expect("the referenced schema"),
            )
        })
        && (!schema.contains_key("anyOf") || each("anyOf").any(valid))
        && (!schema.contains_key("oneOf") || each("oneOf").filter(|schema| valid(schema)).count() == 1)
        && (!schema.contains_key("enum") || each("enum").any(|constant| constant == value))
        && schema.get("const").is_none_or(|constant| constant == value)
}

fn is_valid_member(root: &Value, schema: &serde_json::Map<String, Value>, name: &str, value: &Value) -> bool {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    let patterns = schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
    let patterned = patterns.filter(|(regex, _)| matches(regex, name)).map(|(_, schema)| schema);
    let known: Vec<&Value> = named.into_iter().chain(patterned).collect();
    match known.as_slice() {
        [] => schema.get("additionalProperties").is_none_or(|others| is_valid(root, others, value)),
        known => known.iter().all(|schema| is_valid(root, schema, value)),
    }
}

fn matches(regex: &str, text: &str) -> bool {
    let pattern = PATTERNS.iter().find(|pattern| pattern.regex == regex);
    (pattern.expect("a pattern of the table").matches)(text)
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type: {other}"),
    }
}

#[test]
fn valid_files_are_accepted_by_the_schema_the_validator_and_serde() {
    for kind in FileKind::ALL {
        for value in valid_files(kind) {
            let text = value.to_string();
            assert!(validator_diagnostics(kind, &text).is_empty(), "{kind:?}");
            assert!(serde_accepts(kind, &text), "{kind:?}");
            assert!(is_valid(&structure(kind), &structure(kind), &value), "{kind:?}");
        }
    }
}

#[test]
fn the_valid_files_have_every_member_of_their_schema() {
    for kind in FileKind::ALL {
        let mut known = BTreeSet::new();
        property_names(&structure(kind), &mut known);
        let present: BTreeSet<String> = valid_files(kind).iter().flat_map(pointers).collect();
        let names: BTreeSet<&str> = present.iter().filter_map(|pointer| pointer.rsplit('/').next()).collect();
        let missing: Vec<&String> = known.iter().filter(|name| !names.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{kind:?}: {missing:?}");
    }
}

fn property_names(schema: &Value, names: &mut BTreeSet<String>) {
    // A member of a file can be named `properties` too.
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        names.insert(name.clone());
        property_names(property, names);
    }
    let children = schema.as_object().into_iter().flatten();
    let children = children.filter(|(name, _)| *name != "properties").map(|(_, child)| child);
    let children = children.chain(schema.as_array().into_iter().flatten());
    children.for_each(|child| property_names(child, names));
}

#[test]
fn every_schema_has_a_title_and_the_site_schema_describes_its_members() {
    for kind in FileKind::ALL {
        let schema = structure(kind);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(schema["title"].as_str().is_some_and(|title| title.contains(".json: ")), "{kind:?}");
    }
    let site = structure(FileKind::Site);
    let members = site["properties"].as_object().expect("members");
    assert!(members.values().all(|member| member["description"].is_string()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_schema_and_the_validator_agree_on_mutated_files(
        kind in prop::sample::select(FileKind::ALL.to_vec()),
        which in any::<Index>(),
        mutations in prop::collection::vec((any::<Index>(), mutation()), 1..4),
    ) {
        let mut value = which.get(&valid_files(kind)).clone();
        for (at, mutation) in &mutations {
            mutate(&mut value, at, mutation);
        }
        let text = value.to_string();
        let accepted = validator_diagnostics(kind, &text).is_empty();
        let schema = structure(kind);
        prop_assert_eq!(accepted, is_valid(&schema, &schema, &value), "{}", text);
        prop_assert!(!accepted || serde_accepts(kind, &text), "{}", text);
    }
}

/// Generates JSON of any shape, with characters of one to four bytes.
fn any_json() -> impl Strategy<Value = Value> {
    let text = "[a-z\"\\\\/~é漢😀\u{7f}\u{0}-\u{1f}]{0,4}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("finite", |number| serde_json::Number::from_f64(number).map(Value::Number)),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(text, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Replaces all other characters than ASCII by `\u` escapes, as surrogate pairs if needed.
fn in_ascii(text: &str) -> String {
    let escaped =
        |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    text.chars().map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) }).collect()
}

proptest! {
    #[test]
    fn any_json_is_read(value in any_json()) {
        let compact = json!({"g": [value]}).to_string();
        let pretty = serde_json::to_string_pretty(&json!({"g": [value]})).expect("JSON");
        let none: [&str; 0] = [];
        prop_assert_eq!(report_lines_of("groups.json", &compact), none);
        prop_assert_eq!(report_lines_of("groups.json", &pretty), none);
        prop_assert_eq!(report_lines_of("groups.json", &in_ascii(&compact)), none);
    }

    #[test]
    fn invalid_json_is_one_error_inside_the_file(value in any_json(), at in any::<Index>(), put in "[\\PC\n]?") {
        let text = json!({"g": [value]}).to_string();
        let mut chars: Vec<String> = text.chars().map(String::from).collect();
        let at = at.index(chars.len());
        chars[at] = put;
        let text = chars.concat();
        let lines = report_lines_of("groups.json", &text);
        if serde_json::from_str::<Value>(&text).is_err() {
            prop_assert_eq!(lines.len(), 1, "{:?}", lines);
            let place = lines[0].strip_prefix("groups.json:").and_then(|rest| rest.split(' ').next()).expect("a position");
            let (line, column) = place.split_once(':').expect("line and column");
            let line = text.split('\n').nth(line.parse::<usize>().expect("a number") - 1).expect("a line of the file");
            prop_assert!(column.parse::<usize>().expect("a number") <= line.chars().count() + 1, "{:?}", lines);
        }
    }

    #[test]
    fn a_pointer_is_resolved_to_the_position_of_its_value(value in any_json(), at in any::<Index>()) {
        let value = json!({"g": [value]});
        let text = value.to_string();
        let pointers = pointers(&value);
        let pointer = at.get(&pointers);
        let mut diagnostics = Diagnostics::default();
        diagnostics.add(Diagnostic::at_value("groups.json", pointer.as_str(), "", ""));
        let report = diagnostics.report(&files(&[("groups.json", &text)]));
        let rest: String = text.chars().skip(report.diagnostics[0].column - 1).collect();
        let expected = value.pointer(pointer).expect("a pointer into this value").to_string();
        prop_assert_eq!(report.diagnostics[0].line, 1);
        prop_assert!(rest.starts_with(&expected), "{} at {} is not {}", pointer, rest, expected);
    }

    #[test]
    fn a_name_with_one_typo_is_found(name in "[a-z]{4,12}", at in any::<Index>(), typo in 0..4, letter in "[a-z]") {
        let mut letters: Vec<char> = name.chars().collect();
        let at = at.index(letters.len() - 1);
        let letter = letter.chars().next().expect("a letter");
        match typo {
            0 => drop(letters.remove(at)),
            1 => letters.insert(at, letter),
            2 => letters[at] = letter,
            _ => letters.swap(at, at + 1),
        }
        let misspelt: String = letters.into_iter().collect();
        prop_assert_eq!(nearest(&misspelt, ["0123456789", &*name, ""]), Some(name));
    }
}
