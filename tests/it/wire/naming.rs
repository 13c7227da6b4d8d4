//! The site of a request, the parsing of the query string, and the order of checks.

use serde_json::json;

use super::{SharedServer, comparable, compile_site, page, problem, site_file};
use crate::harness::{Client, Server};

static SERVER: SharedServer = SharedServer::new(|| {
    let routes = [page("/", json!({})), page("/two words", json!({})), page("/a+b", json!({}))];
    let acme = compile_site(&site_file("acme", json!({})), &routes, 7);
    let beta = compile_site(&site_file("beta", json!({})), &routes, 1);
    Server::start(&[("acme.snapshot", &acme), ("beta.snapshot", &beta)], &[])
});

const ENDPOINTS: [&str; 3] = ["/v1/resolve", "/v1/variants", "/v1/routes"];

fn get_problem(target: &str) -> (u16, String) {
    problem(&SERVER.get().get(target))
}

#[test]
fn a_site_is_named_by_its_id_its_tracking_id_or_both() {
    let server = SERVER.get();
    for endpoint in ENDPOINTS {
        let get = |name: &str| comparable(server.get(&format!("{endpoint}?{name}&route=/")));
        let by_site = get("site=acme");
        assert_eq!(by_site.status, 200);
        assert_eq!(by_site.json()["site"], "acme");
        assert_eq!(get("trackingId=track_acme"), by_site);
        assert_eq!(get("trackingId=track_acme&site=acme"), by_site);
        assert_ne!(get("site=beta").body, by_site.body);
    }
}

#[test]
fn a_request_without_a_site_is_refused() {
    for query in ["route=/", "site=&route=/", "trackingId=&site=&route=/", ""] {
        for endpoint in ENDPOINTS {
            assert_eq!(get_problem(&format!("{endpoint}?{query}")), (400, "missing_site".into()), "{query}");
        }
    }
}

#[test]
fn an_empty_id_counts_as_absent() {
    let server = SERVER.get();
    assert_eq!(server.get("/v1/resolve?trackingId=&site=acme&route=/").status, 200);
    assert_eq!(server.get("/v1/resolve?trackingId=track_acme&site=&route=/").status, 200);
}

#[test]
fn a_tracking_id_has_a_prefix_and_1_to_64_characters() {
    let of_length = |n: usize| format!("/v1/resolve?trackingId=track_{}&route=/", "a".repeat(n));
    for well_formed in [1, 63, 64] {
        assert_eq!(get_problem(&of_length(well_formed)), (404, "site_not_found".into()), "{well_formed}");
    }
    for malformed in [0, 65] {
        assert_eq!(get_problem(&of_length(malformed)), (400, "invalid_tracking_id".into()), "{malformed}");
    }
    for malformed in ["acme", "Track_acme", "track-acme", "track_a%20b", "track_a.b", "track_%C3%A4"] {
        let target = format!("/v1/resolve?trackingId={malformed}&route=/");
        let response = SERVER.get().get(&target);
        assert_eq!(problem(&response), (400, "invalid_tracking_id".into()), "{malformed}");
        assert_eq!(response.json()["param"], "trackingId");
    }
    assert_eq!(get_problem(&of_length(65).replace("&route", "&site=acme&route")).1, "invalid_tracking_id");
}

#[test]
fn ids_of_two_different_sites_are_refused() {
    for site in ["beta", "unheard-of"] {
        let target = format!("/v1/resolve?trackingId=track_acme&site={site}&route=/");
        assert_eq!(get_problem(&target), (400, "site_mismatch".into()));
    }
}

#[test]
fn an_unpublished_site_is_not_found_on_either_address() {
    let server = SERVER.get();
    for endpoint in ["/v1/resolve", "/v1/variants"] {
        for name in ["site=gamma", "trackingId=track_gamma", "trackingId=track_gamma&site=acme"] {
            let target = format!("{endpoint}?{name}&route=/");
            assert_eq!(problem(&server.get(&target)), (404, "site_not_found".into()), "{target}");
            assert_eq!(problem(&server.admin_get(&target)), (404, "site_not_found".into()), "{target}");
        }
    }
}

#[test]
fn checks_run_in_order_endpoint_method_query_site_parameters() {
    let server = SERVER.get();
    let post = |target: &str| problem(&Client::to(server.edge).request("POST", target, &[]));
    assert_eq!(post("/v1/nothing?site=x&site=y").1, "unknown_endpoint");
    assert_eq!(post("/v1/resolve?site=x&site=y").1, "method_not_allowed");
    assert_eq!(get_problem("/v1/resolve?site=x&site=y").1, "repeated_param");
    assert_eq!(get_problem("/v1/resolve?site=gamma&explain=2").1, "site_not_found");
    assert_eq!(get_problem("/v1/resolve?site=gamma").1, "site_not_found");
    assert_eq!(get_problem("/v1/routes?site=gamma&limit=0").1, "site_not_found");
    assert_eq!(get_problem("/v1/resolve?site=acme&variants=!").1, "missing_route");
    assert_eq!(get_problem("/v1/resolve?site=acme&route=/no&variants=!").1, "route_not_found");
}

#[test]
fn a_known_parameter_may_not_be_repeated() {
    for (target, param) in [
        ("/v1/resolve?site=acme&route=/&route=/", "route"),
        ("/v1/resolve?site=acme&route=/&%72oute=/", "route"),
        ("/v1/resolve?site=acme&site=acme&route=/", "site"),
        ("/v1/resolve?site=acme&route=/&variants&variants", "variants"),
        ("/v1/variants?site=acme&route=/&anonId=&anonId=a", "anonId"),
        ("/v1/routes?site=acme&limit=1&limit=1", "limit"),
    ] {
        let response = SERVER.get().get(target);
        assert_eq!(problem(&response), (400, "repeated_param".into()), "{target}");
        assert_eq!(response.json()["param"], param);
    }
}

#[test]
fn unknown_parameters_are_ignored_even_if_repeated() {
    let server = SERVER.get();
    let plain = comparable(server.get("/v1/resolve?site=acme&route=/"));
    for more in ["&utm_source=x&utm_source=y", "&_=17&Route=/x", "&&&=&=1", "&__proto__=1&route%5B%5D=/x"] {
        assert_eq!(comparable(server.get(&format!("/v1/resolve?site=acme&route=/{more}"))), plain, "{more}");
    }
}

#[test]
fn a_value_that_is_not_utf_8_is_refused() {
    for query in ["route=/%FF", "route=/&anonId=%C3", "route=/&url=%ED%A0%80", "route=%C0%AF"] {
        let target = format!("/v1/resolve?site=acme&{query}");
        assert_eq!(get_problem(&target), (400, "invalid_query".into()), "{query}");
    }
}

#[test]
fn values_and_names_are_form_decoded_once() {
    let server = SERVER.get();
    let route = |query: &str| server.get(&format!("/v1/resolve?{query}")).json()["route"].clone();
    assert_eq!(route("site=acme&route=/two+words"), "/two words");
    assert_eq!(route("site=acme&route=%2Ftwo%20words"), "/two words");
    assert_eq!(route("s%69te=%61cme&%72oute=/"), "/");
    assert_eq!(route("site=acme&route=/a%2Bb"), "/a+b");
    assert_eq!(route("route=/&site=acme"), "/");
    assert_eq!(get_problem("/v1/resolve?site=acme&route=/a+b").1, "route_not_found");
    assert_eq!(get_problem("/v1/resolve?site=acme;route=/").1, "site_not_found");
}

#[test]
fn the_reserved_parameter_v_changes_nothing() {
    let server = SERVER.get();
    for target in [
        "/v1/resolve?site=acme&route=/",
        "/v1/resolve?site=acme&route=/&variants=",
        "/v1/resolve?site=acme&route=/&variants=no:such",
        "/v1/resolve?site=acme&route=/nowhere&variants=",
        "/v1/variants?site=acme&route=/",
        "/v1/variants?site=acme&route=/&include=combinations",
        "/v1/routes?site=acme",
        "/v1/openapi.json?x",
    ] {
        let plain = comparable(server.get(target));
        for v in ["v=1", "v=", "v", "v=1&v=2&v=3", "v=%FF", "%76=1&v=%zz"] {
            assert_eq!(comparable(server.get(&format!("{target}&{v}"))), plain, "{target} {v}");
        }
    }
}

#[test]
fn an_empty_parameter_counts_as_absent_except_variants_of_resolve() {
    let server = SERVER.get();
    let optional = ["anonId", "userId", "personalize", "override", "strict", "explain", "url", "referrer"];
    let context = ["userAgent", "locale", "country"];
    let empty: String = optional.iter().chain(&context).map(|name| format!("&{name}=")).collect();
    for (target, more) in [
        ("/v1/resolve?site=acme&route=/", "&include="),
        ("/v1/variants?site=acme&route=/", "&include=&variants="),
        ("/v1/resolve?site=acme&route=/&variants=", "&include="),
        ("/v1/routes?site=acme", "&prefix=&since=&limit=&cursor=&include="),
    ] {
        let plain = comparable(server.get(target));
        assert_eq!(plain.status, 200);
        let with = server.get(&format!("{target}{more}{empty}&trackingId="));
        assert_eq!(comparable(with), plain, "{target}");
    }
    let decided = server.get("/v1/resolve?site=acme&route=/");
    assert_eq!(decided.field("cache-control"), Some("private, no-store"));
    for variants in ["&variants=", "&variants"] {
        let forced = server.get(&format!("/v1/resolve?site=acme&route=/{variants}"));
        assert!(forced.field("cache-control").is_some_and(|value| value.starts_with("public, ")));
    }
}
