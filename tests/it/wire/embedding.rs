//! Queries in the nodes of a page. A node contains the same bytes as the response of the query endpoint, in
//! any zone and with fixed parameters or parameters from the path.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use super::{SharedServer, page, percent_encode, problem, resolve_target, site_file};
use crate::harness::{Client, Response, Server, eventually, snapshot};

/// Returns 24 posts in four categories. Post `n` has the shelf `n % 3`.
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

/// Returns a node that contains the items of a query.
fn list_node(id: &str, query: &str, params: Value) -> Value {
    json!({ "id": id, "type": "List", "props": { "id": id }, "query": { "id": query, "params": params } })
}

fn from_path(name: &str) -> Value {
    json!({ "$route": name })
}

/// A route file with an unusual order of members, an escape and a number with an exponent, as a person might
/// write it.
const HAND_WRITTEN_ROUTE: &str = r#"{"path":"/written","layout":{"root":{"props":{}},"zones":{"main":[{"id":"w","type":"List",
    "query": { "params": { "category" : "\u0061", "above": 1.0e1 }, "id": "by-category" }, "props":{"id":"w"}}]}}}"#;

fn routes() -> Vec<String> {
    let left = list_node("left", "by-category", json!({ "category": "a" }));
    let nested = json!({ "id": "n", "type": "Columns", "props": {}, "zones": {
        "inner": { "default": [list_node("deep", "by-shelf", json!({ "shelf": 2 }))], "variants": {}, "rules": [] } } });
    let hero = json!({
        "default": [list_node("shown", "by-category", json!({ "category": "b" }))],
        "variants": { "other": [nested], "empty": [] },
        "rules": [{ "when": { "country": "NO" }, "variant": "other" }],
    });
    let by_slug = |more: Value| {
        let mut params = json!({ "category": from_path("slug") });
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        list_node("q", "by-category", params)
    };
    let varied = json!({ "default": [by_slug(json!({ "above": 10 }))], "variants": { "b": [by_slug(json!({}))] },
        "rules": [{ "when": { "country": "NO" }, "variant": "b" }] });
    vec![
        page("/", json!({ "main": [left, list_node("right", "by-shelf", json!({}))], "hero": hero })),
        page("/large", json!({ "main": [list_node("all", "all", json!({}))] })),
        page("/topics/:slug", json!({ "main": [by_slug(json!({}))] })),
        page("/varied/:slug", json!({ "main": varied })),
        page(
            "/shelves/:n/:slug",
            json!({ "main": [list_node("s", "by-shelf", json!({ "shelf": from_path("n") })), by_slug(json!({}))] }),
        ),
        page(
            "/rest/*",
            json!({ "main": [list_node("r", "by-category", json!({ "category": from_path("*") }))] }),
        ),
        page("/plain", json!({})),
        page(
            "/absent",
            json!({ "main": [list_node("e", "by-category", json!({ "category": "a", "above": "" })),
                list_node("n", "by-category", json!({ "category": "a", "above": null }))] }),
        ),
        HAND_WRITTEN_ROUTE.to_owned(),
    ]
}

fn compile_with_posts(posts: &Value, version: u64) -> Vec<u8> {
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

static SERVER: SharedServer =
    SharedServer::new(|| Server::start(&[("acme.snapshot", &compile_with_posts(&posts(), 1))], &[]));

/// Returns `"items":[...],"total":...,"nextCursor":...` from the first page that the query endpoint sends.
fn endpoint_items(query: &str, params: &str) -> String {
    let response = SERVER.get().get(&format!("/v1/query?site=acme&query={query}{params}"));
    assert_eq!(response.status, 200, "{}", response.text());
    let text = response.text();
    let (_, rest) = text.split_once("\"items\":").expect("items");
    format!("\"items\":{}", rest.strip_suffix('}').expect("a closing brace"))
}

/// Returns the expected bytes of the node `id`.
fn expected_node(id: &str, query: &str, written: &Value, params: &str) -> String {
    let found = endpoint_items(query, params);
    format!(
        r#"{{"id":"{id}","type":"List","props":{{"id":"{id}"}},"query":{{"id":"{query}","params":{written}}},{found}}}"#
    )
}

#[track_caller]
fn assert_contains_node(target: &str, node: &str) -> Response {
    let response = SERVER.get().get(target);
    assert_eq!(response.status, 200, "{target}: {}", response.text());
    assert!(response.body_contains(node), "{target}: {}\ndoes not contain {node}", response.text());
    response
}

#[test]
fn a_node_keeps_its_query_and_gets_the_first_page_byte_for_byte() {
    let home = resolve_target("/", "&variants=");
    let left = expected_node("left", "by-category", &json!({ "category": "a" }), "&params.category=a");
    let right = expected_node("right", "by-shelf", &json!({}), "");
    let shown = expected_node("shown", "by-category", &json!({ "category": "b" }), "&params.category=b");
    for node in [&left, &right, &shown] {
        assert_contains_node(&home, node);
    }
    let main = format!("\"main\":[{left},{right}]");
    assert_contains_node(&home, &main);
    let answer = SERVER.get().get(&home).json();
    let node = &answer["layout"]["zones"]["main"][0];
    assert_eq!(node["items"].as_array().map(Vec::len), Some(4));
    let next_page = format!(
        "/v1/query?site=acme&query=by-category&params.category=a&cursor={}",
        node["nextCursor"].as_str().expect("a cursor")
    );
    assert_eq!(SERVER.get().get(&next_page).json()["items"][0]["id"], "p04");
}

#[test]
fn the_query_parameters_of_a_node_keep_their_authored_tokens() {
    let found = endpoint_items("by-category", "&params.category=a&params.above=10");
    let written = r#""query":{"id":"by-category","params":{"category":"\u0061","above":1.0e1}}"#;
    assert_contains_node(&resolve_target("/written", "&variants="), &format!("{written},{found}}}"));
}

#[test]
fn null_and_an_empty_text_are_absent_for_an_optional_parameter_of_a_node() {
    let found = endpoint_items("by-category", "&params.category=a");
    let absent = resolve_target("/absent", "&variants=");
    for written in [r#"{"category":"a","above":""}"#, r#"{"category":"a","above":null}"#] {
        let members = format!(r#""query":{{"id":"by-category","params":{written}}},{found}}}"#);
        assert_contains_node(&absent, &members);
    }
}

#[test]
fn query_nodes_in_variants_and_nested_zones_contain_items() {
    let deep = expected_node("deep", "by-shelf", &json!({ "shelf": 2 }), "&params.shelf=2");
    let forced = assert_contains_node(&resolve_target("/", "&variants=hero:other"), &deep);
    assert!(!forced.body_contains("\"shown\""), "{}", forced.text());
    let decided = assert_contains_node(&resolve_target("/", "&country=NO"), &deep);
    assert_eq!(decided.json()["layout"], forced.json()["layout"]);
    let without = SERVER.get().get(&resolve_target("/", "&variants=hero:empty"));
    assert!(!without.body_contains(&deep), "{}", without.text());
}

#[test]
fn a_path_parameter_may_be_a_query_parameter() {
    for category in ["a", "b", "c"] {
        let node = expected_node(
            "q",
            "by-category",
            &json!({ "category": category }),
            &format!("&params.category={category}"),
        );
        let response =
            assert_contains_node(&resolve_target(&format!("/topics/{category}"), "&variants="), &node);
        assert_eq!(response.json()["params"]["slug"], category);
        // The escaped form, as in `location.pathname` of a browser.
        let escaped = format!("/topics/%{:02X}", category.as_bytes()[0]);
        assert_eq!(assert_contains_node(&resolve_target(&escaped, "&variants="), &node).body, response.body);
    }
    let slashed = expected_node("q", "by-category", &json!({ "category": "d/e" }), "&params.category=d%2Fe");
    assert_contains_node(&resolve_target("/topics/d%2Fe", "&variants="), &slashed);
    let rest = expected_node("r", "by-category", &json!({ "category": "d/e" }), "&params.category=d%2Fe");
    assert_contains_node(&resolve_target("/rest/d/e", "&variants="), &rest);
}

#[test]
fn an_invalid_parameter_value_finds_no_items() {
    let empty_node = |id: &str, query: &str, written: Value| {
        format!(
            r#"{{"id":"{id}","type":"List","props":{{"id":"{id}"}},"query":{{"id":"{query}","params":{written}}},"items":[],"total":0,"nextCursor":null}}"#
        )
    };
    for slug in ["none", "z", "A", "a b", "größe", "1", "quo\"te\\"] {
        let by_slug = empty_node("q", "by-category", json!({ "category": slug }));
        let route = format!("/topics/{}", percent_encode(slug));
        assert_contains_node(&resolve_target(&route, "&variants="), &by_slug);
    }
    for (n, written) in [("4", json!(4)), ("x", json!("x")), ("6", json!("6")), ("-", json!("-"))] {
        let by_n = empty_node("s", "by-shelf", json!({ "shelf": written }));
        assert_contains_node(&resolve_target(&format!("/shelves/{n}/a"), "&variants="), &by_n);
    }
    for (n, written) in [("1,0", "1,0"), ("01", "01"), ("true", "true"), ("%2B1", "+1")] {
        let by_n = empty_node("s", "by-shelf", json!({ "shelf": written }));
        assert_contains_node(&resolve_target(&format!("/shelves/{n}/a"), "&variants="), &by_n);
    }
    assert_contains_node(
        &resolve_target("/rest/a/b", "&variants="),
        &empty_node("r", "by-category", json!({ "category": "a/b" })),
    );
}

#[test]
fn a_number_in_the_path_is_parsed_as_a_number() {
    for (text, number) in [("0", "0"), ("2", "2"), ("2.0", "2"), ("1e0", "1"), ("-0", "0")] {
        let found = endpoint_items("by-shelf", &format!("&params.shelf={number}"));
        let node = format!(
            r#"{{"id":"s","type":"List","props":{{"id":"s"}},"query":{{"id":"by-shelf","params":{{"shelf":{text}}}}},{found}}}"#
        );
        let second = expected_slug_node("c");
        let response =
            assert_contains_node(&resolve_target(&format!("/shelves/{text}/c"), "&variants="), &node);
        assert!(response.body_contains(&format!("[{node},{second}]")), "{}", response.text());
    }
}

fn expected_slug_node(category: &str) -> String {
    expected_node(
        "q",
        "by-category",
        &json!({ "category": category }),
        &format!("&params.category={category}"),
    )
}

/// Returns all nodes of a layout that contain a query.
fn query_nodes(layout: &Value) -> Vec<Value> {
    match layout {
        Value::Array(all) => all.iter().flat_map(query_nodes).collect(),
        Value::Object(members) if members.contains_key("query") => vec![layout.clone()],
        Value::Object(members) => members.values().flat_map(query_nodes).collect(),
        _ => vec![],
    }
}

#[test]
fn a_client_can_post_the_query_of_a_node_to_get_the_next_page() {
    let (server, mut pages) = (SERVER.get(), 0);
    for route in ["/", "/large", "/topics/a", "/varied/b", "/shelves/1/a", "/rest/d/e", "/written"] {
        let nodes = query_nodes(&server.get(&resolve_target(route, "&variants=")).json()["layout"]);
        assert!(!nodes.is_empty(), "{route}");
        for node in nodes {
            let more = |cursor: &Value| {
                let body = json!({ "site": "acme", "query": node["query"]["id"], "params": node["query"]["params"],
                    "cursor": cursor });
                server.post("/v1/query", &[], body.to_string().as_bytes()).json()
            };
            let first = more(&Value::Null);
            for member in ["items", "total", "nextCursor"] {
                assert_eq!(node[member], first[member], "{route}: {node}");
            }
            if !node["nextCursor"].is_null() {
                let items = |page: &Value| page["items"].as_array().map_or(0, Vec::len);
                let next = more(&node["nextCursor"]);
                assert!(items(&next) > 0 && items(&node) + items(&next) <= 24, "{next}");
                pages += 1;
            }
        }
    }
    assert!(pages > 3, "{pages}");
}

#[test]
fn a_variant_may_combine_path_and_fixed_parameters() {
    let above = json!({ "category": "a", "above": 10 });
    let above = expected_node("q", "by-category", &above, "&params.category=a&params.above=10");
    let default = assert_contains_node(&resolve_target("/varied/a", "&variants="), &above);
    let other =
        assert_contains_node(&resolve_target("/varied/a", "&variants=main:b"), &expected_slug_node("a"));
    let layout = |response: &Response| response.json()["layout"].clone();
    assert_ne!(layout(&default), layout(&other));
    assert_eq!(layout(&assert_contains_node(&resolve_target("/varied/a", ""), &above)), layout(&default));
    assert_eq!(layout(&SERVER.get().get(&resolve_target("/varied/a", "&country=NO"))), layout(&other));
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
            let target = resolve_target(route, more);
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

/// Returns 20 items of about 40 KiB. The first page of a query ends before it has 512 KiB.
fn large_items() -> Value {
    let item = |n: usize| {
        let fields = json!({ "group": "a", "text": "x".repeat(40 * 1024) });
        json!({ "id": format!("i{n:02}"), "type": "t", "fields": fields })
    };
    (0..20).map(item).collect()
}

#[test]
fn a_first_page_that_is_cut_at_512_kib_has_the_same_bytes_in_a_node() {
    let by_group = json!({ "collection": "items", "limit": 100, "params": { "group": { "type": "string" } },
        "where": { "group": { "$param": "group" } } });
    let fixed = list_node("q", "by-group", json!({ "group": "a" }));
    let from_slug = list_node("q", "by-group", json!({ "group": from_path("slug") }));
    let files = [
        ("site.json", site_file("acme", json!({}))),
        ("queries.json", json!({ "by-group": by_group }).to_string()),
        ("content/items.json", large_items().to_string()),
        ("routes/fixed.json", page("/fixed", json!({ "main": [fixed] }))),
        ("routes/slug.json", page("/slugs/:slug", json!({ "main": [from_slug] }))),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let server = Server::start(&[("acme.snapshot", &snapshot(&files, 1))], &[]);
    let endpoint = server.get("/v1/query?site=acme&query=by-group&params.group=a");
    let (_, page_bytes) = endpoint.text().split_once("\"items\":").expect("items");
    let answer = endpoint.json();
    assert_eq!((answer["items"].as_array().map(Vec::len), &answer["total"]), (Some(12), &json!(20)));
    assert!(answer["nextCursor"].is_string());
    for route in ["/fixed", "/slugs/a"] {
        let layout = server.get(&resolve_target(route, "&variants="));
        assert!(layout.body_contains(page_bytes.strip_suffix('}').expect("a brace")), "{route}");
    }
}

#[test]
fn an_embedded_query_adds_no_route_and_no_variants() {
    let decision = SERVER.get().get("/v1/variants?site=acme&route=/topics/a");
    let expected = r#"{"type":"decision","site":"acme","route":"/topics/a","variants":"","selected":{},"experiments":""}"#;
    assert_eq!(decision.text(), expected);
    assert_eq!(
        problem(&SERVER.get().get(&resolve_target("/topics", "&variants="))),
        (404, "route_not_found".into())
    );
}

/// Returns each path with its ETag and its hash in the list of routes. A pattern has one hash for all paths.
fn etags_and_hashes(server: &Server, version: &str) -> Option<Vec<(String, String, String)>> {
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
        let response = server.get(&format!("/v1/resolve?site=acme&variants=&route={}", percent_encode(path)));
        let etag = response.field("etag").expect("an ETag").to_owned();
        let route = hashes.as_array().expect("an array").iter().find(|route| route["path"] == listed);
        (path.to_owned(), etag, route.expect("the path is listed")["hash"].to_string())
    });
    (list.field("x-version") == Some(version)).then_some(all.into())
}

#[test]
fn etags_and_hashes_change_with_the_items_shown() {
    let server = Server::start(&[("acme.snapshot", &compile_with_posts(&posts(), 1))], &[]);
    let before = etags_and_hashes(&server, "1").expect("version 1 is served");
    let mut version = 1;
    let mut changed = |post: usize, field: &str, value: Value| -> Vec<String> {
        let mut posts = posts();
        posts[post]["fields"][field] = value;
        version += 1;
        server.publish("acme.snapshot", &compile_with_posts(&posts, version));
        let now = eventually("the version is served", || etags_and_hashes(&server, &version.to_string()));
        let differ = before.iter().zip(&now).filter(|(before, now)| before != now);
        for (before, now) in differ.clone() {
            assert!(before.1 != now.1 && before.2 != now.2, "{before:?} and {now:?}");
        }
        differ.map(|(before, _)| before.0.clone()).collect()
    };
    assert_eq!(changed(0, "n", json!(0)), [""; 0]);
    // A pattern without `each` changes with every item that its queries could find.
    let patterns = ["/topics/a", "/topics/none", "/shelves/1/a"];
    // Post 20 is on the first page of `/`. Post 0 is not.
    assert_eq!(changed(20, "title", json!("other")), [&["/"][..], &patterns].concat());
    assert_eq!(changed(0, "text", json!("other")), patterns);
    assert_eq!(changed(22, "text", json!("other")), patterns);
    // The total of category a on `/` changes.
    assert_eq!(changed(0, "category", json!("none")), [&["/"][..], &patterns].concat());
    // The last of four items becomes the first.
    assert_eq!(changed(8, "n", json!(100)), [&["/"][..], &patterns].concat());
}
