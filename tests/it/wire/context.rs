//! What rules see of a request: its parameters before its headers, and the visitor's agent.

use serde_json::{Value, json};

use super::{Shared, acme, compiled, escaped, page, problem, site_file, zone};
use crate::harness::{Client, Response, Server};

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// `/` has a zone for each thing that a request can tell; `/touched` looks at touches only.
static SERVER: Shared = Shared::new(|| {
    let hit = |when: Value| zone(&["hit"], json!([{ "when": when, "variant": "hit" }]));
    let all = page(
        "/",
        json!({
            "everyone": hit(json!({})),
            "german": hit(json!({ "locale": "de-CH" })),
            "swiss": hit(json!({ "country": "CH" })),
            "phone": hit(json!({ "device.type": "mobile" })),
            "red": hit(json!({ "url.query.colour": "red" })),
            "shop": hit(json!({ "url.path": "/shop" })),
        }),
    );
    let mailed =
        json!({ "lastTouch.source": "mail", "firstTouch.source": "mail", "lastTouch.campaign": "may" });
    let touched = compiled(
        &site_file("touched", json!({ "cookie": "vid" })),
        &[page("/", json!({ "mailed": hit(mailed) }))],
        1,
    );
    let snapshots = [("acme.snapshot", &*acme(&[all])), ("touched.snapshot", &*touched)];
    Server::start(&snapshots, &["--country-header", "X-Visitor-Country"])
});

/// The answer of the operator's address, which tells the profile document.
fn explained(site: &str, query: &str, fields: &[(&str, &str)]) -> Response {
    let target = format!("/v1/variants?site={site}&route=/&explain=1{query}");
    Client::to(SERVER.get().admin).request("GET", &target, fields)
}

/// The profile document as the rules of acme saw it.
fn visitor(query: &str, fields: &[(&str, &str)]) -> Value {
    explained("acme", query, fields).json()["visitor"].clone()
}

/// The zones of acme whose rule matched, `everyone` left out.
fn hits(query: &str, fields: &[(&str, &str)]) -> String {
    let target = format!("/v1/variants?site=acme&route=/{query}");
    let variants = SERVER.get().get_with(&target, fields).json()["variants"].clone();
    let pairs = variants.as_str().expect("text").split(',').filter(|pair| *pair != "everyone:hit");
    pairs.map(|pair| pair.trim_end_matches(":hit")).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_locale_is_the_parameter_else_the_first_language_of_the_highest_weight() {
    for (accept_language, locale) in [
        ("de-CH", json!("de-CH")),
        ("en, de-CH", json!("en")),
        ("en;q=0.8, de-CH;q=0.9, fr;q=0.9", json!("de-CH")),
        ("en;q=0.5,fr", json!("fr")),
        ("*, fr;q=0.1", json!("fr")),
        ("fr;q=0, en;q=0.001", json!("en")),
        ("fr;q=0", json!(null)),
        ("*", json!(null)),
        ("", json!(null)),
    ] {
        let found = visitor("", &[("Accept-Language", accept_language)])["locale"].clone();
        assert_eq!(found, locale, "{accept_language}");
    }
    assert_eq!(visitor("&locale=de-CH", &[("Accept-Language", "fr")])["locale"], "de-CH");
    assert_eq!(visitor("&locale=", &[("Accept-Language", "fr")])["locale"], "fr");
    assert_eq!(hits("", &[("Accept-Language", "de-CH, en")]), "german");
    assert_eq!(hits("&locale=en", &[("Accept-Language", "de-CH")]), "");
}

#[test]
fn the_country_is_the_parameter_else_the_header_that_the_operator_names() {
    assert_eq!(visitor("", &[("X-Visitor-Country", "ch")])["country"], "CH");
    assert_eq!(visitor("&country=de", &[("x-visitor-country", "CH")])["country"], "DE");
    assert_eq!(visitor("&country=", &[("X-VISITOR-COUNTRY", "CH")])["country"], "CH");
    assert_eq!(visitor("", &[("CF-IPCountry", "CH")])["country"], json!(null));
    assert_eq!(visitor("", &[("X-Visitor-Country", "Switzerland")])["country"], json!(null));
    assert_eq!(hits("", &[("X-Visitor-Country", "CH")]), "swiss");
    assert_eq!(hits("&country=ch", &[]), "swiss");
}

#[test]
fn the_page_is_the_parameter_else_the_referer() {
    let shop = escaped("https://acme.example/shop/?colour=red&colour=blue#top");
    assert_eq!(hits(&format!("&url={shop}"), &[]), "red shop");
    assert_eq!(hits("", &[("Referer", "https://acme.example/shop?colour=red")]), "red shop");
    assert_eq!(hits(&format!("&url={shop}"), &[("Referer", "https://acme.example/x")]), "red shop");
    assert_eq!(hits("&url=/shop", &[]), "shop");
    assert_eq!(hits(&format!("&url={}", escaped("/shop?a=1&co%6Cour=r%65d")), &[]), "red shop");
    assert_eq!(hits("&referrer=https://acme.example/shop", &[]), "");
}

#[test]
fn rules_see_the_first_32_parameters_and_4096_bytes_of_the_page() {
    let behind = |others: usize| format!("/shop?{}colour=red", "a=1&".repeat(others));
    for (others, seen) in [(30, "red shop"), (31, "red shop"), (32, "shop")] {
        assert_eq!(hits("", &[("Referer", &behind(others))]), seen, "{others} before it");
    }
    let ending_at =
        |bytes: usize| format!("/shop?a={}&colour=red", "x".repeat(bytes - "/shop?a=&colour=red".len()));
    for (bytes, seen) in [(4095, "red shop"), (4096, "red shop"), (4097, "shop")] {
        assert_eq!(hits("", &[("Referer", &ending_at(bytes))]), seen, "{bytes} bytes");
    }
}

#[test]
fn a_campaign_in_the_page_is_the_last_touch_and_the_first() {
    let variants = |query: &str, fields: &[(&str, &str)]| {
        let target = format!("/v1/variants?site=touched&route=/{query}");
        SERVER.get().get_with(&target, fields).json()["variants"].clone()
    };
    let campaign = "https://acme.example/?utm_source=mail&utm_medium=letter&utm_campaign=may";
    assert_eq!(variants(&format!("&url={}", escaped(campaign)), &[]), "mailed:hit");
    assert_eq!(variants("", &[("Referer", campaign)]), "mailed:hit");
    assert_eq!(variants(&format!("&referrer={}", escaped(campaign)), &[]), "");
    assert_eq!(variants(&format!("&url={}", escaped("/?utm_source=mail")), &[]), "");

    let query = format!("&url={}&referrer={}", escaped(campaign), escaped("https://search.example/"));
    let document = explained("touched", &query, &[]).json()["visitor"].clone();
    let touch = json!({ "source": "mail", "medium": "letter", "campaign": "may", "term": null, "content": null,
        "referrer": "https://search.example/", "landing": "/" });
    assert_eq!((&document["lastTouch"], &document["firstTouch"]), (&touch, &touch));
}

#[test]
fn a_new_visitor_has_one_visit_and_no_history() {
    let visitor = visitor("&anonId=v1", &[]);
    let new = json!({ "isNew": true, "isReturning": false, "visits": 1, "pageViews": 0, "events": 0,
        "firstSeen": null, "lastSeen": null, "userId": null });
    assert_eq!(visitor["visitor"], new);
    assert_eq!(visitor["traits"], json!({}));
}

fn device(query: &str, fields: &[(&str, &str)]) -> Value {
    visitor(query, fields)["device"]["type"].clone()
}

#[test]
fn the_agent_is_the_parameter_else_a_header_that_is_a_visitors_own() {
    let phone = "Parlor/3 (iPhone; Mobile)";
    assert_eq!(device("", &[("User-Agent", CHROME)]), "desktop");
    assert_eq!(device(&format!("&userAgent={}", escaped(IPHONE)), &[("User-Agent", CHROME)]), "mobile");
    assert_eq!(device(&format!("&userAgent={}", escaped(phone)), &[]), "mobile");
    assert_eq!(device("&userAgent=", &[("User-Agent", CHROME)]), "desktop");
    assert_eq!(device("", &[("User-Agent", phone)]), "unknown");
    assert_eq!(hits("", &[("User-Agent", phone), ("Sec-Fetch-Mode", "cors")]), "phone");
    assert_eq!(hits("", &[("User-Agent", phone), ("Origin", "https://acme.example")]), "phone");
    assert_eq!(hits("", &[("User-Agent", IPHONE)]), "phone");
    assert_eq!(device("", &[]), "unknown");
}

#[test]
fn a_crawler_gets_the_baseline() {
    let everyone = |query: &str, fields: &[(&str, &str)]| {
        let target = format!("/v1/resolve?site=acme&route=/&country=CH{query}");
        SERVER.get().get_with(&target, fields).json()["selected"]["everyone"].clone()
    };
    for agent in
        [GOOGLEBOT, "Googlebot/2.1 (+http://www.google.com/bot.html)", "CCBot/2.0", "Baiduspider+(+x)"]
    {
        assert_eq!(everyone("", &[("User-Agent", agent)]), "default", "{agent}");
        assert_eq!(everyone(&format!("&userAgent={}", escaped(agent)), &[]), "default", "{agent}");
        assert_eq!(device("", &[("User-Agent", agent)]), "bot");
    }
    assert_eq!(everyone(&format!("&userAgent={}", escaped(CHROME)), &[("User-Agent", GOOGLEBOT)]), "hit");
    let explained = explained("acme", "", &[("User-Agent", GOOGLEBOT)]).json();
    assert_eq!(explained["variants"], "");
    for decision in explained["decisions"].as_array().expect("an array") {
        assert_eq!((&decision["source"], &decision["key"]), (&json!("crawler"), &json!("default")));
    }
}

#[test]
fn programs_that_fetch_for_others_are_unknown_and_no_crawlers() {
    for agent in [
        "curl/8.5.0",
        "Wget/1.21.4",
        "axios/1.7.2",
        "node-fetch/1.0 (+https://github.com/bitinn/node-fetch)",
        "node",
        "undici",
        "Go-http-client/1.1",
        "python-requests/2.32.3",
        "Python-urllib/3.12",
        "okhttp/4.12.0",
        "Apache-HttpClient/4.5.14 (Java/17.0.11)",
        "Amazon CloudFront",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36",
    ] {
        let header = [("User-Agent", agent)];
        let from_a_page = [("User-Agent", agent), ("Sec-Fetch-Mode", "cors")];
        for fields in [&header[..], &from_a_page[..]] {
            let answer = explained("acme", "", fields).json();
            assert_eq!(answer["selected"]["everyone"], "hit", "{agent}");
            assert_ne!(answer["visitor"]["device"]["type"], "bot", "{agent}");
        }
        if !agent.starts_with("Mozilla/") {
            assert_eq!(device("", &header), "unknown", "{agent}");
        }
    }
}

fn anon_id(query: &str, fields: &[(&str, &str)]) -> Value {
    visitor(query, fields)["anonId"].clone()
}

#[test]
fn the_id_is_the_parameter_before_the_header_before_the_cookie() {
    let fields = [("X-Anon-Id", "header"), ("Cookie", "a=b; anon_id=cookie; c=d")];
    assert_eq!(anon_id("&anonId=param", &fields), "param");
    assert_eq!(anon_id("", &fields), "header");
    assert_eq!(anon_id("&anonId=", &fields), "header");
    assert_eq!(anon_id("", &fields[1..]), "cookie");
    assert_eq!(anon_id("", &[]), json!(null));
}

#[test]
fn the_cookie_is_the_one_that_the_site_names() {
    let of = |site: &str, cookie: &str| {
        explained(site, "", &[("Cookie", cookie)]).json()["visitor"]["anonId"].clone()
    };
    assert_eq!(of("touched", "anon_id=x; vid=y"), "y");
    assert_eq!(of("acme", "anon_id=x; vid=y"), "x");
    assert_eq!(of("acme", "xanon_id=x;anon_id=\"y\""), "y");
    assert_eq!(of("acme", "anon_idx=x"), json!(null));
    assert_eq!(of("acme", "Anon_Id=x"), json!(null));
}

#[test]
fn an_id_is_1_to_128_bytes_of_visible_ascii() {
    for length in [1, 127, 128] {
        let id = "v".repeat(length);
        assert_eq!(anon_id(&format!("&anonId={id}"), &[]), *id);
        assert_eq!(anon_id("", &[("X-Anon-Id", &id)]), *id);
        assert_eq!(anon_id("", &[("Cookie", &format!("anon_id={id}"))]), *id);
    }
    assert_eq!(anon_id(&format!("&anonId={}", escaped("!\"#~&=")), &[]), "!\"#~&=");
}

#[test]
fn a_malformed_id_is_refused_as_a_parameter_and_none_elsewhere() {
    let server = SERVER.get();
    let long = "v".repeat(129);
    for malformed in ["a b", " ", "\u{7f}", "ä", "a\tb", &long] {
        for endpoint in ["resolve", "variants"] {
            let target = format!("/v1/{endpoint}?site=acme&route=/&anonId={}", escaped(malformed));
            let response = server.get(&target);
            assert_eq!(problem(&response), (400, "invalid_anon_id".into()), "{malformed:?}");
            assert_eq!(response.json()["param"], "anonId");
        }
    }
    for malformed in ["a b", "ä", &long] {
        assert_eq!(anon_id("", &[("X-Anon-Id", malformed)]), json!(null), "{malformed}");
        assert_eq!(anon_id("", &[("X-Anon-Id", malformed), ("Cookie", "anon_id=c")]), "c", "{malformed}");
        assert_eq!(anon_id("", &[("Cookie", &format!("anon_id={malformed}"))]), json!(null), "{malformed}");
    }
}

#[test]
fn a_placeholder_counts_as_no_id_wherever_it_stands() {
    for placeholder in [
        "anonymous",
        "null",
        "undefined",
        "none",
        "nil",
        "0",
        "-",
        "true",
        "false",
        "NaN",
        "nan",
        "[object Object]",
        "{}",
        "00000000-0000-0000-0000-000000000000",
        "Anonymous",
        "UNDEFINED",
        "[OBJECT OBJECT]",
    ] {
        let param = format!("&anonId={}", escaped(placeholder));
        assert_eq!(anon_id(&param, &[]), json!(null), "{placeholder}");
        assert_eq!(anon_id(&param, &[("X-Anon-Id", "header")]), "header", "{placeholder}");
        assert_eq!(anon_id("", &[("X-Anon-Id", placeholder)]), json!(null), "{placeholder}");
        assert_eq!(
            anon_id("", &[("Cookie", &format!("anon_id={placeholder}"))]),
            json!(null),
            "{placeholder}"
        );
    }
    for id in ["00", "1", "anonymous1", "00000000-0000-0000-0000-000000000001"] {
        assert_eq!(anon_id(&format!("&anonId={id}"), &[]), id);
    }
}
