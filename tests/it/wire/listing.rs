//! `/v1/routes`: the routes that a site publishes, in pages, and the differences to another version.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    SharedServer, compile_site, page, percent_encode, problem, redirect, site_file, start_server, zone,
};
use crate::harness::{Client, Response, Server, eventually, snapshot};

fn with_updated_at(file: &str, updated_at: &str) -> String {
    let mut file: Value = serde_json::from_str(file).expect("JSON");
    file["updatedAt"] = json!(updated_at);
    file.to_string()
}

/// Returns route files whose order differs from the byte order of their paths.
fn routes() -> Vec<String> {
    let everyone = |key: &str| json!([{ "when": {}, "variant": key }]);
    let zones = json!({ "hero": zone(&["b", "unused"], everyone("b")), "cta": zone(&["c"], everyone("c")), "main": [] });
    vec![
        with_updated_at(&page("/pricing", zones), "2026-01-05T10:00:00Z"),
        page("/", json!({})),
        with_updated_at(&redirect("/old", "/pricing", 301), "2026-01-05T11:30:00+02:00"),
        page("/blog/:slug", json!({})),
        page("/blog", json!({})),
        page("/blog-roll", json!({})),
        page("/größe", json!({})),
        redirect("/blog/old/*", "https://elsewhere.example/", 307),
        with_updated_at(&page("/Zebra", json!({})), "2025-12-31T23:59:59Z"),
    ]
}

static SERVER: SharedServer = SharedServer::new(|| {
    let acme = compile_site(&site_file("acme", json!({})), &routes(), 42);
    let twin = compile_site(&site_file("twin", json!({})), &routes(), 42);
    Server::start(&[("acme.snapshot", &acme), ("twin.snapshot", &twin)], &[])
});

/// 60 pages with 24 zones each. Each page has 2^24 combinations, and the list has more than 1 MiB of text.
static LARGE: SharedServer = SharedServer::new(|| {
    let zones: serde_json::Map<String, Value> = (0..24)
        .map(|i| {
            let name = format!("z{i:02}{}", "o".repeat(40));
            (name, zone(&["k"], json!([{ "when": {}, "variant": "k" }])))
        })
        .collect();
    start_server(&(0..60).map(|i| page(&format!("/{i}"), Value::Object(zones.clone()))).collect::<Vec<_>>())
});

fn list(query: &str) -> Value {
    let response = SERVER.get().get(&format!("/v1/routes?{query}"));
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response.json()
}

fn get_problem(query: &str) -> (u16, String) {
    problem(&SERVER.get().get(&format!("/v1/routes?{query}")))
}

fn paths(list: &Value, member: &str, name: &str) -> Vec<String> {
    let entries = list[member].as_array().expect("an array").iter();
    entries.map(|entry| entry[name].as_str().expect("text").to_owned()).collect()
}

/// Returns the paths of routes, redirects and removed routes, sorted.
fn all_paths(list: &Value) -> Vec<String> {
    let removed = list["removed"].as_array().expect("an array").iter();
    let mut all = paths(list, "routes", "path");
    all.extend(paths(list, "redirects", "from"));
    all.extend(removed.map(|path| path.as_str().expect("text").to_owned()));
    all.sort();
    all
}

#[test]
fn the_list_has_the_members_of_the_interface() {
    let mut answer = list("site=acme");
    assert_eq!(
        paths(&answer, "routes", "path"),
        ["/", "/Zebra", "/blog", "/blog-roll", "/blog/:slug", "/größe", "/pricing"]
    );
    let pricing = answer["routes"][6].take();
    let hash = pricing["hash"].as_str().expect("text");
    assert!(hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    let expected = json!({ "path": "/pricing", "updatedAt": "2026-01-05T10:00:00Z", "hash": hash,
        "zones": ["cta", "hero"], "combinations": 4 });
    assert_eq!(pricing, expected);
    assert_eq!(answer["routes"][4]["pattern"], true);
    assert_eq!(answer["routes"][0]["updatedAt"], json!(null));
    assert_eq!(answer["routes"][0]["combinations"], 1);
    let redirects = json!([
        { "from": "/blog/old/*", "to": "https://elsewhere.example/", "status": 307, "pattern": true },
        { "from": "/old", "to": "/pricing", "status": 301 },
    ]);
    answer["routes"].take();
    let expected = json!({ "site": "acme", "version": "42", "updatedAt": "2026-01-05T10:00:00Z", "routes": null,
        "redirects": redirects, "removed": [], "queries": [], "removedQueries": [], "nextCursor": null });
    assert_eq!(answer, expected);
}

#[test]
fn a_prefix_matches_the_text_of_the_path() {
    for (prefix, count) in [
        ("/blog", 4),
        ("/blog/", 2),
        ("/blog/:", 1),
        ("/gr\u{f6}", 1),
        ("/", 9),
        ("", 9),
        ("blog", 0),
        ("/x", 0),
    ] {
        let found = all_paths(&list(&format!("site=acme&prefix={}", percent_encode(prefix))));
        assert_eq!(found.len(), count, "{prefix}");
        assert!(found.iter().all(|path| path.starts_with(prefix)));
    }
}

#[test]
fn variants_are_listed_on_request() {
    let answer = list("site=acme&include=variants");
    assert_eq!(answer["routes"][6]["variants"], json!(["", "cta:c", "hero:b", "cta:c,hero:b"]));
    assert_eq!(answer["routes"][0]["variants"], json!([""]));
    assert_eq!(answer["routes"][6].get("truncated"), None);
    assert_eq!(get_problem("site=acme&include=combinations"), (400, "invalid_param".into()));
}

#[test]
fn at_most_256_variants_are_listed_and_10_000_are_counted() {
    let answer = LARGE.get().get("/v1/routes?site=acme&include=variants&limit=1").json();
    let route = &answer["routes"][0];
    assert_eq!((&route["combinations"], &route["truncated"]), (&json!(10_000), &json!(true)));
    assert_eq!(route["variants"].as_array().map(Vec::len), Some(256));
}

#[test]
fn a_page_ends_at_1_mib() {
    let first = LARGE.get().get("/v1/routes?site=acme&include=variants");
    let listed = first.json()["routes"].as_array().map_or(0, Vec::len);
    assert!((1..60).contains(&listed), "{listed}");
    let one = first.body.len() / listed;
    assert!(
        first.body.len() > (1 << 20) - one && first.body.len() < (1 << 20) + 2 * one,
        "{}",
        first.body.len()
    );
    assert_eq!(list_all_pages(&LARGE.get(), "site=acme&include=variants").len(), 60);
}

/// Reads all pages of a list and returns the paths in the order in which they were listed.
fn list_all_pages(server: &Server, query: &str) -> Vec<String> {
    let mut client = Client::to(server.edge);
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.request("GET", &format!("/v1/routes?{query}&cursor={cursor}"), &[]).json();
        let paths = all_paths(&page);
        assert!(!paths.is_empty() || listed.is_empty(), "an empty page has a next cursor");
        listed.extend(paths);
        match page["nextCursor"].as_str() {
            Some(next) => cursor = percent_encode(next),
            None => return listed,
        }
    }
}

#[test]
fn pages_of_any_limit_contain_every_path_once_in_order() {
    let all = all_paths(&list("site=acme"));
    assert!(all.is_sorted() && all.len() == 9);
    let limits = 1..=10_000_usize;
    proptest!(ProptestConfig::with_cases(30), |(
        limit in prop_oneof![1..=10_usize, limits],
        prefix in prop::sample::select(vec!["", "/", "/b", "/blog/", "/x"]),
        include in prop::sample::select(vec!["", "&include=variants"]),
    )| {
        let query = format!("site=acme&limit={limit}&prefix={prefix}{include}");
        let expected: Vec<String> = all.iter().filter(|path| path.starts_with(prefix)).cloned().collect();
        prop_assert_eq!(list_all_pages(&SERVER.get(), &query), expected);
        let first = all_paths(&list(&query)).len();
        prop_assert_eq!(first, limit.min(all_paths(&list(&format!("site=acme&prefix={prefix}"))).len()));
    });
}

/// 40 queries over one collection, and three pages.
static QUERIES: SharedServer = SharedServer::new(|| {
    let queries: serde_json::Map<String, Value> =
        (0..40).map(|i| (format!("q{i:02}"), json!({ "collection": "c", "limit": 1 + i }))).collect();
    let files = [
        ("site.json", site_file("acme", json!({}))),
        ("queries.json", Value::Object(queries).to_string()),
        ("content/c.json", "[]".to_owned()),
        ("routes/a.json", page("/a", json!({}))),
        ("routes/b.json", page("/b", json!({}))),
        ("routes/c.json", page("/c", json!({}))),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    Server::start(&[("acme.snapshot", &snapshot(&files, 5))], &[])
});

#[test]
fn only_the_first_page_lists_the_queries_sorted_and_without_a_limit() {
    let server = QUERIES.get();
    let list = |query: &str| server.get(&format!("/v1/routes?site=acme{query}")).json();
    for first in [list("&limit=2"), list("&prefix=/b"), list("&include=variants"), list("&since=1&limit=1")] {
        let ids = paths(&first, "queries", "id");
        assert!(ids.len() == 40 && ids.is_sorted(), "{first}");
        assert_eq!(first["removedQueries"], json!([]));
        let hashes: std::collections::BTreeSet<String> =
            paths(&first, "queries", "hash").into_iter().collect();
        assert_eq!(hashes.len(), 40);
    }
    let cursor = list("&limit=2")["nextCursor"].as_str().expect("a cursor").to_owned();
    let second = list(&format!("&limit=2&cursor={cursor}"));
    assert_eq!(paths(&second, "routes", "path"), ["/c"]);
    assert_eq!((second.get("queries"), second.get("removedQueries")), (None, None));
}

#[test]
fn a_limit_is_1_to_10_000() {
    for limit in ["1", "2", "9999", "10000"] {
        list(&format!("site=acme&limit={limit}"));
    }
    for limit in ["0", "10001", "-1", "1.5", "ten", "%2B5", "99999999999999999999", "1e3"] {
        let response = SERVER.get().get(&format!("/v1/routes?site=acme&limit={limit}"));
        assert_eq!(problem(&response), (400, "invalid_limit".into()), "{limit}");
        assert_eq!(response.json()["param"], "limit");
    }
}

#[test]
fn a_cursor_belongs_to_its_list() {
    let next = |query: &str| list(query)["nextCursor"].as_str().expect("a cursor").to_owned();
    let cursor = next("site=acme&limit=2");
    assert_eq!(all_paths(&list(&format!("site=acme&limit=5&cursor={cursor}"))).len(), 5);
    for foreign in [
        "site=twin",
        "site=acme&prefix=/",
        "site=acme&include=variants",
        "site=acme&since=42",
        "site=acme&since=1",
    ] {
        assert_eq!(
            get_problem(&format!("{foreign}&cursor={cursor}")),
            (400, "invalid_cursor".into()),
            "{foreign}"
        );
    }
}

#[test]
fn an_altered_cursor_is_refused() {
    let server = SERVER.get();
    let cursor = list("site=acme&limit=2")["nextCursor"].as_str().expect("a cursor").to_owned();
    let mut client = Client::to(server.edge);
    let mut assert_refused = |cursor: &str| {
        let target = format!("/v1/routes?site=acme&cursor={}", percent_encode(cursor));
        assert_eq!(client.request("GET", &target, &[]).code(), "invalid_cursor", "{cursor}");
    };
    for at in 0..cursor.len() {
        let original = &cursor[at..=at];
        for character in ["0", "f", "g", "+", " ", "é", "", &original.to_ascii_uppercase()] {
            if character != original {
                assert_refused(&format!("{}{character}{}", &cursor[..at], &cursor[at + 1..]));
            }
        }
    }
    for damaged in ["x", "0", &"0".repeat(16), &"0".repeat(17), &format!("{cursor}00"), &cursor[..16], "%"] {
        assert_refused(damaged);
    }
}

#[test]
fn since_must_be_a_version() {
    for malformed in ["x", "-1", "1.0", "9007199254740993", "%2B42"] {
        assert_eq!(
            get_problem(&format!("site=acme&since={malformed}")),
            (400, "invalid_param".into()),
            "{malformed}"
        );
    }
    assert_eq!(list("site=acme&since=9007199254740992")["since"], json!(null));
}

#[test]
fn the_etag_depends_only_on_the_list() {
    let server = SERVER.get();
    let etag = |query: &str| {
        let response: Response = server.get(&format!("/v1/routes?{query}"));
        response.field("etag").expect("an ETag").to_owned()
    };
    let cursor = list("site=acme&limit=2")["nextCursor"].as_str().expect("a cursor").to_owned();
    assert_eq!(etag("site=acme"), etag("trackingId=track_acme&anonId=x"));
    assert_ne!(etag("site=acme"), etag("site=twin"));
    assert_ne!(etag("site=acme"), etag(&format!("site=acme&cursor={cursor}")));
    assert_ne!(etag("site=acme&prefix=/b"), etag("site=acme&prefix=/bl"));
}

/// Publishes acme with these routes as `version` and waits until it is served.
fn publish(server: &Server, routes: &BTreeMap<String, String>, version: u64) {
    let files: Vec<String> = routes.values().cloned().collect();
    server.publish("site.snapshot", &compile_site(&site_file("acme", json!({})), &files, version));
    eventually("the version is served", || {
        let answer = server.get("/v1/routes?site=acme");
        (answer.field("x-version") == Some(&*version.to_string())).then_some(())
    });
}

/// Returns the paths that are new or different in `now`, and the paths that are only in `then`.
fn difference(now: &BTreeMap<String, String>, then: &BTreeMap<String, String>) -> (Vec<String>, Vec<String>) {
    let changed =
        now.iter().filter(|(path, file)| then.get(*path) != Some(file)).map(|(path, _)| path.clone());
    let gone = then.keys().filter(|path| !now.contains_key(*path)).cloned();
    (changed.collect(), gone.collect())
}

#[test]
fn since_lists_the_differences_to_older_and_newer_versions() {
    let text = |path: &str, text: &str| (path.to_owned(), page(path, json!({ text: [] })));
    let redirected = |path: &str, to: &str| (path.to_owned(), redirect(path, to, 308));
    let versions: [BTreeMap<String, String>; 3] = [
        [text("/a", "one"), text("/b", "one"), text("/c", "one"), redirected("/r", "/a"), text("/t", "one")]
            .into(),
        [
            text("/a", "two"),
            text("/b", "one"),
            text("/d", "new"),
            redirected("/r", "/b"),
            redirected("/t", "/a"),
        ]
        .into(),
        [
            text("/a", "one"),
            text("/c", "one"),
            text("/d", "newer"),
            redirected("/s", "/a"),
            text("/t", "one"),
        ]
        .into(),
    ];
    let first =
        compile_site(&site_file("acme", json!({})), &versions[0].values().cloned().collect::<Vec<_>>(), 1);
    let server = Server::start(&[("site.snapshot", &first)], &[]);
    let since = |version: u64| server.get(&format!("/v1/routes?site=acme&since={version}")).json();
    publish(&server, &versions[1], 2);
    publish(&server, &versions[2], 3);
    // A rollback: clients may have a greater version than the served one.
    publish(&server, &versions[1], 2);
    for (then, version) in versions.iter().zip(1..) {
        let answer = since(version);
        let (changed, gone) = difference(&versions[1], then);
        assert_eq!(answer["since"], version.to_string());
        let mut actual = paths(&answer, "routes", "path");
        actual.extend(paths(&answer, "redirects", "from"));
        actual.sort();
        assert_eq!((actual, &answer["removed"]), (changed, &json!(gone)), "since {version}");
    }
    let unknown = since(9);
    assert_eq!((&unknown["since"], all_paths(&unknown).len()), (&json!(null), 5));
    assert_eq!(server.get("/v1/routes?site=acme").json().get("since"), None);

    // Pages list removed paths among the others.
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    while let Some(next) = {
        let page = server.get(&format!("/v1/routes?site=acme&since=1&limit=1&cursor={cursor}")).json();
        assert_eq!(all_paths(&page).len(), 1);
        paged.extend(all_paths(&page));
        page["nextCursor"].as_str().map(str::to_owned)
    } {
        cursor = next;
    }
    assert_eq!(paged, all_paths(&since(1)));
    let prefixed = server.get("/v1/routes?site=acme&since=1&prefix=/c").json();
    assert_eq!(all_paths(&prefixed), ["/c"]);
}

#[test]
fn the_last_16_versions_are_kept() {
    let routes_of = |version: u64| [("/".to_owned(), page("/", json!({ format!("v{version}"): [] })))].into();
    let first: BTreeMap<String, String> = routes_of(1);
    let files: Vec<String> = first.values().cloned().collect();
    let server =
        Server::start(&[("site.snapshot", &compile_site(&site_file("acme", json!({})), &files, 1))], &[]);
    for version in 2..=17 {
        publish(&server, &routes_of(version), version);
    }
    let since =
        |version: u64| server.get(&format!("/v1/routes?site=acme&since={version}")).json()["since"].clone();
    assert_eq!([since(1), since(2), since(3), since(17)], [json!(null), json!("2"), json!("3"), json!("17")]);
}
