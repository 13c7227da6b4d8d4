//! `override`: the named zones are forced, and the rules decide the others.

use serde_json::{Value, json};

use super::{SharedServer, node, page, problem, redirect, start_server, zone};
use crate::harness::{Client, Response};

/// The zone `inner` is in the variant `b` of `hero`. The rules of `hero` and `cta` match every visitor with an ID.
static SERVER: SharedServer = SharedServer::new(|| {
    let inner = zone(&["x"], json!([{ "when": {}, "variant": "x" }]));
    let hero = json!({
        "default": [node("d")],
        "variants": {
            "a": [node("a")],
            "b": [{ "id": "b", "type": "Box", "props": {}, "zones": { "inner": inner } }],
        },
        "rules": [{ "experiment": { "key": "hero", "variants": ["a"], "weights": [1] } }],
    });
    let cta =
        zone(&["a", "b"], json!([{ "experiment": { "key": "cta", "variants": ["b"], "weights": [1] } }]));
    start_server(&[page("/", json!({ "hero": hero, "cta": cta })), redirect("/old", "/", 308)])
});

fn get(endpoint: &str, query: &str) -> Response {
    SERVER.get().get(&format!("/v1/{endpoint}?site=acme&route=/{query}"))
}

#[test]
fn the_named_zones_are_forced_and_the_others_are_decided() {
    for (overrides, variants, experiments) in [
        ("", "cta:b,hero:a", "cta:b,hero:a"),
        ("hero:default", "cta:b", "cta:b"),
        ("hero:b", "cta:b,hero:b,inner:x", "cta:b"),
        ("hero:b,inner:default", "cta:b,hero:b", "cta:b"),
        ("inner:x", "cta:b,hero:a", "cta:b,hero:a"),
        ("cta:b", "cta:b,hero:a", "hero:a"),
        ("hero:a,cta:a", "cta:a,hero:a", ""),
    ] {
        for endpoint in ["resolve", "variants"] {
            let response = get(endpoint, &format!("&anonId=v1&override={overrides}"));
            let answer = response.json();
            assert_eq!(
                (&answer["variants"], &answer["experiments"]),
                (&json!(variants), &json!(experiments))
            );
            assert_eq!(response.field("x-variants"), Some(variants), "{endpoint} {overrides}");
            assert_eq!(response.field("x-experiments"), Some(experiments));
            assert_eq!(response.field("cache-control"), Some("private, no-store"));
            assert_eq!((answer.get("warnings"), response.field("content-location")), (None, None));
        }
    }
}

#[test]
fn an_unknown_pair_forces_the_default_with_a_warning() {
    let warning = |zone, key| json!({ "code": "unknown_variant", "zone": zone, "key": key });
    for endpoint in ["resolve", "variants"] {
        let response = get(endpoint, "&anonId=v1&override=zebra:x,hero:nope");
        let answer = response.json();
        assert_eq!(answer["variants"], "cta:b");
        assert_eq!(answer["warnings"], json!([warning("hero", "nope"), warning("zebra", "x")]));
        assert_eq!(answer["experiments"], "cta:b");
        let without = get(endpoint, "&anonId=v1&override=hero:default");
        assert_ne!(response.field("etag"), without.field("etag"));
        let strict = get(endpoint, "&anonId=v1&override=zebra:x&strict=1");
        assert_eq!(problem(&strict), (400, "unknown_variant".into()));
        assert_eq!(strict.json()["param"], "override");
    }
}

#[test]
fn an_override_has_the_grammar_of_variants() {
    let pairs = |count: usize| (0..count).map(|n| format!("z{n}:k")).collect::<Vec<_>>().join(",");
    for malformed in ["hero", "hero:", "hero:b,", "hero:a,hero:b", "he.ro:b", &pairs(65)] {
        for endpoint in ["resolve", "variants"] {
            let response = get(endpoint, &format!("&override={malformed}"));
            assert_eq!(problem(&response), (400, "invalid_variants".into()), "{endpoint} {malformed}");
            assert_eq!(response.json()["param"], "override");
            assert_eq!(response.field("cache-control"), Some("no-store"));
        }
    }
    for count in [63, 64] {
        assert_eq!(get("variants", &format!("&override={}", pairs(count))).status, 200, "{count}");
    }
}

#[test]
fn override_and_variants_exclude_each_other_for_resolve() {
    for route in ["/", "/old", "/nowhere"] {
        for variants in ["", "hero:b"] {
            let target = format!("/v1/resolve?site=acme&route={route}&override=hero:b&variants={variants}");
            let response = SERVER.get().get(&target);
            assert_eq!(problem(&response), (400, "invalid_param".into()), "{target}");
            assert_eq!(response.json()["param"], "override");
        }
    }
    assert_eq!(get("resolve", "&override=&variants=hero:b").json()["variants"], "hero:b");
    assert_eq!(get("variants", "&override=hero:b&variants=cta:a").json()["variants"], "hero:b,inner:x");
}

#[test]
fn an_override_also_applies_to_a_crawler_and_without_an_id() {
    let agent = [("User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)")];
    let target = "/v1/variants?site=acme&route=/&override=cta:a";
    for fields in [&[][..], &agent] {
        let response = Client::to(SERVER.get().edge).request("GET", target, fields);
        assert_eq!(
            (&response.json()["variants"], &response.json()["experiments"]),
            (&json!("cta:a"), &json!(""))
        );
    }
}

#[test]
fn an_explanation_marks_the_forced_zones() {
    let response =
        SERVER.get().admin_get("/v1/resolve?site=acme&route=/&anonId=v1&explain=1&override=cta:a,hero:nope");
    let decisions = response.json()["decisions"].clone();
    let forced = |zone: &str, key: &str| json!({ "zone": zone, "key": key, "source": "forced", "rules": [] });
    assert_eq!(decisions, json!([forced("cta", "a"), forced("hero", "default")]));
    let one = SERVER.get().admin_get("/v1/variants?site=acme&route=/&anonId=v1&explain=1&override=cta:a");
    let sources: Vec<Value> =
        one.json()["decisions"].as_array().expect("a list").iter().map(|d| d["source"].clone()).collect();
    assert_eq!(sources, ["forced", "experiment"]);
}
