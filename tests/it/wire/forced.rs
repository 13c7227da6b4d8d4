//! Forced variants: a request with `variants` ignores the rules and the visitor. Equal selections have equal
//! bytes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{SharedServer, comparable, node, page, problem, redirect, resolve_target, start_server, zone};
use crate::harness::{Client, Response};

/// The zone `inner` is in the default of `hero`, and `offer` is in its variant `returning`. `cta` and `promo`
/// contain no zones.
static SERVER: SharedServer = SharedServer::new(|| {
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
    start_server(&[
        page("/pricing", zones),
        page("/long", json!({ &longest: zone(&[&longest], json!([])) })),
        redirect("/old", "/pricing", 308),
    ])
});

fn resolve_forced(variants: &str) -> Response {
    SERVER.get().get(&resolve_target("/pricing", &format!("&variants={variants}")))
}

#[test]
fn the_canonical_form_is_sorted_without_defaults_and_absent_zones() {
    for (requested, canonical) in [
        ("", ""),
        ("hero:default", ""),
        ("promo:b,cta:c", "cta:c,promo:b"),
        ("hero:returning,offer:big,cta:default", "hero:returning,offer:big"),
        ("inner:x", "inner:x"),
        ("hero:b,inner:x", "hero:b"),
        ("offer:big", ""),
        ("hero:returning,inner:y,offer:default", "hero:returning"),
    ] {
        let response = resolve_forced(requested);
        assert_eq!(response.status, 200);
        assert_eq!(response.json()["variants"], canonical, "{requested}");
        assert_eq!(response.field("x-variants"), Some(canonical), "{requested}");
        assert_eq!(response.json().get("warnings"), None, "{requested}");
        assert_eq!(comparable(resolve_forced(canonical)), comparable(response), "{requested}");
    }
}

#[test]
fn selected_lists_the_present_zones() {
    let selected = |variants| resolve_forced(variants).json()["selected"].clone();
    assert_eq!(
        selected(""),
        json!({ "hero": "default", "inner": "default", "cta": "default", "promo": "default" })
    );
    assert_eq!(selected("hero:b,cta:a"), json!({ "hero": "b", "cta": "a", "promo": "default" }));
    let returning = json!({ "hero": "returning", "offer": "big", "cta": "default", "promo": "b" });
    assert_eq!(selected("promo:b,offer:big,hero:returning"), returning);
}

#[test]
fn only_selected_variants_are_sent() {
    let zones = resolve_forced("cta:c,hero:returning,offer:big").json()["layout"]["zones"].clone();
    let offer = json!([node("big")]);
    let hero = json!([{ "id": "r", "type": "Box", "props": {}, "zones": { "offer": offer } }]);
    assert_eq!(zones, json!({ "cta": [node("c")], "hero": hero, "promo": [node("default")] }));
}

#[test]
fn a_layout_has_the_members_of_the_interface() {
    let response = resolve_forced("cta:b");
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
fn the_response_does_not_depend_on_the_client() {
    let plain = resolve_forced("cta:a");
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let target = resolve_target("/pricing", "&variants=cta:a");
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
        assert_eq!(comparable(response), comparable(plain.clone()), "{more} {fields:?}");
    }
}

#[test]
fn an_unknown_pair_selects_the_default_with_a_warning() {
    let response = resolve_forced("zebra:x,hero:nope,cta:b,offer:huge,apple:default");
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
fn the_content_location_of_an_unknown_pair_is_canonical() {
    let unknown = resolve_forced("hero:nope,promo:b,cta:b");
    let location = unknown.field("content-location").expect("a location").to_owned();
    let canonical = SERVER.get().get(&location);
    assert_eq!(comparable(canonical.clone()), comparable(resolve_forced("cta:b,promo:b")));
    assert_eq!(canonical.field("content-location"), None);
    assert_ne!(canonical.field("etag"), unknown.field("etag"));
    let mut body = unknown.json();
    body.as_object_mut().expect("an object").remove("warnings");
    assert_eq!(body, canonical.json());
}

#[test]
fn the_order_of_unknown_pairs_does_not_change_the_response() {
    let one = resolve_forced("x:y,cta:b,hero:nope");
    assert_eq!(comparable(resolve_forced("hero:nope,x:y,cta:b")), comparable(one.clone()));
    assert_ne!(resolve_forced("hero:nope,x:z,cta:b").field("etag"), one.field("etag"));
    assert_ne!(resolve_forced("hero:nope,cta:b").field("etag"), one.field("etag"));
}

#[test]
fn strict_refuses_only_unknown_pairs() {
    for unknown in ["hero:nope", "zebra:x", "cta:b,zebra:x"] {
        let response = resolve_forced(&format!("{unknown}&strict=1"));
        assert_eq!(problem(&response), (400, "unknown_variant".into()), "{unknown}");
        assert_eq!(response.json()["param"], "variants");
        assert_eq!(resolve_forced(&format!("{unknown}&strict=0")).status, 200);
        assert_eq!(resolve_forced(&format!("{unknown}&strict=")).status, 200);
    }
    assert_eq!(comparable(resolve_forced("hero:b,inner:x&strict=1")), comparable(resolve_forced("hero:b")));
}

#[test]
fn a_switch_must_be_1_or_0_even_without_effect() {
    for variants in ["cta:b", "zebra:x"] {
        assert_eq!(
            problem(&resolve_forced(&format!("{variants}&strict=yes"))),
            (400, "invalid_param".into()),
            "{variants}"
        );
    }
    for endpoint in ["resolve", "variants"] {
        let target = format!("/v1/{endpoint}?site=acme&route=/pricing&strict=yes");
        assert_eq!(problem(&SERVER.get().get(&target)), (400, "invalid_param".into()), "{endpoint}");
    }
    assert_eq!(problem(&resolve_forced("cta:b&explain=true")), (400, "invalid_param".into()));
}

#[test]
fn a_malformed_list_of_pairs_is_refused() {
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
        "hero:b,cta",
        "hero:,cta:a",
        "hero:b,:a",
        "zebra:x,zebra:y",
        &format!("{long}:b"),
        &format!("hero:{long}"),
    ] {
        let response = resolve_forced(malformed);
        assert_eq!(problem(&response), (400, "invalid_variants".into()), "{malformed}");
        assert_eq!(response.json()["param"], "variants");
    }
}

#[test]
fn zones_and_keys_have_1_to_64_characters() {
    for length in [1, 63] {
        let name = "z".repeat(length);
        assert_eq!(resolve_forced(&format!("{name}:{name}")).json()["warnings"][0]["zone"], *name);
    }
    let longest = "z".repeat(64);
    let response = SERVER.get().get(&resolve_target("/long", &format!("&variants={longest}:{longest}")));
    assert_eq!(response.json()["variants"], format!("{longest}:{longest}"));
}

#[test]
fn a_list_has_at_most_64_pairs() {
    let list = |n: usize| (0..n).map(|i| format!("z{i:02}:k")).collect::<Vec<_>>().join(",");
    for count in [63, 64] {
        assert_eq!(resolve_forced(&list(count)).json()["warnings"].as_array().map(Vec::len), Some(count));
    }
    assert_eq!(problem(&resolve_forced(&list(65))), (400, "invalid_variants".into()));
}

#[test]
fn a_redirect_is_public_only_with_variants() {
    let server = SERVER.get();
    let response = server.get(&resolve_target("/old", "&variants="));
    let answer = json!({ "type": "redirect", "site": "acme", "route": "/old", "pattern": "/old", "params": {},
        "to": "/pricing", "status": 308 });
    assert_eq!((response.status, response.json()), (200, answer.clone()));
    assert!(
        response.field("cache-control").is_some_and(|c| c.starts_with("public, max-age=0, s-maxage=300"))
    );
    for (endpoint, more) in [("resolve", ""), ("variants", ""), ("variants", "&variants=")] {
        let private = server.get(&resolve_target("/old", more).replace("resolve", endpoint));
        assert_eq!((private.status, private.json()), (200, answer.clone()));
        assert_eq!(private.field("cache-control"), Some("private, no-store"));
    }
}

#[test]
fn the_variants_endpoint_ignores_forced_variants() {
    let target = resolve_target("/pricing", "").replace("resolve", "variants");
    let server = SERVER.get();
    let plain = comparable(server.get(&target));
    assert_eq!(plain.json()["variants"], "promo:b");
    assert_eq!(comparable(server.get(&format!("{target}&variants=hero:b"))), plain);
    assert_eq!(comparable(server.get(&format!("{target}&variants=!"))), plain);
}

/// Returns the canonical form of the requested pairs on `/pricing`.
fn canonical(requested: &[(&str, &str)]) -> String {
    let key = |zone: &str| requested.iter().find(|(z, _)| *z == zone).map_or("default", |(_, key)| *key);
    let is_there = |zone: &str| match zone {
        "inner" => key("hero") == "default",
        "offer" => key("hero") == "returning",
        _ => true,
    };
    let mut pairs: Vec<String> = requested
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
    proptest!(ProptestConfig::with_cases(200), |(requested in pairs())| {
        let text: Vec<String> = requested.iter().map(|(zone, key)| format!("{zone}:{key}")).collect();
        let get = |variants: &str| {
            let target = resolve_target("/pricing", &format!("&variants={variants}"));
            client.borrow_mut().request("GET", &target, &[])
        };
        let response = get(&text.join(","));
        let canonical = canonical(&requested);
        prop_assert_eq!(response.field("x-variants"), Some(&*canonical));
        let body: Value = response.json();
        let selected = body["selected"].as_object().expect("an object");
        for (zone, key) in selected {
            let requested = requested.iter().find(|(z, _)| z == zone).map_or("default", |(_, key)| *key);
            prop_assert_eq!(key.as_str(), Some(requested));
        }
        prop_assert_eq!(comparable(get(&canonical)), comparable(response));
    });
}
