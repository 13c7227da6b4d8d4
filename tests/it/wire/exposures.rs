//! `experiments`: the experiments that decided the zones of a private response.

use parallax::testing::limits::EXPERIMENTS_BYTES_MAX;
use serde_json::{Value, json};

use super::{SharedServer, node, page, start_server, zone};
use crate::harness::{Client, Response};

/// An experiment with two arms. The first one is the control.
fn experiment(key: &str) -> Value {
    json!({ "experiment": { "key": key, "variants": ["default", "b"] } })
}

/// On `/` the zones `one` and `two` belong to one experiment, and `inner` is in the variant `b` of `outer`.
/// `/split` has an experiment that half of the visitors take part in.
static SERVER: SharedServer = SharedServer::new(|| {
    let inner = zone(&["b"], json!([experiment("aa-inner")]));
    let outer = json!({
        "default": [],
        "variants": { "b": [{ "id": "x", "type": "Box", "props": {}, "zones": { "inner": inner } }] },
        "rules": [experiment("outer")],
    });
    let twins = || zone(&["b"], json!([experiment("twins")]));
    let split =
        json!({ "experiment": { "key": "split", "variants": ["default", "default"], "coverage": 0.5 } });
    start_server(&[
        page("/", json!({ "one": twins(), "two": twins(), "outer": outer })),
        page("/split", json!({ "z": zone(&["b"], json!([split])) })),
        page("/plain", json!({ "main": [node("m")] })),
    ])
});

fn decide(query: &str, fields: &[(&str, &str)]) -> Response {
    let response = SERVER.get().get_with(&format!("/v1/variants?site=acme&{query}"), fields);
    assert_eq!(response.status, 200, "{}", response.text());
    response
}

/// Returns `experiments`, which the body and the header agree on.
fn experiments(response: &Response) -> String {
    let text = response.field("x-experiments").expect("a header");
    assert_eq!(response.json()["experiments"], text);
    text.to_owned()
}

#[test]
fn each_experiment_is_listed_once_and_only_for_present_zones() {
    let mut arms = std::collections::BTreeSet::new();
    for n in 0..100 {
        let response = decide(&format!("route=/&anonId=v{n}"), &[]);
        let selected = response.json()["selected"].clone();
        assert_eq!(selected["one"], selected["two"]);
        let pair = |key: &str, zone: &str| selected[zone].as_str().map(|variant| format!("{key}:{variant}"));
        let pairs = [pair("aa-inner", "inner"), pair("outer", "outer"), pair("twins", "one")];
        let expected = pairs.into_iter().flatten().collect::<Vec<_>>().join(",");
        assert_eq!(experiments(&response), expected);
        arms.insert(expected);
    }
    assert_eq!(arms.len(), 6, "{arms:?}");
}

#[test]
fn without_an_experiment_the_text_is_empty() {
    const CRAWLER: &[(&str, &str)] = &[("User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)")];
    for (query, fields) in [
        ("route=/", &[][..]),
        ("route=/&anonId=undefined", &[]),
        ("route=/&anonId=v1", CRAWLER),
        ("route=/plain&anonId=v1", &[]),
    ] {
        assert_eq!(experiments(&decide(query, fields)), "", "{query} {fields:?}");
    }
}

#[test]
fn the_decision_for_a_crawler_ends_with_a_mark() {
    let crawler = [("User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)")];
    let marked = decide("route=/plain", &crawler);
    assert!(marked.text().ends_with(",\"experiments\":\"\",\"crawler\":true}"), "{}", marked.text());
    let ordinary = decide("route=/plain", &[]);
    assert_eq!(ordinary.json().get("crawler"), None);
    assert_ne!(marked.field("etag"), ordinary.field("etag"));
    let target = "/v1/variants?site=acme&route=/plain&explain=1";
    let explained = Client::to(SERVER.get().admin).request("GET", target, &crawler);
    assert!(explained.text().ends_with(",\"crawler\":true}"), "{}", explained.text());
    let resolved = SERVER.get().get_with("/v1/resolve?site=acme&route=/plain", &crawler);
    assert_eq!(resolved.json().get("crawler"), None);
}

#[test]
fn public_responses_list_no_experiments() {
    for target in [
        "/v1/resolve?site=acme&route=/&variants=&anonId=v1",
        "/v1/resolve?site=acme&route=/&variants=no:such&anonId=v1",
        "/v1/variants?site=acme&route=/&include=combinations&anonId=v1",
    ] {
        let response = SERVER.get().get(target);
        assert_eq!(response.field("x-experiments"), None, "{target}");
        assert_eq!(response.json().get("experiments"), None, "{target}");
    }
    // Nothing is decided here either.
    let explained = SERVER.get().admin_get("/v1/resolve?site=acme&route=/&variants=&anonId=v1&explain=1");
    assert_eq!((explained.field("x-experiments"), explained.json().get("experiments")), (None, None));
}

#[test]
fn the_etag_covers_the_experiments() {
    for endpoint in ["resolve", "variants"] {
        let mut tags = std::collections::BTreeMap::new();
        for n in 0..40 {
            let response = SERVER.get().get(&format!("/v1/{endpoint}?site=acme&route=/split&anonId=v{n}"));
            assert_eq!(response.json()["variants"], "");
            let tag = response.field("etag").expect("a tag").to_owned();
            assert_eq!(*tags.entry(experiments(&response)).or_insert(tag.clone()), tag);
        }
        let (texts, tags): (Vec<_>, std::collections::BTreeSet<_>) = tags.into_iter().unzip();
        assert_eq!((&texts[..], tags.len()), (&["".to_owned(), "split:default".to_owned()][..], 2));
        let target = format!("/v1/{endpoint}?site=acme&route=/split&anonId=v1");
        let tag = SERVER.get().get(&target).field("etag").expect("a tag").to_owned();
        let unchanged = SERVER.get().get_with(&target, &[("If-None-Match", &tag)]);
        assert_eq!(unchanged.status, 304);
        assert!(unchanged.field("x-experiments").is_some());
    }
}

#[test]
fn the_longest_text_has_64_pairs_or_2048_bytes_and_events_accept_it() {
    // With the control arm the canonical string is empty, so its limit does not count.
    let control = |key: &str| zone(&[], json!([{ "experiment": { "key": key, "variants": ["default"] } }]));
    let page_of = |path: &str, keys: &[String]| {
        let zones = keys.iter().enumerate().map(|(n, key)| (format!("z{n:02}"), control(key)));
        page(path, Value::Object(zones.collect()))
    };
    // 64 pairs of 32 bytes with their commas, and one byte more.
    let longest: Vec<String> =
        (0..64).map(|n| if n == 0 { "e".repeat(24) } else { format!("f{n:022}") }).collect();
    let most: Vec<String> = (0..64).map(|n| format!("e{n:02}")).collect();
    let pages = [("/63", longest[1..].to_vec()), ("/longest", longest), ("/most", most)];
    let server = start_server(&pages.each_ref().map(|(path, keys)| page_of(path, keys)));
    for (path, keys) in pages {
        let response = server.get(&format!("/v1/resolve?site=acme&route={path}&anonId=v1"));
        let expected = keys.iter().map(|key| format!("{key}:default")).collect::<Vec<_>>().join(",");
        assert_eq!(expected.len() == EXPERIMENTS_BYTES_MAX, path == "/longest");
        assert_eq!(experiments(&response), expected);
        let event = json!({ "anonId": "v1", "event": "e", "experiments": expected });
        let receipt = server.post("/v1/track?site=acme", &[], event.to_string().as_bytes());
        assert_eq!(receipt.json()["accepted"], 1, "{}", receipt.text());
    }
}
