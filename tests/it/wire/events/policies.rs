//! Events that are dropped on purpose, and the personal data that is stored.

use serde_json::{Value, json};

use super::{SERVER, counts, only_record, post_with, unique_id};
use crate::harness::Response;

const CRAWLER: (&str, &str) =
    ("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)");

fn send_event(site: &str, anon_id: &str, fields: &[(&str, &str)], context: &Value) -> Response {
    let event = json!({ "site": site, "anonId": anon_id, "event": "e", "context": context });
    post_with("/v1/track", fields, &event)
}

#[track_caller]
fn assert_dropped(response: &Response, reason: &str) {
    assert_eq!(counts(response), [0, 0, 1, 0]);
    assert_eq!(response.field("x-dropped"), Some(reason));
    assert_eq!(response.json()["results"][0]["reason"], reason);
    assert_eq!(response.json()["seq"], Value::Null);
}

#[test]
fn a_preview_is_dropped() {
    assert_dropped(&send_event("acme", "v1", &[("X-Preview", "1")], &json!({})), "preview");
    assert_dropped(&send_event("acme", "v1", &[], &json!({ "preview": true })), "preview");
    for (field, context) in
        [("0", json!({})), ("true", json!({ "preview": false })), ("", json!({ "preview": null }))]
    {
        let response = send_event("acme", "v1", &[("X-Preview", field)], &context);
        assert_eq!(
            (counts(&response), response.field("x-dropped")),
            ([1, 0, 0, 0], None),
            "{field} {context}"
        );
    }
    let wrong = send_event("acme", "v1", &[], &json!({ "preview": "yes" }));
    assert_eq!((wrong.status, wrong.code()), (400, "invalid_event".into()));
}

#[test]
fn a_crawler_is_dropped_flagged_or_kept() {
    assert_dropped(&send_event("dropping", "v1", &[CRAWLER], &json!({})), "bot");
    assert_dropped(&send_event("dropping", "v1", &[], &json!({ "userAgent": CRAWLER.1 })), "bot");
    for site in ["acme", "keeping"] {
        let id = unique_id("bot");
        let response = send_event(site, &id, &[CRAWLER], &json!({}));
        let record = only_record(&response, &id);
        assert_eq!((&record["bot"], &record["device"]), (&json!(true), &json!("bot")), "{site}");
    }
    for agent in [
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "curl/8.0",
        "analytics-node/2.1",
    ] {
        let id = unique_id("human");
        let response = send_event("dropping", &id, &[("User-Agent", agent)], &json!({}));
        assert_eq!(only_record(&response, &id)["bot"], false, "{agent}");
    }
    // A server may forward the user agent of its visitor. It takes precedence over the header.
    let id = unique_id("passed");
    let response = send_event("acme", &id, &[CRAWLER], &json!({ "userAgent": "Mozilla/5.0 Firefox/140.0" }));
    assert_eq!(only_record(&response, &id)["bot"], false);
}

#[test]
fn a_headless_chrome_is_a_crawler_for_events() {
    let headless = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36";
    let (header, context) = ([("User-Agent", headless)], json!({ "userAgent": headless }));
    assert_dropped(&send_event("dropping", "v1", &header, &json!({})), "bot");
    assert_dropped(&send_event("dropping", "v1", &[], &context), "bot");
    for (site, is_known) in [("acme", false), ("keeping", true)] {
        let id = unique_id("headless");
        let record = only_record(&send_event(site, &id, &header, &json!({})), &id);
        let columns = ["bot", "device", "os", "browser"].map(|name| record[name].clone());
        assert_eq!(columns, [json!(true), json!("bot"), Value::Null, Value::Null], "{site}");
        let visitor = SERVER.get().admin_get(&format!("/visitors?site={site}&anonId={id}")).json();
        assert_eq!(visitor["known"], is_known, "{site}");
    }
}

#[test]
fn events_of_crawlers_change_profiles_only_if_the_site_keeps_them() {
    for (site, is_known) in [("acme", false), ("keeping", true)] {
        let id = unique_id("folded");
        only_record(&send_event(site, &id, &[CRAWLER], &json!({})), &id);
        let visitor = SERVER.get().admin_get(&format!("/visitors?site={site}&anonId={id}")).json();
        assert_eq!(visitor["known"], is_known, "{site}");
    }
}

#[test]
fn events_without_consent_are_dropped() {
    assert_dropped(&send_event("acme", "v1", &[], &json!({ "consent": { "measure": false } })), "no_consent");
    for consent in
        [json!({ "measure": true }), json!({}), Value::Null, json!({ "measure": null, "ads": false })]
    {
        assert_eq!(
            counts(&send_event("acme", "v1", &[], &json!({ "consent": consent }))),
            [1, 0, 0, 0],
            "{consent}"
        );
    }
    for wrong in [json!({ "measure": "no" }), json!({ "measure": 0 }), json!(false)] {
        let response = send_event("acme", "v1", &[], &json!({ "consent": wrong }));
        assert_eq!((response.status, response.code()), (400, "invalid_event".into()), "{wrong}");
    }
    let gpc = [("Sec-GPC", "1")];
    assert_dropped(
        &send_event("dropping", "v1", &gpc, &json!({ "consent": { "measure": true } })),
        "no_consent",
    );
    assert_eq!(counts(&send_event("dropping", "v1", &[("Sec-GPC", "0")], &json!({}))), [1, 0, 0, 0]);
    let id = unique_id("gpc");
    assert_eq!(only_record(&send_event("acme", &id, &gpc, &json!({})), &id)["gpc"], true);
}

#[test]
fn each_event_of_a_batch_is_dropped_for_its_own_reason() {
    let context = json!({ "consent": { "measure": false } });
    let batch = json!({ "site": "acme", "context": context, "batch": [
        { "anonId": "v1", "event": "e" },
        { "anonId": "v1", "event": "e", "context": { "consent": { "measure": true } } },
        { "anonId": "v1", "event": "e", "context": { "preview": true } },
    ] });
    let response = post_with("/v1/batch", &[], &batch);
    assert_eq!((counts(&response), response.field("x-dropped")), ([1, 0, 2, 0], None));
    let reasons = response.json()["results"].as_array().expect("results").clone();
    let reasons: Vec<_> = reasons.iter().map(|result| result["reason"].as_str().expect("a reason")).collect();
    assert_eq!(reasons, ["no_consent", "preview"]);
}

#[test]
fn an_ip_address_is_stored_as_the_site_configures() {
    for (site, stored, in_payload) in [
        ("acme", Value::Null, Value::Null),
        ("dropping", json!("192.0.2.0"), json!("192.0.2.0")),
        ("keeping", json!("192.0.2.7"), json!("192.0.2.7")),
    ] {
        let id = unique_id("ip");
        let record =
            only_record(&send_event(site, &id, &[], &json!({ "ip": "192.0.2.7", "locale": "de" })), &id);
        assert_eq!((&record["ip"], &record["payload"]["context"]["ip"]), (&stored, &in_payload), "{site}");
        assert_eq!(record["payload"]["context"]["locale"], "de");
    }
    let id = unique_id("peer");
    assert_eq!(only_record(&send_event("keeping", &id, &[], &json!({})), &id)["ip"], "127.0.0.1");
}
