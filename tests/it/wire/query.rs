//! `GET` and `POST /v1/query`: content queries that are published with the site.

mod bodies;
mod caching;
mod cursors;
mod order;
mod refusals;
mod values;

use serde_json::{Value, json};

use super::{SharedServer, percent_encode, site_file};
use crate::harness::{Response, Server, snapshot};

/// Posts with unusual white space, number forms and escapes, as a person might write them.
const POSTS: &str = r#"[
  { "id": "p1", "type": "post", "fields": { "title": "Wet  feet", "slug": "wet-feet", "category": "guides", "rank": 3,
      "live": true, "size": 1.50, "tags": [ "water", "care" ], "parts": [ { "kind": "boot", "n": 1 }, { "kind": "sock", "n": 2 } ] } },
  { "id": "p2", "type": "note", "fields": { "slug": "kiel", "title": "A store in \u004biel", "category": "news", "rank": 1e0,
      "live": true, "tags": ["kiel"] } },
  { "id": "p3", "type": "post", "fields": { "title": "Packing \"light\"", "slug": "light", "category": "guides", "rank": 2,
      "live": false, "parts": [{ "kind": "pack", "n": 0 }] } },
  { "id": "p4", "type": "post", "fields": { "title": "Not yet", "slug": "not-yet", "category": "guides", "rank": 2,
      "live": true, "draft": true } },
  { "id": "p5", "type": "post", "fields": { "title": "Søk ly", "slug": "ly", "category": "tips", "live": true, "tags": [] } },
  { "id": "p6", "type": "post", "fields": { "title": "Stoves", "slug": "stoves", "category": "guides", "rank": -1,
      "live": false } }
]"#;

/// Returns the queries over the posts that most tests use.
fn queries() -> Value {
    json!({
        "all": { "collection": "posts" },
        "latest": {
            "collection": "posts",
            "params": { "category": { "type": "string", "enum": ["news", "guides", "tips", "none"], "optional": true } },
            "where": { "category": { "$param": "category" }, "draft": { "$ne": true } },
            "orderBy": ["-rank"],
            "select": ["title", "rank"],
            "limit": 2,
        },
        "ranked": {
            "collection": "posts",
            "params": {
                "from": { "type": "number", "minimum": -5, "maximum": 10, "default": 1 },
                "live": { "type": "boolean", "optional": true },
            },
            "where": { "rank": { "$gte": { "$param": "from" } }, "live": { "$eq": { "$param": "live" } } },
            "select": [],
        },
        "titled": {
            "collection": "posts",
            "params": { "title": { "type": "string" } },
            "where": { "title": { "$param": "title" } },
        },
    })
}

/// Compiles version 1 of a site with these collections and queries.
fn compile_collections(site: &str, collections: &[(&str, &str)], queries: &Value) -> Vec<u8> {
    compile_version(site, 1, collections, queries)
}

/// Compiles `version` of a site with these collections and queries.
fn compile_version(site: &str, version: u64, collections: &[(&str, &str)], queries: &Value) -> Vec<u8> {
    let (site, queries) = (site_file(site, json!({})), queries.to_string());
    let names: Vec<String> = collections.iter().map(|(name, _)| format!("content/{name}.json")).collect();
    let mut files = vec![("site.json", &*site), ("queries.json", &*queries)];
    files.extend(names.iter().zip(collections).map(|(name, (_, text))| (&**name, *text)));
    snapshot(&files, version)
}

static SERVER: SharedServer = SharedServer::new(|| {
    let [acme, twin] =
        ["acme", "twin"].map(|site| compile_collections(site, &[("posts", POSTS)], &queries()));
    Server::start(&[("acme.snapshot", &acme), ("twin.snapshot", &twin)], &[])
});

/// Returns the target for a query of acme, followed by the parameters in `more`.
fn target(query: &str, more: &str) -> String {
    format!("/v1/query?site=acme&query={query}{more}")
}

fn get(query: &str, more: &str) -> Response {
    SERVER.get().get(&target(query, more))
}

fn post(body: &Value) -> Response {
    SERVER.get().post("/v1/query", &[], body.to_string().as_bytes())
}

/// Returns the IDs of the items of a response.
fn ids(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", response.text());
    let answer = response.json();
    let items = answer["items"].as_array().expect("an array");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

/// Runs a query by URL and by body, and asserts that both responses have the same bytes.
#[track_caller]
fn query_by_url_and_body(server: &Server, query: &str, params: &Value) -> Response {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let members = params.as_object().expect("an object");
    let more: String = members
        .iter()
        .map(|(name, value)| format!("&params.{name}={}", percent_encode(&text(value))))
        .collect();
    let by_url = server.get(&target(query, &more));
    let body = json!({ "site": "acme", "query": query, "params": params }).to_string();
    let by_body = server.post("/v1/query", &[], body.as_bytes());
    assert_eq!((by_url.status, by_url.text()), (200, by_body.text()), "{query} {params}");
    by_url
}

/// Returns `nextCursor` of a response that is not the last page.
#[track_caller]
fn next_cursor(response: &Response) -> String {
    response.json()["nextCursor"].as_str().expect("a cursor").to_owned()
}

#[test]
fn the_response_matches_the_interface_byte_for_byte() {
    let first = get("latest", "&params.category=guides");
    let cursor = next_cursor(&first);
    let expected = format!(
        r#"{{"site":"acme","query":"latest","items":[{{"id":"p1","type":"post","fields":{{"title":"Wet  feet","rank":3}}}},{{"id":"p3","type":"post","fields":{{"title":"Packing \"light\"","rank":2}}}}],"total":3,"nextCursor":"{cursor}"}}"#
    );
    assert_eq!((first.status, first.text()), (200, &*expected));
    let last = get("latest", &format!("&params.category=guides&cursor={cursor}"));
    let expected = r#"{"site":"acme","query":"latest","items":[{"id":"p6","type":"post","fields":{"title":"Stoves","rank":-1}}],"total":3,"nextCursor":null}"#;
    assert_eq!(last.text(), expected);
    let none = get("latest", "&params.category=none");
    assert_eq!(none.text(), r#"{"site":"acme","query":"latest","items":[],"total":0,"nextCursor":null}"#);
}

#[test]
fn fields_keep_their_authored_tokens() {
    let all = get("all", "");
    let first = r#"{"id":"p1","type":"post","fields":{"title":"Wet  feet","slug":"wet-feet","category":"guides","rank":3,"live":true,"size":1.50,"tags":["water","care"],"parts":[{"kind":"boot","n":1},{"kind":"sock","n":2}]}}"#;
    let second = r#"{"id":"p2","type":"note","fields":{"slug":"kiel","title":"A store in \u004biel","category":"news","rank":1e0,"live":true,"tags":["kiel"]}}"#;
    assert!(all.body_contains(first), "{}", all.text());
    assert!(all.body_contains(second), "{}", all.text());
    assert_eq!(ids(&all), ["p1", "p2", "p3", "p4", "p5", "p6"]);
}

#[test]
fn a_selection_removes_fields_and_keeps_the_authored_order() {
    let latest = get("latest", "&limit=100").json();
    let fields: Vec<String> =
        latest["items"].as_array().expect("an array").iter().map(|item| item["fields"].to_string()).collect();
    assert_eq!(fields[4], r#"{"title":"Søk ly"}"#);
    assert_eq!(ids(&get("latest", "&limit=100")), ["p1", "p3", "p2", "p6", "p5"]);
    assert!(get("ranked", "").body_contains(r#"{"id":"p1","type":"post","fields":{}}"#));
}

#[test]
fn a_url_and_a_body_find_the_same_items() {
    let server = SERVER.get();
    let whole = query_by_url_and_body(&server, "latest", &json!({}));
    assert_eq!((ids(&whole), &whole.json()["total"]), (vec!["p1".to_owned(), "p3".to_owned()], &json!(5)));
    for params in [json!({ "category": "news" }), json!({ "category": "tips" })] {
        assert_eq!(ids(&query_by_url_and_body(&server, "latest", &params)).len(), 1, "{params}");
    }
    let cursor = next_cursor(&whole);
    let by_url = get("latest", &format!("&limit=2&cursor={cursor}"));
    let body = json!({ "trackingId": "track_acme", "query": "latest", "limit": 2, "cursor": cursor });
    assert_eq!(post(&body).text(), by_url.text());
    assert_eq!(ids(&by_url), ["p2", "p6"]);
}

#[test]
fn null_and_empty_strings_count_as_absent_outside_params() {
    let plain = get("latest", "").body;
    assert_eq!(get("latest", "&limit=&cursor=&trackingId=&params=").body, plain);
    for absent in [json!(null), json!("")] {
        let body = json!({ "site": "acme", "trackingId": absent, "query": "latest", "params": absent,
            "limit": absent, "cursor": absent });
        let response = post(&body);
        assert_eq!((response.status, &response.body), (200, &plain), "{body}: {}", response.text());
    }
}

#[test]
fn unknown_parameters_and_members_are_ignored() {
    let plain = get("latest", "&params.category=guides").body;
    assert_eq!(get("latest", "&params.category=guides&x=1&x=2&paramsx.y=1&v=1&v=2&%FF=%FF").body, plain);
    let body = json!({ "site": "acme", "query": "latest", "params": { "category": "guides" },
        "category": "news", "more": { "params": {} }, "route": 7, "x": [null] });
    assert_eq!(post(&body).body, plain);
}

#[test]
fn a_declared_parameter_without_its_prefix_only_adds_a_warning() {
    let plain = get("latest", "&params.category=guides");
    let warning = r#","warnings":[{"code":"unused_parameter","param":"category"}]}"#;
    let warned = format!("{}{warning}", plain.text().strip_suffix('}').expect("a brace"));
    for more in ["&category=news", "&category=x&category=y", "&c%61tegory=%FF"] {
        let response = get("latest", &format!("&params.category=guides{more}"));
        assert_eq!((response.status, response.text()), (200, &*warned), "{more}");
        assert_ne!(response.field("etag"), plain.field("etag"));
    }
    let both = get("ranked", "&live=true&from=7").json();
    let expected = ["from", "live"].map(|name| json!({ "code": "unused_parameter", "param": name }));
    assert_eq!(both["warnings"], json!(expected));
    // An empty parameter counts as absent. In a body, and for another query, the name has no meaning.
    assert_eq!(get("latest", "&params.category=guides&category=&category").body, plain.body);
    assert_eq!(get("all", "&category=news").json().get("warnings"), None);
    let body =
        json!({ "site": "acme", "query": "latest", "params": { "category": "guides" }, "category": "news" });
    assert_eq!(post(&body).body, plain.body);
}

#[test]
fn a_parameter_of_the_interface_is_never_reported_as_unused() {
    let names = ["limit", "cursor", "site", "trackingId", "query", "v"];
    let params: serde_json::Map<String, Value> = names
        .map(|name| (name.to_owned(), json!({ "type": "string", "optional": true })))
        .into_iter()
        .collect();
    let clauses: Vec<Value> =
        names.iter().map(|name| json!({ "title": { "$ne": { "$param": name } } })).collect();
    let queries = json!({ "q": { "collection": "posts", "params": params, "where": { "$and": clauses } } });
    let server =
        Server::start(&[("acme.snapshot", &compile_collections("acme", &[("posts", POSTS)], &queries))], &[]);
    let response = server.get("/v1/query?site=acme&trackingId=track_acme&query=q&limit=3&v=7");
    assert_eq!((ids(&response).len(), response.json().get("warnings")), (3, None));
}

#[test]
fn the_last_of_duplicate_members_wins() {
    let plain = get("latest", "&params.category=guides").body;
    let text = r#"{"site":"twin","query":"nothing","params":{"category":"news"},"params":7,"query":"latest",
        "params":{"category":7,"category":"news","categor\u0079":"guides"},"si\u0074e":"acme"}"#;
    assert_eq!(SERVER.get().post("/v1/query", &[], text.as_bytes()).body, plain);
    let text = r#"{"site":"acme","query":"latest","params":{"category":"guides"},"params":null}"#;
    assert_eq!(SERVER.get().post("/v1/query", &[], text.as_bytes()).body, get("latest", "").body);
}

#[test]
fn a_numeric_id_is_read_as_its_decimal_text() {
    let queries = json!({ "12": { "collection": "posts" } });
    let server =
        Server::start(&[("7.snapshot", &compile_collections("7", &[("posts", POSTS)], &queries))], &[]);
    let named = server.post("/v1/query", &[], br#"{"site":"7","query":"12"}"#);
    assert_eq!(ids(&named).len(), 6);
    let numbered = server.post("/v1/query", &[], br#"{"site":7,"query":12}"#);
    assert_eq!(numbered.body, named.body);
}

#[test]
fn a_post_ignores_the_query_string() {
    let response = SERVER.get().post(&target("latest", "&limit=1"), &[], b"{}");
    assert_eq!(response.code(), "missing_site");
    let body = json!({ "site": "acme", "query": "latest" }).to_string();
    let response = SERVER.get().post("/v1/query?limit=x&limit=y&params.z=1&%FF", &[], body.as_bytes());
    assert_eq!(response.body, get("latest", "").body);
}
