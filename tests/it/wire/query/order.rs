//! The order of items, and the number of items on a page.

use serde_json::{Value, json};

use super::{compile_collections, ids, next_cursor, target};
use crate::harness::Server;
use crate::wire::{SharedServer, problem};

/// Values of every type in their sort order. `MISSING` has the values that count as missing.
const KEYS: [&str; 19] = [
    "false",
    "true",
    "-1e300",
    "-3",
    "0",
    "0.5",
    "2",
    "10",
    "1e300",
    r#""""#,
    r#""\u0000""#,
    r#""\u0001""#,
    r#""10""#,
    r#""2""#,
    r#""Z""#,
    r#""a""#,
    r#""ab""#,
    r#""\uFB01""#,
    r#""😀""#,
];
const MISSING: [&str; 4] = ["null", "[1]", r#"{"a":1}"#, "[]"];

/// Returns the ID of the item whose key is at this index of the sort order.
fn item_id(index: usize) -> String {
    // The order of the IDs differs from that of the keys.
    format!("i{:02}", (index * 7) % 23)
}

/// Returns items with all keys, and one item without a key, in another order.
fn mixed() -> String {
    let keys = KEYS.into_iter().chain(MISSING).enumerate();
    let mut items: Vec<String> = keys
        .map(|(index, key)| format!(r#"{{"id":"{}","type":"t","fields":{{"key":{key}}}}}"#, item_id(index)))
        .collect();
    items.push(r#"{"id":"none","type":"t","fields":{}}"#.to_owned());
    items.sort_by_key(|item| item.bytes().map(u64::from).sum::<u64>() % 7);
    format!("[{}]", items.join(","))
}

const GROUPED: &str = r#"[
  {"id":"d","type":"t","fields":{"group":"x","meta":{"n":1}}}, {"id":"c","type":"t","fields":{"group":"y","meta":{"n":5}}},
  {"id":"b","type":"t","fields":{"group":"x","meta":{"n":2}}}, {"id":"a","type":"t","fields":{"meta":{"n":1}}},
  {"id":"e","type":"t","fields":{"group":"x","meta":{"n":2}}}, {"id":"B","type":"t","fields":{"group":"y"}}
]"#;

static SERVER: SharedServer = SharedServer::new(|| {
    let many: Vec<Value> =
        (0..150).map(|i| json!({ "id": format!("m{i:03}"), "type": "t", "fields": {} })).collect();
    let over = |collection: &str, order: &[&str]| json!({ "collection": collection, "orderBy": order });
    let queries = json!({
        "up": over("mixed", &["key"]),
        "down": over("mixed", &["-key"]),
        "grouped": over("grouped", &["group", "-meta.n"]),
        "grouped-down": over("grouped", &["-group", "meta.n", "-id"]),
        "by-id": over("grouped", &["id"]),
        "by-id-down": over("grouped", &["-id"]),
        "unordered": over("grouped", &[]),
        "many": over("many", &[]),
        "hundred": { "collection": "many", "limit": 100 },
    });
    let collections = [("mixed", &*mixed()), ("grouped", GROUPED), ("many", &*json!(many).to_string())];
    Server::start(&[("acme.snapshot", &compile_collections("acme", &collections, &queries))], &[])
});

fn found(query: &str, more: &str) -> Vec<String> {
    ids(&SERVER.get().get(&target(query, more)))
}

#[test]
fn values_sort_by_type_then_by_value_and_missing_ones_last() {
    let mut missing: Vec<String> = (KEYS.len()..KEYS.len() + MISSING.len()).map(item_id).collect();
    missing.push("none".to_owned());
    missing.sort();
    let mut ordered: Vec<String> = (0..KEYS.len()).map(item_id).collect();
    assert_eq!(found("up", "&limit=100"), [&ordered[..], &missing].concat());
    ordered.reverse();
    assert_eq!(found("down", "&limit=100"), [ordered, missing].concat());
}

#[test]
fn order_fields_apply_in_turn_and_the_id_breaks_ties() {
    assert_eq!(found("grouped", ""), ["b", "e", "d", "c", "B", "a"]);
    assert_eq!(found("grouped-down", ""), ["c", "B", "d", "e", "b", "a"]);
    assert_eq!(found("by-id", ""), ["B", "a", "b", "c", "d", "e"]);
    assert_eq!(found("by-id-down", ""), ["e", "d", "c", "b", "a", "B"]);
    assert_eq!(found("unordered", ""), ["B", "a", "b", "c", "d", "e"]);
}

#[test]
fn a_page_has_the_requested_number_of_items() {
    let pages = [
        ("", 20),
        ("&limit=1", 1),
        ("&limit=2", 2),
        ("&limit=99", 99),
        ("&limit=100", 100),
        ("&limit=007", 7),
    ];
    for (more, count) in pages {
        let response = SERVER.get().get(&target("many", more));
        assert_eq!((ids(&response).len(), &response.json()["total"]), (count, &json!(150)), "{more}");
        assert_eq!(ids(&response)[count - 1], format!("m{:03}", count - 1));
    }
    assert_eq!(found("hundred", "").len(), 100);
    for limit in [1, 20, 100] {
        let body = json!({ "site": "acme", "query": "many", "limit": limit }).to_string();
        let response = SERVER.get().post("/v1/query", &[], body.as_bytes());
        assert_eq!(ids(&response).len(), limit);
        assert_eq!(response.body, SERVER.get().get(&target("many", &format!("&limit={limit}"))).body);
    }
}

#[test]
fn the_total_counts_the_items_of_all_pages() {
    let first = SERVER.get().get(&target("hundred", ""));
    let second = SERVER.get().get(&target("hundred", &format!("&cursor={}", next_cursor(&first))));
    assert_eq!((ids(&second).len(), &second.json()["total"]), (50, &json!(150)));
    assert_eq!(second.json()["nextCursor"], json!(null));
}

#[test]
fn a_limit_is_a_whole_number_from_1_to_100() {
    for text in
        ["0", "101", "-1", "2.5", "1e2", "ten", "%2B5", "+5", "5%20", "99999999999999999999", "\u{664}"]
    {
        let refused =
            SERVER.get().get(&target("many", &format!("&limit={}", text.replace('\u{664}', "%D9%A4"))));
        assert_eq!(problem(&refused), (400, "invalid_limit".into()), "{text}");
        assert_eq!((&refused.json()["param"], refused.json().get("pointer")), (&json!("limit"), None));
    }
    let written = [
        "0",
        "101",
        "-1",
        "2.5",
        "5.0",
        "1e2",
        r#""5""#,
        r#""ten""#,
        "true",
        "false",
        "[5]",
        "{}",
        "99999999999999999999",
    ];
    for value in written {
        let body = format!(r#"{{"site":"acme","query":"many","limit":{value}}}"#);
        let refused = SERVER.get().post("/v1/query", &[], body.as_bytes());
        assert_eq!(problem(&refused), (400, "invalid_limit".into()), "{value}");
        assert_eq!((&refused.json()["pointer"], refused.json().get("param")), (&json!("/limit"), None));
    }
}
