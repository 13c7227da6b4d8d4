//! Columns of a record that come from the request and from the site.

use serde_json::{Value, json};

use super::{only_record, post_with, unique_id};

const PHONE: (&str, &str) = (
    "User-Agent",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1",
);

/// Posts a page event of a page with this referrer. Returns its record.
fn page_after(site: &str, referrer: &str) -> Value {
    let id = unique_id("referred");
    let event = json!({"site": site, "anonId": id, "properties": {"path": "/", "referrer": referrer}});
    only_record(&post_with("/v1/page", &[], &event), &id)
}

#[test]
fn a_referrer_on_a_host_of_the_site_is_not_external() {
    for own in [
        "https://acme.example/x",
        "https://WWW.acme.example",
        "https://a.shop.example/",
        "http://a.b.shop.example:81/",
        "https://shop.example/",
        "https://sister.example/",
        "https://www.sister.example/",
    ] {
        assert_eq!(page_after("shops", own)["referrerHost"], Value::Null, "{own}");
    }
    for other in ["https://search.example/x", "https://a.sister.example/", "https://notacme.example/"] {
        let host = other.split('/').nth(2).expect("a host");
        assert_eq!(page_after("shops", other)["referrerHost"], host);
    }
    assert_eq!(
        page_after("acme", "https://search.example/")["referrerHost"],
        Value::Null,
        "no host is known"
    );
}

#[test]
fn a_referrer_that_the_site_ignores_is_not_external() {
    for ignored in [
        "https://pay.example/c",
        "https://www.PAY.example./",
        "https://bank.example/",
        "https://a.bank.example/",
        "https://www.paypal.com/checkoutnow",
        "https://login.microsoftonline.com/common/oauth2",
    ] {
        assert_eq!(page_after("shops", ignored)["referrerHost"], Value::Null, "{ignored}");
    }
    for other in ["https://a.pay.example/", "https://mybank.example/", "https://www.google.com/"] {
        let host = other.split('/').nth(2).expect("a host");
        assert_eq!(page_after("shops", other)["referrerHost"], host);
    }
}

#[test]
fn the_country_of_an_event_is_an_assigned_code() {
    for (context, expected) in [
        (json!({ "country": "uk" }), json!("GB")),
        (json!({ "country": "T1" }), Value::Null),
        (json!({ "country": "XX", "location": { "country": "de" } }), json!("DE")),
        (json!({ "location": { "country": "ZZ" } }), Value::Null),
    ] {
        let id = unique_id("country");
        let event = json!({ "site": "acme", "anonId": id, "event": "e", "context": context });
        assert_eq!(only_record(&post_with("/v1/track", &[], &event), &id)["country"], expected, "{context}");
    }
}

#[test]
fn the_device_and_the_language_of_the_request_are_recorded() {
    let (id, language) = (unique_id("context"), ("Accept-Language", "fr;q=0.5, de-AT, en;q=0.9"));
    let event = json!({"site": "acme", "anonId": id, "event": "e", "experiments": "cta:b,hero:~"});
    let record = only_record(&post_with("/v1/track", &[PHONE, language], &event), &id);
    let found =
        ["device", "os", "browser", "country", "language", "experiments"].map(|name| record[name].clone());
    assert_eq!(
        found,
        [json!("mobile"), json!("iOS"), json!("Safari"), Value::Null, json!("de"), json!("cta:b,hero:~")]
    );
    assert_eq!(record["payload"]["experiments"], "cta:b,hero:~", "the payload is the event as it was sent");
}
