//! The request data that rules see: parameters, headers and the user agent. A parameter takes precedence over
//! a header.

use serde_json::{Value, json};

use super::{SharedServer, acme_snapshot, compile_site, page, percent_encode, problem, site_file, zone};
use crate::harness::{Client, Response, Server};

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// `/` of acme has one zone for each kind of request data. The site `touched` has rules on touches only.
static SERVER: SharedServer = SharedServer::new(|| {
    let hit = |when: Value| zone(&["hit"], json!([{ "when": when, "variant": "hit" }]));
    let all = page(
        "/",
        json!({
            "everyone": hit(json!({})),
            "german": hit(json!({ "locale": "de-CH" })),
            "romance": hit(json!({ "language": { "$in": ["fr", "it"] } })),
            "swiss": hit(json!({ "country": "CH" })),
            "phone": hit(json!({ "device.type": "mobile" })),
            "red": hit(json!({ "url.query.colour": "red" })),
            "shop": hit(json!({ "url.path": "/shop" })),
        }),
    );
    let mailed =
        json!({ "lastTouch.source": "mail", "firstTouch.source": "mail", "lastTouch.campaign": "may" });
    let referred = json!({ "lastTouch.referrer": { "$exists": true }, "firstTouch.referrer": { "$regex": "^https://" } });
    let touched = compile_site(
        &site_file(
            "touched",
            json!({ "cookie": "vid", "origins": ["https://*.shop.example"], "hosts": ["acme.example", "bücher.example"], "ignoredReferrers": ["pay.example"], "ignoreProviders": true }),
        ),
        &[page("/", json!({ "mailed": hit(mailed), "referred": hit(referred) }))],
        1,
    );
    let snapshots = [("acme.snapshot", &*acme_snapshot(&[all])), ("touched.snapshot", &*touched)];
    Server::start(&snapshots, &["--country-header", "X-Visitor-Country"])
});

/// Requests an explanation, which contains the profile document, from the admin address.
fn explain(site: &str, query: &str, fields: &[(&str, &str)]) -> Response {
    let target = format!("/v1/variants?site={site}&route=/&explain=1{query}");
    Client::to(SERVER.get().admin).request("GET", &target, fields)
}

/// Returns the profile document that the rules of acme see.
fn visitor(query: &str, fields: &[(&str, &str)]) -> Value {
    explain("acme", query, fields).json()["visitor"].clone()
}

/// Returns the zones of acme whose rule matched, without `everyone`.
fn matched_zones(query: &str, fields: &[(&str, &str)]) -> String {
    let target = format!("/v1/variants?site=acme&route=/{query}");
    let variants = SERVER.get().get_with(&target, fields).json()["variants"].clone();
    let pairs = variants.as_str().expect("text").split(',').filter(|pair| *pair != "everyone:hit");
    pairs.map(|pair| pair.trim_end_matches(":hit")).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_language_is_the_primary_one_of_the_locale() {
    for (locale, language) in [
        ("de-CH", json!("de")),
        ("FR", json!("fr")),
        ("gsw_CH", json!("gsw")),
        ("d", json!(null)),
        ("", json!(null)),
    ] {
        assert_eq!(visitor(&format!("&locale={locale}"), &[])["language"], language, "{locale}");
    }
    assert_eq!(matched_zones("&locale=FR-ca", &[]), "romance");
    assert_eq!(matched_zones("", &[("Accept-Language", "it-IT, de;q=0.5")]), "romance");
    assert_eq!(matched_zones("&locale=de-FR", &[]), "");
}

#[test]
fn a_referrer_on_an_internationalized_host_of_the_site_is_internal() {
    let touch = |referrer: &str| {
        let referrer = percent_encode(referrer);
        explain("touched", &format!("&url=https://acme.example/&referrer={referrer}"), &[]).json()["visitor"]
            ["lastTouch"]
            .clone()
    };
    assert_eq!(touch("https://xn--bcher-kva.example/"), Value::Null);
    assert!(touch("https://xn--bcher-kvb.example/").is_object());
}

#[test]
fn the_locale_is_the_parameter_or_the_preferred_language() {
    for (accept_language, locale) in [
        ("de-CH", json!("de-CH")),
        ("en, de-CH", json!("en")),
        ("en;q=0.8, de-CH;q=0.9, fr;q=0.9", json!("de-CH")),
        ("en;q=0.5,fr", json!("fr")),
        ("*, fr;q=0.1", json!("fr")),
        ("fr;q=0, en;q=0.001", json!("en")),
        ("fr;q=0", json!(null)),
        (", de", json!("de")),
        (",,fr;q=0.5, ,en", json!("en")),
        (";q=0.9, fr;q=0.1", json!("fr")),
        (" , ", json!(null)),
        ("*", json!(null)),
        ("", json!(null)),
    ] {
        let found = visitor("", &[("Accept-Language", accept_language)])["locale"].clone();
        assert_eq!(found, locale, "{accept_language}");
    }
    assert_eq!(visitor("&locale=de-CH", &[("Accept-Language", "fr")])["locale"], "de-CH");
    assert_eq!(visitor("&locale=", &[("Accept-Language", "fr")])["locale"], "fr");
    assert_eq!(matched_zones("", &[("Accept-Language", "de-CH, en")]), "german");
    assert_eq!(matched_zones("&locale=en", &[("Accept-Language", "de-CH")]), "");
}

#[test]
fn the_country_is_the_parameter_or_the_configured_header() {
    assert_eq!(visitor("", &[("X-Visitor-Country", "ch")])["country"], "CH");
    assert_eq!(visitor("&country=de", &[("x-visitor-country", "CH")])["country"], "DE");
    assert_eq!(visitor("&country=", &[("X-VISITOR-COUNTRY", "CH")])["country"], "CH");
    assert_eq!(visitor("", &[("CF-IPCountry", "CH")])["country"], json!(null));
    assert_eq!(visitor("", &[("X-Visitor-Country", "Switzerland")])["country"], json!(null));
    for unknown in ["XX", "T1", "ZZ", "A1", "A2", "O1", "xx"] {
        assert_eq!(visitor("", &[("X-Visitor-Country", unknown)])["country"], json!(null), "{unknown}");
    }
    assert_eq!(visitor("", &[("X-Visitor-Country", "uk")])["country"], "GB");
    assert_eq!(matched_zones("", &[("X-Visitor-Country", "CH")]), "swiss");
    assert_eq!(matched_zones("&country=ch", &[]), "swiss");
}

#[test]
fn the_page_url_is_the_parameter_or_the_referer() {
    let shop = percent_encode("https://acme.example/shop/?colour=red&colour=blue#top");
    assert_eq!(matched_zones(&format!("&url={shop}"), &[]), "red shop");
    assert_eq!(matched_zones("", &[("Referer", "https://acme.example/shop?colour=red")]), "red shop");
    assert_eq!(matched_zones(&format!("&url={shop}"), &[("Referer", "https://acme.example/x")]), "red shop");
    assert_eq!(matched_zones("&url=/shop", &[]), "shop");
    assert_eq!(
        matched_zones(&format!("&url={}", percent_encode("/shop?a=1&co%6Cour=r%65d")), &[]),
        "red shop"
    );
    assert_eq!(matched_zones("&referrer=https://acme.example/shop", &[]), "");
}

#[test]
fn rules_see_the_first_32_parameters_and_4096_bytes_of_the_page_url() {
    let page_after = |others: usize| format!("/shop?{}colour=red", "a=1&".repeat(others));
    for (others, matched) in [(30, "red shop"), (31, "red shop"), (32, "shop")] {
        assert_eq!(matched_zones("", &[("Referer", &page_after(others))]), matched, "{others} before it");
    }
    let ending_at =
        |bytes: usize| format!("/shop?a={}&colour=red", "x".repeat(bytes - "/shop?a=&colour=red".len()));
    for (bytes, matched) in [(4095, "red shop"), (4096, "red shop"), (4097, "shop")] {
        assert_eq!(matched_zones("", &[("Referer", &ending_at(bytes))]), matched, "{bytes} bytes");
    }
}

#[test]
fn a_campaign_in_the_page_url_is_the_first_and_the_last_touch() {
    let variants = |query: &str, fields: &[(&str, &str)]| {
        let target = format!("/v1/variants?site=touched&route=/{query}");
        SERVER.get().get_with(&target, fields).json()["variants"].clone()
    };
    let campaign = "https://acme.example/?utm_source=mail&utm_medium=letter&utm_campaign=may";
    assert_eq!(variants(&format!("&url={}", percent_encode(campaign)), &[]), "mailed:hit");
    assert_eq!(variants("", &[("Referer", campaign)]), "mailed:hit");
    assert_eq!(variants(&format!("&referrer={}", percent_encode(campaign)), &[]), "");
    assert_eq!(variants(&format!("&url={}", percent_encode("/?utm_source=mail")), &[]), "");

    let query =
        format!("&url={}&referrer={}", percent_encode(campaign), percent_encode("https://search.example/"));
    let document = explain("touched", &query, &[]).json()["visitor"].clone();
    let touch = json!({ "source": "mail", "medium": "letter", "campaign": "may", "term": null, "content": null,
        "referrer": "https://search.example/", "landing": "/" });
    assert_eq!((&document["lastTouch"], &document["firstTouch"]), (&touch, &touch));
}

#[test]
fn an_external_referrer_is_the_first_and_the_last_touch() {
    let variants = |query: &str, fields: &[(&str, &str)]| {
        let target = format!("/v1/variants?site=touched&route=/{query}");
        SERVER.get().get_with(&target, fields).json()["variants"].clone()
    };
    let from = |referrer: &str| format!("&referrer={}", percent_encode(referrer));
    let other = from("https://search.example/?q=x");
    assert_eq!(variants(&other, &[]), "referred:hit");
    assert_eq!(variants("", &[("Referer", "https://search.example/")]), "", "the header is the page itself");
    for own in [
        "https://acme.example/y",
        "https://www.ACME.example:8443/",
        "https://a.b.shop.example/",
        "https://www.shop.example/",
        "https://shop.example/",
        "/y",
        "search.example",
    ] {
        assert_eq!(variants(&from(own), &[]), "", "{own}");
    }
    for ignored in ["https://pay.example/", "https://www.paypal.com/", "https://ACCOUNTS.google.com./o"] {
        assert_eq!(variants(&from(ignored), &[]), "", "{ignored}");
    }
    let landing = format!("&url={}", percent_encode("https://www.landing.example/"));
    assert_eq!(variants(&(landing.clone() + &from("https://landing.example/")), &[]), "");
    assert_eq!(variants(&from("https://landing.example/"), &[("Referer", "https://landing.example/x")]), "");
    assert_eq!(variants(&(landing + &other), &[]), "referred:hit");
    // A campaign does not make a referrer external.
    let campaign = format!("&url={}", percent_encode("https://acme.example/?utm_source=mail"));
    let document = explain("touched", &(campaign + &from("https://acme.example/y")), &[]).json();
    let touch = &document["visitor"]["lastTouch"];
    assert_eq!((&touch["source"], &touch["referrer"]), (&json!("mail"), &Value::Null));
}

#[test]
fn without_a_known_host_of_the_site_no_referrer_is_a_touch() {
    let last_touch = |query: &str| {
        let referrer = percent_encode("https://search.example/");
        explain("acme", &format!("&referrer={referrer}{query}"), &[]).json()["visitor"]["lastTouch"].clone()
    };
    assert_eq!(last_touch(""), Value::Null);
    assert_eq!(last_touch("&url=/x"), Value::Null);
    assert_eq!(last_touch("&url=https://acme.example/x")["landing"], "/x");
}

#[test]
fn an_external_referrer_replaces_the_recorded_last_touch_but_not_the_first() {
    let event = json!({ "site": "touched", "anonId": "mailed", "properties": { "url": "https://acme.example/?utm_source=mail" } });
    let receipt = SERVER.get().post("/v1/page", &[], event.to_string().as_bytes());
    assert_eq!(receipt.status, 200, "{}", receipt.text());
    let touches = |query: &str| {
        let visitor = explain("touched", &format!("&anonId=mailed{query}"), &[]).json()["visitor"].clone();
        ["firstTouch", "lastTouch"]
            .map(|touch| [visitor[touch]["source"].clone(), visitor[touch]["referrer"].clone()])
    };
    let mail = [json!("mail"), Value::Null];
    assert_eq!(touches(""), [mail.clone(), mail.clone()]);
    assert_eq!(touches("&referrer=https://acme.example/"), [mail.clone(), mail.clone()]);
    // A payment in the middle of a visit does not take the visit from the campaign.
    let payment = json!({ "site": "touched", "anonId": "mailed",
        "properties": { "url": "https://acme.example/thanks", "referrer": "https://checkout.stripe.com/c/pay" } });
    assert_eq!(SERVER.get().post("/v1/page", &[], payment.to_string().as_bytes()).status, 200);
    assert_eq!(touches(""), [mail.clone(), mail.clone()]);
    assert_eq!(touches("&referrer=https://pay.example/"), [mail.clone(), mail.clone()]);
    assert_eq!(
        touches("&referrer=https://search.example/"),
        [mail, [Value::Null, json!("https://search.example/")]]
    );
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
fn the_user_agent_is_the_parameter_or_the_header_of_a_browser() {
    let phone = "Parlor/3 (iPhone; Mobile)";
    assert_eq!(device("", &[("User-Agent", CHROME)]), "desktop");
    assert_eq!(
        device(&format!("&userAgent={}", percent_encode(IPHONE)), &[("User-Agent", CHROME)]),
        "mobile"
    );
    assert_eq!(device(&format!("&userAgent={}", percent_encode(phone)), &[]), "mobile");
    assert_eq!(device("&userAgent=", &[("User-Agent", CHROME)]), "desktop");
    assert_eq!(device("", &[("User-Agent", phone)]), "unknown");
    assert_eq!(matched_zones("", &[("User-Agent", phone), ("Sec-Fetch-Mode", "cors")]), "phone");
    assert_eq!(matched_zones("", &[("User-Agent", phone), ("Origin", "https://acme.example")]), "phone");
    assert_eq!(matched_zones("", &[("User-Agent", IPHONE)]), "phone");
    assert_eq!(device("", &[]), "unknown");
}

#[test]
fn a_crawler_gets_the_default_variants() {
    let everyone = |query: &str, fields: &[(&str, &str)]| {
        let target = format!("/v1/resolve?site=acme&route=/&country=CH{query}");
        SERVER.get().get_with(&target, fields).json()["selected"]["everyone"].clone()
    };
    for agent in
        [GOOGLEBOT, "Googlebot/2.1 (+http://www.google.com/bot.html)", "CCBot/2.0", "Baiduspider+(+x)"]
    {
        assert_eq!(everyone("", &[("User-Agent", agent)]), "default", "{agent}");
        assert_eq!(everyone(&format!("&userAgent={}", percent_encode(agent)), &[]), "default", "{agent}");
        assert_eq!(device("", &[("User-Agent", agent)]), "bot");
    }
    assert_eq!(
        everyone(&format!("&userAgent={}", percent_encode(CHROME)), &[("User-Agent", GOOGLEBOT)]),
        "hit"
    );
    let explained = explain("acme", "", &[("User-Agent", GOOGLEBOT)]).json();
    assert_eq!(explained["variants"], "");
    for decision in explained["decisions"].as_array().expect("an array") {
        assert_eq!((&decision["source"], &decision["key"]), (&json!("crawler"), &json!("default")));
    }
}

#[test]
fn http_clients_are_unknown_devices_and_not_crawlers() {
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
            let answer = explain("acme", "", fields).json();
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
fn the_anon_id_comes_from_parameter_then_header_then_cookie() {
    let fields = [("X-Anon-Id", "header"), ("Cookie", "a=b; anon_id=cookie; c=d")];
    assert_eq!(anon_id("&anonId=param", &fields), "param");
    assert_eq!(anon_id("", &fields), "header");
    assert_eq!(anon_id("&anonId=", &fields), "header");
    assert_eq!(anon_id("", &fields[1..]), "cookie");
    assert_eq!(anon_id("", &[("Cookie", "a=b"), ("Cookie", "c=d; anon_id=line")]), "line");
    assert_eq!(anon_id("", &[]), json!(null));
}

#[test]
fn the_site_sets_the_name_of_the_cookie() {
    let id_from_cookie = |site: &str, cookie: &str| {
        explain(site, "", &[("Cookie", cookie)]).json()["visitor"]["anonId"].clone()
    };
    assert_eq!(id_from_cookie("touched", "anon_id=x; vid=y"), "y");
    assert_eq!(id_from_cookie("acme", "anon_id=x; vid=y"), "x");
    assert_eq!(id_from_cookie("acme", "xanon_id=x;anon_id=\"y\""), "y");
    assert_eq!(id_from_cookie("acme", "anon_idx=x"), json!(null));
    assert_eq!(id_from_cookie("acme", "Anon_Id=x"), json!(null));
}

#[test]
fn the_escapes_of_a_cookie_are_decoded() {
    let id_of = |value: &str| anon_id("", &[("Cookie", &format!("a=b; anon_id={value}; c=d"))]);
    for (value, id) in [
        ("a%7Cb", "a|b"),
        ("%22quoted%22", "\"quoted\""),
        ("\"a%2Fb\"", "a/b"),
        ("a%2fb%2F", "a/b/"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("%zz%41", "%zzA"),
        ("a+b", "a+b"),
        ("%2541", "%41"),
    ] {
        assert_eq!(id_of(value), id, "{value}");
    }
    for unusable in ["a%20b", "%FF", "%C3%A4", "%6Eull", "%00"] {
        assert_eq!(id_of(unusable), json!(null), "{unusable}");
    }
    // Only the cookie is decoded.
    assert_eq!(anon_id("", &[("X-Anon-Id", "a%7Cb")]), "a%7Cb");
}

#[test]
fn of_several_cookies_of_one_name_the_first_usable_one_counts() {
    let long = "v".repeat(129);
    let escaped = "%76".repeat(129);
    let unusable = [
        "null",
        "undefined",
        "NaN",
        "anonymous",
        "\"null\"",
        "%6Eull",
        "",
        "\"\"",
        "a%20b",
        "%FF",
        "a b",
        "\u{e4}",
        "%00",
        "00000000-0000-0000-0000-000000000000",
        &long,
        &escaped,
    ];
    for first in unusable {
        for id in ["usable", "\"usable\"", "%75sable"] {
            let one_line = format!("anon_id={first}; a=b; anon_id={id}; anon_id=later");
            assert_eq!(anon_id("", &[("Cookie", &one_line)]), "usable", "{one_line}");
        }
        let lines = [format!("anon_id={first}"), "anon_id=usable".to_owned()];
        let lines = [("Cookie", &*lines[0]), ("Cookie", "a=b"), ("Cookie", &*lines[1])];
        assert_eq!(anon_id("", &lines), "usable", "{first}");
        let none = format!("anon_id={first}; anon_id=null; anon_id={first}");
        assert_eq!(anon_id("", &[("Cookie", &none)]), json!(null), "{none}");
    }
    assert_eq!(anon_id("", &[("Cookie", "anon_id=first; anon_id=%73econd")]), "first");
    assert_eq!(anon_id("", &[("X-Anon-Id", "null"), ("Cookie", "anon_id=null; anon_id=usable")]), "usable");
    let fields = [("Cookie", "anon_id=null; anon_id=usable")];
    let resolved =
        Client::to(SERVER.get().admin).request("GET", "/v1/resolve?site=acme&route=/&explain=1", &fields);
    assert_eq!(resolved.json()["visitor"]["anonId"], "usable");
}

#[test]
fn a_cookie_may_escape_each_byte_of_the_longest_id() {
    for (length, id) in [(127, Some(127)), (128, Some(128)), (129, None)] {
        let cookie = format!("anon_id={}", "%61".repeat(length));
        let expected = id.map(|length| "a".repeat(length));
        assert_eq!(anon_id("", &[("Cookie", &cookie)]), json!(expected), "{length}");
    }
    let beside = format!("anon_id={}aa%61", "%61".repeat(126));
    assert_eq!(anon_id("", &[("Cookie", &beside)]), json!(null));
}

#[test]
fn an_anon_id_has_1_to_128_bytes_of_visible_ascii() {
    for length in [1, 127, 128] {
        let id = "v".repeat(length);
        assert_eq!(anon_id(&format!("&anonId={id}"), &[]), *id);
        assert_eq!(anon_id("", &[("X-Anon-Id", &id)]), *id);
        assert_eq!(anon_id("", &[("Cookie", &format!("anon_id={id}"))]), *id);
    }
    assert_eq!(anon_id(&format!("&anonId={}", percent_encode("!\"#~&=")), &[]), "!\"#~&=");
}

#[test]
fn a_malformed_id_is_refused_as_a_parameter_and_ignored_elsewhere() {
    let server = SERVER.get();
    let long = "v".repeat(129);
    for malformed in ["a b", " ", "\u{7f}", "ä", "a\tb", &long] {
        for endpoint in ["resolve", "variants"] {
            let target = format!("/v1/{endpoint}?site=acme&route=/&anonId={}", percent_encode(malformed));
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
fn a_placeholder_counts_as_no_id_from_any_source() {
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
        let param = format!("&anonId={}", percent_encode(placeholder));
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
