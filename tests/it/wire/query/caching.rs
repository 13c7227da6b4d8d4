//! Caching of query responses: validators, codings and tags of a GET. A POST response is not cacheable.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use super::{POSTS, get, ids, next_cursor, post, queries, target};
use crate::harness::{Client, Response, Server, eventually, snapshot};
use crate::wire::{SharedServer, comparable, page, problem, site_file};

const ORIGIN: &str = "https://www.acme.example";

/// A site with ten items of about 300 bytes, a list of origins, and cache times for queries.
static LARGE: SharedServer = SharedServer::new(|| {
    let item = |i: usize| json!({ "id": format!("i{i}"), "type": "t", "fields": { "text": "lorem ipsum ".repeat(25) } });
    let items: Value = (0..10).map(item).collect();
    let cache = json!({ "query": { "sMaxAge": 7, "staleWhileRevalidate": 8, "staleIfError": 9 } });
    let site = site_file("acme", json!({ "origins": [ORIGIN], "cache": cache }));
    let queries = json!({ "items": { "collection": "items" } }).to_string();
    let files =
        [("site.json", &*site), ("queries.json", &*queries), ("content/items.json", &*items.to_string())];
    Server::start(&[("acme.snapshot", &snapshot(&files, 3))], &[])
});

fn etag(response: &Response) -> String {
    assert_eq!(response.status, 200, "{}", response.text());
    response.field("etag").expect("an ETag").to_owned()
}

fn cors(response: &Response) -> (Option<&str>, Option<&str>, Option<&str>) {
    let allowed = response.field("access-control-allow-origin");
    (allowed, response.field("access-control-allow-credentials"), response.field("vary"))
}

#[test]
fn a_get_response_is_public_and_has_a_cache_lifetime() {
    let response = comparable(get("latest", ""));
    let default = "public, max-age=0, s-maxage=60, stale-while-revalidate=3600, stale-if-error=86400";
    let expected = [
        ("cache-control", default),
        ("etag", &etag(&response)),
        ("access-control-allow-origin", "*"),
        ("x-version", "1"),
        ("cache-tag", "acme,acme:?latest"),
        ("surrogate-key", "acme acme:?latest"),
        ("content-type", "application/json"),
        ("content-length", &response.body.len().to_string()),
    ];
    for (name, value) in expected {
        assert_eq!(response.field(name), Some(value), "{name}");
    }
    for absent in
        ["vary", "set-cookie", "server-timing", "x-variants", "content-location", "content-encoding"]
    {
        assert_eq!(response.field(absent), None, "{absent}");
    }
    let authored = LARGE.get().get(&target("items", ""));
    let authored_times = "public, max-age=0, s-maxage=7, stale-while-revalidate=8, stale-if-error=9";
    assert_eq!(
        (authored.field("cache-control"), authored.field("x-version")),
        (Some(authored_times), Some("3"))
    );
    let client_fields =
        [("X-Request-Id", "mine"), ("X-Debug-Timing", "1"), ("Cookie", "anon_id=v"), ("Origin", ORIGIN)];
    let again = LARGE.get().get_with(&target("items", ""), &client_fields);
    assert_ne!(again.field("x-request-id"), Some("mine"));
    assert_eq!(comparable(again), comparable(authored));
}

#[test]
fn equivalent_requests_share_an_etag_and_others_do_not() {
    let same = |query: &str, one: &str, other: &str| {
        assert_eq!(comparable(get(query, one)), comparable(get(query, other)), "{one} {other}");
    };
    same("latest", "", "&limit=2&cursor=&x=y");
    same("latest", "&params.category=news&limit=2", "&limit=02&params%2Ecategory=new%73");
    same("ranked", "", "&params.from=1");
    same("ranked", "&params.from=2&params.live=true", "&params.live=true&params.from=2.0");
    same("ranked", "&params.from=0", "&params.from=-0");
    let mut etags = vec![];
    for (query, more) in [
        ("latest", ""),
        ("latest", "&limit=1"),
        ("latest", "&limit=3"),
        ("latest", "&params.category=news"),
        ("latest", "&params.category=none"),
        ("latest", &*format!("&cursor={}", next_cursor(&get("latest", "")))),
        ("latest", &*format!("&cursor={}", next_cursor(&get("latest", "&limit=1")))),
        ("ranked", ""),
        ("ranked", "&params.from=2"),
        ("ranked", "&params.live=true"),
        ("ranked", "&params.live=false"),
        ("all", ""),
    ] {
        let response = get(query, more);
        let tag = etag(&response);
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
        etags.push(tag);
    }
    let twin = super::SERVER.get().get("/v1/query?site=twin&query=all");
    etags.push(etag(&twin));
    let count = etags.len();
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), count);
}

#[test]
fn a_matching_if_none_match_gets_304() {
    let server = LARGE.get();
    let mut client = Client::to(server.edge);
    for coding in ["identity", "gzip"] {
        let whole = client.request("GET", &target("items", ""), &[("Accept-Encoding", coding)]);
        let known = etag(&whole);
        for method in ["GET", "HEAD"] {
            let fields = format!("Accept-Encoding: {coding}\r\nIf-None-Match: \"x\", {known}\r\n");
            client.send(
                format!("{method} {} HTTP/1.1\r\nHost: a\r\n{fields}\r\n", target("items", "")).as_bytes(),
            );
            let short = client.response(true);
            assert_eq!(short.status, 304);
            let mut expected = comparable(whole.clone()).fields;
            expected.retain(|(name, _)| !name.starts_with("content-"));
            assert_eq!(comparable(short).fields, expected);
        }
        let other = client.request("GET", &target("items", "&limit=9"), &[("If-None-Match", &known)]);
        assert_eq!(other.status, 200);
    }
}

#[test]
fn only_bodies_above_1_kib_are_compressed() {
    let server = LARGE.get();
    let mut client = Client::to(server.edge);
    for limit in [1, 2, 3, 4, 7, 10] {
        let target = target("items", &format!("&limit={limit}"));
        let text = client.request("GET", &target, &[]);
        let packed = client.request("GET", &target, &[("Accept-Encoding", "gzip")]);
        assert_eq!(ids(&text).len(), limit);
        if text.body.len() <= 1024 {
            assert_eq!((comparable(packed), text.field("vary")), (comparable(text.clone()), None));
            assert!(limit <= 2);
            continue;
        }
        assert_eq!(
            (text.field("vary"), packed.field("vary")),
            (Some("Accept-Encoding"), Some("Accept-Encoding"))
        );
        assert_eq!((text.field("content-encoding"), packed.field("content-encoding")), (None, Some("gzip")));
        assert_ne!(etag(&text), etag(&packed));
        let mut inflated = Vec::new();
        MultiGzDecoder::new(&packed.body[..]).read_to_end(&mut inflated).expect("a gzip body");
        assert!(inflated == text.body, "{limit}");
        let last = optional_next_cursor(&text);
        assert_eq!(last.is_none(), limit == 10);
    }
    let body = br#"{"site":"acme","query":"items"}"#;
    let packed = client.post("/v1/query", &[("Accept-Encoding", "gzip")], body);
    assert_eq!(
        (packed.field("content-encoding"), packed.field("vary")),
        (Some("gzip"), Some("Accept-Encoding, Origin"))
    );
}

fn optional_next_cursor(response: &Response) -> Option<String> {
    response.json()["nextCursor"].as_str().map(str::to_owned)
}

#[test]
fn head_is_get_without_the_body() {
    let server = LARGE.get();
    let mut client = Client::to(server.edge);
    for more in ["", "&limit=1", "&limit=0", "&cursor=x"] {
        let get = client.request("GET", &target("items", more), &[]);
        let head = client.request("HEAD", &target("items", more), &[]);
        assert_eq!(
            (head.status, comparable(head).fields),
            (get.status, comparable(get.clone()).fields),
            "{more}"
        );
    }
}

#[test]
fn a_post_response_is_not_cacheable() {
    let response = post(&json!({ "site": "acme", "query": "latest" }));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    for absent in ["etag", "cache-tag", "surrogate-key", "vary"] {
        assert_eq!(response.field(absent), None, "{absent}");
    }
    assert_eq!((response.field("x-version"), cors(&response)), (Some("1"), (Some("*"), None, None)));
    let body = br#"{"site":"acme","query":"items","limit":1}"#;
    let known = etag(&LARGE.get().get(&target("items", "&limit=1")));
    let fields = [("If-None-Match", &*known), ("X-Request-Id", "mine"), ("X-Debug-Timing", "1")];
    let response = LARGE.get().post("/v1/query", &fields, body);
    assert_eq!((response.status, response.field("x-request-id")), (200, Some("mine")));
    assert!(response.field("server-timing").is_some_and(|timing| timing.starts_with("total;dur=")));
}

#[test]
fn every_origin_may_read_a_get_and_site_origins_may_read_a_post() {
    let server = LARGE.get();
    let body = br#"{"site":"acme","query":"items","limit":1}"#;
    let post_from = |origin: &str| server.post("/v1/query", &[("Origin", origin)], body);
    assert_eq!(cors(&post_from(ORIGIN)), (Some(ORIGIN), Some("true"), Some("Origin")));
    for foreign in ["https://elsewhere.example", "null"] {
        let response = post_from(foreign);
        assert_eq!((response.status, cors(&response)), (200, (None, None, Some("Origin"))), "{foreign}");
        let public = server.get_with(&target("items", "&limit=1"), &[("Origin", foreign)]);
        assert_eq!(cors(&public), (Some("*"), None, None), "{foreign}");
    }
    assert_eq!(cors(&server.post("/v1/query", &[], body)), (None, None, Some("Origin")));
}

#[test]
fn options_lists_the_methods_and_a_preflight_allows_a_json_post() {
    let server = super::SERVER.get();
    let mut client = Client::to(server.edge);
    let options = client.request("OPTIONS", "/v1/query", &[]);
    assert_eq!((options.status, options.field("allow")), (204, Some("GET, HEAD, POST, OPTIONS")));
    let preflight_fields = [
        ("Origin", ORIGIN),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type,content-encoding,x-other"),
    ];
    let preflight = client.request("OPTIONS", "/v1/query", &preflight_fields);
    assert_eq!((preflight.status, preflight.field("access-control-allow-origin")), (204, Some(ORIGIN)));
    assert_eq!(preflight.field("access-control-allow-methods"), Some("GET, HEAD, POST"));
    assert_eq!(preflight.field("access-control-allow-headers"), Some("content-type, content-encoding"));
    for (method, subject) in [("PUT", "This method"), ("DELETE", "DELETE"), ("PATCH", "This method")] {
        let refused = client.request(method, &target("all", ""), &[("Content-Length", "0")]);
        assert_eq!(problem(&refused), (405, "method_not_allowed".into()), "{method}");
        assert_eq!(refused.field("allow"), Some("GET, HEAD, POST, OPTIONS"));
        let detail = format!("{subject} is not supported here; use GET, HEAD, POST, OPTIONS.");
        assert_eq!(refused.json()["detail"], detail);
    }
}

/// The parts of a site, each of which a test can change.
struct SiteParts {
    posts: String,
    others: String,
    queries: Value,
    groups: Value,
    text: &'static str,
}

impl SiteParts {
    fn new() -> Self {
        let mut all = queries();
        all["others"] = json!({ "collection": "others" });
        all["grouped"] = json!({ "collection": "posts", "params": { "from": { "type": "number" } },
            "where": { "$or": [{ "slug": { "$inGroup": "kept" } }, { "rank": { "$gte": { "$param": "from" } } }] } });
        let others = r#"[{"id":"o","type":"t","fields":{"title":"one"}}]"#.to_owned();
        Self {
            posts: POSTS.to_owned(),
            others,
            queries: all,
            groups: json!({ "kept": ["kiel"] }),
            text: "one",
        }
    }

    fn compile(&self, version: u64) -> Vec<u8> {
        let (site, queries) = (site_file("acme", json!({})), self.queries.to_string());
        let (groups, page) = (self.groups.to_string(), page("/", json!({ self.text: [] })));
        let files = [
            ("site.json", &*site),
            ("queries.json", &*queries),
            ("groups.json", &*groups),
            ("content/posts.json", &*self.posts),
            ("content/others.json", &*self.others),
            ("routes/index.json", &*page),
        ];
        snapshot(&files, version)
    }
}

#[test]
fn an_etag_changes_only_with_the_response() {
    const QUERIES: [&str; 3] = ["latest", "ranked", "grouped"];
    let server = Server::start(&[("acme.snapshot", &SiteParts::new().compile(1))], &[]);
    let answers = || -> Vec<Response> {
        QUERIES
            .map(|query| server.get(&target(query, if query == "grouped" { "&params.from=3" } else { "" })))
            .into()
    };
    let before = answers();
    let mut version = 1;
    let mut changed = |change: &dyn Fn(&mut SiteParts)| -> Vec<&str> {
        let mut parts = SiteParts::new();
        change(&mut parts);
        version += 1;
        server.publish("acme.snapshot", &parts.compile(version));
        let now = eventually("the version is served", || {
            let served = |response: &Response| response.field("x-version") == Some(&*version.to_string());
            Some(answers()).filter(|answers| answers.iter().all(served))
        });
        let differ = |(before, now): (&Response, &Response)| {
            let tags_differ = etag(before) != etag(now);
            assert!(
                tags_differ || before.body == now.body,
                "one ETag, two bodies: {} {}",
                before.text(),
                now.text()
            );
            tags_differ
        };
        (0..3).filter(|i| differ((&before[*i], &now[*i]))).map(|i| QUERIES[i]).collect()
    };
    assert_eq!(changed(&|_| {}), [""; 0]);
    assert_eq!(changed(&|parts| parts.text = "two"), [""; 0]);
    assert_eq!(changed(&|parts| parts.others = parts.others.replace("one", "two")), [""; 0]);
    assert_eq!(changed(&|parts| parts.queries["others"]["limit"] = json!(7)), [""; 0]);
    assert_eq!(changed(&|parts| parts.posts = parts.posts.replace("Stoves", "Stove")), ["latest", "grouped"]);
    assert_eq!(changed(&|parts| parts.posts = parts.posts.replace("\"kiel\"", "\"Kiel\"")), ["grouped"]);
    assert_eq!(changed(&|parts| parts.groups["kept"] = json!(["kiel", "ly"])), ["grouped"]);
    assert_eq!(changed(&|parts| parts.groups["other"] = json!(["ly"])), [""; 0]);
    assert_eq!(changed(&|parts| parts.queries["ranked"]["select"] = json!(["title"])), ["ranked"]);
    assert_eq!(changed(&|parts| parts.queries["latest"]["limit"] = json!(3)), ["latest"]);
}
