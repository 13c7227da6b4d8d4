//! `now=`: decisions as at another time, on the admin address, for a preview site and in `parallax dev`.

use std::time::{SystemTime, UNIX_EPOCH};

use parallax::testing::events::time;
use serde_json::{Value, json};

use crate::command_line::Workspace;
use crate::harness::{Client, Response, Server};

/// A schedule in the time zone Europe/Berlin, which is UTC+1 in winter.
fn page() -> String {
    let zone = |when: Value| json!({ "default": [], "variants": { "b": [] }, "rules": [{ "when": when, "variant": "b" }] });
    let campaign = json!({ "default": [], "variants": { "b": [] }, "rules": [{
        "when": { "now.at": { "$gte": "2026-12-01T00:00:00Z", "$lt": "2027-01-01T00:00:00Z" } },
        "experiment": { "key": "sale", "variants": ["default", "b"], "weights": [0, 1] } }] });
    let zones = json!({
        "at": zone(json!({ "now.at": { "$gte": "2026-12-24T18:00:00+01:00" } })),
        "date": zone(json!({ "now.date": { "$gte": "2026-12-24", "$lt": "2026-12-27" } })),
        "evening": zone(json!({ "now.hour": { "$gte": 18 } })),
        "thursday": zone(json!({ "now.weekday": 4 })),
        "recent": zone(json!({ "pages./": { "$count": { "$gte": 1, "within": "7d" } } })),
        "campaign": campaign,
    });
    json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string()
}

/// Starts a server with the site `acme` and its preview `acme--draft`.
fn serve_site_and_preview() -> Server {
    let workspace = Workspace::new();
    let about = r#"{"site":"acme","trackingId":"track_acme","name":"Acme","timeZone":"Europe/Berlin"}"#;
    workspace.write("site/site.json", about);
    workspace.write("site/routes/index.json", &page());
    workspace.write("site/routes/old.json", r#"{"path":"/old","redirect":{"to":"/","status":308}}"#);
    workspace.run(&["compile", "site", "-o", "site.snapshot"]).assert_exit(0, &[]);
    workspace.run(&["compile", "site", "-o", "draft.snapshot", "--preview", "draft"]).assert_exit(0, &[]);
    let read = |name: &str| std::fs::read(workspace.path(name)).expect("a snapshot");
    Server::start(
        &[("site.snapshot", &read("site.snapshot")), ("draft.snapshot", &read("draft.snapshot"))],
        &[],
    )
}

/// The places that answer `now`: the address, and the site.
fn places(server: &Server) -> [(std::net::SocketAddr, &'static str); 3] {
    [(server.admin, "acme"), (server.admin, "acme--draft"), (server.edge, "acme--draft")]
}

fn get((address, site): (std::net::SocketAddr, &str), target: &str) -> Response {
    Client::to(address).request("GET", &format!("/v1/{target}&site={site}"), &[])
}

#[track_caller]
fn assert_not_stored(response: &Response) {
    assert_eq!(response.field("cache-control"), Some("no-store"), "{response:?}");
    assert_eq!((response.field("etag"), response.field("cache-tag")), (None, None), "{response:?}");
}

#[test]
fn a_schedule_is_decided_as_at_the_previewed_time() {
    let server = serve_site_and_preview();
    for place in places(&server) {
        for (now, zone, is_on) in [
            ("2026-12-24T16:59:59.999Z", "at", false),
            ("2026-12-24T17:00:00Z", "at", true),
            ("2026-12-24T18:00:00%2B01:00", "at", true),
            ("2026-12-24T11:59:59-05:00", "at", false),
            ("2026-12-24T12:00:00-05:00", "at", true),
            ("2026-12-23T22:59:59.999Z", "date", false),
            ("2026-12-23T23:00:00Z", "date", true),
            ("2026-12-26T22:59:59.999Z", "date", true),
            ("2026-12-26T23:00:00Z", "date", false),
            ("2026-12-24T16:59:59Z", "evening", false),
            ("2026-12-24T17:00:00Z", "evening", true),
            ("2026-06-24T16:00:00Z", "evening", true),
            ("2026-12-24T12:00:00Z", "thursday", true),
            ("2026-12-25T12:00:00Z", "thursday", false),
            ("2026-11-30T23:59:59.999Z", "campaign", false),
            ("2026-12-01T00:00:00Z", "campaign", true),
            ("2026-12-31T23:59:59.999Z", "campaign", true),
            ("2027-01-01T00:00:00Z", "campaign", false),
        ] {
            for endpoint in ["resolve", "variants"] {
                let response = get(place, &format!("{endpoint}?route=/&anonId=v1&now={now}"));
                let selected = if is_on { "b" } else { "default" };
                assert_eq!(response.json()["selected"][zone], selected, "{place:?} {endpoint} {now} {zone}");
                let experiments = if is_on && zone == "campaign" { "sale:b" } else { "" };
                if zone == "campaign" {
                    assert_eq!(response.json()["experiments"], experiments, "{now}");
                }
                assert_not_stored(&response);
            }
        }
    }
}

#[test]
fn the_past_of_a_visitor_is_as_old_as_at_the_previewed_time() {
    let server = serve_site_and_preview();
    let body = br#"{"trackingId":"track_acme","anonId":"v1","properties":{"path":"/"}}"#;
    assert_eq!(server.post("/v1/page", &[], body).json()["accepted"], 1);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let recent = |days: i64| {
        let mut now = Vec::new();
        time::write(&mut now, now_ms + days * 86_400_000);
        let now = String::from_utf8(now).expect("ASCII");
        let response = get((server.admin, "acme"), &format!("variants?route=/&anonId=v1&now={now}"));
        response.json()["selected"]["recent"].clone()
    };
    assert_eq!((recent(6), recent(8)), (json!("b"), json!("default")));
}

#[test]
fn an_explanation_shows_the_previewed_time() {
    let server = serve_site_and_preview();
    for endpoint in ["resolve", "variants"] {
        for more in ["", "&variants="] {
            let target = format!("{endpoint}?route=/&explain=1&now=2026-12-24T23:30:00Z{more}");
            let response = get((server.admin, "acme"), &target);
            let expected =
                json!({ "hour": 0, "weekday": 5, "date": "2026-12-25", "at": 1_798_155_000_000_i64 });
            assert_eq!(response.json()["visitor"]["now"], expected, "{target}");
            assert_not_stored(&response);
        }
    }
    let target = "variants?route=/&explain=1&now=2026-12-24T23:30:00Z";
    assert_eq!(get((server.edge, "acme--draft"), target).code(), "explain_not_allowed");
}

#[test]
fn the_public_address_of_a_live_site_refuses_now() {
    let server = serve_site_and_preview();
    for target in [
        "resolve?route=/",
        "resolve?route=/&variants=",
        "resolve?route=/&variants=at:b",
        "resolve?route=/&override=at:b",
        "resolve?route=/old",
        "resolve?route=/old&variants=",
        "resolve?route=/nowhere&variants=",
        "variants?route=/",
        "variants?route=/&include=combinations",
        "variants?route=/old&include=combinations",
    ] {
        for now in ["2026-12-24T18:00:00Z", "yesterday"] {
            let refused = get((server.edge, "acme"), &format!("{target}&now={now}"));
            assert_eq!((refused.status, &*refused.code()), (403, "now_not_allowed"), "{target}");
            assert_eq!(refused.json()["param"], "now");
            let cache_control = refused.field("cache-control").expect("a policy");
            assert!(!cache_control.contains("public"), "{target}: {cache_control}");
        }
        let response = get((server.edge, "acme"), &format!("{target}&now="));
        assert_ne!(response.status, 403, "an empty value is no value: {target}");
    }
    // Endpoints that decide nothing ignore it, like any other unknown parameter.
    let routes = get((server.edge, "acme"), "routes?now=2026-12-24T18:00:00Z");
    assert_eq!(routes.status, 200);
    assert_eq!(routes.body, get((server.edge, "acme"), "routes?").body);
}

#[test]
fn no_cache_stores_a_response_to_now() {
    let server = serve_site_and_preview();
    for place in places(&server) {
        for target in [
            "resolve?route=/",
            "resolve?route=/&variants=",
            "resolve?route=/&variants=at:b",
            "resolve?route=/&variants=at:unknown",
            "resolve?route=/&override=at:b",
            "resolve?route=/old",
            "resolve?route=/old&variants=",
            "variants?route=/",
            "variants?route=/&include=combinations",
            "variants?route=/old",
            "variants?route=/old&include=combinations",
        ] {
            let before = get(place, target);
            let previewed = get(place, &format!("{target}&now=2026-12-24T18:00:00Z"));
            assert_eq!((before.status, previewed.status), (200, 200), "{target}");
            assert_not_stored(&previewed);
            let after = get(place, target);
            assert_eq!((after.field("etag"), &after.body), (before.field("etag"), &before.body), "{target}");
        }
        for (target, code) in [
            ("resolve?route=/nowhere&variants=", "route_not_found"),
            ("variants?route=/nowhere&include=combinations", "route_not_found"),
            ("resolve?route=/&variants=a", "invalid_variants"),
        ] {
            let refused = get(place, &format!("{target}&now=2026-12-24T18:00:00Z"));
            assert_eq!(refused.code(), code);
            assert!(!refused.field("cache-control").expect("a policy").contains("public"), "{refused:?}");
        }
    }
}

#[test]
fn now_is_an_instant_of_rfc_3339_from_2020_to_2099() {
    let server = serve_site_and_preview();
    for place in [(server.admin, "acme"), (server.edge, "acme--draft")] {
        for now in [
            "2020-01-01T00:00:00Z",
            "2020-01-01T00:00:00.001Z",
            "2019-12-31T23:00:00-01:00",
            "2099-12-31T23:59:59Z",
            "2099-12-31T23:59:59.999Z",
            "2026-12-24t18:00:00z",
            "2026-12-24T18:00:00.5Z",
            "2026-12-24T18%3A00%3A00%2B05%3A30",
            "2028-02-29T00:00:00Z",
        ] {
            assert_eq!(get(place, &format!("variants?route=/&now={now}")).status, 200, "{now}");
        }
        for now in [
            "2019-12-31T23:59:59.999Z",
            "2100-01-01T00:00:00Z",
            "2100-01-01T00:59:59%2B00:00",
            "2026-12-24",
            "2026-12-24T18:00",
            "2026-12-24T18:00Z",
            "2026-12-24T18:00:00",
            "2026-12-24T18:00:00.000",
            "2026-12-24T18:00:00+01:00",
            "2026-12-24%2018:00:00Z",
            "2026-12-24T18:00:00%2B0100",
            "2026-12-24T18:00:00%2B01",
            "2026-12-24T18:00:00,5Z",
            "2026-12-24T24:00:00Z",
            "2026-13-24T18:00:00Z",
            "2027-02-29T00:00:00Z",
            "2026-1-2T18:00:00Z",
            "1798131600",
            "1798131600000",
            "tomorrow",
            "Z",
            "2026-12-24T18:00:00ZZ",
            "%00",
            "%C3%BC",
        ] {
            let refused = get(place, &format!("variants?route=/&now={now}"));
            assert_eq!((refused.status, &*refused.code()), (400, "invalid_param"), "{now}");
            assert_eq!(refused.json()["param"], "now");
            assert!(refused.text().contains("2026-12-24T19:00:00%2B01:00"), "{}", refused.text());
        }
    }
}
