//! `GET /v1/site`: the settings that a client of the site needs.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use super::{SharedServer, compile_site, page, problem, site_file};
use crate::harness::{Client, Server};

static SERVER: SharedServer = SharedServer::new(|| {
    let origins: Vec<String> = (0..40).map(|i| format!("https://www{i}.brand.example")).collect();
    let authored = json!({ "cookie": "visitor", "origins": origins, "privacy": { "honorGpc": true, "ip": "full",
        "consentCategories": { "measure": "Analytics", "personalize": ["Ads", "Functional"] } },
        "cache": { "resolve": { "sMaxAge": 7 }, "routes": { "sMaxAge": 8, "staleWhileRevalidate": 9, "staleIfError": 0 } } });
    let routes = [page("/", json!({}))];
    let acme = compile_site(&site_file("acme", json!({})), &routes, 42);
    let brand = compile_site(&site_file("brand", authored), &routes, 3);
    Server::start(&[("acme.snapshot", &acme), ("brand.snapshot", &brand)], &[])
});

#[test]
fn the_response_has_the_settings_in_the_order_of_the_interface() {
    let response = SERVER.get().get("/v1/site?site=acme");
    let expected = r#"{"site":"acme","trackingId":"track_acme","cookie":"anon_id","origins":[],"privacy":{"honorGpc":false},"cache":{"resolve":{"sMaxAge":300,"staleWhileRevalidate":3600,"staleIfError":86400},"query":{"sMaxAge":60,"staleWhileRevalidate":3600,"staleIfError":86400},"routes":{"sMaxAge":60,"staleWhileRevalidate":600,"staleIfError":86400}},"preview":null}"#;
    assert_eq!((response.status, response.text()), (200, expected));
    let brand = SERVER.get().get("/v1/site?trackingId=track_brand").json();
    let categories = json!({ "measure": ["Analytics"], "personalize": ["Ads", "Functional"] });
    let privacy = json!({ "honorGpc": true, "consentCategories": categories });
    assert_eq!((&brand["cookie"], &brand["privacy"]), (&json!("visitor"), &privacy));
    assert_eq!(brand["origins"].as_array().map(Vec::len), Some(40));
    assert_eq!(
        brand["cache"]["resolve"],
        json!({ "sMaxAge": 7, "staleWhileRevalidate": 3600, "staleIfError": 86400 })
    );
    assert_eq!(
        brand["cache"]["routes"],
        json!({ "sMaxAge": 8, "staleWhileRevalidate": 9, "staleIfError": 0 })
    );
}

#[test]
fn the_response_is_public_with_the_cache_times_of_routes() {
    let server = SERVER.get();
    let fields =
        [("X-Request-Id", "mine"), ("Origin", "https://elsewhere.example"), ("Cookie", "anon_id=v1")];
    let response = server.get_with("/v1/site?site=acme&anonId=v1&prefix=/x&v=1", &fields);
    for (name, value) in [
        ("cache-control", "public, max-age=0, s-maxage=60, stale-while-revalidate=600, stale-if-error=86400"),
        ("cache-tag", "acme"),
        ("surrogate-key", "acme"),
        ("x-version", "42"),
        ("access-control-allow-origin", "*"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(response.field(name), Some(value), "{name}");
    }
    assert_ne!(response.field("x-request-id"), Some("mine"));
    assert_eq!((response.field("vary"), response.field("set-cookie")), (None, None));
    assert_eq!(response.body, server.get("/v1/site?site=acme").body);
    let brand = server.get("/v1/site?site=brand");
    let authored = "public, max-age=0, s-maxage=8, stale-while-revalidate=9, stale-if-error=0";
    assert_eq!(brand.field("cache-control"), Some(authored));
}

#[test]
fn the_response_has_an_etag_and_is_available_in_gzip() {
    let server = SERVER.get();
    let plain = server.get("/v1/site?site=brand");
    let packed = server.get_with("/v1/site?site=brand", &[("Accept-Encoding", "gzip")]);
    assert_eq!(
        (plain.field("vary"), packed.field("content-encoding")),
        (Some("Accept-Encoding"), Some("gzip"))
    );
    let mut text = Vec::new();
    GzDecoder::new(&packed.body[..]).read_to_end(&mut text).expect("gzip");
    assert_eq!(text, plain.body);
    let etag = plain.field("etag").expect("an ETag");
    assert_ne!(packed.field("etag"), Some(etag));
    assert_eq!(server.get_with("/v1/site?site=brand", &[("If-None-Match", etag)]).status, 304);
    assert_eq!(server.get_with("/v1/site?site=acme", &[("If-None-Match", etag)]).status, 200);
    let head = Client::to(server.edge).request("HEAD", "/v1/site?site=brand", &[]);
    assert_eq!((head.status, head.field("etag")), (200, Some(etag)));
}

#[test]
fn a_request_without_a_published_site_is_refused() {
    let server = SERVER.get();
    assert_eq!(problem(&server.get("/v1/site")), (400, "missing_site".into()));
    assert_eq!(problem(&server.get("/v1/site?site=none")), (404, "site_not_found".into()));
    assert_eq!(problem(&server.post("/v1/site?site=acme", &[], b"")), (405, "method_not_allowed".into()));
}
