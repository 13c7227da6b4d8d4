//! Going on page by page: every item once, and nothing for a cursor that is damaged or another's.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{get, ids, next, post, published, target, version};
use crate::harness::{Client, Response, Server, eventually};
use crate::wire::{Shared, escaped, problem};

/// Items whose order differs from that of their ids: 41 of them, with many equal keys and some without one.
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

fn walked_queries() -> Value {
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

static WALKED: Shared = Shared::new(|| {
    let items = items().to_string();
    let [acme, twin] = ["acme", "twin"].map(|site| published(site, &[("items", &items)], &walked_queries()));
    Server::start(&[("acme.snapshot", &acme), ("twin.snapshot", &twin)], &[])
});

/// All items page by page, of which each but the last has `limit(page)` items.
fn walk(client: &mut Client, query: &str, params: &str, limit: impl Fn(usize) -> usize) -> Vec<String> {
    let (mut walked, mut cursor) = (Vec::new(), String::new());
    for page in 0.. {
        let limit = limit(page);
        let more = format!("{params}&limit={limit}&cursor={cursor}");
        let response = client.request("GET", &target(query, &more), &[]);
        let found = ids(&response);
        walked.extend(found.iter().cloned());
        match response.json()["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
        assert_eq!(found.len(), limit, "a page that is not full goes on");
    }
    walked
}

#[test]
fn pages_of_any_limit_hold_everything_once_in_order() {
    let server = WALKED.get();
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
            assert_eq!(walk(&mut client, query, params, |_| limit), all, "{query}{params} by {limit}");
        }
        // From page to page another limit.
        assert_eq!(walk(&mut client, query, params, |page| page % 5 + 1), all, "{query}{params}");
    }
}

#[track_caller]
fn refused(client: &mut Client, query: &str, more: &str, cursor: &str) {
    let response = client.request("GET", &target(query, &format!("{more}&cursor={}", escaped(cursor))), &[]);
    assert_eq!(problem(&response), (400, "invalid_cursor".into()), "{query}{more} {cursor}");
    assert_eq!(response.json()["param"], "cursor");
}

#[test]
fn an_altered_cursor_is_refused() {
    let server = WALKED.get();
    let mut client = Client::to(server.edge);
    let cursor = next(&client.request("GET", &target("up", "&limit=3"), &[]));
    assert!(cursor.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{cursor}");
    for at in 0..cursor.len() {
        let digit = cursor[at..=at].to_owned();
        let other = ["0", "1", "8", "f", "g", " ", "é", ""];
        for other in other.into_iter().map(str::to_owned).chain([digit.to_ascii_uppercase()]) {
            if other != digit {
                refused(&mut client, "up", "", &format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]));
            }
        }
        if at > 0 {
            refused(&mut client, "up", "", &cursor[..at]);
        }
    }
    for damaged in [
        cursor.to_ascii_uppercase(),
        format!("{cursor}0"),
        format!("{cursor}00"),
        format!("{cursor}{cursor}"),
    ] {
        refused(&mut client, "up", "", &damaged);
    }
    for damaged in
        [format!(" {cursor}"), format!("{cursor}\n"), format!("0x{cursor}"), format!("\"{cursor}\"")]
    {
        refused(&mut client, "up", "", &damaged);
    }
}

#[test]
fn a_cursor_belongs_to_its_site_query_and_parameters() {
    let server = WALKED.get();
    let mut client = Client::to(server.edge);
    let cursor = next(&client.request("GET", &target("grouped", "&params.group=odd&limit=3"), &[]));
    let again = format!("&params.group=odd&limit=4&cursor={cursor}");
    assert_eq!(ids(&client.request("GET", &target("grouped", &again), &[])).len(), 4);
    for (query, more) in [
        ("grouped", ""),
        ("grouped", "&params.group=even"),
        ("up", ""),
        ("down", ""),
        ("scanned", "&params.group=odd"),
    ] {
        refused(&mut client, query, more, &cursor);
    }
    let twin = format!("/v1/query?site=twin&query=grouped{again}");
    assert_eq!(problem(&client.request("GET", &twin, &[])), (400, "invalid_cursor".into()));
}

#[test]
fn a_foreign_cursor_is_refused_in_a_body_too() {
    let cursor = next(&get("latest", ""));
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
    let server = WALKED.get();
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
        // Nothing is no cursor at all.
        let code = if text.is_empty() { 200 } else { 400 };
        prop_assert_eq!(response.status, code, "{}", response.text());
    });
    for length in [2047, 2048, 2049, 2062, 2063, 2064, 2065, 2066, 4000] {
        refused(&mut client, "up", "", &"0".repeat(length));
    }
}

/// Items of which each says its rank by its id.
fn ranked(ids: &[&str]) -> String {
    let items: Vec<Value> = ids
        .iter()
        .map(
            |id| json!({ "id": id, "type": "t", "fields": { "rank": id.bytes().next().expect("a letter") } }),
        )
        .collect();
    json!(items).to_string()
}

#[test]
fn a_cursor_goes_on_at_its_place_in_another_version() {
    let ranks = json!({ "ranks": { "collection": "items", "orderBy": ["-rank"], "limit": 3 } });
    let publication = |number: u64, ids: &[&str]| version("acme", number, &[("items", &ranked(ids))], &ranks);
    let server = Server::start(&[("acme.snapshot", &publication(1, &["h", "g", "f", "e", "d", "c"]))], &[]);
    let first = server.get(&target("ranks", ""));
    assert_eq!(ids(&first), ["h", "g", "f"]);
    let more = format!("&cursor={}", next(&first));
    assert_eq!(ids(&server.get(&target("ranks", &more))), ["e", "d", "c"]);
    let goes_on = |number: u64, published: &[&str]| -> Response {
        server.publish("acme.snapshot", &publication(number, published));
        eventually("the version is served", || {
            let response = server.get(&target("ranks", &more));
            (response.field("x-version") == Some(&*number.to_string())).then_some(response)
        })
    };
    // Its item is gone, others came before and behind it.
    let second = goes_on(2, &["z", "h", "g", "ff", "e2", "e", "c", "a"]);
    assert_eq!(
        (ids(&second), &second.json()["total"]),
        (vec!["ff".into(), "e".into(), "e2".into()], &json!(8))
    );
    let third = server.get(&target("ranks", &format!("&cursor={}", next(&second))));
    assert_eq!((ids(&third), &third.json()["nextCursor"]), (vec!["c".into(), "a".into()], &json!(null)));
    // Nothing is left behind it, nor before it, nor at all.
    assert_eq!(ids(&goes_on(3, &["h", "g"])), [""; 0]);
    assert_eq!(ids(&goes_on(4, &["d", "c"])), ["d", "c"]);
    assert_eq!(ids(&goes_on(5, &[])), [""; 0]);
    // And back.
    assert_eq!(ids(&goes_on(6, &["h", "g", "f", "e", "d", "c"])), ["e", "d", "c"]);
}

#[test]
fn a_cursor_does_not_outlive_its_query_s_order() {
    let of = |number: u64, order: &[&str]| {
        let query = json!({ "ranks": { "collection": "items", "orderBy": order, "limit": 1 } });
        version("acme", number, &[("items", &ranked(&["b", "a", "c"]))], &query)
    };
    let server = Server::start(&[("acme.snapshot", &of(1, &["rank"]))], &[]);
    let more = format!("&cursor={}", next(&server.get(&target("ranks", ""))));
    server.publish("acme.snapshot", &of(2, &["-rank"]));
    let refused = eventually("another order is served", || {
        Some(server.get(&target("ranks", &more))).filter(|response| response.status != 200)
    });
    assert_eq!(problem(&refused), (400, "invalid_cursor".into()));
}

#[test]
fn a_page_of_large_items_ends_before_it_is_too_large_and_goes_on_behind() {
    let text = "large ".repeat(40_000);
    let items: Vec<Value> =
        (0..5).map(|n| json!({ "id": format!("i{n}"), "type": "t", "fields": { "text": text } })).collect();
    let snapshot = published(
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
