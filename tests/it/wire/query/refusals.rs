//! Problems of the query endpoint: status, code, parameter or pointer, detail, and header fields.

use serde_json::{Value, json};

use super::{POSTS, SERVER, compile_collections, get, ids, post, queries, target};
use crate::harness::{Client, Response, Server};
use crate::wire::{SharedServer, problem, site_file};

/// Asserts the header fields and the members that every problem of this endpoint has.
#[track_caller]
fn assert_problem(response: &Response) {
    assert_eq!(response.field("content-type"), Some("application/problem+json"));
    assert_eq!(response.field("etag"), None);
    // Before the site is known, the problem of a POST depends on the origin, and the request has none.
    let cors = (response.field("access-control-allow-origin"), response.field("vary"));
    assert!([(Some("*"), None), (None, Some("Origin"))].contains(&cors), "{cors:?}");
    let body = response.json();
    assert_eq!(body["status"], response.status);
    let is_shared = response.code() == "site_not_found" && cors.0 == Some("*");
    let expected = if is_shared { "public, s-maxage=10" } else { "no-store" };
    assert_eq!(response.field("cache-control"), Some(expected));
    let id = response.field("x-request-id").filter(|_| !is_shared);
    assert_eq!(body["requestId"].as_str(), id);
    assert_eq!(body["type"], format!("/v1/problems/{}", response.code()));
}

/// Asserts the status, the code and the wrong parameter of the problem for a URL.
#[track_caller]
fn assert_url_problem(query: &str, expected: (u16, &str), param: Option<&str>) {
    let response = SERVER.get().get(&format!("/v1/query?{query}"));
    assert_problem(&response);
    assert_eq!(problem(&response), (expected.0, expected.1.to_owned()), "{query}");
    let body = response.json();
    assert_eq!((body["param"].as_str(), body.get("pointer")), (param, None), "{query}: {body}");
}

/// Asserts the status, the code and the pointer to the wrong member of the problem for a body.
#[track_caller]
fn assert_body_problem(body: &str, expected: (u16, &str), pointer: Option<&str>) {
    let response = SERVER.get().post("/v1/query", &[], body.as_bytes());
    assert_problem(&response);
    assert_eq!(problem(&response), (expected.0, expected.1.to_owned()), "{body}");
    let document = response.json();
    assert_eq!((document["pointer"].as_str(), document.get("param")), (pointer, None), "{body}: {document}");
}

const INVALID_PARAM: (u16, &str) = (400, "invalid_param");

#[test]
fn a_problem_with_a_url_names_the_parameter() {
    for (query, expected, param) in [
        ("query=all", (400, "missing_site"), None),
        ("site=&trackingId=&query=all", (400, "missing_site"), None),
        ("trackingId=acme&query=all", (400, "invalid_tracking_id"), Some("trackingId")),
        ("trackingId=track_twin&site=acme&query=all", (400, "site_mismatch"), Some("site")),
        ("site=nobody&query=all", (404, "site_not_found"), Some("site")),
        ("trackingId=track_nobody&query=all", (404, "site_not_found"), Some("trackingId")),
        ("site=acme", INVALID_PARAM, Some("query")),
        ("site=acme&query=", INVALID_PARAM, Some("query")),
        ("site=acme&query=latst", (404, "query_not_found"), Some("query")),
        ("site=acme&query=Latest", (404, "query_not_found"), Some("query")),
        ("site=acme&query=latest%00", (404, "query_not_found"), Some("query")),
        ("site=acme&query=all&params.category=news", INVALID_PARAM, Some("params.category")),
        ("site=acme&query=latest&params.Category=news", INVALID_PARAM, Some("params.Category")),
        ("site=acme&query=latest&params.=news", INVALID_PARAM, Some("params.")),
        ("site=acme&query=latest&params.a%2Fb~c%22=1", INVALID_PARAM, Some("params.a/b~c\"")),
        ("site=acme&query=latest&params.category=sports", INVALID_PARAM, Some("params.category")),
        ("site=acme&query=titled", INVALID_PARAM, Some("params.title")),
        ("site=acme&query=ranked&params.from=-5.01", INVALID_PARAM, Some("params.from")),
        ("site=acme&query=ranked&params.from=10.01", INVALID_PARAM, Some("params.from")),
        ("site=acme&query=all&query=all", (400, "repeated_param"), Some("query")),
        ("site=acme&query=all&limit=1&limit=1", (400, "repeated_param"), Some("limit")),
        ("site=acme&query=all&cursor&cursor=", (400, "repeated_param"), Some("cursor")),
        (
            "site=acme&query=latest&params.category=news&params.category=news",
            (400, "repeated_param"),
            Some("params.category"),
        ),
        (
            "site=acme&query=latest&params.category=news&params%2Ec%61tegory=x",
            (400, "repeated_param"),
            Some("params.category"),
        ),
        ("site=acme&query=all&cursor=x", (400, "invalid_cursor"), Some("cursor")),
    ] {
        assert_url_problem(query, expected, param);
    }
}

#[test]
fn a_problem_with_a_body_has_a_json_pointer() {
    for (body, expected, pointer) in [
        (r#"{"query":"all"}"#, (400, "missing_site"), None),
        (r#"{"site":null,"trackingId":"","query":"all"}"#, (400, "missing_site"), None),
        (r#"{"trackingId":"acme","query":"all"}"#, (400, "invalid_tracking_id"), Some("/trackingId")),
        (r#"{"trackingId":{},"query":"all"}"#, (400, "invalid_tracking_id"), Some("/trackingId")),
        (r#"{"trackingId":"track_twin","site":"acme","query":"all"}"#, (400, "site_mismatch"), Some("/site")),
        (r#"{"site":"nobody","query":"all"}"#, (404, "site_not_found"), Some("/site")),
        (r#"{"site":["acme"],"query":"all"}"#, (404, "site_not_found"), Some("/site")),
        (r#"{"trackingId":"track_nobody","query":"all"}"#, (404, "site_not_found"), Some("/trackingId")),
        (r#"{"site":"acme"}"#, INVALID_PARAM, Some("/query")),
        (r#"{"site":"acme","query":null}"#, INVALID_PARAM, Some("/query")),
        (r#"{"site":"acme","query":""}"#, INVALID_PARAM, Some("/query")),
        (r#"{"site":"acme","query":"latst"}"#, (404, "query_not_found"), Some("/query")),
        (r#"{"site":"acme","query":true}"#, (404, "query_not_found"), Some("/query")),
        (
            r#"{"site":"acme","query":"all","params":{"category":"news"}}"#,
            INVALID_PARAM,
            Some("/params/category"),
        ),
        (r#"{"site":"acme","query":"latest","params":{"":"news"}}"#, INVALID_PARAM, Some("/params/")),
        (
            r#"{"site":"acme","query":"latest","params":{"a/b~c\"\\\n":1}}"#,
            INVALID_PARAM,
            Some("/params/a~1b~0c\"\\\n"),
        ),
        (r#"{"site":"acme","query":"latest","params":{"~1/~0":1}}"#, INVALID_PARAM, Some("/params/~01~1~00")),
        (
            r#"{"site":"acme","query":"latest","params":{"category":"sports"}}"#,
            INVALID_PARAM,
            Some("/params/category"),
        ),
        (r#"{"site":"acme","query":"titled","params":{"title":null}}"#, INVALID_PARAM, Some("/params/title")),
        (
            r#"{"site":"acme","query":"latest","params":{"category":["news"]}}"#,
            INVALID_PARAM,
            Some("/params/category"),
        ),
        (
            r#"{"site":"acme","query":"latest","params":{"category":"news","category":1}}"#,
            INVALID_PARAM,
            Some("/params/category"),
        ),
        (r#"{"site":"acme","query":"titled"}"#, INVALID_PARAM, Some("/params/title")),
        (r#"{"site":"acme","query":"titled","params":{}}"#, INVALID_PARAM, Some("/params/title")),
        (r#"{"site":"acme","query":"ranked","params":{"from":-5.01}}"#, INVALID_PARAM, Some("/params/from")),
        (r#"{"site":"acme","query":"ranked","params":{"from":10.01}}"#, INVALID_PARAM, Some("/params/from")),
        (r#"{"site":"acme","query":"all","params":[]}"#, INVALID_PARAM, Some("/params")),
        (r#"{"site":"acme","query":"all","params":"x"}"#, INVALID_PARAM, Some("/params")),
        (r#"{"site":"acme","query":"all","params":7}"#, INVALID_PARAM, Some("/params")),
        (r#"{"site":"acme","query":"all","params":false}"#, INVALID_PARAM, Some("/params")),
        (r#"{"site":"acme","query":"all","cursor":"x"}"#, (400, "invalid_cursor"), Some("/cursor")),
        (r#"{"site":"acme","query":"all","cursor":7}"#, (400, "invalid_cursor"), Some("/cursor")),
    ] {
        assert_body_problem(body, expected, pointer);
    }
}

#[test]
fn a_number_may_equal_its_minimum_or_its_maximum() {
    for from in ["-5", "10", "-5.0", "1e1"] {
        assert_eq!(get("ranked", &format!("&params.from={from}")).status, 200, "{from}");
        let body = format!(r#"{{"site":"acme","query":"ranked","params":{{"from":{from}}}}}"#);
        assert_eq!(SERVER.get().post("/v1/query", &[], body.as_bytes()).status, 200, "{from}");
    }
}

#[test]
fn a_detail_contains_the_expected_and_the_received_value() {
    let detail =
        |query: &str, more: &str| get(query, more).json()["detail"].as_str().expect("text").to_owned();
    for (query, more, expected) in [
        (
            "latest",
            "&params.category=sports",
            r#"Expected one of "news", "guides", "tips", "none", got 'sports'."#,
        ),
        ("latest", "&params.colour=red", "Expected one of category, got 'colour'."),
        ("all", "&params.colour=red", "Expected no parameter (the query has none), got 'colour'."),
        ("ranked", "&params.from=11", "Expected a number from -5 to 10, got '11'."),
        ("ranked", "&params.live=yes", "Expected true or false, got 'yes'."),
        ("titled", "", "The parameter is missing; expected a string."),
        ("all", "&limit=0", "Expected a whole number from 1 to 100, got '0'."),
    ] {
        assert_eq!(detail(query, more), expected, "{more}");
    }
    let long = "x".repeat(101);
    let expected = format!("got '{}…'.", "x".repeat(100));
    let detail = detail("latest", &format!("&params.category={long}"));
    assert!(detail.ends_with(&expected), "{detail}");
    let body =
        post(&json!({ "site": "acme", "query": "latest", "params": { "category": { "$ne": "\"" } } })).json();
    let received = body["detail"].as_str().expect("text").split("got ").nth(1);
    assert_eq!(received, Some(r#"'{"$ne":"\""}'."#));
}

#[test]
fn the_first_failed_check_is_reported() {
    let site = (404, "site_not_found");
    assert_url_problem("site=nobody&query=nothing&limit=0&params.x=1&cursor=x", site, Some("site"));
    assert_url_problem("site=acme&query=nothing&limit=0&params.x=1", (404, "query_not_found"), Some("query"));
    let response = Client::to(SERVER.get().edge).post("/v1/nothing", &[("Content-Type", "image/png")], b"{");
    assert_eq!(problem(&response), (404, "unknown_endpoint".into()));
    let response = Client::to(SERVER.get().edge).post("/v1/resolve", &[("Content-Type", "image/png")], b"{");
    assert_eq!(problem(&response), (405, "method_not_allowed".into()));
    let response = Client::to(SERVER.get().edge).post("/v1/query", &[("Content-Type", "image/png")], b"{");
    assert_eq!(problem(&response), (415, "unsupported_type".into()));
}

#[test]
fn sixteen_parameters_may_be_given_and_undeclared_ones_are_refused() {
    let params: serde_json::Map<String, Value> =
        (0..16).map(|i| (format!("p{i:02}"), json!({ "type": "string", "optional": true }))).collect();
    let matching: Vec<Value> =
        (0..16).map(|i| json!({ "title": { "$ne": { "$param": format!("p{i:02}") } } })).collect();
    let queries =
        json!({ "all": { "collection": "posts", "params": params, "where": { "$and": matching } } });
    let server =
        Server::start(&[("acme.snapshot", &compile_collections("acme", &[("posts", POSTS)], &queries))], &[]);
    let given = |count: usize| (0..count).map(|i| format!("&params.p{i:02}=Stoves")).collect::<String>();
    assert_eq!(ids(&server.get(&target("all", &given(16)))), ["p1", "p2", "p3", "p4", "p5"]);
    for count in [17, 18, 100] {
        let refused = server.get(&target("all", &given(count)));
        assert_eq!(
            (problem(&refused), &refused.json()["param"]),
            ((400, "invalid_param".into()), &json!("params.p16"))
        );
    }
    let repeated = server.get(&target("all", &format!("{}&params.p15=x", given(16))));
    assert_eq!(problem(&repeated), (400, "repeated_param".into()));
}

/// 10,001 items, whose `n` is 0 to 10,000, and a query with a lower bound for `n`.
static LARGE: SharedServer = SharedServer::new(|| {
    let items: Vec<Value> =
        (0..=10_000).map(|n| json!({ "id": format!("{n:05}"), "type": "t", "fields": { "n": n } })).collect();
    let queries = json!({ "from": { "collection": "items", "params": { "n": { "type": "number" } },
        "where": { "n": { "$gte": { "$param": "n" } } }, "select": [], "limit": 1 } });
    let snapshot = compile_collections("acme", &[("items", &json!(items).to_string())], &queries);
    Server::start(&[("acme.snapshot", &snapshot)], &[])
});

#[test]
fn a_query_examines_at_most_ten_thousand_items() {
    let server = LARGE.get();
    for (n, total) in [(2, 9_999), (1, 10_000)] {
        let response = server.get(&target("from", &format!("&params.n={n}")));
        assert_eq!((ids(&response), &response.json()["total"]), (vec![format!("{n:05}")], &json!(total)));
    }
    let refused = server.get(&target("from", "&params.n=0"));
    assert_eq!(problem(&refused), (422, "query_too_expensive".into()));
    let detail = refused.json()["detail"].as_str().expect("text").to_owned();
    assert!(detail.contains("evaluate 10001 items"), "{detail}");
    let body = json!({ "site": "acme", "query": "from", "params": { "n": 0 } }).to_string();
    let refused = server.post("/v1/query", &[], body.as_bytes());
    assert_eq!((refused.status, refused.code()), (422, "query_too_expensive".into()));
}

#[test]
fn a_post_problem_is_readable_from_the_origins_of_the_response() {
    let origin = "https://www.acme.example";
    let site = site_file("acme", json!({ "origins": [origin] }));
    let queries = queries().to_string();
    let files = [("site.json", &*site), ("queries.json", &*queries), ("content/posts.json", POSTS)];
    let server = Server::start(&[("acme.snapshot", &crate::harness::snapshot(&files, 1))], &[]);
    let cors = |response: &Response| {
        let field = |name: &str| response.field(name).map(str::to_owned);
        [field("access-control-allow-origin"), field("access-control-allow-credentials"), field("vary")]
    };
    let named = [Some(origin.to_owned()), Some("true".to_owned()), Some("Origin".to_owned())];
    for query in ["latest", "nothing"] {
        let body = json!({ "site": "acme", "query": query }).to_string();
        let response = server.post("/v1/query", &[("Origin", origin)], body.as_bytes());
        assert_eq!(cors(&response), named, "{query}");
        let response = server.post("/v1/query", &[("Origin", "https://elsewhere.example")], body.as_bytes());
        assert_eq!(cors(&response), [None, None, Some("Origin".to_owned())], "{query}");
        let response = server.get_with(&target(query, ""), &[("Origin", "https://elsewhere.example")]);
        assert_eq!(response.field("access-control-allow-origin"), Some("*"), "{query}");
    }
}
