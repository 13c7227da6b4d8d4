//! The limits of a query and of the cost of one response: one below, at, and one above.
//!
//! The limit of items in a collection is not tested, because a content file has room for fewer items.

use parallax::testing::limits::{
    EMBEDDED_QUERIES_MAX, INDEX_COMBINATIONS_MAX, INDEX_POSITIONS_MAX, ORDER_FIELDS_MAX, QUERIES_MAX,
    QUERY_EVALUATIONS_MAX, QUERY_LIMIT_MAX, QUERY_PARAMS_MAX, SORT_KEY_BYTES_MAX,
};
use serde_json::{Map, Value as Json, json};

use super::{Answer, PublishedSite, item, object, oracle};
use crate::bounds::{Site, assert_limit};

fn site(queries: Json, items: Json) -> Site {
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    let files = [("site.json", about), ("queries.json", queries), ("content/c.json", items)];
    files.map(|(path, json)| (path.to_owned(), json)).to_vec()
}

fn items(count: usize, fields: impl Fn(usize) -> Json) -> Json {
    (0..count).map(|i| item(&format!("{i:05}"), fields(i))).collect()
}

#[test]
fn a_query_has_at_most_16_parameters() {
    let query = |count: usize| {
        let names = || (0..count).map(|i| format!("p{i:02}"));
        let clauses: Vec<Json> = names().map(|name| json!({ "n": { "$ne": { "$param": name } } })).collect();
        let params = object(names().map(|name| (name, json!({ "type": "number", "optional": true }))));
        json!({ "q": { "collection": "c", "params": params, "where": { "$and": clauses } } })
    };
    let few = || items(3, |i| json!({ "n": i }));
    assert_limit(QUERY_PARAMS_MAX, |count| site(query(count), few()), "at most 16 parameters");

    let mut published = PublishedSite::new(&few(), &query(QUERY_PARAMS_MAX));
    for (count, is_answered) in [
        (QUERY_PARAMS_MAX - 1, true),
        (QUERY_PARAMS_MAX, true),
        (QUERY_PARAMS_MAX + 1, false),
        (3 * QUERY_PARAMS_MAX, false),
    ] {
        let params = object((0..count).map(|i| (format!("p{i:02}"), json!(1))));
        let members = json!({ "params": params });
        for answer in [published.get("q", &members), published.post("q", members)] {
            match is_answered {
                true => assert_eq!(answer.ids(), ["00000", "00002"]),
                false => assert_eq!(answer.refusal(), (400, "invalid_param")),
            }
        }
    }
}

#[test]
fn a_query_sorts_by_at_most_8_fields_including_the_id() {
    let by = |count: usize| {
        let fields: Vec<String> = (1..count).map(|i| format!("-f{i}")).collect();
        site(json!({ "q": { "collection": "c", "orderBy": fields } }), json!([]))
    };
    assert_limit(ORDER_FIELDS_MAX, by, "at most 8 fields, `id` included");
}

#[test]
fn a_sort_key_has_at_most_1024_bytes() {
    let queries = json!({ "q": { "collection": "c", "orderBy": ["-t"] } });
    // A tag and two zeros around each text. The ID has one byte.
    let of = |bytes: usize| json!([item("a", json!({ "t": "x".repeat(bytes - 7) })), item("b", json!({}))]);
    assert_limit(
        SORT_KEY_BYTES_MAX,
        |bytes| site(queries.clone(), of(bytes)),
        "of at most 1024 bytes together",
    );

    let mut published = PublishedSite::new(&of(SORT_KEY_BYTES_MAX), &queries);
    let first = published.get("q", &json!({ "limit": 1 }));
    assert_eq!(first.ids(), ["a"]);
    let rest = published.get("q", &json!({ "limit": 1, "cursor": first.body["nextCursor"] }));
    assert_eq!((rest.ids(), &rest.body["nextCursor"]), (vec!["b"], &Json::Null));
}

#[test]
fn a_site_has_at_most_1024_queries() {
    let queries = |count: usize| {
        let queries = object((0..count).map(|i| (format!("q{i}"), json!({ "collection": "c" }))));
        site(queries, json!([]))
    };
    assert_limit(QUERIES_MAX, queries, "at most 1024 queries");
}

#[test]
fn a_page_embeds_at_most_64_queries_that_use_its_path() {
    let params = json!({ "s": { "type": "string" } });
    let query = json!({ "collection": "c", "params": params, "where": { "s": { "$param": "s" } } });
    let page = |count: usize| {
        let embedded = json!({ "id": "q", "params": { "s": { "$route": "slug" } } });
        let node = |i| json!({ "id": format!("n{i}"), "type": "T", "props": {}, "query": embedded });
        let nodes: Vec<Json> = (0..count).map(node).collect();
        let layout = json!({ "root": { "props": {} }, "zones": { "main": nodes } });
        let mut site = site(json!({ "q": query }), json!([]));
        site.push(("routes/post.json".to_owned(), json!({ "path": "/:slug", "layout": layout })));
        site
    };
    assert_limit(EMBEDDED_QUERIES_MAX, page, "at most 64 queries that use a part of the path");
}

#[test]
fn a_page_of_results_has_at_most_100_items() {
    let mut published =
        PublishedSite::new(&items(102, |_| json!({})), &json!({ "q": { "collection": "c", "limit": 100 } }));
    for (limit, items) in [(1, 1), (QUERY_LIMIT_MAX - 1, 99), (QUERY_LIMIT_MAX, 100)] {
        assert_eq!(published.get("q", &json!({ "limit": limit })).ids().len(), items);
    }
    assert_eq!(published.get("q", &json!({})).ids().len(), 100);
    for limit in [0, QUERY_LIMIT_MAX + 1] {
        assert_eq!(published.get("q", &json!({ "limit": limit })).refusal(), (400, "invalid_limit"));
    }
}

/// Returns the response to a query that evaluates `count` items one by one.
fn scanned(count: usize) -> Answer {
    let number = json!({ "p": { "type": "number" } });
    let either = json!([{ "n": { "$gte": { "$param": "p" } } }, { "m": { "$gte": { "$param": "p" } } }]);
    let query = json!({ "collection": "c", "params": number, "where": { "$or": either } });
    let mut published = PublishedSite::new(&items(count, |i| json!({ "n": i })), &json!({ "q": query }));
    published.post("q", json!({ "params": { "p": count - 2 } }))
}

#[test]
fn a_response_evaluates_at_most_10000_items() {
    for count in [QUERY_EVALUATIONS_MAX - 1, QUERY_EVALUATIONS_MAX] {
        let answer = scanned(count);
        assert_eq!((answer.status, &answer.body["total"]), (200, &json!(2)));
    }
    let refused = scanned(QUERY_EVALUATIONS_MAX + 1);
    assert_eq!(refused.refusal(), (422, "query_too_expensive"));
    assert!(refused.body.get("pointer").is_none() && refused.body.get("param").is_none(), "{refused:?}");
    let detail = refused.body["detail"].as_str().expect("a detail");
    assert!(detail.contains(&QUERY_EVALUATIONS_MAX.to_string()) && detail.contains("10001"), "{detail}");
}

#[test]
fn a_range_that_leaves_10000_items_is_answered() {
    let number = json!({ "type": "number", "optional": true });
    let bounded = json!({ "n": { "$gte": { "$param": "from" }, "$lt": { "$param": "to" } } });
    let query = json!({ "collection": "c", "params": { "from": number, "to": number }, "where": bounded });
    let items = items(QUERY_EVALUATIONS_MAX + 1, |i| json!({ "n": i }));
    let mut published = PublishedSite::new(&items, &json!({ "q": query }));
    for (params, total) in
        [(json!({ "from": 1 }), 10_000), (json!({ "from": 2 }), 9_999), (json!({ "to": 3 }), 3)]
    {
        let answer = published.post("q", json!({ "params": params }));
        assert_eq!((answer.status, &answer.body["total"]), (200, &json!(total)), "{params}");
    }
    let refused = published.post("q", json!({ "params": { "from": 0 } }));
    assert_eq!(refused.refusal(), (422, "query_too_expensive"));
    // Without bounds no item is evaluated.
    let all = published.post("q", json!({ "params": {} }));
    assert_eq!((all.status, &all.body["total"]), (200, &json!(QUERY_EVALUATIONS_MAX + 1)));
}

/// Runs the query with each set of `values` and compares the response with the naive evaluation.
fn assert_matches_oracle(
    published: &mut PublishedSite,
    query: &Json,
    items: &Json,
    values: impl Iterator<Item = Map<String, Json>>,
) {
    for values in values {
        let found = oracle::matching_items(query, &values, items.as_array().expect("items"));
        let first: Vec<&str> =
            found.iter().take(20).map(|item| item["id"].as_str().expect("an ID")).collect();
        let answer = published.post("q", json!({ "params": values }));
        assert_eq!((answer.ids(), &answer.body["total"]), (first, &json!(found.len())), "{values:?}");
    }
}

#[test]
fn an_index_over_the_combination_limit_shrinks_and_answers_the_same() {
    let values = |count: usize| (0..count).map(|i| json!(i)).collect::<Vec<_>>();
    let bound = INDEX_COMBINATIONS_MAX;
    for (first, second, combinations) in [(33, 31, bound - 1), (32, 32, bound), (25, 41, bound + 1)] {
        assert_eq!(first * second, combinations);
        let params = json!({ "p": { "type": "number", "enum": values(first) },
            "q": { "type": "number", "enum": values(second) } });
        let condition = json!({ "n": { "$gte": { "$param": "p" } }, "m": { "$lt": { "$param": "q" } } });
        let query = json!({ "collection": "c", "params": params, "where": condition });
        let items = items(60, |i| json!({ "n": i * 7 % 35, "m": i * 11 % 42 }));
        let mut published = PublishedSite::new(&items, &json!({ "q": query }));
        let compiled = published.query("q");
        assert_eq!(
            (compiled.index.params.len(), compiled.scan.is_some()),
            if combinations > bound { (1, true) } else { (2, false) }
        );
        let pairs = (0..first).flat_map(|p| (0..second).map(move |q| (p, q)));
        let given = pairs.map(|(p, q)| [("p", p), ("q", q)].map(|(name, at)| (name.to_owned(), json!(at))));
        assert_matches_oracle(&mut published, &query, &items, given.map(Map::from_iter));
    }
}

#[test]
fn an_index_over_the_memory_limit_shrinks_and_answers_the_same() {
    let query = json!({ "collection": "c", "params": { "p": { "type": "string" } },
        "where": { "t": { "$ne": { "$param": "p" } } } });
    // An item is in the list of each value except its own, and in the list for all other values: in as many
    // lists as there are values. An item without the field is in one list more.
    for (count, values, without, positions) in [
        (6_141, 683, 0, INDEX_POSITIONS_MAX - 1),
        (4_096, 1_024, 0, INDEX_POSITIONS_MAX),
        (4_096, 1_024, 1, INDEX_POSITIONS_MAX + 1),
    ] {
        assert_eq!(count * values + without, positions);
        let items =
            items(count, |i| if i < without { json!({}) } else { json!({ "t": (i % values).to_string() }) });
        let mut published = PublishedSite::new(&items, &json!({ "q": query }));
        let compiled = published.query("q");
        assert_eq!(compiled.scan.is_some(), positions > INDEX_POSITIONS_MAX);
        let listed: usize = compiled.index.lists.iter().map(|list| list.len()).sum();
        assert_eq!(listed, if compiled.scan.is_some() { count } else { positions });
        let given = ["0", "1", "682", "none", ""].map(|text| ("p".to_owned(), json!(text)));
        assert_matches_oracle(
            &mut published,
            &query,
            &items,
            given.into_iter().map(|one| Map::from_iter([one])),
        );
    }
}
