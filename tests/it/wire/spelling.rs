//! Two spellings of one path: composed and decomposed characters, escaped or not, are one page everywhere.

use serde_json::{Value, json};

use super::{SharedServer, page, percent_encode, redirect, resolve_target, site_file, zone};
use crate::harness::{Client, Server, snapshot};

/// `é` as one character, and as `e` with a combining accent.
const COMPOSED: &str = "/caf\u{e9}";
const DECOMPOSED: &str = "/cafe\u{301}";
/// The same paths as a browser sends them.
const ESCAPED: [&str; 2] = ["/caf%C3%A9", "/cafe%CC%81"];
const SPELLINGS: [&str; 4] = [COMPOSED, DECOMPOSED, ESCAPED[0], ESCAPED[1]];

static SERVER: SharedServer = SharedServer::new(|| {
    let hit = |when: Value| zone(&["hit"], json!([{ "when": when, "variant": "hit" }]));
    // Authors write either spelling too.
    let zones = json!({
        "visited": hit(json!({ "pages./cafe\u{301}.count": 2 })),
        "visited-prefix": hit(json!({ "pages./caf\u{e9}*": { "$count": { "$gte": 2 } } })),
        "here": hit(json!({ "url.path": "/cafe\u{301}" })),
        "listed": hit(json!({ "url.path": { "$in": ["/x", "/cafe\u{301}"] } })),
        "matched": hit(json!({ "$not": { "url.path": { "$not": { "$regex": "^/cafe\u{301}$" } } } })),
        "landed": hit(json!({ "firstTouch.landing": { "$eq": "/cafe\u{301}" } })),
    });
    let each = json!({ "path": "/menu/:slug", "each": { "collection": "dishes", "slug": "fields.slug" },
        "layout": { "root": { "props": {} }, "zones": {} } });
    let dishes = json!([{ "id": "1", "type": "dish", "fields": { "slug": "cre\u{300}me" } }]).to_string();
    let routes = [
        page(COMPOSED, zones),
        page("/the\u{301}", json!({})),
        page("/\u{e9}toile/:name/*", json!({})),
        redirect("/vieux-the\u{301}", "/caf\u{e9}", 301),
        each.to_string(),
    ];
    let names: Vec<String> = (0..routes.len()).map(|i| format!("routes/{i}.json")).collect();
    let site = site_file("acme", json!({ "hosts": ["acme.example"] }));
    let mut files = vec![("site.json", &*site), ("content/dishes.json", &*dishes)];
    files.extend(names.iter().zip(&routes).map(|(name, route)| (&**name, &**route)));
    Server::start(&[("acme.snapshot", &snapshot(&files, 1))], &[])
});

fn resolve(route: &str) -> Value {
    let response = SERVER.get().get(&resolve_target(route, ""));
    assert_eq!(response.status, 200, "{route}: {}", response.text());
    response.json()
}

fn post_page(anon_id: &str, properties: Value) {
    let event = json!({ "site": "acme", "anonId": anon_id, "properties": properties });
    let receipt = SERVER.get().post("/v1/page", &[], event.to_string().as_bytes());
    assert_eq!(receipt.status, 200, "{}", receipt.text());
}

fn insights(question: &str) -> Value {
    let answer = SERVER.get().admin_get(&format!("/insights/{question}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn each_spelling_of_a_path_finds_its_route() {
    let response = resolve(COMPOSED);
    assert_eq!((&response["route"], &response["pattern"]), (&json!(COMPOSED), &json!(COMPOSED)));
    for spelling in SPELLINGS {
        assert_eq!(resolve(spelling), response, "{spelling}");
    }
    for (spelling, path) in [
        ("/th\u{e9}", "/th\u{e9}"),
        ("/the%CC%81/", "/th\u{e9}"),
        ("/menu/cr%C3%A8me", "/menu/cr\u{e8}me"),
        ("/menu/cre%CC%80me", "/menu/cr\u{e8}me"),
    ] {
        assert_eq!(resolve(spelling)["route"], path, "{spelling}");
    }
    for prefix in [COMPOSED, DECOMPOSED] {
        let target = format!("/v1/routes?site=acme&prefix={}", percent_encode(prefix));
        let listed = SERVER.get().get(&target).json()["routes"].clone();
        assert_eq!((listed.as_array().map(Vec::len), &listed[0]["path"]), (Some(1), &json!(COMPOSED)));
    }
    let from = resolve("/vieux-th%C3%A9");
    assert_eq!(resolve("/vieux-the\u{301}"), from);
    assert_eq!(from["to"], COMPOSED);
}

#[test]
fn parameters_of_a_path_have_one_spelling() {
    let response = resolve("/\u{e9}toile/Zo\u{eb}/a%2F\u{1112}\u{1161}\u{11ab}/b");
    let params = json!({ "name": "Zo\u{eb}", "*": "a/\u{d55c}/b" });
    assert_eq!(response["params"], params);
    let decomposed = "/e%CC%81toile/Zoe\u{308}/a%2F\u{d55c}/b";
    assert_eq!(resolve(decomposed), response);
}

#[test]
fn a_canonical_path_may_be_as_long_as_a_route_and_not_longer() {
    // U+0958 is never composed: its form C has six bytes instead of three.
    let path = |count: usize, rest: usize| format!("/{}{}", "\u{958}".repeat(count), "x".repeat(rest));
    let code = |route: &str| SERVER.get().get(&resolve_target(route, "")).json()["code"].clone();
    assert_eq!(code(&path(341, 0)), "route_not_found", "2047 bytes");
    assert_eq!(code(&path(341, 1)), "route_not_found", "2048 bytes");
    assert_eq!(code(&path(341, 2)), "invalid_route", "2049 bytes");
}

#[test]
fn events_of_either_spelling_are_views_of_one_page() {
    for (number, spelling) in SPELLINGS.iter().enumerate() {
        post_page(&format!("one-{number}"), json!({ "path": spelling }));
        post_page(&format!("two-{number}"), json!({ "url": format!("https://acme.example{spelling}/?a=b") }));
    }
    let top = insights("top?site=acme&of=page&limit=1000");
    let rows = top["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &rows[0]["value"]), (1, &json!(COMPOSED)), "{top}");
    let views = rows[0]["views"].clone();
    for spelling in [COMPOSED, DECOMPOSED] {
        let filtered = insights(&format!("overview?site=acme&page={}", percent_encode(spelling)));
        assert_eq!(filtered["totals"]["views"], views, "{spelling}");
        let zones = insights(&format!("zones?site=acme&page={}", percent_encode(spelling)));
        let sql = zones["sql"].as_str().expect("a query");
        assert!(sql.contains(&format!("path = '{COMPOSED}'")), "{spelling}: {sql}");
    }
}

#[test]
fn conditions_on_paths_hold_for_each_spelling() {
    let shown = |query: &str| {
        let target = format!("/v1/variants?site=acme&route={}{query}", percent_encode(COMPOSED));
        let response = Client::to(SERVER.get().edge).request("GET", &target, &[]).json();
        response["variants"].as_str().expect("a text").to_owned()
    };
    assert_eq!(shown("&anonId=nobody"), "");
    for url in SPELLINGS {
        let url = percent_encode(&format!("https://acme.example{url}/?utm_source=mail"));
        assert_eq!(shown(&format!("&url={url}")), "here:hit,landed:hit,listed:hit,matched:hit", "{url}");
    }
    post_page("regular", json!({ "path": COMPOSED }));
    post_page("regular", json!({ "path": ESCAPED[1] }));
    assert_eq!(shown("&anonId=regular"), "visited:hit,visited-prefix:hit");
    let landed = json!({ "path": DECOMPOSED, "url": "https://acme.example/?utm_source=mail" });
    post_page("landed", landed);
    assert_eq!(shown("&anonId=landed"), "landed:hit");
}
