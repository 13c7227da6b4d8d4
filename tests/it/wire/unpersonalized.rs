//! `personalize=0` and `Sec-GPC: 1`: the decision is that for a new visitor without an ID.

use serde_json::{Value, json};

use super::{SharedServer, compile_site, page, problem, site_file, zone};
use crate::harness::{Client, Response, Server};

/// The site `honoring` honors `Sec-GPC`, and `acme` does not.
static SERVER: SharedServer = SharedServer::new(|| {
    let rules = json!([
        { "when": { "traits.plan": "pro" }, "variant": "pro" },
        { "experiment": { "key": "e", "variants": ["b"], "weights": [1] } },
        { "when": { "country": "NO" }, "variant": "norwegian" },
    ]);
    let routes = [page("/", json!({ "hero": zone(&["pro", "b", "norwegian"], rules) }))];
    let honoring = site_file("honoring", json!({ "privacy": { "honorGpc": true } }));
    let snapshots = [
        ("acme.snapshot", &*compile_site(&site_file("acme", json!({})), &routes, 1)),
        ("honoring.snapshot", &*compile_site(&honoring, &routes, 1)),
    ];
    let server = Server::start(&snapshots, &[]);
    for site in ["acme", "honoring"] {
        let event = json!({ "anonId": "known", "userId": "u1", "traits": { "plan": "pro" } });
        let receipt = server.post(&format!("/v1/track?site={site}"), &[], event.to_string().as_bytes());
        assert_eq!(receipt.json()["accepted"], 1, "{}", receipt.text());
    }
    server
});

fn decide(site: &str, query: &str, fields: &[(&str, &str)]) -> Response {
    SERVER.get().get_with(&format!("/v1/variants?site={site}&route=/{query}"), fields)
}

fn hero(site: &str, query: &str, fields: &[(&str, &str)]) -> Value {
    decide(site, query, fields).json()["selected"]["hero"].clone()
}

const IDS: [&str; 3] = ["&anonId=known", "&userId=u1", "&anonId=known&userId=u1"];

#[test]
fn personalize_0_decides_by_rules_about_the_request_only() {
    for id in IDS {
        assert_eq!(hero("acme", id, &[]), "pro", "{id}");
        assert_eq!(hero("acme", &format!("{id}&personalize=1"), &[]), "pro");
        assert_eq!(hero("acme", &format!("{id}&personalize="), &[]), "pro");
        assert_eq!(hero("acme", &format!("{id}&personalize=0"), &[]), "default");
        let norwegian = decide("acme", &format!("{id}&personalize=0&country=NO"), &[]);
        assert_eq!(norwegian.json()["selected"]["hero"], "norwegian");
        assert_eq!(norwegian.field("x-experiments"), Some(""));
        assert_eq!(norwegian.field("cache-control"), Some("private, no-store"));
    }
    assert_eq!(hero("acme", "&personalize=0", &[("Cookie", "anon_id=known")]), "default");
    assert_eq!(hero("acme", "&anonId=other", &[]), "b");
}

#[test]
fn personalize_must_be_1_or_0() {
    for wrong in ["2", "no", "false", "%20"] {
        for endpoint in ["resolve", "variants"] {
            let target = format!("/v1/{endpoint}?site=acme&route=/&personalize={wrong}");
            let response = SERVER.get().get(&target);
            assert_eq!(problem(&response), (400, "invalid_param".into()), "{target}");
            assert_eq!(response.json()["param"], "personalize");
        }
    }
    let malformed = decide("acme", "&anonId=%20&personalize=0", &[]);
    assert_eq!(problem(&malformed), (400, "invalid_anon_id".into()));
}

#[test]
fn sec_gpc_has_the_same_effect_at_a_site_that_honors_it() {
    for id in IDS {
        assert_eq!(hero("honoring", id, &[("Sec-GPC", "1")]), "default", "{id}");
        assert_eq!(hero("honoring", id, &[("Sec-GPC", "0")]), "pro");
        assert_eq!(hero("acme", id, &[("Sec-GPC", "1")]), "pro");
    }
    let explained = Client::to(SERVER.get().admin).request(
        "GET",
        "/v1/resolve?site=honoring&route=/&anonId=known&explain=1",
        &[("Sec-GPC", "1")],
    );
    let visitor = explained.json()["visitor"].clone();
    assert_eq!((&visitor["anonId"], &visitor["visitor"]["isNew"]), (&json!(null), &json!(true)));
    assert_eq!((&visitor["traits"], &visitor["visitor"]["userId"]), (&json!({}), &json!(null)));
}

#[test]
fn personalize_0_does_not_change_a_public_response() {
    let target = "/v1/resolve?site=acme&route=/&variants=hero:b";
    let plain = super::comparable(SERVER.get().get(target));
    let with = SERVER.get().get_with(&format!("{target}&personalize=0"), &[("Sec-GPC", "1")]);
    assert_eq!(super::comparable(with), plain);
}
