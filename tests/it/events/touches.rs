//! The touch of a page event, decided when the event is decoded: its campaign, and the test for an external referrer.

use serde_json::{Value, json};

use super::{REQUEST, RequestFacts, Server, page, post, track};

/// Posts a page event to a site that lists `hosts`. Returns referrer host, source, medium and campaign.
fn touch_at(hosts: &[&'static str], request: &RequestFacts<'_>, members: Value) -> [Value; 4] {
    let mut server = Server::new();
    server.environment.hosts = hosts.to_vec();
    let record = server.post(request, "/v1/page", page(members).as_bytes()).record();
    ["referrerHost", "source", "medium", "campaign"].map(|name| record[name].clone())
}

fn referrer_host(hosts: &[&'static str], url: &str, referrer: &str) -> Value {
    let [host, ..] = touch_at(hosts, &REQUEST, json!({"properties": {"url": url, "referrer": referrer}}));
    host
}

#[test]
fn a_referrer_is_external_if_it_is_on_no_host_of_the_site() {
    let page = "https://acme.example/x";
    assert_eq!(referrer_host(&[], page, "https://search.example/?q=x"), "search.example");
    for own in ["https://ACME.example/y", "https://www.acme.example/", "https://acme.example:8443/"] {
        assert_eq!(referrer_host(&[], page, own), Value::Null, "{own}");
    }
    assert_eq!(referrer_host(&[], "https://www.acme.example/", "https://acme.example/"), Value::Null);
    assert_eq!(referrer_host(&["shop.example"], page, "https://www.shop.example/"), Value::Null);
    assert_eq!(referrer_host(&["shop.example"], page, "https://search.example/"), "search.example");
}

#[test]
fn the_host_of_a_referrer_is_in_lower_case_without_a_final_dot() {
    let page = "https://acme.example/x";
    for (referrer, host) in [
        ("https://Search.EXAMPLE/?q=x", "search.example"),
        ("https://search.example./", "search.example"),
        ("https://user@search.example.:443/", "search.example"),
        ("android-app://com.Example/", "com.example"),
    ] {
        assert_eq!(referrer_host(&[], page, referrer), host, "{referrer}");
    }
    for own in ["https://acme.example./", "https://www.ACME.example.:8443/", "https://shop.example./"] {
        assert_eq!(referrer_host(&["shop.example"], page, own), Value::Null, "{own}");
    }
    assert_eq!(referrer_host(&[], "https://acme.example./x", "https://acme.example/"), Value::Null);
}

#[test]
fn a_wildcard_covers_its_domain_and_all_subdomains() {
    let page = "https://acme.example/x";
    for own in
        ["shop.example", "www.shop.example", "a.shop.example", "a.b.SHOP.example:81", "www.a.shop.example"]
    {
        let referrer = format!("https://{own}/");
        assert_eq!(referrer_host(&["*.shop.example"], page, &referrer), Value::Null, "{own}");
    }
    for other in ["myshop.example", "shop.example.org", "example", "op.example", "ébshop.example"] {
        let referrer = format!("https://{other}/");
        assert_eq!(referrer_host(&["*.shop.example"], page, &referrer), other);
    }
}

#[test]
fn a_referrer_that_the_site_ignores_makes_no_touch_without_a_campaign() {
    let touch = |ignored: &[&'static str], ignores_providers, url: &str, referrer: &str| {
        let mut server = Server::new();
        server.environment.ignored_referrers = ignored.to_vec();
        server.environment.ignores_providers = ignores_providers;
        let members = page(json!({"properties": {"url": url, "referrer": referrer}}));
        let record = server.post(&REQUEST, "/v1/page", members.as_bytes()).record();
        ["referrerHost", "source"].map(|name| record[name].clone())
    };
    let (url, none) = ("https://acme.example/thanks", [Value::Null, Value::Null]);
    let ours = ["pay.example", "*.bank.example"];
    for host in ["pay.example", "WWW.Pay.Example", "pay.example.", "bank.example:444", "a.b.BANK.example"] {
        let referrer = format!("https://{host}/c/1");
        assert_eq!(touch(&ours, true, url, &referrer), none, "{host}");
        assert_ne!(touch(&[], true, url, &referrer), none, "{host}");
    }
    for host in ["a.pay.example", "notbank.example", "example"] {
        assert_eq!(touch(&ours, true, url, &format!("https://{host}/")), [json!(host), Value::Null]);
    }
    let stripe = "https://checkout.stripe.com/c/pay";
    assert_eq!(touch(&[], true, url, stripe), none);
    assert_eq!(touch(&[], false, url, stripe), [json!("checkout.stripe.com"), Value::Null]);
    assert_eq!(touch(&["*.stripe.com"], false, url, stripe), none);
    let campaign = format!("{url}?utm_source=mail");
    assert_eq!(touch(&[], true, &campaign, stripe), [Value::Null, json!("mail")], "a campaign is a touch");
}

#[test]
fn only_page_events_have_columns_of_a_touch() {
    let context = json!({"campaign": {"source": "mail"}, "page": {"url": "https://acme.example/", "referrer": "https://b.example/"}});
    for (path, event) in [
        ("/v1/page", page(json!({ "context": context }))),
        ("/v1/track", track(json!({ "context": context }))),
    ] {
        let record = post(path, event).record();
        let is_page = path == "/v1/page";
        assert_eq!(record["source"] == "mail", is_page, "{path}");
        assert_eq!(record["referrerHost"] == "b.example", is_page, "{path}");
    }
}

#[test]
fn without_a_known_host_of_the_site_no_referrer_is_external() {
    for url in ["", "/x"] {
        assert_eq!(referrer_host(&[], url, "https://search.example/"), Value::Null, "{url}");
        assert_eq!(referrer_host(&["acme.example"], url, "https://search.example/"), "search.example");
        assert_eq!(referrer_host(&["acme.example"], url, "https://acme.example/"), Value::Null);
    }
}

#[test]
fn the_page_of_a_request_is_its_referer_if_the_event_has_no_url() {
    let request = RequestFacts { referer: Some("https://acme.example/?utm_source=mail"), ..REQUEST };
    let touch = touch_at(&[], &request, json!({"properties": {"referrer": "https://search.example/"}}));
    assert_eq!(touch, [json!("search.example"), json!("mail"), Value::Null, Value::Null]);
}

#[test]
fn a_campaign_is_exported_from_the_context_or_else_from_the_url() {
    let url = "https://acme.example/?utm_source=s&utm_medium=m%20m&utm_campaign=c";
    let properties = json!({ "url": url });
    let from_url = [Value::Null, json!("s"), json!("m m"), json!("c")];
    assert_eq!(touch_at(&[], &REQUEST, json!({ "properties": properties })), from_url);
    let context = json!({"campaign": {"name": "spring", "source": "mail"}});
    let from_context = [Value::Null, json!("mail"), Value::Null, json!("spring")];
    assert_eq!(
        touch_at(&[], &REQUEST, json!({ "properties": properties, "context": context })),
        from_context
    );
    let gclid = json!({"properties": {"url": "https://acme.example/?gclid=1&fbclid=2"}});
    assert_eq!(touch_at(&[], &REQUEST, gclid), [const { Value::Null }; 4]);
}
