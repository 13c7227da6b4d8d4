//! The combinations of variants of a page, compared with a naive enumeration of all outcomes of its rules.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::{SharedServer, acme_snapshot, page, problem, redirect, start_server, zone};
use crate::harness::{Client, Server};

struct Zone {
    name: String,
    /// `default` first. Each variant has the zones inside it.
    variants: Vec<(String, Vec<Zone>)>,
    rules: Vec<Rule>,
}

/// A rule of a zone. Variants are indices into the variants of the zone.
enum Rule {
    When(usize),
    Experiment { key: usize, arms: Vec<usize>, has_when: bool },
}

/// The arms of each experiment, as indices into the keys of a zone. All zones of an experiment have the same arms.
const ARMS: [&[usize]; 3] = [&[0, 1], &[2, 1], &[1, 0, 3]];

/// A builder of zones from arbitrary numbers.
struct Builder {
    numbers: std::vec::IntoIter<u8>,
    zones: usize,
}

impl Builder {
    /// Returns a number below `bound`, or 0 after the last number was used.
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.numbers.next().unwrap_or(0)) % bound
    }

    fn zones(&mut self, depth: usize) -> Vec<Zone> {
        let count = if depth == 0 { 3 + self.below(4) } else { self.below(5) / 3 };
        (0..count).map(|_| self.zone(depth)).collect()
    }

    fn zone(&mut self, depth: usize) -> Zone {
        self.zones += 1;
        // The order of the names differs from the order on the page.
        let name = format!("z{}-{}", (self.zones * 7) % 10, self.zones);
        let keys = ["default", "x", "b", "a"];
        let count = 1 + self.below(keys.len());
        let mut inside = |_| if depth < 2 { self.zones(depth + 1) } else { Vec::new() };
        let variants = keys[..count].iter().map(|key| ((*key).to_owned(), inside(key))).collect();
        let rules = (0..self.below(6)).map(|_| self.rule(count)).collect();
        Zone { name, variants, rules }
    }

    fn rule(&mut self, variants: usize) -> Rule {
        let key = self.below(ARMS.len());
        if self.below(2) == 0 || ARMS[key].iter().any(|arm| *arm >= variants) {
            return Rule::When(self.below(variants));
        }
        Rule::Experiment { key, arms: ARMS[key].to_vec(), has_when: self.below(2) == 0 }
    }
}

/// Returns the zones in the authoring format.
fn authored_json(zones: &[Zone]) -> Value {
    let members = zones.iter().map(|zone| {
        let nodes = |inside: &[Zone]| match inside {
            [] => json!([]),
            _ => json!([{ "id": "n", "type": "Box", "props": {}, "zones": authored_json(inside) }]),
        };
        let key = |i: usize| zone.variants[i].0.as_str();
        let rules = zone.rules.iter().map(|rule| match rule {
            Rule::When(variant) => json!({ "when": { "country": "DE" }, "variant": key(*variant) }),
            Rule::Experiment { key: experiment, arms, has_when } => {
                let arms: Vec<&str> = arms.iter().map(|arm| key(*arm)).collect();
                let mut rule = json!({ "experiment": { "key": format!("e{experiment}"), "variants": arms } });
                if *has_when {
                    rule["when"] = json!({ "locale": "de" });
                }
                rule
            }
        });
        let rules: Vec<Value> = rules.collect();
        let variants: Map<String, Value> =
            zone.variants[1..].iter().map(|(key, inside)| (key.clone(), nodes(inside))).collect();
        (
            zone.name.clone(),
            json!({ "default": nodes(&zone.variants[0].1), "variants": variants, "rules": rules }),
        )
    });
    Value::Object(members.collect())
}

/// The arm of one visitor in each experiment. `None` if the visitor is in no arm.
type Arms = [Option<usize>; ARMS.len()];

/// Returns all canonical strings, sorted by number of pairs and then by text.
fn expected(zones: &[Zone]) -> Vec<String> {
    let mut all = BTreeSet::new();
    let arms_of = |key: usize| (0..ARMS[key].len()).map(Some).chain([None]);
    for first in arms_of(0) {
        for second in arms_of(1) {
            for third in arms_of(2) {
                all.extend(combinations_of_zones(zones, [first, second, third]));
            }
        }
    }
    let mut ordered: Vec<(usize, String)> = all
        .into_iter()
        .map(|pairs| {
            let text: Vec<String> = pairs.iter().map(|(zone, key)| format!("{zone}:{key}")).collect();
            (pairs.len(), text.join(","))
        })
        .collect();
    ordered.sort();
    ordered.into_iter().map(|(_, text)| text).collect()
}

type Pairs = BTreeMap<String, String>;

/// Returns every combination of variants of sibling zones.
fn combinations_of_zones(zones: &[Zone], arms: Arms) -> BTreeSet<Pairs> {
    zones.iter().fold([Pairs::new()].into(), |before, zone| {
        let of_zone = combinations_of_zone(zone, arms);
        let joined = |pairs: &Pairs| -> Vec<Pairs> {
            of_zone.iter().map(|more| pairs.clone().into_iter().chain(more.clone()).collect()).collect()
        };
        before.iter().flat_map(joined).collect()
    })
}

fn combinations_of_zone(zone: &Zone, arms: Arms) -> BTreeSet<Pairs> {
    let mut all = BTreeSet::new();
    for variant in reachable(&zone.rules, arms) {
        let (key, inside) = &zone.variants[variant];
        for mut pairs in combinations_of_zones(inside, arms) {
            if variant != 0 {
                pairs.insert(zone.name.clone(), key.clone());
            }
            all.insert(pairs);
        }
    }
    all
}

/// Returns the variants that the rules can select for some outcome of their conditions.
fn reachable(rules: &[Rule], arms: Arms) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for rule in rules {
        match rule {
            Rule::When(variant) => drop(found.insert(*variant)),
            Rule::Experiment { key, arms: variants, has_when } => {
                if let Some(arm) = arms[*key] {
                    found.insert(variants[arm]);
                    if !has_when {
                        return found;
                    }
                }
            }
        }
    }
    found.insert(0);
    found
}

#[test]
fn combinations_list_every_outcome_of_the_rules_in_order() {
    let mut runner = TestRunner::deterministic();
    let numbers = prop::collection::vec(any::<u8>(), 0..800);
    let pages: Vec<Vec<Zone>> = (0..100)
        .map(|_| {
            let numbers = numbers.new_tree(&mut runner).expect("numbers").current();
            Builder { numbers: numbers.into_iter(), zones: 0 }.zones(0)
        })
        .collect();
    let routes: Vec<String> =
        pages.iter().enumerate().map(|(i, zones)| page(&format!("/{i}"), authored_json(zones))).collect();
    let server = Server::start(&[("acme.snapshot", &acme_snapshot(&routes))], &[]);
    let mut client = Client::to(server.edge);
    let listed = client.request("GET", "/v1/routes?site=acme&include=variants", &[]).json();
    let by_path: BTreeMap<&str, &Value> = listed["routes"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|route| (route["path"].as_str().expect("text"), route))
        .collect();
    let mut truncated = 0;
    for (i, zones) in pages.iter().enumerate() {
        let expected = expected(zones);
        let first = &expected[..expected.len().min(256)];
        let target = format!("/v1/variants?site=acme&route=/{i}&include=combinations");
        let answer = client.request("GET", &target, &[]).json();
        assert_eq!(answer["combinations"], json!(first), "page {i}: {}", authored_json(zones));
        assert_eq!(answer["truncated"], expected.len() > 256);
        truncated += usize::from(expected.len() > 256);
        let route = by_path[&*format!("/{i}")];
        assert_eq!(route["variants"], json!(first));
        assert_eq!(route["combinations"], expected.len().min(10_000));
        assert_eq!(route.get("truncated").is_some(), expected.len() > 256);
    }
    assert!((1..pages.len() / 2).contains(&truncated), "{truncated} of {} pages are truncated", pages.len());
}

static SERVER: SharedServer = SharedServer::new(|| {
    let rules = |keys: &[&str]| keys.iter().map(|key| json!({ "when": {}, "variant": key })).collect();
    let page_of = |path: &str, zones: usize| {
        let zones: Map<String, Value> =
            (0..zones).map(|i| (format!("z{i}"), zone(&["k"], rules(&["k"])))).collect();
        page(path, Value::Object(zones))
    };
    let odd = page(
        "/odd",
        json!({ "one": zone(&["a", "b"], rules(&["a", "b", "a"])), "two": zone(&["a"], rules(&["a"])) }),
    );
    let spare = page("/spare", json!({ "z": zone(&["a", "spare"], rules(&["a"])) }));
    start_server(&[page_of("/256", 8), page_of("/512", 9), odd, spare, redirect("/old", "/odd", 308)])
});

fn combinations(route: &str) -> Value {
    let target = format!("/v1/variants?site=acme&route={route}&include=combinations");
    SERVER.get().get(&target).json()
}

#[test]
fn a_list_of_combinations_has_the_documented_members() {
    let expected = json!({ "type": "combinations", "site": "acme", "route": "/odd", "truncated": false,
        "combinations": ["", "one:a", "one:b", "two:a", "one:a,two:a", "one:b,two:a"] });
    assert_eq!(combinations("/odd"), expected);
}

#[test]
fn at_most_256_combinations_are_listed() {
    for (route, truncated) in [("/256", false), ("/512", true)] {
        let answer = combinations(route);
        assert_eq!(answer["combinations"].as_array().map(Vec::len), Some(256), "{route}");
        assert_eq!(answer["truncated"], truncated, "{route}");
    }
}

#[test]
fn a_variant_without_a_rule_is_in_no_combination() {
    assert_eq!(combinations("/spare")["combinations"], json!(["", "z:a"]));
}

#[test]
fn every_listed_combination_is_canonical() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for combination in combinations("/256")["combinations"].as_array().expect("an array") {
        let combination = combination.as_str().expect("text");
        let target = format!("/v1/resolve?site=acme&route=/256&variants={combination}");
        assert_eq!(client.request("GET", &target, &[]).field("x-variants"), Some(combination));
    }
}

#[test]
fn a_redirect_is_returned_instead_of_combinations() {
    assert_eq!(combinations("/old")["to"], "/odd");
    let response = SERVER.get().get("/v1/variants?site=acme&route=/old&include=combinations");
    assert!(response.field("cache-control").is_some_and(|value| value.starts_with("public, ")));
}

#[test]
fn other_values_of_include_are_refused() {
    let target = "/v1/variants?site=acme&route=/odd&include=";
    let server = SERVER.get();
    assert_eq!(server.get(target).status, 200);
    for other in ["variants", "all", "combinations,variants"] {
        assert_eq!(
            problem(&server.get(&format!("{target}{other}"))),
            (400, "invalid_param".into()),
            "{other}"
        );
    }
}
