//! Experiments: the arm of a visitor follows the GrowthBook hash, on both endpoints and on all routes.

use std::cell::RefCell;

use parallax::testing::condition::{bucket_ranges, choose_variation, hash, in_namespace};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{SharedServer, page, percent_encode, start_server, zone};
use crate::harness::{Client, times};

/// Returns a zone with one experiment, and after it a rule that selects `rest` for all other visitors.
fn experiment_zone(experiment: Value) -> Value {
    let rest = json!({ "when": {}, "variant": "rest" });
    zone(&["b", "c", "rest"], json!([{ "experiment": experiment }, rest]))
}

fn colour() -> Value {
    json!({ "key": "colour", "variants": ["default", "b", "c"], "weights": [0.5, 0.3, 0.2], "coverage": 0.6 })
}

static SERVER: SharedServer = SharedServer::new(|| {
    let seeded = json!({ "key": "seeded", "variants": ["b", "c"], "seed": "another" });
    let shared = |from: f64, to: f64| json!({ "key": if from == 0.0 { "left" } else { "right" }, "variants": ["b"], "namespace": ["checkout", from, to] });
    let held = json!({ "key": "held", "variants": ["b", "c"], "holdout": 0.3 });
    let germans =
        json!({ "experiment": { "key": "german", "variants": ["b", "c"] }, "when": { "country": "DE" } });
    let rest = json!({ "when": {}, "variant": "rest" });
    start_server(&[
        page(
            "/",
            json!({
                "colour": experiment_zone(colour()),
                "seeded": experiment_zone(seeded),
                "left": experiment_zone(shared(0.0, 0.4)),
                "right": experiment_zone(shared(0.4, 1.0)),
                "held": experiment_zone(held.clone()),
                "german": zone(&["b", "c", "rest"], json!([germans, rest])),
            }),
        ),
        page(
            "/elsewhere",
            json!({ "colour-too": experiment_zone(colour()), "held-too": experiment_zone(held) }),
        ),
    ])
});

fn selected(client: &mut Client, endpoint: &str, route: &str, query: &str) -> Value {
    let target = format!("/v1/{endpoint}?site=acme&route={route}{query}");
    client.request("GET", &target, &[]).json()["selected"].clone()
}

/// Returns the arm of an ID, or `None` outside the coverage.
fn arm(seed: &str, id: &str, coverage: f64, weights: &[f64]) -> Option<usize> {
    let ranges = bucket_ranges(weights.len(), coverage, Some(weights));
    choose_variation(hash(&[seed], id, 2).expect("version 2 hashes"), ranges)
}

/// Returns the expected variant of every zone of `/` for an ID from this country.
fn expected(id: &str, country: &str) -> Value {
    let halves = |seed| ["b", "c"][arm(seed, id, 1.0, &[0.5, 0.5]).expect("all are covered")];
    let in_checkout = |from, to| if in_namespace(id, "checkout", (from, to)) { "b" } else { "rest" };
    let is_held = hash(&["holdout:held"], id, 2).expect("version 2 hashes") < 0.3;
    json!({
        "colour": arm("colour", id, 0.6, &[0.5, 0.3, 0.2]).map_or("rest", |arm| ["default", "b", "c"][arm]),
        "seeded": halves("another"),
        "left": in_checkout(0.0, 0.4),
        "right": in_checkout(0.4, 1.0),
        "held": if is_held { "default" } else { halves("held") },
        "german": if country == "DE" { halves("german") } else { "rest" },
    })
}

/// Returns the expected `experiments` of `/`: the deciding experiments by key, with `~` for the holdout.
fn expected_experiments(id: &str, country: &str) -> String {
    let selected = expected(id, country);
    let is_held = hash(&["holdout:held"], id, 2).expect("version 2 hashes") < 0.3;
    let pair = |key: &str| match (selected[key].as_str().expect("text"), key) {
        ("rest", _) => None,
        (_, "held") if is_held => Some("held:~".to_owned()),
        (variant, _) => Some(format!("{key}:{variant}")),
    };
    let pairs = ["colour", "german", "held", "left", "right", "seeded"].into_iter().filter_map(pair);
    pairs.collect::<Vec<_>>().join(",")
}

#[test]
fn every_arm_matches_the_growthbook_hash() {
    let server = SERVER.get();
    let client = RefCell::new(Client::to(server.edge));
    let config = ProptestConfig::with_cases(times(150, 5_000) as u32);
    proptest!(config, |(id in "[!-~]{1,20}", german in any::<bool>())| {
        let country = if german { "DE" } else { "NO" };
        let query = format!("&country={country}&anonId={}", percent_encode(&id));
        let client = &mut *client.borrow_mut();
        let Some(id) = Some(id).filter(|id| !matches!(id.as_str(), "0" | "-" | "{}")) else { return Ok(()) };
        prop_assert_eq!(selected(client, "resolve", "/", &query), expected(&id, country));
        prop_assert_eq!(selected(client, "variants", "/", &query), expected(&id, country));
        for endpoint in ["resolve", "variants"] {
            let response = client.request("GET", &format!("/v1/{endpoint}?site=acme&route=/{query}"), &[]);
            let experiments = expected_experiments(&id, country);
            prop_assert_eq!(response.field("x-experiments"), Some(&*experiments));
            prop_assert_eq!(&response.json()["experiments"], &experiments);
        }
    });
}

#[test]
fn without_an_id_the_next_rule_applies() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let rest = json!({ "colour": "rest", "seeded": "rest", "left": "rest", "right": "rest", "held": "rest",
        "german": "rest" });
    assert_eq!(selected(&mut client, "resolve", "/", "&country=DE"), rest);
    assert_eq!(selected(&mut client, "resolve", "/", "&country=DE&anonId=undefined"), rest);
}

#[test]
fn zones_of_one_experiment_show_the_same_arm_on_all_routes() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for n in 0..100 {
        let id = format!("&anonId=visitor-{n}");
        let (here, there) = (
            selected(&mut client, "variants", "/", &id),
            selected(&mut client, "variants", "/elsewhere", &id),
        );
        assert_eq!((&here["colour"], &here["held"]), (&there["colour-too"], &there["held-too"]), "{n}");
    }
}

#[test]
fn the_arms_have_about_their_configured_shares() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let count = 1_000;
    let mut shown = std::collections::BTreeMap::new();
    for n in 0..count {
        let selected = selected(&mut client, "variants", "/", &format!("&anonId=v{n}"));
        for zone in ["colour", "held"] {
            *shown.entry(format!("{zone}:{}", selected[zone].as_str().expect("text"))).or_insert(0) += 1;
        }
    }
    for (pair, share) in [
        ("colour:default", 0.30),
        ("colour:b", 0.18),
        ("colour:c", 0.12),
        ("colour:rest", 0.40),
        ("held:default", 0.30),
        ("held:b", 0.35),
        ("held:c", 0.35),
    ] {
        let measured = f64::from(shown[pair]) / f64::from(count);
        assert!((measured - share).abs() < 0.05, "{pair}: {measured}");
    }
}

#[test]
fn an_id_gets_the_same_arm_from_parameter_header_and_cookie() {
    let server = SERVER.get();
    let by_param = server.get("/v1/variants?site=acme&route=/&anonId=steady");
    for fields in [[("X-Anon-Id", "steady")], [("Cookie", "anon_id=steady")]] {
        assert_eq!(server.get_with("/v1/variants?site=acme&route=/", &fields).body, by_param.body);
    }
}

fn context() -> impl Strategy<Value = String> {
    let id = prop::option::of("[a-z0-9-]{2,12}");
    let country = prop::sample::select(vec!["", "DE", "no", "XX", "nowhere"]);
    let route = prop::sample::select(vec!["/", "/elsewhere"]);
    (id, country, route).prop_map(|(id, country, route)| {
        let id = id.map(|id| format!("&anonId={id}")).unwrap_or_default();
        format!("?site=acme&route={route}&country={country}{id}")
    })
}

#[test]
fn resolve_variants_explain_and_forced_variants_agree() {
    let server = SERVER.get();
    let edge = RefCell::new(Client::to(server.edge));
    let admin = RefCell::new(Client::to(server.admin));
    proptest!(ProptestConfig::with_cases(100), |(query in context())| {
        let get = |target: String| edge.borrow_mut().request("GET", &target, &[]);
        let (resolved, decided) = (get(format!("/v1/resolve{query}")), get(format!("/v1/variants{query}")));
        let canonical = resolved.field("x-variants").expect("a header").to_owned();
        prop_assert_eq!(&resolved.json()["variants"], &canonical);
        prop_assert_eq!(decided.field("x-variants"), Some(&*canonical));
        for member in ["site", "route", "variants", "selected", "experiments"] {
            prop_assert_eq!(&resolved.json()[member], &decided.json()[member]);
        }
        prop_assert_eq!(&decided.json()["type"], "decision");
        prop_assert_eq!(decided.json().as_object().map(serde_json::Map::len), Some(6));
        let forced = get(format!("/v1/resolve{query}&variants={canonical}"));
        let mut shown = resolved.json();
        shown.as_object_mut().expect("an object").remove("experiments");
        prop_assert_eq!(forced.json(), shown);
        for endpoint in ["resolve", "variants"] {
            let target = format!("/v1/{endpoint}{query}&explain=1");
            let explained = admin.borrow_mut().request("GET", &target, &[]).json();
            prop_assert_eq!(&explained["selected"], &resolved.json()["selected"]);
            prop_assert_eq!(&explained["experiments"], &resolved.json()["experiments"]);
            for decision in explained["decisions"].as_array().expect("an array") {
                let zone = decision["zone"].as_str().expect("text");
                prop_assert_eq!(&decision["key"], &resolved.json()["selected"][zone]);
            }
        }
    });
}
