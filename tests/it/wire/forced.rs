//! `variants` in a request: no decision, no visitor; the same bytes for the same selection.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Shared, lasting, node, page, problem, redirect, resolve, serving, zone};
use crate::harness::{Client, Response};

/// `hero` shows `inner` by default, and `offer` to those who return; `cta` and `promo` hold none.
static SERVER: Shared = Shared::new(|| {
    let inner = zone(&["x", "y"], json!([]));
    let offer = zone(&["big"], json!([]));
    let hero = json!({
        "default": [{ "id": "d", "type": "Box", "props": {}, "zones": { "inner": inner } }],
        "variants": {
            "b": [node("b")],
            "returning": [{ "id": "r", "type": "Box", "props": {}, "zones": { "offer": offer } }],
        },
        "rules": [{ "when": { "country": "DE" }, "variant": "b" }],
    });
    let everyone = json!([{ "when": {}, "variant": "b" }]);
    let zones =
        json!({ "promo": zone(&["b"], everyone), "hero": hero, "cta": zone(&["a", "b", "c"], json!([])) });
    let longest = "z".repeat(64);
    serving(&[
        page("/pricing", zones),
        page("/long", json!({ &longest: zone(&[&longest], json!([])) })),
        redirect("/old", "/pricing", 308),
    ])
});

fn ask(variants: &str) -> Response {
    SERVER.get().get(&resolve("/pricing", &format!("&variants={variants}")))
}

#[test]
fn the_canonical_form_is_sorted_without_defaults_and_without_what_is_not_there() {
    for (asked, canonical) in [
        ("", ""),
        ("hero:default", ""),
        ("promo:b,cta:c", "cta:c,promo:b"),
        ("hero:returning,offer:big,cta:default", "hero:returning,offer:big"),
        ("inner:x", "inner:x"),
        ("hero:b,inner:x", "hero:b"),
        ("offer:big", ""),
        ("hero:returning,inner:y,offer:default", "hero:returning"),
    ] {
        let response = ask(asked);
        assert_eq!(response.status, 200);
        assert_eq!(response.json()["variants"], canonical, "{asked}");
        assert_eq!(response.field("x-variants"), Some(canonical), "{asked}");
        assert_eq!(response.json().get("warnings"), None, "{asked}");
        assert_eq!(lasting(ask(canonical)), lasting(response), "{asked}");
    }
}

#[test]
fn what_is_selected_lists_the_zones_that_are_there() {
    let selected = |variants| ask(variants).json()["selected"].clone();
    assert_eq!(
        selected(""),
        json!({ "hero": "default", "inner": "default", "cta": "default", "promo": "default" })
    );
    assert_eq!(selected("hero:b,cta:a"), json!({ "hero": "b", "cta": "a", "promo": "default" }));
    let returning = json!({ "hero": "returning", "offer": "big", "cta": "default", "promo": "b" });
    assert_eq!(selected("promo:b,offer:big,hero:returning"), returning);
}

#[test]
fn only_chosen_variants_are_sent() {
    let zones = ask("cta:c,hero:returning,offer:big").json()["layout"]["zones"].clone();
    let offer = json!([node("big")]);
    let hero = json!([{ "id": "r", "type": "Box", "props": {}, "zones": { "offer": offer } }]);
    assert_eq!(zones, json!({ "cta": [node("c")], "hero": hero, "promo": [node("default")] }));
}

#[test]
fn a_layout_has_the_members_of_the_interface() {
    let response = ask("cta:b");
    assert_eq!(response.field("content-type"), Some("application/json"));
    let answer = response.json();
    let mut members: Vec<&String> = answer.as_object().expect("an object").keys().collect();
    members.sort();
    assert_eq!(members, ["layout", "params", "pattern", "route", "selected", "site", "type", "variants"]);
    assert_eq!(
        (&answer["type"], &answer["site"], &answer["params"]),
        (&json!("layout"), &json!("acme"), &json!({}))
    );
}

#[test]
fn nothing_of_the_caller_changes_a_byte() {
    let plain = ask("cta:a");
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let target = resolve("/pricing", "&variants=cta:a");
    for (more, fields) in [
        ("&anonId=visitor-1", &[][..]),
        ("&anonId=%20malformed%20", &[]),
        ("&country=DE&locale=de&url=/?utm_source=x&userAgent=Googlebot/2.1", &[]),
        ("", &[("Cookie", "anon_id=visitor-1"), ("X-Anon-Id", "visitor-2")]),
        ("", &[("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1)"), ("Accept-Language", "de")]),
        ("", &[("Origin", "https://elsewhere.example"), ("Referer", "https://elsewhere.example/")]),
        ("", &[("X-Request-Id", "mine"), ("X-Debug-Timing", "1"), ("Authorization", "Bearer x")]),
    ] {
        let response = client.request("GET", &format!("{target}{more}"), fields);
        assert_ne!(response.field("x-request-id"), Some("mine"));
        assert_eq!(lasting(response), lasting(plain.clone()), "{more} {fields:?}");
    }
}

#[test]
fn an_unknown_pair_is_that_zones_default_with_a_warning() {
    let response = ask("zebra:x,hero:nope,cta:b,offer:huge,apple:default");
    let answer = response.json();
    let warning = |zone, key| json!({ "code": "unknown_variant", "zone": zone, "key": key });
    let warnings = [("apple", "default"), ("hero", "nope"), ("offer", "huge"), ("zebra", "x")]
        .map(|(z, k)| warning(z, k));
    assert_eq!(answer["warnings"], json!(warnings));
    assert_eq!(answer["variants"], "cta:b");
    assert_eq!(answer["selected"]["hero"], "default");
    assert_eq!(response.field("x-variants"), Some("cta:b"));
    assert_eq!(response.field("cache-control"), Some("public, max-age=0, s-maxage=5"));
}

#[test]
fn the_content_location_of_an_unknown_pair_is_the_canonical_answer() {
    let unknown = ask("hero:nope,promo:b,cta:b");
    let location = unknown.field("content-location").expect("a location").to_owned();
    let canonical = SERVER.get().get(&location);
    assert_eq!(lasting(canonical.clone()), lasting(ask("cta:b,promo:b")));
    assert_eq!(canonical.field("content-location"), None);
    assert_ne!(canonical.field("etag"), unknown.field("etag"));
    let mut body = unknown.json();
    body.as_object_mut().expect("an object").remove("warnings");
    assert_eq!(body, canonical.json());
}

#[test]
fn unknown_pairs_are_answered_alike_in_any_order() {
    let one = ask("x:y,cta:b,hero:nope");
    assert_eq!(lasting(ask("hero:nope,x:y,cta:b")), lasting(one.clone()));
    assert_ne!(ask("hero:nope,x:z,cta:b").field("etag"), one.field("etag"));
    assert_ne!(ask("hero:nope,cta:b").field("etag"), one.field("etag"));
}

#[test]
fn strict_refuses_unknown_pairs_only() {
    for unknown in ["hero:nope", "zebra:x", "cta:b,zebra:x"] {
        let response = ask(&format!("{unknown}&strict=1"));
        assert_eq!(problem(&response), (400, "unknown_variant".into()), "{unknown}");
        assert_eq!(response.json()["param"], "variants");
        assert_eq!(ask(&format!("{unknown}&strict=0")).status, 200);
        assert_eq!(ask(&format!("{unknown}&strict=")).status, 200);
    }
    assert_eq!(lasting(ask("hero:b,inner:x&strict=1")), lasting(ask("hero:b")));
}

#[test]
fn a_switch_is_1_or_0_whether_or_not_it_matters() {
    for variants in ["cta:b", "zebra:x"] {
        assert_eq!(
            problem(&ask(&format!("{variants}&strict=yes"))),
            (400, "invalid_param".into()),
            "{variants}"
        );
    }
    assert_eq!(problem(&ask("cta:b&explain=true")), (400, "invalid_param".into()));
}

#[test]
fn what_is_no_list_of_pairs_is_refused() {
    let long = "k".repeat(65);
    for malformed in [
        "hero",
        "hero:",
        ":b",
        ":",
        ",",
        "hero:b,",
        ",hero:b",
        "hero:b,,cta:a",
        "hero:b:c",
        "hero=b",
        "hero:b;cta:a",
        "hero:b,%20cta:a",
        "hero:%C3%A4",
        "he.ro:b",
        "hero:b%00",
        "hero:b,hero:b",
        "hero:b,cta:a,hero:default",
        "zebra:x,zebra:y",
        &format!("{long}:b"),
        &format!("hero:{long}"),
    ] {
        let response = ask(malformed);
        assert_eq!(problem(&response), (400, "invalid_variants".into()), "{malformed}");
        assert_eq!(response.json()["param"], "variants");
    }
}

#[test]
fn zones_and_keys_have_1_to_64_characters() {
    for length in [1, 63] {
        let name = "z".repeat(length);
        assert_eq!(ask(&format!("{name}:{name}")).json()["warnings"][0]["zone"], *name);
    }
    let longest = "z".repeat(64);
    let response = SERVER.get().get(&resolve("/long", &format!("&variants={longest}:{longest}")));
    assert_eq!(response.json()["variants"], format!("{longest}:{longest}"));
}

#[test]
fn a_list_has_at_most_64_pairs() {
    let list = |n: usize| (0..n).map(|i| format!("z{i:02}:k")).collect::<Vec<_>>().join(",");
    for count in [63, 64] {
        assert_eq!(ask(&list(count)).json()["warnings"].as_array().map(Vec::len), Some(count));
    }
    assert_eq!(problem(&ask(&list(65))), (400, "invalid_variants".into()));
}

#[test]
fn a_redirect_is_public_with_variants_and_readable() {
    let server = SERVER.get();
    let response = server.get(&resolve("/old", "&variants="));
    let answer = json!({ "type": "redirect", "site": "acme", "route": "/old", "pattern": "/old", "params": {},
        "to": "/pricing", "status": 308 });
    assert_eq!((response.status, response.json()), (200, answer.clone()));
    assert!(
        response.field("cache-control").is_some_and(|c| c.starts_with("public, max-age=0, s-maxage=300"))
    );
    for endpoint in ["resolve", "variants"] {
        let private = server.get(&resolve("/old", "").replace("resolve", endpoint));
        assert_eq!((private.status, private.json()), (200, answer.clone()));
        assert_eq!(private.field("cache-control"), Some("private, no-store"));
    }
}

#[test]
fn the_decision_alone_takes_no_variants() {
    let target = resolve("/pricing", "").replace("resolve", "variants");
    let server = SERVER.get();
    let plain = lasting(server.get(&target));
    assert_eq!(plain.json()["variants"], "promo:b");
    assert_eq!(lasting(server.get(&format!("{target}&variants=hero:b"))), plain);
    assert_eq!(lasting(server.get(&format!("{target}&variants=!"))), plain);
}

/// The canonical form of what was asked, by the shape of the page.
fn canonical(asked: &[(&str, &str)]) -> String {
    let key = |zone: &str| asked.iter().find(|(z, _)| *z == zone).map_or("default", |(_, key)| *key);
    let is_there = |zone: &str| match zone {
        "inner" => key("hero") == "default",
        "offer" => key("hero") == "returning",
        _ => true,
    };
    let mut pairs: Vec<String> = asked
        .iter()
        .filter(|(zone, key)| *key != "default" && is_there(zone))
        .map(|(zone, key)| format!("{zone}:{key}"))
        .collect();
    pairs.sort();
    pairs.join(",")
}

fn pairs() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let all = [
        ("cta", &["default", "a", "b", "c"][..]),
        ("hero", &["default", "b", "returning"]),
        ("inner", &["default", "x", "y"]),
        ("offer", &["default", "big"]),
        ("promo", &["default", "b"]),
    ];
    let zones = prop::sample::subsequence(all.to_vec(), 0..=5).prop_shuffle();
    (zones, any::<[prop::sample::Index; 5]>()).prop_map(|(zones, keys)| {
        zones.iter().zip(keys).map(|((zone, choices), key)| (*zone, *key.get(choices))).collect()
    })
}

#[test]
fn every_list_has_the_bytes_and_the_etag_of_its_canonical_form() {
    let server = SERVER.get();
    let client = std::cell::RefCell::new(Client::to(server.edge));
    proptest!(ProptestConfig::with_cases(200), |(asked in pairs())| {
        let text: Vec<String> = asked.iter().map(|(zone, key)| format!("{zone}:{key}")).collect();
        let get = |variants: &str| {
            let target = resolve("/pricing", &format!("&variants={variants}"));
            client.borrow_mut().request("GET", &target, &[])
        };
        let response = get(&text.join(","));
        let canonical = canonical(&asked);
        prop_assert_eq!(response.field("x-variants"), Some(&*canonical));
        let body: Value = response.json();
        let selected = body["selected"].as_object().expect("an object");
        for (zone, key) in selected {
            let asked = asked.iter().find(|(z, _)| z == zone).map_or("default", |(_, key)| *key);
            prop_assert_eq!(key.as_str(), Some(asked));
        }
        prop_assert_eq!(lasting(get(&canonical)), lasting(response));
    });
}
