//! The context of an event, merged with that of its batch: previews, consent, crawlers, addresses.

use std::net::IpAddr;

use parallax::testing::events::ip::IpPolicy;
use parallax::testing::events::request::{BotPolicy, Policy, RequestFacts};
use serde_json::{Value, json};

use super::{Outcome, REQUEST, page, post, post_as, track};

/// Returns the stored context of an event in a batch with a context of its own.
fn merged_context(own: Value, batch: Value) -> Value {
    let mut event = json!({"anonId": "v1", "event": "e"});
    if own != json!("left out") {
        event["context"] = own;
    }
    let outcome = post("/v1/batch", json!({"context": batch, "batch": [event]}).to_string());
    outcome.record()["payload"]["context"].clone()
}

#[test]
fn the_context_of_an_event_overrides_that_of_its_batch() {
    for (own, batch, merged) in [
        (json!("left out"), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        (json!({}), json!({"a": 1}), json!({"a": 1})),
        (json!(null), json!({"a": 1}), json!({"a": 1})),
        (json!({"a": 2}), json!({"a": 1, "b": 1}), json!({"a": 2, "b": 1})),
        (json!({"a": {"x": 1}}), json!({"a": {"x": 2, "y": 2}}), json!({"a": {"x": 1, "y": 2}})),
        (json!({"a": {"x": {"p": 1}}}), json!({"a": {"x": {"q": 2}}}), json!({"a": {"x": {"p": 1, "q": 2}}})),
        (json!({"a": [1]}), json!({"a": [2, 3]}), json!({"a": [1]})),
        (json!({"a": 1}), json!({"a": {"x": 2}}), json!({"a": 1})),
        (json!({"a": {"x": 1}}), json!({"a": 2}), json!({"a": {"x": 1}})),
        (json!({"a": null, "b": ""}), json!({"a": {"x": 2}, "b": 3}), json!({"a": {"x": 2}, "b": 3})),
        (json!({"a": null}), json!({"b": 3}), json!({"a": null, "b": 3})),
        (json!({"a": false, "b": 0}), json!({"a": true, "b": 3}), json!({"a": false, "b": 0})),
    ] {
        assert_eq!(merged_context(own.clone(), batch.clone()), merged, "{own} over {batch}");
    }
}

#[test]
fn an_empty_context_is_stored_as_sent() {
    assert_eq!(post("/v1/page", page(json!({"context": null}))).record()["payload"]["context"], Value::Null);
    assert_eq!(post("/v1/page", page(json!({"context": {}}))).record()["payload"]["context"], json!({}));
    assert_eq!(post("/v1/page", page(json!({}))).record()["payload"].get("context"), None);
}

/// Returns the reason for which a single event is dropped.
fn drop_reason(outcome: &Outcome) -> Option<&'static str> {
    let results = outcome.results.as_ref().expect("the body is valid");
    assert_eq!(outcome.lines.len(), usize::from(results.single_drop_reason().is_none()));
    results.single_drop_reason().map(|reason| reason.name())
}

fn drop_reason_for(request: &RequestFacts<'_>, context: Value) -> Option<&'static str> {
    drop_reason(&post_as(request, "/v1/track", track(json!({"context": context}))))
}

#[test]
fn previews_are_dropped() {
    assert_eq!(drop_reason_for(&REQUEST, json!({"preview": true})), Some("preview"));
    assert_eq!(drop_reason_for(&REQUEST, json!({"preview": false})), None);
    assert_eq!(drop_reason_for(&RequestFacts { is_preview: true, ..REQUEST }, json!({})), Some("preview"));
}

#[test]
fn events_without_consent_are_dropped() {
    let honoring = Policy { honor_gpc: true, ..REQUEST.policy };
    assert_eq!(drop_reason_for(&REQUEST, json!({"consent": {"measure": false}})), Some("no_consent"));
    assert_eq!(drop_reason_for(&REQUEST, json!({"consent": {"measure": true}})), None);
    assert_eq!(drop_reason_for(&REQUEST, json!({"consent": {"measure": null}})), None);
    assert_eq!(drop_reason_for(&RequestFacts { gpc: true, ..REQUEST }, json!({})), None);
    assert_eq!(
        drop_reason_for(&RequestFacts { gpc: true, policy: honoring, ..REQUEST }, json!({})),
        Some("no_consent")
    );
    assert_eq!(drop_reason_for(&RequestFacts { policy: honoring, ..REQUEST }, json!({})), None);
    assert_eq!(
        post_as(&RequestFacts { gpc: true, ..REQUEST }, "/v1/track", track(json!({}))).record()["gpc"],
        true
    );
}

#[test]
fn an_event_may_override_the_consent_of_its_batch() {
    let batch = json!({"context": {"consent": {"measure": false, "x": 1}}, "batch": [
        {"anonId": "v", "event": "e"},
        {"anonId": "v", "event": "e", "context": {"consent": {"measure": true}}},
        {"anonId": "v", "event": "e", "context": {"consent": {"y": 1}}},
    ]});
    let outcome = post("/v1/batch", batch.to_string());
    assert_eq!(outcome.record()["payload"]["context"]["consent"], json!({"measure": true, "x": 1}));
    assert_eq!(outcome.receipt()["dropped"], 2);
}

#[test]
fn the_site_policy_drops_flags_or_keeps_crawlers() {
    let crawler = json!({"userAgent": "Mozilla/5.0 (compatible; Googlebot/2.1)"});
    let of = |bots| RequestFacts { policy: Policy { bots, ..REQUEST.policy }, ..REQUEST };
    let sent = |bots, context: &Value| post_as(&of(bots), "/v1/track", track(json!({"context": context})));
    assert_eq!(drop_reason(&sent(BotPolicy::Drop, &crawler)), Some("bot"));
    assert_eq!(sent(BotPolicy::Flag, &crawler).record()["bot"], true);
    assert_eq!(sent(BotPolicy::Keep, &crawler).record()["bot"], true);
    for bots in [BotPolicy::Drop, BotPolicy::Flag, BotPolicy::Keep] {
        assert_eq!(sent(bots, &json!({"userAgent": "Mozilla/5.0 Firefox/140.0"})).record()["bot"], false);
        assert_eq!(sent(bots, &json!({})).record()["bot"], false);
    }
}

#[test]
fn the_user_agent_of_the_context_overrides_the_header() {
    let request = RequestFacts { user_agent: Some("Googlebot"), ..REQUEST };
    assert_eq!(post_as(&request, "/v1/track", track(json!({}))).record()["bot"], true);
    let own = track(json!({"context": {"userAgent": "Mozilla/5.0"}}));
    assert_eq!(post_as(&request, "/v1/track", own).record()["bot"], false);
}

#[test]
fn preview_is_the_first_drop_reason_and_bot_the_last() {
    let request = RequestFacts {
        policy: Policy { bots: BotPolicy::Drop, ..REQUEST.policy },
        user_agent: Some("Googlebot"),
        ..REQUEST
    };
    let no = json!({"measure": false});
    assert_eq!(drop_reason_for(&request, json!({"preview": true, "consent": no})), Some("preview"));
    assert_eq!(drop_reason_for(&request, json!({"consent": no})), Some("no_consent"));
    assert_eq!(drop_reason_for(&request, json!({})), Some("bot"));
}

#[test]
fn an_invalid_event_is_refused_in_a_preview_too() {
    let request = RequestFacts { is_preview: true, ..REQUEST };
    assert_eq!(post_as(&request, "/v1/track", "{\"anonId\":\"v\"}").code(), "invalid_event");
}

/// Returns the stored address and the stored context.
fn address(policy: IpPolicy, peer: &str, context: Value) -> (Value, Value) {
    let peer: IpAddr = peer.parse().expect("an address");
    let request = RequestFacts { policy: Policy { ip: policy, ..REQUEST.policy }, peer, ..REQUEST };
    let outcome = post_as(&request, "/v1/track", track(json!({"context": context})));
    (outcome.record()["ip"].clone(), outcome.record()["payload"]["context"].clone())
}

#[test]
fn no_address_is_stored_unless_the_site_opts_in() {
    let sent = json!({"ip": "203.0.113.9", "a": 1});
    let none = address(IpPolicy::None, "198.51.100.7", sent.clone());
    assert_eq!(none, (json!(null), json!({"a": 1})));
    let full = address(IpPolicy::Full, "198.51.100.7", sent.clone());
    assert_eq!(full, (json!("203.0.113.9"), sent.clone()));
    let truncated = address(IpPolicy::Truncated, "198.51.100.7", sent);
    assert_eq!(truncated, (json!("203.0.113.0"), json!({"ip": "203.0.113.0", "a": 1})));
}

#[test]
fn the_peer_address_is_stored_if_the_context_has_none() {
    for (peer, full, truncated) in [
        ("198.51.100.7", "198.51.100.7", "198.51.100.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ("::ffff:198.51.100.7", "198.51.100.7", "198.51.100.0"),
    ] {
        for nothing in [json!({}), json!({"ip": null}), json!({"ip": "unknown"})] {
            assert_eq!(address(IpPolicy::Full, peer, nothing.clone()).0, full);
            let (ip, context) = address(IpPolicy::Truncated, peer, nothing);
            assert_eq!((ip, context), (json!(truncated), json!({})), "the payload contains no address");
        }
    }
}

#[test]
fn an_address_in_a_batch_context_is_not_stored_either() {
    let batch = json!({"context": {"ip": "203.0.113.9"}, "batch": [
        {"anonId": "v", "event": "e", "context": {"a": 1}},
        {"anonId": "v", "event": "e"},
    ]});
    let outcome = post("/v1/batch", batch.to_string());
    assert!(outcome.lines.iter().all(|line| !line.contains("203.0.113")), "{:?}", outcome.lines);
}

/// Sends a context to a site that measures under these categories of a consent manager.
fn drop_reason_by_category(categories: &[&'static str], context: Value) -> Option<&'static str> {
    let mut server = super::Server::new();
    server.environment.measure_categories = categories.to_vec();
    drop_reason(&server.post(&REQUEST, "/v1/track", track(json!({"context": context})).as_bytes()))
}

#[test]
fn categories_of_a_consent_manager_count_only_with_the_setting() {
    let preferences = |all: Value| json!({"consent": {"categoryPreferences": all}});
    let (both, none) = (&["Analytics", "Advertising"][..], &[][..]);
    for (categories, context, reason) in [
        (none, preferences(json!({"Analytics": false, "Advertising": false})), None),
        (both, preferences(json!({"Analytics": true, "Advertising": true, "Other": false})), None),
        (both, preferences(json!({"Analytics": true, "Advertising": false})), Some("no_consent")),
        (both, preferences(json!({"Analytics": true})), Some("no_consent")),
        (both, preferences(json!({"Analytics": "true", "Advertising": true})), Some("no_consent")),
        (both, preferences(json!({})), Some("no_consent")),
        (both, preferences(json!("all")), Some("no_consent")),
        (both, json!({"consent": {"measure": true}}), None),
        (both, json!({}), None),
    ] {
        assert_eq!(drop_reason_by_category(categories, context.clone()), reason, "{categories:?} {context}");
    }
}

#[test]
fn a_library_of_apps_states_device_and_system() {
    let named = |context: Value, user_agent: Option<&'static str>| {
        let request = RequestFacts { user_agent, ..REQUEST };
        let record = post_as(&request, "/v1/track", track(json!({"context": context}))).record();
        (record["device"].clone(), record["os"].clone())
    };
    for (context, device, os) in [
        (
            json!({"device": {"type": "ios", "name": "iPhone"}, "os": {"name": "iOS"}}),
            json!("mobile"),
            json!("iOS"),
        ),
        (
            json!({"device": {"type": "ios", "model": "iPad13,1"}, "os": {"name": "iPadOS"}}),
            json!("tablet"),
            json!("iOS"),
        ),
        (
            json!({"device": {"type": "Android", "name": "Pixel 8"}, "os": {"name": "Android"}}),
            json!("mobile"),
            json!("Android"),
        ),
        (json!({"device": {"type": "android", "name": "Galaxy Tab S9"}}), json!("tablet"), json!(null)),
        (
            json!({"device": {"type": "desktop"}, "os": {"name": "Mac OS X"}}),
            json!("desktop"),
            json!("macOS"),
        ),
        (json!({"device": {"type": "fridge"}, "os": {"name": "Tizen"}}), json!(null), json!(null)),
        (json!({"device": 1, "os": []}), json!(null), json!(null)),
    ] {
        assert_eq!(named(context.clone(), None), (device, os), "{context}");
    }
    let context = json!({"device": {"type": "desktop"}, "os": {"name": "Windows"}});
    assert_eq!(
        named(context, Some("a browser")),
        (json!("mobile"), json!("iOS")),
        "the User-Agent comes first"
    );
}
