//! Traits that a site marks as private.

use std::fs;

use serde_json::json;

use super::{ACCESS, send, with_token};
use crate::harness::{Server, eventually, snapshot};

const SECRET: &str = "anna@acme.example";

/// A site with two searchable traits, of which `email` is private.
fn site_with_private_trait(id: &str) -> Vec<u8> {
    let site = json!({ "site": id, "trackingId": format!("track_{id}"), "name": id,
        "searchable": ["email", "plan"], "private": ["email"] });
    let zone = json!({ "default": [], "variants": { "known": [] },
        "rules": [{ "when": { "traits.email": { "$exists": true } }, "variant": "known" }] });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "hero": zone } } });
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", &page.to_string())], 1)
}

/// Records an identified visitor with both traits, and a page view.
fn record_visitor(server: &Server) {
    let events = [
        (
            "/v1/track",
            json!({ "type": "identify", "anonId": "anna-1", "userId": "u1", "traits": { "email": SECRET, "plan": "gold" } }),
        ),
        ("/v1/page", json!({ "anonId": "anna-1", "properties": { "path": "/" }, "variants": "hero:known" })),
    ];
    for (target, event) in &events {
        let response = server.post(&format!("{target}?site=acme"), &[], event.to_string().as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }
}

#[test]
fn an_analyst_sees_no_private_trait_anywhere() {
    let path = ACCESS.0.path().join("access.toml");
    let flags = ["--access", path.to_str().expect("UTF-8")];
    let server = Server::start(&[("acme.snapshot", &site_with_private_trait("acme"))], &flags);
    record_visitor(&server);
    let [analyst, privacy] = [1, 2].map(|role| &ACCESS.1[role]);
    let records = with_token(&server, "GET", "/visitors/records?site=acme&anonId=anna-1", privacy).json();
    let page = &records["records"][0];
    assert_eq!(page["type"], json!("page"), "{records}");
    let seq = page["seq"].as_str().expect("a seq").to_owned();
    for target in [
        "/visitors?site=acme&anonId=anna-1".to_owned(),
        "/visitors/records?site=acme&anonId=anna-1".to_owned(),
        format!("/visitors/explain?site=acme&anonId=anna-1&seq={seq}"),
        "/insights/visitors?site=acme".to_owned(),
        "/v1/variants?site=acme&route=/&anonId=anna-1&explain=1".to_owned(),
        "/v1/resolve?site=acme&route=/&anonId=anna-1&explain=1".to_owned(),
    ] {
        for accept in ["application/json", "text/csv"] {
            let [hidden, shown] = [analyst, privacy].map(|token| {
                let response = send(
                    &server,
                    "GET",
                    &target,
                    &[("Authorization", &format!("Bearer {token}")), ("Accept", accept)],
                );
                assert_eq!(response.status, 200, "{target}: {}", response.text());
                response.text().to_owned()
            });
            assert!(shown.contains(SECRET) && shown.contains("gold"), "{target}: {shown}");
            assert!(!hidden.contains(SECRET) && hidden.contains("gold"), "{target}: {hidden}");
        }
    }
    let search = |token: &str, value: &str| {
        send(
            &server,
            "GET",
            "/insights/visitors?site=acme",
            &[("Authorization", &format!("Bearer {token}")), ("X-Visitor", value)],
        )
        .status
    };
    let email = format!("email={SECRET}");
    assert_eq!(
        [search(analyst, &email), search(privacy, &email), search(analyst, "plan=gold")],
        [400, 200, 200]
    );
    let searchable =
        |token: &str| with_token(&server, "GET", "/sites", token).json()["sites"][0]["searchable"].clone();
    assert_eq!([searchable(analyst), searchable(privacy)], [json!(["plan"]), json!(["email", "plan"])]);
    // Nobody knows which traits are private after the site was withdrawn.
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    eventually("the site is withdrawn", || (server.get("/v1/routes?site=acme").status == 404).then_some(()));
    let traits = |token: &str| {
        with_token(&server, "GET", "/visitors?site=acme&anonId=anna-1", token).json()["profile"]["traits"]
            .clone()
    };
    assert_eq!([traits(analyst), traits(privacy)], [json!({}), json!({ "email": SECRET, "plan": "gold" })]);
}
