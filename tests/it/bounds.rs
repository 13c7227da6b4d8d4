//! The limits of a site: each limit of `compile` at one below, at, and one above.

use parallax::testing::limits::{
    AUDIENCES_MAX, BODY_RENDERED_BYTES_MAX, CANONICAL_BYTES_MAX, EMBEDDED_QUERIES_MAX, EXPERIMENTS_BYTES_MAX,
    EXPERIMENTS_MAX, IGNORED_REFERRER_CHARS_MAX, IGNORED_REFERRERS_MAX, NODE_NESTING_MAX, QUERIES_MAX,
    QUERY_EVALUATIONS_MAX, ROUTE_BYTES_MAX, RULES_MAX, VARIANTS_MAX, ZONES_MAX,
};
use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::{Map, Value, json};

pub type Site = Vec<(String, Value)>;

/// Returns the `expected` texts of the errors that `compile` finds, or an empty text.
fn expected_texts(site: &Site) -> String {
    let texts: Vec<_> = site.iter().map(|(path, json)| (path.as_str(), json.to_string())).collect();
    let files = Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())));
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let shown = compiled.err().map(|diagnostics| diagnostics.report(&files).diagnostics).unwrap_or_default();
    shown.into_iter().map(|placed| placed.diagnostic.expected).collect::<Vec<_>>().join("; ")
}

/// Asserts that a site compiles one below the limit and at the limit, and that one above it is refused with
/// `words`.
pub fn assert_limit(limit: usize, of_size: impl Fn(usize) -> Site, words: &str) {
    assert_eq!(expected_texts(&of_size(limit - 1)), "", "one below");
    assert_eq!(expected_texts(&of_size(limit)), "", "at the limit");
    let texts = expected_texts(&of_size(limit + 1));
    assert!(texts.contains(words), "one above: {texts:?}");
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

/// Returns an object with the members `name(0)`, `name(1)`, ..., all with the same value.
fn members(count: usize, name: impl Fn(usize) -> String, value: Value) -> Value {
    Value::Object((0..count).map(|i| (name(i), value.clone())).collect::<Map<_, _>>())
}

fn zone(variants: Value, rules: Value) -> Value {
    json!({ "default": [], "variants": variants, "rules": rules })
}

fn text(id: &str, bytes: usize) -> Value {
    json!([{ "id": id, "type": "T", "props": { "text": "x".repeat(bytes) } }])
}

/// A site whose `site.json` has these ignored referrers.
fn ignoring(hosts: &[String]) -> Site {
    let mut site = one_page(json!({}));
    site[0].1["ignoredReferrers"] = json!(hosts);
    site
}

#[test]
fn a_site_ignores_at_most_100_referrers_of_its_own() {
    let hosts = |count| ignoring(&(0..count).map(|i| format!("*.h{i}.example")).collect::<Vec<_>>());
    assert_limit(IGNORED_REFERRERS_MAX, hosts, "up to 100 elements");
}

#[test]
fn an_ignored_referrer_has_at_most_253_characters() {
    let host = |length: usize| ignoring(&[format!("*.{}", "h".repeat(length - 2))]);
    assert_limit(IGNORED_REFERRER_CHARS_MAX, host, "up to 253 characters");
}

#[test]
fn a_route_has_at_most_64_personalized_zones() {
    let zones = |count| one_page(members(count, |i| format!("z{i}"), zone(json!({}), json!([]))));
    assert_limit(ZONES_MAX, zones, "at most 64 personalized zones");
}

#[test]
fn a_zone_has_at_most_64_variants() {
    let variants =
        |count| one_page(json!({ "z": zone(members(count, |i| format!("v{i}"), json!([])), json!([])) }));
    assert_limit(VARIANTS_MAX, variants, "at most 64 variants");
}

#[test]
fn a_zone_has_at_most_64_rules() {
    let rule = json!({ "when": { "locale": "de" }, "variant": "a" });
    let rules = |count| one_page(json!({ "z": zone(json!({ "a": [] }), vec![rule.clone(); count].into()) }));
    assert_limit(RULES_MAX, rules, "at most 64 rules");
}

#[test]
fn zones_nest_at_most_16_deep() {
    let nested = |depth: usize| {
        let inner = (1..depth).fold(json!({ "z": [] }), |zones, level| {
            json!({ "z": [{ "id": format!("n{level}"), "type": "T", "props": {}, "zones": zones }] })
        });
        one_page(inner)
    };
    assert_limit(NODE_NESTING_MAX, nested, "zones nested at most 16 deep");
}

#[test]
fn the_longest_canonical_string_has_at_most_2048_bytes() {
    // The limit counts a comma after each pair, also after the last.
    let pair = |key: usize| zone(members(1, |_| "k".repeat(key), json!([])), json!([]));
    let zones = |bytes: usize| {
        let whole = "zzz:,".len() + 64;
        let (full, rest) = ((bytes - 10) / whole, bytes - (bytes - 10) / whole * whole);
        let mut zones = members(full, |i| format!("z{i:02}"), pair(64));
        zones["y"] = pair(rest - "y:,".len());
        one_page(zones)
    };
    assert_limit(CANONICAL_BYTES_MAX, zones, "whose longest combination is at most 2048 bytes");
}

/// A zone with a rule for each experiment, given by its key.
fn tested_zone(keys: &[String]) -> Value {
    let rule = |key: &String| json!({ "experiment": { "key": key, "variants": ["default", "b"] } });
    zone(json!({ "b": [] }), keys.iter().map(rule).collect())
}

#[test]
fn the_longest_list_of_experiments_of_a_page_has_at_most_2048_bytes() {
    // Zone i shows `<key>:default`. The last key makes up for the rest.
    let zones = |bytes: usize| {
        let whole = 50 + ":default,".len();
        let full = (bytes - 10) / whole;
        let rest = bytes + 1 - full * whole;
        let mut zones = members(full, |i| format!("z{i}"), json!([]));
        for i in 0..full {
            zones[format!("z{i}")] = tested_zone(&[format!("{i:0>50}")]);
        }
        zones["last"] = tested_zone(&["k".repeat(rest - ":default,".len())]);
        one_page(zones)
    };
    assert_limit(EXPERIMENTS_BYTES_MAX, zones, "`X-Experiments`, is at most 2048 bytes");
}

#[test]
fn only_experiments_that_can_be_shown_together_count_for_the_list_of_a_page() {
    let long = |i: usize| format!("{i:0>64}");
    // One experiment in all zones, and many in one zone.
    let shared = members(64, |i| format!("z{i}"), tested_zone(&[long(0)]));
    assert_eq!(expected_texts(&one_page(shared)), "");
    let alternatives: Vec<String> = (0..64).map(long).collect();
    assert_eq!(expected_texts(&one_page(json!({ "z": tested_zone(&alternatives) }))), "");
    // Variants of a zone, each with its own experiments inside.
    let inner = |from: usize| {
        let mut zones = members(20, |i| format!("z{}", from + i), json!([]));
        for i in from..from + 20 {
            zones[format!("z{i}")] = tested_zone(&[long(i)]);
        }
        json!([{ "id": "n", "type": "T", "props": {}, "zones": zones }])
    };
    let apart = zone(json!({ "a": inner(0), "b": inner(20) }), json!([]));
    assert_eq!(expected_texts(&one_page(json!({ "z": apart }))), "");
    let together = json!({ "y": inner(0), "z": zone(json!({ "b": inner(20) }), json!([])) });
    assert!(expected_texts(&one_page(together)).contains("`X-Experiments`"));
}

#[test]
fn a_layout_has_at_most_1_mib_with_its_largest_variants() {
    let empty = one_page(json!({ "z": zone(json!({ "a": text("a", 0) }), json!([])) }));
    let around = rendered(&empty, "z:a");
    let filled =
        |bytes: usize| one_page(json!({ "z": zone(json!({ "a": text("a", bytes - around) }), json!([])) }));
    assert_limit(BODY_RENDERED_BYTES_MAX, filled, "a layout of at most 1048576 bytes");
}

/// Returns the bytes from the `layout` member of the only page to the end of the body, under `variants`.
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
    assert_limit(ROUTE_BYTES_MAX, path, "a path of at most 2048 bytes");
}

#[test]
fn a_site_has_at_most_1024_audiences() {
    let audiences = |count: usize| {
        let mut site = one_page(json!({}));
        site.push(("audiences.json".to_owned(), members(count, |i| format!("a{i}"), json!({ "when": {} }))));
        site
    };
    assert_limit(AUDIENCES_MAX, audiences, "at most 1024 audiences");
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
    assert_limit(EXPERIMENTS_MAX, experiments, "at most 4096 experiments");
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
    assert_limit(QUERIES_MAX, queries, "at most 1024 queries");
}

/// A page with `nodes` queries that use a part of its path, over `items` items.
fn site_with_path_queries(nodes: usize, items: usize, operator: &str) -> Site {
    let node = |i| {
        let query = json!({ "id": "q", "params": { "p": { "$route": "p" } } });
        json!({ "id": format!("n{i}"), "type": "T", "props": {}, "query": query })
    };
    let nodes: Vec<Value> = (0..nodes).map(node).collect();
    let mut files = site(vec![page("/:p", json!({ "main": nodes }))]);
    let item = |i| json!({ "id": format!("i{i}"), "type": "t", "fields": { "f": "x" } });
    files.push(("content/c.json".to_owned(), (0..items).map(item).collect()));
    let (params, limit) = (json!({ "p": { "type": "string" } }), 1);
    let condition = json!({ "f": { operator: { "$param": "p" } } });
    let query = json!({ "collection": "c", "params": params, "where": condition, "limit": limit });
    files.push(("queries.json".to_owned(), json!({ "q": query })));
    files
}

#[test]
fn a_page_has_at_most_64_queries_that_use_its_path() {
    assert_limit(
        EMBEDDED_QUERIES_MAX,
        |nodes| site_with_path_queries(nodes, 1, "$eq"),
        "at most 64 queries that use a part of the path",
    );
}

#[test]
fn all_queries_of_a_page_together_evaluate_at_most_10000_items() {
    let words = "together evaluate at most 10000 items";
    assert_limit(QUERY_EVALUATIONS_MAX, |items| site_with_path_queries(1, items, "$gt"), words);
    assert_limit(QUERY_EVALUATIONS_MAX / 2, |items| site_with_path_queries(2, items, "$gt"), words);
}
