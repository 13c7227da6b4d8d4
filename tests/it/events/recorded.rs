//! The context members of a record and its `experiments`.

use parallax::testing::record::Code;
use serde_json::{Value, json};

use super::{REQUEST, RequestFacts, page, post, post_as, track};

const CONTEXT: [&str; 5] = ["device", "os", "browser", "country", "language"];

fn context_of(request: &RequestFacts<'_>, members: Value) -> [Value; 5] {
    let record = post_as(request, "/v1/track", track(members)).record();
    CONTEXT.map(|name| record[name].clone())
}

#[test]
fn the_context_of_the_request_is_recorded_and_that_of_the_event_wins() {
    assert_eq!(context_of(&REQUEST, json!({})), [const { Value::Null }; 5]);
    let request = RequestFacts {
        user_agent: Some("Mozilla/5.0 (iPhone)"),
        country: Code::new(b"FR"),
        language: Code::new(b"fr"),
        ..REQUEST
    };
    let of_request = ["mobile", "iOS", "Safari", "FR", "fr"].map(Value::from);
    assert_eq!(context_of(&request, json!({})), of_request);
    let own = json!({"context": {"userAgent": "Googlebot", "country": "de", "locale": "haw-US"}});
    let crawler = [json!("bot"), Value::Null, Value::Null, json!("DE"), json!("haw")];
    assert_eq!(context_of(&request, own), crawler);
    let location = json!({"context": {"location": {"country": "at"}}});
    assert_eq!(context_of(&request, location)[3], "AT");
}

#[test]
fn an_unusable_country_counts_as_none_and_an_unusable_locale_as_unknown() {
    let request = RequestFacts { country: Code::new(b"FR"), language: Code::new(b"fr"), ..REQUEST };
    for country in ["Germany", "D", "d-", "é"] {
        let context = json!({"context": {"country": country}});
        assert_eq!(context_of(&request, context)[3], "FR", "{country}");
    }
    for (locale, language) in
        [("de", json!("de")), ("DE_at", json!("de")), ("d", Value::Null), ("germ", Value::Null)]
    {
        assert_eq!(context_of(&request, json!({"context": {"locale": locale}}))[4], language, "{locale}");
    }
}

#[test]
fn a_batch_shares_its_context_members_with_its_events() {
    let batch = json!({"context": {"country": "de", "locale": "de-DE"}, "batch": [
        {"type": "track", "anonId": "v", "event": "e"},
        {"type": "track", "anonId": "v", "event": "e", "context": {"country": "fr", "locale": "fr"}}]});
    let records = post("/v1/batch", batch.to_string()).records();
    let members = |record: &Value| [record["country"].clone(), record["language"].clone()];
    assert_eq!(
        records.iter().map(members).collect::<Vec<_>>(),
        [[json!("DE"), json!("de")], [json!("FR"), json!("fr")]]
    );
}

#[test]
fn experiments_of_page_and_track_events_are_recorded_as_they_were_sent() {
    let text = "cta-colour:b,slow_front:~,x:default";
    assert_eq!(post("/v1/track", track(json!({ "experiments": text }))).record()["experiments"], text);
    assert_eq!(post("/v1/page", page(json!({ "experiments": text }))).record()["experiments"], text);
    for absent in [json!({}), json!({"experiments": null}), json!({"experiments": ""})] {
        assert_eq!(post("/v1/track", track(absent)).record()["experiments"], Value::Null);
    }
    let identify = json!({"anonId": "v", "userId": "u", "experiments": 1}).to_string();
    assert_eq!(post("/v1/identify", identify).record()["experiments"], Value::Null);
}

/// Returns the column `experiments` of an `Experiment Viewed` event with these properties.
fn exposure(properties: Value) -> Value {
    let event = json!({"anonId": "v", "event": "Experiment Viewed", "properties": properties});
    post("/v1/track", event.to_string()).record()["experiments"].clone()
}

#[test]
fn an_experiment_viewed_event_is_an_exposure() {
    for properties in [
        json!({"experiment_id": "cta", "variation_id": "b"}),
        json!({"experimentId": "cta", "variationId": "b"}),
        json!({"experiment_id": "cta", "experiment_name": "CTA", "variation_name": "b"}),
        json!({"experimentId": "x", "experiment_id": "cta", "variation_name": "y", "variationId": "z", "variation_id": "b"}),
        json!({"experiment_id": null, "experimentId": "cta", "variation_id": null, "variationId": null, "variation_name": "b"}),
    ] {
        assert_eq!(exposure(properties.clone()), "cta:b", "{properties}");
    }
    assert_eq!(exposure(json!({"experiment_id": 7, "variation_id": 1})), "7:1");
    assert_eq!(
        exposure(json!({"experiment_id": "k".repeat(64), "variation_id": "b"})),
        format!("{}:b", "k".repeat(64))
    );
}

#[test]
fn an_experiment_viewed_event_without_a_valid_pair_is_an_ordinary_event() {
    for properties in [
        json!({}),
        json!({"experiment_id": "cta"}),
        json!({"variation_id": "b"}),
        json!({"experiment_id": "cta", "variation_id": null}),
        json!({"experiment_id": "cta", "variation_id": ""}),
        json!({"experiment_id": "cta", "variation_id": "", "variation_name": "b"}),
        json!({"experiment_id": "cta", "variation_id": "~"}),
        json!({"experiment_id": "cta", "variation_id": "a b"}),
        json!({"experiment_id": "cta colour", "experimentId": "cta", "variation_id": "b"}),
        json!({"experiment_id": "k".repeat(65), "variation_id": "b"}),
        json!({"experiment_id": {"a": 1}, "variation_id": ["b"]}),
        json!({"experiment_id": 1.5, "variation_id": "b"}),
    ] {
        assert_eq!(exposure(properties.clone()), Value::Null, "{properties}");
    }
    assert_eq!(exposure(Value::Null), Value::Null);
    let named =
        |event: &str| json!({"event": event, "properties": {"experiment_id": "cta", "variation_id": "b"}});
    for other in ["Experiment viewed", "Experiment Viewed "] {
        assert_eq!(post("/v1/track", track(named(other))).record()["experiments"], Value::Null, "{other}");
    }
    assert_eq!(post("/v1/page", page(named("Experiment Viewed"))).record()["experiments"], Value::Null);
}

#[test]
fn experiments_of_an_event_win_over_those_of_experiment_viewed() {
    for (own, recorded) in
        [(json!("hero:~,cta:a"), "hero:~,cta:a"), (json!(""), "cta:b"), (Value::Null, "cta:b")]
    {
        let event = json!({"anonId": "v", "event": "Experiment Viewed", "experiments": own,
            "properties": {"experiment_id": "cta", "variation_id": "b"}});
        assert_eq!(post("/v1/track", event.to_string()).record()["experiments"], recorded, "{own}");
    }
}

#[test]
fn empty_variants_are_the_baseline_and_recorded_as_present() {
    for (sent, recorded) in [(json!(""), json!("")), (Value::Null, Value::Null), (json!("a:b"), json!("a:b"))]
    {
        assert_eq!(post("/v1/page", page(json!({ "variants": sent }))).record()["variants"], recorded);
    }
    assert_eq!(post("/v1/page", page(json!({}))).record()["variants"], Value::Null);
}

#[test]
fn malformed_experiments_are_refused_with_their_place() {
    let pairs = |count: usize| (0..count).map(|n| format!("k{n}:b")).collect::<Vec<_>>().join(",");
    for accepted in [pairs(63), pairs(64), format!("{0}:{0}", "k".repeat(64))] {
        assert_eq!(post("/v1/track", track(json!({ "experiments": accepted }))).records().len(), 1);
    }
    let wrong = [
        json!(pairs(65)),
        json!("a"),
        json!("a:"),
        json!(":b"),
        json!("a:b,"),
        json!("a:b,a:c"),
        json!("~:b"),
        json!("a:b c"),
        json!(format!("{}:b", "k".repeat(65))),
        json!({"a": "b"}),
        json!(["a:b"]),
    ];
    for experiments in wrong {
        let problem = post("/v1/track", track(json!({ "experiments": experiments }))).problem();
        assert_eq!(
            (&problem["code"], &problem["pointer"]),
            (&json!("invalid_event"), &json!("/experiments"))
        );
    }
}
