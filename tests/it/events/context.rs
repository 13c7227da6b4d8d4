//! What an event's context says, with that of its batch under it: previews, consent, crawlers, addresses.

use std::net::IpAddr;

use parallax::visitors::events::decode::{Bots, Call, Policy};
use parallax::visitors::events::ip::IpPolicy;
use serde_json::{Value, json};

use super::{CALL, Outcome, page, post, post_as, track};

/// The stored context of an event whose context lies over that of a batch.
fn laid_over(own: Value, under: Value) -> Value {
    let mut event = json!({"anonId": "v1", "event": "e"});
    if own != json!("left out") {
        event["context"] = own;
    }
    let outcome = post("/v1/batch", json!({"context": under, "batch": [event]}).to_string());
    outcome.record()["payload"]["context"].clone()
}

#[test]
fn a_batchs_context_lies_under_that_of_each_event() {
    for (own, under, both) in [
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
        assert_eq!(laid_over(own.clone(), under.clone()), both, "{own} over {under}");
    }
}

#[test]
fn a_context_that_says_nothing_is_kept_as_sent() {
    assert_eq!(post("/v1/page", page(json!({"context": null}))).record()["payload"]["context"], Value::Null);
    assert_eq!(post("/v1/page", page(json!({"context": {}}))).record()["payload"]["context"], json!({}));
    assert_eq!(post("/v1/page", page(json!({}))).record()["payload"].get("context"), None);
}

/// Why a single event is dropped.
fn drop_of(outcome: &Outcome) -> Option<&'static str> {
    let fates = outcome.fates.as_ref().expect("understood");
    assert_eq!(outcome.lines.len(), usize::from(fates.single_drop().is_none()));
    fates.single_drop().map(|reason| reason.name())
}

fn dropped(call: &Call<'_>, context: Value) -> Option<&'static str> {
    drop_of(&post_as(call, "/v1/track", track(json!({"context": context}))))
}

#[test]
fn previews_are_dropped() {
    assert_eq!(dropped(&CALL, json!({"preview": true})), Some("preview"));
    assert_eq!(dropped(&CALL, json!({"preview": false})), None);
    assert_eq!(dropped(&Call { preview: true, ..CALL }, json!({})), Some("preview"));
}

#[test]
fn what_a_visitor_does_not_want_measured_is_dropped() {
    let honoring = Policy { honor_gpc: true, ..CALL.policy };
    assert_eq!(dropped(&CALL, json!({"consent": {"measure": false}})), Some("no_consent"));
    assert_eq!(dropped(&CALL, json!({"consent": {"measure": true}})), None);
    assert_eq!(dropped(&CALL, json!({"consent": {"measure": null}})), None);
    assert_eq!(dropped(&Call { gpc: true, ..CALL }, json!({})), None);
    assert_eq!(dropped(&Call { gpc: true, policy: honoring, ..CALL }, json!({})), Some("no_consent"));
    assert_eq!(dropped(&Call { policy: honoring, ..CALL }, json!({})), None);
    assert_eq!(post_as(&Call { gpc: true, ..CALL }, "/v1/track", track(json!({}))).record()["gpc"], true);
}

#[test]
fn consent_may_be_the_batchs_and_the_event_may_differ() {
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
fn crawlers_are_dropped_flagged_or_kept_as_the_site_says() {
    let crawler = json!({"userAgent": "Mozilla/5.0 (compatible; Googlebot/2.1)"});
    let of = |bots| Call { policy: Policy { bots, ..CALL.policy }, ..CALL };
    let sent = |bots, context: &Value| post_as(&of(bots), "/v1/track", track(json!({"context": context})));
    assert_eq!(drop_of(&sent(Bots::Drop, &crawler)), Some("bot"));
    assert_eq!(sent(Bots::Flag, &crawler).record()["bot"], true);
    assert_eq!(sent(Bots::Keep, &crawler).record()["bot"], false);
    for bots in [Bots::Drop, Bots::Flag, Bots::Keep] {
        assert_eq!(sent(bots, &json!({"userAgent": "Mozilla/5.0 Firefox/140.0"})).record()["bot"], false);
        assert_eq!(sent(bots, &json!({})).record()["bot"], false);
    }
}

#[test]
fn the_agent_is_the_contexts_else_the_headers() {
    let call = Call { user_agent: Some("Googlebot"), ..CALL };
    assert_eq!(post_as(&call, "/v1/track", track(json!({}))).record()["bot"], true);
    let own = track(json!({"context": {"userAgent": "Mozilla/5.0"}}));
    assert_eq!(post_as(&call, "/v1/track", own).record()["bot"], false);
}

#[test]
fn of_several_reasons_preview_goes_first_and_the_crawler_last() {
    let call =
        Call { policy: Policy { bots: Bots::Drop, ..CALL.policy }, user_agent: Some("Googlebot"), ..CALL };
    let no = json!({"measure": false});
    assert_eq!(dropped(&call, json!({"preview": true, "consent": no})), Some("preview"));
    assert_eq!(dropped(&call, json!({"consent": no})), Some("no_consent"));
    assert_eq!(dropped(&call, json!({})), Some("bot"));
}

#[test]
fn a_mistake_shows_in_a_preview_too() {
    let call = Call { preview: true, ..CALL };
    assert_eq!(post_as(&call, "/v1/track", "{\"anonId\":\"v\"}").code(), "invalid_event");
}

/// The stored address and the stored context.
fn address(policy: IpPolicy, peer: &str, context: Value) -> (Value, Value) {
    let peer: IpAddr = peer.parse().expect("an address");
    let call = Call { policy: Policy { ip: policy, ..CALL.policy }, peer, ..CALL };
    let outcome = post_as(&call, "/v1/track", track(json!({"context": context})));
    (outcome.record()["ip"].clone(), outcome.record()["payload"]["context"].clone())
}

#[test]
fn no_address_is_stored_unless_the_site_asks() {
    let sent = json!({"ip": "203.0.113.9", "a": 1});
    let none = address(IpPolicy::None, "198.51.100.7", sent.clone());
    assert_eq!(none, (json!(null), json!({"a": 1})));
    let full = address(IpPolicy::Full, "198.51.100.7", sent.clone());
    assert_eq!(full, (json!("203.0.113.9"), sent.clone()));
    let truncated = address(IpPolicy::Truncated, "198.51.100.7", sent);
    assert_eq!(truncated, (json!("203.0.113.0"), json!({"ip": "203.0.113.0", "a": 1})));
}

#[test]
fn an_address_is_the_peers_where_none_is_passed_on() {
    for (peer, full, truncated) in [
        ("198.51.100.7", "198.51.100.7", "198.51.100.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ("::ffff:198.51.100.7", "198.51.100.7", "198.51.100.0"),
    ] {
        for nothing in [json!({}), json!({"ip": null}), json!({"ip": "unknown"})] {
            assert_eq!(address(IpPolicy::Full, peer, nothing.clone()).0, full);
            let (ip, context) = address(IpPolicy::Truncated, peer, nothing);
            assert_eq!((ip, context), (json!(truncated), json!({})), "no address stands in the payload");
        }
    }
}

#[test]
fn an_address_of_the_batchs_context_is_not_stored_either() {
    let batch = json!({"context": {"ip": "203.0.113.9"}, "batch": [
        {"anonId": "v", "event": "e", "context": {"a": 1}},
        {"anonId": "v", "event": "e"},
    ]});
    let outcome = post("/v1/batch", batch.to_string());
    assert!(outcome.lines.iter().all(|line| !line.contains("203.0.113")), "{:?}", outcome.lines);
}
