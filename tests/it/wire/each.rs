//! Pattern routes with `each`, which have one path for each item of a collection and no other paths.

use serde_json::{Value, json};

use super::{SharedServer, page, percent_encode, problem, redirect, resolve_target, site_file};
use crate::harness::{Response, Server, eventually, snapshot};

const POSTS: &str = r#"[
  {"id":"p1","type":"post","fields":{"slug":"wet-feet","title":"Wet feet","year":2025}},
  {"id":"p2","type":"post","fields":{"slug":"größe & maß","title":"Größe","year":2024,"draft":false}},
  {"id":"p3","type":"post","fields":{"slug":"not-yet","title":"Not yet","year":2026,"draft":true}},
  {"id":"p4","type":"post","fields":{"slug":"featured","title":"Featured","year":2.025e3}},
  {"id":"p5","type":"note","fields":{"slug":"a+b","title":"Plus","year":-1}}
]"#;
const DOCS: &str = r#"[
  {"id":"intro","type":"doc","fields":{"path":"intro","n":0}}, {"id":"deep","type":"doc","fields":{"path":"guide/first steps/1","n":1}},
  {"id":"large","type":"doc","fields":{"path":"guide","n":9007199254740992}}
]"#;

/// Returns a route file with one path for each item of a collection.
fn item_route(path: &str, each: Value, zones: Value) -> String {
    let mut route: Value = serde_json::from_str(&page(path, zones)).expect("JSON");
    route["each"] = each;
    route.to_string()
}

fn queries() -> Value {
    json!({ "post": { "collection": "posts", "params": { "slug": { "type": "string" } },
        "where": { "slug": { "$param": "slug" }, "draft": { "$ne": true } } } })
}

fn routes() -> Vec<String> {
    let shown = json!({ "main": [{ "id": "post", "type": "Post", "props": {},
        "query": { "id": "post", "params": { "slug": { "$route": "slug" } } } }] });
    let no_draft = json!({ "draft": { "$ne": true } });
    vec![
        item_route(
            "/blog/:slug",
            json!({ "collection": "posts", "slug": "fields.slug", "where": no_draft }),
            shown,
        ),
        page("/blog/featured", json!({ "literal": [] })),
        redirect("/blog/wet-feet/old", "/blog/wet-feet", 301),
        item_route("/docs/*", json!({ "collection": "docs", "*": "fields.path" }), json!({ "rest": [] })),
        item_route(
            "/item/:id/:kind",
            json!({ "collection": "posts", "id": "id", "kind": "type" }),
            json!({}),
        ),
        item_route(
            "/year/:year/:slug",
            json!({ "collection": "posts", "year": "fields.year", "slug": "fields.slug", "where": no_draft }),
            json!({}),
        ),
        item_route("/n/:n", json!({ "collection": "docs", "n": "fields.n" }), json!({})),
        page("/fallback/:any", json!({})),
    ]
}

fn compile_with_posts(posts: &str, routes: &[String], version: u64) -> Vec<u8> {
    let (site, queries) = (site_file("acme", json!({})), queries().to_string());
    let names: Vec<String> = (0..routes.len()).map(|i| format!("routes/{i}.json")).collect();
    let mut files = vec![
        ("site.json", &*site),
        ("queries.json", &*queries),
        ("content/posts.json", posts),
        ("content/docs.json", DOCS),
    ];
    files.extend(names.iter().zip(routes).map(|(name, route)| (&**name, &**route)));
    snapshot(&files, version)
}

static SERVER: SharedServer =
    SharedServer::new(|| Server::start(&[("acme.snapshot", &compile_with_posts(POSTS, &routes(), 1))], &[]));

fn get_layout(route: &str) -> Response {
    SERVER.get().get(&resolve_target(route, "&variants="))
}

fn listed_paths(server: &Server, more: &str) -> Vec<String> {
    let list = server.get(&format!("/v1/routes?site=acme{more}")).json();
    let routes = list["routes"].as_array().expect("an array").iter();
    routes.map(|route| route["path"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn concrete_paths_are_listed_instead_of_their_pattern() {
    let server = SERVER.get();
    assert_eq!(
        listed_paths(&server, ""),
        [
            "/blog/a+b",
            "/blog/featured",
            "/blog/größe & maß",
            "/blog/wet-feet",
            "/docs/guide",
            "/docs/guide/first steps/1",
            "/docs/intro",
            "/fallback/:any",
            "/item/p1/post",
            "/item/p2/post",
            "/item/p3/post",
            "/item/p4/post",
            "/item/p5/note",
            "/n/0",
            "/n/1",
            "/n/9007199254740992",
            "/year/-1/a+b",
            "/year/2024/größe & maß",
            "/year/2025/featured",
            "/year/2025/wet-feet",
        ]
    );
    let list = server.get("/v1/routes?site=acme").json();
    let patterns =
        list["routes"].as_array().expect("an array").iter().filter(|route| route.get("pattern").is_some());
    assert_eq!(patterns.map(|route| route["path"].clone()).collect::<Vec<_>>(), ["/fallback/:any"]);
    assert_eq!(listed_paths(&server, "&prefix=/blog/g"), ["/blog/größe & maß"]);
}

#[test]
fn a_response_contains_the_path_the_pattern_and_the_parameters() {
    for (route, path, pattern, params) in [
        ("/blog/wet-feet", "/blog/wet-feet", "/blog/:slug", json!({ "slug": "wet-feet" })),
        ("/blog/wet-feet/", "/blog/wet-feet", "/blog/:slug", json!({ "slug": "wet-feet" })),
        ("/docs/intro", "/docs/intro", "/docs/*", json!({ "*": "intro" })),
        (
            "/docs/guide/first%20steps/1",
            "/docs/guide/first steps/1",
            "/docs/*",
            json!({ "*": "guide/first steps/1" }),
        ),
        ("/item/p5/note", "/item/p5/note", "/item/:id/:kind", json!({ "id": "p5", "kind": "note" })),
        (
            "/year/2025/featured",
            "/year/2025/featured",
            "/year/:year/:slug",
            json!({ "year": "2025", "slug": "featured" }),
        ),
        ("/year/-1/a+b", "/year/-1/a+b", "/year/:year/:slug", json!({ "year": "-1", "slug": "a+b" })),
        ("/n/9007199254740992", "/n/9007199254740992", "/n/:n", json!({ "n": "9007199254740992" })),
    ] {
        let answer = get_layout(route).json();
        let expected = json!({ "route": path, "pattern": pattern, "params": params });
        assert_eq!(
            json!({ "route": answer["route"], "pattern": answer["pattern"], "params": answer["params"] }),
            expected
        );
    }
}

#[test]
fn paths_without_an_item_get_404() {
    for route in [
        "/blog/:slug",
        "/blog/%3Aslug",
        "/blog/nothing",
        "/blog/Wet-feet",
        "/blog/wet-feet/x",
        "/blog",
        "/docs",
        "/docs/*",
        "/docs/guide/first",
        "/docs/guide%2Ffirst%20steps/1",
        "/item/p1/note",
        "/item/p1",
        "/year/2025/a+b",
        "/year/2025.0/featured",
        "/n/00",
        "/n/-0",
        "/n/2",
        "/blog/a b",
        "/blog/größe",
    ] {
        for more in ["", "&variants="] {
            let response = SERVER.get().get(&resolve_target(route, more));
            assert_eq!(problem(&response), (404, "route_not_found".into()), "{route}");
        }
    }
    assert_eq!(get_layout("/fallback/anything").status, 200);
}

#[test]
fn items_excluded_by_the_condition_are_in_no_response() {
    for route in ["/blog/not-yet", "/year/2026/not-yet"] {
        assert_eq!(problem(&get_layout(route)), (404, "route_not_found".into()), "{route}");
    }
    let server = SERVER.get();
    let mut bodies = vec![server.get("/v1/routes?site=acme&include=variants")];
    bodies.extend(listed_paths(&server, "").iter().map(|path| get_layout(path)));
    bodies.push(server.get("/v1/query?site=acme&query=post&params.slug=wet-feet"));
    for body in bodies {
        assert_eq!(body.status, 200);
        assert!(!body.body_contains("Not yet") && !body.body_contains("not-yet"), "{}", body.text());
    }
    let found = server.get("/v1/query?site=acme&query=post&params.slug=not-yet").json();
    assert_eq!((&found["items"], &found["total"]), (&json!([]), &json!(0)));
}

#[test]
fn a_literal_route_wins_over_the_route_of_an_item() {
    let answer = get_layout("/blog/featured").json();
    assert_eq!((&answer["pattern"], &answer["params"]), (&json!("/blog/featured"), &json!({})));
    assert_eq!(answer["layout"]["zones"], json!({ "literal": [] }));
}

#[test]
fn a_non_ascii_path_may_be_plain_or_escaped() {
    let plain = get_layout("/blog/größe & maß");
    let answer = plain.json();
    assert_eq!(
        (&answer["route"], &answer["params"]["slug"]),
        (&json!("/blog/größe & maß"), &json!("größe & maß"))
    );
    assert_eq!(answer["layout"]["zones"]["main"][0]["items"][0]["id"], "p2");
    let escaped = percent_encode("größe & maß");
    for route in [format!("/blog/{escaped}"), "/blog/gr%c3%b6%c3%9fe%20%26%20ma%C3%9F".to_owned()] {
        let response = get_layout(&route);
        assert_eq!((response.field("etag"), &response.body), (plain.field("etag"), &plain.body), "{route}");
    }
    let tag = format!("acme,acme:/blog/{escaped}");
    assert_eq!(plain.field("cache-tag"), Some(&*tag));
    assert_eq!(get_layout("/blog/a%2Bb").body, get_layout("/blog/a+b").body);
}

#[test]
fn a_page_shows_the_item_of_its_path() {
    for (path, slug, id) in [("/blog/wet-feet", "wet-feet", "p1"), ("/blog/a+b", "a+b", "p5")] {
        let answer = get_layout(path).json();
        let node = &answer["layout"]["zones"]["main"][0];
        assert_eq!((&node["items"][0]["id"], &node["nextCursor"]), (&json!(id), &json!(null)), "{path}");
        assert_eq!(node["query"], json!({ "id": "post", "params": { "slug": slug } }));
    }
}

#[test]
fn a_pattern_with_a_literal_segment_wins_a_shared_path() {
    let posts = r#"[{"id":"a","type":"x","fields":{"only":true}},{"id":"x","type":"x","fields":{}}]"#;
    let routes = [
        item_route(
            "/:type/:id",
            json!({ "collection": "posts", "type": "type", "id": "id" }),
            json!({ "any": [] }),
        ),
        item_route("/x/:id", json!({ "collection": "posts", "id": "id" }), json!({ "x": [] })),
        item_route("/x/*", json!({ "collection": "posts", "*": "id" }), json!({ "rest": [] })),
        item_route(
            "/:type/a",
            json!({ "collection": "posts", "type": "type", "where": { "only": true } }),
            json!({}),
        ),
    ];
    for routes in [routes.to_vec(), routes.into_iter().rev().collect()] {
        let server = Server::start(&[("acme.snapshot", &compile_with_posts(posts, &routes, 1))], &[]);
        assert_eq!(listed_paths(&server, ""), ["/x/a", "/x/x"]);
        for path in ["/x/a", "/x/x"] {
            let answer = server.get(&resolve_target(path, "&variants=")).json();
            assert_eq!(
                (&answer["pattern"], &answer["layout"]["zones"]),
                (&json!("/x/:id"), &json!({ "x": [] }))
            );
        }
    }
}

/// Waits until `version` is served and returns the path and hash of each route.
fn hashes(server: &Server, version: u64) -> Vec<(String, String)> {
    let list = eventually("the version is served", || {
        let list = server.get("/v1/routes?site=acme");
        (list.field("x-version") == Some(&*version.to_string())).then(|| list.json())
    });
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    list["routes"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|r| (text(&r["path"]), text(&r["hash"])))
        .collect()
}

#[test]
fn since_lists_added_changed_and_removed_concrete_paths() {
    let server = Server::start(&[("acme.snapshot", &compile_with_posts(POSTS, &routes()[..1], 1))], &[]);
    let first = hashes(&server, 1);
    assert_eq!(first.iter().map(|(path, _)| &**path).collect::<Vec<_>>(), listed_paths(&server, ""));
    // One item is removed, one is no longer a draft, and one has another title.
    let mut posts: Vec<Value> = serde_json::from_str(POSTS).expect("JSON");
    posts.remove(3);
    posts[2]["fields"]["draft"] = json!(false);
    posts[0]["fields"]["title"] = json!("Dry feet");
    server.publish("acme.snapshot", &compile_with_posts(&json!(posts).to_string(), &routes()[..1], 2));
    let second = hashes(&server, 2);
    let since = server.get("/v1/routes?site=acme&since=1").json();
    assert_eq!((&since["since"], &since["removed"]), (&json!("1"), &json!(["/blog/featured"])));
    assert_eq!(listed_paths(&server, "&since=1"), ["/blog/not-yet", "/blog/wet-feet"]);
    let is_unchanged = |path: &str| first.iter().any(|entry| entry.0 == path && second.contains(entry));
    assert!(is_unchanged("/blog/a+b") && !is_unchanged("/blog/wet-feet"));
    let etag = |path: &str| server.get(&resolve_target(path, "&variants=")).field("etag").map(str::to_owned);
    let (same, other) = (etag("/blog/a+b"), etag("/blog/wet-feet"));
    server.publish("acme.snapshot", &compile_with_posts(POSTS, &routes()[..1], 3));
    assert_eq!(hashes(&server, 3), first);
    assert_eq!(etag("/blog/a+b"), same);
    assert_ne!(etag("/blog/wet-feet"), other);
    assert_eq!(listed_paths(&server, "&since=2"), ["/blog/featured", "/blog/wet-feet"]);
}
