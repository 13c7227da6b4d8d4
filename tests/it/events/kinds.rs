//! The kind of an event: by endpoint, by type, by its members.

use parallax::testing::events::endpoint::{EventEndpoint, PATHS};
use serde_json::{Value, json};

use super::{Outcome, page, post, track};

const TYPES: [&str; 7] = ["page", "track", "identify", "profile", "screen", "group", "alias"];

/// Returns an event that is valid with any type.
fn event_of_any_kind() -> Value {
    json!({"anonId": "v1", "event": "e", "set": {"a": 1}, "traits": {}})
}

fn kind(outcome: &Outcome) -> Result<String, String> {
    match &outcome.results {
        Ok(results) if results.problem().is_none() => {
            Ok(outcome.record()["type"].as_str().expect("a type").to_owned())
        }
        _ => Err(outcome.code()),
    }
}

#[test]
fn the_members_of_an_untyped_event_decide_its_kind() {
    for bits in 0..32u32 {
        let has = |bit: u32| bits & 1 << bit != 0;
        let (event, traits, user, set, remove) = (has(0), has(1), has(2), has(3), has(4));
        let mut body = json!({"anonId": "v1"});
        for (is_set, name, value) in [
            (event, "event", json!("e")),
            (traits, "traits", json!({"a": 1})),
            (user, "userId", json!("u1")),
            (set, "set", json!({"a": 1})),
            (remove, "remove", json!({"a": [1]})),
        ] {
            if is_set {
                body[name] = value;
            }
        }
        let expected = match (event, set || remove, traits, user) {
            (true, true, ..) | (true, _, true, _) | (_, true, true, _) => Err("ambiguous_event"),
            (true, ..) => Ok("track"),
            (_, true, ..) => Ok("profile"),
            (_, _, true, _) | (.., true) => Ok("identify"),
            _ => Err("invalid_event"),
        };
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(kind(&post("/v1/track", body.to_string())), expected, "{body}");
        let batch = json!({"batch": [body]}).to_string();
        let in_batch = kind(&post("/v1/batch", batch)).map_err(|_| expected.clone().unwrap_err());
        assert_eq!(in_batch, expected, "{body}");
    }
}

#[test]
fn an_untyped_item_of_a_batch_has_the_type_of_the_endpoint_only_if_nothing_else_decides() {
    for (path, _) in PATHS.iter().filter(|(_, endpoint)| *endpoint != EventEndpoint::Batch) {
        let kind_of = |item: Value| kind(&post(path, json!({"batch": [item]}).to_string()));
        let alone = kind(&post(path, json!({"anonId": "v1"}).to_string()));
        assert_eq!(kind_of(json!({"anonId": "v1"})), alone, "{path}");
        assert_eq!(kind_of(json!({"anonId": "v1", "event": "e"})), Ok("track".to_owned()), "{path}");
        assert_eq!(kind_of(json!({"anonId": "v1", "set": {"a": 1}})), Ok("profile".to_owned()), "{path}");
        let ambiguous = json!({"anonId": "v1", "event": "e", "traits": {"a": 1}});
        assert!(kind_of(ambiguous).is_err(), "{path}");
    }
}

#[test]
fn null_and_empty_members_do_not_decide_the_kind() {
    for body in [
        json!({"anonId": "v1", "event": "e", "traits": null, "set": "", "type": null}),
        json!({"anonId": "v1", "event": "e", "traits": "", "union": null, "type": ""}),
    ] {
        assert_eq!(kind(&post("/v1/track", body.to_string())), Ok("track".to_owned()));
    }
}

#[test]
fn each_profile_operation_makes_a_profile_event() {
    for (name, value) in [
        ("set", json!({"a": null, "b": [1], "c": {}})),
        ("setOnce", json!({})),
        ("unset", json!(["a", "b"])),
        ("increment", json!({"a": -1.5, "b": 2})),
        ("append", json!({"a": 1, "b": [1, "x"]})),
        ("union", json!({"a": []})),
        ("remove", json!({"a": [1, null]})),
    ] {
        let body = json!({"anonId": "v1", name: value}).to_string();
        assert_eq!(kind(&post("/v1/track", &body)), Ok("profile".to_owned()), "{body}");
        let typed = json!({"anonId": "v1", "type": "profile", "event": "e", name: value}).to_string();
        assert_eq!(kind(&post("/v1/track", &typed)), Ok("profile".to_owned()), "{typed}");
    }
}

#[test]
fn a_single_event_must_have_a_type_of_its_endpoint() {
    let allowed = |endpoint: EventEndpoint| match endpoint {
        EventEndpoint::Page => &["page"][..],
        EventEndpoint::Track => &["track", "identify", "profile"],
        EventEndpoint::Identify => &["identify"],
        EventEndpoint::Screen => &["screen"],
        EventEndpoint::Group => &["group"],
        EventEndpoint::Alias => &["alias"],
        EventEndpoint::Batch => &[],
    };
    for (path, endpoint) in PATHS.iter().filter(|(_, endpoint)| *endpoint != EventEndpoint::Batch) {
        for sent_type in TYPES {
            let mut body = event_of_any_kind();
            body["type"] = json!(sent_type);
            let expected = match allowed(*endpoint).contains(&sent_type) {
                true => Ok(sent_type.to_owned()),
                false => Err("invalid_type".to_owned()),
            };
            assert_eq!(kind(&post(path, body.to_string())), expected, "{path} {sent_type}");
        }
        if *endpoint != EventEndpoint::Track {
            let own = allowed(*endpoint)[0].to_owned();
            assert_eq!(kind(&post(path, event_of_any_kind().to_string())), Ok(own), "{path}");
        }
    }
}

#[test]
fn a_batch_may_mix_types_at_any_endpoint() {
    for (path, _) in PATHS {
        let events: Vec<Value> = TYPES
            .iter()
            .map(|kind| {
                let mut event = event_of_any_kind();
                event["type"] = json!(kind);
                event
            })
            .chain([json!({"anonId": "v1", "event": "e"})])
            .collect();
        let outcome = post(path, json!({"batch": events}).to_string());
        let records = outcome.records();
        let kinds: Vec<&str> = records.iter().map(|r| r["type"].as_str().expect("a type")).collect();
        assert_eq!(kinds[..7], TYPES);
        assert_eq!(kinds[7], "track", "{path}");
    }
}

#[test]
fn only_track_and_screen_records_have_an_event_name() {
    let event = |path, body: &str| post(path, body).record()["event"].clone();
    assert_eq!(event("/v1/track", &track(json!({}))), "Viewed");
    assert_eq!(event("/v1/screen", &page(json!({"name": "Home"}))), "screen");
    assert_eq!(event("/v1/screen", &page(json!({"event": "x"}))), "screen");
    assert_eq!(event("/v1/identify", &track(json!({}))), Value::Null);
    assert_eq!(event("/v1/page", &page(json!({"name": "Home"}))), Value::Null);
    assert_eq!(post("/v1/page", page(json!({"name": "Home"}))).record()["name"], "Home");
}

#[test]
fn other_paths_are_not_event_endpoints() {
    for path in ["/v1/pages", "/v1", "/v1/", "/v1/Page", "/v1/resolve", "/p"] {
        assert_eq!(EventEndpoint::from_path(path), None);
    }
}
