//! Cursors: pages contain every item once, and a damaged or foreign cursor is refused.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{compile_collections, compile_version, get, ids, next_cursor, post, target};
use crate::harness::{Client, Response, Server, eventually};
use crate::wire::{SharedServer, percent_encode, problem};

/// Returns 41 items whose order differs from that of their IDs. Many keys are equal, and some are missing.
fn items() -> Value {
    let item = |i: usize| {
        let group = ["even", "odd"][i & 1];
        let fields = match i % 7 {
            0 => json!({ "group": "odd" }),
            rest => {
                json!({ "key": format!("k{}é", rest % 4), "group": group })
            }
        };
        json!({ "id": format!("i{:02}", i * 17 % 41), "type": "t", "fields": fields })
    };
    (0..41).map(item).collect()
}

fn paged_queries() -> Value {
    let group = json!({ "type": "string", "enum": ["odd", "even"], "optional": true });
    let from = json!({ "type": "string", "optional": true });
    json!({
        "up": { "collection": "items", "orderBy": ["key"] },
        "down": { "collection": "items", "orderBy": ["-key", "-id"] },
        "grouped": { "collection": "items", "orderBy": ["-key"], "params": { "group": group },
            "where": { "group": { "$param": "group" } } },
        "scanned": { "collection": "items", "orderBy": ["key"], "params": { "from": from, "group": group },
            "where": { "key": { "$gte": { "$param": "from" } }, "group": { "$param": "group" } } },
    })
}

static PAGED: SharedServer = SharedServer::new(|| {
    let items = items().to_string();
    let [acme, twin] =
        ["acme", "twin"].map(|site| compile_collections(site, &[("items", &items)], &paged_queries()));
    Server::start(&[("acme.snapshot", &acme), ("twin.snapshot", &twin)], &[])
});

/// Reads all items page by page. Every page but the last must have `limit(page)` items.
fn read_all_pages(
    client: &mut Client,
    query: &str,
    params: &str,
    limit: impl Fn(usize) -> usize,
) -> Vec<String> {
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    for page in 0.. {
        let limit = limit(page);
        let more = format!("{params}&limit={limit}&cursor={cursor}");
        let response = client.request("GET", &target(query, &more), &[]);
        let found = ids(&response);
        listed.extend(found.iter().cloned());
        match response.json()["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
        assert_eq!(found.len(), limit, "a page that is not full has a next cursor");
    }
    listed
}

#[test]
fn pages_of_any_limit_contain_every_item_once_in_order() {
    let server = PAGED.get();
    let mut client = Client::to(server.edge);
    for (query, params, count) in [
        ("up", "", 41),
        ("down", "", 41),
        ("grouped", "", 41),
        ("grouped", "&params.group=even", 18),
        ("scanned", "&params.from=k2", 17),
        ("scanned", "&params.from=k1&params.group=odd", 14),
    ] {
        let all = ids(&client.request("GET", &target(query, &format!("{params}&limit=100")), &[]));
        assert_eq!(all.len(), count, "{query}{params}");
        for limit in [1, 2, 3, 7, count - 1, count, count + 1] {
            assert_eq!(
                read_all_pages(&mut client, query, params, |_| limit),
                all,
                "{query}{params} by {limit}"
            );
        }
        // A different limit on each page.
        assert_eq!(read_all_pages(&mut client, query, params, |page| page % 5 + 1), all, "{query}{params}");
    }
}

#[track_caller]
fn assert_cursor_refused(client: &mut Client, query: &str, more: &str, cursor: &str) {
    let response =
        client.request("GET", &target(query, &format!("{more}&cursor={}", percent_encode(cursor))), &[]);
    assert_eq!(problem(&response), (400, "invalid_cursor".into()), "{query}{more} {cursor}");
    assert_eq!(response.json()["param"], "cursor");
}

#[test]
fn an_altered_cursor_is_refused() {
    let server = PAGED.get();
    let mut client = Client::to(server.edge);
    let cursor = next_cursor(&client.request("GET", &target("up", "&limit=3"), &[]));
    assert!(cursor.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{cursor}");
    for at in 0..cursor.len() {
        let digit = cursor[at..=at].to_owned();
        let other = ["0", "1", "8", "f", "g", " ", "é", ""];
        for other in other.into_iter().map(str::to_owned).chain([digit.to_ascii_uppercase()]) {
            if other != digit {
                assert_cursor_refused(
                    &mut client,
                    "up",
                    "",
                    &format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]),
                );
            }
        }
        if at > 0 {
            assert_cursor_refused(&mut client, "up", "", &cursor[..at]);
        }
    }
    for damaged in [
        cursor.to_ascii_uppercase(),
        format!("{cursor}0"),
        format!("{cursor}00"),
        format!("{cursor}{cursor}"),
    ] {
        assert_cursor_refused(&mut client, "up", "", &damaged);
    }
    for damaged in
        [format!(" {cursor}"), format!("{cursor}\n"), format!("0x{cursor}"), format!("\"{cursor}\"")]
    {
        assert_cursor_refused(&mut client, "up", "", &damaged);
    }
}

#[test]
fn a_cursor_belongs_to_its_site_query_and_parameters() {
    let server = PAGED.get();
    let mut client = Client::to(server.edge);
    let cursor = next_cursor(&client.request("GET", &target("grouped", "&params.group=odd&limit=3"), &[]));
    let again = format!("&params.group=odd&limit=4&cursor={cursor}");
    assert_eq!(ids(&client.request("GET", &target("grouped", &again), &[])).len(), 4);
    for (query, more) in [
        ("grouped", ""),
        ("grouped", "&params.group=even"),
        ("up", ""),
        ("down", ""),
        ("scanned", "&params.group=odd"),
    ] {
        assert_cursor_refused(&mut client, query, more, &cursor);
    }
    let twin = format!("/v1/query?site=twin&query=grouped{again}");
    assert_eq!(problem(&client.request("GET", &twin, &[])), (400, "invalid_cursor".into()));
}

#[test]
fn a_foreign_cursor_in_a_body_is_refused() {
    let cursor = next_cursor(&get("latest", ""));
    let body = |query: &str, params: Value, cursor: &str| {
        post(&json!({ "site": "acme", "query": query, "params": params, "cursor": cursor }))
    };
    assert_eq!(ids(&body("latest", json!({}), &cursor)), ["p2", "p6"]);
    for response in [
        body("latest", json!({ "category": "guides" }), &cursor),
        body("all", json!({}), &cursor),
        body("latest", json!({}), &cursor[1..]),
        body("latest", json!({}), &"0".repeat(400_000)),
        body("latest", json!({}), "\u{0}"),
    ] {
        assert_eq!(problem(&response), (400, "invalid_cursor".into()));
        assert_eq!(response.json()["pointer"], "/cursor");
    }
}

#[test]
fn random_cursors_are_refused() {
    let server = PAGED.get();
    let mut client = Client::to(server.edge);
    let digit = prop::sample::select(b"0123456789abcdef".to_vec());
    let of_digits = prop::collection::vec(digit, 1..2200).prop_map(|d| String::from_utf8(d).expect("ASCII"));
    let of_bytes =
        prop::collection::vec(any::<u8>(), 1000).prop_map(|b| String::from_utf8_lossy(&b).into_owned());
    let even = of_digits.clone().prop_map(|mut digits| {
        digits.truncate(digits.len() & !1);
        digits
    });
    proptest!(ProptestConfig::with_cases(60), |(text in prop_oneof![of_digits, even, of_bytes])| {
        let body = json!({ "site": "acme", "query": "up", "cursor": text }).to_string();
        let response = server.post("/v1/query", &[], body.as_bytes());
        // An empty cursor counts as absent.
        let code = if text.is_empty() { 200 } else { 400 };
        prop_assert_eq!(response.status, code, "{}", response.text());
    });
    for length in [2047, 2048, 2049, 2062, 2063, 2064, 2065, 2066, 4000] {
        assert_cursor_refused(&mut client, "up", "", &"0".repeat(length));
    }
}

/// Returns items whose rank is the first byte of their ID.
fn ranked_items(ids: &[&str]) -> String {
    let items: Vec<Value> = ids
        .iter()
        .map(
            |id| json!({ "id": id, "type": "t", "fields": { "rank": id.bytes().next().expect("a letter") } }),
        )
        .collect();
    json!(items).to_string()
}

#[test]
fn a_cursor_keeps_its_position_in_another_version() {
    let ranks = json!({ "ranks": { "collection": "items", "orderBy": ["-rank"], "limit": 3 } });
    let publication =
        |number: u64, ids: &[&str]| compile_version("acme", number, &[("items", &ranked_items(ids))], &ranks);
    let server = Server::start(&[("acme.snapshot", &publication(1, &["h", "g", "f", "e", "d", "c"]))], &[]);
    let first = server.get(&target("ranks", ""));
    assert_eq!(ids(&first), ["h", "g", "f"]);
    let more = format!("&cursor={}", next_cursor(&first));
    assert_eq!(ids(&server.get(&target("ranks", &more))), ["e", "d", "c"]);
    let publish_and_continue = |number: u64, published: &[&str]| -> Response {
        server.publish("acme.snapshot", &publication(number, published));
        eventually("the version is served", || {
            let response = server.get(&target("ranks", &more));
            (response.field("x-version") == Some(&*number.to_string())).then_some(response)
        })
    };
    // The item of the cursor is removed, and there are new items before and after it.
    let second = publish_and_continue(2, &["z", "h", "g", "ff", "e2", "e", "c", "a"]);
    assert_eq!(
        (ids(&second), &second.json()["total"]),
        (vec!["ff".into(), "e".into(), "e2".into()], &json!(8))
    );
    let third = server.get(&target("ranks", &format!("&cursor={}", next_cursor(&second))));
    assert_eq!((ids(&third), &third.json()["nextCursor"]), (vec!["c".into(), "a".into()], &json!(null)));
    // No items after the cursor, no items before it, and no items at all.
    assert_eq!(ids(&publish_and_continue(3, &["h", "g"])), [""; 0]);
    assert_eq!(ids(&publish_and_continue(4, &["d", "c"])), ["d", "c"]);
    assert_eq!(ids(&publish_and_continue(5, &[])), [""; 0]);
    // The items of the first version again.
    assert_eq!(ids(&publish_and_continue(6, &["h", "g", "f", "e", "d", "c"])), ["e", "d", "c"]);
}

#[test]
fn a_cursor_is_refused_after_the_order_of_its_query_changes() {
    let publication = |number: u64, order: &[&str]| {
        let query = json!({ "ranks": { "collection": "items", "orderBy": order, "limit": 1 } });
        compile_version("acme", number, &[("items", &ranked_items(&["b", "a", "c"]))], &query)
    };
    let server = Server::start(&[("acme.snapshot", &publication(1, &["rank"]))], &[]);
    let more = format!("&cursor={}", next_cursor(&server.get(&target("ranks", ""))));
    server.publish("acme.snapshot", &publication(2, &["-rank"]));
    let refused = eventually("another order is served", || {
        Some(server.get(&target("ranks", &more))).filter(|response| response.status != 200)
    });
    assert_eq!(problem(&refused), (400, "invalid_cursor".into()));
}

#[test]
fn a_page_of_large_items_ends_early_and_has_a_next_cursor() {
    let text = "large ".repeat(40_000);
    let items: Vec<Value> =
        (0..5).map(|n| json!({ "id": format!("i{n}"), "type": "t", "fields": { "text": text } })).collect();
    let snapshot = compile_collections(
        "acme",
        &[("large", &json!(items).to_string())],
        &json!({ "all": { "collection": "large" } }),
    );
    let server = Server::start(&[("acme.snapshot", &snapshot)], &[]);
    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/query?site=acme&query=all&cursor={cursor}")).json();
        let listed = page["items"].as_array().expect("a list");
        assert_eq!((listed.len() <= 2, &page["total"]), (true, &json!(5)));
        ids.extend(listed.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids, ["i0", "i1", "i2", "i3", "i4"]);
}
