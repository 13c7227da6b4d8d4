//! What a site may be: each bound of `compile` at one below, at, and one above.

use parallax::limits::{
    AUDIENCES_MAX, BODY_RENDERED_BYTES_MAX, CANONICAL_BYTES_MAX, EMBEDDED_MAX, EXPERIMENTS_MAX,
    NODE_NESTING_MAX, QUERIES_MAX, QUERY_EVALUATIONS_MAX, ROUTE_BYTES_MAX, RULES_MAX, VARIANTS_MAX,
    ZONES_MAX,
};
use parallax::site::compile::compile;
use parallax::site::source::files::Files;
use parallax::site::source::read::read;
use serde_json::{Map, Value, json};

pub type Site = Vec<(String, Value)>;

/// What is expected by the mistakes that `compile` finds; nothing where there are none.
fn mistakes(site: &Site) -> String {
    let texts: Vec<_> = site.iter().map(|(path, json)| (path.as_str(), json.to_string())).collect();
    let files = Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())));
    let (source, mistakes) = read(&files, &|_, _| {});
    let compiled = compile(&source, mistakes, 1, &|_, _| {});
    let told = compiled.err().map(|mistakes| mistakes.report(&files).shown).unwrap_or_default();
    told.into_iter().map(|placed| placed.mistake.expected).collect::<Vec<_>>().join("; ")
}

/// A site of one size passes just below and at the bound; one above, it is refused in these words.
pub fn is_bounded(bound: usize, of_size: impl Fn(usize) -> Site, words: &str) {
    assert_eq!(mistakes(&of_size(bound - 1)), "", "one below");
    assert_eq!(mistakes(&of_size(bound)), "", "at the bound");
    let told = mistakes(&of_size(bound + 1));
    assert!(told.contains(words), "one above: {told:?}");
}

fn site(routes: Vec<Value>) -> Site {
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    let mut files = vec![("site.json".to_owned(), about)];
    files.extend(routes.into_iter().enumerate().map(|(i, route)| (format!("routes/{i}.json"), route)));
    files
}

fn page(path: &str, zones: Value) -> Value {
    json!({ "path": path, "layout": { "root": { "props": {} }, "zones": zones } })
}

fn one_page(zones: Value) -> Site {
    site(vec![page("/", zones)])
}

/// Members `name(0)`, `name(1)`, ... of the same value.
fn members(count: usize, name: impl Fn(usize) -> String, value: Value) -> Value {
    Value::Object((0..count).map(|i| (name(i), value.clone())).collect::<Map<_, _>>())
}

fn zone(variants: Value, rules: Value) -> Value {
    json!({ "default": [], "variants": variants, "rules": rules })
}

fn text(id: &str, bytes: usize) -> Value {
    json!([{ "id": id, "type": "T", "props": { "text": "x".repeat(bytes) } }])
}

#[test]
fn a_route_has_at_most_64_personalized_zones() {
    let zones = |count| one_page(members(count, |i| format!("z{i}"), zone(json!({}), json!([]))));
    is_bounded(ZONES_MAX, zones, "at most 64 personalized zones");
}

#[test]
fn a_zone_has_at_most_64_variants() {
    let variants =
        |count| one_page(json!({ "z": zone(members(count, |i| format!("v{i}"), json!([])), json!([])) }));
    is_bounded(VARIANTS_MAX, variants, "at most 64 variants");
}

#[test]
fn a_zone_has_at_most_64_rules() {
    let rule = json!({ "when": { "locale": "de" }, "variant": "a" });
    let rules = |count| one_page(json!({ "z": zone(json!({ "a": [] }), vec![rule.clone(); count].into()) }));
    is_bounded(RULES_MAX, rules, "at most 64 rules");
}

#[test]
fn zones_nest_at_most_16_deep() {
    let nested = |depth: usize| {
        let inner = (1..depth).fold(json!({ "z": [] }), |zones, level| {
            json!({ "z": [{ "id": format!("n{level}"), "type": "T", "props": {}, "zones": zones }] })
        });
        one_page(inner)
    };
    is_bounded(NODE_NESTING_MAX, nested, "zones nested at most 16 deep");
}

#[test]
fn the_longest_canonical_string_has_at_most_2048_bytes() {
    // Each pair brings a comma, as if another followed.
    let pair = |key: usize| zone(members(1, |_| "k".repeat(key), json!([])), json!([]));
    let zones = |bytes: usize| {
        let whole = "zzz:,".len() + 64;
        let (full, rest) = ((bytes - 10) / whole, bytes - (bytes - 10) / whole * whole);
        let mut zones = members(full, |i| format!("z{i:02}"), pair(64));
        zones["y"] = pair(rest - "y:,".len());
        one_page(zones)
    };
    is_bounded(CANONICAL_BYTES_MAX, zones, "whose longest combination is at most 2048 bytes");
}

#[test]
fn a_layout_has_at_most_1_mib_with_its_largest_variants() {
    let empty = one_page(json!({ "z": zone(json!({ "a": text("a", 0) }), json!([])) }));
    let around = rendered(&empty, "z:a");
    let filled =
        |bytes: usize| one_page(json!({ "z": zone(json!({ "a": text("a", bytes - around) }), json!([])) }));
    is_bounded(BODY_RENDERED_BYTES_MAX, filled, "a layout of at most 1048576 bytes");
}

/// Bytes of the `layout` member of the only page, and of what closes the body, under `variants`.
fn rendered(site: &Site, variants: &str) -> usize {
    let texts: Vec<_> = site.iter().map(|(path, json)| (path.as_str(), json.to_string())).collect();
    let texts: Vec<_> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let server = crate::harness::Server::start(&[("a.snapshot", &crate::harness::snapshot(&texts, 1))], &[]);
    let answer = server.get(&format!("/v1/resolve?site=acme&route=/&variants={variants}"));
    answer.text().len() - answer.text().find("\"layout\":").expect("a layout")
}

#[test]
fn a_path_has_at_most_2048_bytes() {
    let path = |bytes: usize| site(vec![page(&format!("/{}", "p".repeat(bytes - 1)), json!({}))]);
    is_bounded(ROUTE_BYTES_MAX, path, "a path of at most 2048 bytes");
}

#[test]
fn a_site_has_at_most_1024_audiences() {
    let audiences = |count: usize| {
        let mut site = one_page(json!({}));
        site.push(("audiences.json".to_owned(), members(count, |i| format!("a{i}"), json!({ "when": {} }))));
        site
    };
    is_bounded(AUDIENCES_MAX, audiences, "at most 1024 audiences");
}

#[test]
fn a_site_has_at_most_4096_experiments() {
    let experiments = |count: usize| {
        let rules = |from: usize, to: usize| {
            let rule = |i| json!({ "experiment": { "key": format!("e{i}"), "variants": ["default"] } });
            (from..to).map(rule).collect::<Vec<_>>()
        };
        let zones = (0..count).step_by(RULES_MAX).map(|from| {
            (format!("z{from}"), zone(json!({}), rules(from, count.min(from + RULES_MAX)).into()))
        });
        let zones: Vec<_> = zones.collect();
        let pages = zones.chunks(ZONES_MAX).enumerate();
        site(
            pages
                .map(|(i, zones)| page(&format!("/{i}"), Value::Object(zones.iter().cloned().collect())))
                .collect(),
        )
    };
    is_bounded(EXPERIMENTS_MAX, experiments, "at most 4096 experiments");
}

#[test]
fn a_site_has_at_most_1024_queries() {
    let queries = |count| {
        let mut files = site(Vec::new());
        files.push(("content/c.json".to_owned(), json!([])));
        files.push((
            "queries.json".to_owned(),
            members(count, |i| format!("q{i}"), json!({ "collection": "c" })),
        ));
        files
    };
    is_bounded(QUERIES_MAX, queries, "at most 1024 queries");
}

/// A page that asks `nodes` times by a part of its path, over `items` items.
fn asking(nodes: usize, items: usize, operator: &str) -> Site {
    let node = |i| {
        let query = json!({ "id": "q", "params": { "p": { "$route": "p" } } });
        json!({ "id": format!("n{i}"), "type": "T", "props": {}, "query": query })
    };
    let nodes: Vec<Value> = (0..nodes).map(node).collect();
    let mut files = site(vec![page("/:p", json!({ "main": nodes }))]);
    let item = |i| json!({ "id": format!("i{i}"), "type": "t", "fields": { "f": "x" } });
    files.push(("content/c.json".to_owned(), (0..items).map(item).collect()));
    let (params, limit) = (json!({ "p": { "type": "string" } }), 1);
    let asked = json!({ "f": { operator: { "$param": "p" } } });
    let query = json!({ "collection": "c", "params": params, "where": asked, "limit": limit });
    files.push(("queries.json".to_owned(), json!({ "q": query })));
    files
}

#[test]
fn a_page_asks_at_most_256_times_by_its_path() {
    is_bounded(
        EMBEDDED_MAX,
        |nodes| asking(nodes, 1, "$eq"),
        "at most 256 queries that name a part of the path",
    );
}

#[test]
fn all_queries_of_a_page_together_look_at_no_more_than_10000_items() {
    let words = "look at no more than 10000 items";
    is_bounded(QUERY_EVALUATIONS_MAX, |items| asking(1, items, "$gt"), words);
    is_bounded(QUERY_EVALUATIONS_MAX / 2, |items| asking(2, items, "$gt"), words);
}
