//! `GET /insights/zones`: published zones with their rules, and the variants that events showed.

use serde_json::{Value, json};

use super::{page, problem};
use crate::harness::{Client, Server, snapshot};

/// A site with a zone of each kind of rule. The zone `inner` is in a variant of the zone `hero`.
fn site() -> Vec<u8> {
    let node = |id: &str| json!([{ "id": id, "type": "Text", "props": {} }]);
    let zone = |rules: Value| json!({ "default": node("d"), "variants": { "b": node("b") }, "rules": rules });
    let experiment = |key: &str| json!({ "experiment": { "key": key, "variants": ["default", "b"] } });
    let mut both = experiment("both");
    both["when"] = json!({ "traits.plan": "pro" });
    let mut hero = zone(json!([{ "audience": "returning", "variant": "b" }]));
    hero["variants"]["b"] = json!([{ "id": "b", "type": "Shop", "props": {}, "zones": { "inner": zone(json!([experiment("inner")])) } }]);
    let zones = json!({
        "chance": zone(json!([experiment("chance")])), "hero": hero, "both": zone(json!([both])),
        "open": zone(json!([{ "when": { "country": "DE" }, "variant": "b" }, experiment("open")])),
        "plain": zone(json!([])),
    });
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" }).to_string();
    let audiences = json!({ "returning": { "when": { "visitor.isReturning": true } } }).to_string();
    let product = json!({ "path": "/p/:slug", "layout": { "root": { "props": {} }, "zones": { "chance": zone(json!([experiment("chance")])) } } });
    let files = [
        ("site.json", about),
        ("audiences.json", audiences),
        ("routes/index.json", page("/", zones)),
        ("routes/product.json", product.to_string()),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    snapshot(&files, 1)
}

fn send(server: &Server, events: &[Value]) {
    let body = json!({ "batch": events }).to_string();
    let response = server.post("/v1/batch?site=acme", &[], body.as_bytes());
    assert_eq!(response.json()["accepted"], events.len(), "{}", response.text());
}

fn view(visitor: &str, path: &str, variants: &str) -> Value {
    json!({ "type": "page", "anonId": visitor, "properties": { "path": path }, "variants": variants })
}

fn ask(server: &Server, query: &str) -> Value {
    let response = server.admin_get(&format!("/insights/zones?site=acme&{query}"));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

fn zone<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let mut zones = answer["zones"].as_array().expect("zones").iter();
    zones.find(|zone| zone["zone"] == name).expect("the zone")
}

#[test]
fn each_zone_has_its_rules_and_says_whether_chance_alone_chose() {
    let server = Server::start(&[("acme.snapshot", &site())], &[]);
    let answer = ask(&server, "page=/");
    let facts = |name: &str| {
        let zone = zone(&answer, name);
        (zone["nested"].clone(), zone["comparable"].clone(), zone["rules"].clone())
    };
    let experiment = |key: &str| json!({ "experiment": { "key": key, "variants": ["default", "b"] } });
    let mut both = experiment("both");
    both["when"] = json!({ "traits.plan": "pro" });
    let audience = json!({ "audience": "returning", "variant": "b" });
    let when = json!({ "when": { "country": "DE" }, "variant": "b" });
    assert_eq!(facts("chance"), (json!(false), json!(true), json!([experiment("chance")])));
    assert_eq!(facts("hero"), (json!(false), json!(false), json!([audience])));
    assert_eq!(facts("both"), (json!(false), json!(false), json!([both])));
    assert_eq!(facts("open"), (json!(false), json!(false), json!([when, experiment("open")])));
    assert_eq!(facts("inner"), (json!(true), json!(true), json!([experiment("inner")])));
    assert_eq!(facts("plain"), (json!(false), json!(false), json!([])));
    // A pattern has its zones on each of its paths. An unknown path has none.
    assert_eq!(zone(&ask(&server, "page=/p/tent"), "chance")["comparable"], true);
    assert_eq!(ask(&server, "page=/unknown")["zones"], json!([]));
}

#[test]
fn the_numbers_are_those_of_the_acknowledged_events() {
    let server = Server::start(&[("acme.snapshot", &site())], &[]);
    send(
        &server,
        &[
            view("a", "/", "hero:b,inner:b"),
            view("a", "/", ""),
            view("b", "/", "hero:b,gone:z"),
            view("b", "/other", "hero:b"),
            json!({ "type": "page", "anonId": "c", "properties": { "path": "/" } }),
            json!({ "type": "track", "anonId": "a", "event": "=Order" }),
        ],
    );
    let answer = ask(&server, "page=/");
    assert_eq!(answer["seq"], "6");
    let followed = json!([{ "event": "=Order", "visitors": 1 }]);
    let nothing =
        json!({ "key": "default", "views": null, "visitors": null, "followed": null, "more": null });
    let expected = json!([
        { "key": "default", "views": 1, "visitors": 1, "followed": followed, "more": 0 },
        { "key": "b", "views": 2, "visitors": 2, "followed": followed, "more": 0 },
    ]);
    assert_eq!(zone(&answer, "hero")["variants"], expected);
    let inner = json!([nothing, { "key": "b", "views": 1, "visitors": 1, "followed": followed, "more": 0 }]);
    assert_eq!(zone(&answer, "inner")["variants"], inner);
    let gone = json!({ "key": "z", "views": 1, "visitors": 1, "followed": [], "more": 0 });
    assert_eq!(zone(&answer, "gone")["variants"], json!([nothing, gone]));
    assert!(answer["sql"].as_str().is_some_and(|sql| sql.starts_with("with recorded as")));
    let csv = Client::to(server.admin).request(
        "GET",
        "/insights/zones?site=acme&page=/",
        &[("Accept", "text/csv")],
    );
    assert_eq!(csv.field("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<&str> = csv.text().split_terminator("\r\n").collect();
    assert_eq!(lines[0], "zone,variant,views,visitors,event,followed");
    for line in ["hero,b,2,2,'=Order,1", "inner,default,,,,", "gone,z,1,1,,", "plain,b,0,0,,"] {
        assert!(lines.contains(&line), "{line} in {lines:?}");
    }
}

#[test]
fn an_unchanged_answer_is_304_and_wrong_requests_are_refused() {
    let server = Server::start(&[("acme.snapshot", &site())], &[]);
    let target = "/insights/zones?site=acme&page=/";
    let mut admin = Client::to(server.admin);
    let first = admin.request("GET", target, &[]);
    assert_eq!(
        (first.field("cache-control"), first.field("vary")),
        (Some("private, no-cache"), Some("Accept"))
    );
    let etag = first.field("etag").expect("an ETag").to_owned();
    assert_eq!(admin.request("GET", target, &[("If-None-Match", &etag)]).status, 304);
    send(&server, &[view("a", "/", "hero:b")]);
    assert_eq!(admin.request("GET", target, &[("If-None-Match", &etag)]).status, 200);
    assert_eq!(admin.request("HEAD", target, &[]).status, 200);
    assert_eq!(admin.request("POST", target, &[]).status, 401, "without a token only reads are answered");
    for (query, expected, param) in [
        ("site=acme", (400, "invalid_param"), Some("page")),
        ("site=acme&page=/&page=/a", (400, "repeated_param"), Some("page")),
        ("site=acme&site=acme&page=/", (400, "repeated_param"), Some("site")),
        ("site=acme&page=/&limit=1001", (400, "invalid_limit"), Some("limit")),
        ("site=acne&page=/", (404, "site_not_found"), Some("site")),
        ("page=/", (400, "missing_site"), None),
        ("site=acme&page=%FF", (400, "invalid_query"), None),
    ] {
        let response = admin.request("GET", &format!("/insights/zones?{query}"), &[]);
        assert_eq!(problem(&response), (expected.0, expected.1.into()), "{query}");
        assert_eq!(response.json()["param"].as_str(), param, "{query}");
    }
    let off = Server::start(&[("acme.snapshot", &site())], &["--insights-memory", "0"]);
    let refused = off.admin_get(target);
    assert_eq!(problem(&refused), (404, "unknown_endpoint".into()));
    assert!(refused.text().contains("--insights-memory"), "{}", refused.text());
}

#[test]
fn a_funnel_by_variant_is_refused_unless_chance_alone_chose_at_the_page_of_the_first_step() {
    let server = Server::start(&[("acme.snapshot", &site())], &[]);
    send(
        &server,
        &[
            view("a", "/", "chance:b"),
            view("b", "/", "hero:b"),
            view("b", "/p/x", ""),
            view("c", "/", "both:b,chance:b"),
            view("c", "/p/x", "chance:default"),
            view("d", "/", ""),
        ],
    );
    let ask = |steps: &str, by: &str| {
        server.admin_get(&format!("/insights/funnel?site=acme&{steps}&step=page:/p/x&by={by}"))
    };
    let answer = ask("step=page:/", "variant:chance").json();
    let rows = answer["rows"].as_array().expect("rows").iter();
    let reached = |row: &Value, step: usize| row["steps"][step]["reached"].clone();
    let rows: Vec<_> = rows.map(|row| (row["value"].as_str(), reached(row, 0), reached(row, 1))).collect();
    assert_eq!(rows, [(Some("b"), json!(2), json!(1)), (Some("default"), json!(2), json!(1))]);
    assert_eq!((&answer["by"], &answer["more"]), (&json!("variant:chance"), &json!(0)));
    assert_eq!(ask("step=page:/p/y", "variant:chance").status, 200);
    for (steps, zone, expected) in [
        ("step=page:/*", "chance", "a first step that is 'page:'"),
        ("step=Order", "chance", "a first step that is 'page:'"),
        ("step=page:/none", "chance", "a published zone of the page '/none'"),
        ("step=page:/", "none", "a published zone of the page '/'"),
        ("step=page:/", "inner", "use 'experiment:' and the key"),
        ("step=page:/", "hero", "write its rule as { \"experiment\":"),
        ("step=page:/", "both", "experiments without 'when'"),
        ("step=page:/", "open", "experiments without 'when'"),
        ("step=page:/", "plain", "write its rule as"),
    ] {
        let response = ask(steps, &format!("variant:{zone}"));
        assert_eq!(problem(&response), (400, "invalid_param".into()), "{steps} {zone}");
        assert_eq!(response.json()["param"], "by");
        assert!(response.text().replace("\\\"", "\"").contains(expected), "{zone}: {}", response.text());
    }
}
