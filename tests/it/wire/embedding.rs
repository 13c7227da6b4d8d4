//! Queries in the nodes of a page: the items that the endpoint gives, as bytes, wherever the node stands and whatever its
//! parameters are made of.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use super::{Shared, escaped, page, problem, resolve, site_file};
use crate::harness::{Client, Response, Server, eventually, snapshot};

/// 24 posts of four categories, the `n`th on the `n % 3`th shelf.
fn posts() -> Value {
    let post = |n: usize| {
        let category = ["a", "b", "c", "d/e"][n % 4];
        let fields = json!({ "title": format!("Post {n}, “quoted”"), "n": n, "category": category, "shelf": n % 3,
            "text": "lorem ipsum ".repeat(n) });
        json!({ "id": format!("p{n:02}"), "type": "post", "fields": fields })
    };
    (0..24).map(post).collect()
}

fn queries() -> Value {
    let all = ["a", "b", "c", "d/e", "none"];
    json!({
        "by-category": { "collection": "posts", "orderBy": ["-n"], "limit": 4,
            "params": { "category": { "type": "string", "enum": all }, "above": { "type": "number", "optional": true } },
            "where": { "category": { "$param": "category" }, "n": { "$gt": { "$param": "above" } } } },
        "by-shelf": { "collection": "posts", "orderBy": ["n"], "limit": 2, "select": ["title"],
            "params": { "shelf": { "type": "number", "maximum": 5, "default": 1 } },
            "where": { "shelf": { "$eq": { "$param": "shelf" } } } },
        "all": { "collection": "posts", "limit": 100 },
    })
}

/// A node that shows what a query finds.
fn list(id: &str, query: &str, params: Value) -> Value {
    json!({ "id": id, "type": "List", "props": { "id": id }, "query": { "id": query, "params": params } })
}

fn from_path(name: &str) -> Value {
    json!({ "$route": name })
}

/// Parameters in an order and in forms that only a person writes.
const AS_WRITTEN: &str = r#"{"path":"/written","layout":{"root":{"props":{}},"zones":{"main":[{"id":"w","type":"List",
    "query": { "params": { "category" : "\u0061", "above": 1.0e1 }, "id": "by-category" }, "props":{"id":"w"}}]}}}"#;

fn routes() -> Vec<String> {
    let left = list("left", "by-category", json!({ "category": "a" }));
    let nested = json!({ "id": "n", "type": "Columns", "props": {}, "zones": {
        "inner": { "default": [list("deep", "by-shelf", json!({ "shelf": 2 }))], "variants": {}, "rules": [] } } });
    let hero = json!({
        "default": [list("shown", "by-category", json!({ "category": "b" }))],
        "variants": { "other": [nested], "empty": [] },
        "rules": [{ "when": { "country": "NO" }, "variant": "other" }],
    });
    let by_slug = |more: Value| {
        let mut params = json!({ "category": from_path("slug") });
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        list("q", "by-category", params)
    };
    let varied = json!({ "default": [by_slug(json!({ "above": 10 }))], "variants": { "b": [by_slug(json!({}))] },
        "rules": [{ "when": { "country": "NO" }, "variant": "b" }] });
    vec![
        page("/", json!({ "main": [left, list("right", "by-shelf", json!({}))], "hero": hero })),
        page("/large", json!({ "main": [list("all", "all", json!({}))] })),
        page("/topics/:slug", json!({ "main": [by_slug(json!({}))] })),
        page("/varied/:slug", json!({ "main": varied })),
        page(
            "/shelves/:n/:slug",
            json!({ "main": [list("s", "by-shelf", json!({ "shelf": from_path("n") })), by_slug(json!({}))] }),
        ),
        page("/rest/*", json!({ "main": [list("r", "by-category", json!({ "category": from_path("*") }))] })),
        page("/plain", json!({})),
        AS_WRITTEN.to_owned(),
    ]
}

fn files(posts: &Value, version: u64) -> Vec<u8> {
    let texts: Vec<(String, String)> = routes()
        .into_iter()
        .enumerate()
        .map(|(i, text)| (format!("routes/{i}.json"), text))
        .chain([
            ("site.json".to_owned(), site_file("acme", json!({}))),
            ("queries.json".to_owned(), queries().to_string()),
            ("content/posts.json".to_owned(), posts.to_string()),
        ])
        .collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    snapshot(&files, version)
}

static SERVER: Shared = Shared::new(|| Server::start(&[("acme.snapshot", &files(&posts(), 1))], &[]));

/// `"items":[...],"nextCursor":...`, made of the bytes of the endpoint's first page.
fn endpoint(query: &str, params: &str) -> String {
    let response = SERVER.get().get(&format!("/v1/query?site=acme&query={query}{params}"));
    assert_eq!(response.status, 200, "{}", response.text());
    let text = response.text();
    let (_, rest) = text.split_once("\"items\":[").expect("items");
    let (items, rest) = rest.rsplit_once("],\"total\":").expect("a total");
    let (_, cursor) = rest.split_once(",\"nextCursor\":").expect("a cursor");
    format!("\"items\":[{items}],\"nextCursor\":{}", cursor.strip_suffix('}').expect("the end"))
}

/// What a node of such an id has to be.
fn node(id: &str, query: &str, written: &Value, params: &str) -> String {
    let found = endpoint(query, params);
    format!(
        r#"{{"id":"{id}","type":"List","props":{{"id":"{id}"}},"query":{{"id":"{query}","params":{written}}},{found}}}"#
    )
}

#[track_caller]
fn shows(target: &str, node: &str) -> Response {
    let response = SERVER.get().get(target);
    assert_eq!(response.status, 200, "{target}: {}", response.text());
    assert!(response.body_contains(node), "{target}: {}\nhas no {node}", response.text());
    response
}

#[test]
fn a_node_keeps_its_query_and_gets_the_first_page_byte_for_byte() {
    let home = resolve("/", "&variants=");
    let left = node("left", "by-category", &json!({ "category": "a" }), "&params.category=a");
    let right = node("right", "by-shelf", &json!({}), "");
    let shown = node("shown", "by-category", &json!({ "category": "b" }), "&params.category=b");
    for node in [&left, &right, &shown] {
        shows(&home, node);
    }
    let main = format!("\"main\":[{left},{right}]");
    shows(&home, &main);
    let answer = SERVER.get().get(&home).json();
    let node = &answer["layout"]["zones"]["main"][0];
    assert_eq!(node["items"].as_array().map(Vec::len), Some(4));
    let onward = format!(
        "/v1/query?site=acme&query=by-category&params.category=a&cursor={}",
        node["nextCursor"].as_str().expect("a cursor")
    );
    assert_eq!(SERVER.get().get(&onward).json()["items"][0]["id"], "p04");
}

#[test]
fn a_node_s_parameters_come_token_by_token_as_they_were_authored() {
    let found = endpoint("by-category", "&params.category=a&params.above=10");
    let written = r#""query":{"id":"by-category","params":{"category":"\u0061","above":1.0e1}}"#;
    shows(&resolve("/written", "&variants="), &format!("{written},{found}}}"));
}

#[test]
fn a_node_in_a_variant_and_in_nested_zones_is_filled_alike() {
    let deep = node("deep", "by-shelf", &json!({ "shelf": 2 }), "&params.shelf=2");
    let forced = shows(&resolve("/", "&variants=hero:other"), &deep);
    assert!(!forced.body_contains("\"shown\""), "{}", forced.text());
    let decided = shows(&resolve("/", "&country=NO"), &deep);
    assert_eq!(decided.body, forced.body);
    let without = SERVER.get().get(&resolve("/", "&variants=hero:empty"));
    assert!(!without.body_contains(&deep), "{}", without.text());
}

#[test]
fn a_part_of_the_path_is_a_parameter() {
    for category in ["a", "b", "c"] {
        let node = node(
            "q",
            "by-category",
            &json!({ "category": from_path("slug") }),
            &format!("&params.category={category}"),
        );
        let response = shows(&resolve(&format!("/topics/{category}"), "&variants="), &node);
        assert_eq!(response.json()["params"]["slug"], category);
        // As a browser's `location.pathname` would have it.
        let escaped = format!("/topics/%{:02X}", category.as_bytes()[0]);
        assert_eq!(shows(&resolve(&escaped, "&variants="), &node).body, response.body);
    }
    let slashed =
        node("q", "by-category", &json!({ "category": from_path("slug") }), "&params.category=d%2Fe");
    shows(&resolve("/topics/d%2Fe", "&variants="), &slashed);
    let rest = node("r", "by-category", &json!({ "category": from_path("*") }), "&params.category=d%2Fe");
    shows(&resolve("/rest/d/e", "&variants="), &rest);
}

#[test]
fn what_is_no_value_of_the_parameter_finds_nothing() {
    let nothing = |id: &str, query: &str, written: Value| {
        format!(
            r#"{{"id":"{id}","type":"List","props":{{"id":"{id}"}},"query":{{"id":"{query}","params":{written}}},"items":[],"nextCursor":null}}"#
        )
    };
    let by_slug = nothing("q", "by-category", json!({ "category": from_path("slug") }));
    for slug in ["none", "z", "A", "a b", "größe", "1"] {
        shows(&resolve(&format!("/topics/{slug}"), "&variants="), &by_slug);
    }
    let by_n = nothing("s", "by-shelf", json!({ "shelf": from_path("n") }));
    for n in ["x", "4", "6", "-", "1,0", "01", "true", "%2B1"] {
        shows(&resolve(&format!("/shelves/{n}/a"), "&variants="), &by_n);
    }
    shows(
        &resolve("/rest/a/b", "&variants="),
        &nothing("r", "by-category", json!({ "category": from_path("*") })),
    );
}

#[test]
fn a_number_from_the_path_is_read_as_one() {
    for (text, number) in [("0", "0"), ("2", "2"), ("2.0", "2"), ("1e0", "1"), ("-0", "0")] {
        let node =
            node("s", "by-shelf", &json!({ "shelf": from_path("n") }), &format!("&params.shelf={number}"));
        let second = node_of_slug("c");
        let response = shows(&resolve(&format!("/shelves/{text}/c"), "&variants="), &node);
        assert!(response.body_contains(&format!("[{node},{second}]")), "{}", response.text());
    }
}

fn node_of_slug(category: &str) -> String {
    node(
        "q",
        "by-category",
        &json!({ "category": from_path("slug") }),
        &format!("&params.category={category}"),
    )
}

#[test]
fn a_variant_may_ask_by_the_path_and_by_a_value_of_its_own() {
    let above = json!({ "category": from_path("slug"), "above": 10 });
    let above = node("q", "by-category", &above, "&params.category=a&params.above=10");
    let default = shows(&resolve("/varied/a", "&variants="), &above);
    let other = shows(&resolve("/varied/a", "&variants=main:b"), &node_of_slug("a"));
    assert_ne!(default.body, other.body);
    assert_eq!(shows(&resolve("/varied/a", ""), &above).body, default.body);
    assert_eq!(SERVER.get().get(&resolve("/varied/a", "&country=NO")).body, other.body);
}

#[test]
fn compressed_bodies_inflate_to_the_same_bytes() {
    let mut client = Client::to(SERVER.get().edge);
    let mut compressed = 0;
    for route in [
        "/",
        "/large",
        "/topics/a",
        "/topics/none",
        "/varied/b",
        "/shelves/1/a",
        "/shelves/x/none",
        "/rest/d/e",
    ] {
        for more in ["", "&variants=", "&variants=hero:other", "&variants=main:b", "&country=NO"] {
            let target = resolve(route, more);
            let text = client.request("GET", &target, &[]);
            text.json();
            let packed = client.request("GET", &target, &[("Accept-Encoding", "gzip")]);
            if packed.field("content-encoding").is_none() {
                assert_eq!(packed.body, text.body, "{target}");
                continue;
            }
            compressed += 1;
            let mut inflated = Vec::new();
            MultiGzDecoder::new(&packed.body[..]).read_to_end(&mut inflated).expect("a gzip body");
            assert!(inflated == text.body, "{target}");
        }
    }
    assert!(compressed > 20, "{compressed}");
}

#[test]
fn an_embedded_query_is_no_route_of_its_own_and_variants_say_nothing_of_it() {
    let decision = SERVER.get().get("/v1/variants?site=acme&route=/topics/a");
    assert_eq!(decision.text(), r#"{"site":"acme","route":"/topics/a","variants":"","selected":{}}"#);
    assert_eq!(
        problem(&SERVER.get().get(&resolve("/topics", "&variants="))),
        (404, "route_not_found".into())
    );
}

/// The ETag of each path, and its hash in the list of routes (a pattern's for all of its paths).
fn state(server: &Server, version: &str) -> Option<Vec<(String, String, String)>> {
    let list = server.get("/v1/routes?site=acme");
    let hashes = list.json()["routes"].clone();
    let paths = [
        ("/", "/"),
        ("/topics/a", "/topics/:slug"),
        ("/topics/none", "/topics/:slug"),
        ("/plain", "/plain"),
        ("/shelves/1/a", "/shelves/:n/:slug"),
    ];
    let all = paths.map(|(path, listed)| {
        let response = server.get(&format!("/v1/resolve?site=acme&variants=&route={}", escaped(path)));
        let etag = response.field("etag").expect("an ETag").to_owned();
        let route = hashes.as_array().expect("an array").iter().find(|route| route["path"] == listed);
        (path.to_owned(), etag, route.expect("it is listed")["hash"].to_string())
    });
    (list.field("x-version") == Some(version)).then_some(all.into())
}

#[test]
fn tags_and_hashes_follow_the_items_that_are_shown() {
    let server = Server::start(&[("acme.snapshot", &files(&posts(), 1))], &[]);
    let before = state(&server, "1").expect("it is served");
    let mut version = 1;
    let mut changed = |post: usize, field: &str, value: Value| -> Vec<String> {
        let mut posts = posts();
        posts[post]["fields"][field] = value;
        version += 1;
        server.publish("acme.snapshot", &files(&posts, version));
        let now = eventually("it is served", || state(&server, &version.to_string()));
        let differ = before.iter().zip(&now).filter(|(before, now)| before != now);
        for (before, now) in differ.clone() {
            assert!(before.1 != now.1 && before.2 != now.2, "{before:?} and {now:?}");
        }
        differ.map(|(before, _)| before.0.clone()).collect()
    };
    assert_eq!(changed(0, "n", json!(0)), [""; 0]);
    // A pattern without `each` counts as changed with everything that its queries could find.
    let patterns = ["/topics/a", "/topics/none", "/shelves/1/a"];
    // On the first page of `/`, and behind it.
    assert_eq!(changed(20, "title", json!("other")), [&["/"][..], &patterns].concat());
    assert_eq!(changed(0, "text", json!("other")), patterns);
    assert_eq!(changed(22, "text", json!("other")), patterns);
    assert_eq!(changed(0, "category", json!("none")), patterns);
    // What was the last of four becomes the first.
    assert_eq!(changed(8, "n", json!(100)), [&["/"][..], &patterns].concat());
}
