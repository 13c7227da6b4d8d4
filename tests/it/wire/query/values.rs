//! Values of query parameters: their forms in a URL and in a body, their types, and clauses without a value.

use serde_json::{Value, json};

use super::{POSTS, compile_collections, ids, query_by_url_and_body, target};
use crate::harness::{Response, Server};
use crate::wire::{SharedServer, problem};

/// Strings and numbers that are hard to write in a URL or easily confused.
const TEXTS: &str = r#"[
  {"id":"space","type":"t","fields":{"key":"a b"}}, {"id":"plus","type":"t","fields":{"key":"a+b"}},
  {"id":"empty","type":"t","fields":{"key":""}}, {"id":"umlaut","type":"t","fields":{"key":"größe"}},
  {"id":"signs","type":"t","fields":{"key":"a&b=c#d%20"}}, {"id":"one","type":"t","fields":{"key":"1"}},
  {"id":"quoted","type":"t","fields":{"key":"\"\\\n"}}, {"id":"true","type":"t","fields":{"key":"true"}}
]"#;
const NUMBERS: &str = r#"[
  {"id":"zero","type":"t","fields":{"n":-0}}, {"id":"one","type":"t","fields":{"n":1.0}},
  {"id":"half","type":"t","fields":{"n":2.5}}, {"id":"less","type":"t","fields":{"n":-7}},
  {"id":"hundred","type":"t","fields":{"n":1e2}}, {"id":"text","type":"t","fields":{"n":"1"}},
  {"id":"large","type":"t","fields":{"n":9007199254740992}}, {"id":"true","type":"t","fields":{"n":true}}
]"#;

/// Returns conditions from which exactly the clauses of absent parameters must be removed.
fn shapes() -> Vec<(&'static str, Value)> {
    let [a, b] = ["a", "b"].map(|name| json!({ "$param": name }));
    vec![
        ("is", json!({ "category": a, "slug": b })),
        ("ne", json!({ "category": { "$ne": a } })),
        ("or", json!({ "$or": [{ "category": a }, { "slug": b }] })),
        ("or-fixed", json!({ "$or": [{ "category": a }, { "slug": "kiel" }] })),
        ("or-and", json!({ "$or": [{ "category": a, "live": false }, { "slug": b }] })),
        ("nor", json!({ "$nor": [{ "category": a }, { "slug": b }] })),
        ("not", json!({ "$not": { "category": a } })),
        ("not-test", json!({ "category": { "$not": { "$eq": a } } })),
        ("not-or", json!({ "$not": { "$or": [{ "category": a }, { "slug": b }] } })),
        ("element", json!({ "parts": { "$elemMatch": { "kind": a, "n": { "$gte": 1 } } } })),
        ("element-only", json!({ "parts": { "$elemMatch": { "kind": a } } })),
        ("element-value", json!({ "tags": { "$elemMatch": { "$eq": a } } })),
        ("and", json!({ "$and": [{ "$and": [{ "category": a }] }, { "live": true }] })),
    ]
}

static SERVER: SharedServer = SharedServer::new(|| {
    let text = |optional: bool| json!({ "type": "string", "optional": optional });
    let shapes = shapes().into_iter().map(|(name, matching)| {
        let query = json!({ "collection": "posts", "params": { "a": text(true), "b": text(true) }, "where": matching });
        (name.to_owned(), query)
    });
    let mut queries: serde_json::Map<String, Value> = shapes.collect();
    let number = json!({ "type": "number", "optional": true });
    queries.extend([
        (
            "text".to_owned(),
            json!({ "collection": "texts", "params": { "s": text(false) },
            "where": { "key": { "$param": "s" } } }),
        ),
        (
            "number".to_owned(),
            json!({ "collection": "numbers", "params": { "n": { "type": "number" } },
            "where": { "n": { "$eq": { "$param": "n" } } } }),
        ),
        (
            "listed".to_owned(),
            json!({ "collection": "numbers",
            "params": { "n": { "type": "number", "enum": [1, 2.5, 100], "default": 100 } },
            "where": { "n": { "$eq": { "$param": "n" } } } }),
        ),
        (
            "live".to_owned(),
            json!({ "collection": "posts", "params": { "b": { "type": "boolean" } },
            "where": { "live": { "$param": "b" } } }),
        ),
        (
            "between".to_owned(),
            json!({ "collection": "posts", "params": { "from": number, "to": number },
            "where": { "rank": { "$gte": { "$param": "from" }, "$lte": { "$param": "to" } } } }),
        ),
    ]);
    let collections = [("posts", POSTS), ("texts", TEXTS), ("numbers", NUMBERS)];
    Server::start(&[("acme.snapshot", &compile_collections("acme", &collections, &queries.into()))], &[])
});

fn by_url(query: &str, more: &str) -> Response {
    SERVER.get().get(&target(query, more))
}

fn by_body(query: &str, params: &str) -> Response {
    let body = format!(r#"{{"site":"acme","query":"{query}","params":{params}}}"#);
    SERVER.get().post("/v1/query", &[], body.as_bytes())
}

#[test]
fn a_string_in_a_url_is_form_decoded_once() {
    for (more, id) in [
        ("&params.s=a+b", "space"),
        ("&params.s=a%20b", "space"),
        ("&params.s=a%2Bb", "plus"),
        ("&params.s=", "empty"),
        ("&params.s", "empty"),
        ("&params.s=gr%C3%B6%C3%9Fe", "umlaut"),
        ("&params.s=a%26b=c%23d%2520", "signs"),
        ("&params.s=1", "one"),
        ("&params.s=true", "true"),
        ("&params.s=%22%5C%0A", "quoted"),
        ("&params%2Es=1", "one"),
        ("&params.%73=1", "one"),
        ("&%70arams%2e%73=%31", "one"),
    ] {
        assert_eq!(ids(&by_url("text", more)), [id], "{more}");
    }
    assert_eq!(ids(&by_url("text", "&params.s=A+B")), [""; 0]);
    for malformed in ["&params.s=%FF", "&params.%C3=1", "&params.s=%ED%A0%80"] {
        assert_eq!(problem(&by_url("text", malformed)), (400, "invalid_query".into()), "{malformed}");
    }
}

#[test]
fn a_string_parameter_in_a_body_is_a_json_string() {
    for (value, id) in [
        (r#""a b""#, "space"),
        (r#""a+b""#, "plus"),
        (r#""""#, "empty"),
        (r#""gr\u00f6\u00dfe""#, "umlaut"),
        (r#""\"\\\n""#, "quoted"),
        (r#""1""#, "one"),
    ] {
        assert_eq!(ids(&by_body("text", &format!(r#"{{"s":{value}}}"#))), [id], "{value}");
    }
    for value in ["1", "true", "null", "[]", r#"["a b"]"#, "{}", r#"{"$ne":""}"#, r#""\ud800""#] {
        let refused = by_body("text", &format!(r#"{{"s":{value}}}"#));
        assert_eq!(problem(&refused), (400, "invalid_param".into()), "{value}");
        assert_eq!(refused.json()["pointer"], "/params/s");
    }
}

#[test]
fn equal_numbers_match_in_any_notation() {
    let written = [
        (&["0", "-0", "0.0", "0e5", "-0.0"][..], "zero"),
        (&["1", "1.0", "1e0", "10e-1", "0.1e+1", "1E0"], "one"),
        (&["2.5", "25e-1"], "half"),
        (&["-7", "-7.00"], "less"),
        (&["100", "1e2", "1E+2"], "hundred"),
        (&["9007199254740992", "9007199254740992.0"], "large"),
    ];
    for (forms, id) in written {
        for form in forms {
            let escaped = form.replace('+', "%2B");
            assert_eq!(ids(&by_url("number", &format!("&params.n={escaped}"))), [id], "{form}");
            assert_eq!(ids(&by_body("number", &format!(r#"{{"n":{form}}}"#))), [id], "{form}");
        }
    }
    assert_eq!(ids(&by_url("number", "&params.n=3")), [""; 0]);
}

#[test]
fn an_invalid_number_is_refused() {
    for text in [
        "", "one", "%2B1", "+1", "1+", ".5", "5.", "01", "0x1", "1,0", "1_0", "NaN", "inf", "Infinity",
        "1e999", "true", "%221%22", "null", "[1]", "1%0A", "--1", "1e",
    ] {
        let refused = by_url("number", &format!("&params.n={text}"));
        assert_eq!(problem(&refused), (400, "invalid_param".into()), "{text}");
        assert_eq!(refused.json()["param"], "params.n");
    }
    for value in [r#""1""#, r#""""#, "true", "false", "null", "[1]", r#"{"n":1}"#, "1e999", "-1e999"] {
        let refused = by_body("number", &format!(r#"{{"n":{value}}}"#));
        assert_eq!(problem(&refused), (400, "invalid_param".into()), "{value}");
        assert_eq!(refused.json()["pointer"], "/params/n");
    }
}

#[test]
fn a_boolean_is_true_or_false() {
    let server = SERVER.get();
    assert_eq!(ids(&query_by_url_and_body(&server, "live", &json!({ "b": true }))), ["p1", "p2", "p4", "p5"]);
    assert_eq!(ids(&query_by_url_and_body(&server, "live", &json!({ "b": false }))), ["p3", "p6"]);
    for text in ["", "TRUE", "True", "1", "0", "yes", "null", "+true"] {
        assert_eq!(
            problem(&by_url("live", &format!("&params.b={text}"))),
            (400, "invalid_param".into()),
            "{text}"
        );
    }
    for value in [r#""true""#, "1", "0", "null", r#""""#] {
        let refused = by_body("live", &format!(r#"{{"b":{value}}}"#));
        assert_eq!(problem(&refused), (400, "invalid_param".into()), "{value}");
    }
}

#[test]
fn a_default_applies_only_to_an_absent_parameter() {
    let server = SERVER.get();
    let plain = query_by_url_and_body(&server, "listed", &json!({}));
    assert_eq!(ids(&plain), ["hundred"]);
    assert_eq!(query_by_url_and_body(&server, "listed", &json!({ "n": 100 })).body, plain.body);
    assert_eq!(ids(&query_by_url_and_body(&server, "listed", &json!({ "n": 2.5 }))), ["half"]);
}

#[test]
fn null_and_an_empty_text_are_absent_for_a_parameter_that_may_be_left_out() {
    let server = SERVER.get();
    // A parameter with a default, and one that is optional.
    let (listed, is) = (by_url("listed", "").body, by_url("is", "&params.b=kiel").body);
    for more in ["&params.n=", "&params.n"] {
        assert_eq!(by_url("listed", more).body, listed, "{more}");
    }
    assert_eq!(by_url("is", "&params.a=&params.b=kiel").body, is);
    for absent in ["null", r#""""#] {
        assert_eq!(by_body("listed", &format!(r#"{{"n":{absent}}}"#)).body, listed, "{absent}");
        assert_eq!(by_body("is", &format!(r#"{{"a":{absent},"b":"kiel"}}"#)).body, is, "{absent}");
    }
    // A required text may be empty. Other values are refused.
    assert_eq!(ids(&query_by_url_and_body(&server, "text", &json!({ "s": "" }))), ["empty"]);
    assert_eq!(problem(&by_body("text", r#"{"s":null}"#)), (400, "invalid_param".into()));
    assert_eq!(problem(&by_body("is", r#"{"a":[]}"#)), (400, "invalid_param".into()));
}

/// Returns the IDs of all posts except these.
fn all_posts_except(ids: &[&'static str]) -> Vec<&'static str> {
    ["p1", "p2", "p3", "p4", "p5", "p6"].into_iter().filter(|id| !ids.contains(id)).collect()
}

#[test]
fn a_clause_without_its_value_is_removed_with_its_empty_parents() {
    let (none, a, b) = (json!({}), json!({ "a": "guides" }), json!({ "b": "kiel" }));
    let both = json!({ "a": "guides", "b": "kiel" });
    let guides = ["p1", "p3", "p4", "p6"];
    let expected: Vec<(&str, &Value, Vec<&str>)> = vec![
        ("is", &none, all_posts_except(&[])),
        ("is", &a, guides.to_vec()),
        ("is", &b, vec!["p2"]),
        ("is", &both, vec![]),
        ("ne", &none, all_posts_except(&[])),
        ("ne", &a, all_posts_except(&guides)),
        ("or", &none, all_posts_except(&[])),
        ("or", &a, guides.to_vec()),
        ("or", &b, vec!["p2"]),
        ("or", &both, vec!["p1", "p2", "p3", "p4", "p6"]),
        ("or-fixed", &none, vec!["p2"]),
        ("or-fixed", &a, vec!["p1", "p2", "p3", "p4", "p6"]),
        ("or-and", &none, vec!["p3", "p6"]),
        ("or-and", &b, vec!["p2", "p3", "p6"]),
        ("nor", &none, all_posts_except(&[])),
        ("nor", &a, all_posts_except(&guides)),
        ("nor", &both, vec!["p5"]),
        ("not", &none, all_posts_except(&[])),
        ("not", &a, all_posts_except(&guides)),
        ("not-test", &none, all_posts_except(&[])),
        ("not-test", &a, all_posts_except(&guides)),
        ("not-or", &none, all_posts_except(&[])),
        ("not-or", &b, all_posts_except(&["p2"])),
        ("element-only", &none, all_posts_except(&[])),
        ("element-value", &none, all_posts_except(&[])),
        ("and", &none, vec!["p1", "p2", "p4", "p5"]),
        ("and", &a, vec!["p1", "p4"]),
    ];
    for (query, params, expected) in expected {
        assert_eq!(ids(&query_by_url_and_body(&SERVER.get(), query, params)), expected, "{query} {params}");
    }
}

#[test]
fn a_clause_inside_an_element_match_is_removed_alone() {
    let server = SERVER.get();
    let find = |query: &str, params: Value| ids(&query_by_url_and_body(&server, query, &params));
    assert_eq!(find("element", json!({})), ["p1"]);
    assert_eq!(find("element", json!({ "a": "sock" })), ["p1"]);
    assert_eq!(find("element", json!({ "a": "pack" })), [""; 0]);
    assert_eq!(find("element-only", json!({ "a": "pack" })), ["p3"]);
    assert_eq!(find("element-value", json!({ "a": "care" })), ["p1"]);
}

#[test]
fn absent_bounds_do_not_restrict_the_result() {
    let server = SERVER.get();
    let find = |params: Value| ids(&query_by_url_and_body(&server, "between", &params));
    assert_eq!(find(json!({})), all_posts_except(&[]));
    assert_eq!(find(json!({ "from": 2 })), ["p1", "p3", "p4"]);
    // An item without a rank counts as 0, as in the condition dialect.
    assert_eq!(find(json!({ "to": 1 })), ["p2", "p5", "p6"]);
    assert_eq!(find(json!({ "from": 1, "to": 2 })), ["p2", "p3", "p4"]);
    assert_eq!(find(json!({ "from": -1, "to": -1 })), ["p6"]);
    assert_eq!(find(json!({ "from": 3, "to": 2 })), [""; 0]);
}
