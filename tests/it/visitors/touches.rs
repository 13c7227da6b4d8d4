//! Touches: the events that make one, and the texts that it keeps.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::shown::{TouchView, touch_view};
use super::{NOW_MS, SentEvent, World};
use crate::dice::Dice;

fn touch(payload: Value) -> Option<TouchView> {
    let mut world = World::after(&[SentEvent::page("/landing", NOW_MS).of_anon("v").with(payload)]);
    let profile = world.profile_of_anon("v").expect("a profile");
    let touch = profile.last_touch().map(touch_view);
    assert_eq!(touch, profile.first_touch().map(touch_view));
    touch
}

/// Returns source, medium, campaign, term, content and referrer of the touch.
fn texts(payload: Value) -> Option<[Option<String>; 6]> {
    let (texts, at_ms) = touch(payload)?;
    let [source, medium, campaign, term, content, referrer, landing] = texts;
    assert_eq!((landing.as_deref(), at_ms), (Some("/landing"), NOW_MS));
    Some([source, medium, campaign, term, content, referrer])
}

fn expected(texts: [&str; 6]) -> Option<[Option<String>; 6]> {
    Some(texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty())))
}

#[test]
fn a_campaign_of_the_context_is_a_touch() {
    let campaign = json!({"name": "spring", "source": "mail", "medium": "m", "term": "t", "content": "c"});
    let payload = json!({"context": {"campaign": campaign}});
    assert_eq!(texts(payload), expected(["mail", "m", "spring", "t", "c", ""]));
    assert_eq!(texts(json!({"context": {"campaign": {"name": ""}}})), None);
    assert_eq!(texts(json!({"context": {"campaign": {"other": "x"}}})), None);
}

#[test]
fn the_url_campaign_is_a_touch_if_the_context_has_none() {
    let url =
        "https://acme.example/x?utm_source=a%20b&utm_medium=c+d&utm_campaign=&utm_term=t#utm_content=no";
    let campaign_touch = expected(["a b", "c d", "", "t", "", ""]);
    assert_eq!(texts(json!({"properties": {"url": url}})), campaign_touch);
    assert_eq!(texts(json!({"context": {"page": {"url": url}}})), campaign_touch);
    assert_eq!(texts(json!({"properties": {"url": "https://acme.example/x?a=b"}})), None);
    let both = json!({"properties": {"url": url}, "context": {"campaign": {"name": "spring"}}});
    assert_eq!(texts(both), expected(["", "", "spring", "", "", ""]));
}

#[test]
fn a_referrer_on_another_host_is_a_touch() {
    let page = |url: &str, referrer: &str| texts(json!({"properties": {"url": url, "referrer": referrer}}));
    let campaign_touch = expected(["", "", "", "", "", "https://search.example/?q=x"]);
    assert_eq!(page("https://acme.example/x", "https://search.example/?q=x"), campaign_touch);
    assert_eq!(page("https://acme.example/x", "https://ACME.example:8443/y"), None);
    assert_eq!(page("https://me:pw@acme.example/x", "https://acme.example"), None);
    assert_eq!(page("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]/y"), None);
    // A relative URL does not name its host.
    assert_eq!(page("/x", "https://search.example/"), None);
    assert_eq!(page("https://acme.example/x", "/y"), None);
    let context =
        json!({"context": {"page": {"url": "https://a.example/", "referrer": "https://b.example/"}}});
    assert_eq!(texts(context), expected(["", "", "", "", "", "https://b.example/"]));
}

#[test]
fn a_campaign_keeps_only_a_referrer_on_another_host() {
    let page = |referrer: &str| {
        let properties = json!({"url": "https://acme.example/?utm_source=s", "referrer": referrer});
        texts(json!({ "properties": properties }))
    };
    assert_eq!(page("https://b.example/"), expected(["s", "", "", "", "", "https://b.example/"]));
    assert_eq!(page("https://acme.example/y"), expected(["s", "", "", "", "", ""]));
}

#[test]
fn only_a_page_view_is_a_touch() {
    let campaign = json!({"context": {"campaign": {"name": "spring"}}});
    let mut world = World::after(&[
        SentEvent::track("Viewed", NOW_MS).of_anon("v").with(campaign.clone()),
        SentEvent::identify(&json!({}), NOW_MS).of_anon("v").with(campaign),
    ]);
    assert_eq!(world.profile_of_anon("v").expect("a profile").first_touch(), None);
}

#[test]
fn of_simultaneous_touches_the_first_and_the_last_are_kept() {
    let page = |name: &str| {
        SentEvent::page("/", NOW_MS).of_anon("v").with(json!({"context": {"campaign": {"name": name}}}))
    };
    let mut world = World::after(&[page("one"), page("two"), page("three")]);
    let profile = world.profile_of_anon("v").expect("a profile");
    let names = (profile.first_touch(), profile.last_touch());
    assert_eq!(names.0.and_then(|touch| touch.campaign), Some("one"));
    assert_eq!(names.1.and_then(|touch| touch.campaign), Some("three"));
}

/// Returns the shortest of five times for folding a page view whose payload repeats `text` `times` times.
fn shortest_fold(text: &str, times: usize) -> Duration {
    let sent =
        SentEvent::page("/landing", NOW_MS).of_anon("v").with(json!({"context": {"x": text.repeat(times)}}));
    let fold = || {
        let begun = Instant::now();
        World::after(std::slice::from_ref(&sent));
        begun.elapsed()
    };
    (0..5).map(|_| fold()).min().expect("a time")
}

#[test]
fn a_text_full_of_url_prefixes_takes_linear_time() {
    for text in ["://", "://a", "/", "//", "://@:]"] {
        let (short, long) = (shortest_fold(text, 4_000), shortest_fold(text, 64_000));
        // The text is 16 times as long. Linear time grows by 16, quadratic time by 256.
        assert!(long < 64 * short, "{text}: {short:?} and {long:?}");
    }
}

#[test]
fn a_touch_is_the_same_if_the_payload_has_to_be_parsed() {
    let urls = [
        "https://acme.example/x",
        "https://acme.example",
        "https://ACME.example:8443/y/z",
        "https://me@acme.example/",
        "https://search.example/",
        "https://other.example",
        "https://acme.example/?utm_source=a",
        "https://acme.example/?q",
        "https://acme.example/?a=b&utm_term=c",
        "https://acme.example/?%75tm_source=a",
        "https://acme.example/?ut%6D_source=a#utm_source=b",
        "https://acme.example?at=search.example",
        "https://acme.example/a://b",
        "://",
        "https://",
        "/x",
        "",
    ];
    let mut dice = Dice(7);
    let mut touches = 0;
    for _ in 0..3000 {
        let mut url = || *dice.pick(&urls);
        let mut payload =
            json!({"properties": {"url": url(), "referrer": url()}, "context": {"page": {"url": url()}}});
        let mut add_sometimes = |member: &str, value: Value| {
            if dice.below(4) == 0 {
                payload
                    .pointer_mut(member)
                    .and_then(Value::as_object_mut)
                    .expect("an object")
                    .extend([("campaign".to_owned(), value)]);
            }
        };
        add_sometimes("/context", json!({"source": "mail"}));
        add_sometimes("/properties", json!("spring"));
        let without_parsing = touch(payload.clone());
        touches += usize::from(without_parsing.is_some());
        // A payload with an escape is always parsed.
        payload["note"] = json!("\\");
        assert_eq!(without_parsing, touch(payload.clone()), "{payload}");
    }
    assert!((500..2500).contains(&touches), "{touches}");
}
