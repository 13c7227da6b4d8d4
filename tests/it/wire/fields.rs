//! Header fields of responses: caching, request IDs, timing, dates, versions and cache tags.

use serde_json::json;

use super::{SharedServer, acme_snapshot, comparable, compile_site, page, resolve_target, site_file, zone};
use crate::harness::{Client, Response, Server};

static SERVER: SharedServer = SharedServer::new(|| {
    let everyone = json!([{ "when": {}, "variant": "b" }]);
    let routes = [page("/", json!({ "hero": zone(&["b"], everyone) })), page("/:name", json!({}))];
    let cache = json!({
        "resolve": { "sMaxAge": 7, "staleIfError": 0 },
        "routes": { "sMaxAge": 1, "staleWhileRevalidate": 2, "staleIfError": 3 },
    });
    let own = compile_site(&site_file("own", json!({ "cache": cache })), &routes, 1 << 53);
    Server::start(&[("acme.snapshot", &acme_snapshot(&routes)), ("own.snapshot", &own)], &[])
});

const LAYOUT: &str = "/v1/resolve?site=acme&route=/&variants=";
const PERSONAL: &str = "/v1/resolve?site=acme&route=/";

fn cache_control(target: &str) -> String {
    SERVER.get().get(target).field("cache-control").expect("a Cache-Control").to_owned()
}

#[test]
fn every_kind_of_response_has_its_cache_control() {
    let layouts = "public, max-age=0, s-maxage=300, stale-while-revalidate=3600, stale-if-error=86400";
    let lists = "public, max-age=0, s-maxage=60, stale-while-revalidate=600, stale-if-error=86400";
    for (target, expected) in [
        ("/v1/routes?site=acme", lists),
        ("/v1/routes?site=acme&include=variants", lists),
        ("/v1/variants?site=acme&route=/&include=combinations", lists),
        ("/v1/resolve?site=acme&route=/&variants", layouts),
        ("/v1/resolve?site=acme&route=/&variants=hero:b", layouts),
        ("/v1/resolve?site=acme&route=/&variants=hero:x", "public, max-age=0, s-maxage=5"),
        ("/v1/resolve?site=acme&route=/", "private, no-store"),
        ("/v1/variants?site=acme&route=/&anonId=v1", "private, no-store"),
        ("/v1/resolve?site=acme", "no-store"),
        ("/v1/resolve?site=gamma&route=/", "no-store"),
        ("/v1/nothing", "no-store"),
        ("/v1/resolve?site=acme&route=/not/published", "no-store"),
        ("/v1/resolve?site=acme&route=/not/published&variants=", "public, s-maxage=10"),
        ("/v1/routes?site=gamma", "public, s-maxage=10"),
    ] {
        assert_eq!(cache_control(target), expected, "{target}");
    }
}

#[test]
fn a_site_may_set_its_cache_times() {
    let layouts = "public, max-age=0, s-maxage=7, stale-while-revalidate=3600, stale-if-error=0";
    let lists = "public, max-age=0, s-maxage=1, stale-while-revalidate=2, stale-if-error=3";
    assert_eq!(cache_control("/v1/resolve?site=own&route=/&variants="), layouts);
    assert_eq!(cache_control("/v1/routes?site=own"), lists);
    assert_eq!(cache_control("/v1/variants?site=own&route=/&include=combinations"), lists);
    assert_eq!(cache_control("/v1/resolve?site=own&route=/"), "private, no-store");
}

#[test]
fn public_responses_are_equal_for_every_client() {
    let server = SERVER.get();
    for target in [
        LAYOUT,
        "/v1/resolve?site=acme&route=/&variants=no:such",
        "/v1/routes?site=acme",
        "/v1/variants?site=acme&route=/&include=combinations",
        "/v1/resolve?site=acme&route=/not/published&variants=",
    ] {
        let plain = server.get(target);
        for fields in [
            [("X-Request-Id", "mine"), ("X-Debug-Timing", "1")],
            [("Origin", "https://elsewhere.example"), ("Cookie", "anon_id=v1")],
            [("Accept-Language", "de"), ("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1)")],
            [("Authorization", "Bearer x"), ("X-Anon-Id", "v2")],
        ] {
            let other = server.get_with(target, &fields);
            assert_ne!(other.field("x-request-id"), Some("mine"));
            assert_ne!(other.field("x-request-id"), plain.field("x-request-id"), "{target}");
            assert_eq!(comparable(other), comparable(plain.clone()), "{target} {fields:?}");
        }
        assert_eq!(plain.field("set-cookie"), None);
        assert_eq!(plain.field("server-timing"), None);
    }
}

fn request_id(target: &str, id: &str) -> String {
    let response = SERVER.get().get_with(target, &[("X-Request-Id", id)]);
    response.field("x-request-id").expect("an id").to_owned()
}

#[test]
fn private_responses_echo_the_request_id_of_the_client() {
    for target in [PERSONAL, "/v1/variants?site=acme&route=/", "/v1/resolve?site=acme", "/v1/nothing"] {
        for id in ["x", "4bf92f35-77b3:1/a=b,c;\"d\\", &"i".repeat(127), &"i".repeat(128)] {
            assert_eq!(request_id(target, id), id, "{target}");
        }
    }
}

#[test]
fn an_invalid_request_id_is_replaced() {
    for id in ["", "a b", "ä", &"i".repeat(129)] {
        let generated = request_id(PERSONAL, id);
        assert_ne!(generated, id);
        assert!(
            (1..=128).contains(&generated.len()) && generated.bytes().all(|b| b.is_ascii_graphic()),
            "{generated}"
        );
    }
    let server = SERVER.get();
    let ids =
        [server.get(PERSONAL), server.get(PERSONAL)].map(|r| r.field("x-request-id").map(str::to_owned));
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_problem_contains_the_request_id_of_its_header() {
    let id = "quote\"back\\slash";
    let response = SERVER.get().get_with("/v1/resolve?site=acme", &[("X-Request-Id", id)]);
    assert_eq!(response.json()["requestId"], id);
    let generated = SERVER.get().get("/v1/resolve?site=acme");
    assert_eq!(generated.json()["requestId"], generated.field("x-request-id").expect("an id"));
}

#[test]
fn private_responses_have_server_timing_on_request() {
    let server = SERVER.get();
    let timing = |target: &str, value: &str| {
        let response = server.get_with(target, &[("X-Debug-Timing", value)]);
        response.field("server-timing").map(str::to_owned)
    };
    let header = timing(PERSONAL, "1").expect("a timing");
    let ms: f64 = header.strip_prefix("total;dur=").and_then(|ms| ms.parse().ok()).expect("milliseconds");
    assert!((0.0..20_000.0).contains(&ms), "{header}");
    assert_eq!(timing(PERSONAL, "0"), None);
    assert_eq!(timing(LAYOUT, "1"), None);
    assert_eq!(server.get(PERSONAL).field("server-timing"), None);
}

#[test]
fn every_response_has_a_date_and_no_server_field() {
    let server = SERVER.get();
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let mut client = Client::to(server.edge);
    let mut responses =
        vec![client.request("OPTIONS", "*", &[]), client.request("OPTIONS", "/v1/routes", &[])];
    for target in [LAYOUT, PERSONAL, "/v1/routes?site=acme", "/v1/nothing"] {
        responses.push(client.request("GET", target, &[]));
        responses.push(client.request("HEAD", target, &[]));
    }
    for response in responses {
        assert_eq!(response.field("server"), None);
        let date = response.field("date").expect("a Date");
        let ago_s = since_1970.as_secs().abs_diff(epoch_s(date));
        assert!(ago_s <= 5, "{date}");
    }
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT` into seconds since 1970.
fn epoch_s(date: &str) -> u64 {
    let parts: Vec<&str> = date.split([' ', ':']).collect();
    let [weekday, day, month, year, hour, minute, second, "GMT"] = parts[..] else { panic!("{date}") };
    assert_eq!((date.len(), weekday.len()), (29, 4), "{date}");
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| *m == month).expect("a month");
    let [day, year, hour, minute, second] =
        [day, year, hour, minute, second].map(|n| n.parse::<u64>().expect("a number"));
    let is_leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = (1970..year).map(|y| 365 + u64::from(is_leap(y))).sum::<u64>()
        + lengths[..month].iter().sum::<u64>()
        + day
        - 1;
    ((days * 24 + hour) * 60 + minute) * 60 + second
}

#[test]
fn the_version_is_in_the_header_and_only_lists_repeat_it() {
    let server = SERVER.get();
    for (site, version) in [("acme", "1"), ("own", "9007199254740992")] {
        for target in [
            "resolve?route=missing&",
            "resolve?route=missing&variants&",
            "resolve?route=/&explain=1&",
            "query?query=missing&",
            "routes?limit=0&",
        ] {
            let response = server.get(&format!("/v1/{target}site={site}"));
            assert!(response.status >= 400, "{target}");
            assert_eq!(response.field("x-version"), Some(version), "{target}");
        }
        for target in ["resolve?route=/&", "resolve?route=/&variants&", "variants?route=/&", "routes?"] {
            let response = server.get(&format!("/v1/{target}site={site}"));
            assert_eq!(response.field("x-version"), Some(version), "{target}");
            assert_eq!(response.json().get("version").is_some(), target == "routes?");
        }
    }
}

#[test]
fn only_public_responses_have_cache_tags() {
    let server = SERVER.get();
    let tags = |target: &str| {
        let response = server.get(target);
        let tag = |name| response.field(name).map(str::to_owned);
        (tag("cache-tag"), tag("surrogate-key"))
    };
    let page = (Some("acme,acme:/x".to_owned()), Some("acme acme:/x".to_owned()));
    assert_eq!(tags("/v1/resolve?site=acme&route=/x&variants="), page);
    assert_eq!(tags("/v1/variants?site=acme&route=/x&include=combinations"), page);
    assert_eq!(tags("/v1/routes?site=acme"), (Some("acme".to_owned()), Some("acme".to_owned())));
    assert_eq!(tags("/v1/resolve?site=acme&route=/x"), (None, None));
    assert_eq!(tags("/v1/variants?site=acme&route=/x"), (None, None));
}

#[test]
fn head_returns_the_header_of_get() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for target in [
        LAYOUT,
        PERSONAL,
        "/v1/routes?site=acme",
        "/v1/variants?site=acme&route=/",
        "/v1/variants?site=acme&route=/&include=combinations",
        "/v1/resolve?site=acme",
        "/v1/resolve?site=acme&route=/not/published",
        "/v1/nothing",
    ] {
        let own_id = [("X-Request-Id", "one")];
        let whole = client.request("GET", target, &own_id);
        let head = client.request("HEAD", target, &own_id);
        assert!(head.body.is_empty() && !whole.body.is_empty());
        let length = whole.body.len().to_string();
        assert_eq!(head.field("content-length"), Some(&*length), "{target}");
        assert_eq!(comparable(head), comparable(Response { body: Vec::new(), ..whole }), "{target}");
    }
}

#[test]
fn publishing_one_page_does_not_change_other_pages() {
    let texts = |first: &str| {
        [first, "two", "three"].map(|text| {
            let route = if text == first { "/1" } else { text };
            page(&format!("/{}", route.trim_start_matches('/')), json!({ text: [] }))
        })
    };
    let server = Server::start(&[("acme.snapshot", &acme_snapshot(&texts("before")))], &[]);
    let responses = |server: &Server| {
        ["/1", "/two", "/three"].map(|route| {
            let [forced, own, all] = ["&variants=", "", "&include=combinations"].map(|more| {
                let target = resolve_target(route, more);
                let target =
                    if more.contains("include") { target.replace("resolve", "variants") } else { target };
                let response = server.get(&target);
                (response.field("etag").expect("an ETag").to_owned(), response.body)
            });
            [forced, own, all]
        })
    };
    let before = responses(&server);
    server.publish("acme.snapshot", &compile_site(&site_file("acme", json!({})), &texts("after"), 2));
    crate::harness::eventually("version 2 is served", || {
        (server.get("/v1/routes?site=acme").field("x-version") == Some("2")).then_some(())
    });
    let after = responses(&server);
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1..], before[1..]);
}
